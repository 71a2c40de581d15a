//! The real runner: a fresh server process and a fresh load process for every repetition.
//!
//! Order: start the server, read its ready line, start the load, read its lines until it ends, SIGTERM to the server, read its
//! last line. Whatever goes wrong on the way ends both children and becomes the repetition's failure.

use crate::case::Factors;
use crate::child::{Child, Ending, Program, WaitFault};
use crate::contract::{
    CONTRACT_VERSION, Counters, Done, LoadReport, Mark, Model, Protocol, Ready, Window,
};
use crate::host::Interrupt;
use crate::loss::Loss;
use crate::repetition::{CallCount, Failure, Job, Outcome, Pass, Runner};
use crate::serve::shards::default_accept;
use serde::Deserialize;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// Lines of standard error that go into a failure.
const STDERR_TAIL_LINES: usize = 20;
/// How long the load may go on after its server has died; it usually notices at once and says more than we know.
const AFTER_DEATH: Duration = Duration::from_secs(2);

/// Starts this same program as server and as load.
#[derive(Debug)]
pub(crate) struct ProcessRunner {
    server: Program,
    load: Program,
    limits: Limits,
    interrupt: Interrupt,
}

/// How long each step may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// From the server's start to its ready line.
    pub(crate) ready: Duration,
    /// What the load may take beyond warm-up and window.
    pub(crate) load_extra: Duration,
    /// From a mark to its answer, and from SIGTERM to the server's last line.
    pub(crate) answer: Duration,
    /// From SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
}

impl Limits {
    /// The usual ones.
    pub(crate) fn with_extra(load_extra: Duration) -> Self {
        Limits {
            ready: Duration::from_secs(10),
            load_extra,
            answer: Duration::from_secs(10),
            grace: Duration::from_secs(5),
        }
    }
}

impl ProcessRunner {
    /// Re-executes the program that is running.
    pub(crate) fn of_this_program(limits: Limits, interrupt: Interrupt) -> std::io::Result<Self> {
        let file = std::env::current_exe()?;
        let server = Program {
            file: file.clone(),
            leading: vec!["serve".to_owned()],
        };
        let load = Program {
            file,
            leading: vec!["load".to_owned()],
        };
        Ok(ProcessRunner {
            server,
            load,
            limits,
            interrupt,
        })
    }
}

impl Runner for ProcessRunner {
    fn run(&mut self, job: &Job<'_>) -> Outcome {
        let mut attempt = Attempt::new(self, job);
        let result = attempt.carry_out();
        attempt.conclude(result)
    }
}

/// One repetition on its way.
struct Attempt<'a> {
    runner: &'a ProcessRunner,
    job: &'a Job<'a>,
    server: Option<Child>,
    load: Option<Child>,
    /// The server was told to end, and ended well.
    stopped: bool,
    marks: Vec<Mark>,
    outcome: Outcome,
}

impl<'a> Attempt<'a> {
    fn new(runner: &'a ProcessRunner, job: &'a Job<'a>) -> Self {
        Attempt {
            runner,
            job,
            server: None,
            load: None,
            stopped: false,
            marks: Vec::new(),
            outcome: Outcome::default(),
        }
    }

    fn carry_out(&mut self) -> Result<(), Failure> {
        let ready = self.start_server()?;
        check_ready(self.job, &ready)?;
        self.outcome.ready = Some(ready.clone());
        let (report, verdict) = self.run_load(&ready)?;
        if verdict.is_err() && report.udp.is_none() {
            return verdict;
        }
        self.outcome.load = Some(report.clone());
        if verdict.is_err() {
            // What was lost is told with what the server's sockets dropped, if the server can still say it.
            let done = self.stop_server().ok();
            self.reconcile(&report, done.as_ref());
            return verdict;
        }
        check_report(self.job, &report)?;
        let done = self.stop_server()?;
        self.reconcile(&report, Some(&done));
        self.outcome.calls = (self.job.pass == Pass::Counted)
            .then(|| count_calls(self.job, &self.marks, &report, &done));
        self.outcome.done = Some(done);
        Ok(())
    }

    /// Over datagrams: holds what the load misses against what was dropped.
    fn reconcile(&mut self, report: &LoadReport, done: Option<&Done>) {
        let served = done.and_then(|done| done.udp.as_ref());
        self.outcome.loss = report.udp.as_ref().map(|udp| Loss::of(udp, served));
    }

