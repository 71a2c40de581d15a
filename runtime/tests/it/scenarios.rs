//! What users of such runtimes get hurt by: one function per numbered scenario, shortened.
//!
//! The numbers are those of the project's list of scenarios. Those that need a seccomp filter, our own ring or the load generator
//! (6, 10, 11, 12) are tested where these are; 7 and 8 are in `conformance` and `accept`.

use crate::{
    client::{self, Bell, STREAM, Seeded, Talk},
    engine::{self, Engine, alone, cut_off, echo, finish, on_every_engine, on_shard, plan, skip},
    watchdog::until,
};
use shardloop::{
    Accept, Backend, ConnectOptions, Either, Endpoint, Incoming, Listener, Plan, RecvHalf,
    SendHalf, Shard, backend::Bound, launch, race, stopping, time,
};
use shardloop_platform::socket;
use std::os::fd::OwnedFd;
use std::{
    cell::Cell,
    future::{Future, pending, poll_fn},
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    pin::Pin,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
    thread,
    time::Duration,
};

on_every_engine!(
    scenario_1_timed_out_receives_lose_nothing,
    scenario_1_raced_receives_lose_nothing,
    scenario_2_wakes_from_other_threads_are_never_lost,
    scenario_2_a_channel_closed_while_its_reader_sleeps,
    scenario_2_shards_wake_each_other,
    scenario_5_tear_down_with_work_in_flight,
    scenario_5_the_handle_dropped_with_work_in_flight,
    scenario_9_a_yield_loop_starves_nobody,
    scenario_9_sleeps_of_zero_starve_nobody,
    scenario_9_wakes_without_a_pause_starve_nobody,
    scenario_9_a_hundred_thousand_timers;
    kernel
    "it adopts no sockets of the system": scenario_3_blocking_sockets_do_not_freeze_the_shard,
    "there are no descriptors to run out of": scenario_4_out_of_descriptors,
    "no receive holds memory in the engine": scenario_5_tear_down_with_two_thousand_receives_in_flight,
);

/// One way to wait for a receive that may be given up.
trait Attempt: Copy + Send + 'static {
    async fn recv<R: RecvHalf>(self, stream: &mut R) -> Option<std::io::Result<R::Lease>>;
}

#[derive(Clone, Copy)]
struct Timeout;

impl Attempt for Timeout {
    async fn recv<R: RecvHalf>(self, stream: &mut R) -> Option<std::io::Result<R::Lease>> {
        time::timeout(Duration::from_millis(1), stream.recv())
            .await
            .ok()
    }
}

#[derive(Clone, Copy)]
struct Raced;

impl Attempt for Raced {
    async fn recv<R: RecvHalf>(self, stream: &mut R) -> Option<std::io::Result<R::Lease>> {
        match race(stream.recv(), time::yield_now()).await {
            Either::Left(result) => Some(result),
            Either::Right(()) => None,
        }
    }
}

/// A numbered stream with random gaps, against receives that are given up again and again.
fn numbered<B: Engine>(attempt: impl Attempt) {
    const NUMBERS: u32 = 30_000;
    let service = async move |shard: Shard<B>| {
        let (mut stream, _) = shard.incoming(0).next().await.expect("a client comes");
        let (mut expected, mut part, mut given_up) = (0_u32, Vec::new(), 0_u64);
        loop {
            let Some(result) = attempt.recv(&mut stream).await else {
                given_up += 1;
                continue;
            };
            let lease = result.expect("receiving works");
            if lease.is_empty() {
                assert!(part.is_empty(), "the stream ended within a number");
                return (expected, given_up);
            }
            part.extend_from_slice(&lease);
            let (whole, rest) = part.as_chunks::<4>();
            for number in whole {
                assert_eq!(u32::from_le_bytes(*number), expected, "a gap or a repeat");
                expected += 1;
            }
            part = rest.to_vec();
        }
    };
    let client = async |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        let (mut seeded, mut next) = (Seeded::new(11), 0);
        while next < NUMBERS {
            let burst = u32::try_from(1 + seeded.below(300))
                .expect("small")
                .min(NUMBERS - next);
            let bytes: Vec<u8> = (next..next + burst).flat_map(u32::to_le_bytes).collect();
            next += burst;
            // In two pieces, so that numbers are torn.
            let at = usize::try_from(seeded.below(bytes.len() as u64)).expect("small");
            let (one, other) = bytes.split_at(at);
            for piece in [one, other] {
                talk.write(piece).await.expect("the server reads");
                let gap = Duration::from_micros(seeded.below(3_000));
                time::sleep(gap).await; // tidy: sleep the random gaps of the scenario
            }
        }
    };
    let (report, ()) = B::serve(plan(1, Accept::Handoff), service, client);
    let (received, given_up) = *report.shards[0].result.as_ref().expect("no gap, no repeat");
    assert_eq!(received, NUMBERS);
    assert!(
        given_up > 0,
        "no receive was ever given up, so nothing was tried"
    );
}

