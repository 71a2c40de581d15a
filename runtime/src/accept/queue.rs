//! A bounded queue into a shard that can be closed.
//!
//! Other threads put in, the shard takes out, and at its end closes the queue and clears it. Nothing is lost on the way: what was put
//! in is taken, cleared, or given back to who put it.
//!
//! This file is compiled a second time by the loom model in `tests/it/queue_model.rs`.

use super::sync::{ArrayQueue, AtomicBool, Ordering, fence};

/// The queue.
pub(crate) struct Queue<T> {
    items: ArrayQueue<T>,
    closed: AtomicBool,
}

impl<T> Queue<T> {
    /// An open queue with room for `bound` items.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            items: ArrayQueue::new(bound),
            closed: AtomicBool::new(false),
        }
    }

    /// Puts an item in; gives it, or another that was left, back if the queue is full or closed.
    pub(crate) fn put(&self, item: T) -> Result<(), T> {
        if self.is_closed() {
            return Err(item);
        }
        self.items.push(item)?;
        // It may have been closed in between. The fences see to it that either this notices, or `clear` finds what was pushed.
        fence(Ordering::SeqCst);
        if self.is_closed()
            && let Some(left) = self.items.pop()
        {
            return Err(left);
        }
        Ok(())
    }

    /// The shard: the next item.
    pub(crate) fn take(&self) -> Option<T> {
        self.items.pop()
    }

    /// The shard: refuses what comes. What was left before may still be taken.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// The shard, after closing: drops what nobody took.
    pub(crate) fn clear(&self) {
        fence(Ordering::SeqCst);
        while self.items.pop().is_some() {}
    }

    /// Whether it refuses what comes.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Items in it.
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }
}
