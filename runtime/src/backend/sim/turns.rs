//! Whose turn it is: the loop that runs all shards of a world on one thread, and moves its time.
//!
//! A shard is ready if its engine was told, if another shard or thread has left something for it, or if its deadline has come. Of
//! those that are ready one is drawn from the seed and has a turn; then the network is looked at again. When none is ready, time
//! moves on to the next deadline or the next event of the network. So nothing takes time but waiting.
//!
//! The exception: shards that never come to rest, because some task yields in a loop, would stop time for all. After
//! [`Turns::PATIENCE`] turns in a row without a rest each further one takes a little, and more the longer it goes on.

use super::{
    log::Noted,
    net::{Net, Place},
    random::Random,
};
use crate::{
    backend::Ended,
    context,
    executor::{Core, Now, Parker, Turn},
    launch::{Served, ShardReport, report},
    options::EngineOptions,
    placement::Seat,
    task::shield,
    wake::{Bell, Remote},
};
use std::{
    cell::{Cell, RefCell},
    future::Future,
    io,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Instant,
};

/// All shards of a world.
pub(super) struct Turns {
    pub(super) net: Net,
    bell: Arc<Bell>,
    random: Random,
    residents: Vec<Resident>,
    /// Turns since time has moved by itself.
    busy: u32,
    ready: Vec<usize>,
}

/// What a step was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A shard had its turn.
    Turn,
    /// Time has moved.
    Time,
    /// Nothing will happen unless something comes from outside.
    Still,
    /// All shards have ended.
    Ended,
}

/// A shard that lives in a world.
struct Resident {
    core: Rc<Core>,
    plan: usize,
    index: usize,
    told: Arc<Told>,
    waker: Waker,
    deadline: Rc<Cell<Option<Instant>>>,
    /// None once it has ended.
    turn: Option<Live>,
}

