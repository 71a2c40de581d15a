//! What a shard says about itself.

use crate::{
    client::{LONG, connecting},
    engine::{self, assert_clean, echo_stream, on_every_engine, on_shard, plan},
};
use shardloop::{
    Accept, Backend, EngineOptions, Metrics, Plan, RecvHalf, SendHalf, Shard, Stalls, launch, time,
};
use std::{
    thread,
    time::{Duration, Instant},
};

on_every_engine!(
    open_connections_are_those_adopted_and_not_closed,
    what_nobody_asked_for_is_none_and_not_zero,
    timers_are_counted_with_their_lateness,
    a_task_that_keeps_the_shard_is_named,
    a_shard_that_spins_still_hears_everything,
);

/// What a shard reports that runs `body` with these options.
fn measured<B: Backend>(
    engine: EngineOptions,
    body: impl AsyncFn(Shard<B>) + Clone + Send + 'static,
) -> Metrics {
    let mut plan = Plan::new(1);
    plan.engine = engine;
    let report = launch::<B, _>(plan, body).expect("starts").wait();
    assert_clean(&report);
    assert!(report.shards[0].result.is_ok());
    report.shards[0].metrics
}

fn open_connections_are_those_adopted_and_not_closed<B: Backend>() {
    let service = async |shard: Shard<B>| {
        let mut incoming = shard.incoming(0);
        let options = connecting(LONG);
        let mut clients = Vec::new();
        for count in 1..=3 {
            let address = shard.address(0).clone();
            clients.push(B::connect(&[address], &options).await.expect("it listens"));
            let (server, _) = incoming.next().await.expect("that is us");
            shard.spawn(echo_stream(server)).detach();
            assert_eq!(shard.metrics().open(), 2 * count);
        }
        clients[0].send_all(&b"?"[..]).await.0.expect("sent");
        let lease = clients[0].recv().await.expect("received");
        assert_eq!(shard.metrics().lease_bytes, 4096);
        drop(lease);
        drop(clients);
        while shard.metrics().open() > 0 {
            time::yield_now().await;
        }
        let metrics = shard.metrics();
        assert_eq!((metrics.adopted, metrics.closed), (6, 6));
        shard.stopper().drain();
    };
    let report = launch::<B, _>(plan(1, Accept::Handoff), service)
        .expect("starts")
        .wait();
    assert_clean(&report);
    assert!(report.shards[0].result.is_ok());
}

fn what_nobody_asked_for_is_none_and_not_zero<B: Backend>() {
    let metrics = measured::<B>(EngineOptions::default(), async |_| {});
    assert_eq!((metrics.stalls, metrics.kernel_entries), (None, None));
    let asked = EngineOptions {
        stall_after: Some(Duration::from_secs(3600)),
        ..EngineOptions::default()
    };
    let metrics = measured::<B>(asked, async |_| {});
    assert_eq!(metrics.stalls, Some(Stalls::default()));
}

fn timers_are_counted_with_their_lateness<B: Backend>() {
    on_shard::<B, _>(async |shard: Shard<B>| {
        let before = shard.metrics().timers;
        for _ in 0..3 {
            time::sleep(Duration::from_millis(1)).await; // tidy: sleep it is what is counted
        }
        assert_eq!(shard.metrics().timers, before + 3);
        if engine::is_simulated::<B>() {
            return;
        }
        // One whose time came while the shard was kept from looking.
        let deadline = time::now() + Duration::from_millis(1);
        let late = shard.spawn(time::sleep_until(deadline));
        time::yield_now().await;
        while time::now() < deadline + Duration::from_millis(2) {
            thread::yield_now();
        }
        late.await.expect("no panic");
        assert!(shard.metrics().timer_latest >= Duration::from_millis(2));
    });
}

fn a_task_that_keeps_the_shard_is_named<B: Backend>() {
    if engine::is_simulated::<B>() {
        return engine::skip(B::NAME, "virtual time stands still while a task runs");
    }
    let engine = EngineOptions {
        stall_after: Some(Duration::from_millis(20)),
        ..EngineOptions::default()
    };
    let metrics = measured::<B>(engine, async |shard| {
        let greedy = async {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(21) {
                thread::yield_now();
            }
        };
        shard.spawn(greedy).await.expect("no panic");
    });
    let stalls = metrics.stalls.expect("it was asked for");
    assert!(stalls.count >= 1);
    assert!(stalls.longest >= Duration::from_millis(21));
    let from = stalls.longest_from.expect("it was started somewhere");
    assert_eq!(from.file(), file!());
}

fn a_shard_that_spins_still_hears_everything<B: Backend>() {
    let engine = EngineOptions {
        spin: Duration::from_secs(3600),
        ..EngineOptions::default()
    };
    let metrics = measured::<B>(engine, async |shard| {
        // A timer, a wake from elsewhere, and the end.
        time::sleep(Duration::from_millis(1)).await; // tidy: sleep it is what must be heard
        let (sender, receiver) = std::sync::mpsc::channel::<std::task::Waker>();
        let waking = thread::spawn(move || receiver.recv().expect("it comes").wake());
        let mut asked = false;
        std::future::poll_fn(|cx| {
            if std::mem::replace(&mut asked, true) {
                return std::task::Poll::Ready(());
            }
            sender.send(cx.waker().clone()).expect("it waits");
            std::task::Poll::Pending
        })
        .await;
        waking.join().expect("no panic");
        shard.stopper().drain();
        shard.stopping().await;
    });
    assert!(metrics.spins > 0);
}
