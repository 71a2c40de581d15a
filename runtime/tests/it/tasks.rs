//! Tasks: panics, cancelling, wakes from elsewhere, and who drops what on which thread.

use crate::{
    engine::{self, assert_clean, cut_off, finish, on_every_engine, on_shard},
    watchdog::until,
};
use shardloop::{
    Accept, Backend, Batch, Datagram, DatagramEndpoint, Plan, Shard, Task, TaskError, launch,
    spawn, stopping, time,
};
use std::{
    cell::{Cell, RefCell},
    future::{Future, pending, poll_fn},
    pin::Pin,
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, ThreadId},
    time::Duration,
};

on_every_engine!(
    a_panic_is_the_result_of_its_task_and_the_shard_lives_on,
    a_panic_in_the_destructor_of_a_future_ends_nothing_else,
    a_panic_in_the_destructor_of_a_result_ends_nothing_else,
    a_panic_with_something_that_panics_ends_nothing_else,
    a_waiting_waker_that_panics_ends_nothing_else,
    a_waker_that_panics_when_it_is_fired_or_dropped_ends_nothing_else,
    a_waker_may_do_anything_when_it_is_dropped,
    a_panic_of_the_service_is_reported,
    cancel_drops_the_future_on_its_shard,
    a_task_is_cancelled_from_another_thread,
    a_dropped_task_runs_on,
    what_lives_at_the_end_is_dropped_on_its_own_thread,
    a_destructor_may_start_tasks_at_the_end,
    a_wake_after_the_end_does_nothing,
    wakers_are_cloned_and_dropped_elsewhere,
    a_task_that_ends_while_woken_harms_no_other,
    a_task_cancels_itself,
    cancelling_races_finishing,
    wakes_from_elsewhere_reach_the_tenants_of_places_used_again,
    wakers_of_an_ended_shard_do_its_successor_no_harm,
    tasks_start_tasks,
    ten_thousand_tasks,
    a_sleep_moves_between_tasks,
    what_needs_a_shard_says_so_elsewhere,
    a_full_run_queue_does_not_keep_the_main_task_from_ending,
);

/// Notes the thread it is dropped on.
struct Dropped(Arc<Mutex<Vec<ThreadId>>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0
            .lock()
            .expect("not poisoned")
            .push(thread::current().id());
    }
}

/// Panics when dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("dropped");
    }
}

fn a_panic_is_the_result_of_its_task_and_the_shard_lives_on<B: Backend>() {
    let report = launch::<B, _>(Plan::new(1), async |shard: Shard<B>| {
        let task = shard.spawn(async {
            time::yield_now().await;
            panic!("number {}", std::hint::black_box(7));
        });
        let Err(TaskError::Panic(panic)) = task.await else {
            panic!("a panic was expected")
        };
        assert_eq!(panic.message(), "number 7");
        // It is an error like others: `?` takes it into a boxed one.
        let boxed = shardloop::Error::from(panic);
        let panic = boxed
            .downcast::<shardloop::Panic>()
            .expect("what went in")
            .into_payload();
        assert_eq!(
            panic.downcast_ref::<String>().expect("a formatted text"),
            "number 7"
        );
        shard
            .spawn(async { panic!("nobody waits for this one") })
            .detach();
        time::yield_now().await;
        assert_eq!(shard.spawn(async { 5 }).await.expect("the shard lives"), 5);
        shard.metrics().panics
    })
    .expect("starts")
    .wait();
    assert_clean(&report);
    assert_eq!(
        *report.shards[0]
            .result
            .as_ref()
            .expect("the service went on"),
        2
    );
    assert_eq!(report.first_panic(), Some("number 7"));
}

fn a_panic_in_the_destructor_of_a_future_ends_nothing_else<B: Backend>() {
    let mut plan = Plan::new(1);
    plan.drain = Duration::ZERO;
    let report = launch::<B, _>(plan, async |shard: Shard<B>| {
        // After it has finished,
        let bomb = Bomb;
        let finished = shard.spawn(poll_fn(move |_| {
            let _held = &bomb;
            Poll::Ready(3)
        }));
        assert_eq!(finished.await.expect("it has a result all the same"), 3);
        // when it is cancelled,
        let cancelled = shard.spawn(async {
            let _bomb = Bomb;
            pending::<()>().await;
        });
        time::yield_now().await;
        assert!(cancelled.cancel().await.is_none());
        // and at the end of the shard.
        shard
            .spawn(async {
                let _bomb = Bomb;
                pending::<()>().await;
            })
            .detach();
        time::yield_now().await;
        shard.metrics().panics
    })
    .expect("starts")
    .wait();
    assert_clean(&report);
    assert_eq!(
        *report.shards[0]
            .result
            .as_ref()
            .expect("the service went on"),
        2
    );
    assert_eq!(report.shards[0].metrics.panics, 3);
    assert_eq!(report.first_panic(), Some("dropped"));
}

