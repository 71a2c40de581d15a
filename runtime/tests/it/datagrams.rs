//! Datagrams: whole, from whom they say, many at a time, and on the shard they belong to.

use crate::{
    client::{Bell, Seeded},
    engine::{self, assert_clean, assert_nobody_panicked, on_every_engine, on_shard, skip},
};
use shardloop::{
    Accept, Backend, Batch, Datagram, DatagramEndpoint, Either, Outbox, Plan, Shard,
    datagram::LARGEST_BYTES, launch, race, stopping, time,
};
use shardloop_platform::socket::REUSE_PORT_SPREADS;
use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

on_every_engine!(
    every_size_comes_back_from_where_it_was_sent_to,
    every_size_comes_back_over_ipv6,
    many_are_received_at_a_time_and_in_order,
    a_batch_that_is_full_leaves_the_rest_for_the_next,
    dropped_and_raced_receives_lose_nothing,
    receives_that_never_wait_starve_nobody,
    one_that_cannot_be_sent_is_named_and_the_others_go_on,
    what_is_cut_says_so,
    shards_share_an_address_by_handing_out,
    shards_share_an_address_through_the_kernel,
    somebody_elses_address_is_an_error,
    what_finds_no_room_is_counted_exactly,
    a_shard_takes_its_socket_once,
    shards_end_with_receives_in_flight,
    a_shard_that_gives_up_its_socket_leaves_nobody_unheard,
    a_service_that_has_returned_leaves_nobody_unheard,
    all_that_shards_drop_together_is_counted,
);

/// A socket of the current shard's on a free port.
fn socket<B: Backend>(address: SocketAddr) -> B::Datagram {
    let mut group = B::bind_datagram(&DatagramEndpoint::udp(address), 1).expect("a free port");
    B::adopt_datagram(group.remove(0)).expect("adopted")
}

/// The next datagram alone.
async fn one(socket: &mut impl Datagram) -> (SocketAddr, Vec<u8>, bool) {
    let mut batch = Batch::new(1, LARGEST_BYTES);
    socket.recv(&mut batch).await.expect("receiving works");
    let datagram = batch.iter_mut().next().expect("at least one");
    (datagram.from, datagram.bytes.to_vec(), datagram.truncated)
}

async fn send(socket: &mut impl Datagram, to: SocketAddr, bytes: &[u8]) {
    let mut outbox = Outbox::new();
    outbox.push(to, bytes);
    socket.send(&mut outbox).await.expect("sending works");
    assert!(outbox.is_empty());
}

/// Sends everything back until the shard is to end, with `mark` before it.
async fn echo(mut socket: impl Datagram, mark: &[u8]) {
    let (mut batch, mut outbox) = (Batch::new(32, LARGEST_BYTES), Outbox::new());
    loop {
        match race(socket.recv(&mut batch), stopping()).await {
            Either::Left(received) => received.expect("receiving works"),
            Either::Right(()) => return,
        }
        for datagram in batch.iter_mut() {
            outbox.write(datagram.from, |out| {
                out.extend_from_slice(mark);
                out.extend_from_slice(datagram.bytes);
            });
        }
        socket.send(&mut outbox).await.expect("sending works");
    }
}

async fn every_size<B: Backend>(shard: Shard<B>, address: SocketAddr, largest: usize) {
    let server = socket::<B>(address);
    let to = server.address().expect("bound");
    let serving = shard.spawn(echo(server, b""));
    let mut client = socket::<B>(address);
    let mut seeded = Seeded::new(5);
    for size in [0, 1, 64, 1472, 9000, largest - 1, largest] {
        let question = seeded.bytes(size);
        send(&mut client, to, &question).await;
        let (from, answer, truncated) = one(&mut client).await;
        assert!(answer == question && !truncated, "{size} bytes");
        assert_eq!(from, to);
    }
    serving.cancel().await;
}

fn every_size_comes_back_from_where_it_was_sent_to<B: Backend>() {
    on_shard::<B, _>(async |shard: Shard<B>| every_size(shard, engine::v4(), 65_507).await);
}

fn every_size_comes_back_over_ipv6<B: Backend>() {
    if std::net::UdpSocket::bind(engine::v6()).is_err() {
        return skip(B::NAME, "this host has no IPv6");
    }
    on_shard::<B, _>(async |shard: Shard<B>| every_size(shard, engine::v6(), 65_527).await);
}

