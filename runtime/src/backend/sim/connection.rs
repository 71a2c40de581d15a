//! Connections within the network: being made, carrying bytes, failing.
//!
//! # How bytes travel
//! Each direction is a *pipe* of bounded capacity: what the sender's and the receiver's buffers hold together. What is written is cut
//! into packets, which arrive in their order; whether one is lost is drawn when it would arrive, and then it and all behind it come
//! later by a retransmission time-out, which doubles. So bytes are exact and in order whatever the link does to packets.
//!
//! # The end
//! A half that is closed sends an end after all that was written. An end of a connection of which both halves are closed answers
//! bytes with a reset, and sends one at once if it had bytes that nobody received, as TCP does.

use super::{
    link::Way,
    listener::Door,
    log::Noted,
    net::{Event, State, Waiter},
};
use crate::{address::Address, lease::Vacant, options::StreamOptions};
use std::{
    collections::VecDeque,
    io::{self, ErrorKind},
    task::Poll,
};

/// Bytes of the largest packet of a stream.
const SEGMENT_BYTES: usize = 16 << 10;
/// Bytes of a packet without any: its headers.
const HEADER_BYTES: usize = 60;
/// Send and receive buffers where nothing else is asked for.
const BUFFER_BYTES: usize = 128 << 10;
/// The least that a buffer has.
const BUFFER_LEAST_BYTES: usize = 4 << 10;
/// The first time-out of a packet, and the longest.
const RETRANSMIT_NS: u64 = 200_000_000;
const RETRANSMIT_MOST_NS: u64 = 120_000_000_000;
/// Retransmissions after which a connection is given up: a quarter of an hour, as on Linux (tcp(7), tcp_retries2).
const RETRANSMISSIONS: u32 = 15;
/// The first time-out of a wish to connect, and how often it is repeated (tcp(7), tcp_syn_retries).
const KNOCK_NS: u64 = 1_000_000_000;
const KNOCKS: u32 = 6;

/// A connection that is being made.
pub(super) struct Attempt {
    way: Way,
    from: Address,
    to: Address,
    buffers: Buffers,
    knocks: u32,
    result: Option<io::Result<u64>>,
    waiter: Option<Waiter>,
}

/// Bytes of an end's buffers.
#[derive(Clone, Copy)]
struct Buffers {
    send: usize,
    receive: usize,
}

impl Buffers {
    fn new(options: &StreamOptions) -> Self {
        let bytes = |wish: Option<usize>| wish.map_or(BUFFER_BYTES, |b| b.max(BUFFER_LEAST_BYTES));
        Self {
            send: bytes(options.send_buffer_bytes),
            receive: bytes(options.receive_buffer_bytes),
        }
    }
}

/// A connection. Side 0 is who connected, side 1 who accepted.
pub(super) struct Connection {
    ends: [End; 2],
    /// Each leads to the end of that number.
    pipes: [Pipe; 2],
}

struct End {
    host: usize,
    address: Address,
    buffers: Buffers,
    receives: bool,
    sends: bool,
    failed: Option<ErrorKind>,
    receiver: Option<Waiter>,
    sender: Option<Waiter>,
}

impl End {
    fn new(host: usize, address: Address, buffers: Buffers) -> Self {
        Self {
            host,
            address,
            buffers,
            receives: true,
            sends: true,
            failed: None,
            receiver: None,
            sender: None,
        }
    }

    fn is_closed(&self) -> bool {
        !self.receives && !self.sends
    }
}

#[derive(Default)]
struct Pipe {
    flying: VecDeque<Segment>,
    /// The arrival of the first is scheduled.
    is_armed: bool,
    retransmissions: u32,
    arrived: VecDeque<u8>,
    /// Bytes flying and arrived.
    used: usize,
    /// The sender has written its last.
    end_sent: bool,
    end_arrived: bool,
}

struct Segment {
    due: u64,
    bytes: Vec<u8>,
    is_end: bool,
}

