//! A TCP proxy: every connection is passed on, both ways at once, without copying a byte.
//!
//! ```text
//! cargo run --release -p shardloop --example proxy -- TARGET [ADDRESS] [ENGINE] [SHARDS]
//! ```
//!
//! `TARGET` and `ADDRESS` are internet addresses or `unix:PATH`, so it also bridges between the two. Each direction ends by itself, as
//! the two sides do: what is still on its way the other way arrives.

use shardloop::{
    Accept, Address, Backend, ConnectOptions, Either, Endpoint, Error, Kind, Plan, RecvHalf,
    SendHalf, Service, Shard, Stream, StreamOptions, race, run, try_join,
};
use std::{env, io, process::ExitCode, time::Duration};

#[derive(Clone)]
struct Proxy {
    target: Address,
}

impl Service for Proxy {
    async fn run<B: Backend>(self, shard: Shard<B>) -> Result<(), Error> {
        if shard.index() == 0 {
            println!("{} leads to {}", shard.address(0), self.target);
        }
        let mut incoming = shard.incoming(0);
        while let Some((client, peer)) = incoming.next().await {
            let (proxy, stopping) = (self.clone(), shard.stopping());
            let bridge = async move {
                match race(proxy.bridge::<B>(client), stopping).await {
                    Either::Left(Err(error)) => eprintln!("{peer}: {error}"),
                    Either::Left(Ok(())) | Either::Right(()) => {}
                }
            };
            shard.spawn(bridge).detach();
        }
        Ok(())
    }
}

impl Proxy {
    /// Connects a client to the target, until both have said all.
    async fn bridge<B: Backend>(&self, client: B::Stream) -> io::Result<()> {
        let options = ConnectOptions {
            stream: StreamOptions {
                nodelay: true,
                send_buffer_bytes: None,
                receive_buffer_bytes: None,
            },
            deadline: Duration::from_secs(5),
        };
        let target = B::connect(std::slice::from_ref(&self.target), &options).await?;
        let (from_client, to_client) = client.into_split();
        let (from_target, to_target) = target.into_split();
        let there = pass(from_client, to_target);
        let back = pass(from_target, to_client);
        try_join(there, back).await.map(drop)
    }
}

/// Passes on what comes, and at its end says so. What was received is sent as it is, so a slow side holds the other up.
async fn pass(mut from: impl RecvHalf, mut to: impl SendHalf) -> io::Result<()> {
    loop {
        let lease = from.recv().await?;
        if lease.is_empty() {
            return to.shutdown_write().await;
        }
        to.send_all(lease).await.0?;
    }
}

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("proxy: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Error> {
    let mut arguments = env::args().skip(1);
    let target = arguments
        .next()
        .ok_or("where to? write: proxy TARGET [ADDRESS] [ENGINE] [SHARDS]")?
        .parse()?;
    let address: Address = arguments
        .next()
        .as_deref()
        .unwrap_or("127.0.0.1:7001")
        .parse()?;
    let kind: Kind = arguments.next().as_deref().unwrap_or("auto").parse()?;
    let shards = arguments.next().as_deref().unwrap_or("2").parse()?;
    let endpoint = match address {
        Address::Inet(address) => Endpoint::tcp(address, Accept::Handoff),
        Address::Unix(path) => Endpoint::unix(path.ok_or("a Unix socket needs a path")?),
    };
    let report = run(kind, Plan::new(shards).endpoint(endpoint), Proxy { target })?;
    for shard in report.shards {
        shard.result??;
    }
    Ok(())
}
