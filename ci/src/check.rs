//! The gate: its steps in order, and what is printed about them.
//!
//! The first failure ends it. The last line counts the steps, and nothing follows it.

use crate::command::CommandLine;
use crate::cross::Cross;
use crate::{conformance, purity, readme, smoke, targets, tidy};
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// One step of the gate; they run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Step {
    /// The format of every source file.
    Fmt,
    /// The invariants and habits, on the text.
    Tidy,
    /// Clippy on everything, warnings denied.
    Clippy,
    /// The test command of README.md.
    Test,
    /// The documentation, warnings denied.
    Docs,
    /// The protocols without I/O, for a target that has none.
    Purity,
    /// Everything for macOS on arm64, compiled and linted.
    Targets,
    /// Every cell of the benchmark once, content verified.
    Smoke,
    /// Other implementations talk to ours.
    Conformance,
    /// Licences and origins of the dependencies.
    Deny,
}

/// What a step does on this machine.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Runs these, one after the other.
    Commands(Vec<CommandLine>),
    /// Checks the text of the repository.
    Tidy,
    /// Runs the suites with other implementations.
    Conformance,
    /// Nothing, for this reason.
    Skip(String),
}

/// Which steps somebody asked for.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Choice {
    /// Run this step and no other (may be repeated).
    #[arg(long, value_name = "STEP", conflicts_with = "skip")]
    only: Vec<Step>,
    /// Leave this step out (may be repeated).
    #[arg(long, value_name = "STEP")]
    skip: Vec<Step>,
}

/// Runs the chosen steps in the workspace at `root`. False if one failed.
pub(crate) fn run(root: &Path, choice: &Choice) -> Result<bool> {
    let mut out = io::stdout().lock();
    run_steps(choice, &mut out, |step, out| {
        let work = step.work(root)?;
        announce(out, &work)?;
        match work {
            Work::Commands(commands) => commands
                .iter()
                .try_for_each(|command| command.run(root))
                .map(|()| Outcome::Passed),
            Work::Tidy => tidy::run(root).map(|()| Outcome::Passed),
            Work::Conformance => {
                println!("{}", conformance::gate(root)?);
                Ok(Outcome::Passed)
            }
            Work::Skip(reason) => Ok(Outcome::Skipped(reason)),
        }
    })
}

/// Prints the steps with their commands.
pub(crate) fn list(root: &Path) -> Result<()> {
    for step in Step::value_variants() {
        println!("{step}");
        match step.work(root) {
            Ok(Work::Commands(commands)) => commands
                .iter()
                .for_each(|command| println!("    {command}")),
            Ok(Work::Tidy) => println!("    (checks the text itself)"),
            Ok(Work::Conformance) => println!("    cargo ci conformance"),
            Ok(Work::Skip(reason)) => println!("    {reason}"),
            Err(error) => println!("    {error:#}"),
        }
    }
    Ok(())
}

impl Step {
    fn work(self, root: &Path) -> Result<Work> {
        let command = |line: &str| Work::Commands(vec![CommandLine::new(line)]);
        Ok(match self {
            Self::Fmt => command("cargo fmt --all --check"),
            Self::Tidy => Work::Tidy,
            Self::Clippy => {
                command("cargo clippy --workspace --all-targets --locked -- -D warnings")
            }
            Self::Test => {
                let text = std::fs::read_to_string(root.join("README.md"))
                    .context("cannot read README.md")?;
                Work::Commands(readme::commands(&text, "test")?)
            }
            Self::Docs => {
                let line = CommandLine::new("cargo doc --workspace --no-deps --locked");
                Work::Commands(vec![line.with("RUSTDOCFLAGS", "-D warnings")])
            }
            Self::Purity => purity::work(&Cross::of_this_machine()?)?,
            Self::Targets => targets::work(&Cross::of_this_machine()?)?,
            Self::Smoke => smoke::work(),
            Self::Conformance => Work::Conformance,
            // Advisories are left out: they change without a change of ours, and would fail a commit that passed before.
            Self::Deny if has_deny() => {
                command("cargo deny --workspace check bans licenses sources")
            }
            Self::Deny => Work::Skip("not checked: cargo-deny is not installed".to_owned()),
        })
    }

    /// The command that repeats this step alone.
    fn again(self) -> String {
        format!("cargo ci check --only {self}")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.pad(value.as_ref().map_or("", |value| value.get_name()))
    }
}

#[derive(Debug)]
enum Outcome {
    Passed,
    Skipped(String),
    Failed(String),
}

/// Runs steps until one fails; `perform` does the work of one. The closing line is the last thing written.
fn run_steps<W: Write>(
    choice: &Choice,
    out: &mut W,
    mut perform: impl FnMut(Step, &mut W) -> Result<Outcome>,
) -> Result<bool> {
    let mut done: Vec<(Step, Outcome, Duration)> = Vec::new();
    let steps = Step::value_variants().iter().copied();
    let steps: Vec<_> = steps
        .filter(|step| choice.only.is_empty() || choice.only.contains(step))
        .collect();
    for &step in &steps {
        writeln!(out, "\n== {step}")?;
        let start = Instant::now();
        let outcome = if choice.skip.contains(&step) {
            Outcome::Skipped("left out, as asked".to_owned())
        } else {
            perform(step, out).unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")))
        };
        done.push((step, outcome, start.elapsed()));
        let Some((_, outcome, took)) = done.last() else {
            break;
        };
        match outcome {
            Outcome::Passed => writeln!(out, "-- {step} passed in {}", seconds(*took))?,
            Outcome::Skipped(reason) => writeln!(out, "-- {step} {reason}")?,
            Outcome::Failed(error) => {
                writeln!(out, "-- {step} failed after {}: {error}", seconds(*took))?;
                break;
            }
        }
    }
    close(out, &done, steps.len())
}

