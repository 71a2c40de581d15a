//! What a run tells: the contract's [`LoadReport`], or a few lines for people.

use super::{Plan, Stop, clock::nanoseconds, process_use::Used, tally::Tally};
use crate::contract::{CONTRACT_VERSION, DatagramReport, LoadReport, ProcessUse, TlsSession};
use std::{fmt::Write as _, io};

/// What the timeline knows of a run that is over.
pub(crate) struct Outcome {
    pub(crate) used: Used,
    pub(crate) window_ns: u64,
    pub(crate) drain_ns: u64,
    /// What the first handshake agreed on.
    pub(crate) session: Option<TlsSession>,
    /// Of a run over datagrams.
    pub(crate) datagrams: Option<DatagramReport>,
}

/// The report of a run that is over.
pub(crate) fn of(plan: &Plan, tally: &mut Tally, outcome: Outcome) -> LoadReport {
    conclude(plan, tally);
    let rate = per_second(tally.counters.received, outcome.window_ns);
    let rtt = tally.rtt();
    let (percentiles, histogram) = (rtt.percentiles(), rtt.to_base64());
    let (Stop::After(duration)
    | Stop::Messages {
        longest: duration, ..
    }) = plan.stop;
    LoadReport {
        contract_version: CONTRACT_VERSION,
        ok: tally.first_failure.is_none(),
        first_failure: tally.first_failure.clone(),
        protocol: plan.protocol,
        connect: plan.connect,
        clients: plan.clients,
        window_per_client: plan.window_per_client,
        payload_bytes: plan.payload_bytes,
        warmup_ns: nanoseconds(plan.warmup),
        duration_ns: nanoseconds(duration),
        window_ns: outcome.window_ns,
        drain_ns: outcome.drain_ns,
        verify: plan.verify.name().to_owned(),
        counters: tally.counters,
        round_trips_per_s: rate,
        payload_mib_per_s: 2.0 * rate * float(plan.payload_bytes as u64) / 1_048_576.0,
        little_ratio: match &outcome.datagrams {
            Some(datagrams) => full_ratio(plan, datagrams.mean_in_flight),
            None => little_ratio(plan, rate, percentiles.mean),
        },
        rtt_service_ns: percentiles,
        histogram_v2: Some(histogram),
        client: outcome.used.own,
        server: outcome.used.server,
        udp: outcome.datagrams,
        tls: outcome.session,
    }
}

/// Counts what only shows at the end.
fn conclude(plan: &Plan, tally: &mut Tally) {
    let unfinished = tally.in_flight;
    if unfinished > 0 {
        tally.counters.unfinished = unfinished;
        tally.counters.drain_timeouts = 1;
        tally.failed_as_a_whole(|| {
            format!(
                "{unfinished} requests were unanswered {:?} after the window",
                plan.drain_timeout
            )
        });
    }
    let received = tally.counters.received;
    match plan.stop {
        Stop::Messages {
            per_client,
            longest,
        } if received != per_client * plan.clients as u64 => tally.failed_as_a_whole(|| {
            format!("only {received} round trips within {longest:?}, not {per_client} per client")
        }),
        _ if received == 0 => {
            tally.failed_as_a_whole(|| "no reply came within the window".to_owned());
        }
        _ => {}
    }
}

/// Little's law: outstanding requests over rate × mean time; `None` without round trips.
fn little_ratio(plan: &Plan, rate: f64, mean_ns: Option<f64>) -> Option<f64> {
    let outstanding = float((plan.clients * plan.window_per_client) as u64);
    let ratio = outstanding / (rate * mean_ns? / 1e9);
    ratio.is_finite().then_some(ratio)
}

/// The same where requests may be lost: their waiting is in the mean already.
fn full_ratio(plan: &Plan, mean_in_flight: Option<f64>) -> Option<f64> {
    let outstanding = float((plan.clients * plan.window_per_client) as u64);
    let ratio = outstanding / mean_in_flight?;
    ratio.is_finite().then_some(ratio)
}

fn per_second(count: u64, ns: u64) -> f64 {
    if ns == 0 {
        return 0.0;
    }
    float(count) * 1e9 / float(ns)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "figures are told with few digits"
)]
fn float(count: u64) -> f64 {
    count as f64
}

/// Prints a line at once, whoever reads it.
///
/// # Errors
/// Standard output is closed or full.
pub(crate) fn print_line(line: &str) -> io::Result<()> {
    write_line(&mut io::stdout().lock(), line)
}

/// The same to another place.
///
/// # Errors
/// It is closed or full.
pub(crate) fn write_line(out: &mut dyn io::Write, line: &str) -> io::Result<()> {
    writeln!(out, "{line}")?;
    out.flush()
}

/// A few lines for people.
pub(crate) fn summary(report: &LoadReport) -> String {
    let mut text = format!(
        "{} {} x {} x {} B against {}, {:.3} s: {:.0} round trips/s, {:.1} MiB/s of payload\n",
        protocol_name(report),
        report.clients,
        report.window_per_client,
        report.payload_bytes,
        report.connect,
        float(report.window_ns) / 1e9,
        report.round_trips_per_s,
        report.payload_mib_per_s,
    );
    let rtt = &report.rtt_service_ns;
    let _ = writeln!(
        text,
        "RTT inside the window (us): p50 {}, p99 {}, p99.9 {}, max {}",
        microseconds(rtt.p50),
        microseconds(rtt.p99),
        microseconds(rtt.p99_9),
        microseconds(rtt.max),
    );
    if let Some(udp) = &report.udp {
        let _ = writeln!(text, "{}", losses(udp));
    }
    let server = report.server.as_ref().map_or("-".to_owned(), cost);
    let _ = write!(
        text,
        "CPU per round trip: client {}, server {server}\n{}",
        cost(&report.client),
        verdict(report),
    );
    text
}

/// Where the requests of the whole run went.
fn losses(udp: &DatagramReport) -> String {
    let whole = &udp.whole;
    format!(
        "whole run: {} sent = {} echoed in time + {} lost (late {}) + {} in flight; duplicates {}, reordered {}, lost {:.3} % after the warm-up",
        whole.sent,
        whole.echoed,
        whole.lost,
        whole.late,
        whole.in_flight_end,
        whole.duplicates,
        whole.reordered,
        udp.loss_share * 100.0
    )
}

fn protocol_name(report: &LoadReport) -> String {
    use clap::ValueEnum;
    report
        .protocol
        .to_possible_value()
        .map_or_else(String::new, |value| value.get_name().to_owned())
}

fn microseconds(ns: Option<u64>) -> String {
    ns.map_or("-".to_owned(), |ns| format!("{:.1}", float(ns) / 1e3))
}

fn cost(used: &ProcessUse) -> String {
    used.cpu_ns_per_rt
        .map_or("-".to_owned(), |ns| format!("{:.3} us", ns / 1e3))
}

fn verdict(report: &LoadReport) -> String {
    match &report.first_failure {
        None => format!(
            "ok: {} replies verified ({})",
            report.counters.received, report.verify
        ),
        Some(failure) => format!("FAILED: {failure}\n{:?}", report.counters),
    }
}
