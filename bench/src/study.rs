//! A measurement from its plan to its files: what `quick` and `run` have in common.

use crate::analysis;
use crate::archive::{self, Archive};
use crate::campaign::{Campaign, Keeper, Record};
use crate::checks;
use crate::exit::{Exit, Refusal};
use crate::host::{self, HostDescription, Interrupt};
use crate::matrix::Plan;
use crate::process::{Limits, ProcessRunner};
use crate::progress::Progress;
use crate::provenance::{self, Source, Tool};
use crate::repetition::Repetition;
use crate::report::{self, Breadth, Look};
use crate::result::{Circumstances, RunFile};
use crate::stdout;
use anyhow::Context;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

/// How long the machine is watched before the run.
const LOOK_AROUND: Duration = Duration::from_millis(300);

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
    let mut study = Study { archive, about };
    let started = Instant::now();
    let campaign = Campaign {
        plan,
        runner: &mut runner,
        keeper: &mut study,
        interrupt: &interrupt,
        progress: &progress,
        clock: &|| started.elapsed(),
    };
    let (plan, record) = campaign.run()?;
    let file = study.finish(&plan, &record)?;
    study.show(&file, output)?;
    if let Some(text) = too_few_rounds(&record, plan.rounds) {
        stdout::put_error(&text);
    }
    Ok(exit(&record))
}

/// Complete rounds below which there is no interval worth the name.
const FEWEST_ROUNDS: u32 = 3;

fn too_few_rounds(record: &Record, planned: u32) -> Option<String> {
    let ran = record.rounds_ran;
    (ran < FEWEST_ROUNDS && record.interrupted.is_none()).then(|| {
        format!(
            "error[E-ROUNDS]: only {ran} of {planned} rounds were complete when the time was up; fewer than {FEWEST_ROUNDS} say nothing.\n  \
             give it more time (--budget), or less to do.\n"
        )
    })
}

/// The files of a run, and what is known about it.
struct Study {
    archive: Archive,
    about: Circumstances,
}

impl Keeper for Study {
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

impl Study {
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
        let checks = checks::warnings(
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
        self.archive.write(
            "report.txt",
            &report::render(file, &folder, Look::Plain, Breadth::Full),
        )?;
        let json = serde_json::to_string_pretty(file)?;
        let colours = |terminal: bool| Look::fitting(output.no_color, terminal);
        match &output.json {
            Some(JsonTarget::Stdout) => {
                stdout::put_error(&report::render(
                    file,
                    &folder,
                    colours(std::io::stderr().is_terminal()),
                    Breadth::AtAGlance,
                ));
                stdout::put(&format!("{json}\n"));
            }
            other => {
                stdout::put(&report::render(
                    file,
                    &folder,
                    colours(std::io::stdout().is_terminal()),
                    Breadth::AtAGlance,
                ));
                if let Some(JsonTarget::File(path)) = other {
                    archive::write_atomically(path, &json)?;
                }
            }
        }
        Ok(())
    }
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
    let unmeasured = match record.rounds_ran {
        0 => Some(Exit::Surroundings),
        ran if ran < FEWEST_ROUNDS => Some(Exit::Failed),
        _ => None,
    };
    Exit::gravest([interrupted, own, failed, unmeasured].into_iter().flatten())
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
        host: HostDescription {
            busy_share_before: host::busy_share(LOOK_AROUND),
            ..host::describe()
        },
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