/// A shard that lives: true when it has ended.
type Live = Box<dyn FnMut(&mut Context<'_>) -> bool>;

/// Whether a shard's engine was told to come back.
#[derive(Default)]
struct Told(AtomicBool);

impl Wake for Told {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a shard leaves when it parks: until when.
pub(super) struct Park(Rc<Cell<Option<Instant>>>);

impl Parker for Park {
    fn prepare(&mut self, deadline: Option<Instant>, _: &mut Context<'_>) {
        self.0.set(deadline);
    }
}

/// A shard before it has anything to run.
pub(super) struct Newcomer {
    pub(super) core: Rc<Core>,
    deadline: Rc<Cell<Option<Instant>>>,
}

/// Where the report of a shard is left.
pub(super) type Reported<T> = Rc<RefCell<Vec<Option<ShardReport<T>>>>>;

impl Turns {
    /// Turns in a row that take no time.
    const PATIENCE: u32 = 1_024;
    /// What a turn takes from then on at first, and how often that may double.
    const BUSY_NS: u64 = 1_000;
    const BUSY_DOUBLINGS: u32 = 10;

    pub(super) fn new(net: Net, bell: Arc<Bell>, random: Random) -> Self {
        Self {
            net,
            bell,
            random,
            residents: Vec::new(),
            busy: 0,
            ready: Vec::new(),
        }
    }

    /// A shard of `host`.
    ///
    /// # Errors
    /// This process has all the shards it can have.
    pub(super) fn arrive(
        &mut self,
        host: usize,
        shard: usize,
        options: &EngineOptions,
    ) -> io::Result<Newcomer> {
        let place = Place {
            net: self.net.clone(),
            host,
            shard,
        };
        let remote = Remote::with_bell(self.bell.clone())?;
        let now = Now::World(self.net.clock().clone());
        Ok(Newcomer {
            core: Core::of(remote, now, options, Some(Rc::new(place))),
            deadline: Rc::default(),
        })
    }

    /// How many shards there are.
    pub(super) fn len(&self) -> usize {
        self.residents.len()
    }

    /// Shard `index` of a plan begins to live, and leaves with `ended`.
    pub(super) fn settle<F: Future + 'static>(
        &mut self,
        newcomer: Newcomer,
        (plan, index): (usize, usize),
        main: impl FnOnce() -> F,
        ended: impl FnOnce(Ended<F::Output>, &Core) + 'static,
    ) {
        let Newcomer { core, deadline } = newcomer;
        let park = Park(deadline.clone());
        let mut turn = context::enter(&core, || Turn::new(core.clone(), park, main));
        let mut ended = Some((ended, core.clone()));
        let told = Arc::new(Told(AtomicBool::new(true)));
        self.residents.push(Resident {
            core,
            plan,
            index,
            waker: told.clone().into(),
            told,
            deadline,
            turn: Some(Box::new(move |cx| match Pin::new(&mut turn).poll(cx) {
                Poll::Pending => false,
                Poll::Ready(outcome) => {
                    if let Some((ended, core)) = ended.take() {
                        ended(outcome, &core);
                    }
                    true
                }
            })),
        });
    }

    /// Does one thing.
    pub(super) fn step(&mut self) -> Step {
        let residents = &self.residents;
        self.net.deliver(|shard, waker| match residents.get(shard) {
            Some(resident) => context::enter(&resident.core, || shield::wake(waker)),
            None => shield::wake(waker),
        });
        self.find_ready();
        if !self.ready.is_empty() {
            let at = self.ready[self.random.index(self.ready.len())];
            self.turn(at);
            self.pass_time();
            return Step::Turn;
        }
        self.busy = 0;
        let lives = |resident: &&Resident| resident.turn.is_some();
        if !self.residents.iter().any(|resident| lives(&resident)) {
            return Step::Ended;
        }
        let clock = self.net.clock();
        let deadlines = self.residents.iter().filter(lives);
        let next = deadlines
            .filter_map(|resident| resident.deadline.get())
            .map(|deadline| clock.moment(deadline))
            .chain(self.net.next_event())
            .min();
        match next {
            Some(next) => {
                clock.advance_to(next);
                Step::Time
            }
            None => Step::Still,
        }
    }

    /// Sleeps until something comes from outside, unless it has come.
    pub(super) fn sleep(&self, wait: impl FnOnce()) {
        if self.bell.settle() {
            wait();
        }
        self.bell.rise();
    }

    /// Whether all shards of a plan have ended.
    pub(super) fn has_ended(&self, plan: usize) -> bool {
        let mut residents = self.residents.iter();
        !residents.any(|resident| resident.plan == plan && resident.turn.is_some())
    }

    fn find_ready(&mut self) {
        let now = self.net.clock().now();
        self.ready.clear();
        for (at, resident) in self.residents.iter().enumerate() {
            let is_ready = resident.told.0.load(Ordering::Relaxed)
                || resident.core.remote().is_notified()
                || resident.deadline.get().is_some_and(|at| at <= now);
            if is_ready && resident.turn.is_some() {
                self.ready.push(at);
            }
        }
    }

    fn turn(&mut self, at: usize) {
        let resident = &mut self.residents[at];
        let (plan, shard) = (resident.plan, resident.index);
        self.net.note(Noted::Turn { plan, shard });
        resident.told.0.store(false, Ordering::Relaxed);
        resident.deadline.set(None);
        let Some(turn) = &mut resident.turn else {
            return;
        };
        let mut cx = Context::from_waker(&resident.waker);
        let has_ended = context::enter(&resident.core, || turn(&mut cx));
        if has_ended {
            let turn = resident.turn.take();
            context::enter(&resident.core, || drop(turn));
            self.net.note(Noted::Ended { plan, shard });
        }
    }

    /// What a turn takes that is one of too many.
    fn pass_time(&mut self) {
        self.busy = self.busy.saturating_add(1);
        if let Some(over) = self.busy.checked_sub(Self::PATIENCE) {
            let doublings = (over / Self::PATIENCE).min(Self::BUSY_DOUBLINGS);
            let clock = self.net.clock();
            clock.advance_to(clock.elapsed_ns() + (Self::BUSY_NS << doublings));
        }
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        // What a world leaves behind that was given up is dropped where it lived.
        for resident in &mut self.residents {
            let turn = resident.turn.take();
            context::enter(&resident.core, || drop(turn));
        }
    }
}

/// What becomes of a shard's end: its report, left where it is looked for.
pub(super) fn leave_report<T: 'static>(
    reported: &Reported<T>,
    index: usize,
    seat: Seat,
) -> impl FnOnce(Ended<Option<Served<T>>>, &Core) + 'static {
    let reported = reported.clone();
    move |ended, core| {
        let report = report(index, seat, ended, Some(core));
        reported.borrow_mut()[index] = Some(report);
    }
}
