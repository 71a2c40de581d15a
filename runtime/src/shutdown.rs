//! Ending shards: draining, forcing, and how a shard's futures hear of it.

use crate::{
    context,
    executor::{Core, Event},
    wake::{Phase, Remote},
};
use std::{
    fmt,
    future::Future,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
};

/// Ends the shards of a plan, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    remotes: Arc<[Arc<Remote>]>,
}

impl Stopper {
    pub(crate) fn new(remotes: Vec<Arc<Remote>>) -> Self {
        Self {
            remotes: remotes.into(),
        }
    }

    /// Asks all shards to take nothing new, to finish what they have, and to end; at most until the plan's drain deadline.
    pub fn drain(&self) {
        self.advance(Phase::Draining);
    }

    /// Ends all shards at once: their tasks are dropped where they are.
    pub fn force(&self) {
        self.advance(Phase::Forced);
    }

    fn advance(&self, phase: Phase) {
        self.remotes.iter().for_each(|remote| remote.advance(phase));
    }
}

/// Completes once the current shard is asked to end.
///
/// # Panics
/// Outside a shard.
pub fn stopping() -> Stopping {
    Stopping {
        watch: Watch::new(context::current(), Event::Phase),
    }
}

/// The future of [`stopping`].
#[must_use = "futures do nothing unless awaited"]
pub struct Stopping {
    watch: Watch,
}

impl Future for Stopping {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.watch.core().remote().phase() > Phase::Running {
            return Poll::Ready(());
        }
        self.watch.set(cx);
        Poll::Pending
    }
}

impl fmt::Debug for Stopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stopping").finish_non_exhaustive()
    }
}

/// A future's place among those that are woken by an event.
pub(crate) struct Watch {
    core: Rc<Core>,
    event: Event,
    key: Option<usize>,
}

impl Watch {
    pub(crate) fn new(core: Rc<Core>, event: Event) -> Self {
        Self {
            core,
            event,
            key: None,
        }
    }

    pub(crate) fn core(&self) -> &Rc<Core> {
        &self.core
    }

    /// Wakes `cx` from now on.
    pub(crate) fn set(&mut self, cx: &mut Context<'_>) {
        match self.key {
            Some(key) => self.core.rewatch(self.event, key, cx.waker()),
            None => self.key = Some(self.core.watch(self.event, cx.waker())),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            self.core.unwatch(self.event, key);
        }
    }
}