/// Sends `count` numbered datagrams.
async fn send_numbers(socket: &mut impl Datagram, to: SocketAddr, numbers: std::ops::Range<u32>) {
    let mut outbox = Outbox::new();
    for number in numbers {
        outbox.push(to, &number.to_be_bytes());
    }
    socket.send(&mut outbox).await.expect("sending works");
}

fn numbers(batch: &mut Batch) -> Vec<u32> {
    let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().expect("four bytes"));
    batch.iter_mut().map(|one| number(one.bytes)).collect()
}

fn many_are_received_at_a_time_and_in_order<B: Backend>() {
    on_shard::<B, _>(async |_| {
        let (mut from, mut to) = (socket::<B>(engine::v4()), socket::<B>(engine::v4()));
        send_numbers(&mut from, to.address().expect("bound"), 0..100).await;
        let mut batch = Batch::new(64, 4);
        let (mut seen, mut receives) = (Vec::new(), 0);
        while seen.len() < 100 {
            to.recv(&mut batch).await.expect("receiving works");
            seen.extend(numbers(&mut batch));
            receives += 1;
        }
        assert_eq!(seen, (0..100).collect::<Vec<_>>());
        assert!(receives < 100, "each came alone");
    });
}

fn a_batch_that_is_full_leaves_the_rest_for_the_next<B: Backend>() {
    on_shard::<B, _>(async |_| {
        let (mut from, mut to) = (socket::<B>(engine::v4()), socket::<B>(engine::v4()));
        send_numbers(&mut from, to.address().expect("bound"), 0..10).await;
        let (mut batch, mut seen) = (Batch::new(3, 4), Vec::new());
        while seen.len() < 10 {
            to.recv(&mut batch).await.expect("receiving works");
            assert!((1..=3).contains(&batch.len()));
            seen.extend(numbers(&mut batch));
        }
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
    });
}

fn dropped_and_raced_receives_lose_nothing<B: Backend>() {
    const COUNT: u32 = 2000;
    on_shard::<B, _>(async |shard: Shard<B>| {
        let (mut from, mut to) = (socket::<B>(engine::v4()), socket::<B>(engine::v4()));
        let address = to.address().expect("bound");
        let sending = shard.spawn(async move {
            for number in 0..COUNT {
                send_numbers(&mut from, address, number..number + 1).await;
                if number.is_multiple_of(3) {
                    time::yield_now().await;
                }
            }
        });
        let (mut batch, mut seen, mut given_up) = (Batch::new(8, 4), Vec::new(), 0);
        while seen.len() < COUNT as usize {
            match race(time::yield_now(), to.recv(&mut batch)).await {
                Either::Left(()) => given_up += 1,
                Either::Right(received) => {
                    received.expect("receiving works");
                    seen.extend(numbers(&mut batch));
                }
            }
        }
        sending.await.expect("no panic");
        assert_eq!(seen, (0..COUNT).collect::<Vec<_>>());
        assert!(given_up > 0, "no receive was given up");
    });
}

fn receives_that_never_wait_starve_nobody<B: Backend>() {
    const COUNT: u32 = 200;
    on_shard::<B, _>(async |shard: Shard<B>| {
        let (mut from, mut to) = (socket::<B>(engine::v4()), socket::<B>(engine::v4()));
        send_numbers(&mut from, to.address().expect("bound"), 0..COUNT).await;
        if engine::is_simulated::<B>() {
            time::sleep(Duration::from_secs(1)).await; // tidy: sleep of virtual time, until all has arrived
        }
        let turns = engine::count_turns(&shard);
        let mut batch = Batch::new(1, 4);
        for _ in 0..COUNT {
            to.recv(&mut batch).await.expect("receiving works");
        }
        assert!(turns.get() > 3, "others ran {} times", turns.get());
    });
}

fn one_that_cannot_be_sent_is_named_and_the_others_go_on<B: Backend>() {
    on_shard::<B, _>(async |_| {
        let (mut from, mut to) = (socket::<B>(engine::v4()), socket::<B>(engine::v4()));
        let address = to.address().expect("bound");
        let mut outbox = Outbox::new();
        outbox.push(address, b"before");
        outbox.push(address, &vec![1; 65_508]);
        outbox.push(address, b"after");
        let failed = from.send(&mut outbox).await.expect_err("it is too long");
        assert_eq!(failed.to, address);
        assert!(failed.to_string().contains(&address.to_string()));
        assert_eq!(outbox.len(), 1, "the one behind it is still there");
        from.send(&mut outbox).await.expect("it fits");
        assert_eq!(one(&mut to).await.1, b"before");
        assert_eq!(one(&mut to).await.1, b"after");
    });
}

