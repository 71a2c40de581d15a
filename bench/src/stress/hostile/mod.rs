//! 13: hostile peers. While a good client has every reply right, others send a byte at a time, half a handshake, too much of everything,
//! random bytes or nothing at all, come and go, or never read: each is refused with a counter of its own, and costs a bounded memory.

mod crowd;
mod line;
mod words;

use super::{
    client,
    oracle::{descriptors, resident::mib},
    service,
    trial::{Trial, this_program},
};
use crate::{
    child::Child,
    contract::{Done, LoadReport, Protocol, Ready},
};
use anyhow::{Context, ensure};
use crowd::Crowd;
use shardloop_platform::usage;
use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

const PROTOCOLS: [Protocol; 5] = [
    Protocol::Http,
    Protocol::Ws,
    Protocol::Tls,
    Protocol::Wss,
    Protocol::Https,
];

/// For one protocol.
const LENGTH: Duration = Duration::from_secs(30);
/// Every deadline of a handshake is over by then: they are 10 s.
const DEADLINES_OVER: Duration = Duration::from_secs(14);
/// Of the good client, while all of the others are there.
const RTT_MS_P99_MOST: f64 = 250.0;
/// Resident memory of a server for each connection that is slow or half open.
const KIB_PER_HALF_OPEN_MOST: f64 = 64.0;
/// The same for each peer that never reads what it asked for: a turn's output, a reply, what has come meanwhile, with layers.
const KIB_PER_DEAF_MOST: f64 = 3_072.0;
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn run(trial: &mut Trial) -> anyhow::Result<()> {
    if let Err(reason) = descriptors::allow(4_000)? {
        trial.skip(reason);
        return Ok(());
    }
    for protocol in PROTOCOLS {
        let name = format!("{protocol:?}").to_lowercase();
        trial.say(&name);
        on(trial, protocol, &name).with_context(|| name.clone())?;
    }
    Ok(())
}

/// A server of one protocol, and all of its peers.
fn on(trial: &mut Trial, protocol: Protocol, name: &str) -> anyhow::Result<()> {
    let length = trial.length(LENGTH * 5) / 5;
    let (mut server, ready) = serve(trial, name)?;
    let end = Instant::now() + length;
    let load = load(&ready, name, length)?;
    let mut crowd = Crowd::new(&ready)?;
    storm(trial, &ready)?;
    let half_open = half_open(trial, &mut crowd, &ready, name)?;
    crowd.random(trial.count(500, 10))?;
    let mut refused = overdo(trial, &crowd, &ready, name)?;
    deaf(trial, &mut crowd, &ready, name)?;
    while Instant::now() < end {
        crowd.drip()?;
        thread::sleep(Duration::from_millis(250));
    }
    if length > DEADLINES_OVER {
        refused.push((words::too_slow(protocol), half_open as u64));
    }
    let connected = crowd.connected();
    drop(crowd);
    let report = ended(load)?;
    judge(trial, name, &report);
    let done = done(&mut server)?;
    count(trial, name, &done, &refused);
    trial.note(&format!("{name}_hostile"), connected);
    trial.require(done.left_open == 0, || {
        format!("{name}: {} connections were left", done.left_open)
    });
    Ok(())
}

/// Peers that connect and leave at once.
fn storm(trial: &Trial, ready: &Ready) -> anyhow::Result<()> {
    for _ in 0..trial.count(500, 20) {
        drop(client::connect(ready.address)?);
    }
    Ok(())
}

/// Peers that are slow and peers that stop in the middle; how many, and what they cost.
fn half_open(
    trial: &mut Trial,
    crowd: &mut Crowd,
    ready: &Ready,
    name: &str,
) -> anyhow::Result<usize> {
    let before = resident_bytes(ready)?;
    let (slow, half) = (trial.count(200, 5), trial.count(1_000, 20));
    crowd.slow(slow)?;
    crowd.half_open(half)?;
    // What has been sent is to have arrived: a good client is answered behind it.
    thread::sleep(trial.count(Duration::from_millis(500), Duration::from_millis(20)));
    crowd.drip()?;
    let kib = kib_each(before, resident_bytes(ready)?, slow + half);
    trial.note_rounded(&format!("{name}_kib_per_half_open"), kib);
    let full = trial.is_full();
    trial.require(!full || kib <= KIB_PER_HALF_OPEN_MOST, || {
        format!("{name}: a half-open connection takes {kib:.0} KiB")
    });
    Ok(slow + half)
}

/// Too much of everything: the server ends each connection. What each is to be counted as.
fn overdo(
    trial: &mut Trial,
    crowd: &Crowd,
    ready: &Ready,
    name: &str,
) -> anyhow::Result<Vec<(&'static str, u64)>> {
    let mut refused = Vec::new();
    for excess in words::excesses(ready.protocol) {
        let ended = crowd.overdo(&excess)?;
        trial.require(ended, || format!("{name}: {} was not refused", excess.what));
        refused.push((excess.fault, 1));
    }
    Ok(refused)
}

