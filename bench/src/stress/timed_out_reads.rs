//! 1: a receive that is given up eats no byte. Two numbered streams with random gaps; one receive is given up after 1 ms, the other at
//! once when nothing is there.

use super::{Engine, client, oracle::seeded::Seeded, service, trial::Trial};
use shardloop::{Accept, Either, RecvHalf, Shard, launch, race, time};
use std::{
    io::Write,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How a receive is waited for, and given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// `timeout(1 ms, recv)`.
    Timeout,
    /// Raced against a yield: dropped after its first poll, mostly.
    Race,
}

/// What came of one stream.
#[derive(Clone, Debug)]
struct Stream {
    attempt: Attempt,
    /// The number that would come next.
    next: u32,
    given_up: u64,
    wrong: Option<String>,
}

pub(crate) fn run<B: Engine>(trial: &mut Trial) -> anyhow::Result<()> {
    let streams = Arc::new(Mutex::new(Vec::new()));
    let service = {
        let streams = streams.clone();
        async move |shard: Shard<B>| {
            let mut incoming = shard.incoming(0);
            while let Some((stream, _)) = incoming.next().await {
                let streams = streams.clone();
                let serve = async move {
                    let ended = numbered(stream).await;
                    let mut streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
                    streams.push(ended);
                };
                shard.spawn(serve).detach();
            }
        }
    };
    let running = launch::<B, _>(service::plan(1, Accept::Handoff), service)?;
    let (address, length) = (
        service::address(&running)?,
        trial.length(Duration::from_secs(60)),
    );
    trial.say("two numbered streams");
    let sending = |seed: u8| thread::spawn(move || send(address, seed, length));
    let senders = [sending(0), sending(1)];
    let sent = senders.map(|sender| sender.join().unwrap_or_else(|_| anyhow::bail!("a panic")));
    service::finish(trial, running, false);
    let streams = streams.lock().unwrap_or_else(PoisonError::into_inner);
    trial.require(streams.len() == 2, || {
        format!("{} of 2 streams came to their end", streams.len())
    });
    for (attempt, sent) in [Attempt::Timeout, Attempt::Race].into_iter().zip(sent) {
        let sent = sent?;
        let name = if attempt == Attempt::Timeout {
            "timeout"
        } else {
            "race"
        };
        let Some(stream) = streams.iter().find(|stream| stream.attempt == attempt) else {
            continue;
        };
        trial.note(&format!("{name}_numbers"), stream.next);
        trial.note(
            &format!("{name}_lost"),
            i64::from(sent) - i64::from(stream.next),
        );
        trial.note(&format!("{name}_given_up"), stream.given_up);
        trial.require(stream.wrong.is_none(), || {
            stream.wrong.clone().unwrap_or_default()
        });
        trial.require(stream.next == sent, || {
            format!("{name}: {sent} numbers were sent and {} came", stream.next)
        });
        trial.require(stream.given_up > 0, || {
            format!("{name}: no receive was ever given up, so nothing was tried")
        });
    }
    Ok(())
}

/// Receives to the end of the stream. Its first byte says how.
async fn numbered(mut stream: impl RecvHalf) -> Stream {
    let mut ended = Stream {
        attempt: Attempt::Timeout,
        next: 0,
        given_up: 0,
        wrong: None,
    };
    let (mut part, mut begun) = (Vec::new(), false);
    loop {
        let received = match ended.attempt {
            Attempt::Timeout => time::timeout(Duration::from_millis(1), stream.recv())
                .await
                .ok(),
            Attempt::Race => match race(stream.recv(), time::yield_now()).await {
                Either::Left(received) => Some(received),
                Either::Right(()) => {
                    time::sleep(Duration::from_millis(1)).await;
                    None
                }
            },
        };
        let lease = match received {
            None => {
                ended.given_up += 1;
                continue;
            }
            Some(Ok(lease)) => lease,
            Some(Err(error)) => {
                ended.wrong = Some(format!("receiving failed: {error}"));
                return ended;
            }
        };
        if lease.is_empty() {
            if !part.is_empty() {
                ended.wrong = Some("the stream ended within a number".to_owned());
            }
            return ended;
        }
        part.extend_from_slice(&lease);
        if !begun {
            begun = true;
            if part.remove(0) == 1 {
                ended.attempt = Attempt::Race;
            }
        }
        let (whole, rest) = part.as_chunks::<4>();
        for number in whole.iter().map(|bytes| u32::from_le_bytes(*bytes)) {
            if number != ended.next {
                ended.wrong = Some(format!("{number} came where {} was due", ended.next));
                return ended;
            }
            ended.next += 1;
        }
        part = rest.to_vec();
    }
}

/// Sends numbers, torn at random, with random gaps up to 3 ms; how many.
fn send(address: SocketAddr, which: u8, length: Duration) -> anyhow::Result<u32> {
    let mut stream = client::connect(address)?;
    let (mut seeded, begun, mut next) = (Seeded::new(11 + u64::from(which)), Instant::now(), 0_u32);
    stream.write_all(&[which])?;
    while begun.elapsed() < length {
        let burst = 1 + u32::try_from(seeded.below(300))?;
        let bytes: Vec<u8> = (next..next + burst).flat_map(u32::to_le_bytes).collect();
        next += burst;
        let (one, other) = bytes.split_at(seeded.count_below(bytes.len()));
        for piece in [one, other] {
            stream.write_all(piece)?;
            thread::sleep(Duration::from_micros(seeded.below(3_000)));
        }
    }
    Ok(next)
}
