//! What a shard counts about itself. Nearly free: plain cells of the shard's own thread.

use std::{cell::Cell, panic::Location, time::Duration};

/// Counters of one shard. What an engine cannot see is `None`, never 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Turns of the executor: between two looks at the engine.
    pub turns: u64,
    /// Turns that ended with nothing left to run, so that the engine could wait.
    pub parks: u64,
    /// Turns that ended with nothing left to run, and looked again at once because the shard spins.
    pub spins: u64,
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
    /// Of those, how many are gone again.
    pub closed: u64,
    /// Times that accepting failed, for want of descriptors or otherwise.
    pub accept_errors: u64,
    /// Timers that were due, and how late the latest was: between its deadline and the moment it was woken.
    pub timers: u64,
    /// See [`timers`](Self::timers).
    pub timer_latest: Duration,
    /// Bytes of leases in the application's hands now.
    pub lease_bytes: u64,
    /// The most that these ever were.
    pub lease_bytes_peak: u64,
    /// Leases that no buffer was at hand for.
    pub pool_misses: u64,
    /// Receives in flight that were taken back, because they kept a large buffer for an idle connection.
    pub receives_shrunk: u64,
    /// Polls that kept the shard too long; `None` unless
    /// [`EngineOptions::stall_after`](crate::EngineOptions::stall_after) asks for it.
    pub stalls: Option<Stalls>,
    /// System calls that entered the engine; `None` where the engine does not tell.
    pub kernel_entries: Option<u64>,
}

impl Metrics {
    /// Connections that are open now.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.adopted - self.closed
    }
}

/// Polls of tasks that kept a shard from everything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// How many there were.
    pub count: u64,
    /// The longest.
    pub longest: Duration,
    /// Where its task was started.
    pub longest_from: Option<&'static Location<'static>>,
}

impl Stalls {
    /// A poll took `took`, of a task that was started at `from`.
    pub(crate) fn note(&mut self, took: Duration, from: Option<&'static Location<'static>>) {
        self.count += 1;
        if took > self.longest {
            (self.longest, self.longest_from) = (took, from);
        }
    }
}

/// The cells behind [`Metrics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) turns: Count,
    pub(crate) parks: Count,
    pub(crate) spins: Count,
    pub(crate) polls: Count,
    pub(crate) spawned: Count,
    pub(crate) panics: Count,
    pub(crate) accepted: Count,
    pub(crate) adopted: Count,
    pub(crate) closed: Count,
    pub(crate) accept_errors: Count,
    pub(crate) timers: Count,
    pub(crate) timer_latest: Cell<Duration>,
    pub(crate) receives_shrunk: Count,
    pub(crate) stalls: Cell<Stalls>,
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

#[cfg(test)]
mod tests {
    use super::Stalls;
    use std::{panic::Location, time::Duration};

    #[test]
    fn the_longest_stall_is_remembered_with_its_task() {
        let (mut stalls, here) = (Stalls::default(), Location::caller());
        stalls.note(Duration::from_millis(3), None);
        stalls.note(Duration::from_millis(9), Some(here));
        stalls.note(Duration::from_millis(5), None);
        assert_eq!(
            (stalls.count, stalls.longest),
            (3, Duration::from_millis(9))
        );
        assert_eq!(stalls.longest_from, Some(here));
    }
}
