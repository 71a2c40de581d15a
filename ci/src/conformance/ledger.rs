//! What the checks came to: a line for each, and the sum.

use super::Ground;
use super::server::{Place, Server};
use anyhow::Result;
use std::collections::BTreeSet;
use std::fmt;
use std::time::{Duration, Instant};

/// Most details of a failure that are printed; the logs have all.
const DETAILS: usize = 20;

/// What became of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well; what was seen.
    Passed(String),
    /// Something is not; a line for each finding.
    Failed(Vec<String>),
}

/// The error of a check that could not be made, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    pub(crate) reason: String,
    /// Nothing that could be installed would help, so it is no failure where checks are required.
    pub(crate) excused: bool,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Missing {}

impl Outcome {
    /// Passed with `seen` if there are no findings.
    pub(crate) fn of(findings: Vec<String>, seen: impl Into<String>) -> Self {
        if findings.is_empty() {
            Self::Passed(seen.into())
        } else {
            Self::Failed(findings)
        }
    }
}

/// The checks so far.
pub(crate) struct Ledger {
    suite: &'static str,
    required: bool,
    /// Peers that are missing are so for every server, and are told once.
    missing: BTreeSet<String>,
    passed: usize,
    failed: usize,
    begun: Instant,
}

/// The sum of all checks.
pub(crate) struct Summary {
    passed: usize,
    pub(crate) failed: usize,
    not_run: usize,
    took: Duration,
}

impl Ledger {
    /// Without any. If they are `required`, checks that cannot be made are failures.
    pub(crate) fn new(required: bool) -> Self {
        Self {
            suite: "",
            required,
            missing: BTreeSet::new(),
            passed: 0,
            failed: 0,
            begun: Instant::now(),
        }
    }

    /// What follows belongs to this suite.
    pub(crate) fn begin(&mut self, suite: &'static str) {
        self.suite = suite;
    }

    /// A check of one server by one peer.
    pub(crate) fn check(
        &mut self,
        peer: &str,
        place: Place,
        check: impl FnOnce() -> Result<Outcome>,
    ) {
        let begun = Instant::now();
        self.note(peer, &format!(" {place}"), check(), begun);
    }

    /// A check in which the server is another one.
    pub(crate) fn check_alone(&mut self, peer: &str, check: impl FnOnce() -> Result<Outcome>) {
        let begun = Instant::now();
        self.note(peer, "", check(), begun);
    }

    /// A server to be checked, unless it cannot be started.
    pub(crate) fn start(
        &mut self,
        ground: &Ground,
        protocol: &'static str,
        place: Place,
    ) -> Option<Server> {
        let begun = Instant::now();
        match Server::start(ground, protocol, place) {
            Ok(server) => Some(server),
            Err(error) => {
                let what = format!("serve {protocol}");
                self.note(&what, &format!(" {place}"), Err(error), begun);
                None
            }
        }
    }

    /// The end of a server: whether it still serves, and what it says at last.
    pub(crate) fn conclude(&mut self, ground: &Ground, server: Server, place: Place) {
        let what = format!("serve {}", server.protocol);
        self.check(&what, place, || server.conclude(ground));
    }

    fn note(&mut self, peer: &str, place: &str, outcome: Result<Outcome>, begun: Instant) {
        let suite = self.suite;
        let excused = |error: &anyhow::Error| {
            let missing = error.downcast_ref::<Missing>();
            missing.map(|missing| missing.excused)
        };
        let findings = match outcome {
            Ok(Outcome::Passed(seen)) => {
                // Where the time goes, if it is a noticeable part of the minutes that all may take.
                let seconds = match begun.elapsed().as_secs() {
                    0 => String::new(),
                    seconds => format!(" [{seconds} s]"),
                };
                println!("{suite} {peer}{place}: {seen}{seconds}");
                self.passed += 1;
                return;
            }
            Ok(Outcome::Failed(findings)) => findings,
            Err(error) => match excused(&error) {
                Some(excused) => {
                    let line = format!("{suite} {peer}: not run: {error}");
                    if self.missing.insert(line.clone()) {
                        println!("{line}");
                        self.failed += usize::from(self.required && !excused);
                    }
                    return;
                }
                None => vec![format!("{error:#}")],
            },
        };
        println!("{suite} {peer}{place}: FAILED");
        for finding in findings.iter().take(DETAILS) {
            println!("    {finding}");
        }
        if findings.len() > DETAILS {
            println!("    ... and {} more", findings.len() - DETAILS);
        }
        self.failed += 1;
    }

    /// The sum.
    pub(crate) fn close(self) -> Summary {
        Summary {
            passed: self.passed,
            failed: self.failed,
            not_run: self.missing.len(),
            took: self.begun.elapsed(),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            failed,
            not_run,
            took,
        } = self;
        let seconds = took.as_secs();
        write!(
            f,
            "{passed} checks passed, {failed} failed, {not_run} not run, in {seconds} s"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_told_once_and_fails_where_it_is_required() {
        for required in [false, true] {
            let mut ledger = Ledger::new(required);
            ledger.begin("websocket");
            for place in Place::ALL {
                for (peer, excused) in [("a", false), ("z", true)] {
                    let reason = "not here".to_owned();
                    ledger.check(peer, place, || Err(Missing { reason, excused }.into()));
                }
                ledger.check("b", place, || Ok(Outcome::Passed("1 case ok".to_owned())));
            }
            ledger.check_alone("c", || Ok(Outcome::of(vec!["x".to_owned()], "")));
            ledger.check_alone("d", || anyhow::bail!("y"));
            let summary = ledger.close();
            let failed = 2 + usize::from(required);
            assert_eq!(
                (summary.passed, summary.failed, summary.not_run),
                (3, failed, 2)
            );
        }
    }
}
