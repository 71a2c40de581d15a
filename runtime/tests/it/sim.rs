//! What only a simulated world can show: networks that misbehave on purpose, time bounds, and the same run twice.

use crate::{
    client::{Bell, LONG, STREAM, Seeded, Talk, connecting},
    engine::seed,
};
use shardloop::{
    Accept, Address, Backend, BindError, ConnectOptions, Datagram, DatagramEndpoint, Either,
    Endpoint, EngineOptions, LaunchError, Outbox, Plan, RecvHalf, SendHalf, Shard, Sim, Stream,
    StreamOptions,
    datagram::Batch,
    launch, race,
    sim::{self, Fault, Link, Loss, Outcome, World, check},
    spawn, time,
};
use shardloop_platform::socket::BindCause;
use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    io::ErrorKind,
    net::{IpAddr, SocketAddr},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

fn at_server() -> SocketAddr {
    (SERVER, 7_000).into()
}

fn serving(shards: usize, accept: Accept) -> Plan {
    Plan::new(shards).endpoint(Endpoint::tcp(at_server(), accept))
}

/// Echoes on every connection.
async fn echo(shard: Shard<Sim>) {
    let mut incoming = shard.incoming(0);
    while let Some((stream, _)) = incoming.next().await {
        shard.spawn(crate::engine::echo_stream(stream)).detach();
    }
}

async fn dial() -> std::io::Result<Talk<Sim>> {
    Talk::try_to(&at_server().into()).await
}

const MS: fn(u64) -> Duration = Duration::from_millis;

/// An echo of 2 shards and a client, over `link`.
fn over<T: 'static>(
    link: Link,
    client: impl AsyncFn(Shard<Sim>) -> T + Clone + 'static,
) -> (Outcome, T) {
    let mut world = World::new(seed(), link);
    world
        .server(SERVER, serving(2, Accept::Handoff), echo)
        .expect("starts");
    run_with(world, client)
}

fn run_with<T: 'static>(
    mut world: World,
    client: impl AsyncFn(Shard<Sim>) -> T + Clone + 'static,
) -> (Outcome, T) {
    let asking = world
        .client(CLIENT, Plan::new(1), client)
        .expect("a client starts");
    let mut outcome = world.run();
    outcome.verdict().expect("the world comes to its end");
    let shard = outcome.report(&asking).shards.remove(0);
    (outcome, shard.result.expect("the client is content"))
}

