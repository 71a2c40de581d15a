//! From what was observed to what the reader must know: which warnings apply to a run.

use crate::analysis::{Analysis, CellResult, Flag, Status};
use crate::campaign::Record;
use crate::contract::Protocol;
use crate::floor;
use crate::host::{self, HostDescription};
use crate::matrix::Plan;
use crate::measure::stats;
use crate::measure::verdict::Verdict;
use crate::measure::warning::{Check, Warning};
use crate::report;
use std::collections::BTreeSet;

/// A generator above this share of its CPU is the limit.
const CLIENT_BOUND: f64 = 0.90;
/// Little's law must hold this well.
const LITTLE_TOLERANCE: f64 = 0.05;
/// Less of the CPUs in use by others is usual.
const FOREIGN_MIN: f64 = 0.10;
/// The same during the rounds, where it counts.
const FOREIGN_DURING_MIN: f64 = 0.05;
/// Steal below this is not worth a line.
const STEAL_MIN: f64 = 0.01;
/// Intervals with less are called weak.
const COVERAGE_MIN: f64 = 0.95;

/// Everything a reader must know about this run.
pub(crate) fn warnings(
    plan: &Plan,
    record: &Record,
    analysis: &Analysis,
    host: &HostDescription,
    debug_build: bool,
) -> Vec<Check> {
    let mut found = Vec::new();
    found.extend(debug_build.then_some(Warning::DebugBuild));
    found.extend(cpu_warnings(plan, host.cpus));
    let foreign = host.busy_share_before.filter(|share| *share >= FOREIGN_MIN);
    found.extend(foreign.map(|share| Warning::Foreign { share }));
    found.extend(foreign_during(record));
    found.extend(steal(record));
    found.extend(generator_warnings(&analysis.cells));
    found.extend(floor_warnings(record, &analysis.cells));
    found.extend(round_warnings(plan, record, analysis));
    found.extend(notes(plan, record, analysis, host));
    found.iter().map(Check::from).collect()
}

/// What can be said of a plan before it is run, as lines.
pub(crate) fn foreseen(plan: &Plan) -> String {
    let warnings = cpu_warnings(plan, host::usable_cpus());
    warnings
        .iter()
        .map(|warning| report::warning_line(&Check::from(warning)))
        .collect()
}

fn cpu_warnings(plan: &Plan, cpus: usize) -> Vec<Warning> {
    let threads = plan
        .cells
        .iter()
        .map(|cell| cell.factors.threads)
        .max()
        .unwrap_or(0);
    let mut found = Vec::new();
    if cpus == 1 {
        found.push(Warning::OneCpu);
    } else if threads + 1 > cpus {
        found.push(Warning::SharedCpu { cpus });
    }
    found.extend((threads > cpus).then_some(Warning::Oversubscribed { threads, cpus }));
    found
}

fn foreign_during(record: &Record) -> Option<Warning> {
    let shares: Vec<f64> = record
        .surroundings
        .iter()
        .filter_map(|round| round.foreign_share)
        .collect();
    let median = stats::median(&shares)?;
    let worst = shares.iter().copied().fold(0.0, f64::max);
    (median > FOREIGN_DURING_MIN).then_some(Warning::ForeignDuring {
        median,
        worst,
        rounds: shares.len(),
    })
}

fn steal(record: &Record) -> Option<Warning> {
    let shares: Vec<f64> = record
        .surroundings
        .iter()
        .filter_map(|round| round.steal_share)
        .collect();
    let median = stats::median(&shares)?;
    let worst = shares.iter().copied().fold(0.0, f64::max);
    (median >= STEAL_MIN).then_some(Warning::Steal {
        median,
        worst,
        rounds: shares.len(),
    })
}

fn generator_warnings(cells: &[CellResult]) -> Vec<Warning> {
    let measured: Vec<&CellResult> = cells
        .iter()
        .filter(|cell| cell.status == Status::Ok)
        .collect();
    let shares: Vec<f64> = measured
        .iter()
        .filter_map(|cell| cell.summary.client_cpu_share)
        .filter(|share| *share >= CLIENT_BOUND)
        .collect();
    let far = |ratio: &f64| (ratio - 1.0).abs() > LITTLE_TOLERANCE;
    let not_full = measured
        .iter()
        .filter_map(|cell| cell.summary.little_ratio)
        .filter(far)
        .count();
    let mut found = Vec::new();
    if let Some(share) = shares.iter().copied().reduce(f64::max) {
        found.push(Warning::ClientBound {
            cells: shares.len(),
            of: measured.len(),
            share,
        });
    }
    found.extend((not_full > 0).then_some(Warning::WindowNotFull {
        cells: not_full,
        of: measured.len(),
    }));
    found
}