    fn start_server(&mut self) -> Result<Ready, Failure> {
        let args = server_args(self.job);
        let server = Child::spawn(
            "server",
            &self.runner.server,
            &args,
            self.job.pass == Pass::Counted,
        )
        .map_err(|error| {
            Failure::new(
                "E-SERVER-START",
                format!("the server could not be started: {error}"),
            )
        })?;
        let server = self.server.insert(server);
        let deadline = Instant::now() + self.runner.limits.ready;
        match server.next_line(deadline, &mut interrupted(&self.runner.interrupt)) {
            Ok(Some(line)) => parse("E-SERVER-OUTPUT", "the server's ready line", &line),
            Ok(None) => Err(Failure::new(
                "E-SERVER-START",
                format!(
                    "the server ended before it was ready: {}",
                    last_words(server)
                ),
            )),
            Err(fault) => Err(waited(
                "E-SERVER-READY",
                "the server was not ready",
                self.runner.limits.ready,
                &fault,
            )),
        }
    }

    /// Runs the load to its end: its report, and whether it counts.
    fn run_load(&mut self, ready: &Ready) -> Result<(LoadReport, Result<(), Failure>), Failure> {
        let args = load_args(self.job, ready);
        let load = Child::spawn("load", &self.runner.load, &args, false).map_err(|error| {
            Failure::new(
                "E-LOAD-START",
                format!("the load could not be started: {error}"),
            )
        })?;
        self.load = Some(load);
        let allowed = self.job.timing.total() + self.runner.limits.load_extra;
        let deadline = Instant::now() + allowed;
        let mut report = None;
        while let Some(line) = self.load_line(deadline, allowed)? {
            match parse_load_line(&line)? {
                None => self.mark()?,
                Some(found) if report.is_none() => report = Some(found),
                Some(_) => {
                    return Err(Failure::own(
                        "E-LOAD-OUTPUT",
                        "the load printed two results",
                    ));
                }
            }
        }
        let status = self.load_status(deadline, allowed)?;
        conclude_load(report, status)
    }

    fn load_line(
        &mut self,
        deadline: Instant,
        allowed: Duration,
    ) -> Result<Option<String>, Failure> {
        let (load, mut watch) = self.watched_load()?;
        load.next_line(deadline, &mut watch)
            .map_err(|fault| waited("E-LOAD-TIMEOUT", "the load did not end", allowed, &fault))
    }

    fn load_status(&mut self, deadline: Instant, allowed: Duration) -> Result<ExitStatus, Failure> {
        let (load, mut watch) = self.watched_load()?;
        load.wait(deadline, &mut watch)
            .map_err(|fault| waited("E-LOAD-TIMEOUT", "the load did not end", allowed, &fault))
    }

    /// The load, and a watch that ends the wait on a signal or some time after the server's death.
    fn watched_load(&mut self) -> Result<(&mut Child, impl FnMut() -> Option<String>), Failure> {
        let interrupt = &self.runner.interrupt;
        let (Some(load), Some(server)) = (self.load.as_mut(), self.server.as_mut()) else {
            return Err(Failure::own(
                "E-ORDER",
                "the load was awaited before it was started",
            ));
        };
        let mut died: Option<Instant> = None;
        let watch = move || {
            if interrupt.caught().is_some() {
                return Some("interrupted".to_owned());
            }
            let status = server.status()?;
            let since = *died.get_or_insert_with(Instant::now);
            (since.elapsed() > AFTER_DEATH).then(|| format!("the server had ended ({status})"))
        };
        Ok((load, watch))
    }

    /// Reads the server's counters at the edge of the window.
    fn mark(&mut self) -> Result<(), Failure> {
        if self.job.pass != Pass::Counted {
            return Ok(());
        }
        let Some(server) = self.server.as_mut() else {
            return Err(Failure::own(
                "E-ORDER",
                "a mark before the server was started",
            ));
        };
        server.tell("mark").map_err(|error| {
            Failure::new("E-MARK", format!("the server does not take marks: {error}"))
        })?;
        let deadline = Instant::now() + self.runner.limits.answer;
        match server.next_line(deadline, &mut interrupted(&self.runner.interrupt)) {
            Ok(Some(line)) => {
                self.marks
                    .push(parse("E-MARK", "the server's answer to a mark", &line)?)
            }
            Ok(None) => {
                return Err(Failure::new(
                    "E-MARK",
                    format!(
                        "the server ended instead of answering a mark: {}",
                        last_words(server)
                    ),
                ));
            }
            Err(fault) => {
                return Err(waited(
                    "E-MARK",
                    "no answer to a mark",
                    self.runner.limits.answer,
                    &fault,
                ));
            }
        }
        Ok(())
    }

