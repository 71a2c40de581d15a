//! An echo server (RFC 862) whose engine is chosen when it runs.
//!
//! ```text
//! cargo run --release -p shardloop --example echo -- [ENGINE] [ADDRESS] [SHARDS]
//! ```
//!
//! `ENGINE` is `auto` (the default), `monoio-uring`, `monoio-legacy` or, with the feature of that name, `glommio`. It says where it
//! listens, serves until SIGINT or SIGTERM, and then says how many connections each shard had.

use shardloop::{
    Accept, Backend, Either, Endpoint, Error, Kind, Plan, RecvHalf, SendHalf, Service, Shard, race,
    run,
};
use std::{env, process::ExitCode};

/// What each shard does. Which engine it runs on is not its business.
#[derive(Clone)]
struct Echo;

impl Service for Echo {
    async fn run<B: Backend>(self, shard: Shard<B>) -> Result<(), Error> {
        if shard.index() == 0 {
            println!(
                "{} shards on {} listen on {}",
                shard.count(),
                B::NAME,
                shard.address(0)
            );
            // Why `auto` did not take a better engine, for example.
            for remark in &shard.capabilities().remarks {
                println!("{remark}");
            }
        }
        let mut incoming = shard.incoming(0);
        while let Some((stream, _peer)) = incoming.next().await {
            shard.spawn(serve(shard.clone(), stream)).detach();
        }
        Ok(())
    }
}

/// Serves one connection until either side has had enough.
async fn serve<B: Backend>(shard: Shard<B>, mut stream: B::Stream) {
    // A receive that loses the race loses no byte.
    while let Either::Left(Ok(lease)) = race(stream.recv(), shard.stopping()).await {
        // The lease itself goes back: nothing is copied.
        if lease.is_empty() || stream.send_all(lease).await.0.is_err() {
            break;
        }
    }
}

fn main() -> ExitCode {
    match listen() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("echo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn listen() -> Result<(), Error> {
    let mut arguments = env::args().skip(1);
    let kind: Kind = arguments.next().as_deref().unwrap_or("auto").parse()?;
    let address = arguments
        .next()
        .as_deref()
        .unwrap_or("127.0.0.1:7000")
        .parse()?;
    let shards = arguments.next().as_deref().unwrap_or("2").parse()?;
    let plan = Plan::new(shards).endpoint(Endpoint::tcp(address, Accept::Handoff));
    let report = run(kind, plan, Echo)?;
    for shard in report.shards {
        println!(
            "shard {}: {} connections, {}",
            shard.index, shard.metrics.adopted, shard.seat
        );
        shard.result??;
    }
    Ok(())
}