fn floor_warnings(record: &Record, cells: &[CellResult]) -> Vec<Warning> {
    let mut found = Vec::new();
    found.extend(floor::failure(record).map(|reason| Warning::FloorUnknown { reason }));
    let compared: Vec<f64> = cells.iter().filter_map(|cell| cell.floor_share).collect();
    let near = cells
        .iter()
        .filter(|cell| cell.flags.contains(&Flag::NearFloor))
        .count();
    let beyond = compared
        .iter()
        .filter(|share| floor::is_unreliable(**share))
        .count();
    if beyond > 0 {
        found.push(Warning::FloorUnreliable {
            cells: beyond,
            of: compared.len(),
        });
    } else if near > 0 {
        found.push(Warning::NearFloor {
            cells: near,
            of: compared.len(),
            share: compared.iter().copied().fold(0.0, f64::max),
        });
    }
    found
}

fn round_warnings(plan: &Plan, record: &Record, analysis: &Analysis) -> Vec<Warning> {
    let rounds = record.rounds_ran as usize;
    let coverage = stats::coverage(rounds, stats::rank(rounds).max(1));
    let dropped = record.rounds_ran < plan.rounds && record.interrupted.is_none();
    let mut controls = analysis
        .cells
        .iter()
        .filter(|cell| cell.cell.control)
        .peekable();
    let none = controls.peek().is_none();
    let failed = controls.any(|cell| {
        let mut versus = cell.versus.iter();
        versus.any(|versus| versus.verdict == Verdict::Failed)
    });
    let mut found = Vec::new();
    found.extend(dropped.then_some(Warning::RoundsDropped {
        ran: record.rounds_ran,
        planned: plan.rounds,
    }));
    found.extend(
        (rounds > 0 && coverage < COVERAGE_MIN).then_some(Warning::FewRounds { rounds, coverage }),
    );
    found.extend((none || failed).then_some(Warning::NoControl { failed }));
    found
}

fn notes(
    plan: &Plan,
    record: &Record,
    analysis: &Analysis,
    host: &HostDescription,
) -> Vec<Warning> {
    let outcomes = || {
        record
            .repetitions
            .iter()
            .map(|repetition| &repetition.outcome)
    };
    let remarks: BTreeSet<&String> = outcomes()
        .filter_map(|outcome| outcome.ready.as_ref())
        .flat_map(|ready| &ready.remarks)
        .collect();
    let uncounted = outcomes().filter_map(|outcome| outcome.calls.as_ref()?.reason.as_ref());
    let reasons: BTreeSet<&String> = uncounted.chain(&record.calls_skipped).collect();
    let unknown_steal = !record.surroundings.is_empty()
        && record
            .surroundings
            .iter()
            .all(|round| round.steal_share.is_none());
    let cpu_missing = |cell: &&CellResult| {
        cell.status == Status::Ok && cell.summary.server_cpu_ns_per_rt.is_none()
    };
    let mut found: Vec<Warning> = remarks
        .into_iter()
        .map(|remark| Warning::Driver {
            remark: remark.clone(),
        })
        .collect();
    found.extend(reasons.into_iter().map(|reason| Warning::CallsUnknown {
        reason: reason.clone(),
    }));
    found.extend(unknown_steal.then(|| Warning::Unknown {
        what: "time stolen by other guests".to_owned(),
    }));
    if host.governor.is_none() {
        found.push(Warning::Unknown {
            what: "frequency governor".to_owned(),
        });
    }
    if analysis.cells.iter().any(|cell| cpu_missing(&cell)) {
        found.push(Warning::Unknown {
            what: "CPU time of the server process".to_owned(),
        });
    }
    if plan
        .cells
        .iter()
        .any(|cell| cell.factors.protocol == Protocol::Echo)
    {
        found.push(Warning::Unframed);
    }
    found.extend(small_buffers(record));
    found
}