fn what_is_cut_says_so<B: Backend>() {
    on_shard::<B, _>(async |_| {
        let (mut from, mut to) = (socket::<B>(engine::v4()), socket::<B>(engine::v4()));
        let address = to.address().expect("bound");
        let mut batch = Batch::new(2, 100);
        for (size, kept, cut) in [(100, 100, false), (101, 100, true), (5000, 100, true)] {
            send(&mut from, address, &vec![7; size]).await;
            to.recv(&mut batch).await.expect("receiving works");
            let datagram = batch.iter_mut().next().expect("at least one");
            assert_eq!((datagram.bytes.len(), datagram.truncated), (kept, cut));
            assert!(datagram.bytes.iter().all(|byte| *byte == 7));
        }
    });
}

/// Three shards answer with their number; each of many clients hears from one of them only.
fn shards_share_an_address<B: Backend>(accept: Accept) {
    const CLIENTS: usize = 32;
    let endpoint = DatagramEndpoint {
        accept,
        ..DatagramEndpoint::udp(engine::v4())
    };
    let service = async |shard: Shard<B>| {
        let socket = shard.datagrams(0).expect("not taken yet");
        let to = shard.datagram_address(0);
        assert_eq!(socket.address().expect("bound"), to);
        let mark = [u8::try_from(shard.index()).expect("three shards")];
        let serving = shard.spawn(async move { echo(socket, &mark).await });
        let mut heard = BTreeSet::new();
        if shard.index() == 0 {
            for _ in 0..CLIENTS {
                let mut client = self::socket::<B>(engine::v4());
                heard.insert(who_answers(&mut client, to).await);
            }
            shard.stopper().drain();
        }
        stopping().await;
        serving.await.expect("no panic");
        heard
    };
    let running = launch::<B, _>(Plan::new(3).datagrams(endpoint), service).expect("starts");
    assert_ne!(running.datagram_addresses()[0].port(), 0);
    let report = running.wait();
    assert_clean(&report);
    assert_nobody_panicked(&report);
    let heard = report.shards[0].result.as_ref().expect("no panic");
    assert_eq!(heard.iter().copied().collect::<Vec<_>>(), [0, 1, 2]);
}

/// The shard that answers a client, asked several times.
async fn who_answers(client: &mut impl Datagram, to: SocketAddr) -> u8 {
    let mut servers = BTreeSet::new();
    for _ in 0..3 {
        send(client, to, b"who?").await;
        let (from, answer, _) = one(client).await;
        assert_eq!((from, &answer[1..]), (to, &b"who?"[..]));
        servers.insert(answer[0]);
    }
    assert_eq!(servers.len(), 1, "one peer, one shard");
    servers.pop_first().expect("there is one")
}

fn shards_share_an_address_by_handing_out<B: Backend>() {
    shards_share_an_address::<B>(Accept::Handoff);
}

fn shards_share_an_address_through_the_kernel<B: Backend>() {
    if !REUSE_PORT_SPREADS {
        return skip(B::NAME, "SO_REUSEPORT does not spread datagrams here");
    }
    shards_share_an_address::<B>(Accept::ReusePort);
}

fn somebody_elses_address_is_an_error<B: Backend>() {
    on_shard::<B, _>(async |_| {
        let taken = socket::<B>(engine::v4());
        let address = taken.address().expect("bound");
        for count in [1, 2] {
            let error = B::bind_datagram(&DatagramEndpoint::udp(address), count)
                .err()
                .expect("it is taken");
            assert!(error.is_in_use(), "{error}");
        }
        drop(taken);
        // An engine may close it a little later; what is there again is a group of it.
        while B::bind_datagram(&DatagramEndpoint::udp(address), 2).is_err() {
            time::yield_now().await;
        }
    });
}

