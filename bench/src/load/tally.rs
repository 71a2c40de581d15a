//! What is counted: round trips, faults, times. Nothing here grows with the number of round trips.

use super::fault::Fault;
use crate::{contract::Counters, measure::histogram::Histogram};

/// Where a run stands. Completions count by the phase their receive time falls in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Connections are being made.
    Connect,
    /// Traffic, not counted.
    Warmup,
    /// Traffic, counted.
    Window,
    /// No new requests; what is outstanding is awaited and verified.
    Drain,
}

/// Counts of one run.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Set by the timeline alone.
    pub(crate) phase: Phase,
    /// The counters of the report.
    pub(crate) counters: Counters,
    /// The first fault in words.
    pub(crate) first_failure: Option<String>,
    /// Requests issued and neither answered nor lost with their connection.
    pub(crate) in_flight: u64,
    rtt: Histogram,
    /// Equal times in a row, not yet in the histogram: the replies of one read to the requests of one write.
    run: (u64, u64),
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Connect,
            counters: Counters::default(),
            first_failure: None,
            in_flight: 0,
            rtt: Histogram::new(),
            run: (0, 0),
        }
    }

    /// A verified reply, `rtt_ns` after its submission.
    pub(crate) fn answered(&mut self, rtt_ns: u64) {
        self.in_flight -= 1;
        if self.phase != Phase::Window {
            return;
        }
        self.counters.received += 1;
        if self.run.0 == rtt_ns {
            self.run.1 += 1;
        } else {
            self.rtt.record_n(self.run.0, self.run.1);
            self.run = (rtt_ns, 1);
        }
    }

    /// This many requests were handed to the system.
    pub(crate) fn submitted(&mut self, requests: u64) {
        if self.phase == Phase::Window {
            self.counters.sent += requests;
        }
    }

    /// A connection ended with `lost` requests outstanding.
    pub(crate) fn failed(&mut self, fault: &Fault, lost: u64) {
        *fault.wrong.counter(&mut self.counters) += 1;
        if self.phase == Phase::Warmup {
            self.counters.warmup_errors += 1;
        }
        self.in_flight -= lost;
        self.first_failure.get_or_insert_with(|| fault.to_string());
    }

    /// A failure that no single connection had.
    pub(crate) fn failed_as_a_whole(&mut self, words: impl FnOnce() -> String) {
        self.first_failure.get_or_insert_with(words);
    }

    /// All times recorded so far.
    pub(crate) fn rtt(&mut self) -> &Histogram {
        self.rtt.record_n(self.run.0, self.run.1);
        self.run.1 = 0;
        &self.rtt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_equal_times_are_all_recorded_and_only_in_the_window() {
        let mut tally = Tally::new();
        tally.in_flight = 10;
        tally.answered(5);
        tally.phase = Phase::Window;
        for rtt in [7, 7, 0, 0, 0, 9] {
            tally.answered(rtt);
        }
        assert_eq!(tally.rtt().count(), 6);
        assert_eq!(tally.rtt().count(), 6, "looking changes nothing");
        tally.answered(9);
        assert_eq!(tally.rtt().count(), 7);
        tally.phase = Phase::Drain;
        tally.answered(9);
        assert_eq!((tally.rtt().count(), tally.counters.received), (7, 7));
        assert_eq!(tally.in_flight, 1);
    }
}
