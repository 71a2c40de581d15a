//! Why nothing was started.

use super::Plan;
use crate::{address::Address, backend::Unavailable, bind_error::BindError};
use std::{error::Error as StdError, fmt, io};

/// Why a plan could not be started.
#[derive(Debug)]
pub enum LaunchError {
    /// Zero shards, or more than [`Plan::MAX_SHARDS`].
    Shards(usize),
    /// The engine cannot be used here.
    Unavailable(Unavailable),
    /// An endpoint could not be bound.
    Bind(BindError),
    /// `ReusePort` does not spread connections on this system.
    NoReusePort(Address),
    /// A bound endpoint would not tell its address.
    Address(io::Error),
    /// The signals that end a plan could not be taken over.
    Signals(io::Error),
    /// A thread could not be started.
    Thread(io::Error),
    /// An engine could not be built on one of the shards.
    Engine {
        /// The engine's name.
        engine: &'static str,
        /// Which shard.
        shard: usize,
        /// Why.
        error: io::Error,
    },
}

impl LaunchError {
    /// Whether another engine might do better.
    pub(super) fn is_of_the_engine(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Engine { .. })
    }
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shards(shards) => {
                write!(
                    f,
                    "a plan has 1 to {} shards; {shards} were asked for",
                    Plan::MAX_SHARDS
                )
            }
            Self::Unavailable(unavailable) => unavailable.fmt(f),
            Self::Bind(error) => error.fmt(f),
            Self::NoReusePort(address) => write!(
                f,
                "{address}: SO_REUSEPORT does not spread connections on this system, so one shard would get them all; use Accept::Handoff"
            ),
            Self::Address(error) => {
                write!(f, "a bound endpoint would not tell its address: {error}")
            }
            Self::Signals(error) => write!(
                f,
                "SIGINT and SIGTERM could not be taken over, so nothing could end the shards in order: {error}"
            ),
            Self::Thread(error) => write!(f, "a thread could not be started: {error}"),
            Self::Engine {
                engine,
                shard,
                error,
            } => write!(
                f,
                "{engine} could not be started on shard {shard}, so no shard was: {error}"
            ),
        }
    }
}

impl StdError for LaunchError {}