    fn stop_server(&mut self) -> Result<Done, Failure> {
        let (limits, interrupt) = (self.runner.limits, &self.runner.interrupt);
        let Some(server) = self.server.as_mut() else {
            return Err(Failure::own(
                "E-ORDER",
                "the server was stopped before it was started",
            ));
        };
        server.terminate();
        let deadline = Instant::now() + limits.answer;
        let late = |fault: &WaitFault| {
            waited(
                "E-SERVER-DRAIN",
                "after SIGTERM the server did not end",
                limits.answer,
                fault,
            )
        };
        let line = server
            .next_line(deadline, &mut interrupted(interrupt))
            .map_err(|fault| late(&fault))?;
        let Some(line) = line else {
            return Err(Failure::new(
                "E-SERVER-DIED",
                format!("the server left no result: {}", last_words(server)),
            ));
        };
        let done = parse("E-SERVER-OUTPUT", "the server's last line", &line)?;
        if let Some(more) = server
            .next_line(deadline, &mut interrupted(interrupt))
            .map_err(|fault| late(&fault))?
        {
            return Err(Failure::own(
                "E-SERVER-OUTPUT",
                format!("after its last line the server printed {}", shown(&more)),
            ));
        }
        let status = server
            .wait(deadline, &mut interrupted(interrupt))
            .map_err(|fault| late(&fault))?;
        if status.success() {
            self.stopped = true;
            Ok(done)
        } else {
            Err(Failure::new(
                "E-SERVER-DIED",
                format!("the server ended with {}", last_words(server)),
            ))
        }
    }

    /// Ends what still runs and gives the failure its evidence.
    fn conclude(mut self, result: Result<(), Failure>) -> Outcome {
        let Err(mut failure) = result else {
            return self.outcome;
        };
        if self.runner.interrupt.caught().is_some() {
            let grace = self.runner.limits.grace.min(Duration::from_secs(1));
            self.end_both(grace, "");
            self.outcome.interrupted = true;
            return self.outcome;
        }
        self.blame_a_dead_server(&mut failure);
        let late = match failure.id.as_str() {
            "E-LOAD-TIMEOUT" => "load",
            "E-SERVER-READY" | "E-SERVER-DRAIN" => "server",
            _ => "",
        };
        let forced = self.end_both(self.runner.limits.grace, late);
        if !forced.is_empty() {
            failure.text = format!("{} ({forced})", failure.text);
        }
        let guilty = if failure.id.starts_with("E-LOAD") {
            &mut self.load
        } else {
            &mut self.server
        };
        failure.stderr_tail = guilty
            .as_mut()
            .map(|child| tail(child.stderr()))
            .unwrap_or_default();
        let children = [&mut self.server, &mut self.load];
        self.outcome.evidence = children
            .into_iter()
            .flatten()
            .map(Child::evidence)
            .collect();
        self.outcome.failure = Some(failure);
        self.outcome
    }

    /// A load fails in many ways when its server dies; the cause is the death. The system closes the connections of a killed process
    /// before it says that the process is dead, so the load may know first.
    fn blame_a_dead_server(&mut self, failure: &mut Failure) {
        let Some(server) = self.server.as_mut() else {
            return;
        };
        if self.stopped || !failure.id.starts_with("E-LOAD") || !server.ends_within(DYING) {
            return;
        }
        let text = format!(
            "the server died during the measurement: {}; {}",
            last_words(server),
            failure.text
        );
        *failure = Failure::new("E-SERVER-DIED", text);
    }

    /// Ends load and server. Says how, where that belongs to the failure: of a child that was late, and of one that had to be
    /// killed. A server that still serves when its load fails has done nothing wrong.
    fn end_both(&mut self, grace: Duration, late: &str) -> String {
        let mut forced = Vec::new();
        for child in [&mut self.load, &mut self.server].into_iter().flatten() {
            let name = child.name();
            if child.status().is_some() {
                continue;
            }
            match child.end(grace) {
                Ending::Own(_) if name == late => {
                    forced.push(format!("{name} ended by SIGTERM, as 124"))
                }
                Ending::Own(_) => {}
                Ending::Killed => {
                    forced.push(format!("{name} ignored SIGTERM and was killed, as 137"))
                }
            }
        }
        forced.join("; ")
    }
}

