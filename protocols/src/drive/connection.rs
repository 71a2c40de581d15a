//! One connection: a stream, the machine that speaks on it, and what is on its way between them.

use super::{
    Host, Turn,
    clock::{Clock, HostClock},
    input::Input,
    spare,
};
use crate::machine::{App, Fault, Next, Side, Step, StreamMachine};
use shardloop::{SendHalf, Stream};
use std::{
    error::Error,
    fmt,
    future::{Future, poll_fn},
    io,
    ops::Deref,
    pin::{Pin, pin},
    task::Poll,
};

/// A stream with a machine on it, server or client.
///
/// A client of [`length`](crate::length) that asks once and waits for the answer, at most a second for each piece of it:
///
/// ```no_run
/// use shardloop::{Backend, ConnectOptions, Error, StreamOptions, time::timeout};
/// use shardloop_protocols::{Flow, drive::{Connection, OnShard, Turned}, length::{Length, Reply}};
/// use std::{net::SocketAddr, time::Duration};
///
/// /// To be called on a shard.
/// async fn ask<B: Backend>(server: SocketAddr, question: &[u8]) -> Result<Option<Vec<u8>>, Error> {
///     let stream = StreamOptions { nodelay: true, send_buffer_bytes: None, receive_buffer_bytes: None };
///     let options = ConnectOptions { stream, deadline: Duration::from_secs(5) };
///     let mut connection = Connection::new(B::connect(&[server.into()], &options).await?, Length::default());
///
///     // The outer error is the connection's, the inner one what the closure returned.
///     connection.send(&OnShard, |mut request: Reply<'_>| request.send(question)).await??;
///
///     let mut answer = None;
///     while answer.is_none() {
///         let received = timeout(Duration::from_secs(1), connection.receive()).await??;
///         let mut app = |message: &mut [u8], _: Reply<'_>| {
///             answer = Some(message.to_vec());
///             Flow::Continue
///         };
///         if connection.work_off(&OnShard, &mut app, received).await? == Turned::Closed {
///             break;
///         }
///     }
///     Ok(answer)
/// }
/// ```
#[derive(Debug)]
pub struct Connection<S: Stream, M> {
    stream: S,
    machine: M,
    input: Input<S::Lease>,
    out: Vec<u8>,
    turn: Turn,
    peer_has_closed: bool,
}

/// What became of a received piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    /// Worked off; more may come.
    Open,
    /// The connection has ended as the protocol wants it: nothing more is to be sent or received.
    Closed,
}

impl<S: Stream, M: StreamMachine> Connection<S, M> {
    /// A connection on which nothing has happened yet.
    pub fn new(stream: S, machine: M) -> Self {
        Self {
            stream,
            machine,
            input: Input::default(),
            out: Vec::new(),
            turn: Turn::default(),
            peer_has_closed: false,
        }
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.machine
    }

    /// When the machine wants to be told that time has passed; see [`timed_out`](Self::timed_out).
    pub fn timeout(&self) -> Option<std::time::Instant> {
        self.machine.timeout()
    }

    /// Bytes of a message that has not fully arrived, the machine's and those it has not consumed.
    pub fn unread(&self) -> usize {
        self.input.unread() + self.machine.held_bytes()
    }

    /// Whether the peer will send nothing more, as far as was received.
    pub(super) fn peer_has_closed(&self) -> bool {
        self.peer_has_closed
    }

    /// Whether others had their turn since the last time this was asked.
    pub(super) fn turn_has_ended(&mut self) -> bool {
        self.turn.has_ended()
    }

    /// The stream alone; what was received and not worked off is forgotten.
    pub(super) fn into_stream(self) -> S {
        self.stream
    }

    /// Lets the machine begin: sends what it says first. To be called once, before anything else; a protocol in which nobody speaks
    /// first and nothing is late needs no such call.
    ///
    /// # Errors
    /// The machine cannot begin, or the stream cannot send.
    pub async fn start(&mut self, host: &impl Host) -> Result<Turned, DriveError<M::Error>> {
        let alarm = pin!(None);
        self.start_by(&mut HostClock::new(host, |at| host.sleep_until(at), alarm))
            .await
    }

    /// As [`start`](Self::start).
    pub(super) async fn start_by(
        &mut self,
        clock: &mut impl Clock,
    ) -> Result<Turned, DriveError<M::Error>> {
        let step = self.machine.start(clock.now(), &mut self.out);
        self.conclude(step, clock).await
    }

    /// Says goodbye. [`Turned::Open`] means that the peer's is awaited: receive and work off until it has come.
    ///
    /// # Errors
    /// The machine allows no goodbye, or the stream cannot send.
    pub async fn close(&mut self, host: &impl Host) -> Result<Turned, DriveError<M::Error>> {
        let alarm = pin!(None);
        self.close_by(&mut HostClock::new(host, |at| host.sleep_until(at), alarm))
            .await
    }

    /// As [`close`](Self::close).
    pub(super) async fn close_by(
        &mut self,
        clock: &mut impl Clock,
    ) -> Result<Turned, DriveError<M::Error>> {
        let step = self.machine.close(clock.now(), &mut self.out);
        self.conclude(step, clock).await
    }

