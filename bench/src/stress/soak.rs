//! Everything at once and for long: echoes of mixed sizes, connects and disconnects, receives that are given up, half-closes, tasks that
//! panic, shards that wake each other. Memory and descriptors must stay flat.
//!
//! Flat is defined in [`resident`]: the first tenth of the samples is the warm-up, and its median the base. No later sample may exceed
//! the base by more than 10 % and 8 MiB (descriptors: by more than four per client), and the line of least squares through the later
//! samples may not rise by more than 4 MiB (descriptors: two) over their whole time.

use super::{
    Engine, client,
    foreign_wakes::Bell,
    oracle::{
        descriptors,
        resident::{self, Flat},
        seeded::{Seeded, Verifier},
        ticker::{Times, tick},
    },
    service,
    trial::Trial,
};
use anyhow::ensure;
use shardloop::{Accept, RecvHalf, SendHalf, Shard, launch, race, stopping, time};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const SHARDS: usize = 2;
const CLIENTS: u64 = 6;
/// Between two samples at full length.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// Samples of a shortened run.
const SAMPLES_FEWEST: u32 = 40;
/// Largest message.
const LARGEST: usize = 256 << 10;
/// What a task that panics on purpose says.
const EXPECTED: &str = "a panic that is part of the scenario";
/// First byte of a connection: what its server does.
const PLAIN: u8 = 0;
const IMPATIENT: u8 = 1;
const PANICS: u8 = 2;

const RSS_MIB: Flat = Flat {
    share: 0.1,
    extra: 8.0,
    rise: 4.0,
};
const DESCRIPTORS: Flat = Flat {
    share: 0.0,
    extra: 4.0 * CLIENTS as f64,
    rise: 2.0,
};

#[derive(Default)]
struct Counted {
    connections: AtomicU64,
    bytes: AtomicU64,
    given_up: AtomicU64,
    crossings: AtomicU64,
}

pub(crate) fn run<B: Engine>(trial: &mut Trial) -> anyhow::Result<()> {
    std::panic::set_hook(Box::new(|panic| {
        if !panic.to_string().contains(EXPECTED) {
            eprintln!("{panic}");
        }
    }));
    let (counted, lateness) = (Arc::new(Counted::default()), Times::new()?);
    let before = descriptors::count()?;
    let bells: Arc<[Bell; SHARDS]> = Arc::default();
    let service = {
        let (counted, lateness) = (counted.clone(), lateness.clone());
        async move |shard: Shard<B>| {
            serve(shard, counted.clone(), lateness.clone(), bells.clone()).await;
        }
    };
    let running = launch::<B, _>(service::plan(SHARDS, Accept::Handoff), service)?;
    let address = service::address(&running)?;
    let length = trial.length(Duration::from_secs(1_200));
    let end = Instant::now() + length;
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let counted = counted.clone();
            thread::spawn(move || load(address, number, end, &counted))
        })
        .collect();
    let (rss, open) = sample(trial, end, length)?;
    for client in clients {
        let ended = client.join().unwrap_or_else(|_| anyhow::bail!("a panic"));
        if let Err(error) = ended {
            trial.require(false, || format!("a client: {error:#}"));
        }
    }
    finish(trial, running);
    let told = [
        ("connections", &counted.connections),
        ("given_up", &counted.given_up),
        ("crossings", &counted.crossings),
    ];
    for (name, count) in told {
        trial.note(name, count.load(Ordering::Relaxed));
    }
    trial.note("echoed_mib", counted.bytes.load(Ordering::Relaxed) >> 20);
    trial.note_rounded("timer_ms_p99", lateness.ms_at(0.99));
    trial.note_rounded("timer_ms_max", lateness.ms_max());
    flat(trial, "rss_mib", &rss, &RSS_MIB);
    flat(trial, "descriptors", &open, &DESCRIPTORS);
    let expected = before + SHARDS * B::LEAKED_DESCRIPTORS;
    let after = descriptors::settled(expected, Duration::from_secs(5))?;
    trial.note("descriptors_before", before);
    trial.note("descriptors_after", after);
    trial.require(after == expected, || {
        format!("{before} descriptors became {after}, not {expected}")
    });
    Ok(())
}

/// Ends the plan. Panics are part of it, but no others.
fn finish<T>(trial: &mut Trial, running: shardloop::Running<T>) {
    running.stopper().drain();
    let report = running.wait();
    service::require_clean(trial, &report);
    let panics: u64 = report.shards.iter().map(|shard| shard.metrics.panics).sum();
    trial.note("task_panics", panics);
    let foreign = report
        .first_panic()
        .filter(|panic| !panic.contains(EXPECTED));
    trial.require(foreign.is_none(), || {
        format!("a task panicked: {foreign:?}")
    });
}

/// Memory in MiB and descriptors, at equal intervals.
fn sample(trial: &Trial, end: Instant, length: Duration) -> anyhow::Result<(Vec<f64>, Vec<f64>)> {
    let every = SAMPLE_EVERY.min(length / SAMPLES_FEWEST);
    let (mut rss, mut open) = (Vec::new(), Vec::new());
    while Instant::now() < end {
        thread::sleep(every);
        rss.push(resident::mib(resident::bytes()?));
        open.push(descriptors::count()? as f64);
        if rss.len() % 10 == 0 {
            trial.say(&format!("{} samples", rss.len()));
        }
    }
    Ok((rss, open))
}