fn a_panic_in_the_destructor_of_a_result_ends_nothing_else<B: Backend>() {
    on_shard::<B, _>(async |shard: Shard<B>| {
        shard.spawn(async { Bomb }).detach();
        time::yield_now().await;
        assert_eq!(shard.spawn(async { 5 }).await.expect("the shard lives"), 5);
    });
}

/// What a panic throws may have a destructor of its own.
fn a_panic_with_something_that_panics_ends_nothing_else<B: Backend>() {
    /// Throws a bomb when dropped, which throws another one, and so on.
    struct Thrower(u32);
    impl Drop for Thrower {
        fn drop(&mut self) {
            if let Some(left) = self.0.checked_sub(1) {
                std::panic::panic_any(Thrower(left));
            }
        }
    }
    on_shard::<B, _>(async |shard: Shard<B>| {
        // From a poll, where nobody takes it,
        shard
            .spawn(async { std::panic::panic_any(Thrower(3)) })
            .detach();
        // from the destructor of a future,
        let cancelled = shard.spawn(async {
            let _thrower = Thrower(3);
            pending::<()>().await;
        });
        time::yield_now().await;
        assert!(cancelled.cancel().await.is_none());
        // and from that of a result.
        shard.spawn(async { Thrower(3) }).detach();
        time::yield_now().await;
        assert_eq!(shard.spawn(async { 5 }).await.expect("the shard lives"), 5);
    });
}

fn a_waiting_waker_that_panics_ends_nothing_else<B: Backend>() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("woken");
        }
    }
    on_shard::<B, _>(async |shard: Shard<B>| {
        let waker = Waker::from(Arc::new(Panics));
        let mut cx = Context::from_waker(&waker);
        let mut finishes = shard.spawn(time::yield_now());
        assert!(Pin::new(&mut finishes).poll(&mut cx).is_pending());
        let cancelled = shard.spawn(pending::<()>());
        let mut cancelled = std::pin::pin!(cancelled.cancel());
        assert!(cancelled.as_mut().poll(&mut cx).is_pending());
        while !finishes.is_finished() {
            time::yield_now().await;
        }
        finishes.await.expect("no panic of its own");
        assert!(cancelled.await.is_none());
        assert_eq!(shard.metrics().panics, 2);
    });
}

