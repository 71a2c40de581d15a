//! One client over datagrams: a connected UDP socket, its slots, and the requests it owes.
//!
//! Replies are received into buffers that all clients share, and each asks for one more request. A request the socket does not take
//! stays owed until the socket is writable; it has no number before it is sent.

use super::{
    super::{
        Verify,
        clock::Clock,
        fault::{Fault, Wrong},
        message::{Difference, Template, sequence_of},
    },
    ledger::Ledger,
    slots::{Slots, Standing},
};
use mio::{Interest, Registry, Token, net::UdpSocket};
use nix::errno::Errno;
use shardloop_platform::{
    datagram::{Batch, Outgoing, recv_batch, send_batch},
    socket::socket_memory,
};
use std::{io, mem};

/// Datagrams of one system call.
const AT_ONCE: usize = 32;

/// What all clients share.
#[derive(Debug)]
pub(super) struct Station {
    pub(super) template: Template,
    pub(super) ledger: Ledger,
    pub(super) clock: Clock,
    pub(super) verify: Verify,
    /// Requests answered in time that end a client's part; `u64::MAX` where time ends the run.
    pub(super) requests_per_client: u64,
    pub(super) room: Room,
}

/// Room for what one call receives, and for what one call sends.
#[derive(Debug)]
pub(super) struct Room {
    incoming: Batch,
    outgoing: Batch,
    /// A piece for each datagram, a byte longer than it should be, to see that it is too long.
    received: Vec<u8>,
    piece_bytes: usize,
    sent: Vec<u8>,
}

impl Room {
    pub(super) fn new(payload_bytes: usize) -> Self {
        let piece_bytes = payload_bytes + 1;
        Self {
            incoming: Batch::new(AT_ONCE),
            outgoing: Batch::new(AT_ONCE),
            received: vec![0; AT_ONCE * piece_bytes],
            piece_bytes,
            sent: Vec::new(),
        }
    }
}

/// One client.
#[derive(Debug)]
pub(super) struct Client {
    id: u32,
    token: Token,
    socket: UdpSocket,
    slots: Slots,
    owed: u64,
    /// Asked for once, when the system first took less than it was given.
    watches_writable: bool,
    /// Stands in the queue for another receive.
    queued: bool,
}

impl Client {
    pub(super) fn new(id: u32, token: Token, socket: UdpSocket) -> Self {
        Self {
            id,
            token,
            socket,
            slots: Slots::default(),
            owed: 0,
            watches_writable: false,
            queued: false,
        }
    }

    /// Requests that wait for a reply.
    pub(super) fn outstanding(&self) -> u64 {
        self.slots.outstanding()
    }

    /// Nothing waits and nothing is owed.
    pub(super) fn is_idle(&self) -> bool {
        self.outstanding() == 0 && self.owed == 0
    }

    /// Whether it is not queued for another receive yet; it is now.
    pub(super) fn queues_for_reading(&mut self) -> bool {
        !mem::replace(&mut self.queued, true)
    }

    /// Its queued receive comes now.
    pub(super) fn take_from_queue(&mut self) {
        self.queued = false;
    }

    /// What the kernel dropped at the socket since it exists.
    pub(super) fn dropped(&self) -> Option<u64> {
        socket_memory(&self.socket).ok()?.drops.map(u64::from)
    }

    /// Whether a request sent at that time or before still waits.
    pub(super) fn is_overdue(&self, submitted_by_ns: u64) -> bool {
        self.slots.is_overdue(submitted_by_ns)
    }

    /// Gives up those; each is owed again.
    pub(super) fn give_up(&mut self, submitted_by_ns: u64, station: &mut Station) {
        let lost = self.slots.give_up(submitted_by_ns);
        station.ledger.lost(lost);
        self.owed += lost;
    }

    /// So many more requests are wanted.
    pub(super) fn owe(&mut self, requests: usize) {
        self.owed += requests as u64;
    }

    /// Nothing more is asked.
    pub(super) fn ask_no_more(&mut self) {
        self.owed = 0;
    }

    /// The fault of this client's socket, which ends it; its requests are lost.
    pub(super) fn end(self, wrong: Wrong, station: &mut Station) {
        let fault = Fault {
            client: self.id,
            sequence: self.slots.next(),
            wrong,
        };
        station.ledger.lost(self.outstanding());
        station.ledger.wrong(&fault);
    }

    /// One receive. Returns how many datagrams came, and whether there may be more. The replies are judged by [`Self::judge`] once
    /// the timeline knows when they came.
    pub(super) fn receive(&mut self, room: &mut Room) -> Result<Came, Wrong> {
        let pieces = room.received.chunks_exact_mut(room.piece_bytes);
        let came = recv_batch(&self.socket, &mut room.incoming, pieces).map_err(refused)?;
        Ok(Came {
            datagrams: came.len(),
            more: came.len() == AT_ONCE,
        })
    }

