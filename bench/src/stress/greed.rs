//! 9: one greedy connection or task does not starve the rest. Beside each kind of greed, a client pings and a timer ticks.

use super::{
    Engine, client,
    oracle::{
        seeded::Seeded,
        ticker::{Times, tick},
    },
    service,
    trial::Trial,
};
use shardloop::{Accept, Shard, launch, time};
use std::{
    cell::Cell,
    future::{Future, poll_fn},
    io::{Read, Write},
    net::SocketAddr,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

/// Of a ping's p99, and of the latest timer.
const BOUND_MS: f64 = 50.0;
/// Of the ticker.
const PERIOD: Duration = Duration::from_millis(10);
/// A poll longer than this is counted.
const STALL: Duration = Duration::from_millis(10);
/// Between pings. More often than once a second, so that a minute has a p99.
const PAUSE: Duration = Duration::from_millis(20);
/// Connections that flood.
const FLOODS: usize = 4;
const TIMERS: u64 = 100_000;

/// What is greedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Greed {
    /// Connections that send and read as fast as they can.
    Flood,
    /// Tasks that yield in a loop.
    Yields,
    /// Tasks that sleep for no time, or until a moment that has passed.
    ZeroSleeps,
    /// A task that another thread wakes during each of its polls.
    ForeignWakes,
    /// Timers of zero, of for ever, due at the same moment, dropped.
    Timers,
}

impl Greed {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Flood, "flood"),
        (Self::Yields, "yields"),
        (Self::ZeroSleeps, "zero_sleeps"),
        (Self::ForeignWakes, "foreign_wakes"),
        (Self::Timers, "timers"),
    ];
}

pub(crate) fn run<B: Engine>(trial: &mut Trial) -> anyhow::Result<()> {
    let length = trial.length(Duration::from_secs(60)) / 5;
    let timers = trial.count(TIMERS, TIMERS / 10);
    for (greed, name) in Greed::ALL {
        trial.say(name);
        beside::<B>(trial, greed, name, (length, timers))?;
    }
    Ok(())
}

fn beside<B: Engine>(
    trial: &mut Trial,
    greed: Greed,
    name: &str,
    (length, timers): (Duration, u64),
) -> anyhow::Result<()> {
    let (lateness, pings, stop) = (
        Times::new()?,
        Times::new()?,
        Arc::new(AtomicBool::new(false)),
    );
    let service = {
        let (lateness, stop) = (lateness.clone(), stop.clone());
        async move |shard: Shard<B>| {
            let ticker = shard.spawn(tick(PERIOD, lateness.clone()));
            let greedy = begin(&shard, greed, timers, stop.clone());
            service::echo(shard).await;
            ticker.cancel().await;
            for task in greedy {
                task.cancel().await;
            }
        }
    };
    let mut plan = service::plan(1, Accept::Handoff);
    // Tells a task that keeps the shard from a shard that was kept from its CPU, mostly.
    plan.engine.stall_after = Some(STALL);
    let running = launch::<B, _>(plan, service)?;
    let address = service::address(&running)?;
    let floods = if greed == Greed::Flood { FLOODS } else { 0 };
    let floods: Vec<_> = (0..floods)
        .map(|_| {
            let stop = stop.clone();
            thread::spawn(move || flood(address, &stop))
        })
        .collect();
    let stream = client::connect(address)?;
    let end = Instant::now() + length;
    while Instant::now() < end {
        pings.record(client::ping(&stream, b"ping")?);
        thread::sleep(PAUSE);
    }
    stop.store(true, Ordering::Relaxed);
    drop(stream);
    let mut flooded = 0;
    for flood in floods {
        flooded += flood.join().unwrap_or_else(|_| anyhow::bail!("a panic"))?;
    }
    let report = service::finish(trial, running, false);
    if greed == Greed::Flood {
        trial.note("flooded_mib", flooded >> 20);
    }
    if let Some(stalls) = report.shards[0].metrics.stalls {
        trial.note(&format!("{name}_long_polls"), stalls.count);
        let longest = stalls.longest.as_secs_f64() * 1e3;
        trial.note_rounded(&format!("{name}_longest_poll_ms"), longest);
    }
    judge(trial, name, &pings, &lateness);
    Ok(())
}