fn what_finds_no_room_is_counted_exactly<B: Backend>() {
    const SENT: u32 = 3000;
    on_shard::<B, _>(async |_| {
        let small = DatagramEndpoint {
            receive_buffer_bytes: Some(8192),
            ..DatagramEndpoint::udp(engine::v4())
        };
        let bound = B::bind_datagram(&small, 1).expect("a free port").remove(0);
        let mut to = B::adopt_datagram(bound).expect("adopted");
        let mut from = socket::<B>(engine::v4());
        // Nobody receives meanwhile.
        send_numbers(&mut from, to.address().expect("bound"), 0..SENT).await;
        if to.dropped().is_none() {
            return skip(B::NAME, "this system does not tell what a socket drops");
        }
        // In a simulated world all is still on its way.
        while to.dropped() == Some(0) {
            time::yield_now().await;
        }
        let (mut batch, mut seen) = (Batch::new(32, 4), Vec::new());
        while seen.len() as u64 + to.dropped().expect("as before") < u64::from(SENT) {
            to.recv(&mut batch).await.expect("receiving works");
            seen.extend(numbers(&mut batch));
        }
        assert!(seen.is_sorted() && seen.first() == Some(&0));
        let dropped = to.dropped();
        let more = race(to.recv(&mut batch), time::yield_now()).await;
        assert!(
            matches!(more, Either::Right(())),
            "sent = received + dropped"
        );
        assert_eq!(to.dropped(), dropped);
    });
}

/// Asks until somebody answers: what waited in a socket that is closed is lost.
async fn who_answers_at_last(client: &mut impl Datagram, to: SocketAddr) -> u8 {
    let mut batch = Batch::new(1, 16);
    loop {
        send(client, to, b"who?").await;
        match time::timeout(Duration::from_millis(100), client.recv(&mut batch)).await {
            Err(time::Elapsed) => {}
            Ok(received) => {
                received.expect("receiving works");
                return batch.iter_mut().next().expect("at least one").bytes[0];
            }
        }
    }
}

/// For every way to spread datagrams that this system has.
fn each_way<B: Backend>(body: impl Fn(DatagramEndpoint)) {
    for accept in Accept::ALL {
        if accept == Accept::ReusePort && !REUSE_PORT_SPREADS {
            skip(B::NAME, "SO_REUSEPORT does not spread datagrams here");
            continue;
        }
        body(DatagramEndpoint {
            accept,
            ..DatagramEndpoint::udp(engine::v4())
        });
    }
}

/// Its senders are answered by the others; those whom these had answered before stay where they were if a shard hands out.
fn a_shard_that_gives_up_its_socket_leaves_nobody_unheard<B: Backend>() {
    const CLIENTS: usize = 32;
    const LEAVES: u8 = 1;
    each_way::<B>(|endpoint| {
        let (leave, left) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        let service = async move |shard: Shard<B>| {
            let socket = shard.datagrams(0).expect("not taken yet");
            let mark = [u8::try_from(shard.index()).expect("three shards")];
            if mark == [LEAVES] {
                // Which drops the socket.
                race(echo(socket, &mark), leave.rung(1)).await;
                left.ring();
                return stopping().await;
            }
            let serving = shard.spawn(async move { echo(socket, &mark).await });
            if shard.index() == 0 {
                let to = shard.datagram_address(0);
                let mut clients = Vec::new();
                for _ in 0..CLIENTS {
                    let mut client = self::socket::<B>(engine::v4());
                    let first = who_answers(&mut client, to).await;
                    clients.push((client, first));
                }
                assert!(clients.iter().any(|(_, first)| *first == LEAVES));
                leave.ring();
                left.rung(1).await;
                for (client, first) in &mut clients {
                    let now = who_answers_at_last(client, to).await;
                    let moves = *first == LEAVES || endpoint.accept == Accept::ReusePort;
                    assert!(now != LEAVES && (moves || now == *first), "{endpoint:?}");
                }
                shard.stopper().drain();
            }
            stopping().await;
            serving.await.expect("no panic");
        };
        let plan = Plan::new(3).datagrams(endpoint);
        let report = launch::<B, _>(plan, service).expect("starts").wait();
        assert_clean(&report);
        assert_nobody_panicked(&report);
    });
}

/// It has not even asked for its socket.
fn a_service_that_has_returned_leaves_nobody_unheard<B: Backend>() {
    each_way::<B>(|endpoint| {
        let service = async |shard: Shard<B>| {
            if shard.index() == 1 {
                return;
            }
            let socket = shard.datagrams(0).expect("not taken yet");
            let mark = [u8::try_from(shard.index()).expect("three shards")];
            let serving = shard.spawn(async move { echo(socket, &mark).await });
            if shard.index() == 0 {
                let to = shard.datagram_address(0);
                for _ in 0..32 {
                    let mut client = self::socket::<B>(engine::v4());
                    assert_ne!(who_answers_at_last(&mut client, to).await, 1);
                }
                shard.stopper().drain();
            }
            stopping().await;
            serving.await.expect("no panic");
        };
        let plan = Plan::new(3).datagrams(endpoint);
        let report = launch::<B, _>(plan, service).expect("starts").wait();
        assert_clean(&report);
        assert_nobody_panicked(&report);
    });
}