    /// Sends output nobody asked for: a request, a push.
    ///
    /// # Errors
    /// The machine allows no output now, or the stream cannot send.
    pub async fn send<R>(
        &mut self,
        host: &impl Host,
        f: impl FnOnce(M::Reply<'_>) -> R,
    ) -> Result<R, DriveError<M::Error>> {
        let alarm = pin!(None);
        let clock = &mut HostClock::new(host, |at| host.sleep_until(at), alarm);
        self.borrow_buffer();
        let value = self.machine.send(clock.now(), &mut self.out, f);
        self.flush(clock).await?;
        value.map_err(DriveError::Protocol)
    }

    /// Waits for more to arrive. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The stream's.
    pub async fn receive(&mut self) -> Result<Received<S::Lease>, DriveError<M::Error>> {
        let lease = self.stream.recv().await;
        self.received(lease)
    }

    /// Waits for whatever is first. `stop` is left alone once it has completed. One future and not a nest of races: this is where a
    /// connection spends its life.
    pub(super) async fn next(
        &mut self,
        clock: &mut impl Clock,
        mut stop: Pin<&mut impl Future<Output = ()>>,
        stopped: bool,
    ) -> Event<S::Lease> {
        let deadline = self.machine.timeout();
        let mut receive = pin!(self.stream.recv());
        poll_fn(|cx| {
            if let Poll::Ready(lease) = receive.as_mut().poll(cx) {
                return Poll::Ready(Event::Received(lease));
            }
            if !stopped && stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Event::Stop);
            }
            match deadline {
                Some(at) => clock.poll_until(cx, at).map(|()| Event::TimedOut),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// The stream has received.
    pub(super) fn received(
        &mut self,
        lease: io::Result<S::Lease>,
    ) -> Result<Received<S::Lease>, DriveError<M::Error>> {
        let lease = lease.map_err(DriveError::Stream)?;
        self.peer_has_closed = lease.is_empty();
        Ok(Received(lease))
    }

    /// Works off what has arrived: shows it to the machine, sends its answers, until all is used up or is the beginning of a message.
    ///
    /// Dropping the future forgets no input: what is left comes before what is received next. But if it was sending, the stream cannot
    /// be sent on any more.
    ///
    /// # Errors
    /// The machine's; what it wanted to say about it was sent. The stream's.
    pub async fn work_off(
        &mut self,
        host: &impl Host,
        app: &mut impl App<M>,
        received: Received<S::Lease>,
    ) -> Result<Turned, DriveError<M::Error>> {
        let alarm = pin!(None);
        let clock = &mut HostClock::new(host, |at| host.sleep_until(at), alarm);
        self.work_off_until(clock, app, received, |_| false).await
    }

    /// As [`work_off`](Self::work_off), without anything new: goes on with what has arrived and was left. For a machine that took
    /// nothing until it was [sent](Self::send) something, an answer that was owed.
    ///
    /// # Errors
    /// As [`work_off`](Self::work_off).
    pub async fn work_off_rest(
        &mut self,
        host: &impl Host,
        app: &mut impl App<M>,
    ) -> Result<Turned, DriveError<M::Error>> {
        let alarm = pin!(None);
        let clock = &mut HostClock::new(host, |at| host.sleep_until(at), alarm);
        self.show_all(clock, app, |_| false).await
    }

    /// As [`work_off`](Self::work_off), but only until `app` has had enough.
    pub(super) async fn work_off_until<A: App<M>>(
        &mut self,
        clock: &mut impl Clock,
        app: &mut A,
        received: Received<S::Lease>,
        has_enough: fn(&A) -> bool,
    ) -> Result<Turned, DriveError<M::Error>> {
        if received.0.is_empty() {
            return self.end_of_input(clock).await;
        }
        self.turn.received(received.0.len());
        self.input.push(received.0);
        self.show_all(clock, app, has_enough).await
    }

    async fn show_all<A: App<M>>(
        &mut self,
        clock: &mut impl Clock,
        app: &mut A,
        has_enough: fn(&A) -> bool,
    ) -> Result<Turned, DriveError<M::Error>> {
        loop {
            let next = self.show(clock, app);
            self.flush(clock).await?;
            match next? {
                Next::Close => return Ok(Turned::Closed),
                _ if has_enough(app) => return Ok(Turned::Open),
                Next::Again => self.turn.end().await,
                Next::NeedInput if self.input.rest() > 0 => {}
                Next::NeedInput => {
                    self.turn.end_if_used_up().await;
                    return Ok(Turned::Open);
                }
            }
        }
    }

    /// The machine's deadline has come.
    ///
    /// # Errors
    /// As [`work_off`](Self::work_off).
    pub async fn timed_out(&mut self, host: &impl Host) -> Result<Turned, DriveError<M::Error>> {
        let alarm = pin!(None);
        self.timed_out_by(&mut HostClock::new(host, |at| host.sleep_until(at), alarm))
            .await
    }

    /// As [`timed_out`](Self::timed_out).
    pub(super) async fn timed_out_by(
        &mut self,
        clock: &mut impl Clock,
    ) -> Result<Turned, DriveError<M::Error>> {
        let step = self.machine.handle_timeout(clock.now(), &mut self.out);
        let turned = self.conclude(step, clock).await?;
        // It counts, so that a machine whose deadline stays in the past does not keep the shard for itself.
        self.turn.received(0);
        self.turn.end_if_used_up().await;
        Ok(turned)
    }

    /// Tells the peer that nothing more comes from here.
    ///
    /// # Errors
    /// The stream's.
    pub async fn shutdown_write(&mut self) -> io::Result<()> {
        self.stream.shutdown_write().await
    }

    async fn end_of_input(
        &mut self,
        clock: &mut impl Clock,
    ) -> Result<Turned, DriveError<M::Error>> {
        let unread = self.input.unread();
        let step = self
            .machine
            .end_of_input(clock.now(), unread, &mut self.out);
        self.conclude(step, clock).await?;
        Ok(Turned::Closed)
    }

    async fn conclude(
        &mut self,
        step: Result<Step, M::Error>,
        clock: &mut impl Clock,
    ) -> Result<Turned, DriveError<M::Error>> {
        self.flush(clock).await?;
        match step.map_err(DriveError::Protocol)?.next {
            Next::Close => Ok(Turned::Closed),
            Next::NeedInput | Next::Again => Ok(Turned::Open),
        }
    }

    fn show(
        &mut self,
        clock: &impl Clock,
        app: &mut impl App<M>,
    ) -> Result<Next, DriveError<M::Error>> {
        debug_assert!(self.out.is_empty(), "drain the output before the next call");
        self.borrow_buffer();
        let (machine, out, now) = (&mut self.machine, &mut self.out, clock.now());
        self.input
            .show(|bytes| machine.handle(now, bytes, app, out))
            .map_err(DriveError::Protocol)
    }

    /// Makes room for output, until [`flush`](Self::flush).
    fn borrow_buffer(&mut self) {
        if self.out.capacity() == 0 {
            self.out = spare::take();
        }
    }

    /// Sends what the machine has put out, and gives the buffer back.
    async fn flush(&mut self, clock: &mut impl Clock) -> Result<(), DriveError<M::Error>> {
        let mut out = std::mem::take(&mut self.out);
        let mut result = Ok(());
        if !out.is_empty() {
            self.turn.sent(out.len());
            (result, out) = send_in_time(&mut self.stream, out, clock).await;
        }
        spare::give_back(out);
        result.map_err(DriveError::Stream)
    }
}

/// Sends all of `out`, or gives up in the end; then the buffer is gone with it.
async fn send_in_time(
    stream: &mut impl SendHalf,
    out: Vec<u8>,
    clock: &mut impl Clock,
) -> (io::Result<()>, Vec<u8>) {
    let mut send = pin!(stream.send_all(out));
    let mut deadline = None;
    poll_fn(|cx| {
        if let Poll::Ready(sent) = send.as_mut().poll(cx) {
            return Poll::Ready(sent);
        }
        let at = *deadline.get_or_insert_with(|| clock.now() + clock.send_timeout());
        clock
            .poll_until(cx, at)
            .map(|()| (Err(too_slow(clock)), Vec::new()))
    })
    .await
}

fn too_slow(clock: &impl Clock) -> io::Error {
    let limit = clock.send_timeout();
    let text = format!("the peer did not take what was sent within {limit:?}");
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// What came first.
pub(super) enum Event<L> {
    Received(io::Result<L>),
    TimedOut,
    Stop,
}

/// What a receive brought; to be worked off before the next.
#[derive(Debug)]
#[must_use = "received bytes that are not worked off are lost"]
pub struct Received<L>(L);

impl<L: Deref<Target = [u8]>> Received<L> {
    /// Whether it is the end: the peer has closed its side.
    pub fn is_end(&self) -> bool {
        self.0.is_empty()
    }
}

/// Why a connection could not go on.
#[derive(Debug)]
pub enum DriveError<E> {
    /// The machine: the peer or the application broke the protocol or a limit.
    Protocol(E),
    /// The stream.
    Stream(io::Error),
}

impl<E: Fault> DriveError<E> {
    /// Who is at fault.
    pub fn side(&self) -> Side {
        match self {
            Self::Protocol(fault) => fault.side(),
            Self::Stream(error) => match error.kind() {
                io::ErrorKind::ConnectionReset
                | io::ErrorKind::ConnectionAborted
                | io::ErrorKind::BrokenPipe
                | io::ErrorKind::TimedOut
                | io::ErrorKind::NotConnected => Side::Peer,
                _ => Side::Host,
            },
        }
    }
}

impl<E: fmt::Display> fmt::Display for DriveError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(fault) => fault.fmt(f),
            Self::Stream(error) => write!(f, "the connection broke: {error}"),
        }
    }
}

impl<E: Error + 'static> Error for DriveError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Protocol(fault) => fault.source(),
            Self::Stream(error) => error.source(),
        }
    }
}
