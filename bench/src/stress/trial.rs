//! One run of a scenario on an engine, from the inside: what was measured, what did not hold.

use super::catalogue::Name;
use crate::child::{Child, Program};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shardloop::Kind;
use std::{
    fmt,
    io::Write,
    time::{Duration, Instant},
};

/// What a trial came to; the last line that its process prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// What did not hold.
    pub(crate) failures: Vec<String>,
    /// Why the engine cannot have this, if it cannot.
    pub(crate) skipped: Option<String>,
    /// What was measured, in the order of measuring.
    pub(crate) figures: Vec<(String, Value)>,
}

/// How long, and how strictly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// Instead of the full length.
    pub(crate) shortened: Option<Duration>,
    /// Bounds on time are told and not judged.
    pub(crate) any_speed: bool,
}

/// A trial under way.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) kind: Kind,
    name: Name,
    terms: Terms,
    begun: Instant,
    outcome: Outcome,
}

impl Trial {
    pub(crate) fn new(kind: Kind, name: Name, terms: Terms) -> Self {
        Self {
            kind,
            name,
            terms,
            begun: Instant::now(),
            outcome: Outcome::default(),
        }
    }

    /// Whether it runs at full length.
    pub(crate) fn is_full(&self) -> bool {
        self.terms.shortened.is_none()
    }

    /// Its length, `full` unless it was shortened.
    pub(crate) fn length(&self, full: Duration) -> Duration {
        self.terms.shortened.unwrap_or(full)
    }

    /// `full`, or what is enough to try in a shortened run.
    pub(crate) fn count<T>(&self, full: T, shortened: T) -> T {
        if self.is_full() { full } else { shortened }
    }

    /// When a shortened run has used up `share` of its time; `None` at full length.
    pub(crate) fn ends_at(&self, share: f64) -> Option<Instant> {
        let length = self.terms.shortened?;
        Some(self.begun + length.mul_f64(share))
    }

    /// Whether a shortened run has used up `share` of its time.
    pub(crate) fn is_over(&self, share: f64) -> bool {
        self.ends_at(share).is_some_and(|end| Instant::now() >= end)
    }

    /// Adds a figure. Units stand last in its name.
    pub(crate) fn note(&mut self, name: &str, value: impl Into<Value>) {
        self.outcome.figures.push((name.to_owned(), value.into()));
    }

    /// Adds a figure, to two digits after the point.
    pub(crate) fn note_rounded(&mut self, name: &str, value: f64) {
        self.note(name, (value * 100.0).round() / 100.0);
    }

    /// Something must hold at any speed.
    pub(crate) fn require(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        if !holds {
            self.outcome.failures.push(otherwise());
        }
    }

    /// Something must hold within a time.
    pub(crate) fn require_in_time(&mut self, holds: bool, otherwise: impl FnOnce() -> String) {
        self.require(holds || self.terms.any_speed, otherwise);
    }

    /// The engine cannot have this.
    pub(crate) fn skip(&mut self, reason: impl Into<String>) {
        self.outcome.skipped = Some(reason.into());
    }

    /// Tells how far it is: what is repeated if it hangs.
    pub(crate) fn say(&self, text: &str) {
        say(text);
    }

    /// Starts a part of this scenario in a process of its own, with these words before the program: `sh -c …` or `env …`.
    pub(crate) fn part(&self, part: &str, before: &[&str]) -> anyhow::Result<Child> {
        let seconds = self.terms.shortened.map_or(0.0, |time| time.as_secs_f64());
        let mut arguments = vec!["stress", self.name.text(), "--inside", "--part", part];
        let seconds = seconds.to_string();
        if !self.is_full() {
            arguments.extend(["--seconds", &seconds]);
        }
        arguments.extend(["--driver", self.kind.name()]);
        this_program("part", before, &arguments, true)
    }

    /// What it came to.
    pub(crate) fn end(mut self, result: anyhow::Result<()>) -> Outcome {
        if let Err(error) = result {
            self.outcome.failures.push(format!("{error:#}"));
        }
        self.outcome
    }
}

/// Prints a line at once.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody to read it is no reason to stop.
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// This program again.
pub(crate) fn this_program(
    name: &'static str,
    before: &[&str],
    arguments: &[&str],
    with_stdin: bool,
) -> anyhow::Result<Child> {
    let file = std::env::current_exe().context("this program's own file could not be found")?;
    let path = file.to_string_lossy().into_owned();
    let program = match before.split_first() {
        None => Program {
            file,
            leading: Vec::new(),
        },
        Some((first, rest)) => Program {
            file: first.into(),
            leading: rest
                .iter()
                .map(|&word| word.to_owned())
                .chain([path])
                .collect(),
        },
    };
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    Child::spawn(name, &program, &arguments, with_stdin)
        .with_context(|| format!("a process for {} could not be started", arguments.join(" ")))
}

/// The words before a program that may have as many descriptors.
pub(crate) fn with_descriptors(limit: &str) -> [&str; 4] {
    ["sh", "-c", "ulimit -n \"$0\" && exec \"$@\"", limit]
}

/// A figure as people read it.
pub(crate) struct Shown<'a>(pub(crate) &'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Value::String(text) => f.write_str(text),
            other => other.fmt(f),
        }
    }
}
