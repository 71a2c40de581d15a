//! What glommio does while a shard has nothing to run: watch the wake descriptor, and know the next deadline; and what it does between
//! two turns of a shard that has more to run.
//!
//! # A look between turns
//! [`Turn`](crate::executor::Turn) says that it has more to run by waking itself. glommio would poll it again at once, and would not
//! look at its completions for as long as that goes on. So the turn gets a waker of ours, [`Look`], which notes a wake that comes
//! during the turn and passes on any other. If there was one, a timer of glommio's that is due at once brings the turn back: it fires
//! when the reactor has submitted what there was and has taken what is complete.
//!
//! Who owns what: the future owns the timer and the turn; the wakers made of `Look` hold a reference to glommio's task, which glommio
//! frees when the last of them is gone. They are in its reactor only, for as long as it watches the wake descriptor.

use super::stream::engine;
use crate::executor::Parker;
use futures_io::AsyncRead;
use glommio::{net::TcpStream, timer::Timer};
use std::{
    future::Future,
    os::fd::OwnedFd,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::{Duration, Instant},
};

/// A deadline that far off may as well be set anew once in a while.
const FARTHEST: Duration = Duration::from_secs(3600);

pub(super) struct Park {
    wakes: TcpStream,
    alarm: Option<(Instant, Timer)>,
}

impl Park {
    pub(super) fn new(wakes: OwnedFd) -> Self {
        Self {
            wakes: engine(wakes),
            alarm: None,
        }
    }

    /// Takes out the wakes that have come, and watches for the next. What they mean stands in the wake word; here they only end the
    /// parking.
    fn swallow(&mut self, cx: &mut Context<'_>) {
        let mut bytes = [0; 64];
        while let Poll::Ready(taken) = Pin::new(&mut self.wakes).poll_read(cx, &mut bytes) {
            if !taken.is_ok_and(|count| count > 0) {
                // The other end lives in this shard's own remote, so it cannot be closed: an error here is the system's, and all that
                // is left is to try again at the next turn.
                cx.waker().wake_by_ref();
                return;
            }
        }
    }

    /// Has the engine wake `cx` at `deadline`. An earlier alarm is left as it is: it costs one idle turn, where setting a timer
    /// anew each time that a deadline moves on would cost each turn.
    fn alarm(&mut self, deadline: Instant, cx: &mut Context<'_>) {
        let now = Instant::now();
        let at = deadline.min(now + FARTHEST);
        let armed = self
            .alarm
            .as_ref()
            .is_some_and(|(armed, _)| (now..=at).contains(armed));
        if !armed {
            self.alarm = Some((at, Timer::new(at.saturating_duration_since(now))));
        }
        if let Some((_, timer)) = &mut self.alarm
            && Pin::new(timer).poll(cx).is_ready()
        {
            self.alarm = None;
            cx.waker().wake_by_ref();
        }
    }
}

impl Parker for Park {
    fn prepare(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) {
        self.swallow(cx);
        match deadline {
            Some(deadline) => self.alarm(deadline, cx),
            None => self.alarm = None,
        }
    }
}

/// The waker that a turn gets.
pub(super) struct Look {
    /// Of glommio's task, which is the same for as long as it runs.
    engine: OnceLock<Waker>,
    during_turn: AtomicBool,
    wanted: AtomicBool,
}

impl Look {
    /// Runs `turn` to its end, with a look of the reactor at its rings whenever it wakes itself.
    pub(super) fn between_turns<F: Future + Unpin>(turn: F) -> impl Future<Output = F::Output> {
        let look = Arc::new(Self {
            engine: OnceLock::new(),
            during_turn: AtomicBool::new(false),
            wanted: AtomicBool::new(false),
        });
        Turns {
            turn,
            waker: look.clone().into(),
            look,
            soon: Timer::new(Turns::<F>::SOON),
        }
    }
}

// On the shard's thread only, so no order has to be asked for.
impl Wake for Look {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.during_turn.load(Ordering::Relaxed) {
            self.wanted.store(true, Ordering::Relaxed);
        } else if let Some(engine) = self.engine.get() {
            engine.wake_by_ref();
        }
    }
}

struct Turns<F> {
    turn: F,
    look: Arc<Look>,
    waker: Waker,
    soon: Timer,
}

impl<F> Turns<F> {
    /// Long enough that the timer is not due while it is set, and over when the reactor comes to its timers.
    const SOON: Duration = Duration::from_micros(1);

    fn come_back(&mut self, cx: &mut Context<'_>) {
        loop {
            self.soon.reset(Self::SOON);
            // Ready: this thread was held up, and the timer was not registered.
            if Pin::new(&mut self.soon).poll(cx).is_pending() {
                return;
            }
        }
    }
}

impl<F: Future + Unpin> Future for Turns<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        this.look.engine.get_or_init(|| cx.waker().clone());
        this.look.during_turn.store(true, Ordering::Relaxed);
        let polled = Pin::new(&mut this.turn).poll(&mut Context::from_waker(&this.waker));
        this.look.during_turn.store(false, Ordering::Relaxed);
        if this.look.wanted.swap(false, Ordering::Relaxed) && polled.is_pending() {
            this.come_back(cx);
        }
        polled
    }
}
