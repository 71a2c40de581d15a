//! A server's connection from its first byte to its end.

use super::{
    Host, Turn,
    clock::{Clock, HostClock},
    connection::{Connection, DriveError, Event, Turned},
    has_come,
};
use crate::machine::{App, Flow, StreamMachine};
use shardloop::{Either, RecvHalf, Stream, race};
use std::{io, pin::pin, time::Duration};

/// After a server has said its last word it reads on for as long, so that the kernel does not throw away what the peer has not read
/// yet (closing with unread input resets the connection, RFC 9293 section 3.6.1).
const LINGER: Duration = Duration::from_secs(1);

/// Serves `machine` on `stream` until the peer closes, the protocol ends, a fault happens, or `host` wants connections to end: then a
/// message that has begun to arrive is awaited and answered, nothing more is taken, the machine says its protocol's goodbye, and the
/// peer sees an orderly end.
///
/// # Errors
/// Why the connection ended, if it was not in order. It is closed all the same.
pub async fn serve<S: Stream, M: StreamMachine>(
    stream: S,
    machine: M,
    app: impl App<M>,
    host: impl Host,
) -> Result<(), DriveError<M::Error>> {
    let mut connection = Connection::new(stream, machine);
    let result = exchange(&mut connection, app, &host).await;
    // The peer may be gone, and then there is nobody to tell.
    let told = connection.shutdown_write().await.is_ok();
    let broken = matches!(result, Err(DriveError::Stream(_)));
    if told && !broken && !connection.peer_has_closed() {
        linger(&mut connection.into_stream(), &host).await;
    }
    result
}

/// Until the connection is to be closed.
async fn exchange<S: Stream, M: StreamMachine>(
    connection: &mut Connection<S, M>,
    app: impl App<M>,
    host: &impl Host,
) -> Result<(), DriveError<M::Error>> {
    let (mut stop, alarm) = (pin!(host.stopping()), pin!(None));
    let clock = &mut HostClock::new(host, |at| host.sleep_until(at), alarm);
    let mut app = Stoppable {
        app,
        stopped: false,
        done: false,
    };
    if connection.start_by(clock).await? == Turned::Closed {
        return Ok(());
    }
    while !(app.done || app.stopped && connection.unread() == 0) {
        let turned = match connection.next(clock, stop.as_mut(), app.stopped).await {
            Event::Received(lease) => work_off(connection, clock, &mut app, lease).await?,
            Event::TimedOut => connection.timed_out_by(clock).await?,
            Event::Stop => {
                app.stopped = true;
                continue;
            }
        };
        if turned == Turned::Closed {
            return Ok(());
        }
        // Input that never pauses is always first; it must not hide what else there is.
        if connection.turn_has_ended() {
            app.stopped = app.stopped || has_come(stop.as_mut()).await;
            if tell_if_due(connection, clock).await? == Turned::Closed {
                return Ok(());
            }
        }
    }
    part(connection, clock, &mut app, host).await
}

async fn work_off<S: Stream, M: StreamMachine, A: App<M>>(
    connection: &mut Connection<S, M>,
    clock: &mut impl Clock,
    app: &mut Stoppable<A>,
    lease: io::Result<S::Lease>,
) -> Result<Turned, DriveError<M::Error>> {
    let received = connection.received(lease)?;
    connection
        .work_off_until(clock, app, received, |app| app.done)
        .await
}

/// Says goodbye, and waits a while for the peer's.
async fn part<S: Stream, M: StreamMachine, A: App<M>>(
    connection: &mut Connection<S, M>,
    clock: &mut impl Clock,
    app: &mut Stoppable<A>,
    host: &impl Host,
) -> Result<(), DriveError<M::Error>> {
    let mut late = pin!(host.sleep_until(host.now() + LINGER));
    let mut turned = connection.close_by(clock).await?;
    // What comes now is for the machine alone.
    app.done = false;
    while turned == Turned::Open {
        turned = match connection.next(clock, late.as_mut(), false).await {
            Event::Received(lease) => work_off(connection, clock, app, lease).await?,
            Event::TimedOut => connection.timed_out_by(clock).await?,
            Event::Stop => return Ok(()),
        };
        if connection.turn_has_ended() && has_come(late.as_mut()).await {
            return Ok(());
        }
    }
    Ok(())
}

/// An application, and how it ends: once stopped it is done after one more message.
struct Stoppable<A> {
    app: A,
    stopped: bool,
    done: bool,
}

impl<M: StreamMachine, A: App<M>> App<M> for Stoppable<A> {
    fn message(&mut self, message: M::Message<'_>, reply: M::Reply<'_>) -> Flow {
        let flow = self.app.message(message, reply);
        if self.stopped {
            self.done = true;
            return Flow::Pause;
        }
        flow
    }
}

/// Tells the machine if its deadline has come.
async fn tell_if_due<S: Stream, M: StreamMachine>(
    connection: &mut Connection<S, M>,
    clock: &mut impl Clock,
) -> Result<Turned, DriveError<M::Error>> {
    match connection.timeout() {
        Some(at) if at <= clock.now() => connection.timed_out_by(clock).await,
        _ => Ok(Turned::Open),
    }
}

/// Reads and drops until the peer has closed too, but not for ever.
async fn linger(stream: &mut impl RecvHalf, host: &impl Host) {
    let until_closed = async {
        let mut turn = Turn::default();
        while let Ok(lease) = stream.recv().await
            && !lease.is_empty()
        {
            turn.received(lease.len());
            drop(lease);
            turn.end_if_used_up().await;
        }
    };
    let _ = race(until_closed, host.sleep_until(host.now() + LINGER)).await;
}

/// Sends every received buffer back as it is, without a copy (RFC 862). `seen` sees it in between. Ends as [`serve`] does.
///
/// # Errors
/// The stream's.
pub async fn echo<S: Stream>(
    mut stream: S,
    mut seen: impl FnMut(&mut [u8]),
    host: impl Host,
) -> io::Result<()> {
    let mut stop = pin!(host.stopping());
    let mut turn = Turn::default();
    let mut stopped = false;
    while !stopped {
        let mut lease = match race(stream.recv(), stop.as_mut()).await {
            Either::Left(lease) => lease?,
            Either::Right(()) => break,
        };
        if lease.is_empty() {
            return stream.shutdown_write().await;
        }
        seen(&mut lease);
        turn.received(lease.len());
        stream.send_all(lease).await.0?;
        turn.end_if_used_up().await;
        // Input that never pauses is always first; it must not hide the stop.
        stopped = turn.has_ended() && has_come(stop.as_mut()).await;
    }
    stream.shutdown_write().await?;
    linger(&mut stream, &host).await;
    Ok(())
}