#[test]
fn latency_is_what_was_asked_for_and_takes_no_time() {
    let begun = std::time::Instant::now();
    let (_, elapsed) = over(Link::perfect(Duration::from_secs(60)), async |_| {
        let begun = time::now();
        let options = connecting(Duration::MAX);
        let mut stream = Sim::connect(&[at_server().into()], &options)
            .await
            .expect("it listens");
        stream.send_all(&b"x"[..]).await.0.expect("sent");
        stream.recv().await.expect("answered");
        time::now() - begun
    });
    // There and back for the connection, there and back for the byte.
    assert_eq!(elapsed, Duration::from_secs(240));
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[test]
fn bandwidth_bounds_what_arrives() {
    const BYTES: usize = 1 << 20;
    let mut link = Link::perfect(MS(1));
    link.bandwidth_bytes_per_s = Some(1 << 20);
    let (_, elapsed) = over(link, async |_| {
        let mut talk = dial().await.expect("it listens");
        let begun = time::now();
        talk.round_trip(&Seeded::new(1).bytes(BYTES)).await;
        time::now() - begun
    });
    // Both directions at once, each a second, and the headers on top.
    assert!((MS(1_000)..MS(1_300)).contains(&elapsed), "{elapsed:?}");
}

#[test]
fn a_lossy_link_delays_streams_and_changes_no_byte() {
    let mut perfect = Link::perfect(MS(5));
    let round_trips = async |_| {
        let mut talk = dial().await.expect("it connects in the end");
        let mut seeded = Seeded::new(2);
        for size in [1, 100, 5_000, 100_000, 300_000] {
            talk.round_trip(&seeded.bytes(size)).await;
        }
        assert!(talk.finish().await.is_empty());
    };
    let fast = over(perfect, round_trips).0.elapsed;
    perfect.jitter = MS(5);
    for loss in [
        Loss::Random(0.2),
        Loss::GilbertElliott {
            to_bad: 0.1,
            to_good: 0.3,
            good: 0.01,
            bad: 0.8,
        },
    ] {
        let slow = over(Link { loss, ..perfect }, round_trips).0;
        assert!(
            slow.elapsed > fast + MS(200),
            "{fast:?} and {:?}",
            slow.elapsed
        );
        assert!(slow.log.to_string().contains("Lost"));
    }
}

#[test]
fn a_partition_is_sat_out_and_a_connect_gives_up() {
    let mut world = World::new(seed(), Link::perfect(MS(1)));
    world
        .server(SERVER, serving(1, Accept::Handoff), echo)
        .expect("starts");
    world.part(SERVER, CLIENT, MS(10)..MS(5_000));
    let (outcome, ()) = run_with(world, async |_| {
        let mut talk = dial().await.expect("it listens");
        talk.ping(b"before").await.expect("served");
        time::sleep(MS(20)).await; // tidy: sleep into the partition, in the world's time
        let begun = time::now();
        let options = connecting(MS(500));
        let error = Sim::connect(&[at_server().into()], &options)
            .await
            .map(drop)
            .expect_err("nothing goes through");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert_eq!(time::now() - begun, MS(500));
        talk.ping(b"through").await.expect("it comes later");
        assert!(time::now() - begun > MS(4_900));
        dial()
            .await
            .expect("healed")
            .ping(b"after")
            .await
            .expect("served");
    });
    let log = outcome.log.to_string();
    assert!(log.contains("Parted") && log.contains("Healed"), "{log}");
}

#[test]
fn a_partition_that_never_ends_fails_both_sides_with_time_outs() {
    let mut world = World::new(seed(), Link::perfect(MS(1)));
    let service = async |shard: Shard<Sim>| {
        let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
        let error = stream.send_all(vec![0; 1 << 20]).await.0;
        error.expect_err("nothing is acknowledged").kind()
    };
    let serving = world
        .server(SERVER, serving(1, Accept::Handoff), service)
        .expect("starts");
    world.part(SERVER, CLIENT, MS(10)..Duration::from_secs(100_000));
    let (mut outcome, kind) = run_with(world, async |_| {
        let mut talk = dial().await.expect("it listens");
        loop {
            match talk.read_some().await {
                Ok(bytes) => assert!(!bytes.is_empty()),
                Err(error) => return error.kind(),
            }
            time::sleep(MS(100)).await; // tidy: sleep so that not all came before the partition
        }
    });
    assert_eq!(kind, ErrorKind::TimedOut);
    let served = outcome.report(&serving).shards.remove(0).result;
    assert_eq!(served.expect("it ended"), ErrorKind::TimedOut);
}

#[test]
fn a_reset_is_seen_on_both_sides() {
    let mut world = World::new(seed(), Link::perfect(MS(1)));
    let service = async |shard: Shard<Sim>| {
        let (stream, _) = shard.incoming(0).next().await.expect("a client comes");
        let (mut recv, mut send) = stream.into_split();
        let error = recv.recv().await.map(drop).expect_err("it is reset");
        let sent = send.send_all(vec![1; 100]).await.0;
        (error.kind(), sent.expect_err("it is reset").kind())
    };
    let serving = world
        .server(SERVER, serving(1, Accept::Handoff), service)
        .expect("starts");
    world.sever(SERVER, CLIENT, MS(50));
    let (mut outcome, kind) = run_with(world, async |_| {
        let mut talk = dial().await.expect("it listens");
        let error = talk.read_some().await.expect_err("it is reset");
        let begun = time::now();
        assert!(talk.write(b"x").await.is_err() && talk.read_some().await.is_err());
        assert_eq!(time::now(), begun);
        error.kind()
    });
    assert_eq!(kind, ErrorKind::ConnectionReset);
    let served = outcome.report(&serving).shards.remove(0).result;
    let reset = ErrorKind::ConnectionReset;
    assert_eq!(served.expect("it ended"), (reset, reset));
}

#[test]
fn what_nobody_received_resets_the_peer() {
    let mut world = World::new(seed(), Link::perfect(MS(1)));
    let service = async |shard: Shard<Sim>| {
        let (stream, _) = shard.incoming(0).next().await.expect("a client comes");
        time::sleep(MS(10)).await; // tidy: sleep until what was sent has arrived, in the world's time
        drop(stream);
    };
    world
        .server(SERVER, serving(1, Accept::Handoff), service)
        .expect("starts");
    run_with(world, async |_| {
        let mut talk = dial().await.expect("it listens");
        talk.write(b"x").await.expect("sent");
        let error = talk.read_some().await.expect_err("it is reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    });
}

#[test]
fn nobody_there_is_refused_and_no_such_host_unreachable() {
    let (_, kinds) = over(Link::perfect(MS(1)), async |_| {
        let mut kinds = Vec::new();
        for text in [
            "10.0.0.1:1",
            "127.0.0.1:7000",
            "10.0.0.9:7000",
            "unix:/none",
        ] {
            let address: Address = text.parse().expect("an address");
            let error = Sim::connect(&[address], &connecting(LONG)).await;
            kinds.push(error.map(drop).expect_err("nobody is there").kind());
        }
        kinds
    });
    assert_eq!(
        kinds,
        [
            ErrorKind::ConnectionRefused,
            ErrorKind::ConnectionRefused,
            ErrorKind::HostUnreachable,
            ErrorKind::NotFound
        ]
    );
}

#[test]
fn a_full_backlog_takes_the_next_wish_once_there_is_room() {
    let mut world = World::new(seed(), Link::perfect(MS(1)));
    let go = Arc::new(Bell::default());
    let waiting = go.clone();
    let service = async move |shard: Shard<Sim>| {
        // Nothing is accepted while the inbox of the only shard is full; here: the endpoint is adopted late.
        let mut endpoint = Endpoint::tcp((SERVER, 80).into(), Accept::Handoff);
        endpoint.backlog = 2;
        let bound = Sim::bind(&endpoint, 1).expect("free").remove(0);
        waiting.rung(1).await;
        let mut listener = Sim::adopt_listener(bound).expect("adopted");
        let mut accepted = Vec::new();
        for _ in 0..3 {
            use shardloop::Listener;
            accepted.push(listener.accept().await.expect("accepted"));
        }
        drop(shard);
    };
    world.server(SERVER, Plan::new(1), service).expect("starts");
    run_with(world, async move |shard: Shard<Sim>| {
        time::yield_now().await;
        let connect = || async {
            let options = connecting(LONG);
            let to = [SocketAddr::from((SERVER, 80)).into()];
            let stream = Sim::connect(&to, &options).await.expect("in the end");
            (time::now(), stream)
        };
        time::sleep(MS(1)).await; // tidy: sleep until it listens, in the world's time
        let begun = time::now();
        let tasks = [0; 3].map(|_| shard.spawn(connect()));
        time::sleep(MS(100)).await; // tidy: sleep until the backlog is full, in the world's time
        go.ring();
        let mut took = Vec::new();
        for task in tasks {
            took.push(task.await.expect("no panic").0 - begun);
        }
        took.sort();
        assert_eq!(took[..2], [MS(2), MS(2)]);
        assert!(took[2] > MS(1_000), "{took:?}");
    });
}

#[test]
fn a_connect_that_is_dropped_leaves_nothing_open() {
    let mut world = World::new(seed(), Link::perfect(MS(1)));
    let serving = world
        .server(SERVER, serving(2, Accept::Handoff), echo)
        .expect("starts");
    let (mut outcome, made) = run_with(world, async |shard: Shard<Sim>| {
        let mut made = 0;
        for step in 0..60 {
            // Before the wish arrives, while its answer is on the way, and as it comes.
            let moment = time::sleep(Duration::from_micros(50 * step)); // tidy: sleep in the world's time
            match race(dial(), moment).await {
                Either::Left(talk) => made += u32::from(talk.is_ok()),
                Either::Right(()) => {}
            }
        }
        // And one that is made and dropped before anybody has looked: this task is woken before that one, and cancels it.
        let unseen = shard.spawn(dial());
        dial().await.expect("it listens");
        assert!(unseen.cancel().await.is_none());
        made
    });
    assert!((1..59).contains(&made), "{made}");
    let report = outcome.report(&serving);
    assert_eq!(report.tasks_cut_off(), 0, "all saw the end of their client");
    let open: u64 = report.shards.iter().map(|shard| shard.metrics.open()).sum();
    assert_eq!(open, 0);
}

#[test]
fn back_pressure_holds_the_sender() {
    let small = StreamOptions {
        nodelay: true,
        send_buffer_bytes: Some(8 << 10),
        receive_buffer_bytes: Some(8 << 10),
    };
    let mut world = World::new(seed(), Link::perfect(MS(1)));
    let mut plan = serving(1, Accept::Handoff);
    plan.endpoints[0].stream = small;
    let service = async |shard: Shard<Sim>| {
        let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
        time::sleep(MS(1_000)).await; // tidy: sleep so that the sender has to wait, in the world's time
        let mut all = 0;
        loop {
            let lease = stream.recv().await.expect("receiving works");
            if lease.is_empty() {
                return all;
            }
            all += lease.len();
        }
    };
    let serving = world.server(SERVER, plan, service).expect("starts");
    let (mut outcome, ()) = run_with(world, async move |_| {
        let options = ConnectOptions {
            stream: small,
            deadline: LONG,
        };
        let stream = Sim::connect(&[at_server().into()], &options).await;
        let mut stream = stream.expect("it listens");
        let begun = time::now();
        stream.send_all(vec![1; 10 << 10]).await.0.expect("sent");
        assert_eq!(time::now(), begun, "there was room");
        stream.send_all(vec![1; 20 << 10]).await.0.expect("sent");
        assert!(time::now() - begun >= MS(900), "it waited for room");
    });
    let served = outcome.report(&serving).shards.remove(0).result;
    assert_eq!(served.expect("it ended"), 30 << 10);
}

#[test]
fn received_bytes_are_cut_at_random() {
    let sizes = Rc::new(RefCell::new(BTreeMap::<usize, u32>::new()));
    let counted = sizes.clone();
    over(Link::perfect(MS(1)), async move |_| {
        let stream = Sim::connect(&[at_server().into()], &connecting(LONG)).await;
        let (mut recv, mut send) = stream.expect("it listens").into_split();
        let bytes = Seeded::new(3).bytes(6_000_000);
        let expected = bytes.clone();
        spawn(async move {
            send.send_all(bytes).await.0.expect("sent");
            send.shutdown_write().await.expect("closed");
        })
        .detach();
        let mut all = Vec::new();
        loop {
            let lease = recv.recv().await.expect("received");
            if lease.is_empty() {
                break;
            }
            *counted.borrow_mut().entry(lease.len()).or_default() += 1;
            all.extend_from_slice(&lease);
        }
        assert!(all == expected);
    });
    let sizes = sizes.borrow();
    assert!(sizes.contains_key(&1), "{sizes:?}");
    assert!(sizes.contains_key(&(4 << 10)), "{sizes:?}");
    assert!(sizes.len() > 10, "{sizes:?}");
    assert!(*sizes.keys().max().expect("some") <= 256 << 10);
}

#[test]
fn unix_paths_are_names_within_a_host() {
    let mut world = World::new(seed(), Link::perfect(MS(1)));
    let plan = Plan::new(2).endpoint(Endpoint::unix("/run/echo.sock"));
    world.server(SERVER, plan.clone(), echo).expect("starts");
    let again = world.server(SERVER, plan, echo);
    assert!(matches!(again, Err(LaunchError::Bind(error)) if error.is_in_use()));
    let there = world
        .client(SERVER, Plan::new(1), async |_| {
            let address = Address::unix("/run/echo.sock");
            let mut talk = Talk::<Sim>::try_to(&address).await.expect("it listens");
            talk.round_trip(&Seeded::new(4).bytes(100_000)).await;
        })
        .expect("starts");
    let (mut outcome, kind) = run_with(world, async |_| {
        let address = Address::unix("/run/echo.sock");
        let error = Talk::<Sim>::try_to(&address).await;
        error.map(drop).expect_err("not on this host").kind()
    });
    assert_eq!(kind, ErrorKind::NotFound);
    let shard = outcome.report(&there).shards.remove(0);
    shard.result.expect("served");
}

#[test]
fn addresses_are_checked_when_they_are_bound() {
    let mut world = World::new(seed(), Link::loopback());
    let bind = |world: &mut World, text: &str| {
        let address = text.parse().expect("an address");
        let plan = Plan::new(1).endpoint(Endpoint::tcp(address, Accept::Handoff));
        match world.server(SERVER, plan, async |_| ()) {
            Ok(host) => Ok(host.addresses()[0].inet().expect("TCP")),
            Err(LaunchError::Bind(BindError::Inet(error))) => Err(error.cause),
            Err(error) => panic!("{error}"),
        }
    };
    assert!(bind(&mut world, "10.0.0.1:80").is_ok());
    assert_eq!(bind(&mut world, "10.0.0.1:80"), Err(BindCause::InUse));
    assert_eq!(bind(&mut world, "0.0.0.0:80"), Err(BindCause::InUse));
    assert_eq!(bind(&mut world, "10.0.0.2:80"), Err(BindCause::NotThisHost));
    assert!(bind(&mut world, "127.0.0.1:80").is_ok());
    assert_ne!(
        bind(&mut world, "0.0.0.0:0").expect("a free port").port(),
        0
    );
    world.run().verdict().expect("all end");
}

/// Counts what comes, as what came before it, until the shard is asked to end.
async fn count_datagrams(shard: Shard<Sim>) -> (Vec<u64>, u64) {
    let mut socket = shard.datagrams(0).expect("not taken");
    let mut batch = Batch::new(8, 2_000);
    let mut seen = Vec::new();
    while let Either::Left(result) = race(socket.recv(&mut batch), shard.stopping()).await {
        result.expect("received");
        for datagram in batch.iter_mut() {
            let number = datagram.bytes[..8].try_into().expect("eight bytes");
            seen.push(u64::from_le_bytes(number));
        }
    }
    (seen, socket.dropped().expect("a world tells"))
}

/// Sends `count` numbered datagrams, some at a time, over `link`, and returns what came and what was dropped.
fn numbered(link: Link, count: u64, at_once: u64) -> (Vec<u64>, u64) {
    let mut world = World::new(seed(), link);
    let plan = Plan::new(1).datagrams(DatagramEndpoint::udp(at_server()));
    let serving = world.server(SERVER, plan, count_datagrams).expect("starts");
    let (mut outcome, ()) = run_with(world, async move |_| {
        let mut socket = client_socket();
        let mut outbox = Outbox::new();
        for number in 0..count {
            let mut bytes = number.to_le_bytes().to_vec();
            bytes.resize(1_000, 0);
            outbox.push(at_server(), &bytes);
            if number % at_once == at_once - 1 {
                socket.send(&mut outbox).await.expect("sent");
                time::sleep(MS(10)).await; // tidy: sleep between two bursts, in the world's time
            }
        }
        time::sleep(MS(1_000)).await; // tidy: sleep until all has arrived, in the world's time
    });
    let shard = outcome.report(&serving).shards.remove(0);
    shard.result.expect("it ended")
}

fn client_socket() -> <Sim as Backend>::Datagram {
    let endpoint = DatagramEndpoint::udp((CLIENT, 0).into());
    let bound = Sim::bind_datagram(&endpoint, 1).expect("a free port");
    let bound = bound.into_iter().next().expect("one");
    Sim::adopt_datagram(bound).expect("adopted")
}

#[test]
fn datagrams_are_lost_doubled_and_overtaken_as_the_link_says() {
    let perfect = Link::perfect(MS(1));
    let (seen, dropped) = numbered(perfect, 1_000, 10);
    assert!(seen.iter().copied().eq(0..1_000) && dropped == 0);
    let loss = Loss::Random(0.1);
    let (seen, _) = numbered(Link { loss, ..perfect }, 1_000, 10);
    assert!((850..950).contains(&seen.len()), "{}", seen.len());
    assert!(seen.is_sorted());
    let duplicate = 0.1;
    let (seen, _) = numbered(
        Link {
            duplicate,
            ..perfect
        },
        1_000,
        10,
    );
    assert!((1_050..1_150).contains(&seen.len()), "{}", seen.len());
    let overtaken = Link {
        reorder: 0.1,
        reorder_by: MS(30),
        ..perfect
    };
    let (mut seen, _) = numbered(overtaken, 1_000, 10);
    assert!(!seen.is_sorted());
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(0..1_000));
}

#[test]
fn datagrams_without_room_are_dropped_and_counted() {
    let (seen, dropped) = numbered(Link::perfect(MS(1)), 1_000, 1_000);
    // All arrive at one moment, and the buffer holds so many.
    assert_eq!(seen.len() as u64 + dropped, 1_000);
    assert_eq!(seen.len(), 212_992 / 1_064);
    let slow = Link {
        bandwidth_bytes_per_s: Some(1_000_000),
        ..Link::perfect(MS(1))
    };
    let (seen, dropped) = numbered(slow, 1_000, 1_000);
    // They queue up before the link, as far as there is room.
    assert_eq!(dropped, 0);
    assert!((262..=265).contains(&seen.len()), "{}", seen.len());
}

#[test]
fn datagrams_keep_their_bounds_and_say_where_they_came_from() {
    let mut world = World::new(seed(), Link::perfect(MS(1)));
    let plan = Plan::new(1).datagrams(DatagramEndpoint::udp(([0, 0, 0, 0], 7_000).into()));
    let service = async |shard: Shard<Sim>| {
        let mut socket = shard.datagrams(0).expect("not taken");
        let mut batch = Batch::new(4, 100);
        let mut outbox = Outbox::new();
        while let Either::Left(result) = race(socket.recv(&mut batch), shard.stopping()).await {
            result.expect("received");
            for datagram in batch.iter_mut() {
                outbox.push(datagram.from, &[u8::from(datagram.truncated)]);
                outbox.push(datagram.from, datagram.bytes);
            }
            socket.send(&mut outbox).await.expect("sent");
        }
    };
    world.server(SERVER, plan, service).expect("starts");
    run_with(world, async |_| {
        let mut socket = client_socket();
        let mut outbox = Outbox::new();
        let mut batch = Batch::new(1, 1_000);
        for size in [0, 1, 100, 101, 60_000] {
            outbox.push(at_server(), &vec![7; size]);
            socket.send(&mut outbox).await.expect("sent");
            socket.recv(&mut batch).await.expect("answered");
            let first = batch.iter_mut().next().expect("one");
            assert_eq!(first.from, at_server(), "from the host's own address");
            assert_eq!(first.bytes, [u8::from(size > 100)]);
            socket.recv(&mut batch).await.expect("answered");
            let second = batch.iter_mut().next().expect("one");
            assert_eq!(second.bytes, vec![7; size.min(100)]);
        }
        outbox.push(at_server(), &[0; 65_508]);
        outbox.push(at_server(), b"behind it");
        let error = socket.send(&mut outbox).await.expect_err("too long");
        assert_eq!(error.to, at_server());
        assert_eq!(outbox.len(), 1, "the next is still there");
        socket.send(&mut outbox).await.expect("sent");
        // Dropped and received: nothing is lost by it.
        for _ in 0..3 {
            let early = race(socket.recv(&mut batch), time::yield_now()).await;
            assert!(matches!(early, Either::Right(())));
        }
        socket.recv(&mut batch).await.expect("answered");
    });
}

#[test]
fn datagrams_of_one_sender_stay_on_one_shard() {
    for accept in [Accept::ReusePort, Accept::Handoff] {
        let mut world = World::new(seed(), Link::perfect(MS(1)));
        let mut endpoint = DatagramEndpoint::udp(at_server());
        endpoint.accept = accept;
        let service = async |shard: Shard<Sim>| {
            let mut socket = shard.datagrams(0).expect("not taken");
            let mut batch = Batch::new(4, 100);
            let mut outbox = Outbox::new();
            while let Either::Left(result) = race(socket.recv(&mut batch), shard.stopping()).await {
                result.expect("received");
                for datagram in batch.iter_mut() {
                    let index = u8::try_from(shard.index()).expect("small");
                    outbox.push(datagram.from, &[index]);
                }
                socket.send(&mut outbox).await.expect("sent");
            }
        };
        let plan = Plan::new(3).datagrams(endpoint);
        world.server(SERVER, plan, service).expect("starts");
        let (_, shards) = run_with(world, async |_| {
            let mut shards = [0; 3];
            for _ in 0..60 {
                let mut socket = client_socket();
                let (mut outbox, mut batch) = (Outbox::new(), Batch::new(1, 100));
                let mut answers = Vec::new();
                for _ in 0..3 {
                    outbox.push(at_server(), b"who");
                    socket.send(&mut outbox).await.expect("sent");
                    socket.recv(&mut batch).await.expect("answered");
                    answers.push(batch.iter_mut().next().expect("one").bytes[0]);
                }
                assert!(answers.iter().all(|shard| *shard == answers[0]));
                shards[usize::from(answers[0])] += 1;
            }
            shards
        });
        assert!(
            shards.iter().all(|count| *count > 5),
            "{accept}: {shards:?}"
        );
    }
}

/// A lossy network on which connections are reset and hosts parted.
fn hostile(seed: u64) -> World {
    let mut seeded = Seeded::new(seed);
    let mut link = Link::perfect(MS(1 + seeded.below(20)));
    link.jitter = MS(seeded.below(20));
    link.loss = match seeded.below(3) {
        0 => Loss::None,
        1 => Loss::Random(0.05),
        _ => Loss::GilbertElliott {
            to_bad: 0.05,
            to_good: 0.3,
            good: 0.0,
            bad: 0.7,
        },
    };
    link.reset = 0.02;
    let mut world = World::new(seed, link);
    for _ in 0..seeded.below(3) {
        let from = MS(seeded.below(3_000));
        world.part(SERVER, CLIENT, from..from + MS(1 + seeded.below(3_000)));
    }
    for _ in 0..seeded.below(3) {
        world.sever(SERVER, CLIENT, MS(seeded.below(3_000)));
    }
    world
}

/// Longer than any retransmission can take: a connection that is silent for that long has not failed, and something is missing.
const SILENCE: Duration = Duration::from_secs(3_600);

/// Sends messages one after the other to an echo, each until it has come back whole; connects anew whenever the network fails.
/// Returns how often it connected.
async fn persist(messages: usize, seed: u64) -> u32 {
    let mut seeded = Seeded::new(seed);
    let mut connections = 0;
    let mut left = messages;
    while left > 0 {
        let options = connecting(Duration::from_secs(20));
        let Ok(stream) = Sim::connect(&[at_server().into()], &options).await else {
            continue;
        };
        connections += 1;
        let mut talk = Talk::<Sim>::on(stream);
        while left > 0 {
            let size = 1 + usize::try_from(seeded.below(3_000)).expect("small");
            // `ping` panics if what comes back is not what was sent.
            let answer = time::timeout(SILENCE, talk.ping(&seeded.bytes(size))).await;
            if answer.expect("an answer, or an error").is_err() {
                break;
            }
            left -= 1;
        }
        if left == 0
            && let Ok(rest) = talk.try_finish().await
        {
            // What comes after the last answer was sent once too often.
            assert!(rest.is_empty(), "more came back than was sent");
        }
    }
    connections
}

/// A hostile world with an echo, which `serve` is, and two clients that persist.
fn trial(seed: u64, serve: impl AsyncFn(Shard<Sim>) + Clone + 'static) -> Outcome {
    let mut world = hostile(seed);
    let accept = if seed.is_multiple_of(2) {
        Accept::Handoff
    } else {
        Accept::ReusePort
    };
    let mut plan = serving(2, accept);
    plan.drain = MS(1_000);
    world.server(SERVER, plan, serve).expect("starts");
    let client = async move |shard: Shard<Sim>| {
        persist(5, seed + shard.index() as u64).await;
    };
    world.client(CLIENT, Plan::new(2), client).expect("starts");
    world.run()
}

#[test]
fn the_same_seed_gives_the_same_log_and_others_give_others() {
    let logs: Vec<_> = (0..20).map(|seed| trial(seed, echo).log).collect();
    for (seed, log) in (0..20).zip(&logs) {
        let again = trial(seed, echo).log;
        assert!(again.to_string() == log.to_string(), "seed {seed} differs");
        assert_eq!(again.digest(), log.digest());
        assert!(!log.is_empty());
    }
    let mut digests: Vec<_> = logs.iter().map(shardloop::sim::Log::digest).collect();
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 20);
}

/// Worlds of the property below: seconds of this machine, hours of theirs.
const SEEDS: u64 = if cfg!(debug_assertions) {
    2_000
} else {
    10_000
};

#[test]
fn nothing_that_was_acknowledged_is_lost_changed_or_doubled() {
    let elapsed = Cell::new(Duration::ZERO);
    check(0..SEEDS, |seed| {
        let outcome = trial(seed, echo);
        elapsed.set(elapsed.get() + outcome.elapsed);
        outcome.verdict()
    });
    eprintln!("{:?} of virtual time", elapsed.get());
}

/// An echo with a fault: what it receives in two or more pieces within one turn it sends back without a byte.
async fn forgetful(shard: Shard<Sim>) {
    let mut incoming = shard.incoming(0);
    while let Some((mut stream, _)) = incoming.next().await {
        let connection = async move {
            while let Ok(mut lease) = stream.recv().await {
                if lease.is_empty() {
                    return;
                }
                if lease.len() > 1 && lease.len() % 64 == 0 {
                    lease.advance(1);
                }
                if stream.send_all(lease).await.0.is_err() {
                    return;
                }
            }
        };
        shard.spawn(connection).detach();
    }
}

#[test]
fn a_service_that_drops_a_byte_is_found_and_its_seed_named() {
    let failed = AssertUnwindSafe(|| check(0..SEEDS, |seed| trial(seed, forgetful).verdict()));
    let message = catch_unwind(failed).expect_err("some seed finds it");
    let message = message.downcast_ref::<String>().expect("a text");
    let seed = message
        .strip_prefix("seed ")
        .and_then(|rest| rest.split_once(' '))
        .and_then(|(seed, _)| seed.parse().ok())
        .unwrap_or_else(|| panic!("no seed is named: {message}"));
    assert!(
        message.contains(&format!("SHARDLOOP_SEED={seed}")),
        "{message}"
    );
    // And that seed alone shows it again.
    let again = trial(seed, forgetful)
        .verdict()
        .expect_err("the same again");
    assert!(matches!(again, Fault::Panic(_)), "{again:?}");
    trial(seed, echo)
        .verdict()
        .expect("without the fault it is well");
}

#[test]
fn a_world_that_stands_still_or_goes_on_for_ever_is_found_out() {
    let mut world = World::new(seed(), Link::loopback());
    let stuck = world
        .client(CLIENT, Plan::new(1), async |_| {
            std::future::pending::<()>().await
        })
        .expect("starts");
    let mut outcome = world.run();
    assert_eq!(outcome.verdict(), Err(Fault::Stalled));
    assert!(outcome.report(&stuck).shards[0].result.is_err());
    let mut world = World::new(seed(), Link::loopback());
    world.limit(Duration::from_secs(10));
    let ticking = async |_| {
        loop {
            time::sleep(MS(1)).await; // tidy: sleep for ever, in the world's time
        }
    };
    world
        .client::<()>(CLIENT, Plan::new(1), ticking)
        .expect("starts");
    let outcome = world.run();
    assert_eq!(outcome.verdict(), Err(Fault::OutOfTime));
    assert!(outcome.elapsed < Duration::from_secs(11));
}

#[test]
fn a_panic_explains_more_than_what_it_led_to() {
    let mut world = World::new(seed(), Link::loopback());
    world
        .client::<()>(CLIENT, Plan::new(2), async |shard| {
            assert_ne!(shard.index(), 1, "one gives up");
        })
        .expect("starts");
    let verdict = world.run().verdict().expect_err("a panic");
    assert!(verdict.to_string().contains("one gives up"), "{verdict}");
}

/// Shards of different plans run in an order that the seed draws.
#[test]
fn the_order_of_shards_is_drawn_from_the_seed() {
    let order = |seed| {
        let mut world = World::new(seed, Link::loopback());
        let order = Rc::new(RefCell::new(Vec::new()));
        let noted = order.clone();
        let service = async move |shard: Shard<Sim>| {
            for _ in 0..4 {
                noted.borrow_mut().push(shard.index());
                time::sleep(MS(1)).await; // tidy: sleep so that all are ready at once, in the world's time
            }
        };
        world.client(CLIENT, Plan::new(4), service).expect("starts");
        world.run().verdict().expect("they end");
        order.take()
    };
    assert_eq!(order(1), order(1));
    let orders: Vec<_> = (0..10).map(order).collect();
    assert!(orders.iter().any(|other| *other != orders[0]));
}

/// Idle connections keep nothing of the shard's but what they cost themselves, and time-outs do not drift.
#[test]
fn a_ticker_is_never_late_beside_a_busy_connection() {
    let (_, late) = over(Link::perfect(MS(3)), async |shard: Shard<Sim>| {
        let late = Rc::new(Cell::new(Duration::ZERO));
        let noted = late.clone();
        let ticker = shard.spawn(async move {
            loop {
                let due = time::now() + MS(1);
                time::sleep(MS(1)).await; // tidy: sleep this is the ticker
                noted.set(noted.get().max(time::now() - due));
            }
        });
        let mut talk = dial().await.expect("it listens");
        for _ in 0..20 {
            talk.round_trip(&vec![7; 200_000]).await;
        }
        ticker.cancel().await;
        late.get()
    });
    assert!(late < MS(1), "{late:?}");
}

#[test]
fn what_connections_are_set_to_is_kept() {
    // The usual buffers take 256 KiB before a send waits.
    let (_, waited) = over(Link::perfect(MS(1)), async |_| {
        let stream = Sim::connect(&[at_server().into()], &connecting(LONG)).await;
        let mut stream = stream.expect("it listens");
        let begun = time::now();
        stream.send_all(vec![0; 256 << 10]).await.0.expect("sent");
        assert_eq!(STREAM.send_buffer_bytes, None);
        time::now() - begun
    });
    assert_eq!(waited, Duration::ZERO);
}

/// In a process of its own, whose environment is not everybody's.
#[test]
fn a_seed_that_is_none_is_refused() {
    let test = concat!(module_path!(), "::a_seed_that_is_none_is_refused");
    crate::watchdog::watch(test, || {
        let Some(mut command) = crate::engine::again(None) else {
            let refused = launch::<Sim, _>(Plan::new(1), async |_| ());
            let Err(error @ LaunchError::Unavailable(_)) = refused else {
                panic!("{refused:?}")
            };
            assert!(
                error.to_string().contains("SHARDLOOP_SEED=often"),
                "{error}"
            );
            let refused = Sim::run(&EngineOptions::default(), || async {});
            assert!(refused.is_err());
            return;
        };
        let output = command.env(sim::SEED_VARIABLE, "often").output();
        let output = output.expect("the test binary can be started again");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1 passed"), "{output:?}");
    });
}
