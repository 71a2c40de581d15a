//! A shard's timers: who wants to be woken when.
//!
//! Ordered by deadline, so that the next one is at hand when the engine parks, and removed when dropped, so that a timeout that did
//! not happen leaves nothing behind. The bound is the number of live `Sleep` futures.

use std::{collections::BTreeMap, task::Waker, time::Instant};

/// Which timer; unique within a shard.
pub(crate) type TimerKey = (Instant, u64);

/// All timers of a shard.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    entries: BTreeMap<TimerKey, Waker>,
    next: u64,
}

impl Timers {
    /// Registers `waker` for `deadline`.
    pub(crate) fn insert(&mut self, deadline: Instant, waker: Waker) -> TimerKey {
        let key = (deadline, self.next);
        self.next += 1;
        self.entries.insert(key, waker);
        key
    }

    /// Replaces the waker of a timer that is still registered, and hands the old one out: dropping it may run code that needs this
    /// table. None if the timer has fired.
    pub(crate) fn update(&mut self, key: TimerKey, waker: &Waker) -> Option<Waker> {
        let known = self.entries.get_mut(&key)?;
        Some(std::mem::replace(known, waker.clone()))
    }

    /// Forgets a timer, fired or not. The waker is handed out, too.
    pub(crate) fn remove(&mut self, key: TimerKey) -> Option<Waker> {
        self.entries.remove(&key)
    }

    /// The earliest deadline.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.entries
            .first_key_value()
            .map(|((deadline, _), _)| *deadline)
    }

    /// Takes the earliest timer out if its time has come. Its deadline comes along.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Instant, Waker)> {
        let entry = self.entries.first_entry()?;
        let deadline = entry.key().0;
        (deadline <= now).then(|| (deadline, entry.remove()))
    }

    /// Registered timers.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Timers;
    use std::{
        task::Waker,
        time::{Duration, Instant},
    };

    #[test]
    fn the_earliest_comes_first_and_only_when_due() {
        let (start, mut timers) = (Instant::now(), Timers::default());
        for ms in [30_u64, 10, 20] {
            timers.insert(start + Duration::from_millis(ms), Waker::noop().clone());
        }
        assert_eq!(
            timers.next_deadline(),
            Some(start + Duration::from_millis(10))
        );
        assert!(timers.pop_due(start + Duration::from_millis(9)).is_none());
        assert!(timers.pop_due(start + Duration::from_millis(20)).is_some());
        assert!(timers.pop_due(start + Duration::from_millis(20)).is_some());
        assert!(timers.pop_due(start + Duration::from_millis(20)).is_none());
        assert_eq!(timers.len(), 1);
    }

    #[test]
    fn equal_deadlines_are_kept_apart_and_a_removed_timer_is_gone() {
        let (start, mut timers) = (Instant::now(), Timers::default());
        let first = timers.insert(start, Waker::noop().clone());
        let second = timers.insert(start, Waker::noop().clone());
        assert_ne!(first, second);
        assert!(timers.remove(first).is_some());
        assert!(timers.remove(first).is_none());
        assert!(timers.update(second, Waker::noop()).is_some());
        assert!(timers.update(first, Waker::noop()).is_none());
        assert_eq!(timers.len(), 1);
    }
}