fn flat(trial: &mut Trial, name: &str, samples: &[f64], bounds: &Flat) {
    let Some(trend) = resident::trend(samples) else {
        trial.note(name, format!("{} samples say nothing", samples.len()));
        return;
    };
    trial.note(&format!("{name}_samples"), samples.len());
    trial.note_rounded(&format!("{name}_base"), trend.base);
    trial.note_rounded(&format!("{name}_max"), trend.max);
    trial.note_rounded(&format!("{name}_rise"), trend.rise);
    // Within a few seconds the allocator has not got what it keeps, and each client counts for much.
    if trial.length(Duration::MAX) < Duration::from_secs(30) {
        trial.note(&format!("{name}_flat"), "not judged in less than 30 s");
        return;
    }
    if let Some(breach) = trend.breach(bounds) {
        trial.require(false, || format!("{name} {breach}"));
    }
}

async fn serve<B: Engine>(
    shard: Shard<B>,
    counted: Arc<Counted>,
    lateness: Times,
    bells: Arc<[Bell; SHARDS]>,
) {
    let ticker = shard.spawn(tick(Duration::from_millis(10), lateness));
    let (mine, turns) = (shard.index(), counted.clone());
    let crossing = shard.spawn(async move {
        race(cross(mine, &bells, &turns.crossings), stopping()).await;
    });
    let mut incoming = shard.incoming(0);
    while let Some((stream, _)) = incoming.next().await {
        shard.spawn(answer(stream, counted.clone())).detach();
    }
    ticker.cancel().await;
    crossing.cancel().await;
}

/// Two shards take turns to wake each other, with a pause.
async fn cross(mine: usize, bells: &[Bell; SHARDS], crossings: &AtomicU64) {
    for round in 1.. {
        if mine == 0 {
            time::sleep(Duration::from_millis(2)).await;
            bells[1].ring();
            bells[0].rung(round).await;
            crossings.fetch_add(1, Ordering::Relaxed);
        } else {
            bells[1].rung(round).await;
            bells[0].ring();
        }
    }
}

/// Echoes to the end, as the first byte says: patiently, giving receives up, or by a task that panics.
async fn answer(mut stream: impl RecvHalf + SendHalf + 'static, counted: Arc<Counted>) {
    let mut manner = None;
    loop {
        let received = if manner == Some(IMPATIENT) {
            match time::timeout(Duration::from_millis(1), stream.recv()).await {
                Ok(received) => received,
                Err(time::Elapsed) => {
                    counted.given_up.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
            }
        } else {
            stream.recv().await
        };
        let Ok(lease) = received else {
            return;
        };
        if lease.is_empty() {
            return;
        }
        if *manner.get_or_insert(lease[0]) == PANICS {
            panic!("{EXPECTED}");
        }
        counted
            .bytes
            .fetch_add(lease.len() as u64, Ordering::Relaxed);
        if stream.send_all(lease).await.0.is_err() {
            return;
        }
    }
}

/// One client: a connection after the other, each of another kind, until the time is over.
fn load(address: SocketAddr, number: u64, end: Instant, counted: &Counted) -> anyhow::Result<()> {
    let mut seeded = Seeded::new(number);
    while Instant::now() < end {
        counted.connections.fetch_add(1, Ordering::Relaxed);
        match seeded.below(8) {
            0 => panicked(address)?,
            // Leaves without a word, in the midst of an echo.
            1 => drop(begin(address, PLAIN, &mut seeded)?),
            2..5 => echoed(address, IMPATIENT, &mut seeded)?,
            _ => echoed(address, PLAIN, &mut seeded)?,
        }
        // A load and not a flood: it is to go on for long, beside others.
        thread::sleep(Duration::from_millis(seeded.below(20)));
    }
    Ok(())
}

/// The task of this connection panics: the connection ends, and nothing else.
fn panicked(address: SocketAddr) -> anyhow::Result<()> {
    let mut stream = client::connect(address)?;
    stream.write_all(&[PANICS])?;
    let mut rest = Vec::new();
    // An end or a reset; both are ends.
    let ended = stream.read_to_end(&mut rest);
    ensure!(rest.is_empty(), "a task that panicked answered");
    let hung = ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    ensure!(!hung, "the connection of a task that panicked stayed open");
    Ok(())
}

/// A connection with something sent on it.
fn begin(
    address: SocketAddr,
    manner: u8,
    seeded: &mut Seeded,
) -> anyhow::Result<std::net::TcpStream> {
    let mut stream = client::connect(address)?;
    stream.write_all(&[manner])?;
    stream.write_all(&vec![manner; seeded.count_below(4_096)])?;
    Ok(stream)
}

/// Messages of mixed sizes, the end of our side, and everything must come back.
fn echoed(address: SocketAddr, manner: u8, seeded: &mut Seeded) -> anyhow::Result<()> {
    let mut stream = client::connect(address)?;
    stream.write_all(&[manner])?;
    let mut first = [0];
    stream.read_exact(&mut first)?;
    ensure!(first == [manner], "a wrong first byte came back");
    for _ in 0..1 + seeded.below(8) {
        let longest = if seeded.below(16) == 0 {
            LARGEST
        } else {
            2_048
        };
        let (seed, length) = (seeded.below(u64::MAX), 1 + seeded.count_below(longest));
        let sent = Seeded::new(seed).bytes(length);
        let mut back = vec![0; length];
        thread::scope(|scope| {
            let mut writing = &stream;
            let sending = scope.spawn(move || writing.write_all(&sent));
            let mut reading = &stream;
            reading.read_exact(&mut back)?;
            sending
                .join()
                .unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()))
        })?;
        let checked = Verifier::new(seed).check(&back);
        checked.map_err(|byte| anyhow::anyhow!("byte {byte} of a message came back changed"))?;
        if manner == IMPATIENT {
            thread::sleep(Duration::from_millis(seeded.below(4)));
        }
    }
    stream.shutdown(Shutdown::Write)?;
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest)?;
    ensure!(rest.is_empty(), "more came back than was sent");
    Ok(())
}
