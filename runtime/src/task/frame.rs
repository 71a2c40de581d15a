//! A task's future with what the shard needs around it, and where its result waits.

use super::{Panic, shield::shield};
use crate::context;
use pin_project_lite::pin_project;
use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

/// A task as its shard sees it. Polling and dropping one never panics.
pub(crate) trait Frame {
    /// Ready when it has ended.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
}

/// A task as its shard keeps it.
pub(crate) type Boxed = Pin<Box<dyn Frame>>;

pin_project! {
    /// A future, run for whoever holds the other end of `end`.
    pub(super) struct Run<F: Future> {
        // There until it has ended.
        #[pin]
        future: Option<F>,
        end: Arc<End<F::Output>>,
    }

    impl<F: Future> PinnedDrop for Run<F> {
        fn drop(this: Pin<&mut Self>) {
            this.end(None);
        }
    }
}

impl<F: Future> Run<F> {
    pub(super) fn new(future: F, end: Arc<End<F::Output>>) -> Self {
        Self {
            future: Some(future),
            end,
        }
    }

    /// Drops the future, and then tells that it has ended. Does nothing the second time.
    fn end(self: Pin<&mut Self>, result: Option<Result<F::Output, Panic>>) {
        let mut this = self.project();
        if this.future.is_none() {
            return;
        }
        shield(|| this.future.set(None));
        this.end.reached(result.map(|result| Outcome(Some(result))));
    }
}

impl<F: Future> Frame for Run<F> {
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.as_mut().project();
        let Some(future) = this.future.as_pin_mut() else {
            return Poll::Ready(());
        };
        let result = if this.end.is_cancelled() {
            None
        } else {
            // A future that panicked is never polled again, so nobody sees what it left half done.
            match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(value)) => Some(Ok(value)),
                Err(payload) => {
                    let panic = Panic::new(payload);
                    context::note_panic(panic.message());
                    Some(Err(panic))
                }
            }
        };
        self.end(result);
        Poll::Ready(())
    }
}

/// How a task ends, between the task and who waits for it; they may be on different threads.
#[derive(Debug)]
pub(super) struct End<T> {
    cancelled: AtomicBool,
    state: Mutex<State<T>>,
}

#[derive(Debug)]
struct State<T> {
    reached: bool,
    outcome: Option<Outcome<T>>,
    waiting: Option<Waker>,
}

impl<T> End<T> {
    pub(super) fn new() -> Self {
        Self {
            cancelled: AtomicBool::new(false),
            state: Mutex::new(State {
                reached: false,
                outcome: None,
                waiting: None,
            }),
        }
    }

    /// Whoever calls this wakes the task, too.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    pub(super) fn is_reached(&self) -> bool {
        self.state().reached
    }

    /// Waits for the end: the result, or none if the task was cancelled before it had one.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<Result<T, Panic>>> {
        let mut state = self.state();
        if state.reached {
            let outcome = state.outcome.take();
            drop(state);
            return Poll::Ready(outcome.and_then(Outcome::take));
        }
        if let Some(waiting) = &state.waiting
            && waiting.will_wake(cx.waker())
        {
            return Poll::Pending;
        }
        let before = state.waiting.replace(cx.waker().clone());
        drop(state);
        shield(|| drop(before));
        Poll::Pending
    }

    fn reached(&self, outcome: Option<Outcome<T>>) {
        let mut state = self.state();
        state.reached = true;
        state.outcome = outcome;
        let waiting = state.waiting.take();
        drop(state);
        if let Some(waiting) = waiting {
            shield(|| waiting.wake());
        }
    }

    /// What is done while the lock is held cannot leave the state half changed.
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a task, until somebody takes it. If nobody does, a panic of its destructor is one more panic on the shard.
#[derive(Debug)]
struct Outcome<T>(Option<Result<T, Panic>>);

impl<T> Outcome<T> {
    fn take(mut self) -> Option<Result<T, Panic>> {
        self.0.take()
    }
}

impl<T> Drop for Outcome<T> {
    fn drop(&mut self) {
        let untaken = self.0.take();
        shield(|| drop(untaken));
    }
}
