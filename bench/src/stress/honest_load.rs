//! 12: the load generator does not lie. It is set on servers that stall, die, refuse, or answer wrong, and must say so.

use super::{
    client,
    service::line,
    trial::{Trial, this_program},
};
use crate::{
    child::Child,
    contract::{Counters, LoadReport, Ready},
};
use anyhow::{Context, ensure};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

/// For one run of the load.
const PATIENCE: Duration = Duration::from_secs(30);
/// The message that a faulty server gets wrong.
const AT: u64 = 100;
/// Of the length in front of a payload.
const HEADER_BYTES: usize = 4;

/// How a fake server errs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A byte of the payload is another.
    Wrong,
    /// The payload is shorter than that of the request, and says so.
    Short,
    /// The payload is longer.
    Long,
    /// The answer comes twice.
    Extra,
    /// It closes within an answer.
    Cut,
    /// It never answers again.
    Silent,
}

/// The counter that must tell a fault.
type Counter = fn(&Counters) -> u64;

impl Fault {
    const ALL: [(Self, &'static str, Counter); 6] = [
        (Self::Wrong, "wrong", |c| c.content_errors),
        (Self::Short, "short", |c| c.length_errors),
        (Self::Long, "long", |c| c.length_errors),
        (Self::Extra, "extra", |c| c.unexpected + c.order_errors),
        (Self::Cut, "cut", |c| c.disconnects),
        (Self::Silent, "silent", |c| c.unfinished),
    ];
}

pub(crate) fn run(trial: &mut Trial) -> anyhow::Result<()> {
    stalled(trial)?;
    killed(trial)?;
    refused(trial)?;
    for (fault, name, counter) in Fault::ALL {
        let listener = TcpListener::bind(client::anywhere())?;
        let address = listener.local_addr()?;
        let server = thread::spawn(move || fake(&listener, fault));
        let window = if fault == Fault::Silent {
            "300ms"
        } else {
            "2s"
        };
        let load = load(trial, address, window)?;
        let ended = end(load)?;
        expect(trial, name, &ended, counter);
        // It has ended with its one client; how does not matter.
        let _ = server.join();
    }
    Ok(())
}

/// How a load ended.
struct Ended {
    code: Option<i32>,
    report: LoadReport,
}

/// The load must fail, count this fault, and name it.
fn expect(trial: &mut Trial, name: &str, ended: &Ended, counter: Counter) {
    let (report, count) = (&ended.report, counter(&ended.report.counters));
    let words = report.first_failure.clone().unwrap_or_default();
    trial.note(&format!("{name}_exit"), ended.code);
    trial.note(&format!("{name}_words"), words.clone());
    trial.require(ended.code == Some(1) && !report.ok, || {
        format!(
            "{name}: the load ended with {:?} and ok {}",
            ended.code, report.ok
        )
    });
    trial.require(count > 0 && !words.is_empty(), || {
        format!(
            "{name}: the fault was not counted or named: {:?} {words:?}",
            report.counters
        )
    });
}

/// A server that stands still for a second: the tail shows it, and nothing failed.
fn stalled(trial: &mut Trial) -> anyhow::Result<()> {
    trial.say("a stalled server");
    let stall = trial.count(Duration::from_secs(1), Duration::from_millis(300));
    let (server, ready) = serve(trial)?;
    let mut load = load(trial, ready.address, trial.count("4s", "700ms"))?;
    begun(&mut load)?;
    thread::sleep(trial.count(Duration::from_secs(1), Duration::from_millis(100)));
    let pid = Pid::from_raw(i32::try_from(ready.pid)?);
    kill(pid, Signal::SIGSTOP)?;
    thread::sleep(stall);
    kill(pid, Signal::SIGCONT)?;
    let ended = end(load)?;
    drop(server);
    let max_ms = ended.report.rtt_service_ns.max.unwrap_or_default() as f64 / 1e6;
    let p50 = ended.report.rtt_service_ns.p50.unwrap_or_default() as f64 / 1e6;
    trial.note("stall_exit", ended.code);
    trial.note_rounded("stall_rtt_ms_p50", p50);
    trial.note_rounded("stall_rtt_ms_max", max_ms);
    // A request may have left a moment after the stop.
    let least = stall.as_secs_f64() * 1e3 * 0.9;
    trial.require(max_ms >= least, || {
        format!("a stall of {stall:?} left a largest round trip of {max_ms:.0} ms")
    });
    let failure = ended.report.first_failure;
    trial.require(ended.code == Some(0), || {
        format!("a stalled server is no fault: {:?} {failure:?}", ended.code)
    });
    Ok(())
}

/// A server that dies in the midst of a run.
fn killed(trial: &mut Trial) -> anyhow::Result<()> {
    trial.say("a killed server");
    let (server, ready) = serve(trial)?;
    let mut load = load(trial, ready.address, "2s")?;
    begun(&mut load)?;
    thread::sleep(Duration::from_millis(200));
    kill(Pid::from_raw(i32::try_from(ready.pid)?), Signal::SIGKILL)?;
    let ended = end(load)?;
    drop(server);
    expect(trial, "killed", &ended, |c| c.disconnects);
    Ok(())
}

/// Nobody listens.
fn refused(trial: &mut Trial) -> anyhow::Result<()> {
    trial.say("a server that refuses connections");
    let address = TcpListener::bind(client::anywhere())?.local_addr()?;
    let ended = end(load(trial, address, "1s")?)?;
    expect(trial, "refused", &ended, |c| c.connect_errors);
    Ok(())
}

fn serve(trial: &Trial) -> anyhow::Result<(Child, Ready)> {
    let mut arguments = vec!["serve", "--protocol", "tcp", "--shards", "1", "--driver"];
    arguments.push(trial.kind.name());
    let mut child = this_program("server", &[], &arguments, false)?;
    let ready = serde_json::from_str(&line(&mut child, PATIENCE)?)?;
    Ok((child, ready))
}

fn load(trial: &Trial, address: SocketAddr, window: &str) -> anyhow::Result<Child> {
    let address = address.to_string();
    let words = "load --protocol tcp --window 4 --payload 256 --warmup 50ms --drain-timeout";
    let mut arguments: Vec<&str> = words.split(' ').collect();
    arguments.push(trial.count("2s", "500ms"));
    arguments.extend(["--connect-timeout", "3s", "--announce", "--json"]);
    arguments.extend(["--duration", window, "--connect", &address]);
    this_program("load", &[], &arguments, false)
}

/// Waits for the measured window.
fn begun(load: &mut Child) -> anyhow::Result<()> {
    let first = line(load, PATIENCE)?;
    ensure!(first.contains("begin"), "the load said {first} first");
    Ok(())
}

/// Its last line, and how it ended.
fn end(mut load: Child) -> anyhow::Result<Ended> {
    let (deadline, mut last) = (Instant::now() + PATIENCE, String::new());
    while let Ok(Some(line)) = load.next_line(deadline, &mut || None) {
        last = line;
    }
    let status = load.wait(deadline, &mut || None);
    let report = serde_json::from_str(&last);
    let report = report.with_context(|| format!("the load's last line was {last:?}"))?;
    Ok(Ended {
        code: status.ok().and_then(|status| status.code()),
        report,
    })
}

/// A server of one client that echoes frames, until it errs once.
fn fake(listener: &TcpListener, fault: Fault) -> anyhow::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    for number in 1.. {
        let mut frame = vec![0; HEADER_BYTES];
        stream.read_exact(&mut frame)?;
        let length = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]);
        frame.resize(HEADER_BYTES + usize::try_from(length)?, 0);
        stream.read_exact(&mut frame[HEADER_BYTES..])?;
        if number == AT && !err(&mut stream, &mut frame, fault)? {
            return Ok(());
        }
        stream.write_all(&frame)?;
    }
    Ok(())
}

/// Makes a frame wrong. False if nothing more is to be sent.
fn err(stream: &mut TcpStream, frame: &mut Vec<u8>, fault: Fault) -> anyhow::Result<bool> {
    let length = frame.len() - HEADER_BYTES;
    let announce = |frame: &mut Vec<u8>, length: usize| -> anyhow::Result<()> {
        frame.resize(HEADER_BYTES + length, 0);
        frame[..HEADER_BYTES].copy_from_slice(&u32::try_from(length)?.to_be_bytes());
        Ok(())
    };
    match fault {
        Fault::Wrong => frame[HEADER_BYTES + length - 1] ^= 1,
        Fault::Short => announce(frame, length - 7)?,
        Fault::Long => announce(frame, length + 7)?,
        Fault::Extra => stream.write_all(frame)?,
        Fault::Cut => {
            stream.write_all(&frame[..HEADER_BYTES + length / 2])?;
            stream.shutdown(Shutdown::Both)?;
            return Ok(false);
        }
        Fault::Silent => {
            // Takes what comes, until the load gives up.
            let mut sink = [0; 4096];
            while stream.read(&mut sink).is_ok_and(|count| count > 0) {}
            return Ok(false);
        }
    }
    Ok(true)
}