fn scenario_1_timed_out_receives_lose_nothing<B: Engine>() {
    numbered::<B>(Timeout);
}

fn scenario_1_raced_receives_lose_nothing<B: Engine>() {
    numbered::<B>(Raced);
}

/// Every round, each of several threads rings once, at a random moment about when the shard parks; then the shard lets them go on.
fn scenario_2_wakes_from_other_threads_are_never_lost<B: Backend>() {
    for threads in [2, 4, 8] {
        const ROUNDS: u64 = 3_000;
        let bell = Arc::new(Bell::default());
        let round = Arc::new(AtomicU64::new(0));
        let ringers: Vec<_> = (0..threads)
            .map(|number| {
                let (bell, round) = (bell.clone(), round.clone());
                thread::spawn(move || {
                    let mut seeded = Seeded::new(number);
                    for now in 1..=ROUNDS {
                        while round.load(Ordering::Acquire) < now {
                            thread::yield_now();
                        }
                        for _ in 0..seeded.below(200) {
                            std::hint::spin_loop();
                        }
                        bell.ring();
                    }
                })
            })
            .collect();
        let foreign = on_shard::<B, _>({
            let (bell, round) = (bell.clone(), round.clone());
            async move |shard: Shard<B>| {
                for now in 1..=ROUNDS {
                    round.store(now, Ordering::Release);
                    // Woken by nothing but the bell. A lost wake hangs here, and the watchdog tells.
                    bell.rung(now * threads).await;
                }
                shard.metrics().foreign_wakes
            }
        });
        assert!(foreign > 0, "no wake came from another thread");
        ringers
            .into_iter()
            .for_each(|thread| thread.join().expect("no panic"));
    }
}

/// Two shards that take turns: each sleeps until the other wakes it.
fn scenario_2_shards_wake_each_other<B: Backend>() {
    const ROUNDS: u64 = 5_000;
    let bells = Arc::new([Bell::default(), Bell::default()]);
    let running = launch::<B, _>(Plan::new(2), async move |shard: Shard<B>| {
        let (mine, other) = (&bells[shard.index()], &bells[1 - shard.index()]);
        for round in 1..=ROUNDS {
            if shard.index() == 0 {
                other.ring();
                mine.rung(round).await;
            } else {
                mine.rung(round).await;
                other.ring();
            }
        }
    })
    .expect("starts");
    let report = running.wait();
    engine::assert_clean(&report);
    assert!(report.shards.iter().all(|shard| shard.result.is_ok()));
}

/// A value that comes from another thread, or the news that none will.
struct OneValue<T> {
    value: Option<T>,
    closed: bool,
    waiting: Option<Waker>,
}

struct Receiver<T>(Arc<Mutex<OneValue<T>>>);

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut cell = self.0.lock().expect("not poisoned");
        if cell.closed {
            return Poll::Ready(cell.value.take());
        }
        cell.waiting = Some(cx.waker().clone());
        Poll::Pending
    }
}

struct Sender<T>(Arc<Mutex<OneValue<T>>>);

