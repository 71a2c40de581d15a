//! How connections reach shards, and what may be listened on.

use crate::{
    client,
    engine::{self, alone, echo, finish, on_every_engine, plan, skip},
    watchdog::until,
};
use shardloop::{
    Accept, Backend, Endpoint, LaunchError, Plan, Report, SendHalf, Shard, launch, stopping,
};
use shardloop_platform::socket::{self, ListenOptions};
use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

on_every_engine!(
    handoff_is_even,
    reuse_port_serves_every_connection,
    five_thousand_connections_at_once,
    somebody_elses_server_is_an_error,
    somebody_elses_server_with_reuse_port_is_an_error,
    one_shard_and_handoff_never_share_their_port,
    ports_are_resolved_once,
    several_endpoints_are_kept_apart,
    a_dropped_next_loses_no_connection,
    several_tasks_take_from_one_endpoint,
    connections_reset_before_they_are_served_hurt_nobody,
    a_shard_that_has_ended_is_given_nothing,
);

/// Makes `count` connections, sends a message on each, and ends the plan.
fn serve_some<B: Backend>(shards: usize, accept: Accept, count: usize) -> Report<()> {
    let running = launch::<B, _>(plan(shards, accept), echo).expect("starts");
    let address = running.addresses()[0].inet().expect("a TCP endpoint");
    let streams: Vec<_> = (0..count).map(|_| client::connect(address)).collect();
    for stream in &streams {
        client::ping(stream, b"hello").expect("served");
    }
    drop(streams);
    finish(running)
}

fn adopted(report: &Report<()>) -> Vec<u64> {
    report
        .shards
        .iter()
        .map(|shard| shard.metrics.adopted)
        .collect()
}

fn handoff_is_even<B: Backend>() {
    let report = serve_some::<B>(2, Accept::Handoff, 16);
    assert_eq!(adopted(&report), [8, 8]);
    let accepted: Vec<_> = report
        .shards
        .iter()
        .map(|shard| shard.metrics.accepted)
        .collect();
    assert_eq!(accepted, [16, 0], "shard 0 accepts for all");
    let counts = adopted(&serve_some::<B>(3, Accept::Handoff, 50));
    let (most, fewest) = (
        counts.iter().max().expect("three"),
        counts.iter().min().expect("three"),
    );
    assert!(most - fewest <= 1, "{counts:?}");
    assert_eq!(counts.iter().sum::<u64>(), 50);
}

fn reuse_port_serves_every_connection<B: Backend>() {
    if !socket::REUSE_PORT_SPREADS {
        return skip(B::NAME, "SO_REUSEPORT does not spread connections here");
    }
    let report = serve_some::<B>(2, Accept::ReusePort, 64);
    assert_eq!(adopted(&report).iter().sum::<u64>(), 64);
    for shard in &report.shards {
        assert_eq!(
            shard.metrics.accepted, shard.metrics.adopted,
            "each shard serves what it accepts"
        );
    }
}

/// In a process of its own, for it needs most of the descriptors there are.
fn five_thousand_connections_at_once<B: Backend>() {
    const COUNT: usize = 5_000;
    alone(None, || {
        let limit = socket::raise_descriptor_limit().expect("the limit is known");
        if limit < 2 * COUNT as u64 + 200 {
            return skip(
                B::NAME,
                &format!("{limit} descriptors are too few for {COUNT} connections"),
            );
        }
        let mut plan = plan(2, Accept::Handoff);
        plan.endpoints[0].backlog = 8_192;
        let running = launch::<B, _>(plan, echo).expect("starts");
        let address = running.addresses()[0].inet().expect("a TCP endpoint");
        let connect_some = |_| {
            thread::spawn(move || {
                (0..COUNT / 4)
                    .map(|_| client::connect(address))
                    .collect::<Vec<_>>()
            })
        };
        let connecting: Vec<_> = (0..4).map(connect_some).collect();
        let streams: Vec<_> = connecting
            .into_iter()
            .flat_map(|thread| thread.join().expect("all connect"))
            .collect();
        assert_eq!(streams.len(), COUNT);
        for (number, stream) in streams.iter().enumerate() {
            client::ping(stream, format!("connection {number}").as_bytes()).expect("served");
        }
        // Still all there: the first is not worse off than the last.
        client::ping(&streams[0], b"again").expect("served");
        drop(streams);
        let report = finish(running);
        assert_eq!(adopted(&report), [COUNT as u64 / 2, COUNT as u64 / 2]);
    });
}

