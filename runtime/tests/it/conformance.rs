//! What every engine's connections do alike.

use crate::{
    client::{self, Bell, LONG, Seeded, Talk, connecting},
    engine::{self, Engine, Server, echo, on_every_engine, on_shard, plan, skip},
    watchdog::until,
};
use shardloop::{
    Accept, Address, Backend, Either, Endpoint, LaunchError, Lease, Plan, RecvHalf, Report,
    SendHalf, Shard, Stream, StreamOptions, launch, race, time,
};
use std::{
    future::{Future, poll_fn},
    io::{ErrorKind, Write},
    net::SocketAddr,
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
    an_address_that_never_answers_leaves_the_others_their_time,
    both_halves_work_in_two_tasks,
    split_takes_a_receive_under_way_along,
    receive_begun_in_one_task_ends_in_another,
    dropped_send_all_makes_sending_an_error,
    every_kind_of_bytes_is_sent,
    end_of_stream_is_an_empty_lease_every_time,
    bursts_get_larger_leases,
    idle_large_receive_is_shrunk_and_loses_nothing,
    given_up_large_receive_is_shrunk_and_loses_nothing;
    kernel "the reset is made with SO_LINGER; the file sim.rs has its own": peer_reset_is_an_error,
);

/// What the service of the only shard returned.
fn only<T>(report: Report<T>) -> T {
    let shard = report.shards.into_iter().next().expect("one shard");
    shard.result.expect("no panic")
}

fn echo_all_sizes<B: Engine>(address: SocketAddr) {
    let plan = Plan::new(1).endpoint(Endpoint::tcp(address, Accept::Handoff));
    B::serve(plan, echo, async |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        let mut seeded = Seeded::new(1);
        let mut sizes = vec![1, 2, 3, 1 << 20];
        for power in 6..20 {
            let size = 1 << power;
            sizes.extend([size - 1, size, size + 1]);
        }
        for size in sizes {
            talk.round_trip(&seeded.bytes(size)).await;
        }
        let rest = talk.finish().await;
        assert!(rest.is_empty(), "more came back than was sent");
    });
}

fn echo_all_sizes_over_ipv4<B: Engine>() {
    echo_all_sizes::<B>(engine::v4());
}

fn echo_all_sizes_over_ipv6<B: Engine>() {
    let plan = Plan::new(1).endpoint(Endpoint::tcp(engine::v6(), Accept::Handoff));
    if let Err(LaunchError::Bind(error)) = launch::<B, _>(plan, async |_| ())
        && !error.is_in_use()
    {
        return skip(B::NAME, "this host has no IPv6");
    }
    echo_all_sizes::<B>(engine::v6());
}

/// Receives until the peer closes its side.
async fn receive_all(stream: &mut impl RecvHalf) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let lease = stream.recv().await.expect("receiving works");
        if lease.is_empty() {
            return all;
        }
        all.extend_from_slice(&lease);
    }
}

/// The first connection of the first endpoint.
async fn first<B: Backend>(shard: &Shard<B>) -> B::Stream {
    let first = shard.incoming(0).next().await;
    first.expect("a client comes").0
}

fn client_closes_its_side_first_and_still_gets_everything<B: Engine>() {
    /// Receives all before it sends the first byte back.
    async fn hoard<B: Backend>(shard: Shard<B>) {
        let mut stream = first(&shard).await;
        let all = receive_all(&mut stream).await;
        stream
            .send_all(all)
            .await
            .0
            .expect("sending works after the peer has closed its side");
    }
    let (report, ()) = B::serve(plan(1, Accept::Handoff), hoard, async |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        let bytes = Seeded::new(2).bytes(300_000);
        talk.write(&*bytes).await.expect("the server reads");
        assert!(talk.finish().await == bytes);
    });
    only(report);
}

fn server_closes_its_side_first_and_still_receives<B: Engine>() {
    async fn service<B: Backend>(shard: Shard<B>) -> Vec<u8> {
        let mut stream = first(&shard).await;
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
        receive_all(&mut stream).await
    }
    let bytes = Seeded::new(3).bytes(300_000);
    let sent = bytes.clone();
    let client = async move |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        let greeting = talk.read_to_end().await;
        assert_eq!(greeting.expect("the server closes its side"), b"hello");
        talk.write(&*sent).await.expect("the server still reads");
        talk.shutdown().await;
        // Held until the server has all, for it closes then.
        assert!(talk.read_to_end().await.is_ok_and(|rest| rest.is_empty()));
    };
    let (report, ()) = B::serve(plan(1, Accept::Handoff), service, client);
    assert!(only(report) == bytes);
}