impl<T> Sender<T> {
    fn send(self, value: T) {
        self.0.lock().expect("not poisoned").value = Some(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut cell = self.0.lock().expect("not poisoned");
        cell.closed = true;
        let waker = cell.waiting.take();
        drop(cell);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let cell = Arc::new(Mutex::new(OneValue {
        value: None,
        closed: false,
        waiting: None,
    }));
    (Sender(cell.clone()), Receiver(cell))
}

fn scenario_2_a_channel_closed_while_its_reader_sleeps<B: Backend>() {
    const ROUNDS: u64 = 3_000;
    let (jobs, work) = std::sync::mpsc::channel::<(u64, Sender<u64>)>();
    let closer = thread::spawn(move || {
        let mut seeded = Seeded::new(12);
        for (number, sender) in work {
            for _ in 0..seeded.below(2_000) {
                std::hint::spin_loop();
            }
            if number % 2 == 0 {
                drop(sender)
            } else {
                sender.send(number)
            }
        }
    });
    on_shard::<B, _>(async move |_| {
        for number in 0..ROUNDS {
            let (sender, receiver) = oneshot();
            jobs.send((number, sender)).expect("the closer lives");
            assert_eq!(receiver.await, (number % 2 == 1).then_some(number));
        }
    });
    closer.join().expect("no panic");
}

/// A listener and a connection made without O_NONBLOCK, in a shard that must go on while they wait.
fn scenario_3_blocking_sockets_do_not_freeze_the_shard<B>()
where
    B: Backend<Socket = OwnedFd, Bound = Bound>,
{
    on_shard::<B, _>(async |shard: Shard<B>| {
        let listener = TcpListener::bind(engine::v4()).expect("a free port");
        let address = listener.local_addr().expect("bound");
        let mut listener = B::adopt_listener(listener.into()).expect("adopted");
        let ticks = Rc::new(Cell::new(0));
        let counter = ticks.clone();
        let ticker = shard.spawn(async move {
            loop {
                time::sleep(Duration::from_millis(1)).await; // tidy: sleep this is the ticker
                counter.set(counter.get() + 1);
            }
        });
        let some_more = || {
            let (ticks, enough) = (ticks.clone(), ticks.get() + 10);
            async move {
                while ticks.get() < enough {
                    time::yield_now().await;
                }
            }
        };
        assert!(matches!(
            race(listener.accept(), some_more()).await,
            Either::Right(())
        ));
        let mut client = TcpStream::connect(address).expect("it listens");
        let (accepted, peer) = listener.accept().await.expect("accepted");
        assert_eq!(peer.inet(), client.local_addr().ok());
        socket::set_nonblocking(&accepted, false).expect("a socket can block");
        let mut stream = B::adopt_stream(accepted, &STREAM).expect("adopted");
        client.write_all(b"ready").expect("sent");
        assert_eq!(&*stream.recv().await.expect("received"), b"ready");
        assert!(matches!(
            race(stream.recv(), some_more()).await,
            Either::Right(())
        ));
        client.write_all(b"again").expect("sent");
        assert_eq!(&*stream.recv().await.expect("received"), b"again");
        assert!(matches!(
            race(stream.send_all(vec![0; 64 << 20]), some_more()).await,
            Either::Right(())
        ));
        ticker.cancel().await;
    });
}

/// The server in a process of its own that may have 64 descriptors; the clients in this one.
fn scenario_4_out_of_descriptors<B: Backend>() {
    const CLIENTS: usize = 200;
    let Some(mut server) = engine::child(64, || {
        let errors = Arc::new(AtomicU64::new(0));
        let counter = errors.clone();
        let service = async move |shard: Shard<B>| {
            let (observed, counter) = (shard.clone(), counter.clone());
            let observer = shard.spawn(async move {
                loop {
                    counter.store(observed.metrics().accept_errors, Ordering::Relaxed);
                    time::sleep(Duration::from_millis(5)).await; // tidy: sleep between two looks at a counter
                }
            });
            echo(shard).await;
            observer.cancel().await;
        };
        let running = launch::<B, _>(plan(1, Accept::Handoff), service).expect("starts");
        println!(
            "address {}",
            running.addresses()[0].inet().expect("a TCP endpoint")
        );
        // A line is a question; the end of them is the end.
        for _line in std::io::stdin().lines().map_while(Result::ok) {
            println!("errors {}", errors.load(Ordering::Relaxed));
        }
        finish(running);
    }) else {
        return;
    };
    let address: SocketAddr = server.expect("address").parse().expect("an address");
    let mut served = Vec::new();
    let mut waiting = Vec::new();
    for _ in 0..CLIENTS {
        let stream = client::connect(address);
        stream
            .set_read_timeout(Some(Duration::from_millis(100)))
            .expect("a socket takes a timeout");
        (&stream).write_all(b"?").expect("the backlog takes it");
        // Once one is not served the rest will not be either: do not wait for each.
        let answered = waiting.is_empty() && (&stream).read_exact(&mut [0]).is_ok();
        if answered {
            served.push(stream)
        } else {
            waiting.push(stream)
        }
    }
    assert!(
        served.len() > 10 && served.len() < 64,
        "{} clients were served with 64 descriptors",
        served.len()
    );
    let errors = |server: &mut engine::Child| -> u64 {
        server.ask();
        server.expect("errors").parse().expect("a number")
    };
    until("accepting fails", || errors(&mut server) > 0);
    for stream in &served {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a socket takes a timeout");
        client::ping(stream, b"open connections still echo").expect("served");
    }
    // A back-off of 100 ms: in any time, far fewer errors than a loop without one would make.
    let (begun, before) = (std::time::Instant::now(), errors(&mut server));
    until("it fails again", || errors(&mut server) >= before + 3);
    let rate = (errors(&mut server) - before) as f64 / begun.elapsed().as_secs_f64();
    assert!(
        rate < 100.0,
        "{rate} errors per second: that is no back-off"
    );
    let freed = served.len() / 2;
    served.truncate(served.len() - freed);
    let mut accepted = 0;
    for mut stream in &waiting[..freed - 2] {
        stream
            .set_read_timeout(Some(Duration::from_secs(60)))
            .expect("a socket takes a timeout");
        stream
            .read_exact(&mut [0])
            .expect("accepted once descriptors were freed");
        accepted += 1;
    }
    assert_eq!(accepted, freed - 2);
    drop((served, waiting));
    server.end();
}

/// Leaves one of everything in flight: accepts, receives, a send, connects (`nobody` never answers), timers.
async fn leave_everything_in_flight<B: Backend>(
    shard: Shard<B>,
    nobody: SocketAddr,
    moment: u32,
    panics: bool,
) {
    let mut incoming: Incoming<B> = shard.incoming(0);
    let options = ConnectOptions {
        stream: STREAM,
        deadline: Duration::MAX,
    };
    let address = shard.address(0).inet().expect("a TCP endpoint");
    let detach = |future: Pin<Box<dyn Future<Output = ()>>>| shard.spawn(future).detach();
    detach(Box::pin(async move {
        // Connects to itself: a receive and a send in flight on either side.
        let mut ours = B::connect(&[address.into()], &options)
            .await
            .expect("it listens");
        let (mut theirs, _) = incoming.next().await.expect("that is us");
        let receiving = shardloop::spawn(async move {
            let _ = theirs.recv().await;
            // Large leases too.
            let _ = theirs.recv().await;
        });
        let _ = ours.send_all(vec![1; 64 << 20]).await;
        receiving.await.expect("no panic");
    }));
    detach(Box::pin(async move {
        let mut halves = B::connect(&[address.into()], &options)
            .await
            .expect("it listens");
        let _ = halves.recv().await;
    }));
    detach(Box::pin(async move {
        let _ = B::connect(&[nobody.into()], &options).await;
        pending::<()>().await;
    }));
    detach(Box::pin(time::sleep(Duration::from_secs(1_000)))); // tidy: sleep that is to be cut off
    detach(Box::pin(time::sleep(Duration::MAX))); // tidy: sleep that is to be cut off
    // A different moment every time: a turn is 256 polls.
    for _ in 0..moment {
        time::yield_now().await;
    }
    if panics {
        detach(Box::pin(async { panic!("one of those") }));
        time::yield_now().await;
    }
}

/// In a process of its own, whose descriptors and memory must stay as they are.
fn scenario_5_tear_down_with_work_in_flight<B: Backend>() {
    const ROUNDS: u32 = if cfg!(debug_assertions) { 300 } else { 1_000 };
    alone(None, || {
        // Panics are expected here, by the hundred.
        std::panic::set_hook(Box::new(|panic| {
            if !panic.to_string().contains("one of those") {
                eprintln!("{panic}");
            }
        }));
        let deaf = client::Deaf::new();
        let nobody = deaf.address;
        let descriptors = || socket::open_descriptors().expect("countable");
        let mut address = engine::v4();
        let mut before = None;
        for round in 0..ROUNDS {
            let service = async move |shard: Shard<B>| {
                leave_everything_in_flight(
                    shard.clone(),
                    nobody,
                    round * 37 % 1_500,
                    round % 3 == 0,
                )
                .await;
                match round % 4 {
                    0 => pending().await,
                    1 => panic!("one of those"),
                    _ => {}
                }
            };
            let mut plan = Plan::new(1).endpoint(Endpoint::tcp(address, Accept::Handoff));
            plan.drain = Duration::ZERO;
            let running = launch::<B, ()>(plan, service)
                .unwrap_or_else(|error| panic!("round {round}: {error}"));
            // The same port every time: nothing of the last round may still hold it.
            address = running.addresses()[0].inet().expect("a TCP endpoint");
            let report = if round % 4 == 0 {
                cut_off(running)
            } else {
                running.wait()
            };
            engine::assert_clean(&report);
            // Once the allocator and the thread library have what they keep.
            if round == 50 {
                before = Some((descriptors(), engine::resident_bytes()));
            }
        }
        let (descriptors_before, resident_before) = before.expect("round 50 was reached");
        assert_eq!(
            descriptors(),
            descriptors_before + engine::leaked_descriptors::<B>(ROUNDS as usize - 51),
            "descriptors leaked in {ROUNDS} rounds"
        );
        let grown = engine::resident_bytes().saturating_sub(resident_before);
        assert!(
            grown < 8 << 20,
            "{grown} bytes of memory leaked in {ROUNDS} rounds"
        );
    });
}

fn scenario_5_the_handle_dropped_with_work_in_flight<B: Backend>() {
    const ROUNDS: u32 = 50;
    alone(None, || {
        let deaf = client::Deaf::new();
        let nobody = deaf.address;
        let before = socket::open_descriptors().expect("countable");
        for round in 0..ROUNDS {
            let service = async move |shard: Shard<B>| {
                leave_everything_in_flight(shard, nobody, round * 37 % 1_500, false).await;
                pending::<()>().await;
            };
            drop(launch::<B, _>(plan(2, Accept::Handoff), service).expect("starts"));
        }
        let leaked = engine::leaked_descriptors::<B>(2 * ROUNDS as usize);
        until("all descriptors are closed", || {
            socket::open_descriptors().expect("countable") == before + leaked
        });
    });
}

/// More operations to cancel than a ring has entries.
fn scenario_5_tear_down_with_two_thousand_receives_in_flight<B: Backend>() {
    const CONNECTIONS: usize = 2_000;
    alone(None, || {
        let limit = socket::raise_descriptor_limit().expect("the limit is known");
        if limit < 2 * CONNECTIONS as u64 + 200 {
            return skip(B::NAME, &format!("{limit} descriptors are too few"));
        }
        let before = socket::open_descriptors().expect("countable");
        for (engines, force) in [(1, true), (2, false)] {
            let mut plan = plan(1, Accept::Handoff);
            plan.endpoints[0].backlog = 4_096;
            plan.engine.ring_entries = 256;
            plan.drain = Duration::ZERO;
            let running = launch::<B, _>(plan, echo).expect("starts");
            let streams: Vec<_> = (0..CONNECTIONS)
                .map(|_| client::connect(running.addresses()[0].inet().expect("a TCP endpoint")))
                .collect();
            for stream in &streams {
                client::ping(stream, b"hello").expect("served");
            }
            let report = if force {
                cut_off(running)
            } else {
                finish(running)
            };
            assert_eq!(report.tasks_cut_off(), CONNECTIONS);
            drop(streams);
            let leaked = engine::leaked_descriptors::<B>(engines);
            let after = socket::open_descriptors().expect("countable");
            assert_eq!(after, before + leaked);
        }
    });
}

fn scenario_9_a_yield_loop_starves_nobody<B: Engine>() {
    let service = async |shard: Shard<B>| {
        let greedy = shard.spawn(async {
            loop {
                time::yield_now().await;
            }
        });
        let ticks = Rc::new(Cell::new(0));
        let counter = ticks.clone();
        let ticker = shard.spawn(async move {
            loop {
                time::sleep(Duration::from_millis(1)).await; // tidy: sleep this is the ticker
                counter.set(counter.get() + 1);
            }
        });
        echo(shard.clone()).await;
        // The ping was served; the ticker too?
        while ticks.get() < 10 {
            time::yield_now().await;
        }
        ticker.cancel().await;
        greedy.cancel().await;
    };
    B::serve(plan(1, Accept::Handoff), service, async |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        for _ in 0..200 {
            talk.ping(b"ping").await.expect("served");
        }
    });
}

/// "Zero is over at the next turn": so a loop of them lets others run.
fn scenario_9_sleeps_of_zero_starve_nobody<B: Engine>() {
    let service = async |shard: Shard<B>| {
        let past = time::now();
        for which in 0..2 {
            shard
                .spawn(async move {
                    loop {
                        if which == 0 {
                            time::sleep(Duration::ZERO).await; // tidy: sleep of zero is what is tried
                        } else {
                            time::sleep_until(past).await;
                        }
                    }
                })
                .detach();
        }
        race(echo(shard), stopping()).await;
    };
    let mut plan = plan(1, Accept::Handoff);
    plan.drain = Duration::ZERO;
    B::serve(plan, service, async |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        for _ in 0..50 {
            talk.ping(b"ping").await.expect("served");
        }
    });
}