fn refused_with_in_use<B: Backend>(shards: usize, accept: Accept, address: SocketAddr) {
    let plan = Plan::new(shards).endpoint(Endpoint::tcp(address, accept));
    match launch::<B, _>(plan, async |_| ()) {
        Err(LaunchError::Bind(error)) => {
            assert!(error.is_in_use() && error.to_string().contains(&address.to_string()));
        }
        Err(error) => panic!("another error: {error}"),
        Ok(_) => panic!("{accept} on {shards} shards shares the port of another server"),
    }
}

fn somebody_elses_server_is_an_error<B: Backend>() {
    let other = TcpListener::bind(engine::v4()).expect("a free port");
    let address = other.local_addr().expect("bound");
    refused_with_in_use::<B>(1, Accept::Handoff, address);
    refused_with_in_use::<B>(2, Accept::ReusePort, address);
}

fn sharing(address: SocketAddr) -> ListenOptions {
    ListenOptions {
        address,
        backlog: 16,
        reuse_port: true,
        only_v6: true,
    }
}

fn somebody_elses_server_with_reuse_port_is_an_error<B: Backend>() {
    let other = socket::listen(&sharing(engine::v4())).expect("a free port");
    let address = other.local_addr().expect("bound");
    for accept in [Accept::Handoff, Accept::ReusePort] {
        for shards in [1, 2] {
            refused_with_in_use::<B>(shards, accept, address);
        }
    }
}

fn one_shard_and_handoff_never_share_their_port<B: Backend>() {
    for (shards, accept) in [
        (1, Accept::ReusePort),
        (1, Accept::Handoff),
        (2, Accept::Handoff),
    ] {
        let running =
            launch::<B, _>(plan(shards, accept), async |_| stopping().await).expect("starts");
        let address = running.addresses()[0].inet().expect("a TCP endpoint");
        let second = socket::listen(&sharing(address));
        assert!(
            second.is_err(),
            "{accept} on {shards} shards let another server onto its port"
        );
        finish(running);
    }
}

fn ports_are_resolved_once<B: Backend>() {
    let service = async |shard: Shard<B>| {
        stopping().await;
        shard.address(0).clone()
    };
    let running = launch::<B, _>(plan(2, Accept::Handoff), service).expect("starts");
    let address = running.addresses()[0].inet().expect("a TCP endpoint");
    assert_ne!(address.port(), 0);
    let report = finish(running);
    for shard in &report.shards {
        assert_eq!(
            shard.result.as_ref().expect("no panic").inet(),
            Some(address)
        );
    }
    // What has ended has let go of its port.
    drop(TcpListener::bind(address).expect("the port is free again"));
}

fn several_endpoints_are_kept_apart<B: Backend>() {
    let service = async |shard: Shard<B>| {
        let serve = |endpoint| {
            let mut incoming = shard.incoming(endpoint);
            shard.spawn(async move {
                while let Some((mut stream, _)) = incoming.next().await {
                    let greeting = if endpoint == 0 { b"first " } else { b"second" };
                    stream
                        .send_all(&greeting[..])
                        .await
                        .0
                        .expect("the client reads");
                }
            })
        };
        let both = [serve(0), serve(1)];
        for task in both {
            task.await.expect("no panic");
        }
    };
    let plan = plan(2, Accept::Handoff).endpoint(Endpoint::tcp(engine::v4(), Accept::ReusePort));
    if !socket::REUSE_PORT_SPREADS {
        return skip(B::NAME, "SO_REUSEPORT does not spread connections here");
    }
    let running = launch::<B, _>(plan, service).expect("starts");
    for _ in 0..8 {
        for (endpoint, greeting) in [b"first ", b"second"].into_iter().enumerate() {
            let stream = client::connect(
                running.addresses()[endpoint]
                    .inet()
                    .expect("a TCP endpoint"),
            );
            assert_eq!(client::finish(&stream), greeting);
        }
    }
    finish(running);
}

