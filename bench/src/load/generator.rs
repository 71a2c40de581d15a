//! The loop: waits for events, lets each ready connection read, verify and ask again, and keeps to the timeline.

use super::{
    Plan, Stop,
    clock::Clock,
    connect,
    connection::{Buffers, Came, Connection, Station},
    exchange::{Sequence, Traffic},
    fault::{Fault, Wrong},
    message::Template,
    opening::Opening,
    process_use::Watch,
    report::{self, Outcome},
    tally::{Phase, Tally},
    timeline::Timeline,
    wire::{Setup, Wire},
};
use crate::contract::{LoadReport, TlsSession};
use crate::repetition::whole_ns;
use mio::{Events, Poll, Token, event::Event};
use std::{io, time::Duration};

/// Events taken from the system at once.
const EVENTS: usize = 1_024;

/// Runs `plan` with the protocol `M`.
pub(crate) fn run<M: Wire>(plan: &Plan) -> io::Result<LoadReport> {
    let mut generator = Generator::<M>::connected(plan)?;
    generator.shake_hands(plan.connect_timeout)?;
    generator.drive()?;
    generator.part();
    Ok(generator.into_report(plan))
}

/// The loop's state.
struct Generator<M> {
    desk: Desk,
    /// The last time the clock was read.
    now_ns: u64,
    timeline: Timeline,
    opening: Opening,
    /// By client; `None` once it has failed.
    connections: Vec<Option<Connection<M>>>,
    /// What the first client's handshake agreed on.
    session: Option<TlsSession>,
    /// Clients that may have more to read although no event will say so.
    again: Vec<usize>,
}

/// What all connections use.
struct Desk {
    poll: Poll,
    clock: Clock,
    traffic: Traffic,
    buffers: Buffers,
}

impl Desk {
    fn station(&mut self) -> Station<'_> {
        Station {
            traffic: &mut self.traffic,
            buffers: &mut self.buffers,
            clock: self.clock,
            registry: self.poll.registry(),
        }
    }
}

impl<M: Wire> Generator<M> {
    /// All connections made, nothing sent.
    fn connected(plan: &Plan) -> io::Result<Self> {
        let mut poll = Poll::new()?;
        let clock = Clock::start();
        let mut tally = Tally::new();
        let streams = connect::all(plan, &mut poll, clock, &mut tally)?;
        let setup = Setup::new(plan)?;
        let connection = |(index, stream): (usize, Option<_>)| {
            let Some(stream) = stream else {
                return Ok(None);
            };
            let sequence = Sequence::new(super::client_id(index), plan.window_per_client);
            let machine = M::client(&setup)?;
            Ok(Some(Connection::new(
                stream,
                Token(index),
                machine,
                sequence,
            )))
        };
        // The tag tells replies of this run from those of another process.
        let [tag, ..] = std::process::id().to_le_bytes();
        let traffic = Traffic {
            template: Template::new(plan.payload_bytes, tag),
            tally,
            verify: plan.verify,
            requests_per_client: match plan.stop {
                Stop::After(_) => u64::MAX,
                Stop::Messages { per_client, .. } => per_client,
            },
        };
        Ok(Self {
            desk: Desk {
                poll,
                clock,
                traffic,
                buffers: Buffers::new(),
            },
            now_ns: clock.now_ns(),
            timeline: Timeline::new(plan, clock, Watch::new(plan.server_pid)),
            opening: Opening::new(plan.clients, plan.window_per_client),
            connections: streams
                .into_iter()
                .enumerate()
                .map(connection)
                .collect::<io::Result<_>>()?,
            session: None,
            again: Vec::new(),
        })
    }

    /// Every connection is ready for requests, or has failed.
    fn shake_hands(&mut self, within: Duration) -> io::Result<()> {
        for index in 0..self.connections.len() {
            let started = match &mut self.connections[index] {
                Some(connection) => connection.start(&mut self.desk.station()),
                None => continue,
            };
            self.settle(index, started);
        }
        let until_ns = self.desk.clock.now_ns() + whole_ns(within);
        let mut events = Events::with_capacity(EVENTS);
        while self.hands_to_shake() {
            let left_ns = until_ns.saturating_sub(self.desk.clock.now_ns());
            if left_ns == 0 {
                self.give_up_handshakes(within);
                break;
            }
            super::wait(
                &mut self.desk.poll,
                &mut events,
                Duration::from_nanos(left_ns),
            )?;
            for event in &events {
                self.serve(event);
            }
            self.read_again();
        }
        self.session = self
            .connections
            .iter()
            .flatten()
            .find_map(Connection::session);
        Ok(())
    }

    fn hands_to_shake(&self) -> bool {
        let mut open = self.connections.iter().flatten();
        open.any(|connection| !connection.is_ready())
    }

    fn give_up_handshakes(&mut self, within: Duration) {
        for index in 0..self.connections.len() {
            if let Some(connection) = &self.connections[index]
                && !connection.is_ready()
            {
                self.settle(index, Err(Wrong::Handshake(within)));
            }
        }
    }

    /// Says goodbye on the connections that are left.
    fn part(&mut self) {
        for index in 0..self.connections.len() {
            if let Some(connection) = self.connections[index].take() {
                connection.part(&mut self.desk.station());
            }
        }
    }