/// The wakers of whoever combines futures by itself: fired by a timer, by what another thread left, by the end; replaced; dropped.
fn a_waker_that_panics_when_it_is_fired_or_dropped_ends_nothing_else<B: Backend>() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("woken");
        }
    }
    impl Drop for Panics {
        fn drop(&mut self) {
            if !thread::panicking() {
                panic!("dropped");
            }
        }
    }
    /// Polls once with a waker that panics, of which the future has the last.
    fn poll(future: Pin<&mut impl Future>) {
        let waker = Waker::from(Arc::new(Panics));
        let polled = future.poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        // The one that is left is the future's.
        drop(waker);
    }
    async fn poll_again(mut future: Pin<&mut impl Future>) {
        let polled = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending()));
        assert!(polled.await);
    }
    let datagrams = DatagramEndpoint {
        accept: Accept::Handoff,
        ..DatagramEndpoint::udp(engine::v4())
    };
    let plan = engine::plan(2, Accept::Handoff).datagrams(datagrams);
    let watching = Arc::new(AtomicUsize::new(0));
    let service = async move |shard: Shard<B>| {
        let hour = Duration::from_secs(3600);
        // Fired: by a timer, by what was left for this shard, by the end.
        let mut timer = std::pin::pin!(time::sleep(Duration::from_millis(1))); // tidy: sleep that is to fire
        poll(timer.as_mut());
        let mut incoming = shard.incoming(0);
        let mut next = std::pin::pin!(incoming.next());
        poll(next.as_mut());
        let mut socket = shard.datagrams(0).expect("not taken yet");
        let mut batch = Batch::new(1, 16);
        let mut receive = std::pin::pin!(socket.recv(&mut batch));
        poll(receive.as_mut());
        let mut stop = std::pin::pin!(stopping());
        poll(stop.as_mut());
        // Replaced, and dropped.
        let mut replaced = std::pin::pin!(time::sleep(hour)); // tidy: sleep that is dropped
        poll(replaced.as_mut());
        poll_again(replaced).await;
        let mut replaced = std::pin::pin!(stopping());
        poll(replaced.as_mut());
        poll_again(replaced).await;
        let mut waits = shard.spawn(pending::<()>());
        poll(Pin::new(&mut waits));
        poll_again(Pin::new(&mut waits)).await;
        assert!(waits.cancel().await.is_none());
        let mut dropped = Box::pin(time::sleep(hour)); // tidy: sleep that is dropped
        poll(dropped.as_mut());
        drop(dropped);
        let mut dropped = Box::pin(stopping());
        poll(dropped.as_mut());
        drop(dropped);
        time::sleep(Duration::from_millis(2)).await; // tidy: sleep so that the other timer is over, which is due before
        // Not before the other shard watches, too.
        watching.fetch_add(1, Ordering::Relaxed);
        while watching.load(Ordering::Relaxed) < 2 {
            time::yield_now().await;
        }
        shard.stopper().drain();
        // Those that watch are told before this comes.
        time::sleep(Duration::from_millis(1)).await; // tidy: sleep for a turn of the shard, however long it takes
        // And still its tasks run.
        assert_eq!(shard.spawn(async { 5 }).await.expect("no panic"), 5);
        (shard.index(), shard.metrics().panics)
    };
    let report = launch::<B, _>(plan, service).expect("starts").wait();
    assert_clean(&report);
    for (at, shard) in report.shards.iter().enumerate() {
        let (index, panics) = *shard.result.as_ref().expect("it went on");
        // The timer, three that watch (some are told more than once), five that are replaced or dropped.
        assert_eq!(index, at);
        assert!(panics >= 9, "{panics}");
    }
}

/// A waker may be the last that holds something, and that may have to do with what it was to wake for.
fn a_waker_may_do_anything_when_it_is_dropped<B: Backend>() {
    struct AtDrop(Box<dyn Fn() + Send + Sync>);
    impl Wake for AtDrop {
        fn wake(self: Arc<Self>) {
            unreachable!("what it would wake is polled by others before");
        }
    }
    impl Drop for AtDrop {
        fn drop(&mut self) {
            self.0();
        }
    }
    type Held = Pin<Box<dyn Future<Output = ()>>>;
    thread_local! {
        static HELD: RefCell<Vec<Held>> = const { RefCell::new(Vec::new()) };
    }
    /// Polls `future` with a waker that does `at_drop`, and then with the task's own.
    async fn poll_twice(
        future: &mut (impl Future + Unpin),
        at_drop: impl Fn() + Send + Sync + 'static,
    ) {
        let waker = Waker::from(Arc::new(AtDrop(Box::new(at_drop))));
        let poll = Pin::new(&mut *future).poll(&mut Context::from_waker(&waker));
        assert!(poll.is_pending());
        drop(waker);
        poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx).is_pending())).await;
    }
    let drop_held = || drop(HELD.with_borrow_mut(Vec::pop).expect("one is held"));
    on_shard::<B, _>(async move |_| {
        let hour = Duration::from_secs(3600);
        let held: [Held; 2] = [Box::pin(time::sleep(hour)), Box::pin(stopping())]; // tidy: sleep that is dropped
        for mut future in held {
            poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await;
            HELD.with_borrow_mut(|held| held.push(future));
        }
        poll_twice(&mut stopping(), drop_held).await;
        poll_twice(&mut time::sleep(hour), drop_held).await; // tidy: sleep that is dropped
    });
}

fn a_panic_of_the_service_is_reported<B: Backend>() {
    let report = launch::<B, _>(Plan::new(2), async |shard: Shard<B>| {
        time::yield_now().await;
        assert!(shard.index() != 1, "shard 1 gives up");
        shard.index()
    })
    .expect("starts")
    .wait();
    assert_clean(&report);
    assert_eq!(
        *report.shards[0].result.as_ref().expect("shard 0 is well"),
        0
    );
    let Err(TaskError::Panic(panic)) = &report.shards[1].result else {
        panic!("a panic was expected")
    };
    assert!(panic.message().contains("shard 1 gives up"));
    assert!(
        report
            .first_panic()
            .expect("there was one")
            .contains("shard 1 gives up")
    );
    assert_eq!(report.shards[1].metrics.panics, 1);
}