/// Another thread wakes a task during each of its polls, so that the shard never finds nothing left; the connections beside it are
/// served.
fn scenario_9_wakes_without_a_pause_starve_nobody<B: Engine>() {
    let service = async |shard: Shard<B>| {
        let woken = poll_fn(|cx| {
            let waker = cx.waker().clone();
            let other = thread::spawn(move || waker.wake());
            other.join().expect("no panic");
            Poll::<()>::Pending
        });
        shard.spawn(woken).detach();
        echo(shard).await;
    };
    let mut plan = plan(1, Accept::ReusePort);
    plan.drain = Duration::ZERO;
    B::serve(plan, service, async |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        for round in 0..20 {
            talk.ping(&[round]).await.expect("it is served");
        }
    });
}

fn scenario_9_a_hundred_thousand_timers<B: Engine>() {
    const TIMERS: u64 = 100_000;
    let service = async |shard: Shard<B>| {
        let serving = shard.spawn(echo(shard.clone()));
        let mut seeded = Seeded::new(13);
        let fired = Rc::new(Cell::new(0_u64));
        let (mut due, mut dropped, mut tasks) = (0, Vec::new(), Vec::new());
        for number in 0..TIMERS {
            let duration = match seeded.below(10) {
                0 => Duration::ZERO,
                1 => Duration::MAX,
                2 => Duration::from_secs(100_000),
                _ => Duration::from_micros(seeded.below(200_000)),
            };
            let mut sleep = Box::pin(time::sleep(duration)); // tidy: sleep is what is tried
            // Registered, then dropped at once, later, or never.
            if number % 4 == 0 {
                let registered = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await;
                if registered.is_pending() && number % 8 == 0 {
                    dropped.push(sleep);
                }
                continue;
            }
            if duration > Duration::from_secs(1) {
                dropped.push(sleep);
                continue;
            }
            due += 1;
            let fired = fired.clone();
            tasks.push(shard.spawn(async move {
                sleep.await;
                fired.set(fired.get() + 1);
            }));
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        assert_eq!(fired.get(), due);
        drop(dropped);
        serving.await.expect("no panic");
        due
    };
    let client = async |_, server| {
        let mut talk = Talk::<B>::to(&server).await;
        for _ in 0..100 {
            talk.ping(b"ping").await.expect("served");
        }
    };
    let (report, ()) = B::serve(plan(1, Accept::Handoff), service, client);
    assert!(*report.shards[0].result.as_ref().expect("no panic") > TIMERS / 3);
}