/// In a process of its own, for its memory is measured.
fn slow_reader_of_64_mib_is_held_back_and_served_whole<B: Engine>() {
    const TOTAL: usize = 64 << 20;
    const PIECE: usize = 64 << 10;
    engine::alone(None, || {
        let received = Arc::new(AtomicU64::new(0));
        let counter = received.clone();
        let service = async move |shard: Shard<B>| {
            let mut stream = first(&shard).await;
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
        let client = async move |shard: Shard<B>, server: Server| {
            let address = server.address();
            let stream = B::connect(&[address], &connecting(LONG)).await;
            let (recv, mut send) = stream.expect("it listens").into_split();
            let before = engine::resident_bytes();
            let sent = Arc::new(AtomicU64::new(0));
            let counter = sent.clone();
            let sender = shard.spawn(async move {
                let mut seeded = Seeded::new(4);
                for _ in 0..TOTAL / PIECE {
                    let taken = send.send_all(seeded.bytes(PIECE)).await.0;
                    taken.expect("the server takes it in the end");
                    counter.fetch_add(PIECE as u64, Ordering::Relaxed);
                }
                let closed = send.shutdown_write().await;
                closed.expect("a connection can be half closed");
            });
            // All has come to a halt, because we do not read: both counters stand still.
            let (mut last, mut still) = ((u64::MAX, u64::MAX), 0);
            while still < 300 {
                time::sleep(Duration::from_millis(1)).await; // tidy: sleep between two looks at counters that are to stand still
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
            }
            assert!(
                last.1 < TOTAL as u64 / 2,
                "the server took {} bytes although nobody read its answers",
                last.1
            );
            read_pieces(recv, TOTAL, PIECE).await;
            sender.await.expect("all was sent");
            let after = engine::resident_bytes();
            assert!(
                after < before + (16 << 20),
                "{before} bytes of memory before, {after} after"
            );
        };
        let (report, ()) = B::serve(plan, service, client);
        let peak = report.shards[0].metrics.lease_bytes_peak;
        assert!(
            peak <= 256 << 10,
            "one connection held {peak} bytes of leases"
        );
    });
}

/// Reads what [`Seeded`] 4 gives, in pieces, and then the end.
async fn read_pieces(mut recv: impl RecvHalf, total: usize, piece: usize) {
    let mut seeded = Seeded::new(4);
    let mut rest = Vec::new();
    for number in 0..total / piece {
        while rest.len() < piece {
            let lease = recv.recv().await.expect("the echo goes on");
            assert!(!lease.is_empty(), "the end before piece {number}");
            rest.extend_from_slice(&lease);
        }
        assert!(
            rest[..piece] == seeded.bytes(piece),
            "piece {number} is not what was sent"
        );
        rest.drain(..piece);
    }
    assert!(rest.is_empty());
    assert!(recv.recv().await.expect("then it ends").is_empty());
}

fn connect_reaches_a_listener<B: Engine>() {
    B::serve(plan(1, Accept::Handoff), echo, async |_, server| {
        let mut stream = B::connect(&[server.address()], &connecting(Duration::MAX))
            .await
            .expect("it listens");
        stream
            .send_all(b"hello".to_vec())
            .await
            .0
            .expect("it reads");
        let mut back = Vec::new();
        while back.len() < 5 {
            back.extend_from_slice(&stream.recv().await.expect("it answers"));
        }
        assert_eq!(back, b"hello");
    });
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

fn connect_to_a_refused_port_is_an_error<B: Engine>() {
    let (_held, address) = refused();
    on_shard::<B, _>(async move |_| {
        let error = B::connect(&[address.into()], &connecting(LONG))
            .await
            .map(drop)
            .expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let error = B::connect(&[], &connecting(LONG))
            .await
            .map(drop)
            .expect_err("no address");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

fn connect_falls_through_to_the_address_that_answers<B: Engine>() {
    let (_held, dead) = refused();
    let (_held_too, dead_too) = refused();
    let client = async move |_, server: Server| {
        let addresses = [dead.into(), dead_too.into(), server.address()];
        let mut stream = B::connect(&addresses, &connecting(LONG))
            .await
            .expect("the third answers");
        stream.send_all(&b"?"[..]).await.0.expect("it reads");
        assert_eq!(&*stream.recv().await.expect("it answers"), b"?");
    };
    B::serve(plan(1, Accept::Handoff), echo, client);
}

/// An address that never answers, because nobody accepts there and the backlog is full, for as long as what comes with it is held;
/// none where a backlog does not fill.
async fn deaf<B: Engine>() -> Option<(Address, (Vec<B::Bound>, Vec<B::Stream>))> {
    /// Connections after which a backlog that does not fill is believed not to.
    const MOST: usize = 64;
    let mut endpoint = Endpoint::tcp(engine::v4(), Accept::Handoff);
    endpoint.backlog = 0;
    let bound = B::bind(&endpoint, 1).expect("a free port");
    let address = B::address(&bound[0]).expect("bound");
    let mut filling = Vec::new();
    let options = connecting(Duration::from_millis(200));
    while let Ok(stream) = B::connect(std::slice::from_ref(&address), &options).await {
        filling.push(stream);
        if filling.len() == MOST {
            skip(B::NAME, "this host's backlog does not fill");
            return None;
        }
    }
    Some((address, (bound, filling)))
}

fn connect_gives_up_at_its_deadline<B: Engine>() {
    on_shard::<B, _>(async |_| {
        let Some((address, _held)) = deaf::<B>().await else {
            return;
        };
        let port = address.inet().expect("TCP").port().to_string();
        for to in [vec![address.clone()], vec![address.clone(), address]] {
            let error = B::connect(&to, &connecting(Duration::from_millis(50)))
                .await
                .map(drop)
                .expect_err("nobody accepts");
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            // Which of several it was, nobody would know otherwise.
            let named = error.to_string().matches(&port).count();
            assert_eq!(named, if to.len() == 1 { 0 } else { 2 }, "{error}");
        }
    });
}

/// It comes first, and the one that answers would be reached too late if it had all of the time.
fn an_address_that_never_answers_leaves_the_others_their_time<B: Engine>() {
    let (_held, dead) = refused();
    on_shard::<B, _>(async move |_| {
        let Some((silent, _held)) = deaf::<B>().await else {
            return;
        };
        let endpoint = Endpoint::tcp(engine::v4(), Accept::Handoff);
        let bound = B::bind(&endpoint, 1).expect("a free port");
        let answers = B::address(&bound[0]).expect("bound");
        let to = [silent.clone(), dead.into(), answers];
        let connected = B::connect(&to, &connecting(Duration::from_millis(900))).await;
        drop(connected.expect("the third answers"));
        let error = B::connect(&to[..2], &connecting(Duration::from_millis(100)))
            .await
            .map(drop)
            .expect_err("neither answers");
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        let text = error.to_string();
        let both = [silent, dead.into()].map(|address| text.contains(&address.to_string()));
        assert_eq!(both, [true, true], "{text}");
    });
}

fn both_halves_work_in_two_tasks<B: Engine>() {
    const TOTAL: usize = 1 << 20;
    async fn service<B: Backend>(shard: Shard<B>) {
        let (mut recv, mut send) = first(&shard).await.into_split();
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
        let receiver = shard.spawn(async move { receive_all(&mut recv).await });
        assert!(receiver.await.expect("no panic") == Seeded::new(6).bytes(TOTAL));
        sender.await.expect("no panic");
    }
    let (report, ()) = B::serve(plan(1, Accept::Handoff), service, async |shard, server| {
        let stream = B::connect(&[server.address()], &connecting(LONG)).await;
        let (mut recv, mut send) = stream.expect("it listens").into_split();
        let sender = shard.spawn(async move {
            let sent = send.send_all(Seeded::new(6).bytes(TOTAL)).await.0;
            sent.expect("the server reads");
            let closed = send.shutdown_write().await;
            closed.expect("a connection can be half closed");
        });
        assert!(receive_all(&mut recv).await == Seeded::new(5).bytes(TOTAL));
        sender.await.expect("no panic");
    });
    only(report);
}

fn split_takes_a_receive_under_way_along<B: Engine>() {
    let go = Arc::new(Bell::default());
    let waiting = go.clone();
    let service = async move |shard: Shard<B>| {
        let mut stream = first(&shard).await;
        let early = race(stream.recv(), time::yield_now()).await;
        assert!(matches!(early, Either::Right(())), "nothing was sent yet");
        let (mut recv, mut send) = stream.into_split();
        go.ring();
        for _ in 0..3 {
            let lease = recv.recv().await.expect("receiving works");
            if lease.is_empty() {
                break;
            }
            send.send_all(lease).await.0.expect("sending works");
        }
    };
    let client = async move |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        waiting.rung(1).await;
        talk.ping(b"abc").await.expect("the server answers");
    };
    let (report, ()) = B::serve(plan(1, Accept::Handoff), service, client);
    only(report);
}

/// The task that polled last is the one that is woken.
fn receive_begun_in_one_task_ends_in_another<B: Engine>() {
    const ROUNDS: u64 = 10;
    let go = Arc::new(Bell::default());
    let waiting = go.clone();
    let service = async move |shard: Shard<B>| {
        let mut stream = first(&shard).await;
        for _ in 0..ROUNDS {
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
                            go.ring();
                        }
                        poll
                    })
                    .await;
                    assert_eq!(&*lease.expect("receiving works"), b"a");
                }
                begun
            });
            stream = ended.await.expect("no panic");
        }
    };
    let client = async move |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        for round in 1..=ROUNDS {
            waiting.rung(round).await;
            talk.write(b"a").await.expect("the server reads");
        }
        assert!(talk.read_to_end().await.is_ok_and(|rest| rest.is_empty()));
    };
    let (report, ()) = B::serve(plan(1, Accept::Handoff), service, client);
    only(report);
}

