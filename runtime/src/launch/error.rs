//! Why nothing was started.

use super::Plan;
use crate::{address::Address, backend::Unavailable, bind_error::BindError};
use shardloop_platform::socket;
use std::{error::Error as StdError, fmt, io};

/// Why a plan could not be started. Its `Debug` is its text, too: a `main` that returns it prints that.
pub enum LaunchError {
    /// Zero shards, or more than [`Plan::MAX_SHARDS`].
    Shards(usize),
    /// The engine cannot be used here.
    Unavailable(Unavailable),
    /// An endpoint could not be bound.
    Bind(BindError),
    /// Two endpoints of the plan have this address, or one of them has all addresses of its port.
    Twice(Address),
    /// `ReusePort` does not spread connections on this system, or not with Unix sockets.
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
            Self::Twice(address) => write!(
                f,
                "{address} is there twice in this plan, and can be bound once; leave one out, or use another port"
            ),
            Self::NoReusePort(address @ Address::Unix(_)) => write!(
                f,
                "{address}: Unix sockets have no SO_REUSEPORT, so several shards cannot each listen there; use Accept::Handoff, \
                 HandoffLeast or Shared"
            ),
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

impl fmt::Debug for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl StdError for LaunchError {}

/// What a system has said for want of descriptors, with what is to be done about it.
pub(super) fn with_advice(error: io::Error, plan: &Plan) -> io::Error {
    if !socket::is_descriptor_limit(&error) {
        return error;
    }
    io::Error::new(error.kind(), Scarce::new(error, plan))
}

/// There are not enough descriptors.
#[derive(Debug)]
struct Scarce {
    error: io::Error,
    limit: Option<u64>,
    needed: usize,
}

impl Scarce {
    /// About what an engine and a shard's wake descriptor take while they start.
    const PER_SHARD: usize = 8;
    /// About what each of a shard's endpoints takes: the socket, and a descriptor to wait on.
    const PER_ENDPOINT: usize = 2;
    /// Standard streams, and what was open before.
    const BEFORE: usize = 16;

    fn new(error: io::Error, plan: &Plan) -> Self {
        let endpoints = plan.endpoints.len() + plan.datagram_endpoints.len();
        let per_shard = Self::PER_SHARD + Self::PER_ENDPOINT * endpoints;
        Self {
            error,
            limit: socket::descriptor_limit().ok(),
            needed: Self::BEFORE + plan.shards * per_shard,
        }
    }
}

impl fmt::Display for Scarce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; this process may have ", self.error)?;
        match self.limit {
            Some(limit) => write!(f, "{limit} descriptors")?,
            None => f.write_str("too few descriptors")?,
        }
        write!(
            f,
            ", and this plan needs about {} besides one for each connection: raise the limit (`ulimit -n`), or start fewer shards",
            self.needed
        )
    }
}

impl StdError for Scarce {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.error)
    }
}
