//! What other threads may do to a shard: hand it a runnable task, and wake it.
//!
//! A [`Remote`] is the only part of a shard that other threads hold. Its queue of runnables is bounded by the number of live tasks
//! of the shard, because a task is scheduled at most once.

mod word;

/// The atomics of [`word`]; the loom model puts its own in their place.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU8, Ordering};
}

use async_task::Runnable;
use shardloop_platform::wake::{WakeReader, Waker as Descriptor, pair};
use std::{
    collections::VecDeque,
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};
use word::Word;

/// How far the end of a shard has come; only ever rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Serves.
    Running = 0,
    /// Takes nothing new, finishes what it has.
    Draining = 1,
    /// Ends at once.
    Forced = 2,
}

/// The end of a shard that other threads hold.
#[derive(Debug)]
pub(crate) struct Remote {
    id: u64,
    word: Word,
    descriptor: Descriptor,
    runnables: Mutex<VecDeque<Runnable>>,
    phase: AtomicU8,
    foreign_wakes: AtomicU64,
}

impl Remote {
    /// A new shard's remote end, and the descriptor its engine watches.
    pub(crate) fn new() -> io::Result<(Self, WakeReader)> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (reader, descriptor) = pair()?;
        let remote = Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            word: Word::new(),
            descriptor,
            runnables: Mutex::default(),
            phase: AtomicU8::new(Phase::Running as u8),
            foreign_wakes: AtomicU64::new(0),
        };
        Ok((remote, reader))
    }

    /// Which shard of this process this is.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Makes the shard look at what was left for it.
    pub(crate) fn notify(&self) {
        if self.word.notify() {
            // It fails only when the reading end is gone: the shard has ended, and there is nobody to wake.
            let _ = self.descriptor.wake();
        }
    }

    /// Leaves a task that became runnable on another thread.
    pub(crate) fn inject(&self, runnable: Runnable) {
        self.foreign_wakes.fetch_add(1, Ordering::Relaxed);
        self.queue().push_back(runnable);
        self.notify();
    }

    /// Raises the phase and wakes the shard.
    pub(crate) fn advance(&self, phase: Phase) {
        self.phase.fetch_max(phase as u8, Ordering::Release);
        self.notify();
    }

    /// The phase asked for.
    pub(crate) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Forced,
        }
    }

    /// Wakes that came from other threads.
    pub(crate) fn foreign_wakes(&self) -> u64 {
        self.foreign_wakes.load(Ordering::Relaxed)
    }

    /// The shard: a turn begins; true if there is something to look at.
    pub(crate) fn rise(&self) -> bool {
        self.word.rise()
    }

    /// The shard: about to park; false if it must look first.
    pub(crate) fn settle(&self) -> bool {
        self.word.settle()
    }

    /// The shard: takes what was injected.
    pub(crate) fn take(&self, into: &mut VecDeque<Runnable>) {
        into.append(&mut self.queue());
    }

    /// A panic while the lock is held leaves the queue whole: nothing in there can be half done.
    fn queue(&self) -> MutexGuard<'_, VecDeque<Runnable>> {
        self.runnables
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
