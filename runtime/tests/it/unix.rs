//! Unix sockets: streams like others, by a path instead of a port.

use crate::{
    client::{LONG, Seeded, connecting},
    engine::{self, assert_clean, assert_nobody_panicked, echo_stream, on_every_engine, on_shard},
};
use shardloop::{
    Accept, Address, Backend, BindError, Either, Endpoint, LaunchError, Listener, Plan, RecvHalf,
    SendHalf, Shard, Stream, join, launch, race, time,
};
use shardloop_platform::socket::UnixBindCause;
use std::{
    io::ErrorKind,
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

on_every_engine!(
    echo_all_sizes_by_path,
    both_sides_close_one_after_the_other,
    connections_are_handed_to_all_shards,
    nobody_at_a_path_is_an_error,
    a_server_that_is_alive_keeps_its_path,
    a_path_is_free_again_after_the_end,
    several_kinds_of_address_are_tried_in_turn,
    reuse_port_is_refused,
    a_dropped_sending_half_ends_what_is_sent,
    a_full_backlog_is_waited_for,
    what_no_socket_can_have_is_no_address,
);

/// A path of the calling test's own, gone at its end.
struct Path(PathBuf);

impl Path {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!(
            "shardloop-{}-{}.sock",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        Self(std::env::temp_dir().join(name))
    }

    fn address(&self) -> Address {
        Address::unix(&self.0)
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        // Mostly it is gone with its server.
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn connect<B: Backend>(address: &Address) -> B::Stream {
    B::connect(std::slice::from_ref(address), &connecting(LONG))
        .await
        .expect("somebody listens")
}

/// Serves what comes with an echo.
fn serve<B: Backend>(shard: &Shard<B>) {
    let mut incoming = shard.incoming(0);
    let tasks = shard.clone();
    let accepting = async move {
        while let Some((stream, _)) = incoming.next().await {
            tasks.spawn(echo_stream(stream)).detach();
        }
    };
    shard.spawn(accepting).detach();
}

/// Runs `body` on the only shard of a plan that serves `path` with an echo.
fn with_server<B: Backend>(path: &Path, body: impl AsyncFn(Shard<B>) + Clone + Send + 'static) {
    let plan = Plan::new(1).endpoint(Endpoint::unix(&path.0));
    let service = async move |shard: Shard<B>| {
        serve(&shard);
        body(shard.clone()).await;
        shard.stopper().drain();
    };
    let report = launch::<B, _>(plan, service).expect("starts").wait();
    assert_clean(&report);
    assert!(report.shards[0].result.is_ok());
}

async fn receive_exactly(stream: &mut impl RecvHalf, count: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < count {
        let lease = stream.recv().await.expect("receiving works");
        assert!(!lease.is_empty(), "the peer closed too early");
        all.extend_from_slice(&lease);
    }
    all
}

fn echo_all_sizes_by_path<B: Backend>() {
    let path = Path::new();
    let expected = path.address();
    with_server::<B>(&path, async move |shard| {
        assert_eq!(*shard.address(0), expected);
        let (mut recv, mut send) = connect::<B>(shard.address(0)).await.into_split();
        let mut seeded = Seeded::new(3);
        for size in [1, 4095, 4096, 4097, 65_536, 1 << 20] {
            let question = seeded.bytes(size);
            let sent = question.clone();
            let sending = async {
                let (result, bytes) = send.send_all(sent).await;
                result.map(|()| bytes)
            };
            let receiving = receive_exactly(&mut recv, size);
            let (sent, answer) = join(sending, receiving).await;
            assert_eq!(sent.expect("sending works").len(), size);
            assert!(answer == question, "{size} bytes");
        }
    });
}

fn both_sides_close_one_after_the_other<B: Backend>() {
    let path = Path::new();
    with_server::<B>(&path, async |shard| {
        let mut stream = connect::<B>(shard.address(0)).await;
        stream.send_all(&b"last words"[..]).await.0.expect("sent");
        stream.shutdown_write().await.expect("told");
        assert_eq!(receive_exactly(&mut stream, 10).await, b"last words");
        // The other side has seen the end, and closes too: again and again the same.
        assert!(stream.recv().await.expect("an orderly end").is_empty());
        assert!(stream.recv().await.expect("an orderly end").is_empty());
    });
}

fn connections_are_handed_to_all_shards<B: Backend>() {
    let path = Path::new();
    let plan = Plan::new(3).endpoint(Endpoint::unix(&path.0));
    let service = async |shard: Shard<B>| {
        let mut incoming = shard.incoming(0);
        let mut clients = Vec::new();
        if shard.index() == 0 {
            for _ in 0..12 {
                clients.push(connect::<B>(shard.address(0)).await);
            }
        }
        for _ in 0..4 {
            let (_, peer) = incoming.next().await.expect("four come");
            assert_eq!(peer, Address::Unix(None), "a client has no path");
        }
    };
    let report = launch::<B, _>(plan, service).expect("starts").wait();
    assert_clean(&report);
    assert!(report.shards.iter().all(|shard| shard.result.is_ok()));
}

fn nobody_at_a_path_is_an_error<B: Backend>() {
    let path = Path::new();
    let address = path.address();
    crate::engine::on_shard::<B, _>(async move |_| {
        let error = B::connect(std::slice::from_ref(&address), &connecting(LONG))
            .await
            .err()
            .expect("nobody is there");
        assert!(
            matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ),
            "{error}"
        );
    });
}

fn a_server_that_is_alive_keeps_its_path<B: Backend>() {
    let path = Path::new();
    let again = path.0.clone();
    with_server::<B>(&path, async move |shard| {
        let Err(error) = B::bind(&Endpoint::unix(&again), 1) else {
            panic!("the path is taken")
        };
        assert!(error.is_in_use(), "{error}");
        assert!(error.to_string().contains("shardloop-"), "{error}");
        // And nothing was taken from it.
        let mut stream = connect::<B>(shard.address(0)).await;
        stream.send_all(&b"?"[..]).await.0.expect("sent");
        assert_eq!(receive_exactly(&mut stream, 1).await, b"?");
    });
}

fn a_path_is_free_again_after_the_end<B: Backend>() {
    let path = Path::new();
    for _ in 0..3 {
        // Each finds what the one before has left there.
        with_server::<B>(&path, async |shard| {
            drop(connect::<B>(shard.address(0)).await);
            time::yield_now().await;
        });
    }
}

fn several_kinds_of_address_are_tried_in_turn<B: Backend>() {
    let (path, nobody) = (Path::new(), Path::new());
    let nobody_there = nobody.address();
    with_server::<B>(&path, async move |shard| {
        let addresses = [nobody_there.clone(), shard.address(0).clone()];
        let mut stream = B::connect(&addresses, &connecting(LONG))
            .await
            .expect("the second answers");
        stream.send_all(&b"?"[..]).await.0.expect("sent");
        assert_eq!(receive_exactly(&mut stream, 1).await, b"?");
    });
}

fn reuse_port_is_refused<B: Backend>() {
    let path = Path::new();
    let endpoint = Endpoint {
        accept: Accept::ReusePort,
        ..Endpoint::unix(&path.0)
    };
    let refused = launch::<B, _>(Plan::new(2).endpoint(endpoint), async |_: Shard<B>| {});
    let Err(error @ LaunchError::NoReusePort(_)) = refused else {
        panic!("{refused:?}")
    };
    // Of Unix sockets, and not of this system; and so in what a `main` prints that returns it.
    assert!(
        error.to_string().contains("Unix sockets have no"),
        "{error}"
    );
    assert_eq!(format!("{error:?}"), error.to_string());
}

/// Of both kinds of stream: what one half is dropped for, the other goes on without.
fn a_dropped_sending_half_ends_what_is_sent<B: Backend>() {
    let path = Path::new();
    let plan = Plan::new(1)
        .endpoint(Endpoint::tcp(engine::v4(), Accept::Handoff))
        .endpoint(Endpoint::unix(&path.0));
    let service = async |shard: Shard<B>| {
        for endpoint in 0..2 {
            let mut incoming = shard.incoming(endpoint);
            let address = shard.address(endpoint);
            let mut client = connect::<B>(address).await;
            let (server, _) = incoming.next().await.expect("it has connected");
            let (mut recv, mut send) = server.into_split();
            let early = race(recv.recv(), time::yield_now()).await;
            assert!(matches!(early, Either::Right(())), "nothing was sent yet");
            send.send_all(&b"last"[..]).await.0.expect("sent");
            drop(send);
            assert_eq!(receive_exactly(&mut client, 4).await, b"last");
            assert!(client.recv().await.expect("an orderly end").is_empty());
            client.send_all(&b"still heard"[..]).await.0.expect("sent");
            assert_eq!(receive_exactly(&mut recv, 11).await, b"still heard");
            // The other way round nothing ends.
            let mut client = connect::<B>(address).await;
            let (server, _) = incoming.next().await.expect("it has connected");
            let (recv, mut send) = server.into_split();
            drop(recv);
            client.send_all(&b"unheard"[..]).await.0.expect("sent");
            send.send_all(&b"more"[..]).await.0.expect("sent");
            assert_eq!(receive_exactly(&mut client, 4).await, b"more");
        }
        shard.stopper().drain();
    };
    let report = launch::<B, _>(plan, service).expect("starts").wait();
    assert_clean(&report);
    assert_nobody_panicked(&report);
}

/// Nobody accepts: whoever comes waits until somebody does, or until the deadline.
fn a_full_backlog_is_waited_for<B: Backend>() {
    const MOST: usize = 64;
    let path = Path::new();
    let (endpoint, address) = (Endpoint::unix(&path.0), path.address());
    on_shard::<B, _>(async move |shard: Shard<B>| {
        let endpoint = Endpoint {
            backlog: 1,
            ..endpoint.clone()
        };
        let mut bound = B::bind(&endpoint, 1).expect("a free path");
        let mut listener = B::adopt_listener(bound.remove(0)).expect("adopted");
        let mut clients = Vec::new();
        let refused = loop {
            let options = connecting(Duration::from_millis(50));
            match B::connect(std::slice::from_ref(&address), &options).await {
                Ok(stream) => clients.push(stream),
                Err(error) => break error,
            }
            assert!(clients.len() < MOST, "the backlog is full some day");
        };
        assert_eq!(refused.kind(), ErrorKind::TimedOut, "{refused}");
        let address = address.clone();
        let waiting = shard.spawn(async move { drop(connect::<B>(&address).await) });
        time::yield_now().await;
        // One more than had found room.
        for _ in 0..=clients.len() {
            listener.accept().await.expect("it waits");
        }
        waiting.await.expect("it was let in");
    });
}

/// Every engine says so, before it asks anybody.
fn what_no_socket_can_have_is_no_address<B: Backend>() {
    let long = format!("/tmp/{}", "x".repeat(120));
    let bad = [
        ("", UnixBindCause::NotAPath),
        ("/tmp/a\0b", UnixBindCause::NotAPath),
        (long.as_str(), UnixBindCause::PathTooLong),
    ];
    for (path, cause) in bad {
        let plan = Plan::new(1).endpoint(Endpoint::unix(path));
        match launch::<B, _>(plan, async |_| ()) {
            Err(LaunchError::Bind(BindError::Unix(error))) => assert_eq!(error.cause, cause),
            other => panic!("{path:?}: {other:?}"),
        }
        let address = Address::unix(path);
        on_shard::<B, _>(async move |_| {
            let refused = B::connect(std::slice::from_ref(&address), &connecting(LONG)).await;
            let error = refused.err().expect("there is no such address");
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        });
    }
}