fn a_dropped_next_loses_no_connection<B: Backend>() {
    const COUNT: usize = 200;
    let served = Arc::new(AtomicUsize::new(0));
    let counter = served.clone();
    let service = async move |shard: Shard<B>| {
        let mut incoming = shard.incoming(0);
        loop {
            let next = shardloop::race(incoming.next(), shardloop::time::yield_now()).await;
            match next {
                shardloop::Either::Left(Some((stream, _))) => {
                    counter.fetch_add(1, Ordering::Relaxed);
                    shard.spawn(engine::echo_stream(stream)).detach();
                }
                shardloop::Either::Left(None) => return,
                shardloop::Either::Right(()) => {}
            }
        }
    };
    let running = launch::<B, _>(plan(2, Accept::Handoff), service).expect("starts");
    let address = running.addresses()[0].inet().expect("a TCP endpoint");
    for _ in 0..COUNT {
        client::ping(&client::connect(address), b"here").expect("served");
    }
    until("all are served", || served.load(Ordering::Relaxed) == COUNT);
    finish(running);
}

fn several_tasks_take_from_one_endpoint<B: Backend>() {
    let service = async |shard: Shard<B>| {
        let takers: Vec<_> = (0..4)
            .map(|_| {
                let mut incoming = shard.incoming(0);
                shard.spawn(async move {
                    while let Some((stream, _)) = incoming.next().await {
                        // While this one serves, the others take.
                        engine::echo_stream(stream).await;
                    }
                })
            })
            .collect();
        for taker in takers {
            taker.await.expect("no panic");
        }
    };
    let running = launch::<B, _>(plan(1, Accept::Handoff), service).expect("starts");
    for _ in 0..10 {
        let streams: Vec<_> = (0..4)
            .map(|_| client::connect(running.addresses()[0].inet().expect("a TCP endpoint")))
            .collect();
        for stream in &streams {
            client::ping(stream, b"hello").expect("served while the others are open");
        }
    }
    finish(running);
}

fn connections_reset_before_they_are_served_hurt_nobody<B: Backend>() {
    let running = launch::<B, _>(plan(2, Accept::Handoff), echo).expect("starts");
    let address = running.addresses()[0].inet().expect("a TCP endpoint");
    for _ in 0..200 {
        let socket = socket2::Socket::from(client::connect(address));
        socket
            .set_linger(Some(Duration::ZERO))
            .expect("a socket takes SO_LINGER");
    }
    for _ in 0..4 {
        client::ping(&client::connect(address), b"hello").expect("served");
    }
    let report = finish(running);
    assert_eq!(report.first_panic(), None);
}

/// Two returned although nobody asked them to: the other serves what comes.
fn a_shard_that_has_ended_is_given_nothing<B: Backend>() {
    let gone = Arc::new(AtomicUsize::new(0));
    let counter = gone.clone();
    let mut plan = plan(3, Accept::Handoff);
    plan.drain = Duration::ZERO;
    let running = launch::<B, _>(plan, async move |shard: Shard<B>| {
        if shard.index() > 0 {
            counter.fetch_add(1, Ordering::Relaxed);
            return;
        }
        echo(shard).await;
    })
    .expect("starts");
    let address = running.addresses()[0].inet().expect("a TCP endpoint");
    until("two shards have returned", || {
        gone.load(Ordering::Relaxed) == 2
    });
    let serve_one = || {
        let stream = TcpStream::connect(address).expect("shard 0 accepts");
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .expect("a socket takes a timeout");
        client::ping(&stream, b"hello").is_ok()
    };
    // It may take a while until the end is noticed; from then on everything is served.
    until("shard 0 serves alone", || (0..6).all(|_| serve_one()));
    finish(running);
}
