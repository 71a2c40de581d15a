//! The time of a world.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// A clock that moves only when its world moves it. All moments within a world are nanoseconds since its start.
#[derive(Debug)]
pub(crate) struct Clock {
    start: Instant,
    elapsed_ns: AtomicU64,
}

impl Clock {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            elapsed_ns: AtomicU64::new(0),
        })
    }

    pub(crate) fn now(&self) -> Instant {
        self.start + Duration::from_nanos(self.elapsed_ns())
    }

    pub(super) fn elapsed_ns(&self) -> u64 {
        self.elapsed_ns.load(Ordering::Relaxed)
    }

    /// The moment of `instant`; those before the start are 0.
    pub(super) fn moment(&self, instant: Instant) -> u64 {
        nanoseconds(instant.saturating_duration_since(self.start))
    }

    /// Moves on to `moment`, never back.
    pub(super) fn advance_to(&self, moment: u64) {
        self.elapsed_ns.fetch_max(moment, Ordering::Relaxed);
    }
}

/// A duration in nanoseconds, at most 584 years.
pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
