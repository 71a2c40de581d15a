//! One connection: its socket, the beginning of a message that came in part, the requests the system has not taken yet.
//!
//! Input is read into a buffer that all connections share; only a message that is not there whole is kept, in `partial`. Where its
//! length is known the next read completes it in place; else what was kept is a few bytes, which go in front of the next read. Output goes to the socket at once; only what the system does not take is kept, in `pending`,
//! until the socket is writable. Both are bounded by the window: one message, and the requests outstanding.

use super::{
    backlog::Backlog,
    clock::Clock,
    exchange::{Exchange, Sequence, Traffic},
    fault::Wrong,
    wire::Wire,
};
use crate::contract::TlsSession;
use mio::{Interest, Registry, Token, net::TcpStream};
use shardloop_protocols::{Next, Step};
use std::{
    io::{self, IoSliceMut, Read, Write},
    mem,
    net::Shutdown,
};

/// Bytes of one read.
const READ_BYTES: usize = 256 * 1024;

/// The longest beginning of a message that is kept where lengths are not known beforehand.
const KEPT_BYTES: usize = READ_BYTES / 2;

/// Requests gathered before they are written.
const WRITE_BYTES: usize = 64 * 1024;

/// Buffers every connection uses in its turn.
#[derive(Debug)]
pub(crate) struct Buffers {
    input: Vec<u8>,
    /// What one call of the machine made.
    turn: Vec<u8>,
    /// What the turns of one read made and the socket has not been given.
    batch: Vec<u8>,
}

/// What a connection's turn needs besides the connection.
pub(crate) struct Station<'a> {
    pub(crate) traffic: &'a mut Traffic,
    pub(crate) buffers: &'a mut Buffers,
    pub(crate) clock: Clock,
    pub(crate) registry: &'a Registry,
}

/// What a read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// So many bytes; more may be there if they filled the buffer.
    Bytes(usize),
    /// Nothing yet.
    Nothing,
}

/// One connection of the load.
#[derive(Debug)]
pub(crate) struct Connection<M> {
    stream: TcpStream,
    token: Token,
    machine: M,
    sequence: Sequence,
    /// As long as a message where its length is known, else as long as what was kept.
    partial: Vec<u8>,
    partial_bytes: usize,
    pending: Backlog,
    /// Asked for once, when the system first took less than it was given.
    watches_writable: bool,
    /// The system announced an end or an error: read until it shows itself.
    ending: bool,
    /// The peer takes no more; what it still sent is read, then this ends.
    refuses: bool,
    /// The last read left something to read, or an end to see.
    more: bool,
    /// Stands in the generator's queue for another read.
    queued: bool,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Self {
            input: vec![0; READ_BYTES],
            turn: Vec::new(),
            batch: Vec::new(),
        }
    }

    /// Throws away what a faulty turn left behind.
    pub(crate) fn discard(&mut self) {
        self.turn.clear();
        self.batch.clear();
    }

    /// Takes what the machine made, as its drain rule asks; moves it only if something is there already.
    fn drain_turn(&mut self) {
        if self.batch.is_empty() {
            mem::swap(&mut self.batch, &mut self.turn);
        } else {
            self.batch.extend_from_slice(&self.turn);
            self.turn.clear();
        }
    }
}

impl<M: Wire> Connection<M> {
    pub(crate) fn new(stream: TcpStream, token: Token, machine: M, sequence: Sequence) -> Self {
        Self {
            stream,
            token,
            machine,
            sequence,
            partial: Vec::new(),
            partial_bytes: 0,
            pending: Backlog::default(),
            watches_writable: false,
            ending: false,
            refuses: false,
            more: false,
            queued: false,
        }
    }

    pub(crate) fn sequence(&self) -> &Sequence {
        &self.sequence
    }

    /// The system announced an end or an error.
    pub(crate) fn expect_end(&mut self) {
        self.ending = true;
    }

    /// Whether another read is due although the system may announce nothing more, and it is not queued for that yet.
    pub(crate) fn queues_for_reading(&mut self) -> bool {
        self.more && !mem::replace(&mut self.queued, true)
    }

    /// Its queued read comes now.
    pub(crate) fn take_from_queue(&mut self) {
        self.queued = false;
    }

    /// Bytes that came and are no whole message.
    pub(crate) fn has_partial(&self) -> bool {
        self.partial_bytes > 0 || self.machine.held_bytes() > 0
    }

    /// Requests may be sent.
    pub(crate) fn is_ready(&self) -> bool {
        self.machine.is_ready()
    }