/// Peers that ask and never read.
fn deaf(trial: &mut Trial, crowd: &mut Crowd, ready: &Ready, name: &str) -> anyhow::Result<()> {
    let before = resident_bytes(ready)?;
    let count = trial.count(16, 2);
    crowd.deaf(count)?;
    let kib = kib_each(before, resident_bytes(ready)?, count);
    trial.note_rounded(&format!("{name}_kib_per_deaf"), kib);
    trial.require(kib <= KIB_PER_DEAF_MOST, || {
        format!("{name}: a peer that never reads takes {kib:.0} KiB")
    });
    Ok(())
}

/// The good client was served.
fn judge(trial: &mut Trial, name: &str, report: &LoadReport) {
    let p99 = report.rtt_service_ns.p99.unwrap_or_default() as f64 / 1e6;
    trial.note_rounded(&format!("{name}_rtt_ms_p99"), p99);
    trial.note_rounded(
        &format!("{name}_round_trips_per_s"),
        report.round_trips_per_s,
    );
    trial.require(report.ok, || {
        let why = report.first_failure.clone().unwrap_or_default();
        format!("{name}: the good client was not served: {why}")
    });
    trial.require_in_time(p99 <= RTT_MS_P99_MOST, || {
        format!("{name}: a good client waited {p99:.0} ms (p99)")
    });
}

/// Every refusal has its counter.
fn count(trial: &mut Trial, name: &str, done: &Done, refused: &[(&str, u64)]) {
    let mut wanted: BTreeMap<&str, u64> = BTreeMap::new();
    for (fault, count) in refused {
        *wanted.entry(fault).or_default() += count;
    }
    for (fault, least) in wanted {
        let of_it = done.faults.iter().filter(|(text, _)| text.contains(fault));
        let counted: u64 = of_it.map(|(_, count)| count).sum();
        trial.require(counted >= least, || {
            format!("{name}: {fault:?} was counted {counted} times, at least {least} are due")
        });
    }
    let all: u64 = done.faults.values().sum();
    trial.note(&format!("{name}_refused"), all);
    trial.note(&format!("{name}_kinds"), done.faults.len());
    trial.note_rounded(
        &format!("{name}_rss_peak_mib"),
        mib(done.rss_peak_bytes.unwrap_or_default()),
    );
    let faults = done.faults.iter();
    let ours = faults.filter(|(text, _)| text.starts_with("Us:") || text.starts_with("Host:"));
    let ours: Vec<_> = ours.map(|(text, _)| text.as_str()).collect();
    trial.require(ours.is_empty(), || {
        format!("{name}: the server blames itself: {ours:?}")
    });
}

fn resident_bytes(ready: &Ready) -> anyhow::Result<u64> {
    Ok(usage::memory(Some(ready.pid))?.resident_bytes)
}

fn kib_each(before: u64, after: u64, count: usize) -> f64 {
    after.saturating_sub(before) as f64 / 1024.0 / count as f64
}

fn serve(trial: &Trial, protocol: &str) -> anyhow::Result<(Child, Ready)> {
    let mut arguments = vec!["serve", "--protocol", protocol, "--shards", "2", "--driver"];
    arguments.push(trial.kind.name());
    let mut child = this_program("server", &[], &arguments, false)?;
    let ready = serde_json::from_str(&service::line(&mut child, PATIENCE)?)?;
    Ok((child, ready))
}

fn load(ready: &Ready, protocol: &str, length: Duration) -> anyhow::Result<Child> {
    let (address, window) = (
        ready.address.to_string(),
        format!("{}ms", length.as_millis()),
    );
    let words = "load --clients 4 --window 2 --payload 256 --warmup 50ms --drain-timeout 5s --json";
    let mut arguments: Vec<&str> = words.split(' ').collect();
    arguments.extend(["--protocol", protocol, "--duration", &window]);
    arguments.extend(["--connect", &address]);
    // In one word, as it begins like a flag.
    let ca = ready.ca_pem.as_ref().map(|pem| format!("--ca-pem={pem}"));
    arguments.extend(ca.as_deref());
    this_program("load", &[], &arguments, false)
}

/// The load's report.
fn ended(mut load: Child) -> anyhow::Result<LoadReport> {
    let last = last_line(&mut load)?;
    serde_json::from_str(&last).with_context(|| format!("the load's last line was {last:?}"))
}

/// The server's last line, after it was asked to end.
fn done(server: &mut Child) -> anyhow::Result<Done> {
    server.terminate();
    let last = last_line(server)?;
    serde_json::from_str(&last).with_context(|| format!("the server's last line was {last:?}"))
}

fn last_line(child: &mut Child) -> anyhow::Result<String> {
    let (deadline, mut last) = (Instant::now() + PATIENCE, String::new());
    while let Ok(Some(line)) = child.next_line(deadline, &mut || None) {
        last = line;
    }
    let ended = child.wait(deadline, &mut || None).is_ok();
    ensure!(ended, "a process did not end");
    ensure!(
        !last.is_empty(),
        "it said nothing: {}",
        child.stderr().join("; ")
    );
    Ok(last)
}