/// The table and the closing line. False if a step failed.
fn close(out: &mut impl Write, done: &[(Step, Outcome, Duration)], chosen: usize) -> Result<bool> {
    writeln!(out)?;
    for (step, outcome, took) in done {
        let word = match outcome {
            Outcome::Passed => "passed",
            Outcome::Skipped(_) => "skipped",
            Outcome::Failed(_) => "FAILED",
        };
        writeln!(out, "{step:<13}{word:<9}{:>9}", seconds(*took))?;
    }
    let count =
        |is: fn(&Outcome) -> bool| done.iter().filter(|(_, outcome, _)| is(outcome)).count();
    let failed = count(|outcome| matches!(outcome, Outcome::Failed(_)));
    if let Some((step, ..)) = done
        .iter()
        .find(|(_, outcome, _)| matches!(outcome, Outcome::Failed(_)))
    {
        writeln!(
            out,
            "\nstep {step} failed; repeat it alone: {}",
            step.again()
        )?;
    }
    let mut line = format!(
        "{} passed, {failed} failed",
        count(|outcome| matches!(outcome, Outcome::Passed))
    );
    for (number, word) in [
        (
            count(|outcome| matches!(outcome, Outcome::Skipped(_))),
            "skipped",
        ),
        (chosen - done.len(), "not run"),
    ] {
        if number > 0 {
            line += &format!(", {number} {word}");
        }
    }
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(failed == 0)
}

fn announce(out: &mut impl Write, work: &Work) -> io::Result<()> {
    if let Work::Commands(commands) = work {
        for command in commands {
            writeln!(out, "   {command}")?;
        }
    }
    // What the commands print goes to the same place, past our buffer.
    out.flush()
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

fn has_deny() -> bool {
    Command::new("cargo")
        .args(["deny", "--version"])
        .output()
        .is_ok_and(|output| output.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    fn gate(choice: &Choice, perform: impl Fn(Step) -> Result<Outcome>) -> (bool, Vec<String>) {
        let mut out = Vec::new();
        let passed = run_steps(choice, &mut out, |step, _| perform(step)).unwrap();
        (
            passed,
            String::from_utf8(out)
                .unwrap()
                .lines()
                .map(str::to_owned)
                .collect(),
        )
    }

    #[test]
    fn the_closing_line_is_last() {
        let (passed, lines) = gate(&Choice::default(), |_| Ok(Outcome::Passed));
        assert!(passed);
        assert_eq!(lines.last().unwrap(), "10 passed, 0 failed");
        let headings: Vec<_> = lines
            .iter()
            .filter_map(|line| line.strip_prefix("== "))
            .collect();
        assert_eq!(
            headings,
            [
                "fmt",
                "tidy",
                "clippy",
                "test",
                "docs",
                "purity",
                "targets",
                "smoke",
                "conformance",
                "deny"
            ]
        );
    }

    #[test]
    fn the_first_failure_ends_it() {
        let (passed, lines) = gate(&Choice::default(), |step| {
            if step == Step::Clippy {
                bail!("a warning")
            }
            Ok(Outcome::Passed)
        });
        assert!(!passed);
        assert_eq!(lines.last().unwrap(), "2 passed, 1 failed, 7 not run");
        assert!(lines.contains(
            &"step clippy failed; repeat it alone: cargo ci check --only clippy".to_owned()
        ));
        assert!(
            lines
                .iter()
                .any(|line| line.starts_with("-- clippy failed after")
                    && line.ends_with("a warning"))
        );
        assert!(!lines.contains(&"== test".to_owned()));
    }

    #[test]
    fn what_is_skipped_is_counted() {
        let choice = Choice {
            skip: vec![Step::Smoke],
            ..Choice::default()
        };
        let (passed, lines) = gate(&choice, |step| match step {
            Step::Smoke => bail!("must not run"),
            Step::Purity => Ok(Outcome::Skipped("not checked: no target".to_owned())),
            _ => Ok(Outcome::Passed),
        });
        assert!(passed);
        assert_eq!(lines.last().unwrap(), "8 passed, 0 failed, 2 skipped");
        assert!(lines.contains(&"-- purity not checked: no target".to_owned()));
    }

    #[test]
    fn one_step_can_run_alone() {
        let choice = Choice {
            only: vec![Step::Docs],
            ..Choice::default()
        };
        let (_, lines) = gate(&choice, |step| {
            assert_eq!(step, Step::Docs);
            Ok(Outcome::Passed)
        });
        assert_eq!(lines.last().unwrap(), "1 passed, 0 failed");
    }
}
