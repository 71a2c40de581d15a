//! What every engine's connections do alike.

use crate::{
    client::{self, Seeded},
    engine::{self, echo, finish, on_every_engine, on_shard, plan, skip},
    watchdog::until,
};
use shardloop::{
    Accept, Address, Backend, ConnectOptions, Either, Endpoint, Lease, Plan, RecvHalf, SendHalf,
    Shard, Stream, StreamOptions, launch, race, time,
};
use shardloop_platform::usage;
use std::{
    future::{Future, poll_fn},
    io::{ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

on_every_engine!(
    echo_all_sizes_over_ipv4,
    echo_all_sizes_over_ipv6,
    client_closes_its_side_first_and_still_gets_everything,
    server_closes_its_side_first_and_still_receives,
    slow_reader_of_64_mib_is_held_back_and_served_whole,
    connect_reaches_a_listener,
    connect_to_a_refused_port_is_an_error,
    connect_falls_through_to_the_address_that_answers,
    connect_gives_up_at_its_deadline,
    both_halves_work_in_two_tasks,
    split_takes_a_receive_under_way_along,
    receive_begun_in_one_task_ends_in_another,
    dropped_send_all_makes_sending_an_error,
    every_kind_of_bytes_is_sent,
    end_of_stream_is_an_empty_lease_every_time,
    peer_reset_is_an_error,
    bursts_get_larger_leases,
    idle_large_receive_is_shrunk_and_loses_nothing,
    given_up_large_receive_is_shrunk_and_loses_nothing,
);

/// What the connections of these tests are set to.
const STREAM: StreamOptions = StreamOptions {
    nodelay: true,
    send_buffer_bytes: None,
    receive_buffer_bytes: None,
};

fn connecting(deadline: Duration) -> ConnectOptions {
    ConnectOptions {
        stream: STREAM,
        deadline,
    }
}

fn echo_all_sizes<B: Backend>(address: SocketAddr) {
    let plan = Plan::new(1).endpoint(Endpoint::tcp(address, Accept::Handoff));
    let running = launch::<B, _>(plan, echo).expect("starts");
    let stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
    let mut seeded = Seeded::new(1);
    let mut sizes = vec![1, 2, 3, 1 << 20];
    for power in 6..20 {
        let size = 1 << power;
        sizes.extend([size - 1, size, size + 1]);
    }
    for size in sizes {
        client::round_trip(&stream, &seeded.bytes(size));
    }
    assert!(
        client::finish(&stream).is_empty(),
        "more came back than was sent"
    );
    finish(running);
}

fn echo_all_sizes_over_ipv4<B: Backend>() {
    echo_all_sizes::<B>(engine::v4());
}

fn echo_all_sizes_over_ipv6<B: Backend>() {
    if TcpListener::bind(engine::v6()).is_err() {
        return skip(B::NAME, "this host has no IPv6");
    }
    echo_all_sizes::<B>(engine::v6());
}

fn client_closes_its_side_first_and_still_gets_everything<B: Backend>() {
    /// Receives all before it sends the first byte back.
    async fn hoard<B: Backend>(shard: Shard<B>) {
        let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
        let mut all = Vec::new();
        loop {
            let lease = stream.recv().await.expect("receiving works");
            if lease.is_empty() {
                break;
            }
            all.extend_from_slice(&lease);
        }
        stream
            .send_all(all)
            .await
            .0
            .expect("sending works after the peer has closed its side");
    }
    let running = launch::<B, _>(plan(1, Accept::Handoff), hoard).expect("starts");
    let stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
    let bytes = Seeded::new(2).bytes(300_000);
    (&stream).write_all(&bytes).expect("the server reads");
    assert!(client::finish(&stream) == bytes);
    finish(running);
}

fn server_closes_its_side_first_and_still_receives<B: Backend>() {
    async fn service<B: Backend>(shard: Shard<B>) -> Vec<u8> {
        let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
        stream
            .send_all(&b"hello"[..])
            .await
            .0
            .expect("sending works");
        stream
            .shutdown_write()
            .await
            .expect("a connection can be half closed");
        stream
            .send_all(&b"late"[..])
            .await
            .0
            .expect_err("nothing can be sent after that");
        let mut all = Vec::new();
        loop {
            let lease = stream.recv().await.expect("receiving works");
            if lease.is_empty() {
                return all;
            }
            all.extend_from_slice(&lease);
        }
    }
    let running = launch::<B, _>(plan(1, Accept::Handoff), service).expect("starts");
    let mut stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
    let mut greeting = Vec::new();
    stream
        .read_to_end(&mut greeting)
        .expect("the server closes its side");
    assert_eq!(greeting, b"hello");
    let bytes = Seeded::new(3).bytes(300_000);
    stream.write_all(&bytes).expect("the server still reads");
    stream
        .shutdown(Shutdown::Write)
        .expect("a connection can be half closed");
    let report = running.wait();
    engine::assert_clean(&report);
    let received = report.shards.into_iter().next().map(|shard| shard.result);
    assert!(received.expect("one shard").expect("no panic") == bytes);
}

/// In a process of its own, for its memory is measured.
fn slow_reader_of_64_mib_is_held_back_and_served_whole<B: Backend>() {
    const TOTAL: usize = 64 << 20;
    const PIECE: usize = 64 << 10;
    engine::alone(None, || {
        let received = Arc::new(AtomicU64::new(0));
        let counter = received.clone();
        let service = async move |shard: Shard<B>| {
            let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
            while let Ok(lease) = stream.recv().await {
                counter.fetch_add(lease.len() as u64, Ordering::Relaxed);
                if lease.is_empty() || stream.send_all(lease).await.0.is_err() {
                    break;
                }
            }
        };
        let mut plan = plan(1, Accept::Handoff);
        // Small, so that most of the data has to wait in the client.
        plan.endpoints[0].stream = StreamOptions {
            nodelay: true,
            send_buffer_bytes: Some(64 << 10),
            receive_buffer_bytes: Some(64 << 10),
        };
        let running = launch::<B, _>(plan, service).expect("starts");
        let stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
        let before = usage::memory(None)
            .expect("this process has memory")
            .resident_bytes;
        let sent = AtomicU64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut seeded = Seeded::new(4);
                for _ in 0..TOTAL / PIECE {
                    (&stream)
                        .write_all(&seeded.bytes(PIECE))
                        .expect("the server takes it in the end");
                    sent.fetch_add(PIECE as u64, Ordering::Relaxed);
                }
                stream
                    .shutdown(Shutdown::Write)
                    .expect("a connection can be half closed");
            });
            // All has come to a halt, because we do not read: both counters stand still.
            let mut last = (u64::MAX, u64::MAX);
            let mut still = 0;
            until("the server stops reading", || {
                let now = (
                    sent.load(Ordering::Relaxed),
                    received.load(Ordering::Relaxed),
                );
                still = if now == last && now.1 > 0 {
                    still + 1
                } else {
                    0
                };
                last = now;
                still == 300
            });
            assert!(
                last.1 < TOTAL as u64 / 2,
                "the server took {} bytes although nobody read its answers",
                last.1
            );
            let mut seeded = Seeded::new(4);
            let mut piece = vec![0; PIECE];
            for number in 0..TOTAL / PIECE {
                (&stream).read_exact(&mut piece).expect("the echo goes on");
                assert!(
                    piece == seeded.bytes(PIECE),
                    "piece {number} is not what was sent"
                );
            }
            assert_eq!((&stream).read(&mut piece).expect("then it ends"), 0);
        });
        let after = usage::memory(None)
            .expect("this process has memory")
            .resident_bytes;
        assert!(
            after < before + (16 << 20),
            "{before} bytes of memory before, {after} after"
        );
        let report = finish(running);
        let peak = report.shards[0].metrics.lease_bytes_peak;
        assert!(
            peak <= 256 << 10,
            "one connection held {peak} bytes of leases"
        );
    });
}

