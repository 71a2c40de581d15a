//! Why an endpoint could not be bound.

use shardloop_platform::socket::{self, BindCause, UnixBindCause, UnixBindError};
use std::{error::Error, fmt};

/// An endpoint that could not be bound.
#[derive(Clone, PartialEq, Eq)]
pub enum BindError {
    /// Of an internet host.
    Inet(socket::BindError),
    /// A Unix socket.
    Unix(UnixBindError),
}

impl BindError {
    /// Whether somebody else has the address.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        match self {
            Self::Inet(error) => error.cause == BindCause::InUse,
            Self::Unix(error) => error.cause == UnixBindCause::InUse,
        }
    }
}

/// Its text: what a `main` prints that returns it.
impl fmt::Debug for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(error) => error.fmt(f),
            Self::Unix(error) => error.fmt(f),
        }
    }
}

impl Error for BindError {}

impl From<socket::BindError> for BindError {
    fn from(error: socket::BindError) -> Self {
        Self::Inet(error)
    }
}

impl From<UnixBindError> for BindError {
    fn from(error: UnixBindError) -> Self {
        Self::Unix(error)
    }
}
