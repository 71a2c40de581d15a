//! The load over datagrams: the same closed loop as over streams, where a reply may not come.
//!
//! A client is a connected UDP socket with a window of outstanding requests. A request is given up when its time is over and its
//! socket has nothing more to read, so a reply that waited for this process to look counts, with the time it really took. It is then
//! *lost*, and another is sent in its place: the window stays what it is called. A reply that comes after all is *late*. Replies may
//! overtake each other, and may come twice; both are counted, and no fault.
//!
//! A wrong reply (length, client, a number never asked, content) is a fault of the run. It answers nothing, so its request is lost, too.

mod client;
mod ledger;
mod slots;

#[cfg(test)]
mod tests;

use self::{
    client::{Client, Room, Station},
    ledger::{Ends, Ledger},
};
use super::{
    Plan, Stop,
    clock::{Clock, nanoseconds},
    connect,
    fault::{Fault, Wrong},
    message::Template,
    opening::Opening,
    process_use::Watch,
    report::{self, Outcome},
    tally::Phase,
    timeline::Timeline,
};
use crate::{
    contract::{LoadReport, UdpBuffers},
    udp_socket::{REQUESTED, granted},
};
use mio::{Events, Interest, Poll, Token, event::Event};
use shardloop_platform::network::UdpCounters;
use std::{io, mem, net::SocketAddr, time::Duration};

/// Events taken from the system at once.
const EVENTS: usize = 1_024;

/// How often overdue requests are looked for, as a part of the timeout.
const SWEEPS_PER_TIMEOUT: u64 = 8;

/// Receives of one client before its overdue requests are given up; more than any socket holds.
const RECEIVES_MAX: usize = 4_096;

/// Runs `plan`.
pub(super) fn run(plan: &Plan) -> io::Result<LoadReport> {
    let mut generator = Generator::bound(plan)?;
    generator.drive()?;
    generator.linger()?;
    Ok(generator.into_report(plan))
}

/// The loop's state.
struct Generator {
    poll: Poll,
    /// The last time the clock was read.
    now_ns: u64,
    station: Station,
    timeline: Timeline,
    opening: Opening,
    /// By client; `None` once it has failed.
    clients: Vec<Option<Client>>,
    /// Clients that may have more to read although no event will say so.
    again: Vec<usize>,
    timeout_ns: u64,
    next_sweep_ns: u64,
    buffers: UdpBuffers,
    /// The machine's count of full receive buffers before the first request.
    full_before: Option<u64>,
    server: SocketAddr,
}

impl Generator {
    /// All sockets made, nothing sent.
    fn bound(plan: &Plan) -> io::Result<Self> {
        let poll = Poll::new()?;
        let clock = Clock::start();
        let mut ledger = Ledger::new();
        let mut buffers = UdpBuffers::requested(REQUESTED);
        let clients = (0..plan.clients)
            .map(|index| make(index, plan, &poll, &mut buffers, &mut ledger))
            .collect();
        let [tag, ..] = std::process::id().to_le_bytes();
        // Every request is answered or given up before the drain is over.
        let patient = Plan {
            drain_timeout: plan.drain_timeout.max(plan.udp_timeout * 2),
            ..plan.clone()
        };
        Ok(Self {
            poll,
            now_ns: clock.now_ns(),
            station: Station {
                template: Template::new(plan.payload_bytes, tag),
                ledger,
                clock,
                verify: plan.verify,
                requests_per_client: match plan.stop {
                    Stop::After(_) => u64::MAX,
                    Stop::Messages { per_client, .. } => per_client,
                },
                room: Room::new(plan.payload_bytes),
            },
            timeline: Timeline::new(&patient, clock, Watch::new(plan.server_pid)),
            opening: Opening::new(plan.clients, plan.window_per_client),
            clients,
            again: Vec::new(),
            timeout_ns: nanoseconds(plan.udp_timeout),
            next_sweep_ns: 0,
            buffers,
            full_before: receive_buffers_full(plan.connect),
            server: plan.connect,
        })
    }

