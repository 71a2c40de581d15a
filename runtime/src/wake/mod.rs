//! What other threads may do to a shard: have it poll a task, and wake it.
//!
//! A [`Remote`] is the only part of a shard that other threads hold. What they left of wakes is bounded by the number of tasks that the
//! shard, or one before it that had its number, ever had at once, because each place in a table is noted once.

mod bell;
mod left;
mod word;

pub(crate) use bell::Bell;

/// The atomics of [`word`]; the loom model puts its own in their place.
mod sync {
    pub(super) use std::sync::atomic::{AtomicU8, Ordering};
}

use crate::task::TaskId;
use left::Left;
use shardloop_platform::wake::WakeReader;
use slab::Slab;
use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};
use word::Word;

/// The shards of this process by their numbers.
static SHARDS: RwLock<Slab<Weak<Remote>>> = RwLock::new(Slab::new());

/// Has a task polled that belongs to another thread's shard, or to none any more.
pub(crate) fn from_elsewhere(task: TaskId) {
    let shards = SHARDS.read().unwrap_or_else(PoisonError::into_inner);
    let shard = shards.get(task.shard).and_then(Weak::upgrade);
    drop(shards);
    if let Some(shard) = shard {
        shard.wake(task);
    }
}

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
    number: usize,
    word: Word,
    bell: Arc<Bell>,
    left: Mutex<Left>,
    phase: AtomicU8,
    foreign_wakes: AtomicU64,
    /// Connections that are open on the shard.
    connections: AtomicU64,
}

impl Remote {
    /// A new shard's remote end, and the descriptor its engine watches.
    ///
    /// # Errors
    /// The descriptors', or that this process has all the shards it can have.
    pub(crate) fn new() -> io::Result<(Arc<Self>, WakeReader)> {
        let (bell, reader) = Bell::own()?;
        Ok((Self::with_bell(bell)?, reader))
    }

    /// A new shard's remote end, whose engine sleeps where `bell` wakes it: several shards may share one.
    ///
    /// # Errors
    /// This process has all the shards it can have.
    pub(crate) fn with_bell(bell: Arc<Bell>) -> io::Result<Arc<Self>> {
        let mut shards = SHARDS.write().unwrap_or_else(PoisonError::into_inner);
        let number = shards.vacant_key();
        if number >= TaskId::SHARDS {
            let text = format!("a process has at most {} shards at once", TaskId::SHARDS);
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        let remote = Arc::new(Self {
            number,
            word: Word::new(),
            bell,
            left: Mutex::default(),
            phase: AtomicU8::new(Phase::Running as u8),
            foreign_wakes: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        });
        shards.insert(Arc::downgrade(&remote));
        Ok(remote)
    }

    /// Which shard of this process this is. Numbers are used again.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Makes the shard look at what was left for it.
    pub(crate) fn notify(&self) {
        if self.word.notify() {
            self.bell.ring();
        }
    }

    /// Has a task of this shard polled.
    fn wake(&self, task: TaskId) {
        self.foreign_wakes.fetch_add(1, Ordering::Relaxed);
        self.left().note(task.place);
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

    /// Connections that are open on the shard, as of lately.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// The shard: tells others how many connections it has open.
    pub(crate) fn set_connections(&self, open: u64) {
        self.connections.store(open, Ordering::Relaxed);
    }

    /// The shard: a turn begins; true if there is something to look at.
    pub(crate) fn rise(&self) -> bool {
        self.word.rise()
    }

    /// The shard: about to park; false if it must look first.
    pub(crate) fn settle(&self) -> bool {
        self.word.settle()
    }

    /// Whether something was left for the shard that it has not looked at.
    pub(crate) fn is_notified(&self) -> bool {
        self.word.is_notified()
    }

    /// The shard: the places of the tasks that other threads want polled.
    pub(crate) fn take(&self) -> Vec<usize> {
        self.left().take()
    }

    /// A panic while the lock is held leaves everything whole: nothing in there can be half done.
    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let mut shards = SHARDS.write().unwrap_or_else(PoisonError::into_inner);
        shards.try_remove(self.number);
    }
}
