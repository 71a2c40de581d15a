//! Where a connection stands between its first and its last byte, and what it waits for there.

use super::options::KeepAlive;
use std::time::Instant;

/// Where a connection stands. A deadline of `None` never comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The handshake is not done.
    Opening { deadline: Option<Instant> },
    /// Messages go both ways.
    Open {
        /// When something last came from the peer or, if it was pinged since, when that was.
        since: Instant,
        pinged: bool,
    },
    /// This end has said Close, the peer has not.
    Closing { deadline: Option<Instant> },
    /// Nothing is sent or received any more.
    Closed,
}

impl Phase {
    pub(super) fn timeout(&self, keep_alive: Option<KeepAlive>) -> Option<Instant> {
        match *self {
            Self::Opening { deadline } | Self::Closing { deadline } => deadline,
            Self::Open { since, pinged } => {
                let KeepAlive { idle, answer } = keep_alive?;
                since.checked_add(if pinged { answer } else { idle })
            }
            Self::Closed => None,
        }
    }

    /// Something has come from the peer.
    pub(super) fn heard(&mut self, now: Instant) {
        if matches!(self, Self::Open { .. }) {
            *self = Self::open(now);
        }
    }

    pub(super) const fn open(now: Instant) -> Self {
        Self::Open {
            since: now,
            pinged: false,
        }
    }
}