/// Nobody receives for a while, neither from the kernel nor from the letterboxes: the sum over all shards is what was sent and never
/// came.
fn all_that_shards_drop_together_is_counted<B: Backend>() {
    const SENT: u32 = 4_000;
    const BYTES: usize = 6_000;
    for accept in [Accept::Handoff, Accept::HandoffLeast, Accept::Shared] {
        let endpoint = DatagramEndpoint {
            accept,
            receive_buffer_bytes: Some(64 << 10),
            ..DatagramEndpoint::udp(engine::v4())
        };
        let (sent, counted) = (Arc::new(Bell::default()), Arc::new(AtomicU64::new(0)));
        let tells = Arc::new(AtomicBool::new(true));
        let service = {
            let (counted, tells) = (counted.clone(), tells.clone());
            async move |shard: Shard<B>| {
                let mut socket = shard.datagrams(0).expect("not taken yet");
                if shard.index() == 0 {
                    let mut client = self::socket::<B>(engine::v4());
                    let to = shard.datagram_address(0);
                    let mut outbox = Outbox::new();
                    for number in 0..SENT {
                        outbox.push(to, &[7; BYTES]);
                        // All at once to the kernel, and the rest so that much reaches a letterbox.
                        if number >= SENT / 2 {
                            client.send(&mut outbox).await.expect("sending works");
                            time::yield_now().await;
                        }
                    }
                    sent.ring();
                } else {
                    sent.rung(1).await;
                }
                let mut batch = Batch::new(32, BYTES);
                let (mut received, mut before) = (0, 0);
                let mut stop = shard.stopping();
                loop {
                    let pause = Duration::from_millis(10);
                    match race(&mut stop, time::timeout(pause, socket.recv(&mut batch))).await {
                        Either::Left(()) => return,
                        Either::Right(Ok(came)) => {
                            came.expect("receiving works");
                            received += batch.len() as u64;
                        }
                        Either::Right(Err(time::Elapsed)) => {}
                    }
                    let Some(dropped) = socket.dropped() else {
                        tells.store(false, Ordering::Relaxed);
                        return shard.stopper().drain();
                    };
                    let now = received + dropped;
                    let others = counted.fetch_add(now - before, Ordering::Relaxed);
                    if others + now - before == u64::from(SENT) {
                        shard.stopper().drain();
                    }
                    before = now;
                }
            }
        };
        let report = launch::<B, _>(Plan::new(2).datagrams(endpoint), service)
            .expect("starts")
            .wait();
        assert_nobody_panicked(&report);
        if !tells.load(Ordering::Relaxed) {
            return skip(B::NAME, "this system does not tell what a socket drops");
        }
        assert_eq!(counted.load(Ordering::Relaxed), u64::from(SENT), "{accept}");
    }
}

fn a_shard_takes_its_socket_once<B: Backend>() {
    let plan = Plan::new(1).datagrams(DatagramEndpoint::udp(engine::v4()));
    let report = launch::<B, _>(plan, async |shard: Shard<B>| {
        (shard.datagrams(0).is_some(), shard.datagrams(0).is_some())
    })
    .expect("starts")
    .wait();
    assert_clean(&report);
    assert_eq!(
        *report.shards[0].result.as_ref().expect("no panic"),
        (true, false)
    );
}

fn shards_end_with_receives_in_flight<B: Backend>() {
    for _ in 0..50 {
        let plan = Plan::new(2).datagrams(DatagramEndpoint {
            accept: Accept::Handoff,
            ..DatagramEndpoint::udp(engine::v4())
        });
        let service = async |shard: Shard<B>| {
            let mut socket = shard.datagrams(0).expect("not taken yet");
            shard
                .spawn(async move {
                    let mut batch = Batch::new(4, LARGEST_BYTES);
                    let _ = socket.recv(&mut batch).await;
                })
                .detach();
            time::yield_now().await;
            shard.stopper().force();
            stopping().await;
        };
        let report = launch::<B, _>(plan, service).expect("starts").wait();
        assert_clean(&report);
    }
}
