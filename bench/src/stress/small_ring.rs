//! 11: more completions at one moment than a ring has room for. The server is stopped, all clients send, and it goes on.

use super::{
    client,
    oracle::descriptors,
    service::Server,
    trial::{Trial, with_descriptors},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use shardloop_platform::usage::CpuClock;
use std::{
    io::Write,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

const CONNECTIONS: usize = 5_000;
const ROUNDS: u32 = 20;
/// Of one CPU, once everything is answered: more would be a spin without progress.
const IDLE_SHARE_MOST: f64 = 0.1;
/// Within which all must be answered.
const ROUND_LONGEST: Duration = Duration::from_secs(5);

pub(crate) fn run(trial: &mut Trial) -> anyhow::Result<()> {
    let connections = trial.count(CONNECTIONS, 600);
    if let Err(reason) = descriptors::allow(connections as u64 + 200)? {
        trial.skip(reason);
        return Ok(());
    }
    let limit = (connections + 200).to_string();
    let mut server = Server::start(trial, &with_descriptors(&limit))?;
    let mut streams = Vec::with_capacity(connections);
    for _ in 0..connections {
        let stream = client::connect(server.address)?;
        client::ping(&stream, b"?")?;
        streams.push(stream);
    }
    let (mut rounds, mut longest) = (0_u32, Duration::ZERO);
    let clock = CpuClock::of_process(server.pid())?;
    let used = clock.read()?;
    while rounds < ROUNDS && (rounds == 0 || !trial.is_over(0.7)) {
        let number = rounds.to_le_bytes()[0];
        let (stuck, took) = all_at_once(&server, &streams, number)?;
        trial.require(stuck == 0, || {
            format!("round {rounds}: {stuck} of {connections} connections are stuck")
        });
        if stuck > 0 {
            break;
        }
        longest = longest.max(took);
        rounds += 1;
        trial.say(&format!("round {rounds}"));
    }
    let busy = clock.read()?.saturating_sub(used);
    let idle = idle_share(trial, &clock)?;
    let count = server.count()?;
    trial.note("connections", connections);
    trial.note("rounds", rounds);
    trial.note_rounded("round_ms_max", longest.as_secs_f64() * 1e3);
    let each = busy.as_secs_f64() * 1e6 / (f64::from(rounds.max(1)) * connections as f64);
    trial.note_rounded("cpu_us_per_message", each);
    trial.note_rounded("idle_cpu_percent", idle * 100.0);
    trial.note("open", count.open);
    trial.note("turns", count.turns);
    trial.note("kernel_entries", count.kernel_entries);
    trial.note("overflows", "not told by the engine");
    trial.require(count.open == connections as u64, || {
        format!("{} of {connections} connections are open", count.open)
    });
    trial.require_in_time(longest <= ROUND_LONGEST, || {
        format!("a round took {longest:?}, at most {ROUND_LONGEST:?} is allowed")
    });
    trial.require_in_time(idle < IDLE_SHARE_MOST, || {
        format!("the idle shard used {:.0} % of a CPU", idle * 100.0)
    });
    Ok(())
}

/// All connections have something at the same moment; how many were not answered, and how long the rest took.
fn all_at_once(
    server: &Server,
    streams: &[TcpStream],
    number: u8,
) -> anyhow::Result<(usize, Duration)> {
    let pid = Pid::from_raw(i32::try_from(server.pid())?);
    kill(pid, Signal::SIGSTOP)?;
    let sent = streams
        .iter()
        .try_for_each(|mut stream| stream.write_all(&[number]));
    // It must go on, whatever became of the sending.
    kill(pid, Signal::SIGCONT)?;
    sent?;
    let (begun, patience) = (Instant::now(), Instant::now() + client::PATIENCE);
    let stuck = streams
        .iter()
        .filter(|stream| !client::answered_by(stream, patience));
    Ok((stuck.count(), begun.elapsed()))
}

/// CPU time of the server while nobody wants anything.
fn idle_share(trial: &Trial, clock: &CpuClock) -> anyhow::Result<f64> {
    let pause = trial
        .length(Duration::from_secs(2))
        .min(Duration::from_secs(2));
    let (begun, used) = (Instant::now(), clock.read()?);
    thread::sleep(pause);
    let used = clock.read()?.saturating_sub(used);
    Ok(used.as_secs_f64() / begun.elapsed().as_secs_f64())
}