    /// Judges what [`Self::receive`] brought; each reply in time makes one more request due.
    pub(super) fn judge(&mut self, received_ns: u64, station: &mut Station) {
        for at in 0..station.room.incoming.received().len() {
            if let Err((sequence, wrong)) = self.judge_one(at, received_ns, station) {
                station.ledger.wrong(&Fault {
                    client: self.id,
                    sequence,
                    wrong,
                });
            }
        }
    }

    fn judge_one(
        &mut self,
        at: usize,
        received_ns: u64,
        station: &mut Station,
    ) -> Result<(), (u64, Wrong)> {
        let room = &station.room;
        let bytes = room.incoming.received()[at].bytes;
        let reply = &room.received[at * room.piece_bytes..][..bytes];
        if bytes != station.template.payload_bytes() {
            return Err((self.slots.next(), Wrong::Length(bytes as u64)));
        }
        let sequence = sequence_of(reply);
        let standing = self.slots.standing(sequence);
        if standing == Standing::NeverAsked {
            return Err((sequence, Wrong::Unexpected));
        }
        check(station, reply, self.id, sequence).map_err(|wrong| (sequence, wrong))?;
        self.slots.settle(sequence);
        match standing {
            Standing::InTime {
                submitted_ns,
                reordered,
            } => {
                let rtt_ns = received_ns.saturating_sub(submitted_ns);
                station.ledger.echoed(rtt_ns, reordered);
                self.owed += 1;
            }
            Standing::Late => station.ledger.late(),
            Standing::Duplicate | Standing::NeverAsked => station.ledger.duplicate(),
        }
        Ok(())
    }

    /// Sends what is owed, as far as the socket takes it.
    pub(super) fn pay(&mut self, station: &mut Station, registry: &Registry) -> Result<(), Wrong> {
        let wanted = station
            .requests_per_client
            .saturating_sub(self.slots.answered() + self.outstanding());
        self.owed = self.owed.min(wanted);
        while self.owed > 0 {
            let count = usize::try_from(self.owed).map_or(AT_ONCE, |owed| owed.min(AT_ONCE));
            let taken = self.send(count, station)?;
            if taken < count {
                return self.watch_writable(registry);
            }
        }
        Ok(())
    }

    /// One send of so many requests. Returns how many of them went.
    fn send(&mut self, count: usize, station: &mut Station) -> Result<usize, Wrong> {
        let Station {
            template,
            room,
            ledger,
            clock,
            ..
        } = station;
        room.sent.clear();
        for sequence in (self.slots.next()..).take(count) {
            template.lend(self.id, sequence, |request| {
                room.sent.extend_from_slice(request)
            });
        }
        let datagrams = room
            .sent
            .chunks_exact(template.payload_bytes())
            .map(|bytes| Outgoing { to: None, bytes });
        let submitted_ns = clock.now_ns();
        let sent = send_batch(&self.socket, &mut room.outgoing, datagrams);
        self.slots.sent(sent.datagrams, submitted_ns);
        self.owed -= sent.datagrams as u64;
        ledger.sent(sent.datagrams as u64);
        match sent.error {
            Some(error) if !is_short_of_memory(&error) => Err(refused(error)),
            _ => Ok(sent.datagrams),
        }
    }

    fn watch_writable(&mut self, registry: &Registry) -> Result<(), Wrong> {
        if self.watches_writable {
            return Ok(());
        }
        self.watches_writable = true;
        let both = Interest::READABLE | Interest::WRITABLE;
        registry
            .reregister(&mut self.socket, self.token, both)
            .map_err(Wrong::Io)
    }
}

/// What a receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) datagrams: usize,
    pub(super) more: bool,
}

/// Header, and the body as often as asked.
fn check(station: &Station, reply: &[u8], client: u32, sequence: u64) -> Result<(), Wrong> {
    let template = &station.template;
    let mut checked = template.check_header(reply, client, sequence);
    if checked.is_ok() && station.verify.includes_body(sequence) {
        checked = template.check_body(reply, client, sequence);
    }
    checked.map_err(|difference| match difference {
        Difference::Byte(byte) => Wrong::Content(byte),
        Difference::Sequence(found) => Wrong::Order(found),
    })
}

/// The system takes nothing now, although the socket has room: macOS says so where a receiver's buffer is full.
fn is_short_of_memory(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ENOBUFS as i32)
}

/// A failed call. That nobody listens comes as an answer to what was sent before.
fn refused(error: io::Error) -> Wrong {
    if error.kind() == io::ErrorKind::ConnectionRefused {
        Wrong::Disconnect(Some(error))
    } else {
        Wrong::from_call(error)
    }
}
