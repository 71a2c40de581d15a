//! Accept strategies: who gets which connection.

use crate::{
    client::{LONG, connecting},
    engine::{assert_clean, on_every_engine, plan},
};
use shardloop::{Accept, Address, Backend, RecvHalf, SendHalf, Shard, launch, stopping, time};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

on_every_engine!(
    the_shard_with_the_fewest_connections_gets_the_next,
    shards_that_share_a_listener_serve_every_connection,
    every_strategy_serves_one_shard,
);

async fn connect<B: Backend>(address: &Address) -> B::Stream {
    let options = connecting(LONG);
    B::connect(std::slice::from_ref(address), &options)
        .await
        .expect("somebody listens")
}

/// Connects, and hears which shard it got.
async fn ask<B: Backend>(address: &Address) -> (B::Stream, usize) {
    let mut stream = connect::<B>(address).await;
    let lease = stream.recv().await.expect("it says who it is");
    let shard = usize::from(lease[0]);
    drop(lease);
    (stream, shard)
}

/// Tells each connection its shard, and holds it until the peer has closed it; counts those that are gone.
async fn hold<B: Backend>(shard: Shard<B>, gone: Arc<AtomicUsize>) {
    let mut incoming = shard.incoming(0);
    let index = u8::try_from(shard.index()).expect("few shards");
    while let Some((mut stream, _)) = incoming.next().await {
        let gone = gone.clone();
        let held = async move {
            stream.send_all(vec![index]).await.0.expect("it listens");
            while !stream.recv().await.expect("an orderly end").is_empty() {}
            drop(stream);
            gone.fetch_add(1, Ordering::SeqCst);
        };
        shard.spawn(held).detach();
    }
}

/// Serves on all shards with [`hold`], and runs `client` on shard 0; returns what each shard has adopted as a server.
fn with_client<B: Backend>(
    shards: usize,
    accept: Accept,
    client: impl AsyncFn(Shard<B>, Arc<AtomicUsize>) -> usize + Clone + Send + 'static,
) -> Vec<u64> {
    let gone = Arc::new(AtomicUsize::new(0));
    let service = async move |shard: Shard<B>| {
        let serving = shard.spawn(hold(shard.clone(), gone.clone()));
        let mut clients = 0;
        if shard.index() == 0 {
            clients = client(shard.clone(), gone.clone()).await;
            shard.stopper().drain();
        }
        stopping().await;
        serving.await.expect("no panic");
        shard.metrics().adopted - clients as u64
    };
    let report = launch::<B, _>(plan(shards, accept), service)
        .expect("starts")
        .wait();
    assert_clean(&report);
    let adopted = |shard: &shardloop::ShardReport<u64>| *shard.result.as_ref().expect("no panic");
    report.shards.iter().map(adopted).collect()
}

fn the_shard_with_the_fewest_connections_gets_the_next<B: Backend>() {
    let adopted = with_client::<B>(3, Accept::HandoffLeast, async |shard, gone| {
        let address = shard.address(0).clone();
        let mut clients = Vec::new();
        for _ in 0..9 {
            clients.push(ask::<B>(&address).await);
        }
        let of = |clients: &[(B::Stream, usize)], index| {
            clients.iter().filter(|(_, shard)| *shard == index).count()
        };
        // Shard 0 has the clients' ends, too, so it gets none as long as the others have fewer.
        assert_eq!(of(&clients, 0), 1);
        assert_eq!((of(&clients, 1), of(&clients, 2)), (4, 4));
        // All of one shard go away; it gets the next ones.
        clients.retain(|(_, shard)| *shard != 1);
        while gone.load(Ordering::SeqCst) < 4 {
            time::yield_now().await;
        }
        for _ in 0..4 {
            let (stream, shard) = ask::<B>(&address).await;
            assert_eq!(shard, 1);
            clients.push((stream, shard));
        }
        13
    });
    assert_eq!(adopted, [1, 8, 4]);
}

fn shards_that_share_a_listener_serve_every_connection<B: Backend>() {
    let adopted = with_client::<B>(3, Accept::Shared, async |shard, _| {
        let address = shard.address(0).clone();
        let mut clients = Vec::new();
        for _ in 0..60 {
            clients.push(ask::<B>(&address).await);
        }
        clients.len()
    });
    assert_eq!(adopted.iter().sum::<u64>(), 60, "{adopted:?}");
}

fn every_strategy_serves_one_shard<B: Backend>() {
    for accept in Accept::ALL {
        let adopted = with_client::<B>(1, accept, async |shard, _| {
            for _ in 0..5 {
                let (_, shard) = ask::<B>(shard.address(0)).await;
                assert_eq!(shard, 0);
            }
            5
        });
        assert_eq!(adopted, [5]);
    }
}

#[test]
fn names_lead_to_strategies_and_back() {
    for accept in Accept::ALL {
        assert_eq!(accept.to_string().parse(), Ok(accept));
    }
    let error = "roundrobin".parse::<Accept>().unwrap_err().to_string();
    assert!(
        error.contains("roundrobin") && error.contains("handoff-least"),
        "{error}"
    );
}
