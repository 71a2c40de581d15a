//! 4: a server that runs out of descriptors waits for them, and serves meanwhile whom it has.

use super::{
    client,
    oracle::descriptors,
    service::{Count, Server},
    trial::{Trial, with_descriptors},
};
use shardloop_platform::usage::CpuClock;
use std::{
    io::Write,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

const LIMIT: &str = "64";
const CLIENTS: usize = 500;
const CLOSED: usize = 300;
/// Of those served, so many stay open while others are closed.
const STAY: usize = 20;
/// Of one CPU, while it has no descriptors.
const CPU_SHARE_MOST: f64 = 0.2;
/// Within which new connections must be accepted once descriptors are free.
const ACCEPTED_WITHIN: Duration = Duration::from_secs(1);
/// Lines on standard error that are no flood.
const LINES_MOST: usize = 10;

pub(crate) fn run(trial: &mut Trial) -> anyhow::Result<()> {
    if let Err(reason) = descriptors::allow(CLIENTS as u64 + 100)? {
        trial.skip(reason);
        return Ok(());
    }
    let mut server = Server::start(trial, &with_descriptors(LIMIT))?;
    let (mut served, mut waiting) = connect(&server)?;
    trial.note("served_with_64", served.len());
    trial.require(served.len() > STAY + 5 && served.len() < 64, || {
        format!("{} clients were served with 64 descriptors", served.len())
    });
    trial.say("holding");
    let held = hold(trial, &mut server, &served)?;
    trial.note_rounded("cpu_percent", held.cpu_share * 100.0);
    trial.note("accept_errors", held.errors);
    trial.note_rounded("accept_errors_per_s", held.errors_per_s);
    trial.require_in_time(held.cpu_share < CPU_SHARE_MOST, || {
        format!(
            "the shard used {:.0} % of a CPU without descriptors",
            held.cpu_share * 100.0
        )
    });
    trial.require(held.errors_per_s < 100.0, || {
        format!(
            "{:.0} errors per second: that is no back-off",
            held.errors_per_s
        )
    });
    trial.say("closing 300");
    let freed = served.len().saturating_sub(STAY);
    served.truncate(STAY);
    let gone = (CLOSED - freed).min(waiting.len());
    drop(waiting.drain(..gone));
    reopen(trial, &waiting, freed);
    for stream in &served {
        client::ping(stream, b"open connections still echo")?;
    }
    let count = server.count()?;
    trial.note("accepted", count.accepted);
    drop((served, waiting));
    let lines = server.end();
    trial.note("stderr_lines", lines);
    trial.require(lines <= LINES_MOST, || {
        format!("{lines} lines on standard error: that floods a log")
    });
    Ok(())
}

/// All clients: those that were served, and those that wait in the backlog.
fn connect(server: &Server) -> anyhow::Result<(Vec<TcpStream>, Vec<TcpStream>)> {
    let (mut served, mut waiting) = (Vec::new(), Vec::new());
    for _ in 0..CLIENTS {
        let stream = client::connect(server.address)?;
        (&stream).write_all(b"?")?;
        // Once one is not served the rest will not be either: do not wait for each.
        let soon = Instant::now() + Duration::from_millis(500);
        if waiting.is_empty() && client::answered_by(&stream, soon) {
            stream.set_read_timeout(Some(client::PATIENCE))?;
            served.push(stream);
        } else {
            waiting.push(stream);
        }
    }
    Ok((served, waiting))
}

/// What the server did while it had no descriptors.
struct Held {
    cpu_share: f64,
    errors: u64,
    errors_per_s: f64,
}

/// Looks on for ten seconds; whoever is connected is served meanwhile.
fn hold(trial: &Trial, server: &mut Server, served: &[TcpStream]) -> anyhow::Result<Held> {
    const LOOKS: u32 = 10;
    let pause = trial.length(Duration::from_secs(10)) / LOOKS;
    let clock = CpuClock::of_process(server.pid())?;
    let before: Count = server.count()?;
    let (begun, used) = (Instant::now(), clock.read()?);
    for _ in 0..LOOKS {
        for stream in served {
            client::ping(stream, b"open connections still echo")?;
        }
        thread::sleep(pause);
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let used = clock.read()?.saturating_sub(used).as_secs_f64();
    let errors = server.count()?.accept_errors;
    Ok(Held {
        cpu_share: used / elapsed,
        errors,
        errors_per_s: errors.saturating_sub(before.accept_errors) as f64 / elapsed,
    })
}

/// The connections for which there is room now are accepted, within a second.
fn reopen(trial: &mut Trial, waiting: &[TcpStream], freed: usize) {
    let begun = Instant::now();
    let patience = begun + Duration::from_secs(20);
    // The server may still be closing one or two.
    let wanted = freed.saturating_sub(2).min(waiting.len());
    let answered = waiting[..wanted].iter();
    let answered = answered.take_while(|stream| client::answered_by(stream, patience));
    let (answered, took) = (answered.count(), begun.elapsed());
    trial.note("accepted_again", answered);
    trial.note_rounded("accepted_again_ms", took.as_secs_f64() * 1e3);
    trial.require(answered == wanted, || {
        format!("{freed} descriptors were freed, and {answered} of {wanted} clients accepted")
    });
    trial.require_in_time(took <= ACCEPTED_WITHIN, || {
        format!("accepting again took {took:?}, at most {ACCEPTED_WITHIN:?} is allowed")
    });
}
