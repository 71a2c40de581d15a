//! 2: a wake from another thread is never lost, at whatever moment of parking it comes, nor is the close of a channel.
//!
//! The state word behind it is also model-checked (`runtime/tests/it/wake_model.rs`).

use super::{
    Engine,
    oracle::{progress::Progress, seeded::Seeded, ticker::Times},
    service,
    trial::Trial,
};
use shardloop::{Plan, Shard, launch};
use std::{
    future::{Future, poll_fn},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Poll, Waker},
    thread,
    time::{Duration, Instant},
};

/// Within which everything must be seen.
const BOUND: Duration = Duration::from_secs(1);
/// Rounds over all numbers of threads.
const ROUNDS: u64 = 10_000_000;
/// Channels.
const CHANNELS: u64 = 500_000;
/// Turns that two shards take.
const TURNS: u64 = 200_000;

/// A counter that a task waits for and other threads raise.
#[derive(Default)]
pub(crate) struct Bell {
    rung: AtomicU64,
    /// How often a task began to wait.
    awaited: AtomicU64,
    waiting: Mutex<Option<Waker>>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        self.rung.fetch_add(1, Ordering::Release);
        let waker = self.waiting().take();
        // Whoever takes it and does not wake leaves a task that nobody wakes: a lost wake shows as a task that hangs.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits until it has rung `count` times; how often it has.
    pub(crate) fn rung(&self, count: u64) -> impl Future<Output = u64> {
        poll_fn(move |cx| {
            *self.waiting() = Some(cx.waker().clone());
            let rung = self.rung.load(Ordering::Acquire);
            if rung >= count {
                return Poll::Ready(rung);
            }
            self.awaited.fetch_add(1, Ordering::Release);
            Poll::Pending
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What ends the threads of a phase early, and counts what it saw.
#[derive(Clone, Default)]
struct Phase {
    progress: Progress,
    stop: Arc<AtomicBool>,
}

impl Phase {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

pub(crate) fn run<B: Engine>(trial: &mut Trial) -> anyhow::Result<()> {
    let mut wakes = 0;
    for (threads, share) in [(2, 0.2), (4, 0.4), (8, 0.6)] {
        wakes += bells::<B>(trial, threads, share)?;
    }
    trial.note("foreign_wakes", wakes);
    channels::<B>(trial)?;
    turns::<B>(trial)
}

/// Several threads ring whenever the task begins to wait, at a random moment about when its shard parks. A round is a wait that ended.
fn bells<B: Engine>(trial: &mut Trial, threads: u64, share: f64) -> anyhow::Result<u64> {
    let (bell, phase) = (Arc::new(Bell::default()), Phase::default());
    let (rounds, latest) = (trial.count(ROUNDS / 3, u64::MAX), Times::new()?);
    let clock = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let ringers: Vec<_> = (0..threads)
        .map(|number| {
            let (bell, phase, clock) = (bell.clone(), phase.clone(), clock.clone());
            thread::spawn(move || ringer(number, &bell, &phase, &clock))
        })
        .collect();
    let service = {
        let (phase, latest, bell) = (phase.clone(), latest.clone(), bell.clone());
        async move |_: Shard<B>| {
            let mut seen = 0;
            for _ in 0..rounds {
                seen = bell.rung(seen + 1).await;
                // The last ring may be one that came after the wake: then this is too short, and the longest wait tells.
                let rung = Duration::from_nanos(clock.1.load(Ordering::Relaxed));
                latest.record(clock.0.elapsed().saturating_sub(rung));
                phase.progress.note();
                if phase.is_stopped() {
                    break;
                }
            }
            phase.stop.store(true, Ordering::Release);
            phase.progress.finish();
        }
    };
    let running = launch::<B, _>(Plan::new(1), service)?;
    let lost = watch(trial, &phase, share, &format!("{threads} threads"));
    let report = service::finish(trial, running, lost);
    for ringer in ringers {
        let _ = ringer.join();
    }
    let metrics = report.shards[0].metrics;
    trial.note(&format!("rounds_{threads}_threads"), phase.progress.seen());
    trial.note(
        &format!("rings_{threads}_threads"),
        bell.rung.load(Ordering::Relaxed),
    );
    trial.note(&format!("parks_{threads}_threads"), metrics.parks);
    trial.note_rounded(&format!("latest_{threads}_threads_ms"), latest.ms_max());
    trial.require(metrics.foreign_wakes > 0 && metrics.parks > 0, || {
        "the shard never parked, or no wake came from another thread".to_owned()
    });
    Ok(metrics.foreign_wakes)
}

/// Rings once for every wait, for as long as the phase lasts, and once more, so that the last wait ends.
fn ringer(number: u64, bell: &Bell, phase: &Phase, clock: &(Instant, Arc<AtomicU64>)) {
    let (mut seeded, mut awaited) = (Seeded::new(number), 0);
    while !phase.is_stopped() {
        let now = bell.awaited.load(Ordering::Acquire);
        if now == awaited {
            thread::yield_now();
            continue;
        }
        awaited = now;
        for _ in 0..seeded.below(200) {
            std::hint::spin_loop();
        }
        let at = u64::try_from(clock.0.elapsed().as_nanos()).unwrap_or(u64::MAX);
        clock.1.store(at, Ordering::Relaxed);
        bell.ring();
    }
    bell.ring();
}

/// Watches a phase to its end, or until its share of a shortened run is over. True if something was lost.
fn watch(trial: &mut Trial, phase: &Phase, share: f64, what: &str) -> bool {
    let stop = {
        let (stop, over) = (phase.stop.clone(), trial.ends_at(share));
        thread::spawn(move || {
            while !stop.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(5));
                if over.is_some_and(|over| Instant::now() >= over) {
                    stop.store(true, Ordering::Release);
                }
            }
        })
    };
    // Ten times the bound: then it is not late but lost.
    let (longest, finished) = phase.progress.watch(BOUND * 10, |seen| {
        super::trial::say(&format!("{what}: {seen} rounds"));
    });
    phase.stop.store(true, Ordering::Release);
    let _ = stop.join();
    trial.require(finished, || {
        format!(
            "{what}: a wake was lost after {} rounds",
            phase.progress.seen()
        )
    });
    let name = format!("longest_wait_{}_ms", what.replace(' ', "_"));
    trial.note_rounded(&name, longest.as_secs_f64() * 1e3);
    trial.require_in_time(longest <= BOUND, || {
        format!("{what}: nothing was seen for {longest:?}, at most {BOUND:?} is allowed")
    });
    !finished
}

/// A cell that another thread fills or closes while the shard sleeps.
#[derive(Default)]
struct Cell {
    value: Option<u64>,
    closed: bool,
    waiting: Option<Waker>,
}

fn close(cell: &Mutex<Cell>, value: Option<u64>) {
    let mut inside = cell.lock().unwrap_or_else(PoisonError::into_inner);
    (inside.value, inside.closed) = (value, true);
    let waker = inside.waiting.take();
    drop(inside);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// A channel per round, of which half are closed without a word.
fn channels<B: Engine>(trial: &mut Trial) -> anyhow::Result<()> {
    let (phase, rounds) = (Phase::default(), trial.count(CHANNELS, u64::MAX));
    let (jobs, work) = std::sync::mpsc::channel::<(u64, Arc<Mutex<Cell>>)>();
    let closer = thread::spawn(move || {
        let mut seeded = Seeded::new(12);
        for (number, cell) in work {
            for _ in 0..seeded.below(2_000) {
                std::hint::spin_loop();
            }
            close(&cell, (number % 2 == 1).then_some(number));
        }
    });
    let service = {
        let phase = phase.clone();
        async move |_: Shard<B>| {
            let mut wrong = 0_u64;
            for number in 0..rounds {
                let cell = Arc::new(Mutex::new(Cell::default()));
                if phase.is_stopped() || jobs.send((number, cell.clone())).is_err() {
                    break;
                }
                let value = poll_fn(|cx| {
                    let mut inside = cell.lock().unwrap_or_else(PoisonError::into_inner);
                    inside.waiting = Some(cx.waker().clone());
                    if inside.closed {
                        Poll::Ready(inside.value)
                    } else {
                        Poll::Pending
                    }
                })
                .await;
                wrong += u64::from(value != (number % 2 == 1).then_some(number));
                phase.progress.note();
            }
            phase.progress.finish();
            wrong
        }
    };
    let running = launch::<B, _>(Plan::new(1), service)?;
    let lost = watch(trial, &phase, 0.8, "channels");
    let report = service::finish(trial, running, lost);
    let _ = closer.join();
    trial.note("channels", phase.progress.seen());
    let wrong = report.shards[0].result.as_ref().map_or(0, |wrong| *wrong);
    trial.require(wrong == 0, || {
        format!("{wrong} channels gave the wrong value")
    });
    Ok(())
}

/// Two shards that take turns: each sleeps until the other wakes it.
fn turns<B: Engine>(trial: &mut Trial) -> anyhow::Result<()> {
    let (phase, rounds) = (Phase::default(), trial.count(TURNS, u64::MAX));
    let bells = Arc::new([Bell::default(), Bell::default()]);
    let service = {
        let phase = phase.clone();
        async move |shard: Shard<B>| {
            let (mine, other) = (&bells[shard.index()], &bells[1 - shard.index()]);
            for round in 1..=rounds {
                if shard.index() == 0 {
                    other.ring();
                    mine.rung(round).await;
                    phase.progress.note();
                } else {
                    mine.rung(round).await;
                    other.ring();
                }
                if phase.is_stopped() {
                    break;
                }
            }
            // The other may wait for one more turn than was taken.
            other.rung.store(u64::MAX / 2, Ordering::Release);
            other.ring();
            phase.progress.finish();
        }
    };
    let running = launch::<B, _>(Plan::new(2), service)?;
    let lost = watch(trial, &phase, 1.0, "shards");
    service::finish(trial, running, lost);
    trial.note("shard_turns", phase.progress.seen());
    Ok(())
}
