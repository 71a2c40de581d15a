//! Where every request went: `in flight before + sent = echoed in time + lost + in flight after`, over the window and over the whole
//! run.
//!
//! What is in flight is taken from the clients' slots, and not from the counters that the sum is held against.

use super::super::{
    Plan,
    clock::nanoseconds,
    fault::Fault,
    tally::{Phase, Tally},
};
use crate::contract::{Closure, DatagramReport, UdpBuffers};

/// The counts of a run over datagrams.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) tally: Tally,
    /// From the first request on.
    whole: Closure,
    /// What `whole` was when the window began.
    warmup: Closure,
    window: Closure,
}

/// What else is known at the end.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) window_ns: u64,
    pub(super) in_flight: u64,
    pub(super) buffers: UdpBuffers,
    pub(super) client_dropped: Option<u64>,
    pub(super) system_receive_buffer_full: Option<u64>,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            tally: Tally::new(),
            whole: Closure::default(),
            warmup: Closure::default(),
            window: Closure::default(),
        }
    }

    pub(super) fn sent(&mut self, requests: u64) {
        self.tally.in_flight += requests;
        self.tally.submitted(requests);
        self.count(|closure| closure.sent += requests);
    }

    pub(super) fn echoed(&mut self, rtt_ns: u64, reordered: bool) {
        self.tally.answered(rtt_ns);
        self.count(|closure| {
            closure.echoed += 1;
            closure.reordered += u64::from(reordered);
        });
    }

    pub(super) fn lost(&mut self, requests: u64) {
        self.tally.in_flight -= requests;
        self.count(|closure| closure.lost += requests);
    }

    pub(super) fn late(&mut self) {
        self.count(|closure| closure.late += 1);
    }

    pub(super) fn duplicate(&mut self) {
        self.count(|closure| closure.duplicates += 1);
    }

    /// A reply was wrong. Its request still waits for the right one.
    pub(super) fn wrong(&mut self, fault: &Fault) {
        self.tally.failed(fault, 0);
    }

    /// The timeline has gone from one phase to the next, or further.
    pub(super) fn turned(&mut self, before: Phase, in_flight: u64) {
        let now = self.tally.phase;
        if before < Phase::Window && now >= Phase::Window {
            self.warmup = self.whole;
            self.window.in_flight_begin = in_flight;
        }
        if before < Phase::Drain && now >= Phase::Drain {
            self.window.in_flight_end = in_flight;
        }
    }

    /// Lost requests whose reply has not come, not even late.
    pub(super) fn missing(&self) -> u64 {
        self.whole.lost.saturating_sub(self.whole.late)
    }

    /// The report; what breaks the rules is a failure of the run.
    pub(super) fn conclude(&mut self, plan: &Plan, ends: Ends) -> DatagramReport {
        self.whole.in_flight_end = ends.in_flight;
        let (lost, echoed) = (
            self.whole.lost - self.warmup.lost,
            self.whole.echoed - self.warmup.echoed,
        );
        let loss_share = share(lost, lost + echoed);
        for (what, closure) in [("window", self.window), ("whole run", self.whole)] {
            if !closure.holds() {
                self.tally.failed_as_a_whole(|| {
                    format!("requests of the {what} do not add up: {closure:?}; this is a fault of the load generator")
                });
            }
        }
        if loss_share > plan.max_loss {
            let late = (self.whole.late - self.warmup.late).min(lost);
            self.tally
                .failed_as_a_whole(|| too_much_lost(lost, late, lost + echoed, plan));
        }
        DatagramReport {
            timeout_ns: nanoseconds(plan.udp_timeout),
            max_loss: plan.max_loss,
            loss_share,
            window: self.window,
            whole: self.whole,
            mean_in_flight: self.mean_in_flight(plan, ends.window_ns),
            buffers: ends.buffers,
            client_dropped: ends.client_dropped,
            system_receive_buffer_full: ends.system_receive_buffer_full,
        }
    }

    /// Little's law: the time that all requests of the window waited, over the window. A lost one waited for its timeout.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a mean needs no more than 15 digits"
    )]
    fn mean_in_flight(&mut self, plan: &Plan, window_ns: u64) -> Option<f64> {
        let rtt = self.tally.rtt();
        let answered = rtt.percentiles().mean.unwrap_or(0.0) * rtt.count() as f64;
        let lost = self.window.lost as f64 * plan.udp_timeout.as_nanos() as f64;
        (window_ns > 0).then(|| (answered + lost) / window_ns as f64)
    }

    fn count(&mut self, change: impl Fn(&mut Closure)) {
        change(&mut self.whole);
        if self.tally.phase == Phase::Window {
            change(&mut self.window);
        }
    }
}

