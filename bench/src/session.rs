//! A measurement from its plan to its files: what `quick` and `run` have in common.

use crate::analysis::{self, Analysis, CellResult, Status};
use crate::archive::{self, Archive};
use crate::campaign::{Campaign, Keeper, Record};
use crate::contract::Protocol;
use crate::exit::{Exit, Refusal};
use crate::host::{self, HostDescription, Interrupt};
use crate::matrix::Plan;
use crate::measure::stats;
use crate::measure::verdict::Verdict;
use crate::measure::warning::{Check, Warning};
use crate::process::{Limits, ProcessRunner};
use crate::progress::Progress;
use crate::provenance::{self, Source, Tool};
use crate::repetition::Repetition;
use crate::report::{self, Look};
use crate::result::{Circumstances, RunFile};
use crate::stdout;
use anyhow::Context;
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// A generator above this share of its CPU is the limit.
const CLIENT_BOUND: f64 = 0.90;
/// Little's law must hold this well.
const LITTLE_TOLERANCE: f64 = 0.05;
/// Steal below this is not worth a line.
const STEAL_MIN: f64 = 0.01;
/// Intervals with less are called weak.
const COVERAGE_MIN: f64 = 0.95;

/// Where results go and how much is said.
#[derive(Clone, Debug)]
pub(crate) struct Output {
    /// Folder of the run; by default one of its own under `target/bench`.
    pub(crate) out: Option<PathBuf>,
    /// Where `run.json` goes besides.
    pub(crate) json: Option<JsonTarget>,
    /// Only the final table.
    pub(crate) quiet: bool,
    /// Without colours.
    pub(crate) no_color: bool,
    /// Without an updating line.
    pub(crate) no_progress: bool,
    /// What the load may take beyond warm-up and window.
    pub(crate) timeout_extra: Duration,
}

/// Where `run.json` goes besides the folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JsonTarget {
    /// Standard output, which then carries nothing else.
    Stdout,
    /// A file.
    File(PathBuf),
}

/// Measures, writes and prints.
pub(crate) fn conduct(plan: Plan, output: &Output) -> anyhow::Result<Exit> {
    if let Some(JsonTarget::File(file)) = &output.json {
        archive::check_writable(file)?;
    }
    let about = circumstances();
    let archive = Archive::create(output.out.as_deref(), &folder_name(&about))?;
    let interrupt = Interrupt::install().context("signals could not be taken over")?;
    let mut runner =
        ProcessRunner::of_this_program(Limits::with_extra(output.timeout_extra), interrupt.clone())
            .context("this program's own file could not be found")?;
    let progress = Progress::fitting(output.quiet, output.no_progress);
    let mut session = Session { archive, about };
    let started = Instant::now();
    let campaign = Campaign {
        plan,
        runner: &mut runner,
        keeper: &mut session,
        interrupt: &interrupt,
        progress: &progress,
        clock: &|| started.elapsed(),
    };
    let (plan, record) = campaign.run()?;
    let file = session.finish(&plan, &record)?;
    session.show(&file, output)?;
    Ok(exit(&record))
}

/// The files of a run, and what is known about it.
struct Session {
    archive: Archive,
    about: Circumstances,
}

impl Keeper for Session {
    fn plan(&mut self, plan: &Plan) -> anyhow::Result<()> {
        self.archive
            .write("plan.json", &serde_json::to_string_pretty(plan)?)
    }

    fn repetition(&mut self, repetition: &Repetition) -> anyhow::Result<()> {
        self.archive.append(repetition)
    }

    fn round(&mut self, plan: &Plan, record: &Record) -> anyhow::Result<()> {
        self.write_run(plan, record, None).map(drop)
    }
}

impl Session {
    fn finish(&self, plan: &Plan, record: &Record) -> anyhow::Result<RunFile> {
        self.write_run(plan, record, Some(now_utc()))
    }

