//! The executor: runs a shard's tasks, as the single task of its engine.
//!
//! # Why tasks are not the engine's
//! An engine's own tasks cannot keep this crate's promises (ARCHITECTURE.md): a panic in one ends the engine's run, one that yields
//! in a loop starves the others, a wake from another thread panics. So an engine runs one future, [`Turn`], and that runs everything.
//!
//! # A turn
//! Look at what other threads left; fire timers that are due; poll at most [`Core::BUDGET`] tasks, fewer if one of them was told to give
//! way ([`Core::AT_ONCE`]). If tasks are left over, or others left something meanwhile, give the engine a look at its completions and
//! come back at once; else tell the engine the next deadline and let it park.
//!
//! # The end
//! When the shard's main future is done, all tasks are dropped, and the engine is turned until no operation holds memory any more,
//! or the deadline for that has passed.

use crate::{
    backend::{Ended, sim::Clock},
    context,
    lease::{Class, Pool},
    metrics::{Counters, Metrics},
    options::EngineOptions,
    task::{self, Boxed, Table, Task, TaskId, shield},
    timer::Timers,
    wake::{Phase, Remote},
};
use shardloop_platform::{memory::trim_heap, wake::WakeReader};
use slab::Slab;
use std::{
    any::Any,
    cell::{Cell, RefCell},
    fmt,
    future::{Future, poll_fn},
    io,
    panic::Location,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

/// Everything that belongs to one shard, whatever its engine.
pub(crate) struct Core {
    remote: Arc<Remote>,
    number: usize,
    now: Now,
    /// What the engine keeps with its shard, for those that have no place of their own for it.
    engine_state: Option<Rc<dyn Any>>,
    stall_after: Option<Duration>,
    spin: Duration,
    /// While it looks for work before it parks: until when.
    spin_until: Cell<Option<Instant>>,
    tasks: RefCell<Table>,
    /// Woken whenever a task ends.
    on_task_end: RefCell<Option<Waker>>,
    /// Woken when the phase has risen, and when another thread has left something, in this order.
    watchers: [RefCell<Slab<Waker>>; 2],
    phase_seen: Cell<Phase>,
    timers: RefCell<Timers>,
    engine: RefCell<Option<Waker>>,
    /// The engine will run the next turn anyway: it was told, or the turn is on.
    engine_told: Cell<bool>,
    pool: Pool,
    sends_in_flight: Rc<Cell<usize>>,
    idle: RefCell<Vec<Rc<dyn Idle>>>,
    sweep_at: Cell<Option<Instant>>,
    /// Bytes freed since the heap was last trimmed.
    freed_bytes: Cell<usize>,
    /// Results of sends and receives that the task which runs now had without waiting.
    at_once: Cell<u32>,
    /// A task was told to give way, so timers and the engine are looked at before the next is polled.
    gave_way: Cell<bool>,
    counters: Counters,
    first_panic: RefCell<Option<String>>,
}

/// Where a shard's time comes from.
pub(crate) enum Now {
    /// The system.
    System(fn() -> Instant),
    /// A simulated world.
    World(Arc<Clock>),
}

/// What a future can watch for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The shard is asked to end, or to end at once.
    Phase = 0,
    /// Another thread has left something.
    Left = 1,
}

/// Something that holds a large buffer while nothing happens.
pub(crate) trait Idle {
    /// Gives the buffer back if nothing happened since the last call. False when it need not be asked again.
    fn sweep(&self, counters: &Counters) -> bool;
}

impl Core {
    /// Polls of tasks in one turn.
    pub(crate) const BUDGET: usize = 256;
    /// Sends, receives and accepted connections that a task may have in one poll. With a readiness engine a peer that floods has always
    /// sent more, so that its task would never wait, and nobody else run.
    pub(crate) const AT_ONCE: u32 = 32;
    /// How often idle buffers are looked for.
    const SWEEP_EVERY: Duration = Duration::from_millis(250);
    /// Bytes freed by a shard before it is worth to look for pages that the system could have back.
    const TRIM_AT: usize = 16 << 20;

    /// A shard without engine, and the descriptor its engine is to watch.
    pub(crate) fn new(
        now: fn() -> Instant,
        options: &EngineOptions,
    ) -> io::Result<(Rc<Self>, WakeReader)> {
        let (remote, reader) = Remote::new()?;
        Ok((Self::of(remote, Now::System(now), options, None), reader))
    }

