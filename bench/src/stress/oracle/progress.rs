//! A counter that must go on: the longest time it stood still, seen from another thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Counts what was seen, and says when all is done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    seen: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
}

impl Progress {
    /// Something was seen.
    pub(crate) fn note(&self) {
        self.seen.fetch_add(1, Ordering::Relaxed);
    }

    /// How much was.
    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Nothing more will come.
    pub(crate) fn finish(&self) {
        self.done.store(true, Ordering::Release);
    }

    /// Watches until it is finished, or stands still for longer than `bound`; returns the longest stand-still, and whether it was finished.
    pub(crate) fn watch(&self, bound: Duration, mut told: impl FnMut(u64)) -> (Duration, bool) {
        const LOOK: Duration = Duration::from_millis(5);
        const TELL: Duration = Duration::from_secs(5);
        let (mut last, mut since, mut longest) = (self.seen(), Instant::now(), Duration::ZERO);
        let mut tell = Instant::now() + TELL;
        loop {
            thread::sleep(LOOK);
            let finished = self.done.load(Ordering::Acquire);
            longest = longest.max(since.elapsed());
            if finished || since.elapsed() > bound {
                return (longest, finished);
            }
            let now = self.seen();
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if Instant::now() >= tell {
                tell += TELL;
                told(now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Progress;
    use std::time::Duration;

    #[test]
    fn a_stand_still_is_found() {
        let progress = Progress::default();
        progress.note();
        let (longest, finished) = progress.watch(Duration::from_millis(20), |_| {});
        assert!(!finished && longest > Duration::from_millis(20));
        progress.finish();
        assert!(progress.watch(Duration::from_secs(20), |_| {}).1);
        assert_eq!(progress.seen(), 1);
    }
}