    fn write_run(
        &self,
        plan: &Plan,
        record: &Record,
        finished_utc: Option<String>,
    ) -> anyhow::Result<RunFile> {
        let analysis = analysis::analyse(plan, record);
        let checks = warnings(
            plan,
            record,
            &analysis,
            &self.about.host,
            provenance::is_debug_build(),
        );
        let file = RunFile::new(&self.about, plan, record, analysis, checks, finished_utc);
        self.archive
            .write("run.json", &serde_json::to_string_pretty(&file)?)?;
        Ok(file)
    }

    /// Prints the table, to standard error where standard output belongs to the JSON.
    fn show(&self, file: &RunFile, output: &Output) -> anyhow::Result<()> {
        let folder = self.archive.folder().display().to_string();
        self.archive
            .write("report.txt", &report::render(file, &folder, Look::Plain))?;
        let json = serde_json::to_string_pretty(file)?;
        let colours = |terminal: bool| Look::fitting(output.no_color, terminal);
        match &output.json {
            Some(JsonTarget::Stdout) => {
                stdout::put_error(&report::render(
                    file,
                    &folder,
                    colours(std::io::stderr().is_terminal()),
                ));
                stdout::put(&format!("{json}\n"));
            }
            other => {
                stdout::put(&report::render(
                    file,
                    &folder,
                    colours(std::io::stdout().is_terminal()),
                ));
                if let Some(JsonTarget::File(path)) = other {
                    archive::write_atomically(path, &json)?;
                }
            }
        }
        Ok(())
    }
}

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
    found.extend(steal(record));
    found.extend(generator_warnings(&analysis.cells));
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

fn round_warnings(plan: &Plan, record: &Record, analysis: &Analysis) -> Vec<Warning> {
    let rounds = record.rounds_ran as usize;
    let coverage = stats::coverage(rounds, stats::rank(rounds).max(1));
    let dropped = record.rounds_ran < plan.rounds && record.interrupted.is_none();
    let control = analysis.cells.iter().find(|cell| cell.cell.control);
    let failed = control.is_some_and(|cell| {
        cell.versus
            .iter()
            .any(|versus| versus.verdict == Verdict::Failed)
    });
    let mut found = Vec::new();
    found.extend(dropped.then_some(Warning::RoundsDropped {
        ran: record.rounds_ran,
        planned: plan.rounds,
    }));
    found.extend(
        (rounds > 0 && coverage < COVERAGE_MIN).then_some(Warning::FewRounds { rounds, coverage }),
    );
    found.extend((control.is_none() || failed).then_some(Warning::NoControl { failed }));
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
    found
}

fn exit(record: &Record) -> Exit {
    let failures = || {
        record
            .repetitions
            .iter()
            .filter_map(|repetition| repetition.outcome.failure.as_ref())
    };
    let interrupted = record.interrupted.map(Exit::Interrupted);
    let own = failures()
        .any(|failure| failure.own_fault)
        .then_some(Exit::SelfCheck);
    let failed = failures().next().map(|_| Exit::Failed);
    Exit::gravest([interrupted, own, failed].into_iter().flatten())
}

/// Debug builds measure nothing worth knowing.
pub(crate) fn refuse_debug_build(allowed: bool) -> Result<(), Refusal> {
    if allowed || !provenance::is_debug_build() {
        return Ok(());
    }
    Err(Refusal::usage(
        "E-DEBUG",
        "this is a debug build; its numbers mean nothing.",
        "run: cargo run --release -p bench          (or add --allow-debug to try the tool itself)",
    ))
}

fn circumstances() -> Circumstances {
    Circumstances {
        tool: Tool::read(),
        source: Source::read(),
        host: host::describe(),
        started_utc: now_utc(),
        command: std::iter::once("bench".to_owned())
            .chain(std::env::args().skip(1))
            .collect(),
    }
}