    /// From the first request until every request was answered or given up.
    fn drive(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let before = self.station.ledger.tally.phase;
        self.timeline.begin(&mut self.station.ledger.tally);
        self.station.ledger.turned(before, 0);
        self.opening.begin(self.station.clock.now_ns());
        while !self.is_over() {
            let patience = self.patience();
            super::wait(&mut self.poll, &mut events, patience)?;
            self.look_at_the_clock();
            self.turn(&events);
            self.open_some();
        }
        Ok(())
    }

    /// After the run: replies to lost requests may still come, for as long again as a request is waited for.
    fn linger(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let until_ns = self.station.clock.now_ns() + self.timeout_ns;
        loop {
            let left_ns = until_ns.saturating_sub(self.station.clock.now_ns());
            if self.station.ledger.missing() == 0 || left_ns == 0 {
                break;
            }
            super::wait(&mut self.poll, &mut events, Duration::from_nanos(left_ns))?;
            self.turn(&events);
        }
        // What nobody asked for stands in a socket that nobody reads any more.
        for index in 0..self.clients.len() {
            self.read(index);
        }
        Ok(())
    }

    /// What one wait brought, and what the turn before it left over.
    fn turn(&mut self, events: &Events) {
        for event in events {
            self.serve(event);
        }
        for index in mem::take(&mut self.again) {
            if let Some(client) = &mut self.clients[index] {
                client.take_from_queue();
            }
            self.read_on(index);
        }
        if self.now_ns >= self.next_sweep_ns {
            self.sweep();
        }
    }

    /// How long to wait for events: not at all while there is something else to do.
    fn patience(&self) -> Duration {
        if !self.opening.is_done() || !self.again.is_empty() {
            return Duration::ZERO;
        }
        let until_ns = self.timeline.until_ns().min(self.next_sweep_ns);
        Duration::from_nanos(until_ns.saturating_sub(self.now_ns))
    }

    /// Nothing is outstanding after the window.
    fn is_over(&mut self) -> bool {
        let nothing_left = self.opening.is_done() && self.station.ledger.tally.in_flight == 0;
        if nothing_left && self.clients.iter().flatten().all(Client::is_idle) {
            let before = self.station.ledger.tally.phase;
            self.timeline.finish_early(&mut self.station.ledger.tally);
            self.station.ledger.turned(before, 0);
        }
        let tally = &self.station.ledger.tally;
        tally.phase == Phase::Drain
            && (tally.in_flight == 0 || self.now_ns >= self.timeline.until_ns())
    }

    fn look_at_the_clock(&mut self) {
        self.now_ns = self.station.clock.now_ns();
        let before = self.station.ledger.tally.phase;
        self.timeline
            .reach(self.now_ns, &mut self.station.ledger.tally);
        if self.station.ledger.tally.phase != before {
            let in_flight = self.in_flight();
            self.station.ledger.turned(before, in_flight);
        }
    }

    /// Requests outstanding, counted client by client.
    fn in_flight(&self) -> u64 {
        self.clients.iter().flatten().map(Client::outstanding).sum()
    }

    fn serve(&mut self, event: &Event) {
        let Token(index) = event.token();
        if event.is_writable() {
            self.pay(index);
        }
        self.read_on(index);
    }

    /// Reads once, and again when the others have had their turn if that may have left something.
    fn read_on(&mut self, index: usize) {
        let more = self.read(index);
        if let Some(client) = &mut self.clients[index]
            && more
            && client.queues_for_reading()
        {
            self.again.push(index);
        }
    }

    /// One receive of one client, and what follows from it. Whether there may be more.
    fn read(&mut self, index: usize) -> bool {
        let Some(client) = &mut self.clients[index] else {
            return false;
        };
        match client.receive(&mut self.station.room) {
            Ok(came) => {
                if came.datagrams > 0 {
                    self.look_at_the_clock();
                    self.judge(index);
                }
                came.more
            }
            Err(wrong) => {
                self.end(index, wrong);
                false
            }
        }
    }

    fn judge(&mut self, index: usize) {
        if let Some(client) = &mut self.clients[index] {
            client.judge(self.now_ns, &mut self.station);
        }
        self.pay(index);
    }

