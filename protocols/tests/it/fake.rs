//! A stream in memory, a host in virtual time, and an executor for one future: a driver's whole world, in the test's hands.
//!
//! Nothing happens by itself. A test puts in what the peer does, stops the host or lets time pass, and polls the driver for as long
//! as it was woken; a driver that forgot to be woken is stuck, and the test with it.

use shardloop::{
    Bytes, Lease, RecvHalf, SendHalf, Stream,
    lease::{Class, Pool, Sizing},
};
use shardloop_protocols::drive::Host;
use std::{
    cell::RefCell,
    collections::VecDeque,
    future::{Future, poll_fn},
    io,
    pin::Pin,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

/// What a world is made of. Shared by the test, the stream and the host.
#[derive(Clone)]
pub(crate) struct World(Rc<RefCell<State>>);

struct State {
    now: Instant,
    stopping: bool,
    wakers: Vec<Waker>,
    pool: Pool,
    arrived: VecDeque<Vec<u8>>,
    peer_closed: bool,
    end_received: bool,
    /// Arrives again and again once `arrived` is empty.
    endless: Option<Vec<u8>>,
    sent: Vec<u8>,
    /// Sends beyond as many bytes fail; each call sends all or nothing.
    send_limit: usize,
    sends_are_slow: bool,
    sends_are_blocked: bool,
    write_shut_down: bool,
    /// Alarms that were ever set.
    alarms: usize,
    turn: Turn,
}

/// What the driver did between two times that others could run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) receives: usize,
    pub(crate) received_bytes: usize,
    pub(crate) sent_bytes: usize,
}

impl World {
    pub(crate) fn new() -> Self {
        Self(Rc::new(RefCell::new(State {
            now: Instant::now(),
            stopping: false,
            wakers: Vec::new(),
            pool: Pool::new(),
            arrived: VecDeque::new(),
            peer_closed: false,
            end_received: false,
            endless: None,
            sent: Vec::new(),
            send_limit: usize::MAX,
            sends_are_slow: false,
            sends_are_blocked: false,
            write_shut_down: false,
            alarms: 0,
            turn: Turn::default(),
        })))
    }

    pub(crate) fn stream(&self) -> FakeStream {
        FakeStream {
            world: self.clone(),
            sizing: Sizing::default(),
        }
    }

    /// The peer's bytes arrive: one lease if they fit.
    pub(crate) fn arrive(&self, bytes: &[u8]) {
        self.change(|state| state.arrived.push_back(bytes.to_vec()));
    }

    pub(crate) fn peer_closes(&self) {
        self.change(|state| state.peer_closed = true);
    }

    /// From now on there is always more of `bytes`.
    pub(crate) fn never_pause(&self, bytes: &[u8]) {
        self.change(|state| state.endless = Some(bytes.to_vec()));
    }

    pub(crate) fn stop(&self) {
        self.change(|state| state.stopping = true);
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.change(|state| state.now += time);
    }

    pub(crate) fn break_sends_after(&self, bytes: usize) {
        self.change(|state| state.send_limit = bytes);
    }

    /// Each send takes a turn of the executor.
    pub(crate) fn slow_sends(&self) {
        self.change(|state| state.sends_are_slow = true);
    }

    /// From now on no send is taken, or again.
    pub(crate) fn block_sends(&self, blocked: bool) {
        self.change(|state| state.sends_are_blocked = blocked);
    }

    pub(crate) fn alarms(&self) -> usize {
        self.0.borrow().alarms
    }

    pub(crate) fn sent(&self) -> Vec<u8> {
        self.0.borrow().sent.clone()
    }

    pub(crate) fn write_shut_down(&self) -> bool {
        self.0.borrow().write_shut_down
    }

