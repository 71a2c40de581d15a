//! The drivers on real shards of the simulator: over a network that loses, delays and resets, in virtual time.

use crate::random::Random;
use shardloop::{
    Accept, Backend, ConnectOptions, Endpoint, Plan, Shard, Sim, StreamOptions,
    sim::{Link, Loss, World, check},
};
use shardloop_protocols::{
    Flow,
    drive::{self, Connection, OnShard, Turned},
    length::{Length, Reply},
};
use std::{net::IpAddr, time::Duration};

const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const MESSAGES: usize = 12;

async fn serve(shard: Shard<Sim>) {
    let mut incoming = shard.incoming(0);
    while let Some((stream, _peer)) = incoming.next().await {
        let app = |message: &mut [u8], mut reply: Reply<'_>| {
            reply.send(message).expect("as long as its question");
            Flow::Continue
        };
        let served = drive::serve(stream, Length::default(), app, OnShard);
        // A network that resets connections is this test's subject, not its fault.
        shard.spawn(async move { drop(served.await) }).detach();
    }
}

/// Asks until everything was answered, over as many connections as it takes.
async fn ask(shard: Shard<Sim>, seed: u64) -> usize {
    let mut random = Random::new(seed + shard.index() as u64);
    let questions: Vec<Vec<u8>> = (0..MESSAGES)
        .map(|_| {
            let most = [3, 1000, 60_000][random.below(3)];
            let size = random.below(most);
            random.bytes(size)
        })
        .collect();
    let (mut answered, mut connections) = (0, 0);
    while answered < questions.len() {
        let stream = StreamOptions {
            nodelay: true,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
        };
        let deadline = Duration::from_secs(20);
        let options = ConnectOptions { stream, deadline };
        let server = std::net::SocketAddr::new(SERVER, 80).into();
        if let Ok(stream) = Sim::connect(&[server], &options).await {
            connections += 1;
            converse(
                Connection::new(stream, Length::default()),
                &questions,
                &mut answered,
            )
            .await;
        }
    }
    connections
}

/// One question after the other, until the connection breaks or nothing is left to ask.
async fn converse(
    mut connection: Connection<<Sim as Backend>::Stream, Length>,
    questions: &[Vec<u8>],
    answered: &mut usize,
) {
    while *answered < questions.len() {
        let question = &questions[*answered];
        let sent = connection
            .send(&OnShard, |mut request: Reply<'_>| request.send(question))
            .await;
        if sent.is_err() {
            return;
        }
        let before = *answered;
        while *answered == before {
            let mut app = |message: &mut [u8], _: Reply<'_>| {
                assert!(message == questions[*answered], "another answer");
                *answered += 1;
                Flow::Continue
            };
            let Ok(received) = connection.receive().await else {
                return;
            };
            match connection.work_off(&OnShard, &mut app, received).await {
                Ok(Turned::Open) => {}
                Ok(Turned::Closed) | Err(_) => return,
            }
        }
    }
    connection.shutdown_write().await.ok();
}

fn trial(seed: u64) -> shardloop::sim::Outcome {
    let mut random = Random::new(seed);
    let mut link = Link::perfect(Duration::from_millis(1 + random.below(20) as u64));
    link.jitter = Duration::from_millis(random.below(20) as u64);
    link.loss = Loss::Random([0.0, 0.02, 0.1][random.below(3)]);
    link.reset = [0.0, 0.01][random.below(2)];
    let mut world = World::new(seed, link);
    let address = std::net::SocketAddr::new(SERVER, 80);
    let endpoint = Endpoint::tcp(address, Accept::Handoff);
    let plan = Plan::new(2).endpoint(endpoint);
    world.server(SERVER, plan, serve).expect("starts");
    let client = async move |shard: Shard<Sim>| ask(shard, seed).await;
    world.client(CLIENT, Plan::new(2), client).expect("starts");
    world.run()
}

#[test]
fn every_question_is_answered_whatever_the_network_does() {
    check(0..300, |seed| trial(seed).verdict());
}

#[test]
fn the_same_seed_gives_the_same_log() {
    for seed in 0..10 {
        assert_eq!(trial(seed).log.digest(), trial(seed).log.digest());
    }
}