    /// A shard whose engine keeps `engine_state` with it.
    pub(crate) fn of(
        remote: Arc<Remote>,
        now: Now,
        options: &EngineOptions,
        engine_state: Option<Rc<dyn Any>>,
    ) -> Rc<Self> {
        Rc::new(Self {
            number: remote.number(),
            remote,
            now,
            engine_state,
            stall_after: options.stall_after,
            spin: options.spin,
            spin_until: Cell::new(None),
            tasks: RefCell::default(),
            on_task_end: RefCell::default(),
            watchers: Default::default(),
            phase_seen: Cell::new(Phase::Running),
            timers: RefCell::default(),
            engine: RefCell::default(),
            engine_told: Cell::new(true),
            pool: Pool::new(),
            sends_in_flight: Rc::default(),
            idle: RefCell::default(),
            sweep_at: Cell::new(None),
            freed_bytes: Cell::new(0),
            at_once: Cell::new(0),
            gave_way: Cell::new(false),
            counters: Counters::default(),
            first_panic: RefCell::default(),
        })
    }

    /// Which shard of this process this is.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn remote(&self) -> &Arc<Remote> {
        &self.remote
    }

    pub(crate) fn now(&self) -> Instant {
        match &self.now {
            Now::System(now) => now(),
            Now::World(clock) => clock.now(),
        }
    }

    /// What the engine keeps with this shard, if that is of type `T`.
    pub(crate) fn engine_state<T: 'static>(&self) -> Option<Rc<T>> {
        self.engine_state.clone()?.downcast().ok()
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn timers(&self) -> &RefCell<Timers> {
        &self.timers
    }

    /// Starts a task.
    #[track_caller]
    pub(crate) fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        self.counters.spawned.add(1);
        let (frame, task) = task::frame(future);
        let from = Location::caller();
        let id = self.tasks.borrow_mut().insert(self.number, frame, from);
        self.tell_engine();
        task(id)
    }

    /// Has a task of this shard polled, on its own thread.
    pub(crate) fn wake(&self, task: TaskId) {
        if self.tasks.borrow_mut().wake(task) {
            self.tell_engine();
        }
    }

    /// Tasks whose future exists.
    pub(crate) fn live_tasks(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// Wakes `waker` at the next end of a task.
    pub(crate) fn wake_at_task_end(&self, waker: &Waker) {
        self.on_task_end.replace(Some(waker.clone()));
    }

    /// A task ended by a panic.
    pub(crate) fn note_panic(&self, message: &str) {
        self.counters.panics.add(1);
        self.first_panic
            .borrow_mut()
            .get_or_insert_with(|| message.to_owned());
    }

    pub(crate) fn first_panic(&self) -> Option<String> {
        self.first_panic.borrow().clone()
    }

    /// Wakes `waker` whenever `event` happens, until [`Self::unwatch`].
    pub(crate) fn watch(&self, event: Event, waker: &Waker) -> usize {
        self.watchers[event as usize]
            .borrow_mut()
            .insert(waker.clone())
    }

    /// Sets the waker of a watch.
    pub(crate) fn rewatch(&self, event: Event, key: usize, waker: &Waker) {
        let mut watchers = self.watchers[event as usize].borrow_mut();
        let before = std::mem::replace(&mut watchers[key], waker.clone());
        // Outside the borrow: dropping a waker may run code that needs this table.
        drop(watchers);
        shield::forget(Some(before));
    }

    pub(crate) fn unwatch(&self, event: Event, key: usize) {
        let waker = self.watchers[event as usize].borrow_mut().try_remove(key);
        shield::forget(waker);
    }

    /// Something that may hold a large buffer while idle was begun.
    pub(crate) fn add_idle(&self, idle: Rc<dyn Idle>) {
        self.idle.borrow_mut().push(idle);
        self.want_sweep();
    }

    /// There is something to sweep before long.
    pub(crate) fn want_sweep(&self) {
        if self.sweep_at.get().is_none() {
            self.sweep_at.set(Some(self.now() + Self::SWEEP_EVERY));
        }
    }

    /// A connection has become this shard's.
    pub(crate) fn connection_opened(&self) {
        self.counters.adopted.add(1);
        self.remote.set_connections(self.open_connections());
    }

    /// A connection is gone, and with it about the smallest buffer.
    pub(crate) fn connection_closed(&self) {
        self.counters.closed.add(1);
        self.remote.set_connections(self.open_connections());
        self.freed_bytes
            .set(self.freed_bytes.get() + Class::SMALLEST.bytes());
        self.want_sweep();
    }

    fn open_connections(&self) -> u64 {
        self.counters.adopted.get() - self.counters.closed.get()
    }

    /// Counts an operation that reads the application's memory, until it is dropped.
    pub(crate) fn send_in_flight(&self) -> InFlight {
        self.sends_in_flight.set(self.sends_in_flight.get() + 1);
        InFlight(self.sends_in_flight.clone())
    }

    /// Operations that hold memory in the engine.
    fn in_flight(&self) -> usize {
        self.pool.in_flight() + self.sends_in_flight.get()
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let counters = &self.counters;
        Metrics {
            turns: counters.turns.get(),
            parks: counters.parks.get(),
            spins: counters.spins.get(),
            polls: counters.polls.get(),
            spawned: counters.spawned.get(),
            panics: counters.panics.get(),
            foreign_wakes: self.remote.foreign_wakes(),
            accepted: counters.accepted.get(),
            adopted: counters.adopted.get(),
            closed: counters.closed.get(),
            accept_errors: counters.accept_errors.get(),
            timers: counters.timers.get(),
            timer_latest: counters.timer_latest.get(),
            lease_bytes: self.pool.held_bytes().0 as u64,
            lease_bytes_peak: self.pool.held_bytes().1 as u64,
            pool_misses: self.pool.misses(),
            receives_shrunk: counters.receives_shrunk.get(),
            stalls: self.stall_after.map(|_| counters.stalls.get()),
            kernel_entries: None,
        }
    }

    /// There is something to run: the engine is to come back, unless it does anyway.
    fn tell_engine(&self) {
        if !self.engine_told.replace(true)
            && let Some(engine) = &*self.engine.borrow()
        {
            engine.wake_by_ref();
        }
    }

    fn begin_turn(&self, engine: &Waker) {
        self.counters.turns.add(1);
        self.engine_told.set(true);
        let mut known = self.engine.borrow_mut();
        if !known.as_ref().is_some_and(|known| known.will_wake(engine)) {
            *known = Some(engine.clone());
        }
        drop(known);
        if self.remote.rise() {
            self.look();
        }
    }

    /// Takes what other threads left.
    fn look(&self) {
        let mut tasks = self.tasks.borrow_mut();
        for place in self.remote.take() {
            tasks.wake_place(place);
        }
        drop(tasks);
        self.wake_watchers(Event::Left);
        let phase = self.remote.phase();
        if self.phase_seen.replace(phase) != phase {
            self.wake_watchers(Event::Phase);
        }
    }

    fn wake_watchers(&self, event: Event) {
        // Woken outside the borrow: a waker may come back into this table. One that cannot be cloned without a panic is passed over.
        let mut watching = Vec::new();
        for (_, waker) in &*self.watchers[event as usize].borrow() {
            shield::shield(|| watching.push(waker.clone()));
        }
        watching.into_iter().for_each(shield::wake);
    }

    fn fire_timers(&self) {
        let Some(next) = self.next_deadline() else {
            return;
        };
        let now = self.now();
        if next > now {
            return;
        }
        loop {
            let due = self.timers.borrow_mut().pop_due(now);
            let Some((deadline, waker)) = due else { break };
            let (counters, late) = (&self.counters, now.saturating_duration_since(deadline));
            counters.timers.add(1);
            counters
                .timer_latest
                .set(counters.timer_latest.get().max(late));
            shield::wake(waker);
        }
        if self.sweep_at.get().is_some_and(|at| at <= now) {
            self.sweep(now);
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let timer = self.timers.borrow().next_deadline();
        match (timer, self.sweep_at.get()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn sweep(&self, now: Instant) {
        let mut idle = self.idle.take();
        idle.retain(|idle| idle.sweep(&self.counters));
        self.idle.borrow_mut().append(&mut idle);
        self.freed_bytes
            .set(self.freed_bytes.get() + self.pool.sweep());
        let mut more = self.pool.has_free() || !self.idle.borrow().is_empty();
        if !more && self.freed_bytes.get() >= Self::TRIM_AT {
            if self.sends_in_flight.get() > 0 {
                // What they send will be freed too, and then be worth giving back.
                more = true;
            } else {
                // The shard has gone quiet after a busy time: giving memory back costs nobody anything now.
                self.freed_bytes.set(0);
                trim_heap();
            }
        }
        self.sweep_at.set(more.then(|| now + Self::SWEEP_EVERY));
    }

    /// Runs tasks until the budget is spent or none is left. False if there was none.
    fn run_some(&self) -> bool {
        for polls in 0..Self::BUDGET as u64 {
            let next = self.tasks.borrow_mut().next(self.number);
            let Some((id, mut frame)) = next else {
                self.counters.polls.add(polls);
                return polls > 0;
            };
            let poll = self.poll(id, &mut frame);
            if poll.is_pending() {
                self.tasks.borrow_mut().put_back(id, frame);
            } else {
                self.tasks.borrow_mut().remove(id);
                drop(frame);
                self.a_task_has_ended();
            }
            // Such a poll took long; as many of them as the budget allows would keep timers waiting.
            if self.gave_way.take() {
                self.counters.polls.add(polls + 1);
                return true;
            }
        }
        self.counters.polls.add(Self::BUDGET as u64);
        true
    }

    fn poll(&self, id: TaskId, frame: &mut Boxed) -> Poll<()> {
        let waker = id.waker();
        let mut cx = Context::from_waker(&waker);
        self.at_once.set(0);
        let Some(limit) = self.stall_after else {
            return frame.as_mut().poll(&mut cx);
        };
        let began = self.now();
        let poll = frame.as_mut().poll(&mut cx);
        let took = self.now().saturating_duration_since(began);
        if took > limit {
            let mut stalls = self.counters.stalls.get();
            stalls.note(took, self.tasks.borrow().from(id));
            self.counters.stalls.set(stalls);
        }
        poll
    }

    /// A send or receive was done without waiting.
    pub(crate) fn done_at_once(&self) {
        self.at_once.set(self.at_once.get() + 1);
    }

    /// Lets others have their turn, if the task has done so many that it is theirs.
    pub(crate) async fn give_way(&self) {
        poll_fn(|cx| match self.gives_way(cx) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
    }

    /// Whether the task has done so many that others come first; it is woken then. To be asked before the next.
    pub(crate) fn gives_way(&self, cx: &Context<'_>) -> bool {
        let over = self.at_once.get() >= Self::AT_ONCE;
        if over {
            self.at_once.set(0);
            self.gave_way.set(true);
            cx.waker().wake_by_ref();
        }
        over
    }

    /// Whether the shard, which has run out of work, is to look again instead of parking. `worked` says that it had some.
    fn spins_on(&self, worked: bool) -> bool {
        if self.spin.is_zero() {
            return false;
        }
        let now = self.now();
        if worked {
            self.spin_until.set(now.checked_add(self.spin));
        }
        let on = self.spin_until.get().is_some_and(|until| now < until);
        self.counters.spins.add(u64::from(on));
        on
    }

    fn has_ready(&self) -> bool {
        self.tasks.borrow().has_ready()
    }

    /// Drops the futures of all tasks. What their destructors start is left for the next time.
    fn drop_tasks(&self) {
        let frames = self.tasks.borrow_mut().drain();
        if !frames.is_empty() {
            drop(frames);
            self.a_task_has_ended();
        }
    }

    fn a_task_has_ended(&self) {
        if let Some(waiting) = self.on_task_end.take() {
            waiting.wake();
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

/// A connection of a shard, for as long as any part of it lives.
pub(crate) struct Open(Rc<Core>);

impl Open {
    pub(crate) fn new(core: Rc<Core>) -> Rc<Self> {
        core.connection_opened();
        Rc::new(Self(core))
    }

    /// Its shard.
    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connection_closed();
    }
}

/// An operation that reads memory of the application's is under way.
#[derive(Debug)]
pub(crate) struct InFlight(Rc<Cell<usize>>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// What an engine does while there is nothing to run.
pub(crate) trait Parker {
    /// Has the engine wake `cx` when the wake descriptor becomes readable, and at `deadline`.
    fn prepare(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>);
}

/// The engine's single task: runs a shard from the start of its main future to its end.
pub(crate) struct Turn<T, P> {
    core: Rc<Core>,
    parker: Option<P>,
    main: Option<Task<T>>,
    ending: Option<Ending<T>>,
}

struct Ending<T> {
    outcome: Option<Ended<T>>,
    deadline: Instant,
    turns: u32,
}

impl<T: 'static, P: Parker> Turn<T, P> {
    /// Turns of the engine after the last task is gone. Cancelling takes two submissions (the cancelling, then the closing of the
    /// descriptor that the cancelled operation held), and an engine may run this task three times before it submits once.
    const LAST_TURNS: u32 = 16;
    /// How long operations may take to let go of their memory.
    const LAST_DEADLINE: Duration = Duration::from_secs(2);

    /// A shard whose main future is what `main` makes; `main` is called here, within the engine.
    pub(crate) fn new<F>(core: Rc<Core>, parker: P, main: impl FnOnce() -> F) -> Self
    where
        F: Future<Output = T> + 'static,
    {
        let future = main();
        let main = core.spawn(future);
        Self {
            core,
            parker: Some(parker),
            main: Some(main),
            ending: None,
        }
    }

    fn main_has_ended(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(main) = &mut self.main else {
            return true;
        };
        let (main_result, main_lives) = match Pin::new(main).poll(cx) {
            Poll::Ready(result) => (result, 0),
            // As this turn began: so those that watch the phase have had a chance to end by themselves.
            Poll::Pending if self.core.phase_seen.get() == Phase::Forced => {
                (Err(crate::task::TaskError::Cancelled), 1)
            }
            Poll::Pending => return false,
        };
        self.main = None;
        self.ending = Some(Ending {
            outcome: Some(Ended {
                main: main_result,
                tasks_cut_off: self.core.live_tasks() - main_lives,
                tasks_left: 0,
                operations_left: 0,
            }),
            deadline: self.core.now() + Self::LAST_DEADLINE,
            turns: 0,
        });
        true
    }

    /// One of the last turns: true when nothing is left, or time is up.
    fn end(&mut self) -> Option<Ended<T>> {
        self.parker = None;
        self.core.drop_tasks();
        self.core.idle.take();
        let ending = self.ending.as_mut()?;
        ending.turns += 1;
        let (tasks_left, operations_left) = (self.core.live_tasks(), self.core.in_flight());
        let clean = tasks_left == 0 && operations_left == 0 && ending.turns >= Self::LAST_TURNS;
        if !clean && self.core.now() < ending.deadline {
            return None;
        }
        let outcome = ending.outcome.take()?;
        // While the engine is there to let go of it.
        self.core.engine.take();
        Some(Ended {
            tasks_left,
            operations_left,
            ..outcome
        })
    }
}

impl<T, P> Unpin for Turn<T, P> {}

impl<T: 'static, P: Parker> Future for Turn<T, P> {
    type Output = Ended<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended<T>> {
        let this = &mut *self;
        let core = this.core.clone();
        core.begin_turn(cx.waker());
        core.fire_timers();
        let worked = core.run_some();
        if this.main_has_ended(cx) {
            cx.waker().wake_by_ref();
            return this.end().map_or(Poll::Pending, Poll::Ready);
        }
        if !core.has_ready() && !core.spins_on(worked) {
            if let Some(parker) = &mut this.parker {
                parker.prepare(core.next_deadline(), cx);
            }
            // The parker may have woken something: a wake that was already there, a deadline that has passed.
            if !core.has_ready() && core.remote.settle() {
                core.counters.parks.add(1);
                core.engine_told.set(false);
                return Poll::Pending;
            }
        }
        // The engine reaps completions before it comes back here. Looking at once at what was left meanwhile would keep it from that for
        // as long as others leave things faster than they are worked off.
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Runs `f` as shard `core`.
pub(crate) fn enter<R>(core: &Rc<Core>, f: impl FnOnce() -> R) -> R {
    context::enter(core, f)
}

#[cfg(test)]
mod tests {
    use super::{Core, Parker, Turn, enter};
    use crate::options::EngineOptions;
    use std::{
        cell::Cell,
        future::{Future, pending, poll_fn},
        pin::pin,
        rc::Rc,
        task::{Context, Poll, Waker},
        time::Instant,
    };

    struct NoPark;

    impl Parker for NoPark {
        fn prepare(&mut self, _: Option<Instant>, _: &mut Context<'_>) {}
    }

    #[test]
    fn a_task_that_never_waits_ends_the_turn_and_comes_after_the_others() {
        let (core, _reader) = Core::new(Instant::now, &EngineOptions::default()).unwrap();
        let (greedy, other) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        enter(&core, || {
            let mut turn = pin!(Turn::new(core.clone(), NoPark, pending::<()>));
            let (at_once, shard) = (greedy.clone(), core.clone());
            core.spawn(poll_fn(move |cx| {
                while !shard.gives_way(cx) {
                    shard.done_at_once();
                    at_once.set(at_once.get() + 1);
                }
                Poll::<()>::Pending
            }))
            .detach();
            let polled = other.clone();
            core.spawn(poll_fn(move |cx| {
                polled.set(polled.get() + 1);
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            }))
            .detach();
            let mut cx = Context::from_waker(Waker::noop());
            let mut seen = Vec::new();
            for _ in 0..3 {
                assert!(turn.as_mut().poll(&mut cx).is_pending());
                seen.push((greedy.get(), other.get()));
            }
            // Each turn ends with the greedy one; in the second and third the other comes first.
            let most = Core::AT_ONCE;
            assert_eq!(seen, [(most, 0), (2 * most, 1), (3 * most, 2)]);
            core.drop_tasks();
        });
    }
}
