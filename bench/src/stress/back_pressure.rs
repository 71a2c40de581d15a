//! 7: a peer that does not read holds its server back and costs it no memory; one that goes away is an error and nothing worse.

use super::{
    Engine, client,
    oracle::{
        resident,
        seeded::{Seeded, Verifier},
        ticker::{Times, tick},
    },
    service,
    trial::Trial,
};
use anyhow::Context;
use shardloop::{Accept, RecvHalf, SendHalf, Shard, StreamOptions, launch, time};
use socket2::{Domain, SockRef, Socket, Type};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

const PIECE: usize = 64 << 10;
/// Bytes that resident memory may grow by while 64 MiB wait. The client is in the same process and holds a few pieces.
const GROWTH_MOST: u64 = 16 << 20;
/// Bytes of leases that one connection may hold.
const LEASES_MOST: u64 = 256 << 10;
/// Within which the server gives up a client that never reads.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Receive buffer of the client that does not read.
const TINY_BYTES: usize = 4 << 10;

/// What the server counts.
#[derive(Default)]
struct Counted {
    received: AtomicU64,
    broken: AtomicU64,
    given_up: AtomicU64,
    sent_after_that: AtomicU64,
    ended: AtomicU64,
}

pub(crate) fn run<B: Engine>(trial: &mut Trial) -> anyhow::Result<()> {
    let (counted, lateness) = (Arc::new(Counted::default()), Times::new()?);
    let service = {
        let (counted, lateness) = (counted.clone(), lateness.clone());
        async move |shard: Shard<B>| {
            let ticker = shard.spawn(tick(Duration::from_millis(10), lateness.clone()));
            let mut incoming = shard.incoming(0);
            while let Some((stream, _)) = incoming.next().await {
                shard.spawn(echo(stream, counted.clone())).detach();
            }
            ticker.cancel().await;
        }
    };
    let mut plan = service::plan(1, Accept::Handoff);
    // Small, so that most of the data has to wait in the client.
    plan.endpoints[0].stream = StreamOptions {
        nodelay: true,
        send_buffer_bytes: Some(PIECE),
        receive_buffer_bytes: Some(PIECE),
    };
    let running = launch::<B, _>(plan, service)?;
    let address = service::address(&running)?;
    let before = resident::bytes()?;
    slow_reader(trial, address, &counted)?;
    let after = resident::bytes()?;
    trial.note_rounded("rss_before_mib", resident::mib(before));
    trial.note_rounded("rss_after_mib", resident::mib(after));
    let grown = after.saturating_sub(before);
    trial.require(grown < GROWTH_MOST, || {
        format!("memory grew by {:.1} MiB", resident::mib(grown))
    });
    resets(trial, address, &counted)?;
    never_reads(trial, address, &counted)?;
    let report = service::finish(trial, running, false);
    let peak = report.shards[0].metrics.lease_bytes_peak;
    trial.note("lease_bytes_peak", peak);
    // The client that resets may overlap with the one before it.
    trial.require(peak <= 8 * LEASES_MOST, || {
        format!("connections held {peak} bytes of leases")
    });
    trial.note_rounded("tick_lateness_ms_max", lateness.ms_max());
    Ok(())
}

/// Echoes. A connection whose first byte is `t` has a write timeout.
async fn echo(mut stream: impl RecvHalf + SendHalf, counted: Arc<Counted>) {
    let mut patience = None;
    while let Ok(lease) = stream.recv().await {
        if lease.is_empty() {
            break;
        }
        counted
            .received
            .fetch_add(lease.len() as u64, Ordering::Relaxed);
        if patience.is_none() {
            let timed = lease[0] == b't';
            patience = Some(if timed { WRITE_TIMEOUT } else { Duration::MAX });
        }
        match time::timeout(patience.unwrap_or(Duration::MAX), stream.send_all(lease)).await {
            Ok((Ok(()), _)) => {}
            Ok((Err(_), _)) => {
                counted.broken.fetch_add(1, Ordering::Relaxed);
                break;
            }
            Err(time::Elapsed) => {
                counted.given_up.fetch_add(1, Ordering::Relaxed);
                // How much went out is unknown, so nothing more may.
                if stream.send_all(&b"!"[..]).await.0.is_ok() {
                    counted.sent_after_that.fetch_add(1, Ordering::Relaxed);
                }
                break;
            }
        }
    }
    counted.ended.fetch_add(1, Ordering::Relaxed);
}