/// The load's result, or `None` if the line only announces an edge of its window.
fn parse_load_line(line: &str) -> Result<Option<LoadReport>, Failure> {
    if serde_json::from_str::<Window>(line).is_ok() {
        return Ok(None);
    }
    parse("E-LOAD-OUTPUT", "the load's line", line).map(Some)
}

fn server_args(job: &Job<'_>) -> Vec<String> {
    let factors = &job.cell.factors;
    let mut args = vec!["--protocol".to_owned(), factors.protocol.name().to_owned()];
    args.push(format!("--{}", factors.model.name()));
    if factors.model != Model::Null {
        args.push(factors.threads.to_string());
    }
    if factors.model == Model::Shards {
        args.extend(["--driver".to_owned(), factors.driver.clone()]);
        if let Some(accept) = &factors.accept {
            args.extend(["--accept".to_owned(), accept.clone()]);
        }
        args.extend(["--spin-us".to_owned(), factors.spin_us.to_string()]);
    }
    args.extend(["--listen".to_owned(), factors.family.listen().to_owned()]);
    args.extend(["--work".to_owned(), factors.work.to_string()]);
    if job.pass == Pass::Counted {
        args.extend(["--count-calls".to_owned(), "--control".to_owned()]);
    }
    args
}

/// How long a server whose connections have broken may take to be seen dead.
const DYING: Duration = Duration::from_millis(200);

/// How long a datagram is waited for at least where no time is used: a busy machine is no fault of a server's.
const PATIENCE: Duration = Duration::from_secs(2);

/// Messages of each client in [`Pass::Check`].
const CHECKED_MESSAGES: u64 = 100;

fn load_args(job: &Job<'_>, ready: &Ready) -> Vec<String> {
    let factors = &job.cell.factors;
    let pairs = [
        ("--protocol", factors.protocol.name().to_owned()),
        ("--connect", ready.address.to_string()),
        ("--clients", factors.clients.to_string()),
        ("--window", factors.window.to_string()),
        ("--payload", factors.payload.to_string()),
        ("--duration", format!("{}ms", job.timing.window.as_millis())),
        match job.pass {
            // The window is then the longest that they may take.
            Pass::Check => ("--messages", CHECKED_MESSAGES.to_string()),
            _ => ("--warmup", format!("{}ms", job.timing.warmup.as_millis())),
        },
        ("--verify", job.verify.name().to_owned()),
        ("--server-pid", ready.pid.to_string()),
        ("--json", "-".to_owned()),
    ];
    let mut args: Vec<String> = pairs
        .into_iter()
        .flat_map(|(flag, value)| [flag.to_owned(), value])
        .collect();
    if factors.protocol.is_datagram() {
        let timeout = match job.pass {
            Pass::Timed | Pass::Floor => job.losses.timeout,
            Pass::Rehearsal | Pass::Counted | Pass::Check => job.losses.timeout.max(PATIENCE),
        };
        let timeout = format!("{}us", timeout.as_micros());
        args.extend(["--udp-timeout".to_owned(), timeout]);
        args.extend([
            "--max-loss".to_owned(),
            (job.losses.max_loss * 100.0).to_string(),
        ]);
    }
    if let Some(pem) = &ready.ca_pem {
        // In one word, since it begins with hyphens.
        args.push(format!("--ca-pem={pem}"));
    }
    if job.pass == Pass::Counted {
        args.push("--announce".to_owned());
    }
    args
}

/// The server that answers must be the one that was asked for.
fn check_ready(job: &Job<'_>, ready: &Ready) -> Result<(), Failure> {
    let factors = &job.cell.factors;
    let driver =
        factors.model == Model::Pool || factors.driver == "auto" || ready.driver == factors.driver;
    let same = (ready.protocol, ready.model, ready.threads, ready.work)
        == (
            factors.protocol,
            factors.model,
            factors.threads,
            factors.work,
        );
    let settings = ready.accept == accept_of(factors) && ready.spin_us == factors.spin_us;
    if same && driver && settings && ready.ready {
        return Ok(());
    }
    let text = format!(
        "asked for {} {} {} {} {:?} spin {} work {}, the server is {} {} {} {} {:?} spin {} work {}",
        factors.protocol.name(),
        factors.model.name(),
        factors.threads,
        factors.driver,
        accept_of(factors),
        factors.spin_us,
        factors.work,
        ready.protocol.name(),
        ready.model.name(),
        ready.threads,
        ready.driver,
        ready.accept,
        ready.spin_us,
        ready.work
    );
    Err(Failure::own("E-PARAMETERS", text))
}