fn cancel_drops_the_future_on_its_shard<B: Backend>() {
    on_shard::<B, _>(async |shard: Shard<B>| {
        let drops = Arc::new(Mutex::new(Vec::new()));
        let guard = Dropped(drops.clone());
        let task = shard.spawn(async move {
            let _guard = guard;
            pending::<()>().await;
        });
        time::yield_now().await;
        assert!(!task.is_finished());
        assert!(task.cancel().await.is_none(), "it had no result");
        assert_eq!(
            *drops.lock().expect("not poisoned"),
            [thread::current().id()]
        );
        // One that has finished keeps its result, one that never ran is dropped all the same.
        let task = shard.spawn(async { 9 });
        time::yield_now().await;
        assert!(task.is_finished());
        assert_eq!(task.cancel().await.expect("a result").expect("no panic"), 9);
        let guard = Dropped(drops.clone());
        let task = shard.spawn(async move { drop(guard) });
        assert!(task.cancel().await.is_none());
        assert_eq!(drops.lock().expect("not poisoned").len(), 2);
    });
}

fn a_task_is_cancelled_from_another_thread<B: Backend>() {
    on_shard::<B, _>(async |shard: Shard<B>| {
        let drops = Arc::new(Mutex::new(Vec::new()));
        let guard = Dropped(drops.clone());
        let task = shard.spawn(async move {
            let _guard = guard;
            pending::<()>().await;
        });
        time::yield_now().await;
        let elsewhere = thread::spawn(move || {
            let mut cancel = std::pin::pin!(task.cancel());
            let mut cx = Context::from_waker(Waker::noop());
            until("the task is cancelled", || {
                cancel.as_mut().poll(&mut cx).is_ready()
            });
        });
        while !elsewhere.is_finished() {
            time::yield_now().await;
        }
        elsewhere.join().expect("no panic");
        assert_eq!(
            *drops.lock().expect("not poisoned"),
            [thread::current().id()]
        );
    });
}

fn a_dropped_task_runs_on<B: Backend>() {
    on_shard::<B, _>(async |shard: Shard<B>| {
        let done = Rc::new(Cell::new(0));
        for _ in 0..3 {
            let done = done.clone();
            drop(shard.spawn(async move {
                time::yield_now().await;
                done.set(done.get() + 1);
            }));
        }
        while done.get() < 3 {
            time::yield_now().await;
        }
    });
}

fn what_lives_at_the_end_is_dropped_on_its_own_thread<B: Backend>() {
    let drops = Arc::new(Mutex::new(Vec::new()));
    let threads = Arc::new(Mutex::new(Vec::new()));
    let service = {
        let (drops, threads) = (drops.clone(), threads.clone());
        async move |shard: Shard<B>| {
            threads
                .lock()
                .expect("not poisoned")
                .push(thread::current().id());
            for _ in 0..50 {
                let guard = Dropped(drops.clone());
                shard
                    .spawn(async move {
                        let _guard = guard;
                        pending::<()>().await;
                    })
                    .detach();
            }
            time::yield_now().await;
        }
    };
    let mut plan = Plan::new(2);
    plan.drain = Duration::from_millis(20);
    let report = launch::<B, _>(plan, service).expect("starts").wait();
    assert_clean(&report);
    assert_eq!(report.tasks_cut_off(), 100);
    let drops = drops.lock().expect("not poisoned");
    let threads = threads.lock().expect("not poisoned");
    for thread in &*threads {
        // An engine may run both shards on one.
        let shards = threads.iter().filter(|other| *other == thread).count();
        assert_eq!(
            drops.iter().filter(|dropped| *dropped == thread).count(),
            50 * shards
        );
    }
}