fn connect_reaches_a_listener<B: Backend>() {
    let listener = TcpListener::bind(engine::v4()).expect("a free port");
    let address = listener.local_addr().expect("bound");
    let peer = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("the shard comes");
        let mut first = [0; 5];
        (&stream).read_exact(&mut first).expect("the shard sends");
        (&stream).write_all(&first).expect("the shard reads");
    });
    on_shard::<B, _>(async move |_| {
        let mut stream = B::connect(&[address.into()], &connecting(Duration::MAX))
            .await
            .expect("it listens");
        stream
            .send_all(b"hello".to_vec())
            .await
            .0
            .expect("it reads");
        assert_eq!(&*stream.recv().await.expect("it answers"), b"hello");
    });
    peer.join().expect("the peer is content");
}

/// A port that nobody listens on: bound, so that nobody else gets it, but not listening.
fn refused() -> (socket2::Socket, SocketAddr) {
    let socket =
        socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).expect("a socket");
    socket.bind(&engine::v4().into()).expect("a free port");
    let address = socket
        .local_addr()
        .expect("bound")
        .as_socket()
        .expect("an IPv4 address");
    (socket, address)
}

fn connect_to_a_refused_port_is_an_error<B: Backend>() {
    let (_held, address) = refused();
    on_shard::<B, _>(async move |_| {
        let error = B::connect(&[address.into()], &connecting(Duration::from_secs(60)))
            .await
            .map(drop)
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let error = B::connect(&[], &connecting(Duration::from_secs(60)))
            .await
            .map(drop)
            .expect_err("no address");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

fn connect_falls_through_to_the_address_that_answers<B: Backend>() {
    let (_held, dead) = refused();
    let (_held_too, dead_too) = refused();
    let running = launch::<B, _>(plan(1, Accept::Handoff), echo).expect("starts");
    let alive = running.addresses()[0].inet().expect("a TCP endpoint");
    on_shard::<B, _>(async move |_| {
        let addresses = [dead, dead_too, alive].map(Address::from);
        let mut stream = B::connect(&addresses, &connecting(Duration::from_secs(60)))
            .await
            .expect("the third answers");
        stream.send_all(&b"?"[..]).await.0.expect("it reads");
        assert_eq!(&*stream.recv().await.expect("it answers"), b"?");
    });
    finish(running);
}

fn connect_gives_up_at_its_deadline<B: Backend>() {
    let deaf = client::Deaf::new();
    if !deaf.is_full() {
        return skip(B::NAME, "this host's backlog does not fill");
    }
    let address = deaf.address;
    on_shard::<B, _>(async move |_| {
        let error = B::connect(
            &[address.into(), address.into()],
            &connecting(Duration::from_millis(50)),
        )
        .await
        .map(drop)
        .expect_err("nobody accepts");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    });
}

fn both_halves_work_in_two_tasks<B: Backend>() {
    const TOTAL: usize = 1 << 20;
    async fn service<B: Backend>(shard: Shard<B>) {
        let (stream, _) = shard.incoming(0).next().await.expect("a client comes");
        let (mut recv, mut send) = stream.into_split();
        let sender = shard.spawn(async move {
            let mut seeded = Seeded::new(5);
            for _ in 0..TOTAL / 4096 {
                send.send_all(seeded.bytes(4096))
                    .await
                    .0
                    .expect("the client reads");
            }
            // Dropping the sending half closes that side.
        });
        let receiver = shard.spawn(async move {
            let mut all = Vec::new();
            loop {
                let lease = recv.recv().await.expect("receiving works");
                if lease.is_empty() {
                    return all;
                }
                all.extend_from_slice(&lease);
            }
        });
        assert!(receiver.await.expect("no panic") == Seeded::new(6).bytes(TOTAL));
        sender.await.expect("no panic");
    }
    let running = launch::<B, _>(plan(1, Accept::Handoff), service).expect("starts");
    let stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
    thread::scope(|scope| {
        scope.spawn(|| {
            (&stream)
                .write_all(&Seeded::new(6).bytes(TOTAL))
                .expect("the server reads");
            stream
                .shutdown(Shutdown::Write)
                .expect("a connection can be half closed");
        });
        let mut all = Vec::new();
        (&stream)
            .read_to_end(&mut all)
            .expect("the server closes its side");
        assert!(all == Seeded::new(5).bytes(TOTAL));
    });
    let report = running.wait();
    engine::assert_clean(&report);
    report.shards[0].result.as_ref().expect("no panic");
}

fn split_takes_a_receive_under_way_along<B: Backend>() {
    let (go, waiting) = mpsc::channel();
    let service = async move |shard: Shard<B>| {
        let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
        let early = race(stream.recv(), time::yield_now()).await;
        assert!(matches!(early, Either::Right(())), "nothing was sent yet");
        let (mut recv, mut send) = stream.into_split();
        go.send(()).expect("the client waits");
        let lease = recv.recv().await.expect("receiving works");
        send.send_all(lease).await.0.expect("sending works");
    };
    let running = launch::<B, _>(plan(1, Accept::Handoff), service).expect("starts");
    let stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
    waiting.recv().expect("the server gets there");
    client::ping(&stream, b"abc").expect("the server answers");
    let report = running.wait();
    engine::assert_clean(&report);
    report.shards[0].result.as_ref().expect("no panic");
}

/// The task that polled last is the one that is woken.
fn receive_begun_in_one_task_ends_in_another<B: Backend>() {
    let (go, waiting) = mpsc::channel();
    let service = async move |shard: Shard<B>| {
        let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
        for _ in 0..10 {
            let begun = shard.spawn(async move {
                let nothing = race(stream.recv(), time::yield_now()).await;
                assert!(matches!(nothing, Either::Right(())));
                stream
            });
            let mut begun = begun.await.expect("no panic");
            let go = go.clone();
            let ended = shard.spawn(async move {
                {
                    let mut receive = pin!(begun.recv());
                    let mut said = false;
                    let lease = poll_fn(|cx| {
                        let poll = receive.as_mut().poll(cx);
                        if !std::mem::replace(&mut said, true) {
                            go.send(()).expect("the client waits");
                        }
                        poll
                    })
                    .await;
                    assert_eq!(&*lease.expect("receiving works"), b"abc");
                }
                begun
            });
            stream = ended.await.expect("no panic");
        }
    };
    let running = launch::<B, _>(plan(1, Accept::Handoff), service).expect("starts");
    let mut stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
    while waiting.recv().is_ok() {
        stream.write_all(b"abc").expect("the server reads");
    }
    let report = running.wait();
    engine::assert_clean(&report);
    report.shards[0].result.as_ref().expect("no panic");
}

fn dropped_send_all_makes_sending_an_error<B: Backend>() {
    async fn service<B: Backend>(shard: Shard<B>) {
        let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
        // More than any socket buffer takes, to a peer that does not read.
        let given_up = time::timeout(
            Duration::from_millis(20),
            stream.send_all(vec![7; 64 << 20]),
        )
        .await;
        assert!(
            given_up.is_err(),
            "64 MiB went to a peer that does not read"
        );
        for _ in 0..2 {
            let (result, bytes) = stream.send_all(b"more".to_vec()).await;
            let error = result.expect_err("sending is over");
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
            assert!(
                error.to_string().contains("dropped before it finished"),
                "{error}"
            );
            assert_eq!(bytes, b"more", "the bytes come back all the same");
        }
        // Receiving goes on.
        assert_eq!(
            &*stream.recv().await.expect("receiving works"),
            b"still here"
        );
    }
    let running = launch::<B, _>(plan(1, Accept::Handoff), service).expect("starts");
    let stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
    (&stream)
        .write_all(b"still here")
        .expect("the server's buffer takes it");
    let report = running.wait();
    engine::assert_clean(&report);
    report.shards[0].result.as_ref().expect("no panic");
}

fn every_kind_of_bytes_is_sent<B: Backend>()
where
    B::Stream: RecvHalf<Lease = Lease>,
{
    let running = launch::<B, _>(plan(1, Accept::Handoff), async |shard: Shard<B>| {
        let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
        let mut lease = stream.recv().await.expect("receiving works");
        assert_eq!(&*lease, b"0123456789");
        lease[4] = b'x';
        lease.advance(3);
        lease.truncate(4);
        stream.send_all(lease).await.0.expect("sending works");
        stream
            .send_all(Vec::new())
            .await
            .0
            .expect("nothing is sent at once");
        stream
            .send_all(b" vec".to_vec())
            .await
            .0
            .expect("sending works");
        stream
            .send_all(&b" static"[..])
            .await
            .0
            .expect("sending works");
        stream
            .send_all(b" box".to_vec().into_boxed_slice())
            .await
            .0
            .expect("sending works");
        let shared = bytes::Bytes::from(b"not this: bytes".to_vec());
        stream
            .send_all(shared.slice(9..))
            .await
            .0
            .expect("sending works");
    })
    .expect("starts");
    let stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
    (&stream)
        .write_all(b"0123456789")
        .expect("the server reads");
    assert_eq!(client::finish(&stream), b"3x56 vec static box bytes");
    let report = running.wait();
    engine::assert_clean(&report);
    report.shards[0].result.as_ref().expect("no panic");
}

fn end_of_stream_is_an_empty_lease_every_time<B: Backend>() {
    async fn service<B: Backend>(shard: Shard<B>) {
        let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
        assert_eq!(&*stream.recv().await.expect("receiving works"), b"x");
        for _ in 0..10 {
            assert!(stream.recv().await.expect("an end is no error").is_empty());
        }
    }
    let running = launch::<B, _>(plan(1, Accept::Handoff), service).expect("starts");
    let stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
    (&stream).write_all(b"x").expect("the server reads");
    assert!(client::finish(&stream).is_empty());
    let report = running.wait();
    engine::assert_clean(&report);
    report.shards[0].result.as_ref().expect("no panic");
}

fn peer_reset_is_an_error<B: Backend>() {
    async fn service<B: Backend>(shard: Shard<B>) {
        let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
        let error = stream.recv().await.map(drop).expect_err("the peer resets");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
        // Whatever the system says now: no panic, no hang, no signal.
        let _ = stream
            .send_all(vec![1; 100_000])
            .await
            .0
            .expect_err("nobody is there");
        let again = stream.recv().await;
        assert!(again.is_err() || again.is_ok_and(|lease| lease.is_empty()));
    }
    let running = launch::<B, _>(plan(1, Accept::Handoff), service).expect("starts");
    let stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
    let socket = socket2::Socket::from(stream);
    socket
        .set_linger(Some(Duration::ZERO))
        .expect("a socket takes SO_LINGER");
    drop(socket);
    let report = running.wait();
    engine::assert_clean(&report);
    report.shards[0].result.as_ref().expect("no panic");
}

fn bursts_get_larger_leases<B: Backend>() {
    let running = launch::<B, _>(plan(1, Accept::Handoff), async |shard: Shard<B>| {
        let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
        let mut largest = 0;
        for _ in 0..16 {
            let mut left = 64 << 10;
            while left > 0 {
                let lease = stream.recv().await.expect("receiving works");
                largest = largest.max(lease.len());
                left -= lease.len();
                stream.send_all(lease).await.0.expect("sending works");
            }
        }
        largest
    })
    .expect("starts");
    let stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
    let mut seeded = Seeded::new(7);
    for _ in 0..16 {
        client::round_trip(&stream, &seeded.bytes(64 << 10));
    }
    let report = running.wait();
    engine::assert_clean(&report);
    let largest = *report.shards[0].result.as_ref().expect("no panic");
    assert!(
        largest > 4 << 10,
        "no lease was larger than the first: {largest} bytes"
    );
}

fn idle_large_receive_is_shrunk_and_loses_nothing<B: Backend>() {
    if !engine::waits_with_a_buffer::<B>() {
        return skip(
            B::NAME,
            "a receive that waits has no buffer to be taken back",
        );
    }
    let shrunk = Arc::new(AtomicBool::new(false));
    let seen = shrunk.clone();
    let service = async move |shard: Shard<B>| {
        let observer = shard.clone();
        let observed = seen.clone();
        let ticker = shard.spawn(async move {
            while observer.metrics().receives_shrunk == 0 {
                time::sleep(Duration::from_millis(10)).await; // tidy: sleep between two looks at a counter
            }
            observed.store(true, Ordering::Release);
        });
        let (stream, _) = shard.incoming(0).next().await.expect("a client comes");
        engine::echo_stream(stream).await;
        ticker.await.expect("no panic");
    };
    let running = launch::<B, _>(plan(1, Accept::Handoff), service).expect("starts");
    let stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
    let mut seeded = Seeded::new(8);
    until("an idle receive with a large buffer is taken back", || {
        // Until a burst has ended in a lease that was filled, so that the receive that waits is a large one.
        client::round_trip(&stream, &seeded.bytes(64 << 10));
        let begun = std::time::Instant::now();
        while !shrunk.load(Ordering::Acquire) && begun.elapsed() < Duration::from_secs(2) {
            thread::yield_now();
        }
        shrunk.load(Ordering::Acquire)
    });
    for size in [1, 5_000, 70_000, 1, 300_000] {
        client::round_trip(&stream, &seeded.bytes(size));
    }
    assert!(client::finish(&stream).is_empty());
    let report = running.wait();
    engine::assert_clean(&report);
    report.shards[0].result.as_ref().expect("no panic");
    assert!(report.shards[0].metrics.receives_shrunk >= 1);
}

/// The receive is taken back while nobody polls it; what comes then is received as usual.
fn given_up_large_receive_is_shrunk_and_loses_nothing<B: Backend>() {
    if !engine::waits_with_a_buffer::<B>() {
        return skip(
            B::NAME,
            "a receive that waits has no buffer to be taken back",
        );
    }
    const BURST: usize = 64 << 10;
    let (say, told) = mpsc::channel();
    let service = async move |shard: Shard<B>| {
        let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
        let (mut expected, mut bursts) = (Seeded::new(9), 0);
        for round in 0..3 {
            // Bursts, until the receive that waits is a large one and is taken back.
            let shrunk = shard.metrics().receives_shrunk;
            while shard.metrics().receives_shrunk == shrunk {
                say.send(BURST).expect("the client listens");
                receive::<B>(&mut stream, &expected.bytes(BURST)).await;
                bursts += 1;
                assert!(bursts < 200, "no receive was ever large");
                // Begun, and given up.
                let nothing = race(stream.recv(), time::yield_now()).await;
                assert!(matches!(nothing, Either::Right(())));
                for _ in 0..100 {
                    if shard.metrics().receives_shrunk > shrunk {
                        break;
                    }
                    time::sleep(Duration::from_millis(10)).await; // tidy: sleep between two looks at a counter
                }
            }
            // One at a time, then all at once.
            for size in [1, 4_096, 100_000 + round] {
                say.send(size).expect("the client listens");
                receive::<B>(&mut stream, &expected.bytes(size)).await;
            }
        }
    };
    let running = launch::<B, _>(plan(1, Accept::Handoff), service).expect("starts");
    let mut stream = client::connect(running.addresses()[0].inet().expect("a TCP endpoint"));
    let mut seeded = Seeded::new(9);
    while let Ok(size) = told.recv() {
        stream
            .write_all(&seeded.bytes(size))
            .expect("the server reads");
    }
    let report = running.wait();
    engine::assert_clean(&report);
    report.shards[0].result.as_ref().expect("every byte came");
}

/// Receives exactly `expected`.
async fn receive<B: Backend>(stream: &mut B::Stream, expected: &[u8]) {
    let mut received = Vec::new();
    while received.len() < expected.len() {
        let lease = stream.recv().await.expect("receiving works");
        assert!(
            !lease.is_empty(),
            "the end after {} of {} bytes",
            received.len(),
            expected.len()
        );
        received.extend_from_slice(&lease);
    }
    assert!(
        received == expected,
        "{} bytes are not those that were sent",
        received.len()
    );
}