/// The strategy by which the shards of a cell are spread; a pool has none.
fn accept_of(factors: &Factors) -> Option<String> {
    let default = || default_accept(factors.protocol).name().to_owned();
    let accept = || factors.accept.clone().unwrap_or_else(default);
    (factors.model == Model::Shards).then(accept)
}

/// The load must have done what it was told, and something must have come of it.
fn check_report(job: &Job<'_>, report: &LoadReport) -> Result<(), Failure> {
    let factors = &job.cell.factors;
    let told = (
        factors.protocol,
        factors.clients,
        factors.window,
        factors.payload,
        job.verify.name(),
    );
    let did = (
        report.protocol,
        report.clients,
        report.window_per_client,
        report.payload_bytes,
        report.verify.as_str(),
    );
    if told != did || report.contract_version != CONTRACT_VERSION {
        return Err(Failure::own(
            "E-PARAMETERS",
            format!("the load was told {told:?} and did {did:?}"),
        ));
    }
    if report.counters.received == 0 || report.window_ns == 0 || report.round_trips_per_s <= 0.0 {
        return Err(Failure::new(
            "E-LOAD-EMPTY",
            "the load did not measure any completed round trip",
        ));
    }
    Ok(())
}

fn conclude_load(
    report: Option<LoadReport>,
    status: ExitStatus,
) -> Result<(LoadReport, Result<(), Failure>), Failure> {
    let Some(report) = report else {
        return Err(Failure::new(
            "E-LOAD-OUTPUT",
            format!("the load printed no result and ended with {status}"),
        ));
    };
    if report.ok && status.success() {
        return Ok((report, Ok(())));
    }
    let first = report
        .first_failure
        .clone()
        .unwrap_or_else(|| format!("it ended with {status}"));
    let faults = faults_in_words(&report.counters);
    let text = if faults.is_empty() {
        first
    } else {
        format!("{first} ({faults})")
    };
    Ok((report, Err(Failure::new("E-LOAD-FAILED", text))))
}

/// The fault counters above zero, by name.
fn faults_in_words(counters: &Counters) -> String {
    let all = [
        ("unfinished", counters.unfinished),
        ("content_errors", counters.content_errors),
        ("order_errors", counters.order_errors),
        ("length_errors", counters.length_errors),
        ("unexpected", counters.unexpected),
        ("disconnects", counters.disconnects),
        ("connect_errors", counters.connect_errors),
        ("io_errors", counters.io_errors),
        ("protocol_errors", counters.protocol_errors),
        ("drain_timeouts", counters.drain_timeouts),
        ("warmup_errors", counters.warmup_errors),
    ];
    let seen: Vec<String> = all
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    seen.join(", ")
}

/// System calls per round trip from the two marks. `echo` and the null server count receives, not messages, so there the load's
/// count is used.
fn count_calls(job: &Job<'_>, marks: &[Mark], report: &LoadReport, done: &Done) -> CallCount {
    let [begin, end] = marks else {
        return CallCount {
            reason: Some(format!(
                "the load announced {} edges of its window, not 2",
                marks.len()
            )),
            ..CallCount::default()
        };
    };
    let factors = &job.cell.factors;
    let round_trips = match (factors.protocol, factors.model) {
        (_, Model::Null) | (Protocol::Echo, _) => report.counters.received,
        _ => end.messages.saturating_sub(begin.messages),
    };
    let system_calls = end
        .system_calls
        .zip(begin.system_calls)
        .and_then(|(end, begin)| end.checked_sub(begin));
    let per_round_trip = system_calls
        .filter(|_| round_trips > 0)
        .map(|calls| calls as f64 / round_trips as f64);
    let unknown = || {
        done.system_calls_not_counted
            .clone()
            .unwrap_or_else(|| "the server could not count them".to_owned())
    };
    CallCount {
        per_round_trip,
        system_calls,
        round_trips: Some(round_trips),
        reason: per_round_trip.is_none().then(unknown),
    }
}