/// Which half of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    Recv,
    Send,
}

impl Connection {
    fn capacity(&self, to: usize) -> usize {
        self.ends[1 - to].buffers.send + self.ends[to].buffers.receive
    }

    fn way(&self, to: usize) -> Way {
        (self.ends[1 - to].host, self.ends[to].host)
    }

    /// The address of the other end.
    pub(super) fn peer(&self, side: usize) -> Address {
        self.ends[1 - side].address.clone()
    }

    /// Sets the buffers of an end; an error if it has failed already.
    pub(super) fn adopt(&mut self, side: usize, options: &StreamOptions) -> io::Result<()> {
        let end = &mut self.ends[side];
        end.buffers = Buffers::new(options);
        end.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

impl State {
    /// Begins to connect.
    pub(super) fn begin(
        &mut self,
        host: usize,
        to: &Address,
        options: &StreamOptions,
    ) -> io::Result<u64> {
        let (target, from) = match to {
            Address::Inet(to) => {
                let target = self.locate(host, to.ip());
                let target = target.ok_or(ErrorKind::HostUnreachable)?;
                let source = self.source(host, to.ip());
                let port = self.stream_names.port(host, source, true);
                let port = port.map_err(|_| ErrorKind::AddrNotAvailable)?;
                (target, Address::Inet((source, port).into()))
            }
            Address::Unix(path) => {
                let path = path.clone().unwrap_or_default();
                if !self.stream_names.knows(host, path) {
                    return Err(ErrorKind::NotFound.into());
                }
                (host, Address::Unix(None))
            }
        };
        let number = self.number();
        self.note(Noted::Connecting {
            attempt: number,
            from: host,
            to: target,
        });
        let way = (host, target);
        let attempt = Attempt {
            way,
            from,
            to: to.clone(),
            buffers: Buffers::new(options),
            knocks: 0,
            result: None,
            waiter: None,
        };
        self.attempts.insert(number, attempt);
        let at = self.arrival(way, HEADER_BYTES);
        self.schedule(at, Event::Knock { attempt: number });
        Ok(number)
    }

    /// Whether a connection was made.
    pub(super) fn attempted(&mut self, number: u64, waiter: Waiter) -> Poll<io::Result<u64>> {
        let Some(attempt) = self.attempts.get_mut(&number) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        match attempt.result.take() {
            Some(result) => {
                self.attempts.remove(&number);
                Poll::Ready(result)
            }
            None => {
                let old = attempt.waiter.replace(waiter);
                self.forget(old);
                Poll::Pending
            }
        }
    }

    /// Nobody waits for a connection any more.
    pub(super) fn give_up(&mut self, number: u64) {
        if let Some(attempt) = self.attempts.remove(&number) {
            self.forget(attempt.waiter);
            if let Some(Ok(connection)) = attempt.result {
                self.close(connection, 0);
            }
        }
    }

    /// A wish to connect is there, or was lost.
    pub(super) fn knock(&mut self, number: u64) {
        let Some(attempt) = self.attempts.get(&number) else {
            return;
        };
        let way = attempt.way;
        let members = self.stream_names.find(way.1, &attempt.to);
        let door = self.pick(members, &attempt.from, &attempt.to);
        let is_full = |door: &u64| self.doors.get(door).is_some_and(Door::is_full);
        // As on Linux, a full backlog answers nothing: there may be room when the wish is repeated.
        if door.as_ref().is_some_and(is_full) || self.links.loses(way, &mut self.random) {
            return self.knock_again(number);
        }
        let connection = door.and_then(|door| self.establish(number, door));
        let at = self.arrival((way.1, way.0), HEADER_BYTES);
        let answer = Event::Answer {
            attempt: number,
            connection,
            lost: 0,
        };
        self.schedule(at, answer);
    }

    fn establish(&mut self, attempt: u64, door: u64) -> Option<u64> {
        let id = self.number();
        let attempt = self.attempts.get(&attempt)?;
        let usual = Buffers {
            send: BUFFER_BYTES,
            receive: BUFFER_BYTES,
        };
        let (from, to) = attempt.way;
        let connection = Connection {
            ends: [
                End::new(from, attempt.from.clone(), attempt.buffers),
                End::new(to, attempt.to.clone(), usual),
            ],
            pipes: Default::default(),
        };
        self.connections.insert(id, connection);
        self.queue(door, id);
        Some(id)
    }

    fn knock_again(&mut self, number: u64) {
        let now = self.now();
        let Some(attempt) = self.attempts.get_mut(&number) else {
            return;
        };
        attempt.knocks += 1;
        if attempt.knocks > KNOCKS {
            attempt.result = Some(Err(ErrorKind::TimedOut.into()));
            let waiter = attempt.waiter.take();
            return self.wake(waiter);
        }
        let at = now + (KNOCK_NS << (attempt.knocks - 1));
        self.schedule(at, Event::Knock { attempt: number });
    }

    pub(super) fn answer(&mut self, number: u64, connection: Option<u64>, lost: u32) {
        let Some(attempt) = self.attempts.get_mut(&number) else {
            if let Some(connection) = connection {
                self.close(connection, 0);
            }
            return;
        };
        let (from, to) = attempt.way;
        // Whoever waits for an answer gives up at its deadline, so it may as well be repeated for good, but ever more seldom.
        if self.links.loses((to, from), &mut self.random) {
            let at = self.now() + (KNOCK_NS << lost.min(KNOCKS));
            let again = Event::Answer {
                attempt: number,
                connection,
                lost: lost + 1,
            };
            return self.schedule(at, again);
        }
        attempt.result = Some(connection.ok_or(ErrorKind::ConnectionRefused.into()));
        let waiter = attempt.waiter.take();
        self.note(match connection {
            Some(connection) => Noted::Established {
                attempt: number,
                connection,
            },
            None => Noted::Refused { attempt: number },
        });
        self.wake(waiter);
    }

    /// Writes as much as there is room for.
    pub(super) fn write(
        &mut self,
        id: u64,
        side: usize,
        bytes: &[u8],
        waiter: Waiter,
    ) -> Poll<io::Result<usize>> {
        let to = 1 - side;
        let Some(connection) = self.connections.get_mut(&id) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        let room = connection.capacity(to) - connection.pipes[to].used.min(connection.capacity(to));
        let end = &mut connection.ends[side];
        if let Some(kind) = end.failed {
            return Poll::Ready(Err(kind.into()));
        }
        if connection.pipes[to].end_sent {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        if room == 0 {
            let old = end.sender.replace(waiter);
            self.forget(old);
            return Poll::Pending;
        }
        let count = bytes.len().min(room);
        connection.pipes[to].used += count;
        self.note(Noted::Sent {
            connection: id,
            side,
            bytes: count,
        });
        for piece in bytes[..count].chunks(SEGMENT_BYTES) {
            self.fly(id, to, piece.to_vec(), false);
        }
        Poll::Ready(Ok(count))
    }

    /// Ends what `side` sends.
    pub(super) fn end(&mut self, id: u64, side: usize) -> io::Result<()> {
        let to = 1 - side;
        let Some(connection) = self.connections.get_mut(&id) else {
            return Err(ErrorKind::NotConnected.into());
        };
        if let Some(kind) = connection.ends[side].failed {
            return Err(kind.into());
        }
        if !std::mem::replace(&mut connection.pipes[to].end_sent, true) {
            self.fly(id, to, Vec::new(), true);
        }
        Ok(())
    }

    /// Receives at most as much as the buffer that `take` gives; `None` at the end. How much of what is there, the seed says.
    pub(super) fn read(
        &mut self,
        id: u64,
        side: usize,
        take: impl FnOnce() -> Vacant,
        waiter: Waiter,
    ) -> Poll<io::Result<Option<(Vacant, usize)>>> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        let (end, pipe) = (&mut connection.ends[side], &mut connection.pipes[side]);
        if pipe.arrived.is_empty() {
            if let Some(kind) = end.failed {
                return Poll::Ready(Err(kind.into()));
            }
            if pipe.end_arrived {
                return Poll::Ready(Ok(None));
            }
            let old = end.receiver.replace(waiter);
            self.forget(old);
            return Poll::Pending;
        }
        let mut vacant = take();
        let buffer = vacant.bytes_mut();
        let count = self.random.portion(buffer.len().min(pipe.arrived.len()));
        let (front, back) = pipe.arrived.as_slices();
        let of_front = count.min(front.len());
        buffer[..of_front].copy_from_slice(&front[..of_front]);
        buffer[of_front..count].copy_from_slice(&back[..count - of_front]);
        pipe.arrived.drain(..count);
        pipe.used -= count;
        let sender = connection.ends[1 - side].sender.take();
        self.wake(sender);
        self.note(Noted::Received {
            connection: id,
            side,
            bytes: count,
        });
        Poll::Ready(Ok(Some((vacant, count))))
    }

    /// Closes one half of an end.
    pub(super) fn close_half(&mut self, id: u64, side: usize, half: Half) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let end = &mut connection.ends[side];
        let waiter = match half {
            Half::Recv => {
                end.receives = false;
                end.receiver.take()
            }
            Half::Send => {
                end.sends = false;
                end.sender.take()
            }
        };
        let (closed, failed) = (end.is_closed(), end.failed.is_some());
        let unread = !connection.pipes[side].arrived.is_empty();
        let other_closed = connection.ends[1 - side].is_closed();
        self.forget(waiter);
        if closed && other_closed {
            self.connections.remove(&id);
        } else if closed && unread && !failed {
            self.send_reset(id, 1 - side);
        } else if half == Half::Send {
            // It fails if the connection has: there is nothing to end then.
            let _ = self.end(id, side);
        }
    }

    /// Closes both halves of an end.
    pub(super) fn close(&mut self, id: u64, side: usize) {
        self.close_half(id, side, Half::Recv);
        self.close_half(id, side, Half::Send);
    }

    /// Nobody will accept a connection.
    pub(super) fn turn_away(&mut self, id: u64) {
        if let Some(connection) = self.connections.get_mut(&id) {
            // A reset in place of the end that closing would send.
            connection.pipes[0].end_sent = true;
            self.send_reset(id, 0);
            self.close(id, 1);
        }
    }

    /// Resets all connections between two hosts.
    pub(super) fn sever(&mut self, a: usize, b: usize) {
        let concerned = |connection: &Connection| {
            let way = connection.way(0);
            way == (a, b) || way == (b, a)
        };
        let ids: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, connection)| concerned(connection))
            .map(|(id, _)| *id)
            .collect();
        for id in ids {
            self.fail_both(id, ErrorKind::ConnectionReset);
        }
    }

    /// Sends a packet on its way to side `to`.
    fn fly(&mut self, id: u64, to: usize, bytes: Vec<u8>, is_end: bool) {
        let Some(way) = self.connections.get(&id).map(|c| c.way(to)) else {
            return;
        };
        let due = self.arrival(way, HEADER_BYTES + bytes.len());
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.pipes[to]
                .flying
                .push_back(Segment { due, bytes, is_end });
            self.arm(id, to);
        }
    }

    fn arm(&mut self, id: u64, side: usize) {
        let now = self.now();
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let pipe = &mut connection.pipes[side];
        if let (false, Some(first)) = (pipe.is_armed, pipe.flying.front()) {
            pipe.is_armed = true;
            let at = first.due.max(now);
            self.schedule(
                at,
                Event::Segment {
                    connection: id,
                    side,
                },
            );
        }
    }

    /// The first packet on the way to `side` is there, or is not.
    pub(super) fn segment(&mut self, id: u64, side: usize) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let way = connection.way(side);
        let pipe = &mut connection.pipes[side];
        pipe.is_armed = false;
        if pipe.flying.is_empty() {
            return;
        }
        if self.links.loses(way, &mut self.random) {
            self.note(Noted::Lost {
                connection: id,
                side,
            });
            return self.retransmit(id, side);
        }
        let share = self.links.link(way).reset;
        if self.random.chance(share) {
            return self.fail_both(id, ErrorKind::ConnectionReset);
        }
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let (end, pipe) = (&mut connection.ends[side], &mut connection.pipes[side]);
        let Some(segment) = pipe.flying.pop_front() else {
            return;
        };
        pipe.retransmissions = 0;
        if end.is_closed() {
            if !segment.bytes.is_empty() {
                pipe.flying.clear();
                self.send_reset(id, 1 - side);
            }
            return;
        }
        pipe.arrived.extend(&segment.bytes);
        pipe.end_arrived |= segment.is_end;
        let waiter = end.receiver.take();
        self.note(Noted::Arrived {
            connection: id,
            side,
            bytes: segment.bytes.len(),
            end: segment.is_end,
        });
        self.wake(waiter);
        self.arm(id, side);
    }

    fn retransmit(&mut self, id: u64, side: usize) {
        let now = self.now();
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let pipe = &mut connection.pipes[side];
        let Some(first) = pipe.flying.front_mut() else {
            return;
        };
        pipe.retransmissions += 1;
        if pipe.retransmissions > RETRANSMISSIONS {
            return self.fail_both(id, ErrorKind::TimedOut);
        }
        let wait = RETRANSMIT_NS << (pipe.retransmissions - 1);
        first.due = now + wait.min(RETRANSMIT_MOST_NS);
        self.arm(id, side);
    }

    fn send_reset(&mut self, id: u64, side: usize) {
        let Some(way) = self.connections.get(&id).map(|c| c.way(side)) else {
            return;
        };
        let at = self.arrival(way, HEADER_BYTES);
        let reset = Event::Reset {
            connection: id,
            side,
            lost: 0,
        };
        self.schedule(at, reset);
    }

    pub(super) fn reset_arrives(&mut self, id: u64, side: usize, lost: u32) {
        let Some(way) = self.connections.get(&id).map(|c| c.way(side)) else {
            return;
        };
        if self.links.is_partitioned(way) {
            // Whatever else is sent is answered by one more, and is given up after as many time-outs.
            if lost < RETRANSMISSIONS {
                let at = self.now() + (RETRANSMIT_NS << lost).min(RETRANSMIT_MOST_NS);
                let again = Event::Reset {
                    connection: id,
                    side,
                    lost: lost + 1,
                };
                self.schedule(at, again);
            }
            return;
        }
        self.fail(id, side, ErrorKind::ConnectionReset);
    }

    fn fail_both(&mut self, id: u64, kind: ErrorKind) {
        for side in [0, 1] {
            self.fail(id, side, kind);
        }
    }

    /// An end of a connection fails. What has arrived there and was not received may or may not be lost: systems differ.
    fn fail(&mut self, id: u64, side: usize, kind: ErrorKind) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let end = &mut connection.ends[side];
        if end.is_closed() || end.failed.is_some() {
            return;
        }
        end.failed = Some(kind);
        let waiters = [end.receiver.take(), end.sender.take()];
        if self.random.chance(0.5) {
            connection.pipes[side].arrived.clear();
        }
        for pipe in &mut connection.pipes {
            pipe.flying.clear();
        }
        self.note(Noted::Failed {
            connection: id,
            side,
            timed_out: kind == ErrorKind::TimedOut,
        });
        waiters.into_iter().for_each(|waiter| self.wake(waiter));
    }

    pub(super) fn arrival(&mut self, way: Way, bytes: usize) -> u64 {
        let now = self.now();
        self.links.arrival(way, bytes, now, &mut self.random)
    }
}
