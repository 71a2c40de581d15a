//! What a shard counts about itself. Nearly free: plain cells of the shard's own thread.

use std::cell::Cell;

/// Counters of one shard. What an engine cannot see is `None`, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Turns of the executor: between two looks at the engine.
    pub turns: u64,
    /// Turns that ended with nothing left to run, so that the engine could wait.
    pub parks: u64,
    /// Polls of tasks.
    pub polls: u64,
    /// Tasks started.
    pub spawned: u64,
    /// Tasks that ended by a panic.
    pub panics: u64,
    /// Wakes that came from other threads.
    pub foreign_wakes: u64,
    /// Connections taken from a listener by this shard.
    pub accepted: u64,
    /// Connections this shard made its own: given to it to serve, or connected by itself.
    pub adopted: u64,
    /// Times that accepting failed, for want of descriptors or otherwise.
    pub accept_errors: u64,
    /// Leases that no buffer was at hand for.
    pub pool_misses: u64,
    /// Bytes of leases that the application held at its peak.
    pub lease_bytes_peak: u64,
    /// Receives in flight that were taken back, because they kept a large buffer for an idle connection.
    pub receives_shrunk: u64,
}

/// The cells behind [`Metrics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) turns: Count,
    pub(crate) parks: Count,
    pub(crate) polls: Count,
    pub(crate) spawned: Count,
    pub(crate) panics: Count,
    pub(crate) accepted: Count,
    pub(crate) adopted: Count,
    pub(crate) accept_errors: Count,
    pub(crate) receives_shrunk: Count,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Count(Cell<u64>);

impl Count {
    pub(crate) fn add(&self, n: u64) {
        self.0.set(self.0.get().wrapping_add(n));
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.get()
    }
}