fn parse<T: for<'de> Deserialize<'de>>(id: &str, what: &str, line: &str) -> Result<T, Failure> {
    serde_json::from_str(line).map_err(|error| {
        Failure::own(
            id,
            format!("{what} is not as agreed ({error}): {}", shown(line)),
        )
    })
}

/// The beginning of a line, for a message.
fn shown(line: &str) -> String {
    let start: String = line.chars().take(120).collect();
    format!("{start:?}")
}

fn interrupted(interrupt: &Interrupt) -> impl FnMut() -> Option<String> {
    || interrupt.caught().map(|_| "interrupted".to_owned())
}

fn waited(id: &str, what: &str, allowed: Duration, fault: &WaitFault) -> Failure {
    match fault {
        WaitFault::TimedOut => {
            Failure::new(id, format!("{what} within {:.1} s", allowed.as_secs_f64()))
        }
        WaitFault::Stopped(reason) => Failure::new(id, format!("{what}: {reason}")),
    }
}

/// Exit status and last line of standard error of a child that is ending.
fn last_words(child: &mut Child) -> String {
    let status = child.wait(Instant::now() + Duration::from_secs(1), &mut || None);
    let status = status.map_or("still running".to_owned(), |status| status.to_string());
    match child
        .stderr()
        .iter()
        .rev()
        .find(|line| !line.trim().is_empty())
    {
        Some(line) => format!("{status}: {line}"),
        None => status,
    }
}

