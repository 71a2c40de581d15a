//! A scenario on an engine in a process of its own, from the outside.

use super::{
    catalogue::Scenario,
    trial::{Outcome, Terms, this_program},
};
use crate::{
    child::{Child, WaitFault},
    host::{Interrupt, Reading, Surroundings},
};
use serde::{Serialize, Serializer};
use shardloop::Kind;
use shardloop_platform::{noise, usage};
use std::{
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
    time::{Duration, Instant},
};

/// What a shortened scenario may take beyond its length before it counts as hanging.
const SHORTENED_EXTRA: Duration = Duration::from_secs(60);

/// How a scenario ended on an engine.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Run {
    pub(crate) number: &'static str,
    pub(crate) name: &'static str,
    pub(crate) engine: &'static str,
    pub(crate) verdict: Verdict,
    /// Why it failed or was skipped.
    pub(crate) reasons: Vec<String>,
    /// What was measured.
    #[serde(serialize_with = "in_order")]
    pub(crate) figures: Vec<(String, serde_json::Value)>,
    /// What others did to the machine meanwhile.
    pub(crate) surroundings: Surroundings,
    /// Time that threads of the process were ready and had no CPU; of those alive at one moment, so at least this.
    pub(crate) run_queue_wait_s: Option<f64>,
    /// Of the process; parts that it started have their own.
    pub(crate) rss_peak_bytes: Option<u64>,
    pub(crate) seconds: f64,
    /// Not at full length.
    pub(crate) shortened: bool,
    /// By a debug build, whose times say little.
    pub(crate) debug_build: bool,
}

/// One object, in the order of measuring.
fn in_order<S: Serializer>(
    figures: &[(String, serde_json::Value)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().map(|(name, value)| (name, value)))
}

/// How it ended in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Ok,
    Failed,
    Skip,
}

/// Runs it.
pub(crate) fn run(
    scenario: &Scenario,
    kind: Kind,
    terms: Terms,
    interrupt: &Interrupt,
) -> anyhow::Result<Run> {
    let (begun, before) = (Instant::now(), Reading::now());
    let mut child = start(scenario, kind, terms)?;
    let patience = terms
        .shortened
        .map_or(scenario.patience, |length| length * 3 + SHORTENED_EXTRA);
    let (mut ready, mut peak) = (None, None);
    let pid = child.pid();
    let mut last_look = begun;
    let mut watch = || {
        if last_look.elapsed() > Duration::from_millis(250) {
            last_look = Instant::now();
            ready = ready.max(noise::run_queue_wait(Some(pid)).ok());
            let memory = usage::memory(Some(pid)).ok();
            peak = peak.max(memory.and_then(|memory| memory.peak_bytes));
        }
        interrupt.caught().map(|signal| format!("{signal:?}"))
    };
    let outcome = follow(&mut child, begun + patience, &mut watch);
    let (verdict, reasons, figures) = match outcome {
        Ok(outcome) => judge(outcome),
        Err(reason) => (Verdict::Failed, vec![reason], Vec::new()),
    };
    Ok(Run {
        number: scenario.number,
        name: scenario.name.text(),
        engine: kind.name(),
        verdict,
        reasons,
        figures,
        surroundings: Reading::now().since(&before),
        run_queue_wait_s: ready.map(|ready| ready.as_secs_f64()),
        rss_peak_bytes: peak,
        seconds: begun.elapsed().as_secs_f64(),
        shortened: terms.shortened.is_some(),
        debug_build: cfg!(debug_assertions),
    })
}

fn start(scenario: &Scenario, kind: Kind, terms: Terms) -> anyhow::Result<Child> {
    let mut arguments = vec!["stress", scenario.name.text(), "--inside"];
    arguments.extend(["--driver", kind.name()]);
    let seconds = terms.shortened.map(|time| time.as_secs_f64().to_string());
    if let Some(seconds) = &seconds {
        arguments.extend(["--seconds", seconds]);
    }
    if terms.any_speed {
        arguments.push("--any-speed");
    }
    this_program(scenario.name.text(), &[], &arguments, false)
}

/// Listens to the process until it has said what it came to, or why it never will.
fn follow(
    child: &mut Child,
    deadline: Instant,
    watch: &mut dyn FnMut() -> Option<String>,
) -> Result<Outcome, String> {
    let (mut said, mut outcome) = (String::from("nothing"), None);
    loop {
        match child.next_line(deadline, watch) {
            Ok(Some(line)) if line.starts_with('{') => {
                outcome = serde_json::from_str::<Outcome>(&line).ok();
            }
            Ok(Some(line)) => said = line,
            Ok(None) => break,
            Err(fault) => {
                let pid = child.pid();
                // What hangs does not drain: there is nothing to wait for.
                child.end(Duration::from_millis(500));
                return Err(match fault {
                    WaitFault::TimedOut => {
                        format!("it hung and was ended (process {pid}); the last it said: {said}")
                    }
                    WaitFault::Stopped(why) => format!("interrupted by {why}"),
                });
            }
        }
    }
    let ended = child.wait(Instant::now() + Duration::from_secs(10), watch);
    let stderr = child.stderr().last().cloned().unwrap_or_default();
    match (ended, outcome) {
        (Ok(status), Some(outcome)) if status.success() => Ok(outcome),
        (Ok(status), _) => Err(format!(
            "it crashed: {}; the last it said: {said}; {stderr}",
            crash(status)
        )),
        (Err(_), _) => Err("it said what it came to and did not end".to_owned()),
    }
}

fn crash(status: ExitStatus) -> String {
    status
        .signal()
        .map_or_else(|| status.to_string(), |signal| format!("signal {signal}"))
}

fn judge(outcome: Outcome) -> (Verdict, Vec<String>, Vec<(String, serde_json::Value)>) {
    let figures = outcome.figures;
    if !outcome.failures.is_empty() {
        return (Verdict::Failed, outcome.failures, figures);
    }
    match outcome.skipped {
        Some(reason) => (Verdict::Skip, vec![reason], figures),
        None => (Verdict::Ok, Vec::new(), figures),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Program;

    fn follow_shell(script: &str, patience: Duration) -> Result<Outcome, String> {
        let program = Program {
            file: "sh".into(),
            leading: vec!["-c".to_owned()],
        };
        let mut child = Child::spawn("shell", &program, &[script.to_owned()], false).unwrap();
        follow(&mut child, Instant::now() + patience, &mut || None)
    }

    #[test]
    fn hangs_and_crashes_are_failures_that_say_what_was_last_heard() {
        let hung = follow_shell("echo round 7; sleep 100", Duration::from_millis(300));
        assert!(hung.as_ref().unwrap_err().contains("round 7"), "{hung:?}");
        let soon = Duration::from_secs(20);
        let crashed = follow_shell("echo round 8; kill -SEGV $$", soon).unwrap_err();
        assert!(
            crashed.contains("signal 11") && crashed.contains("round 8"),
            "{crashed}"
        );
        let fine = "echo '{\"failures\":[],\"skipped\":null,\"figures\":[[\"lost\",0]]}'";
        let outcome = follow_shell(fine, soon).unwrap();
        assert_eq!(judge(outcome).0, Verdict::Ok);
        assert!(follow_shell(&format!("{fine}; exit 3"), soon).is_err());
    }
}