/// Sends everything, reads nothing for three seconds, and then wants it byte for byte.
fn slow_reader(trial: &mut Trial, address: SocketAddr, counted: &Counted) -> anyhow::Result<()> {
    let (total, pause) = trial.count(
        (64 << 20, Duration::from_secs(3)),
        (4 << 20, Duration::from_millis(200)),
    );
    let stream = tiny(address)?;
    trial.say("a client that reads nothing at first");
    let checked = thread::scope(|scope| {
        let sending = scope.spawn(|| send(&stream, total));
        thread::sleep(pause);
        let taken = counted.received.load(Ordering::Relaxed);
        let checked = check(&stream);
        let sent = sending.join().unwrap_or_else(|_| anyhow::bail!("a panic"));
        sent.context("the server stopped taking what was sent")?;
        anyhow::Ok((taken, checked?))
    });
    let (taken, came) = checked?;
    trial.note_rounded("taken_unread_mib", resident::mib(taken));
    trial.note_rounded("echoed_mib", resident::mib(came));
    trial.require(taken < total as u64 / 2, || {
        format!("the server took {taken} bytes although nobody read its answers")
    });
    trial.require(came == total as u64, || {
        format!("{came} of {total} bytes came back")
    });
    Ok(())
}

/// A connection with a tiny receive buffer. It is set before connecting: a window that shrinks afterwards makes Linux drop what is on its
/// way, and send it again after ever longer pauses.
fn tiny(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_recv_buffer_size(TINY_BYTES)?;
    socket.connect(&address.into())?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(client::PATIENCE))?;
    stream.set_write_timeout(Some(client::PATIENCE))?;
    Ok(stream)
}

fn send(mut stream: &TcpStream, total: usize) -> anyhow::Result<()> {
    let (mut seeded, mut piece) = (Seeded::new(4), vec![0; PIECE]);
    for _ in 0..total / PIECE {
        seeded.fill(&mut piece);
        // The first byte of the stream is not the mark of those with a timeout.
        stream.write_all(&piece)?;
    }
    Ok(stream.shutdown(Shutdown::Write)?)
}

/// Everything to the end of the stream must be what was sent; how many bytes that were.
fn check(mut stream: &TcpStream) -> anyhow::Result<u64> {
    let (mut verifier, mut piece, mut filled) = (Verifier::new(4), vec![0; PIECE], 0);
    loop {
        let count = stream.read(&mut piece[filled..])?;
        filled += count;
        if filled == PIECE || count == 0 {
            let compared = verifier.check(&piece[..filled]);
            compared.map_err(|byte| anyhow::anyhow!("byte {byte} is not what was sent"))?;
            filled = 0;
        }
        if count == 0 {
            return Ok(verifier.bytes);
        }
    }
}

/// Clients that reset in the midst of what they were to read.
fn resets(trial: &mut Trial, address: SocketAddr, counted: &Counted) -> anyhow::Result<()> {
    let clients = trial.count(100, 10);
    let before = counted.ended.load(Ordering::Relaxed);
    trial.say("clients that reset");
    for client in 0..clients {
        let stream = client::connect(address)?;
        // Until the server's sends are full, or not quite.
        stream.set_write_timeout(Some(Duration::from_millis(5)))?;
        let piece = vec![b'r'; PIECE];
        for _ in 0..client % 16 + 1 {
            if (&stream).write(&piece).is_err() {
                break;
            }
        }
        SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
    }
    let ended = || counted.ended.load(Ordering::Relaxed) - before;
    let took = eventually(|| ended() == clients);
    trial.note("resets", clients);
    trial.note(
        "resets_seen_by_sends",
        counted.broken.load(Ordering::Relaxed),
    );
    trial.require(took.is_some(), || {
        format!(
            "{} of {clients} connections that were reset came to their end",
            ended()
        )
    });
    // Whoever comes after them is served.
    client::ping(&client::connect(address)?, b"still there").map(drop)
}

/// A client that never reads meets the write timeout, if one is configured.
fn never_reads(trial: &mut Trial, address: SocketAddr, counted: &Counted) -> anyhow::Result<()> {
    let mut stream = tiny(address)?;
    stream.set_write_timeout(Some(Duration::from_millis(100)))?;
    trial.say("a client that never reads");
    while stream.write(&[b't'; PIECE]).is_ok() {}
    let took = eventually(|| counted.given_up.load(Ordering::Relaxed) == 1);
    trial.require(took.is_some(), || "the write timeout never came".to_owned());
    let took = took.unwrap_or_default();
    trial.note_rounded("write_timeout_ms", took.as_secs_f64() * 1e3);
    let wrong = counted.sent_after_that.load(Ordering::Relaxed);
    trial.require(wrong == 0, || {
        "a connection could be sent on after a send was given up half-way".to_owned()
    });
    trial.require_in_time(took < WRITE_TIMEOUT * 2, || {
        format!("a write timeout of {WRITE_TIMEOUT:?} came after {took:?}")
    });
    Ok(())
}

/// How long until it is so; `None` if that never came.
fn eventually(mut is_so: impl FnMut() -> bool) -> Option<Duration> {
    let begun = Instant::now();
    while !is_so() {
        if begun.elapsed() > client::PATIENCE {
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
    Some(begun.elapsed())
}
