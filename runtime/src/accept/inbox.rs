//! Connections on their way into one shard.

use super::queue::Queue;
use crate::{address::Address, wake::Remote};
use std::sync::Arc;

/// Connections on their way into one shard.
pub(crate) struct Inbox<S> {
    queue: Queue<(S, Address)>,
    remote: Arc<Remote>,
}

impl<S> Inbox<S> {
    /// Connections that may wait for a shard.
    const BOUND: usize = 4096;

    pub(crate) fn new(remote: Arc<Remote>) -> Self {
        Self {
            queue: Queue::new(Self::BOUND),
            remote,
        }
    }

    /// Leaves a connection for the shard; gives it, or another that was left, back if the inbox is full or closed.
    pub(super) fn put(&self, connection: (S, Address)) -> Result<(), (S, Address)> {
        self.queue.put(connection)?;
        self.remote.notify();
        Ok(())
    }

    /// The shard: the next connection.
    pub(super) fn take(&self) -> Option<(S, Address)> {
        self.queue.take()
    }

    /// Connections that wait.
    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Refuses what comes. What was left before may still be taken.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// Closes the connections that nobody took.
    pub(crate) fn clear(&self) {
        self.queue.clear();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }

    /// Connections that the shard has, or is about to have.
    pub(super) fn load(&self) -> u64 {
        self.waiting() as u64 + self.remote.connections()
    }
}