fn a_destructor_may_start_tasks_at_the_end<B: Backend>() {
    struct Starts(Arc<AtomicUsize>, u32);
    impl Drop for Starts {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            if self.1 > 0 {
                let next = Starts(self.0.clone(), self.1 - 1);
                spawn(async move {
                    let _next = next;
                    pending::<()>().await;
                })
                .detach();
            }
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let counter = dropped.clone();
    let running = launch::<B, _>(Plan::new(1), async move |shard: Shard<B>| {
        let starts = Starts(counter.clone(), 5);
        shard
            .spawn(async move {
                let _starts = starts;
                pending::<()>().await;
            })
            .detach();
        pending::<()>().await;
    })
    .expect("starts");
    cut_off(running);
    assert_eq!(dropped.load(Ordering::Relaxed), 6);
}

/// A future that leaves its waker outside.
fn leave_waker(at: Arc<Mutex<Vec<Waker>>>) -> impl Future<Output = ()> {
    poll_fn(move |cx| {
        at.lock().expect("not poisoned").push(cx.waker().clone());
        Poll::Pending
    })
}

fn a_wake_after_the_end_does_nothing<B: Backend>() {
    let wakers = Arc::new(Mutex::new(Vec::new()));
    let left = wakers.clone();
    let running = launch::<B, _>(Plan::new(1), async move |shard: Shard<B>| {
        for _ in 0..10 {
            shard.spawn(leave_waker(left.clone())).detach();
        }
        shard.spawn(async {}).await.expect("no panic");
        leave_waker(left.clone()).await;
    })
    .expect("starts");
    until("all have left their wakers", || {
        wakers.lock().expect("not poisoned").len() == 11
    });
    let stopper = running.stopper();
    cut_off(running);
    let wakers = std::mem::take(&mut *wakers.lock().expect("not poisoned"));
    let others: Vec<_> = wakers
        .into_iter()
        .map(|waker| {
            thread::spawn(move || {
                waker.wake_by_ref();
                let again = waker.clone();
                waker.wake();
                again.wake_by_ref();
            })
        })
        .collect();
    others
        .into_iter()
        .for_each(|thread| thread.join().expect("no panic"));
    stopper.drain();
    stopper.force();
}

fn wakers_are_cloned_and_dropped_elsewhere<B: Backend>() {
    const TASKS: usize = 8;
    let (send, receive) = mpsc::channel::<Waker>();
    let stop = Arc::new(AtomicBool::new(false));
    let juggler = {
        let stop = stop.clone();
        thread::spawn(move || {
            while let Ok(waker) = receive.recv() {
                let clones: Vec<_> = (0..4).map(|_| waker.clone()).collect();
                drop(waker);
                clones.iter().for_each(Waker::wake_by_ref);
                if !stop.load(Ordering::Relaxed) {
                    clones.into_iter().next_back().expect("four").wake();
                }
            }
        })
    };
    on_shard::<B, _>(async move |shard: Shard<B>| {
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                let send = send.clone();
                let mut polls = 0;
                shard.spawn(poll_fn(move |cx| {
                    polls += 1;
                    if polls > 500 {
                        return Poll::Ready(polls);
                    }
                    send.send(cx.waker().clone()).expect("the juggler lives");
                    Poll::Pending
                }))
            })
            .collect();
        for task in tasks {
            assert!(task.await.expect("no panic") > 500);
        }
    });
    stop.store(true, Ordering::Relaxed);
    juggler.join().expect("no panic");
}

/// It stands in the queue once more when it ends, and by then another task may have its place.
fn a_task_that_ends_while_woken_harms_no_other<B: Backend>() {
    on_shard::<B, _>(async |shard: Shard<B>| {
        for _ in 0..10 {
            let ends = shard.spawn(poll_fn(|cx| {
                cx.waker().wake_by_ref();
                Poll::Ready(())
            }));
            let starts = shard.spawn(async {
                let started = spawn(async {
                    time::sleep(Duration::from_millis(1)).await; // tidy: sleep is as good a reason to wait as any
                    5
                });
                started.await.expect("nobody has cancelled it")
            });
            ends.await.expect("no panic");
            assert_eq!(starts.await.expect("no panic"), 5);
        }
    });
}

/// By its own handle, in its own future: it goes on until it waits, and is dropped then.
fn a_task_cancels_itself<B: Backend>() {
    on_shard::<B, _>(async |shard: Shard<B>| {
        let drops = Arc::new(Mutex::new(Vec::new()));
        let handle = Rc::new(Cell::new(None));
        let task = {
            let (guard, handle) = (Dropped(drops.clone()), handle.clone());
            shard.spawn(async move {
                let _guard = guard;
                let task: Task<()> = handle.take().expect("it was put there");
                task.cancel().await;
                unreachable!("it has ended");
            })
        };
        handle.set(Some(task));
        until_here(|| drops.lock().expect("not poisoned").len() == 1).await;
        // Dropping it there detaches it.
        let handle = Rc::new(Cell::new(None));
        let done = Rc::new(Cell::new(false));
        let task = {
            let (handle, done) = (handle.clone(), done.clone());
            shard.spawn(async move {
                drop(handle.take());
                time::yield_now().await;
                done.set(true);
            })
        };
        handle.set(Some(task));
        until_here(|| done.get()).await;
        assert_eq!(shard.metrics().panics, 0);
    });
}

