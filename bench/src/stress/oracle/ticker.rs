//! A ticker beside what a shard does: how late its timers are.

use hdrhistogram::Histogram;
use shardloop::{Either, race, time};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Times in a histogram, in nanoseconds from 1 µs to a minute; from any thread.
#[derive(Clone, Debug)]
pub(crate) struct Times(Arc<Mutex<Histogram<u64>>>);

impl Times {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let histogram = Histogram::new_with_bounds(1_000, 60_000_000_000, 3)?;
        Ok(Self(Arc::new(Mutex::new(histogram))))
    }

    pub(crate) fn record(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let mut histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.saturating_record(nanos);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The value at this quantile, in milliseconds; 0 where there is none, which is why [`count`](Self::count) is told too.
    pub(crate) fn ms_at(&self, quantile: f64) -> f64 {
        let histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.value_at_quantile(quantile) as f64 / 1e6
    }

    /// The largest, in milliseconds.
    pub(crate) fn ms_max(&self) -> f64 {
        let histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.max() as f64 / 1e6
    }
}

/// Ticks every `period` on the current shard and records how late each tick came, until the shard is asked to end.
pub(crate) async fn tick(period: Duration, lateness: Times) {
    let mut stop = std::pin::pin!(shardloop::stopping());
    loop {
        // The clock and not the shard's own notion of now: what the shard missed is lateness, too.
        let due = std::time::Instant::now() + period;
        if let Either::Right(()) = race(time::sleep_until(due), stop.as_mut()).await {
            return;
        }
        lateness.record(due.elapsed());
    }
}