/// Receive buffers that the kernel cut below what was asked for: datagrams that come in a burst find no room.
fn small_buffers(record: &Record) -> Option<Warning> {
    let both = record.repetitions.iter().flat_map(|repetition| {
        let outcome = &repetition.outcome;
        let server = outcome.ready.as_ref().and_then(|ready| ready.udp_buffers);
        let load = outcome.load.as_ref().and_then(|load| load.udp.as_ref());
        [server, load.map(|udp| udp.buffers)]
    });
    let sizes = both.flatten().filter_map(|buffers| {
        let granted = buffers.granted_min?.receive_bytes;
        Some((granted, buffers.requested.receive_bytes))
    });
    let (granted, requested) = sizes.min()?;
    (granted < requested).then_some(Warning::SmallBuffers { granted, requested })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis;
    use crate::campaign::tests::{conduct, good};
    use crate::contract::Model;
    use crate::host::{Interrupt, Surroundings};
    use crate::matrix::tests::design;
    use crate::matrix::{Design, Order};
    use crate::repetition::{Failure, Job, Outcome};

    fn found(
        cpus: usize,
        rounds: u32,
        script: impl FnMut(&Job<'_>, u32) -> Outcome,
    ) -> Vec<String> {
        let design = Design {
            floor: true,
            ..design(rounds, Order::Random, 1)
        };
        let (plan, record) = conduct(design, &Interrupt::pretend(None), script);
        let host = HostDescription {
            cpus,
            governor: Some("performance".to_owned()),
            ..HostDescription::default()
        };
        let checks = warnings(
            &plan,
            &record,
            &analysis::analyse(&plan, &record),
            &host,
            false,
        );
        checks
            .into_iter()
            .map(|check| check.id)
            .filter(|id| !["W-STEAL", "W-FOREIGN-DURING", "N-UNKNOWN"].contains(&id.as_str()))
            .collect()
    }

    /// A good outcome; the null server is four times as fast.
    fn served(job: &Job<'_>, rate: f64, cpu_ns: f64) -> Outcome {
        let faster = if job.cell.factors.model == Model::Null {
            4.0
        } else {
            1.0
        };
        good(job, rate * faster, cpu_ns)
    }

    fn fails(own_fault: bool) -> Outcome {
        let failure = Failure {
            own_fault,
            ..Failure::new("E-X", "bad luck")
        };
        Outcome {
            failure: Some(failure),
            ..Outcome::default()
        }
    }

    #[test]
    fn a_roomy_quiet_machine_needs_no_warning() {
        assert_eq!(found(8, 6, |job, _| served(job, 1e5, 7e3)), [""; 0]);
    }

    #[test]
    fn other_programs_during_the_rounds_are_told_by_their_median() {
        let during = |shares: &[Option<f64>]| {
            let surroundings = shares.iter().map(|share| Surroundings {
                foreign_share: *share,
                ..Surroundings::default()
            });
            foreign_during(&Record {
                surroundings: surroundings.collect(),
                ..Record::default()
            })
        };
        assert_eq!(during(&[None, None]), None);
        assert_eq!(during(&[Some(0.01), Some(0.9), Some(0.05)]), None);
        let warning = during(&[Some(0.2), None, Some(0.06), Some(0.01)]).unwrap();
        assert_eq!(warning.id(), "W-FOREIGN-DURING");
        assert!(warning.to_string().starts_with(
            "other programs used 6 % of the CPUs during the run (median of 3 rounds, worst 20 %)"
        ));
    }

    #[test]
    fn receive_buffers_that_were_cut_are_told() {
        let granted = |receive_bytes: usize| {
            let mut buffers = crate::contract::UdpBuffers::requested(crate::udp_socket::REQUESTED);
            buffers.add(Some(crate::contract::Buffers {
                send_bytes: 1,
                receive_bytes,
            }));
            found(8, 6, move |job, _| {
                let mut outcome = served(job, 1e5, 7e3);
                let udp = outcome.load.as_mut().map(|load| &mut load.udp).unwrap();
                *udp = Some(crate::loss::tests::report(0, 0));
                udp.as_mut().unwrap().buffers = buffers;
                outcome
            })
        };
        assert_eq!(granted(425_984), ["N-UDP-BUFFERS"]);
        assert_eq!(granted(8 << 20), Vec::<String>::new());
    }

    #[test]
    fn warnings_by_their_causes() {
        assert_eq!(
            found(2, 6, |job, _| served(job, 1e5, 7e3)),
            ["W-SHARED-CPU"]
        );
        assert_eq!(
            found(1, 6, |job, _| served(job, 1e5, 7e3)),
            ["W-ONE-CPU", "W-OVERSUBSCRIBED"]
        );
        assert_eq!(
            found(8, 3, |job, _| served(job, 1e5, 7e3)),
            ["W-FEW-ROUNDS"]
        );
        assert_eq!(
            found(8, 6, |job, _| if job.cell.control {
                fails(false)
            } else {
                served(job, 1e5, 7e3)
            }),
            ["W-NO-CONTROL"]
        );
        let busy = |job: &Job<'_>, _| {
            let mut outcome = served(job, 1e5, 7e3);
            let load = outcome.load.as_mut().unwrap();
            (load.client.cpu_share, load.little_ratio) = (Some(0.98), Some(1.2));
            outcome
        };
        assert_eq!(found(8, 6, busy), ["W-CLIENT-BOUND", "W-WINDOW"]);
        let uncounted = |job: &Job<'_>, _| {
            let mut outcome = served(job, 1e5, 7e3);
            if let Some(calls) = outcome.calls.as_mut() {
                calls.reason = Some("not permitted".to_owned());
            }
            outcome
        };
        assert_eq!(found(8, 6, uncounted), ["N-CALLS"]);
        assert_eq!(
            found(8, 6, |job, _| good(job, 1e5, 7e3)),
            ["W-NEAR-FLOOR"],
            "as fast as the null server"
        );
        let slow_floor = |job: &Job<'_>, _| {
            let null = job.cell.factors.model == Model::Null;
            good(job, if null { 9e4 } else { 1e5 }, 7e3)
        };
        assert_eq!(found(8, 6, slow_floor), ["W-FLOOR-UNRELIABLE"]);
        let no_floor = |job: &Job<'_>, _| {
            if job.cell.factors.model == Model::Null {
                fails(true)
            } else {
                good(job, 1e5, 7e3)
            }
        };
        assert_eq!(found(8, 6, no_floor), ["W-FLOOR"]);
    }
}