/// Lets others have their turn until `condition` holds.
async fn until_here(mut condition: impl FnMut() -> bool) {
    while !condition() {
        time::yield_now().await;
    }
}

/// Unparks the thread that waits.
struct Unpark(thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on a thread without a shard.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

/// Another thread cancels tasks that are about to end: it gets the result of just those that have finished, and hears of all.
fn cancelling_races_finishing<B: Backend>() {
    const TASKS: usize = 5_000;
    on_shard::<B, _>(async |shard: Shard<B>| {
        let (send, receive) = mpsc::channel::<(usize, Task<usize>)>();
        let canceller = thread::spawn(move || {
            let finished = |(number, task): (usize, Task<usize>)| {
                let result = block_on(task.cancel())?.expect("no panic");
                assert_eq!(result, number);
                Some(number)
            };
            receive.into_iter().filter_map(finished).collect::<Vec<_>>()
        });
        let finished = Rc::new(RefCell::new(Vec::new()));
        for number in 0..TASKS {
            let finished = finished.clone();
            let task = shard.spawn(async move {
                for _ in 0..number % 4 {
                    time::yield_now().await;
                }
                finished.borrow_mut().push(number);
                number
            });
            send.send((number, task)).expect("the canceller lives");
            if number.is_multiple_of(16) {
                time::yield_now().await;
            }
        }
        drop(send);
        until_here(|| canceller.is_finished()).await;
        let got = canceller.join().expect("no panic");
        let mut finished = finished.take();
        finished.sort_unstable();
        assert_eq!(got, finished);
    });
}

/// What a task of the test below waits for.
#[derive(Default)]
struct Gate {
    open: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Gate {
    /// Opens it, and returns the waker that was woken.
    fn open(&self) -> Option<Waker> {
        self.open.store(true, Ordering::Release);
        let waker = self.waker.lock().expect("not poisoned").take();
        waker.inspect(Waker::wake_by_ref)
    }
}

/// Opens the gates that come, and wakes tasks that have ended in between.
fn open_all(gates: mpsc::Receiver<Arc<Gate>>) {
    let mut ended = Vec::new();
    for (count, gate) in gates.into_iter().enumerate() {
        ended.extend(gate.open());
        if let Some(waker) = ended.get(count * 7919 % ended.len().max(1)) {
            waker.wake_by_ref();
        }
    }
}

/// Other threads wake tasks, and such as have ended, while new ones take their places: none misses what it waits for.
fn wakes_from_elsewhere_reach_the_tenants_of_places_used_again<B: Backend>() {
    const TASKS: usize = 5_000;
    on_shard::<B, _>(async |shard: Shard<B>| {
        let (gates, openers): (Vec<_>, Vec<_>) = (0..2)
            .map(|_| {
                let (send, gates) = mpsc::channel();
                (send, thread::spawn(move || open_all(gates)))
            })
            .unzip();
        for _ in 0..5 {
            let start = |number: usize| {
                let (gate, gates) = (Arc::<Gate>::default(), gates[number % 2].clone());
                let mut is_first = true;
                shard.spawn(poll_fn(move |cx| {
                    *gate.waker.lock().expect("not poisoned") = Some(cx.waker().clone());
                    if std::mem::take(&mut is_first) {
                        gates.send(gate.clone()).expect("the opener lives");
                    }
                    if !gate.open.load(Ordering::Acquire) {
                        return Poll::Pending;
                    }
                    if number.is_multiple_of(3) {
                        cx.waker().wake_by_ref();
                    }
                    Poll::Ready(number)
                }))
            };
            let tasks: Vec<_> = (0..TASKS).map(start).collect();
            for (number, task) in tasks.into_iter().enumerate() {
                assert_eq!(task.await.expect("nobody has cancelled it"), number);
            }
        }
        drop(gates);
        for opener in openers {
            until_here(|| opener.is_finished()).await;
            opener.join().expect("no panic");
        }
    });
}

/// The next shard most likely has the number of the one that has ended.
fn wakers_of_an_ended_shard_do_its_successor_no_harm<B: Backend>() {
    const TASKS: usize = 100;
    let wakers = Arc::new(Mutex::new(Vec::new()));
    let left = wakers.clone();
    let running = launch::<B, _>(Plan::new(1), async move |shard: Shard<B>| {
        for _ in 0..TASKS {
            shard.spawn(leave_waker(left.clone())).detach();
        }
        pending::<()>().await;
    })
    .expect("starts");
    until("all have left their wakers", || {
        wakers.lock().expect("not poisoned").len() == TASKS
    });
    cut_off(running);
    let over = Arc::new(AtomicBool::new(false));
    let other = {
        let (over, wakers) = (over.clone(), wakers.clone());
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let wakers = wakers.lock().expect("not poisoned");
                wakers.iter().for_each(Waker::wake_by_ref);
            }
        })
    };
    on_shard::<B, _>(async |shard: Shard<B>| {
        let start = |number| {
            shard.spawn(async move {
                for _ in 0..number % 5 {
                    time::sleep(Duration::from_micros(500)).await; // tidy: sleep is woken too early
                }
                number
            })
        };
        let tasks: Vec<_> = (0..TASKS / 2).map(start).collect();
        for (number, task) in tasks.into_iter().enumerate() {
            assert_eq!(task.await.expect("nobody has cancelled it"), number);
        }
    });
    over.store(true, Ordering::Relaxed);
    other.join().expect("no panic");
}

