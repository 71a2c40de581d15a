//! When a run is in which phase: warm-up, the measured window, the drain; and what the processes used within the window.
//!
//! The window is \[t0, t1): t0 is read after the clocks of the processes, t1 before them, and a completion counts by its receive
//! time. Warm-up runs into the window without a pause; after t1 nothing new is asked.

use super::{
    Plan, Stop,
    clock::{Clock, nanoseconds},
    process_use::{Used, Watch},
    tally::{Phase, Tally},
};
use crate::contract::Window;

/// The phases of one run.
#[derive(Debug)]
pub(crate) struct Timeline {
    clock: Clock,
    warmup_ns: u64,
    window_ns: u64,
    drain_ns: u64,
    announce: bool,
    /// When the present phase is over.
    until_ns: u64,
    /// First and last moment of the window.
    t0_ns: u64,
    t1_ns: u64,
    watch: Watch,
}

impl Timeline {
    pub(crate) fn new(plan: &Plan, clock: Clock, watch: Watch) -> Self {
        let (Stop::After(longest) | Stop::Messages { longest, .. }) = plan.stop;
        Self {
            clock,
            warmup_ns: nanoseconds(plan.warmup),
            window_ns: nanoseconds(longest),
            drain_ns: nanoseconds(plan.drain_timeout),
            announce: plan.announce,
            until_ns: u64::MAX,
            t0_ns: 0,
            t1_ns: 0,
            watch,
        }
    }

    /// Connections are there; requests may begin. Without a warm-up the window begins with the first of them.
    pub(crate) fn begin(&mut self, tally: &mut Tally) {
        tally.phase = Phase::Warmup;
        if self.warmup_ns == 0 {
            self.begin_window(tally);
        }
    }

    /// Every client has its window open. The warm-up lasts at least until here.
    pub(crate) fn opened(&mut self, began_ns: u64, tally: &Tally) {
        if tally.phase == Phase::Warmup {
            self.until_ns = began_ns + self.warmup_ns;
        }
    }

    /// It is `now_ns`: changes the phase if its time is over.
    pub(crate) fn reach(&mut self, now_ns: u64, tally: &mut Tally) {
        if now_ns < self.until_ns {
            return;
        }
        match tally.phase {
            Phase::Warmup => self.begin_window(tally),
            Phase::Window => self.end_window(now_ns, tally),
            Phase::Drain | Phase::Connect => {}
        }
    }

    /// Nothing is outstanding and nothing more will be asked: the window is over before its time.
    pub(crate) fn finish_early(&mut self, tally: &mut Tally) {
        if tally.phase == Phase::Warmup {
            self.begin_window(tally);
        }
        if tally.phase == Phase::Window {
            self.end_window(self.clock.now_ns(), tally);
        }
    }

    /// When the present phase is over.
    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns
    }

    /// Length of the window.
    pub(crate) fn window_ns(&self) -> u64 {
        self.t1_ns - self.t0_ns
    }

    /// Time since the window.
    pub(crate) fn drained_ns(&self) -> u64 {
        self.clock.now_ns() - self.t1_ns
    }

    /// What the processes used for so many round trips.
    pub(crate) fn used(&self, round_trips: u64) -> Used {
        self.watch.used(self.window_ns(), round_trips)
    }

    fn begin_window(&mut self, tally: &mut Tally) {
        self.say(Window::Begin);
        self.watch.begin();
        tally.phase = Phase::Window;
        self.t0_ns = self.clock.now_ns();
        self.until_ns = self.t0_ns + self.window_ns;
    }

    fn end_window(&mut self, now_ns: u64, tally: &mut Tally) {
        self.watch.end();
        tally.phase = Phase::Drain;
        tally.counters.in_flight_end = tally.in_flight;
        self.t1_ns = now_ns.max(self.t0_ns);
        self.until_ns = self.t1_ns + self.drain_ns;
        self.say(Window::End);
    }

    /// Tells the parent. If it no longer listens, the run goes on for its exit code.
    fn say(&self, window: Window) {
        if self.announce {
            let line = serde_json::to_string(&window).expect("it is a plain enum");
            let _ = super::report::print_line(&line);
        }
    }
}
