//! How connections reach shards, and what may be listened on.

use crate::{
    client::{self, Bell, Talk},
    engine::{self, Engine, Server, alone, echo, finish, on_every_engine, plan, skip},
};
use shardloop::{
    Accept, Backend, Endpoint, LaunchError, Plan, Report, SendHalf, Shard, launch, stopping,
    time::timeout,
};
use shardloop_platform::socket::{self, ListenOptions};
use std::{
    net::{SocketAddr, TcpListener},
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
    one_shard_and_handoff_never_share_their_port,
    ports_are_resolved_once,
    several_endpoints_are_kept_apart,
    a_dropped_next_loses_no_connection,
    connections_that_never_pause_starve_nobody,
    several_tasks_take_from_one_endpoint,
    a_shard_that_has_ended_is_given_nothing;
    kernel
    "there are no descriptors to run out of": five_thousand_connections_at_once,
    "other servers are none of its world's": somebody_elses_server_is_an_error,
    "other servers are none of its world's": somebody_elses_server_with_reuse_port_is_an_error,
    "the resets are made with SO_LINGER": connections_reset_before_they_are_served_hurt_nobody,
);

/// Makes `count` connections, sends a message on each, and ends the plan.
fn serve_some<B: Engine>(shards: usize, accept: Accept, count: usize) -> Report<()> {
    let client = async move |_, server| {
        let mut talks = Vec::new();
        for _ in 0..count {
            talks.push(Talk::<B>::to(&server).await);
        }
        for talk in &mut talks {
            talk.ping(b"hello").await.expect("served");
        }
    };
    B::serve(plan(shards, accept), echo, client).0
}

fn adopted(report: &Report<()>) -> Vec<u64> {
    report
        .shards
        .iter()
        .map(|shard| shard.metrics.adopted)
        .collect()
}

fn handoff_is_even<B: Engine>() {
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

fn reuse_port_serves_every_connection<B: Engine>() {
    if !socket::REUSE_PORT_SPREADS {
        return skip(B::NAME, "SO_REUSEPORT does not spread connections here");
    }
    let report = serve_some::<B>(2, Accept::ReusePort, 64);
    let adopted = adopted(&report);
    assert_eq!(adopted.iter().sum::<u64>(), 64);
    assert!(adopted.iter().all(|count| *count > 0), "{adopted:?}");
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

fn one_shard_and_handoff_never_share_their_port<B: Engine>() {
    for (shards, accept) in [
        (1, Accept::ReusePort),
        (1, Accept::Handoff),
        (2, Accept::Handoff),
    ] {
        let service = async |_| stopping().await;
        let client = async move |_, server: Server| {
            let address = server.address().inet().expect("a TCP endpoint");
            // Of this engine, and of the system.
            for count in [1, 2] {
                let second = B::bind(&Endpoint::tcp(address, accept), count);
                let error = second.map(drop).expect_err("the port is another server's");
                assert!(error.is_in_use() && error.to_string().contains(&address.to_string()));
            }
            if !engine::is_simulated::<B>() {
                let second = socket::listen(&sharing(address));
                assert!(
                    second.is_err(),
                    "{accept} on {shards} shards lets another server onto its port"
                );
            }
        };
        B::serve(plan(shards, accept), service, client);
    }
}

fn ports_are_resolved_once<B: Engine>() {
    let service = async |shard: Shard<B>| {
        stopping().await;
        shard.address(0).clone()
    };
    let client = async |_, server: Server| server.address();
    let (report, address) = B::serve(plan(2, Accept::Handoff), service, client);
    let address = address.inet().expect("a TCP endpoint");
    assert_ne!(address.port(), 0);
    for shard in &report.shards {
        assert_eq!(
            shard.result.as_ref().expect("no panic").inet(),
            Some(address)
        );
    }
    if !engine::is_simulated::<B>() {
        // What has ended has let go of its port.
        drop(TcpListener::bind(address).expect("the port is free again"));
    }
}

fn several_endpoints_are_kept_apart<B: Engine>() {
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
    B::serve(plan, service, async |_, server| {
        for _ in 0..8 {
            for (endpoint, greeting) in [b"first ", b"second"].into_iter().enumerate() {
                let talk = Talk::<B>::try_to(&server.addresses[endpoint]).await;
                assert_eq!(talk.expect("it listens").finish().await, greeting);
            }
        }
    });
}

fn a_dropped_next_loses_no_connection<B: Engine>() {
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
    B::serve(plan(2, Accept::Handoff), service, async |_, server| {
        for _ in 0..COUNT {
            let mut talk = Talk::<B>::to(&server).await;
            talk.ping(b"here").await.expect("served");
        }
    });
    assert_eq!(served.load(Ordering::Relaxed), COUNT);
}

fn connections_that_never_pause_starve_nobody<B: Engine>() {
    const COUNT: u64 = 200;
    let service = async |shard: Shard<B>| {
        while shard.metrics().accepted < COUNT {
            shardloop::time::yield_now().await;
        }
        // All of them wait for this shard by now.
        let mut incoming = shard.incoming(0);
        let turns = engine::count_turns(&shard);
        for _ in 0..COUNT {
            incoming.next().await.expect("it waits");
        }
        assert!(turns.get() > 3, "others ran {} times", turns.get());
    };
    B::serve(plan(1, Accept::Handoff), service, async |_, server| {
        let mut clients = Vec::new();
        for _ in 0..COUNT {
            clients.push(Talk::<B>::to(&server).await);
        }
    });
}

fn several_tasks_take_from_one_endpoint<B: Engine>() {
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
    B::serve(plan(1, Accept::Handoff), service, async |_, server| {
        for _ in 0..10 {
            let mut talks = Vec::new();
            for _ in 0..4 {
                talks.push(Talk::<B>::to(&server).await);
            }
            for talk in &mut talks {
                let served = talk.ping(b"hello").await;
                served.expect("served while the others are open");
            }
        }
    });
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
fn a_shard_that_has_ended_is_given_nothing<B: Engine>() {
    let gone = Arc::new(Bell::default());
    let counter = gone.clone();
    let mut plan = plan(3, Accept::Handoff);
    plan.drain = Duration::ZERO;
    let service = async move |shard: Shard<B>| {
        if shard.index() > 0 {
            counter.ring();
            return;
        }
        echo(shard).await;
    };
    B::serve(plan, service, async move |_, server| {
        gone.rung(2).await;
        let serve_one = async || match Talk::<B>::try_to(&server.address()).await {
            Ok(mut talk) => {
                let answer = timeout(Duration::from_secs(5), talk.ping(b"hello")).await;
                answer.is_ok_and(|answer| answer.is_ok())
            }
            Err(_) => false,
        };
        // It may take a while until the end is noticed; from then on everything is served.
        let mut in_a_row = 0;
        while in_a_row < 6 {
            in_a_row = if serve_one().await { in_a_row + 1 } else { 0 };
        }
    });
}