fn tasks_start_tasks<B: Backend>() {
    fn tree(depth: u32) -> Pin<Box<dyn Future<Output = u64>>> {
        Box::pin(async move {
            if depth == 0 {
                return 1;
            }
            let (left, right) = (spawn(tree(depth - 1)), spawn(tree(depth - 1)));
            left.await.expect("no panic") + right.await.expect("no panic")
        })
    }
    let leaves = on_shard::<B, _>(async |_| tree(10).await);
    assert_eq!(leaves, 1024);
}

fn ten_thousand_tasks<B: Backend>() {
    on_shard::<B, _>(async |shard: Shard<B>| {
        let sum = Rc::new(RefCell::new(0_u64));
        let tasks: Vec<_> = (0..10_000_u64)
            .map(|number| {
                let sum = sum.clone();
                shard.spawn(async move {
                    for _ in 0..number % 3 {
                        time::yield_now().await;
                    }
                    *sum.borrow_mut() += number;
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        assert_eq!(*sum.borrow(), 10_000 * 9_999 / 2);
        assert!(shard.metrics().spawned >= 10_000);
    });
}

/// More tasks that always want to run than a turn polls, and the service beside them ends.
fn a_full_run_queue_does_not_keep_the_main_task_from_ending<B: Backend>() {
    let mut plan = Plan::new(1);
    plan.drain = Duration::ZERO;
    let running = launch::<B, _>(plan, async |shard: Shard<B>| {
        for _ in 0..1_000 {
            shard
                .spawn(async {
                    loop {
                        time::yield_now().await;
                    }
                })
                .detach();
        }
        stopping().await;
    })
    .expect("starts");
    let report = finish(running);
    assert_eq!(report.tasks_cut_off(), 1_000);
}

/// The task that polled last is the one that is woken.
fn a_sleep_moves_between_tasks<B: Backend>() {
    on_shard::<B, _>(async |shard: Shard<B>| {
        for _ in 0..20 {
            let mut sleep = Box::pin(time::sleep(Duration::from_millis(3))); // tidy: sleep is what is tried
            let begun = shard.spawn(async move {
                let first = poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx))).await;
                (first.is_ready(), sleep)
            });
            let (over, sleep) = begun.await.expect("no panic");
            if !over {
                shard.spawn(sleep).await.expect("no panic");
            }
        }
    });
}

fn what_needs_a_shard_says_so_elsewhere<B: Backend>() {
    let elsewhere: [fn(); 4] = [
        || spawn(async {}).detach(),
        || drop(time::sleep(Duration::ZERO)), // tidy: sleep that panics
        || drop(stopping()),
        || {
            let _ = time::now();
        },
    ];
    for call in elsewhere {
        let panic = std::panic::catch_unwind(call).expect_err("there is no shard here");
        let message = panic.downcast_ref::<String>().expect("a text");
        assert!(message.contains("this needs a shard"), "{message}");
    }
    // And a shard still starts on this thread's behalf.
    on_shard::<B, _>(async |_| ());
}
