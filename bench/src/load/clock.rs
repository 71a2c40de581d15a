//! The run's clock: nanoseconds since it began, from the monotonic clock.

use std::time::{Duration, Instant};

/// Nanoseconds since a moment of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    epoch: Instant,
}

impl Clock {
    /// A clock that shows 0 now.
    pub(crate) fn start() -> Self {
        Self {
            epoch: Instant::now(),
        }
    }

    pub(crate) fn now_ns(self) -> u64 {
        nanoseconds(self.epoch.elapsed())
    }

    /// The moment it shows 0.
    pub(crate) fn epoch(self) -> Instant {
        self.epoch
    }

    /// The moment it shows `ns`.
    pub(crate) fn instant(self, ns: u64) -> Instant {
        self.epoch + Duration::from_nanos(ns)
    }
}

/// A duration of this tool in nanoseconds.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).expect("no run lasts 584 years")
}