fn judge(trial: &mut Trial, name: &str, pings: &Times, lateness: &Times) {
    trial.note(&format!("{name}_pings"), pings.count());
    trial.note_rounded(&format!("{name}_ping_ms_p99"), pings.ms_at(0.99));
    trial.note_rounded(&format!("{name}_timer_ms_p99"), lateness.ms_at(0.99));
    trial.note_rounded(&format!("{name}_timer_ms_max"), lateness.ms_max());
    trial.require(pings.count() > 0 && lateness.count() > 0, || {
        format!("{name}: no ping or no tick came at all")
    });
    trial.require_in_time(pings.ms_at(0.99) < BOUND_MS, || {
        format!("{name}: p99 of pings {:.1} ms", pings.ms_at(0.99))
    });
    trial.require_in_time(lateness.ms_max() < BOUND_MS, || {
        format!("{name}: a timer was {:.1} ms late", lateness.ms_max())
    });
}

/// Starts the greedy tasks of a shard.
fn begin<B: Engine>(
    shard: &Shard<B>,
    greed: Greed,
    timers: u64,
    stop: Arc<AtomicBool>,
) -> Vec<shardloop::Task<()>> {
    match greed {
        Greed::Flood => Vec::new(),
        Greed::Yields => (0..4).map(|_| shard.spawn(yields())).collect(),
        Greed::ZeroSleeps => {
            let past = time::now();
            let zero = shard.spawn(async {
                loop {
                    time::sleep(Duration::ZERO).await;
                }
            });
            let before = shard.spawn(async move {
                loop {
                    time::sleep_until(past).await;
                }
            });
            vec![zero, before]
        }
        Greed::ForeignWakes => vec![shard.spawn(woken_all_the_time())],
        Greed::Timers => vec![shard.spawn(many_timers(timers, stop))],
    }
}

async fn yields() {
    loop {
        time::yield_now().await;
    }
}

/// Another thread wakes it during each of its polls, so that the shard never finds nothing left.
async fn woken_all_the_time() {
    let (polled, wakers) = std::sync::mpsc::channel::<(std::task::Waker, _)>();
    thread::spawn(move || {
        for (waker, done) in wakers {
            waker.wake();
            let done: std::sync::mpsc::Sender<()> = done;
            // The shard waits for this, unless it has ended.
            let _ = done.send(());
        }
    });
    poll_fn(|cx| {
        let (done, woken) = std::sync::mpsc::channel();
        if polled.send((cx.waker().clone(), done)).is_ok() {
            let _ = woken.recv();
        }
        Poll::<()>::Pending
    })
    .await;
}

/// A hundred thousand timers at once, again and again.
async fn many_timers(timers: u64, stop: Arc<AtomicBool>) {
    let mut seeded = Seeded::new(13);
    while !stop.load(Ordering::Relaxed) {
        let (mut kept, fired) = (Vec::new(), Rc::new(Cell::new(0_u64)));
        let mut due = 0;
        for number in 0..timers {
            let length = match seeded.below(10) {
                0 => Duration::ZERO,
                1 => Duration::MAX,
                2 => Duration::from_secs(100_000),
                // Half of the rest at the very same moment.
                3..6 => Duration::from_millis(200),
                _ => Duration::from_micros(seeded.below(200_000)),
            };
            let mut sleep = Box::pin(time::sleep(length));
            // Registered, then dropped at once, or with all others.
            if number % 4 == 0 || length > Duration::from_secs(1) {
                let registered = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await;
                if registered.is_pending() && number % 8 == 0 {
                    kept.push(sleep);
                }
            } else {
                due += 1;
                let fired = fired.clone();
                let fire = async move {
                    sleep.await;
                    fired.set(fired.get() + 1);
                };
                shardloop::spawn(fire).detach();
            }
            // Making them is work, too, and others want their turn.
            if number % 256 == 0 {
                time::yield_now().await;
            }
        }
        while fired.get() < due {
            time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Sends and reads without a pause; how many bytes came back.
fn flood(address: SocketAddr, stop: &AtomicBool) -> anyhow::Result<u64> {
    let (stream, mut came) = (client::connect(address)?, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            let piece = vec![b'f'; 64 << 10];
            while !stop.load(Ordering::Relaxed) && (&stream).write_all(&piece).is_ok() {}
            // The reader then comes to the end of the echo.
            let _ = stream.shutdown(std::net::Shutdown::Write);
        });
        let mut piece = vec![0; 64 << 10];
        loop {
            match (&stream).read(&mut piece)? {
                0 => return Ok(came),
                count => came += count as u64,
            }
        }
    })
}
