//! Time on a shard: sleep, give up after a while, let others go first.
//!
//! Timers belong to the shard and cost the engine nothing but its next deadline. They are late by the engine's resolution, 1 ms on
//! monoio, plus what the shard is busy with. In a simulated world they run in its time.

use crate::{context, executor::Core, task::shield, timer::TimerKey};
use pin_project_lite::pin_project;
use std::{
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// The current shard's time.
///
/// # Panics
/// Outside a shard.
#[must_use]
pub fn now() -> Instant {
    context::current().now()
}

/// Waits for `duration`. Zero is over at the next turn; what is beyond the clock's range never comes.
///
/// # Panics
/// Outside a shard, when it is called.
pub fn sleep(duration: Duration) -> Sleep {
    let core = context::current();
    let deadline = core.now().checked_add(duration);
    Sleep {
        core,
        deadline,
        key: None,
        polled: false,
    }
}

/// Waits until `deadline`.
///
/// # Panics
/// Outside a shard, when it is called.
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        core: context::current(),
        deadline: Some(deadline),
        key: None,
        polled: false,
    }
}

/// The future of [`sleep`].
#[must_use = "futures do nothing unless awaited"]
pub struct Sleep {
    core: Rc<Core>,
    deadline: Option<Instant>,
    key: Option<TimerKey>,
    /// A deadline that has passed already is over at the second poll, so that a loop of such sleeps lets others run.
    polled: bool,
}

impl Sleep {
    /// When it ends; `None` for never.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    fn forget(&mut self) {
        if let Some(key) = self.key.take() {
            let waker = self.core.timers().borrow_mut().remove(key);
            shield::forget(waker);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.deadline else {
            return Poll::Pending;
        };
        let polled = std::mem::replace(&mut self.polled, true);
        if self.core.now() >= deadline {
            self.forget();
            if polled {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let core = self.core.clone();
        let mut timers = core.timers().borrow_mut();
        let before = self.key.and_then(|key| timers.update(key, cx.waker()));
        if before.is_none() {
            self.key = Some(timers.insert(deadline, cx.waker().clone()));
        }
        drop(timers);
        shield::forget(before);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.forget();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// Gives `future` up to `duration`. A receive or an accept that is given up loses nothing: what it would have brought comes with the
/// next one.
///
/// # Errors
/// [`Elapsed`] when the time was over first.
///
/// # Panics
/// Outside a shard, when it is called.
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout {
        future,
        sleep: sleep(duration),
    }
}

pin_project! {
    /// The future of [`timeout`].
    #[must_use = "futures do nothing unless awaited"]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        sleep: Sleep,
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(value) = this.future.poll(cx) {
            return Poll::Ready(Ok(value));
        }
        Pin::new(this.sleep).poll(cx).map(|()| Err(Elapsed))
    }
}

/// The time was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the deadline passed first")
    }
}

impl Error for Elapsed {}

/// Lets all other tasks that are ready run first, and the engine see what has arrived once these are through.
pub fn yield_now() -> YieldNow {
    YieldNow { yielded: false }
}

/// The future of [`yield_now`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct YieldNow {
    yielded: bool,
}

impl Future for YieldNow {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