    /// Sends what a client owes, if more is to be asked at all.
    fn pay(&mut self, index: usize) {
        let Some(client) = &mut self.clients[index] else {
            return;
        };
        if self.station.ledger.tally.phase == Phase::Drain {
            client.ask_no_more();
        } else if let Err(wrong) = client.pay(&mut self.station, self.poll.registry()) {
            self.end(index, wrong);
        }
    }

    /// Gives up what is overdue, once the socket shows that it has not come.
    fn sweep(&mut self) {
        let now_ns = self.now_ns;
        self.next_sweep_ns = now_ns + (self.timeout_ns / SWEEPS_PER_TIMEOUT).max(1);
        let Some(submitted_by_ns) = now_ns.checked_sub(self.timeout_ns) else {
            return;
        };
        for index in 0..self.clients.len() {
            for _ in 0..RECEIVES_MAX {
                let overdue = |client: &Client| client.is_overdue(submitted_by_ns);
                if !self.clients[index].as_ref().is_some_and(overdue) || !self.read(index) {
                    break;
                }
            }
            if let Some(client) = &mut self.clients[index] {
                client.give_up(submitted_by_ns, &mut self.station);
            }
            // Not only for those: a system that is short of memory takes nothing, and announces nothing either.
            self.pay(index);
        }
    }

    /// Opens the windows that are due.
    fn open_some(&mut self) {
        if self.opening.is_done() {
            return;
        }
        self.look_at_the_clock();
        for part in self.opening.due(self.now_ns) {
            if let Some(client) = &mut self.clients[part.client] {
                client.owe(part.requests);
            }
            self.pay(part.client);
        }
        if self.opening.is_done() {
            let tally = &self.station.ledger.tally;
            self.timeline.opened(self.opening.began_ns(), tally);
        }
    }

    /// Ends a client whose socket has a fault; the others go on.
    fn end(&mut self, index: usize, wrong: Wrong) {
        if let Some(client) = self.clients[index].take() {
            client.end(wrong, &mut self.station);
        }
    }

    fn into_report(mut self, plan: &Plan) -> LoadReport {
        let (window_ns, drain_ns) = (self.timeline.window_ns(), self.timeline.drained_ns());
        let dropped = self.clients.iter().flatten().map(Client::dropped);
        let full_after = receive_buffers_full(self.server);
        let ends = Ends {
            window_ns,
            in_flight: self.in_flight(),
            buffers: self.buffers,
            client_dropped: dropped.sum(),
            system_receive_buffer_full: full_after
                .zip(self.full_before)
                .and_then(|(after, before)| after.checked_sub(before)),
        };
        let ledger = &mut self.station.ledger;
        let datagrams = ledger.conclude(plan, ends);
        let outcome = Outcome {
            used: self.timeline.used(ledger.tally.counters.received),
            window_ns,
            drain_ns,
            session: None,
            datagrams: Some(datagrams),
        };
        report::of(plan, &mut ledger.tally, outcome)
    }
}

/// A client's socket, registered as readable; `None` if there is none, and then that is counted.
fn make(
    index: usize,
    plan: &Plan,
    poll: &Poll,
    buffers: &mut UdpBuffers,
    ledger: &mut Ledger,
) -> Option<Client> {
    let (id, token) = (super::client_id(index), Token(index));
    let made = connect::datagrams(plan, index).and_then(|mut socket| {
        poll.registry()
            .register(&mut socket, token, Interest::READABLE)?;
        Ok(socket)
    });
    match made {
        Ok(socket) => {
            buffers.add(granted(&socket));
            Some(Client::new(id, token, socket))
        }
        Err(error) => {
            ledger.wrong(&Fault {
                client: id,
                sequence: 0,
                wrong: Wrong::Connect(error),
            });
            None
        }
    }
}

/// How many datagrams found a full receive buffer on this machine so far, whosever it was.
fn receive_buffers_full(server: SocketAddr) -> Option<u64> {
    let counters = if server.is_ipv6() {
        UdpCounters::read_v6()
    } else {
        UdpCounters::read()
    };
    counters.ok()?.receive_buffer_full
}