fn tail(lines: &[String]) -> Vec<String> {
    lines[lines.len().saturating_sub(STDERR_TAIL_LINES)..].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Cell;
    use crate::case::tests::cell;
    use crate::child::tests::script;
    use crate::host::Signal;
    use crate::repetition::{LossRule, Timing, Verify};

    const READY: &str = r#"echo "{\"ready\":true,\"address\":\"127.0.0.1:9\",\"pid\":1,\"protocol\":\"tcp\",\"model\":\"pool\",\"threads\":2,\"driver\":\"tokio\",\"work\":0}";"#;
    const DONE: &str = r#"echo "{\"done\":true,\"accepted\":16,\"messages\":300,\"per_shard\":[],\"cpu_ns\":5,\"rss_peak_bytes\":null,\"system_calls\":null,\"system_calls_not_counted\":\"not permitted\"}";"#;
    const REPORT: &str = r#"{"contract_version":1,"ok":true,"first_failure":null,"protocol":"tcp","connect":"127.0.0.1:9","clients":16,"window_per_client":8,"payload_bytes":1024,"warmup_ns":0,"duration_ns":1000,"window_ns":1000,"drain_ns":0,"verify":"full","counters":{"received":100},"round_trips_per_s":100.0,"payload_mib_per_s":1.0,"rtt_service_ns":{"count":100,"mean":null,"p50":null,"p90":null,"p99":null,"p99.9":null,"p99.99":null,"max":null},"histogram_v2":null,"little_ratio":null,"client":{"cpu_ns":null,"cpu_ns_per_rt":null,"rss_peak_bytes":null,"switches_voluntary":null,"switches_involuntary":null,"cpu_share":null},"server":null}"#;

    /// Waits for SIGTERM, then does what follows.
    fn serving(at_the_end: &str) -> String {
        format!("trap '{at_the_end} exit 0' TERM; {READY} while :; do sleep 0.01; done")
    }

    fn good_server() -> String {
        format!(
            "finish() {{ {DONE} exit 0; }}; trap finish TERM; {READY} while :; do sleep 0.01; done"
        )
    }

    fn good_load() -> String {
        format!("echo '{REPORT}'")
    }

    fn attempt_with(server: &str, load: &str, pass: Pass, interrupt: Interrupt) -> Outcome {
        let short = Duration::from_millis(400);
        let limits = Limits {
            ready: short,
            load_extra: short,
            answer: short,
            grace: short,
        };
        let mut runner = ProcessRunner {
            server: script(server),
            load: script(load),
            limits,
            interrupt,
        };
        let cell: Cell = cell(Model::Pool, 2);
        let timing = Timing {
            warmup: Duration::ZERO,
            window: Duration::from_millis(40),
        };
        runner.run(&Job {
            cell: &cell,
            timing,
            verify: Verify::Full,
            losses: LossRule::default(),
            pass,
        })
    }

    fn attempt(server: &str, load: &str) -> Outcome {
        attempt_with(server, load, Pass::Timed, Interrupt::pretend(None))
    }

    fn failure(server: &str, load: &str) -> Failure {
        attempt(server, load).failure.expect("it must fail")
    }

    #[test]
    fn a_good_repetition() {
        let outcome = attempt(&good_server(), &good_load());
        assert_eq!(outcome.failure, None);
        assert_eq!(outcome.load.unwrap().counters.received, 100);
        assert_eq!(outcome.done.unwrap().accepted, 16);
        assert_eq!(outcome.evidence, "");
    }

    #[test]
    fn a_server_that_cannot_start() {
        let found = failure("echo 'error: port in use' >&2; exit 4", &good_load());
        assert_eq!(found.id, "E-SERVER-START");
        assert!(
            found.text.contains("exit status: 4: error: port in use"),
            "{}",
            found.text
        );
        assert_eq!(found.stderr_tail, ["error: port in use"]);
    }

    #[test]
    fn a_server_that_is_never_ready() {
        assert_eq!(failure("sleep 100", &good_load()).id, "E-SERVER-READY");
        assert_eq!(
            failure("echo nonsense; sleep 100", &good_load()).id,
            "E-SERVER-OUTPUT"
        );
    }

    #[test]
    fn a_server_with_other_parameters_is_the_tools_fault() {
        let found = failure(
            &good_server().replace("\\\"threads\\\":2", "\\\"threads\\\":3"),
            &good_load(),
        );
        assert_eq!((found.id.as_str(), found.own_fault), ("E-PARAMETERS", true));
        let found = failure(
            &good_server(),
            &good_load().replace("\"clients\":16", "\"clients\":15"),
        );
        assert_eq!((found.id.as_str(), found.own_fault), ("E-PARAMETERS", true));
    }

    #[test]
    fn a_load_that_prints_the_wrong_thing() {
        let id = |load: &str| failure(&good_server(), load).id;
        assert_eq!(id("echo hello"), "E-LOAD-OUTPUT");
        assert_eq!(id("true"), "E-LOAD-OUTPUT");
        assert_eq!(
            id(&format!("{}; {}", good_load(), good_load())),
            "E-LOAD-OUTPUT"
        );
        assert_eq!(id(&good_load().replace("100.0", "NaN")), "E-LOAD-OUTPUT");
        assert_eq!(
            id(&good_load().replace("\"received\":100", "\"received\":0")),
            "E-LOAD-EMPTY"
        );
        assert_eq!(id(&format!("{}; exit 3", good_load())), "E-LOAD-FAILED");
    }

    #[test]
    fn a_load_that_counted_faults() {
        let report = good_load().replace(
            "\"ok\":true,\"first_failure\":null",
            "\"ok\":false,\"first_failure\":\"reply 7 differs\"",
        );
        let report = report.replace(
            "\"received\":100",
            "\"received\":100,\"content_errors\":2,\"order_errors\":1",
        );
        let found = failure(&good_server(), &format!("{report}; exit 1"));
        assert_eq!(found.id, "E-LOAD-FAILED");
        assert_eq!(
            found.text,
            "reply 7 differs (content_errors 2, order_errors 1)"
        );
    }

    #[test]
    fn what_a_lossy_load_misses_is_held_against_the_servers_drops() {
        let udp = r#","udp":{"timeout_ns":1,"max_loss":0.0,"loss_share":0.1,"window":{"in_flight_begin":0,"sent":110,"echoed":100,"lost":10,"late":0,"duplicates":0,"reordered":0,"in_flight_end":0},"whole":{"in_flight_begin":0,"sent":110,"echoed":100,"lost":10,"late":1,"duplicates":0,"reordered":0,"in_flight_end":0},"mean_in_flight":null,"buffers":{"requested":{"send_bytes":1,"receive_bytes":1},"granted_min":null,"granted_max":null},"client_dropped":0,"system_receive_buffer_full":null}}"#;
        let report = good_load()
            .replace(
                "\"ok\":true,\"first_failure\":null",
                "\"ok\":false,\"first_failure\":\"10 of 110 requests were lost\"",
            )
            .replace("\"server\":null}", &format!("\"server\":null{udp}"));
        let server = good_server().replace(
            "\\\"not permitted\\\"}",
            "\\\"not permitted\\\",\\\"udp\\\":{\\\"received\\\":101,\\\"sent\\\":101,\\\"refused\\\":0,\\\"dropped\\\":9,\\\"dropped_between_shards\\\":null}}",
        );
        let outcome = attempt(&server, &format!("{report}; exit 1"));
        let failure = outcome.failure.unwrap();
        assert_eq!(
            (failure.id.as_str(), failure.own_fault),
            ("E-LOAD-FAILED", false)
        );
        let loss = outcome.loss.expect("the server still told");
        assert_eq!(
            (loss.lost, loss.server_dropped, loss.unexplained),
            (10, Some(9), Some(0))
        );
        assert_eq!(outcome.load.unwrap().counters.received, 100, "it is kept");
    }

    #[test]
    fn a_load_that_hangs_and_one_that_ignores_sigterm() {
        let found = failure(&good_server(), "sleep 100");
        assert_eq!(found.id, "E-LOAD-TIMEOUT");
        assert!(
            found.text.contains("load ended by SIGTERM, as 124"),
            "{}",
            found.text
        );
        let found = failure(&good_server(), "trap '' TERM; while :; do sleep 0.02; done");
        assert!(
            found
                .text
                .contains("load ignored SIGTERM and was killed, as 137"),
            "{}",
            found.text
        );
    }

    #[test]
    fn a_server_that_dies_under_load() {
        let found = failure(
            &format!("{READY} sleep 0.1; echo 'out of luck' >&2; kill -9 $$"),
            "sleep 0.2; exit 1",
        );
        assert_eq!(found.id, "E-SERVER-DIED");
        assert!(
            found.text.contains("signal: 9") && found.text.contains("out of luck"),
            "{}",
            found.text
        );
    }

    #[test]
    fn a_server_that_does_not_end_well() {
        assert_eq!(
            failure(&serving(""), &good_load()).id,
            "E-SERVER-DIED",
            "no last line"
        );
        assert_eq!(
            failure(&serving("echo done;"), &good_load()).id,
            "E-SERVER-OUTPUT"
        );
        assert_eq!(
            failure(&good_server().replace("exit 0", "exit 5"), &good_load()).id,
            "E-SERVER-DIED"
        );
        let stubborn = format!("trap '' TERM; {READY} while :; do sleep 0.02; done");
        let found = failure(&stubborn, &good_load());
        assert_eq!(found.id, "E-SERVER-DRAIN");
        assert!(found.text.contains("as 137"), "{}", found.text);
    }

    #[test]
    fn the_evidence_has_both_children() {
        let outcome = attempt(&good_server(), "echo oh no >&2; exit 1");
        assert!(
            outcome.evidence.contains("== server")
                && outcome.evidence.contains("== load")
                && outcome.evidence.contains("oh no")
        );
    }

    #[test]
    fn an_interruption_is_neither_good_nor_bad() {
        let outcome = attempt_with(
            &good_server(),
            "sleep 100",
            Pass::Timed,
            Interrupt::pretend(Some(Signal::Interrupt)),
        );
        assert!(outcome.interrupted && outcome.failure.is_none());
    }

    #[test]
    fn system_calls_come_from_two_marks() {
        let mark = r#"printf '{"mark":%d,"messages":%d,"system_calls":%s,"cpu_ns":1}\n' $n $((n * 100)) "$calls";"#;
        let server = |calls: &str| {
            format!(
                "finish() {{ {DONE} exit 0; }}; trap finish TERM; {READY} n=0; while read line; do n=$((n + 1)); calls={calls}; {mark} done; while :; do sleep 0.01; done"
            )
        };
        let load = format!(
            "echo '{{\"window\":\"begin\"}}'; echo '{{\"window\":\"end\"}}'; sleep 0.1; {}",
            good_load()
        );
        let counted = |calls: &str| {
            attempt_with(
                &server(calls),
                &load,
                Pass::Counted,
                Interrupt::pretend(None),
            )
        };
        let outcome = counted("$((n * 250))");
        assert_eq!(outcome.failure, None);
        let calls = outcome.calls.unwrap();
        assert_eq!(
            (calls.per_round_trip, calls.system_calls, calls.round_trips),
            (Some(2.5), Some(250), Some(100))
        );
        let calls = counted("null").calls.unwrap();
        assert_eq!(
            (calls.per_round_trip, calls.reason.as_deref()),
            (None, Some("not permitted"))
        );
    }
}
