//! 8: connections spread over shards, few and many, long- and short-lived.

use super::{Engine, client, oracle::descriptors, service, trial::Trial};
use shardloop::{Accept, RecvHalf, SendHalf, Shard, launch};
use std::{io::Read, net::SocketAddr, net::TcpStream};

const SHARDS: usize = 8;
/// What the busiest shard may have with `Handoff`, as a multiple of the mean.
const HANDOFF_MOST: f64 = 1.1;
/// The same with `HandoffLeast`, which looks at who is idle and not at who had how many.
const LEAST_MOST: f64 = 2.0;

pub(crate) fn run<B: Engine>(trial: &mut Trial) -> anyhow::Result<()> {
    let counts: &[usize] = trial.count(&[16, 200, 8_000], &[16, 200]);
    let largest = counts.last().copied().unwrap_or_default();
    if let Err(reason) = descriptors::allow(2 * largest as u64 + 500)? {
        trial.skip(reason);
        return Ok(());
    }
    for accept in [Accept::Handoff, Accept::HandoffLeast, Accept::ReusePort] {
        for &count in counts {
            let strategy = format!("{accept}_{count}");
            trial.say(&strategy);
            spread::<B>(trial, accept, count)?;
        }
    }
    Ok(())
}

/// `count` long-lived and as many short-lived connections.
fn spread<B: Engine>(trial: &mut Trial, accept: Accept, count: usize) -> anyhow::Result<()> {
    let mut plan = service::plan(SHARDS, accept);
    plan.endpoints[0].backlog = 4_096;
    let service = async |shard: Shard<B>| {
        let number = [u8::try_from(shard.index()).unwrap_or(u8::MAX)];
        let mut incoming = shard.incoming(0);
        while let Some((mut stream, _)) = incoming.next().await {
            let tell = async move {
                if stream.send_all(number.to_vec()).await.0.is_ok() {
                    // Until the client closes.
                    while stream.recv().await.is_ok_and(|lease| !lease.is_empty()) {}
                }
            };
            shard.spawn(tell).detach();
        }
    };
    let running = launch::<B, _>(plan, service)?;
    let address = service::address(&running)?;
    let (long, held) = connect(address, count, true)?;
    drop(held);
    let (short, _) = connect(address, count, false)?;
    service::finish(trial, running, false);
    for (lived, shards) in [("long", long), ("short", short)] {
        let mean = count as f64 / SHARDS as f64;
        let ratio = shards.iter().copied().max().unwrap_or_default() as f64 / mean;
        let name = format!("{accept}_{count}_{lived}");
        if count < 1_000 {
            trial.note_rounded(&format!("{name}_max_to_mean"), ratio);
        } else {
            let all = shards.map(|shard| shard.to_string()).join("/");
            trial.note(&format!("{name}_per_shard"), all);
            trial.note(&format!("{name}_max_to_mean"), (ratio * 1e3).round() / 1e3);
        }
        let most = match accept {
            Accept::Handoff => HANDOFF_MOST,
            Accept::HandoffLeast => LEAST_MOST,
            // The kernel's hash, or whoever is awake: told and not judged.
            Accept::ReusePort | Accept::Shared => f64::INFINITY,
        };
        trial.require(ratio <= most, || {
            format!("{name}: max/mean {ratio:.2}, at most {most} is allowed")
        });
        let served: usize = shards.iter().sum();
        trial.require(served == count, || {
            format!("{name}: {served} of {count} were served")
        });
    }
    Ok(())
}

/// Connects `count` times; how many each shard got, and the connections if they are to be held.
fn connect(
    address: SocketAddr,
    count: usize,
    hold: bool,
) -> anyhow::Result<([usize; SHARDS], Vec<TcpStream>)> {
    let (mut shards, mut held) = ([0; SHARDS], Vec::new());
    for _ in 0..count {
        let (mut stream, mut number) = (client::connect(address)?, [0]);
        stream.read_exact(&mut number)?;
        shards[usize::from(number[0]) % SHARDS] += 1;
        if hold {
            held.push(stream);
        }
    }
    Ok((shards, held))
}