    /// From the first request to the last reply.
    fn drive(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        self.timeline.begin(&mut self.desk.traffic.tally);
        self.opening.begin(self.desk.clock.now_ns());
        while !self.is_over() {
            let patience = self.patience();
            super::wait(&mut self.desk.poll, &mut events, patience)?;
            if events.is_empty() {
                self.now_ns = self.desk.clock.now_ns();
                self.timeline
                    .reach(self.now_ns, &mut self.desk.traffic.tally);
            }
            for event in &events {
                self.serve(event);
            }
            self.read_again();
            self.open_some();
        }
        self.look_for_unasked();
        Ok(())
    }

    /// How long to wait for events: not at all while there is something else to do.
    fn patience(&self) -> Duration {
        if !self.opening.is_done() || !self.again.is_empty() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.timeline.until_ns().saturating_sub(self.now_ns))
    }

    /// Nothing is outstanding after the window, or the drain's time has passed.
    fn is_over(&mut self) -> bool {
        let tally = &mut self.desk.traffic.tally;
        if self.opening.is_done() && tally.in_flight == 0 {
            self.timeline.finish_early(tally);
        }
        tally.phase == Phase::Drain
            && (tally.in_flight == 0 || self.now_ns >= self.timeline.until_ns())
    }

    fn serve(&mut self, event: &Event) {
        let Token(index) = event.token();
        let Some(connection) = &mut self.connections[index] else {
            return;
        };
        if event.is_read_closed() || event.is_error() {
            connection.expect_end();
        }
        let written = if event.is_writable() {
            connection.write_pending()
        } else {
            Ok(())
        };
        let result = written.and_then(|()| self.read(index));
        self.settle(index, result);
    }

    /// One read of one client, and what follows from it.
    fn read(&mut self, index: usize) -> Result<(), Wrong> {
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        let came = connection.read(&mut self.desk.buffers)?;
        self.now_ns = self.desk.clock.now_ns();
        self.timeline
            .reach(self.now_ns, &mut self.desk.traffic.tally);
        let Came::Bytes(bytes) = came else {
            return Ok(());
        };
        self.handle(index, bytes)
    }

    fn handle(&mut self, index: usize, bytes: usize) -> Result<(), Wrong> {
        match &mut self.connections[index] {
            Some(connection) => connection.handle(bytes, self.now_ns, &mut self.desk.station()),
            None => Ok(()),
        }
    }

    fn read_again(&mut self) {
        let due = self.again.len();
        for at in 0..due {
            let index = self.again[at];
            if let Some(connection) = &mut self.connections[index] {
                connection.take_from_queue();
            }
            let result = self.read(index);
            self.settle(index, result);
        }
        self.again.drain(..due);
    }

    /// Opens the windows that are due.
    fn open_some(&mut self) {
        if self.opening.is_done() {
            return;
        }
        self.now_ns = self.desk.clock.now_ns();
        for part in self.opening.due(self.now_ns) {
            let result = match &mut self.connections[part.client] {
                Some(connection) => connection.begin(part.requests, &mut self.desk.station()),
                None => continue,
            };
            self.settle(part.client, result);
        }
        if self.opening.is_done() {
            let tally = &self.desk.traffic.tally;
            self.timeline.opened(self.opening.began_ns(), tally);
        }
    }

    /// Ends a connection that has a fault; the others go on.
    fn settle(&mut self, index: usize, result: Result<(), Wrong>) {
        let Some(connection) = &mut self.connections[index] else {
            return;
        };
        let Err(wrong) = result else {
            if connection.queues_for_reading() {
                self.again.push(index);
            }
            return;
        };
        let sequence = connection.sequence();
        let fault = Fault {
            client: sequence.client(),
            sequence: sequence.awaited(),
            wrong,
        };
        let lost = sequence.outstanding();
        self.desk.traffic.tally.failed(&fault, lost);
        self.connections[index] = None;
        // What a faulty turn left behind belongs to nobody.
        self.desk.buffers.discard();
    }

    /// After the drain: bytes on a connection that awaits none are a reply nobody asked for.
    fn look_for_unasked(&mut self) {
        for index in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[index] else {
                continue;
            };
            if connection.sequence().outstanding() > 0 {
                continue;
            }
            // Not every byte is part of a reply: layers talk too.
            let handled = match connection.read(&mut self.desk.buffers) {
                Ok(Came::Bytes(bytes)) => self.handle(index, bytes),
                Ok(Came::Nothing) | Err(_) => Ok(()),
            };
            let has_partial = self.connections[index]
                .as_ref()
                .is_some_and(Connection::has_partial);
            match handled {
                Ok(()) if has_partial => self.settle(index, Err(Wrong::Unexpected)),
                // It ended after everything was answered.
                Err(Wrong::Disconnect(_)) => self.connections[index] = None,
                result => self.settle(index, result),
            }
        }
    }

    fn into_report(mut self, plan: &Plan) -> LoadReport {
        let (window_ns, drain_ns) = (self.timeline.window_ns(), self.timeline.drained_ns());
        let round_trips = self.desk.traffic.tally.counters.received;
        let outcome = Outcome {
            used: self.timeline.used(round_trips),
            window_ns,
            drain_ns,
            session: self.session,
            datagrams: None,
        };
        report::of(plan, &mut self.desk.traffic.tally, outcome)
    }
}