    /// Bytes of leases that the driver holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.0.borrow().pool.held_bytes().0
    }

    /// Pieces that have arrived and were not received.
    pub(crate) fn waiting(&self) -> usize {
        self.0.borrow().arrived.len()
    }

    fn change(&self, f: impl FnOnce(&mut State)) {
        f(&mut self.0.borrow_mut());
        let wakers = std::mem::take(&mut self.0.borrow_mut().wakers);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Completes once `ready` has something.
    fn until<T>(&self, mut ready: impl FnMut(&mut State) -> Option<T>) -> impl Future<Output = T> {
        let state = self.0.clone();
        poll_fn(move |cx| {
            let mut state = state.borrow_mut();
            match ready(&mut state) {
                Some(value) => Poll::Ready(value),
                None => {
                    state.wakers.push(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
    }
}

impl Host for World {
    fn now(&self) -> Instant {
        self.0.borrow().now
    }

    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> {
        self.0.borrow_mut().alarms += 1;
        self.until(move |state| (state.now >= deadline).then_some(()))
    }

    fn stopping(&self) -> impl Future<Output = ()> {
        self.until(|state| state.stopping.then_some(()))
    }
}

/// A connection to the test.
pub(crate) struct FakeStream {
    world: World,
    sizing: Sizing,
}

impl RecvHalf for FakeStream {
    type Lease = Lease;

    async fn recv(&mut self) -> io::Result<Lease> {
        let class = self.sizing.class();
        let lease = self.world.until(|state| state.receive(class)).await;
        self.sizing.learn(class, lease.len());
        Ok(lease)
    }
}

impl SendHalf for FakeStream {
    async fn send_all<B: Bytes>(&mut self, bytes: B) -> (io::Result<()>, B) {
        let mut slow = self.world.0.borrow().sends_are_slow;
        poll_fn(|cx| {
            if std::mem::take(&mut slow) {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
        let taken = self
            .world
            .until(|state| (!state.sends_are_blocked).then_some(()));
        taken.await;
        let result = self.world.0.borrow_mut().send(bytes.as_slice());
        (result, bytes)
    }

    async fn shutdown_write(&mut self) -> io::Result<()> {
        self.world.0.borrow_mut().write_shut_down = true;
        Ok(())
    }
}

impl Stream for FakeStream {
    type Recv = Self;
    type Send = Self;

    fn into_split(self) -> (Self, Self) {
        let other = self.world.stream();
        (self, other)
    }
}

impl State {
    fn receive(&mut self, class: Class) -> Option<Lease> {
        let mut vacant = self.pool.take(class);
        let Some(mut piece) = self.arrived.pop_front().or_else(|| self.endless.clone()) else {
            assert!(!self.end_received, "received after the end");
            self.end_received = self.peer_closed;
            return self.peer_closed.then(|| vacant.filled(0));
        };
        let count = piece.len().min(vacant.bytes_mut().len());
        vacant.bytes_mut()[..count].copy_from_slice(&piece[..count]);
        let rest = piece.split_off(count);
        if !rest.is_empty() {
            self.arrived.push_front(rest);
        }
        self.turn.receives += 1;
        self.turn.received_bytes += count;
        Some(vacant.filled(count))
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        assert!(!self.write_shut_down, "sent after the end");
        assert!(!bytes.is_empty(), "nothing was sent");
        if self.sent.len() + bytes.len() > self.send_limit {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.turn.sent_bytes += bytes.len();
        self.sent.extend_from_slice(bytes);
        Ok(())
    }
}

/// A future and its executor.
pub(crate) struct Running<'f, T> {
    future: Pin<Box<dyn Future<Output = T> + 'f>>,
    woken: Arc<Flag>,
    world: World,
    /// The most that was done in one poll, each figure by itself.
    pub(crate) most: Turn,
    /// How often it let others run although it could have gone on.
    pub(crate) yields: usize,
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<'f, T> Running<'f, T> {
    pub(crate) fn new(world: &World, future: impl Future<Output = T> + 'f) -> Self {
        let woken = Arc::new(Flag(AtomicBool::new(true)));
        let (future, world) = (Box::pin(future), world.clone());
        Self {
            future,
            woken,
            world,
            most: Turn::default(),
            yields: 0,
        }
    }

    /// One poll, if it was woken.
    pub(crate) fn poll(&mut self) -> Option<T> {
        if !self.woken.0.swap(false, Ordering::Relaxed) {
            return None;
        }
        let waker = Waker::from(self.woken.clone());
        let polled = self.future.as_mut().poll(&mut Context::from_waker(&waker));
        let turn = std::mem::take(&mut self.world.0.borrow_mut().turn);
        self.most.receives = self.most.receives.max(turn.receives);
        self.most.received_bytes = self.most.received_bytes.max(turn.received_bytes);
        self.most.sent_bytes = self.most.sent_bytes.max(turn.sent_bytes);
        match polled {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    /// Polls until it has finished or waits for the world.
    pub(crate) fn run(&mut self) -> Option<T> {
        self.run_for(usize::MAX)
    }

    /// As [`run`](Self::run), but at most `polls` times.
    pub(crate) fn run_for(&mut self, polls: usize) -> Option<T> {
        for _ in 0..polls {
            if let Some(value) = self.poll() {
                return Some(value);
            }
            if !self.woken.0.load(Ordering::Relaxed) {
                return None;
            }
            self.yields += 1;
        }
        None
    }

    /// Polls until it has finished.
    pub(crate) fn finish(&mut self) -> T {
        self.run().expect("it waits for something that never comes")
    }
}

/// Runs a future that needs nothing more from the world.
pub(crate) fn block_on<T>(world: &World, future: impl Future<Output = T>) -> T {
    Running::new(world, future).finish()
}
