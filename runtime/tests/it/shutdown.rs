//! Draining, forcing, and plans that do not start.

use crate::{
    client::{Bell, Seeded, Talk},
    engine::{self, Engine, Server, assert_clean, cut_off, echo, finish, on_every_engine, plan},
    watchdog::until,
};
use nix::sys::signal::{
    SigSet,
    Signal::{SIGINT, SIGTERM},
};
use shardloop::{
    Accept, Backend, DatagramEndpoint, Endpoint, EngineOptions, Error, Kind, LaunchError, Plan,
    RecvHalf, SendHalf, Service, Shard, TaskError, launch, start, stopping, time,
};
use shardloop_platform::{
    signal::{self, Signal, Signals},
    socket,
};
use std::{
    cell::Cell,
    future::pending,
    io::{ErrorKind, Read},
    net::{SocketAddr, TcpListener},
    os::unix::{net::UnixStream, process::ExitStatusExt},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

on_every_engine!(
    drain_under_load_keeps_every_reply_whole,
    stopping_wakes_everybody,
    incoming_ends,
    a_service_that_ignores_the_stop_is_cut_off,
    tasks_that_ignore_the_stop_are_cut_off_and_counted,
    force_ends_at_once,
    force_of_an_idle_server_cuts_off_nothing,
    a_flood_of_connections_does_not_delay_the_end,
    dropping_the_handle_ends_the_shards,
    stopping_before_the_service_looks_is_seen,
    a_service_that_panics_takes_the_plan_along,
    the_shard_that_accepts_takes_the_plan_along,
    a_shard_that_accepts_for_itself_ends_alone,
    bad_numbers_of_shards_are_refused,
    a_service_runs_on_the_engine_that_was_named,
    more_shards_than_cpus_run,
    engine_options_out_of_bounds_are_clamped,
    probing_disturbs_no_call_of_the_calling_thread,
    an_engine_within_a_shard_is_refused,
    a_service_may_drain_for_ever,
    a_service_that_fails_takes_the_plan_along,
    one_address_twice_in_a_plan_is_told_from_somebody_elses,
    run_takes_signals_and_gives_them_back,
    run_gives_signals_back_when_nothing_starts;
    kernel
    "other servers are none of its world's": an_endpoint_that_cannot_be_bound_leaves_nothing_running,
    "its shards need no descriptors": an_engine_that_cannot_be_built_leaves_nothing_running,
);

/// Echoes until the peer or the shard is done.
async fn polite_echo<B: Backend>(shard: Shard<B>) {
    let mut incoming = shard.incoming(0);
    while let Some((mut stream, _)) = incoming.next().await {
        let connection = async move {
            loop {
                match shardloop::race(stream.recv(), stopping()).await {
                    shardloop::Either::Left(Ok(lease)) if !lease.is_empty() => {
                        if stream.send_all(lease).await.0.is_err() {
                            return;
                        }
                    }
                    _ => return,
                }
            }
        };
        shard.spawn(connection).detach();
    }
}

fn drain_under_load_keeps_every_reply_whole<B: Engine>() {
    async fn load<B: Backend>(server: Server, number: u64, replies: Rc<Cell<u64>>) {
        let mut seeded = Seeded::new(number);
        // A server that goes away is no error here; a changed reply is.
        while let Ok(mut talk) = Talk::<B>::try_to(&server.address()).await {
            for _ in 0..100 {
                let size = 1 + usize::try_from(seeded.below(2_000)).expect("small");
                if talk.ping(&seeded.bytes(size)).await.is_err() {
                    break;
                }
                replies.set(replies.get() + 1);
            }
        }
    }
    let client = async |shard: Shard<B>, server: Server| {
        let replies = Rc::new(Cell::new(0));
        let start = |number| shard.spawn(load::<B>(server.clone(), number, replies.clone()));
        let clients: Vec<_> = (0..8).map(start).collect();
        while replies.get() <= 1_000 {
            time::yield_now().await;
        }
        server.stopper.drain();
        for client in clients {
            client.await.expect("no reply was changed");
        }
    };
    let (report, ()) = B::serve(plan(2, Accept::Handoff), polite_echo, client);
    assert_eq!(report.tasks_cut_off(), 0);
    assert!(report.shards.iter().all(|shard| shard.result.is_ok()));
}

fn stopping_wakes_everybody<B: Backend>() {
    let waiting = Arc::new(AtomicUsize::new(0));
    let counter = waiting.clone();
    let running = launch::<B, _>(Plan::new(2), async move |shard: Shard<B>| {
        let tasks: Vec<_> = (0..20)
            .map(|_| {
                let counter = counter.clone();
                shard.spawn(async move {
                    counter.fetch_add(1, Ordering::Relaxed);
                    stopping().await;
                    // And it stays true.
                    stopping().await;
                })
            })
            .collect();
        shard.stopping().await;
        for task in tasks {
            task.await.expect("woken, not cut off");
        }
    })
    .expect("starts");
    until("all wait", || waiting.load(Ordering::Relaxed) == 40);
    let report = finish(running);
    assert!(
        report
            .shards
            .iter()
            .all(|shard| shard.result.is_ok() && shard.tasks_cut_off == 0)
    );
}

fn incoming_ends<B: Engine>() {
    let service = async |shard: Shard<B>| {
        let mut incoming = shard.incoming(0);
        let mut count = 0;
        while incoming.next().await.is_some() {
            count += 1;
        }
        assert!(incoming.next().await.is_none(), "an end is for good");
        count
    };
    let client = async |_, server: Server| {
        let mut talks = Vec::new();
        for _ in 0..10 {
            talks.push(Talk::<B>::to(&server).await);
        }
        // Dropped by the service: so they were taken.
        for talk in &mut talks {
            let _ = talk.read_some().await;
        }
        server.stopper.drain();
        while Talk::<B>::try_to(&server.address()).await.is_ok() {
            // Until nobody listens any more.
        }
    };
    let (report, ()) = B::serve(plan(2, Accept::Handoff), service, client);
    let counts: Vec<_> = report
        .shards
        .iter()
        .map(|shard| *shard.result.as_ref().expect("it ended"))
        .collect();
    // Those that came after the ten may have been served or not.
    assert!(counts.iter().all(|count| *count >= 5), "{counts:?}");
}

fn a_service_that_ignores_the_stop_is_cut_off<B: Backend>() {
    let mut plan = Plan::new(2);
    plan.drain = Duration::from_millis(50);
    let running = launch::<B, ()>(plan, async |shard: Shard<B>| {
        if shard.index() == 0 {
            pending::<()>().await;
        } else {
            loop {
                time::yield_now().await;
            }
        }
    })
    .expect("starts");
    let report = finish(running);
    for shard in &report.shards {
        assert!(
            matches!(shard.result, Err(TaskError::Cancelled)),
            "{:?}",
            shard.result
        );
    }
}

fn tasks_that_ignore_the_stop_are_cut_off_and_counted<B: Engine>() {
    let mut plan = plan(1, Accept::Handoff);
    plan.drain = Duration::from_millis(50);
    let client = async |_, server: Server| {
        let mut talks = Vec::new();
        for _ in 0..5 {
            talks.push(Talk::<B>::to(&server).await);
        }
        for talk in &mut talks {
            talk.ping(b"hello").await.expect("served");
        }
        server.stopper.drain();
        for talk in &mut talks {
            let rest = talk.read_some().await;
            assert!(rest.expect("closed, not reset").is_empty());
        }
    };
    let (report, ()) = B::serve(plan, echo, client);
    assert!(
        report.shards[0].result.is_ok(),
        "the service itself had ended"
    );
    assert_eq!(report.tasks_cut_off(), 5);
}

fn force_ends_at_once<B: Backend>() {
    let begun = Arc::new(AtomicUsize::new(0));
    let counter = begun.clone();
    let mut plan = Plan::new(2);
    // Would hang the test.
    plan.drain = Duration::MAX;
    let running = launch::<B, ()>(plan, async move |shard: Shard<B>| {
        for _ in 0..3 {
            shard.spawn(pending::<()>()).detach();
        }
        counter.fetch_add(1, Ordering::Relaxed);
        pending::<()>().await;
    })
    .expect("starts");
    until("both run", || begun.load(Ordering::Relaxed) == 2);
    running.stopper().drain();
    let report = cut_off(running);
    for shard in &report.shards {
        assert!(matches!(shard.result, Err(TaskError::Cancelled)));
        assert_eq!(shard.tasks_cut_off, 3);
    }
}

fn force_of_an_idle_server_cuts_off_nothing<B: Engine>() {
    let client = async |_, server: Server| {
        let mut talk = Talk::<B>::to(&server).await;
        talk.ping(b"hello").await.expect("served");
        assert!(talk.finish().await.is_empty());
        server.stopper.force();
    };
    let (report, ()) = B::serve(plan(2, Accept::Handoff), echo, client);
    assert_eq!(
        report.tasks_cut_off(),
        0,
        "nothing but the runtime's own tasks was there"
    );
}

/// Clients that only connect, as fast as they can: the backlog is never empty.
fn a_flood_of_connections_does_not_delay_the_end<B: Engine>() {
    let mut plan = plan(1, Accept::Handoff);
    plan.drain = Duration::MAX;
    let client = async |shard: Shard<B>, server: Server| {
        let flood = |_| {
            let address = server.address();
            shard.spawn(async move { while Talk::<B>::try_to(&address).await.is_ok() {} })
        };
        let clients: Vec<_> = (0..4).map(flood).collect();
        let mut first = Talk::<B>::to(&server).await;
        first.ping(b"hello").await.expect("served");
        server.stopper.drain();
        for client in clients {
            client.await.expect("no panic");
        }
    };
    let (report, ()) = B::serve(plan, polite_echo, client);
    report.shards[0]
        .result
        .as_ref()
        .expect("the service ended by itself");
}

fn dropping_the_handle_ends_the_shards<B: Backend>() {
    let held = Arc::new(());
    let inside = Arc::downgrade(&held);
    let service = async move |_| {
        let _held = held.clone();
        pending().await
    };
    let running = launch::<B, ()>(plan(2, Accept::Handoff), service).expect("starts");
    let address = running.addresses()[0].inet().expect("a TCP endpoint");
    drop(running);
    until("the services are gone", || inside.strong_count() == 0);
    until("the port is free again", || {
        TcpListener::bind(address).is_ok()
    });
}

fn stopping_before_the_service_looks_is_seen<B: Backend>() {
    for _ in 0..20 {
        let running = launch::<B, _>(Plan::new(1), async |_| stopping().await).expect("starts");
        finish(running);
    }
}

fn a_service_that_panics_takes_the_plan_along<B: Backend>() {
    let service = async |shard: Shard<B>| {
        assert_ne!(shard.index(), 1, "the service breaks");
        stopping().await;
    };
    let report = launch::<B, _>(Plan::new(3), service)
        .expect("starts")
        .wait();
    assert!(matches!(report.shards[1].result, Err(TaskError::Panic(_))));
    assert!(report.shards[0].result.is_ok() && report.shards[2].result.is_ok());
    assert!(
        report
            .first_panic()
            .is_some_and(|text| text.contains("the service breaks"))
    );
}

fn the_shard_that_accepts_takes_the_plan_along<B: Backend>() {
    let service = async |shard: Shard<B>| {
        if shard.index() > 0 {
            // Only the accepting shard could still bring connections, and it has ended.
            while shard.incoming(0).next().await.is_some() {}
        }
    };
    let running = launch::<B, _>(plan(2, Accept::Handoff), service).expect("starts");
    assert_clean(&running.wait());
}

fn a_shard_that_accepts_for_itself_ends_alone<B: Engine>() {
    if !socket::REUSE_PORT_SPREADS {
        return engine::skip(B::NAME, "SO_REUSEPORT does not spread connections here");
    }
    let ended = Arc::new(Bell::default());
    let has_ended = ended.clone();
    let service = async move |shard: Shard<B>| {
        if shard.index() == 0 {
            ended.ring();
            return;
        }
        polite_echo(shard).await;
    };
    let client = async move |_, server: Server| {
        has_ended.rung(1).await;
        // Connections whose hash led to the listener that is gone may be reset; in time one reaches the other shard.
        loop {
            if let Ok(mut talk) = Talk::<B>::try_to(&server.address()).await
                && talk.ping(b"x").await.is_ok()
            {
                return;
            }
        }
    };
    B::serve(plan(2, Accept::ReusePort), service, client);
}

fn bad_numbers_of_shards_are_refused<B: Backend>() {
    for shards in [0, Plan::MAX_SHARDS + 1] {
        match launch::<B, _>(Plan::new(shards), async |_| ()) {
            Err(LaunchError::Shards(refused)) => assert_eq!(refused, shards),
            other => panic!("{other:?}"),
        }
    }
}

fn an_endpoint_that_cannot_be_bound_leaves_nothing_running<B: Backend>() {
    let taken = TcpListener::bind(engine::v4()).expect("a free port");
    let free = TcpListener::bind(engine::v4()).expect("a free port");
    let free_address = free.local_addr().expect("bound");
    drop(free);
    let started = Arc::new(AtomicUsize::new(0));
    let counter = started.clone();
    let plan = Plan::new(2)
        .endpoint(Endpoint::tcp(free_address, Accept::Handoff))
        .endpoint(Endpoint::tcp(
            taken.local_addr().expect("bound"),
            Accept::Handoff,
        ));
    let result = launch::<B, _>(plan, async move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    assert!(matches!(result, Err(LaunchError::Bind(_))), "{result:?}");
    drop(TcpListener::bind(free_address).expect("the first endpoint was let go"));
    assert_eq!(started.load(Ordering::Relaxed), 0);
}

/// In a process of its own with too few descriptors for so many engines.
fn an_engine_that_cannot_be_built_leaves_nothing_running<B: Backend>() {
    engine::alone(Some(64), || {
        let free = TcpListener::bind(engine::v4()).expect("a free port");
        let address = free.local_addr().expect("bound");
        drop(free);
        let before = socket::open_descriptors().expect("countable");
        let plan = Plan::new(100).endpoint(Endpoint::tcp(address, Accept::Handoff));
        let result = launch::<B, ()>(plan, async |_| {
            unreachable!("no service runs before every shard has its engine")
        });
        match result {
            Err(ref error @ LaunchError::Engine { engine, shard, .. }) => {
                assert!(engine == B::NAME && shard < 100);
                let text = error.to_string();
                assert!(
                    text.contains("ulimit -n") && text.contains("64 desc"),
                    "{text}"
                );
            }
            other => panic!("{other:?}"),
        }
        drop(TcpListener::bind(address).expect("the endpoint was let go"));
        let after = socket::open_descriptors().expect("countable");
        // Those that had their engine had at least its ring, its eventfd or epoll, and two ends of a wake descriptor at once.
        // None has fewer than four of them while it runs.
        let engines = (64 - before) / 4;
        assert!((before..=before + engine::leaked_descriptors::<B>(engines)).contains(&after));
    });
}

#[derive(Clone)]
struct NameOfEngine;

impl Service for NameOfEngine {
    async fn run<B: Backend>(self, _shard: Shard<B>) -> Result<(), Error> {
        Err(B::NAME.into())
    }
}

fn a_service_runs_on_the_engine_that_was_named<B: Backend>() {
    let kind: Kind = B::NAME.parse().expect("an engine's name is known");
    let running = start(kind, Plan::new(1), NameOfEngine).expect("starts");
    assert_eq!(running.engine(), B::NAME);
    let report = running.wait();
    assert_clean(&report);
    let error = report.shards[0]
        .result
        .as_ref()
        .expect("no panic")
        .as_ref()
        .expect_err("it fails");
    assert_eq!(error.to_string(), B::NAME);
}

fn more_shards_than_cpus_run<B: Backend>() {
    let shards = 1 + thread::available_parallelism().map_or(1, |cpus| cpus.get().min(15));
    let running =
        launch::<B, _>(Plan::new(shards), async |shard: Shard<B>| shard.index()).expect("starts");
    assert_eq!(running.seats().len(), shards);
    let report = running.wait();
    assert_clean(&report);
    for (index, shard) in report.shards.iter().enumerate() {
        assert_eq!(*shard.result.as_ref().expect("no panic"), index);
    }
}

/// Whatever the number of entries, an engine that works here works with the nearest that it can have.
fn engine_options_out_of_bounds_are_clamped<B: Engine>() {
    for entries in [0, 1, 32_769, 1 << 20, u32::MAX] {
        let mut plan = plan(1, Accept::Handoff);
        plan.engine.ring_entries = entries;
        B::probe(&plan.engine).unwrap_or_else(|refused| panic!("{entries} entries: {refused}"));
        B::serve(plan, echo, async |_, server| {
            let mut talk = Talk::<B>::to(&server).await;
            talk.ping(b"hello").await.expect("served");
        });
    }
}

/// What a probe leaves for the kernel to tidy up must not interrupt whoever waits next.
fn probing_disturbs_no_call_of_the_calling_thread<B: Backend>() {
    let (mut silent, _other) = UnixStream::pair().expect("a pair of sockets");
    let wait = Some(Duration::from_millis(5));
    silent.set_read_timeout(wait).expect("sockets can time out");
    for _ in 0..50 {
        B::probe(&EngineOptions::default()).expect("it worked before");
        let ended = silent.read(&mut [0]).expect_err("nobody writes");
        assert_eq!(ended.kind(), ErrorKind::WouldBlock, "{ended}");
    }
}

/// A thread is one shard's.
fn an_engine_within_a_shard_is_refused<B: Backend>() {
    engine::on_shard::<B, _>(async |shard: Shard<B>| {
        let refused = B::run(&EngineOptions::default(), || async { unreachable!() });
        let error = refused.expect_err("there is a shard here already");
        assert!(error.to_string().contains("shard"), "{error}");
        // And this one goes on.
        assert_eq!(shard.spawn(async { 5 }).await.expect("no panic"), 5);
    });
}

fn a_service_may_drain_for_ever<B: Backend>() {
    let mut plan = Plan::new(1);
    plan.drain = Duration::MAX;
    let running = launch::<B, _>(plan, async |shard: Shard<B>| {
        shard.spawn(stopping()).detach();
        5
    })
    .expect("starts");
    let report = finish(running);
    assert_eq!(*report.shards[0].result.as_ref().expect("no panic"), 5);
}

#[derive(Clone)]
struct FailsOn(usize);

impl Service for FailsOn {
    async fn run<B: Backend>(self, shard: Shard<B>) -> Result<(), Error> {
        if shard.index() == self.0 {
            return Err("no good".into());
        }
        shard.stopping().await;
        Ok(())
    }
}

fn kind<B: Backend>() -> Kind {
    B::NAME.parse().expect("an engine's name is known")
}

fn a_service_that_fails_takes_the_plan_along<B: Backend>() {
    for fails in 0..3 {
        let running = start(kind::<B>(), Plan::new(3), FailsOn(fails)).expect("starts");
        let report = running.wait();
        assert_clean(&report);
        let error = report.first_error().expect("one failed").to_string();
        assert_eq!(error, "no good");
        for (index, shard) in report.shards.iter().enumerate() {
            let result = shard.result.as_ref().expect("no panic");
            assert_eq!(result.is_err(), index == fails);
        }
    }
}

fn one_address_twice_in_a_plan_is_told_from_somebody_elses<B: Backend>() {
    let free = TcpListener::bind(engine::v4()).expect("a free port");
    let tcp = free.local_addr().expect("bound");
    drop(free);
    let any = SocketAddr::from(([0, 0, 0, 0], tcp.port()));
    let path = std::env::temp_dir().join(format!("shardloop-twice-{}.sock", std::process::id()));
    let at = |address| Endpoint::tcp(address, Accept::Shared);
    let pairs = [
        [at(tcp), at(tcp)],
        [at(any), at(tcp)],
        [Endpoint::unix(&path), Endpoint::unix(&path)],
    ];
    for [first, second] in pairs {
        let twice = second.address.clone();
        let plan = Plan::new(1).endpoint(first).endpoint(second);
        match launch::<B, _>(plan, async |_| ()) {
            Err(LaunchError::Twice(address)) => assert_eq!(address, twice),
            other => panic!("{other:?}"),
        }
    }
    let udp = DatagramEndpoint::udp(tcp);
    let plan = Plan::new(1).datagrams(udp).datagrams(udp);
    match launch::<B, _>(plan, async |_| ()) {
        Err(LaunchError::Twice(address)) => assert_eq!(address, tcp.into()),
        other => panic!("{other:?}"),
    }
    // A stream and a datagram may have the same.
    let plan = Plan::new(1).endpoint(at(tcp)).datagrams(udp);
    finish(launch::<B, _>(plan, async |_| ()).expect("they are not in each other's way"));
    // Errors if it is gone.
    let _ = std::fs::remove_file(path);
}

/// In a process of its own, whose other threads have both signals blocked, as in a program that has no other: runs `body` there, and
/// returns what it printed and how it ended.
fn with_signals(body: impl FnOnce()) -> Option<std::process::Output> {
    let Some(mut command) = engine::again(None) else {
        let both = [SIGINT, SIGTERM].into_iter().collect::<SigSet>();
        both.thread_unblock().expect("these can be");
        body();
        return None;
    };
    // A blocked mask survives exec. The thread is this test's own.
    let _blocked = Signals::block().expect("these can be");
    Some(
        command
            .output()
            .expect("the test binary can be started again"),
    )
}

fn sigterm() {
    signal::send(std::process::id(), Signal::Terminate).expect("it is our own process");
}

/// Runs twice: each time one signal drains, and is not the next one's. Then a signal does what it does without us.
fn run_takes_signals_and_gives_them_back<B: Backend>() {
    let output = with_signals(|| {
        for _ in 0..2 {
            let service = Signalled(Arc::default());
            let report = shardloop::run(kind::<B>(), Plan::new(2), service).expect("runs");
            assert!(report.first_error().is_none() && report.tasks_cut_off() == 0);
            let results = report.shards.iter().map(|shard| &shard.result);
            assert!(results.into_iter().all(Result::is_ok), "one signal drains");
            println!("drained once");
        }
        sigterm();
        println!("NOT ENDED");
    });
    let Some(output) = output else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text.matches("drained once").count(), 2, "{output:?}");
    assert!(!text.contains("NOT ENDED"), "{output:?}");
    assert_eq!(output.status.signal(), Some(SIGTERM as i32));
}

/// Sends the process a signal once both shards serve.
#[derive(Clone)]
struct Signalled(Arc<AtomicUsize>);

impl Service for Signalled {
    async fn run<B: Backend>(self, shard: Shard<B>) -> Result<(), Error> {
        if self.0.fetch_add(1, Ordering::Relaxed) == 1 {
            sigterm();
        }
        shard.stopping().await;
        Ok(())
    }
}

fn run_gives_signals_back_when_nothing_starts<B: Backend>() {
    let output = with_signals(|| {
        let refused = shardloop::run(kind::<B>(), Plan::new(0), FailsOn(0));
        assert!(matches!(refused, Err(LaunchError::Shards(0))));
        println!("refused");
        sigterm();
        println!("NOT ENDED");
    });
    let Some(output) = output else { return };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("refused") && !text.contains("NOT ENDED"),
        "{output:?}"
    );
    assert_eq!(output.status.signal(), Some(SIGTERM as i32));
}