/// `<UTC>-<host>-<git8 or nogit>`, with nothing in it that a file name should not have.
fn folder_name(about: &Circumstances) -> String {
    let time: String = about
        .started_utc
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    let host = about.host.name.as_deref().unwrap_or("host");
    let host: String = host
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .take(32)
        .collect();
    format!("{time}-{host}-{}", about.source.short_commit())
}

fn now_utc() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::tests::{conduct, good};
    use crate::host::Signal;
    use crate::matrix::Order;
    use crate::matrix::tests::design;
    use crate::repetition::{Failure, Job, Outcome};

    fn found(
        cpus: usize,
        rounds: u32,
        script: impl FnMut(&Job<'_>, u32) -> Outcome,
    ) -> Vec<String> {
        let (plan, record) = conduct(
            design(rounds, Order::Random, 1),
            &Interrupt::pretend(None),
            script,
        );
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
            .filter(|id| id != "W-STEAL" && id != "N-UNKNOWN")
            .collect()
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
        assert_eq!(found(8, 6, |job, _| good(job, 1e5, 7e3)), [""; 0]);
    }

    #[test]
    fn warnings_by_their_causes() {
        assert_eq!(found(2, 6, |job, _| good(job, 1e5, 7e3)), ["W-SHARED-CPU"]);
        assert_eq!(
            found(1, 6, |job, _| good(job, 1e5, 7e3)),
            ["W-ONE-CPU", "W-OVERSUBSCRIBED"]
        );
        assert_eq!(found(8, 3, |job, _| good(job, 1e5, 7e3)), ["W-FEW-ROUNDS"]);
        assert_eq!(
            found(8, 6, |job, _| if job.cell.control {
                fails(false)
            } else {
                good(job, 1e5, 7e3)
            }),
            ["W-NO-CONTROL"]
        );
        let busy = |job: &Job<'_>, _| {
            let mut outcome = good(job, 1e5, 7e3);
            let load = outcome.load.as_mut().unwrap();
            (load.client.cpu_share, load.little_ratio) = (Some(0.98), Some(1.2));
            outcome
        };
        assert_eq!(found(8, 6, busy), ["W-CLIENT-BOUND", "W-WINDOW"]);
        let uncounted = |job: &Job<'_>, _| {
            let mut outcome = good(job, 1e5, 7e3);
            if let Some(calls) = outcome.calls.as_mut() {
                calls.reason = Some("not permitted".to_owned());
            }
            outcome
        };
        assert_eq!(found(8, 6, uncounted), ["N-CALLS"]);
    }

    #[test]
    fn exits_of_a_run() {
        let code = |interrupt: Interrupt, outcome: &dyn Fn(&Job<'_>) -> Outcome| {
            exit(
                &conduct(design(3, Order::Fixed, 1), &interrupt, |job, _| {
                    outcome(job)
                })
                .1,
            )
            .code()
        };
        let quiet = || Interrupt::pretend(None);
        assert_eq!(code(quiet(), &|job| good(job, 1e5, 7e3)), 0);
        assert_eq!(code(quiet(), &|_| fails(false)), 1);
        assert_eq!(code(quiet(), &|_| fails(true)), 6);
        assert_eq!(
            code(Interrupt::pretend(Some(Signal::Interrupt)), &|_| fails(
                false
            )),
            130
        );
        assert_eq!(
            code(Interrupt::pretend(Some(Signal::Terminate)), &|_| fails(
                true
            )),
            143
        );
    }

    #[test]
    fn a_folders_name_has_nothing_odd_in_it() {
        let about = Circumstances {
            tool: Tool::default(),
            source: Source::default(),
            host: HostDescription {
                name: Some("a/b c.example".to_owned()),
                ..HostDescription::default()
            },
            started_utc: "2026-01-14T10:15:30Z".to_owned(),
            command: Vec::new(),
        };
        assert_eq!(folder_name(&about), "20260114T101530Z-a_b_c_example-nogit");
    }
}