fn too_much_lost(lost: u64, late: u64, of: u64, plan: &Plan) -> String {
    let advice = if late == lost {
        "server or load stood still: use a larger --udp-timeout, or a machine less busy"
    } else {
        "use a smaller --window or --payload, or larger buffers; or allow more by --max-loss"
    };
    format!(
        "{lost} of {of} requests were lost ({:.3} %, allowed {:.3} %), {late} of them came late: no reply within {:?}. {advice}",
        share(lost, of) * 100.0,
        plan.max_loss * 100.0,
        plan.udp_timeout
    )
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a share needs no more than 15 digits"
)]
fn share(part: u64, of: u64) -> f64 {
    if of == 0 {
        0.0
    } else {
        part as f64 / of as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        contract::{Closure, Protocol},
        load::{Stop, Verify},
        udp_socket::REQUESTED,
    };
    use std::time::Duration;

    fn plan(max_loss: f64) -> Plan {
        Plan {
            protocol: Protocol::Udp,
            connect: ([127, 0, 0, 1], 9).into(),
            clients: 1,
            window_per_client: 1,
            payload_bytes: 16,
            stop: Stop::After(Duration::from_secs(1)),
            warmup: Duration::ZERO,
            verify: Verify::Full,
            server_pid: None,
            ca_pem: None,
            connect_timeout: Duration::ZERO,
            drain_timeout: Duration::ZERO,
            udp_timeout: Duration::from_millis(50),
            max_loss,
            announce: false,
        }
    }

    /// Two requests in the warm-up, of which one is lost; ten in the window, of which one is lost; one still on its way.
    fn ledger() -> Ledger {
        let mut ledger = Ledger::new();
        let turn = |ledger: &mut Ledger, phase, in_flight| {
            let before = ledger.tally.phase;
            ledger.tally.phase = phase;
            ledger.turned(before, in_flight);
        };
        turn(&mut ledger, Phase::Warmup, 0);
        ledger.sent(2);
        ledger.lost(1);
        turn(&mut ledger, Phase::Window, 1);
        ledger.sent(10);
        (0..9).for_each(|_| ledger.echoed(5, false));
        ledger.lost(1);
        ledger.late();
        turn(&mut ledger, Phase::Drain, 1);
        ledger.echoed(5, true);
        ledger
    }

    fn conclude(ledger: &mut Ledger, max_loss: f64, in_flight: u64) -> DatagramReport {
        let ends = Ends {
            window_ns: 100_000_000,
            in_flight,
            buffers: UdpBuffers::requested(REQUESTED),
            client_dropped: None,
            system_receive_buffer_full: None,
        };
        ledger.conclude(&plan(max_loss), ends)
    }

    #[test]
    fn window_and_whole_run_add_up() {
        let mut ledger = ledger();
        assert_eq!(ledger.missing(), 1);
        let report = conclude(&mut ledger, 0.1, 0);
        assert_eq!(ledger.tally.first_failure, None);
        let window = Closure {
            in_flight_begin: 1,
            sent: 10,
            echoed: 9,
            lost: 1,
            late: 1,
            in_flight_end: 1,
            ..Closure::default()
        };
        assert_eq!(report.window, window);
        let whole = (report.whole.sent, report.whole.echoed, report.whole.lost);
        assert_eq!(whole, (12, 10, 2));
        assert!((report.loss_share - 1.0 / 11.0).abs() < 1e-9, "no warm-up");
        let mean = report.mean_in_flight.unwrap();
        assert!(
            (mean - 0.5).abs() < 0.01,
            "{mean}: one waited for 50 of 100 ms"
        );
    }

    #[test]
    fn a_sum_that_does_not_hold_fails_the_run() {
        let mut ledger = ledger();
        let _ = conclude(&mut ledger, 1.0, 3);
        let words = ledger.tally.first_failure.expect("three came from nowhere");
        assert!(
            words.starts_with("requests of the whole run do not add up"),
            "{words}"
        );
    }

    #[test]
    fn more_lost_than_allowed_fails_the_run() {
        let mut ledger = ledger();
        let _ = conclude(&mut ledger, 0.05, 0);
        let words = ledger.tally.first_failure.expect("9 % are too many");
        assert!(
            words.starts_with("1 of 11 requests were lost (9.091 %, allowed 5.000 %), 1 of them came late: no reply within 50ms. server or load stood still"),
            "{words}"
        );
    }
}
