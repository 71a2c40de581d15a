//! The wake word: one atomic byte by which other threads reach a shard, and only a sleeping shard costs them a system call.
//!
//! ```text
//!            shard: settle            other: notify (writes the descriptor)
//!   AWAKE ─────────────────▶ ASLEEP ─────────────────▶ NOTIFIED
//!     ▲  ╲                                                │
//!     │   ╲ other: notify (no system call) ──────────────▶│
//!     └─────────────── shard: rise (and looks) ◀──────────┘
//! ```
//!
//! Who owns what: another thread first puts its message where the shard will look, then calls [`Word::notify`]. The shard looks
//! whenever [`Word::rise`] or [`Word::settle`] says so. No message is missed: `notify` leaves NOTIFIED behind, `settle` refuses to
//! fall asleep over it, and both are read-modify-writes of the one byte, so the message is visible to the shard that sees NOTIFIED.
//!
//! This file is compiled a second time by the loom model in `tests/it/wake_model.rs`, over loom's atomics.

use super::sync::{AtomicU8, Ordering};

const AWAKE: u8 = 0;
const ASLEEP: u8 = 1;
const NOTIFIED: u8 = 2;

/// State of one shard as other threads see it.
#[derive(Debug)]
pub(crate) struct Word(AtomicU8);

impl Word {
    /// A shard that is awake and has nothing to look at.
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(AWAKE))
    }

    /// Another thread: something was left for the shard. True if the caller must make the descriptor readable.
    #[must_use]
    pub(crate) fn notify(&self) -> bool {
        self.0.swap(NOTIFIED, Ordering::AcqRel) == ASLEEP
    }

    /// The shard: a turn begins. True if something was left for it.
    #[must_use]
    pub(crate) fn rise(&self) -> bool {
        self.0.swap(AWAKE, Ordering::AcqRel) == NOTIFIED
    }

    /// Whether something was left that nobody has looked at.
    #[must_use]
    pub(crate) fn is_notified(&self) -> bool {
        self.0.load(Ordering::Acquire) == NOTIFIED
    }

    /// The shard: about to park. False if something was left meanwhile: look, and do not park.
    #[must_use]
    pub(crate) fn settle(&self) -> bool {
        self.0
            .compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}
