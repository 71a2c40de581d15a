//! What one step of a machine came to; a turn is a row of them.

use crate::machine::Flow;

/// How far a step came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Bytes taken from the front of the input.
    pub(super) taken: usize,
    pub(super) seen: Seen,
}

/// What a step found.
#[derive(Clone, Copy, Debug)]
pub(super) enum Seen {
    /// More input is needed.
    Nothing,
    /// Part of a message; the next step is to follow.
    Part,
    /// A whole message, which was shown.
    Message(Flow),
}

impl Progress {
    /// More input is needed, and none was taken.
    pub(super) const NOTHING: Self = Self {
        taken: 0,
        seen: Seen::Nothing,
    };
}
