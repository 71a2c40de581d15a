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
    wire::Wire,
};
use crate::contract::LoadReport;
use mio::{Events, Poll, Token, event::Event};
use std::{io, time::Duration};

/// Events taken from the system at once.
const EVENTS: usize = 1_024;

/// Runs `plan` with the protocol `M`.
pub(crate) fn run<M: Wire>(plan: &Plan) -> io::Result<LoadReport> {
    let mut generator = Generator::<M>::connected(plan)?;
    generator.drive()?;
    Ok(generator.into_report(plan))
}

/// The loop's state.
struct Generator<M> {
    poll: Poll,
    clock: Clock,
    /// The last time the clock was read.
    now_ns: u64,
    machine: M,
    traffic: Traffic,
    buffers: Buffers,
    timeline: Timeline,
    opening: Opening,
    /// By client; `None` once it has failed.
    connections: Vec<Option<Connection>>,
    /// Clients that may have more to read although no event will say so.
    again: Vec<usize>,
}

impl<M: Wire> Generator<M> {
    /// All connections made, nothing sent.
    fn connected(plan: &Plan) -> io::Result<Self> {
        let mut poll = Poll::new()?;
        let clock = Clock::start();
        let mut tally = Tally::new();
        let streams = connect::all(plan, &mut poll, clock, &mut tally)?;
        let connection = |(index, stream): (usize, Option<_>)| {
            let sequence = Sequence::new(super::client_id(index), plan.window_per_client);
            Some(Connection::new(stream?, Token(index), sequence))
        };
        // The tag tells replies of this run from those of another process.
        let [tag, ..] = std::process::id().to_le_bytes();
        Ok(Self {
            poll,
            clock,
            now_ns: clock.now_ns(),
            machine: M::for_payload(plan.payload_bytes),
            traffic: Traffic {
                template: Template::new(plan.payload_bytes, tag),
                tally,
                verify: plan.verify,
                requests_per_client: match plan.stop {
                    Stop::After(_) => u64::MAX,
                    Stop::Messages { per_client, .. } => per_client,
                },
            },
            buffers: Buffers::new(),
            timeline: Timeline::new(plan, clock, Watch::new(plan.server_pid)),
            opening: Opening::new(plan.clients, plan.window_per_client),
            connections: streams.into_iter().enumerate().map(connection).collect(),
            again: Vec::new(),
        })
    }

    /// From the first request to the last reply.
    fn drive(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        self.timeline.begin(&mut self.traffic.tally);
        self.opening.begin(self.clock.now_ns());
        while !self.is_over() {
            let patience = self.patience();
            super::wait(&mut self.poll, &mut events, patience)?;
            if events.is_empty() {
                self.now_ns = self.clock.now_ns();
                self.timeline.reach(self.now_ns, &mut self.traffic.tally);
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
        let tally = &mut self.traffic.tally;
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
        let came = connection.read(&mut self.buffers)?;
        self.now_ns = self.clock.now_ns();
        self.timeline.reach(self.now_ns, &mut self.traffic.tally);
        let Came::Bytes(bytes) = came else {
            return Ok(());
        };
        let mut station = Station {
            machine: &mut self.machine,
            traffic: &mut self.traffic,
            buffers: &mut self.buffers,
            clock: self.clock,
            registry: self.poll.registry(),
        };
        connection.handle(bytes, self.now_ns, &mut station)
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
        self.now_ns = self.clock.now_ns();
        for part in self.opening.due(self.now_ns) {
            let Some(connection) = &mut self.connections[part.client] else {
                continue;
            };
            let mut station = Station {
                machine: &mut self.machine,
                traffic: &mut self.traffic,
                buffers: &mut self.buffers,
                clock: self.clock,
                registry: self.poll.registry(),
            };
            let result = connection.begin(part.requests, &mut station);
            self.settle(part.client, result);
        }
        if self.opening.is_done() {
            let tally = &self.traffic.tally;
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
        self.traffic.tally.failed(&fault, lost);
        self.connections[index] = None;
        // What a faulty turn left behind belongs to nobody.
        self.buffers.discard();
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
            let came = connection.read(&mut self.buffers);
            if connection.has_partial() || matches!(came, Ok(Came::Bytes(1..))) {
                self.settle(index, Err(Wrong::Unexpected));
            }
        }
    }

    fn into_report(mut self, plan: &Plan) -> LoadReport {
        let (window_ns, drain_ns) = (self.timeline.window_ns(), self.timeline.drained_ns());
        let round_trips = self.traffic.tally.counters.received;
        let outcome = Outcome {
            used: self.timeline.used(round_trips),
            window_ns,
            drain_ns,
            datagrams: None,
        };
        report::of(plan, &mut self.traffic.tally, outcome)
    }
}