    /// What its handshake agreed on.
    pub(crate) fn session(&self) -> Option<TlsSession> {
        self.machine.session()
    }

    /// What the machine says first.
    pub(crate) fn start(&mut self, station: &mut Station<'_>) -> Result<(), Wrong> {
        let step = self
            .machine
            .start(station.clock.epoch(), &mut station.buffers.turn);
        station.buffers.drain_turn();
        self.write_batch(station)?;
        Self::go_on(step.map_err(M::wrong)?.next)
    }

    /// Says goodbye and nothing more. Whether the peer still hears it is its own affair.
    pub(crate) fn part(mut self, station: &mut Station<'_>) {
        let turn = &mut station.buffers.turn;
        let said = self.machine.close(station.clock.epoch(), turn).is_ok();
        station.buffers.drain_turn();
        if said && self.write_batch(station).is_ok() {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
        station.buffers.discard();
    }

    /// Issues up to `requests` and writes them.
    pub(crate) fn begin(
        &mut self,
        requests: usize,
        station: &mut Station<'_>,
    ) -> Result<(), Wrong> {
        for _ in 0..requests {
            let now = station.clock.epoch();
            let machine = &mut self.machine;
            let turn = &mut station.buffers.turn;
            self.sequence.issue(station.traffic, |payload| {
                let sent = machine.send(now, turn, |reply| M::request(reply, payload));
                debug_assert!(sent.is_ok(), "a client may always ask");
            });
            station.buffers.drain_turn();
            if station.buffers.batch.len() >= WRITE_BYTES {
                self.write_batch(station)?;
            }
        }
        self.write_batch(station)
    }

    /// One read. `Err` at the end of the stream.
    pub(crate) fn read(&mut self, buffers: &mut Buffers) -> Result<Came, Wrong> {
        let kept = self.partial_bytes;
        let result = if kept == 0 {
            self.stream.read(&mut buffers.input)
        } else if kept == self.partial.len() {
            buffers.input[..kept].copy_from_slice(&self.partial);
            self.stream.read(&mut buffers.input[kept..])
        } else {
            self.stream.read_vectored(&mut [
                IoSliceMut::new(&mut self.partial[self.partial_bytes..]),
                IoSliceMut::new(&mut buffers.input),
            ])
        };
        self.more = false;
        match result {
            Ok(0) => Err(Wrong::Disconnect(None)),
            Ok(bytes) => {
                // A short read empties a stream socket: what comes later is announced, except an end that came along.
                self.more = self.ending || bytes + kept >= READ_BYTES;
                Ok(Came::Bytes(bytes))
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock if self.refuses => Err(Wrong::Disconnect(None)),
                io::ErrorKind::WouldBlock => Ok(Came::Nothing),
                io::ErrorKind::Interrupted => {
                    self.more = true;
                    Ok(Came::Nothing)
                }
                _ => Err(Wrong::from_call(error)),
            },
        }
    }

    /// Handles the replies that a read brought, and writes the requests that follow from them.
    pub(crate) fn handle(
        &mut self,
        bytes: usize,
        received_ns: u64,
        station: &mut Station<'_>,
    ) -> Result<(), Wrong> {
        let mut input = mem::take(&mut station.buffers.input);
        let result = self.handle_parts(&mut input, bytes, received_ns, station);
        station.buffers.input = input;
        result?;
        self.write_batch(station)
    }

    /// The message that was there in part, then what stands behind it in `input`.
    fn handle_parts(
        &mut self,
        input: &mut [u8],
        bytes: usize,
        received_ns: u64,
        station: &mut Station<'_>,
    ) -> Result<(), Wrong> {
        let mut behind = bytes;
        if self.partial_bytes == self.partial.len() {
            behind += mem::take(&mut self.partial_bytes);
        } else if self.partial_bytes > 0 {
            let taken = bytes.min(self.partial.len() - self.partial_bytes);
            behind -= taken;
            self.partial_bytes += taken;
            let mut partial = mem::take(&mut self.partial);
            let consumed =
                self.handle_bytes(&mut partial[..self.partial_bytes], received_ns, station);
            self.partial = partial;
            if consumed? == 0 {
                return Ok(());
            }
            self.partial_bytes = 0;
        }
        let consumed = self.handle_bytes(&mut input[..behind], received_ns, station)?;
        self.keep(&input[consumed..behind], station.traffic)
    }

    /// Runs the machine over `input`. Returns how much of it was whole messages.
    fn handle_bytes(
        &mut self,
        input: &mut [u8],
        received_ns: u64,
        station: &mut Station<'_>,
    ) -> Result<usize, Wrong> {
        let mut consumed = 0;
        loop {
            let step = self.handle_turn(&mut input[consumed..], received_ns, station)?;
            consumed += step.consumed;
            station.buffers.drain_turn();
            if station.buffers.batch.len() >= WRITE_BYTES {
                self.write_batch(station)?;
            }
            match step.next {
                Next::Again => {}
                next => return Self::go_on(next).map(|()| consumed),
            }
        }
    }

    /// A client that is to close although nobody here asked for it was told so by its peer.
    fn go_on(next: Next) -> Result<(), Wrong> {
        match next {
            Next::Close => Err(Wrong::Disconnect(None)),
            Next::NeedInput | Next::Again => Ok(()),
        }
    }

    /// One call of the machine. What the conversation found wrong comes before what the machine did.
    fn handle_turn(
        &mut self,
        input: &mut [u8],
        received_ns: u64,
        station: &mut Station<'_>,
    ) -> Result<Step, Wrong> {
        let mut exchange = Exchange {
            sequence: &mut self.sequence,
            traffic: station.traffic,
            received_ns,
            wrong: None,
        };
        let now = station.clock.instant(received_ns);
        let turn = &mut station.buffers.turn;
        let step = self.machine.handle(now, input, &mut exchange, turn);
        match exchange.wrong {
            Some(wrong) => Err(wrong),
            None => step.map_err(M::wrong),
        }
    }

    /// Keeps the beginning of a message until the rest comes.
    fn keep(&mut self, beginning: &[u8], traffic: &Traffic) -> Result<(), Wrong> {
        if beginning.is_empty() {
            return Ok(());
        }
        let frame_bytes = match M::frame_bytes(traffic.template.payload_bytes()) {
            Some(bytes) => bytes,
            None if beginning.len() <= KEPT_BYTES => beginning.len(),
            None => {
                return Err(Wrong::Protocol(format!(
                    "no message within {KEPT_BYTES} bytes"
                )));
            }
        };
        self.partial.resize(frame_bytes, 0);
        self.partial[..beginning.len()].copy_from_slice(beginning);
        self.partial_bytes = beginning.len();
        Ok(())
    }

    /// Gives the requests of this turn to the system, behind those it has not taken yet.
    fn write_batch(&mut self, station: &mut Station<'_>) -> Result<(), Wrong> {
        if station.buffers.batch.is_empty() {
            return Ok(());
        }
        let now_ns = station.clock.now_ns();
        self.sequence.submit(station.traffic, now_ns);
        let batch = &mut station.buffers.batch;
        let taken = if self.pending.is_empty() {
            self.write(batch)?
        } else {
            0
        };
        if !self.refuses {
            self.pending.push(&batch[taken..]);
        }
        batch.clear();
        self.watch_writable(station.registry)
    }

    /// The socket is writable: gives the system what it did not take before.
    pub(crate) fn write_pending(&mut self) -> Result<(), Wrong> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = mem::take(&mut self.pending);
        let taken = self.write(pending.rest())?;
        self.pending = pending;
        self.pending.take(taken);
        Ok(())
    }

    /// One write. Returns the bytes taken; 0 also if the peer takes no more at all.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, Wrong> {
        if self.refuses {
            return Ok(0);
        }
        loop {
            let error = match self.stream.write(bytes) {
                Ok(taken) => return Ok(taken),
                Err(error) => error,
            };
            match (error.kind(), Wrong::from_call(error)) {
                (io::ErrorKind::Interrupted, _) => {}
                (io::ErrorKind::WouldBlock, _) => return Ok(0),
                (_, Wrong::Disconnect(_)) => {
                    (self.ending, self.refuses, self.more) = (true, true, true);
                    return Ok(0);
                }
                (_, wrong) => return Err(wrong),
            }
        }
    }

    /// Asks for a word when the socket is writable again, once for the life of the connection: with edge-triggered events that
    /// costs nothing as long as everything is taken.
    fn watch_writable(&mut self, registry: &Registry) -> Result<(), Wrong> {
        if self.pending.is_empty() || self.watches_writable {
            return Ok(());
        }
        self.watches_writable = true;
        registry
            .reregister(
                &mut self.stream,
                self.token,
                Interest::READABLE | Interest::WRITABLE,
            )
            .map_err(Wrong::Io)
    }
}