fn dropped_send_all_makes_sending_an_error<B: Engine>() {
    async fn service<B: Backend>(shard: Shard<B>) {
        let mut stream = first(&shard).await;
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
        let mut received = Vec::new();
        while received.len() < 10 {
            let lease = stream.recv().await.expect("receiving works");
            assert!(!lease.is_empty());
            received.extend_from_slice(&lease);
        }
        assert_eq!(received, b"still here");
    }
    let done = Arc::new(Bell::default());
    let is_done = done.clone();
    let service = async move |shard: Shard<B>| {
        service(shard).await;
        done.ring();
    };
    let client = async move |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        let taken = talk.write(b"still here").await;
        taken.expect("the server's buffer takes it");
        is_done.rung(1).await;
    };
    let (report, ()) = B::serve(plan(1, Accept::Handoff), service, client);
    only(report);
}

fn every_kind_of_bytes_is_sent<B: Engine>()
where
    B::Stream: RecvHalf<Lease = Lease>,
{
    let service = async |shard: Shard<B>| {
        let mut stream = first(&shard).await;
        let (mut seen, mut sent) = (0, Vec::new());
        while seen < 10 {
            let mut lease = stream.recv().await.expect("receiving works");
            seen += lease.len();
            lease[0] = b'x';
            lease.advance(lease.len() / 3);
            lease.truncate(4);
            sent.extend_from_slice(&lease);
            stream.send_all(lease).await.0.expect("sending works");
        }
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
        sent.extend_from_slice(b" vec static box bytes");
        sent
    };
    let (report, all) = B::serve(plan(1, Accept::Handoff), service, async |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        talk.write(b"0123456789").await.expect("the server reads");
        talk.finish().await
    });
    assert_eq!(all, only(report));
}

fn end_of_stream_is_an_empty_lease_every_time<B: Engine>() {
    async fn service<B: Backend>(shard: Shard<B>) {
        let mut stream = first(&shard).await;
        assert_eq!(&*stream.recv().await.expect("receiving works"), b"x");
        for _ in 0..10 {
            assert!(stream.recv().await.expect("an end is no error").is_empty());
        }
    }
    let (report, ()) = B::serve(plan(1, Accept::Handoff), service, async |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        talk.write(b"x").await.expect("the server reads");
        assert!(talk.finish().await.is_empty());
    });
    only(report);
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

fn bursts_get_larger_leases<B: Engine>() {
    let service = async |shard: Shard<B>| {
        let mut stream = first(&shard).await;
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
    };
    let (report, ()) = B::serve(plan(1, Accept::Handoff), service, async |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        let mut seeded = Seeded::new(7);
        for _ in 0..16 {
            talk.round_trip(&seeded.bytes(64 << 10)).await;
        }
    });
    let largest = only(report);
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
