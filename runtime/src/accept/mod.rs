//! How connections reach shards: endpoints, strategies, and what a shard is handed.
//!
//! Whatever the strategy, a task accepts and puts connections into the *inboxes* of shards, and a service takes them out through
//! [`Incoming`]. With `ReusePort` and `Shared` every shard accepts and has itself as the only target; with `Handoff` and
//! `HandoffLeast` shard 0 accepts for all.

mod acceptor;
mod endpoint;
mod inbox;
mod incoming;
mod queue;
mod strategy;

/// What [`queue`] is made of; the loom model puts its own in their place.
mod sync {
    pub(super) use crossbeam_queue::ArrayQueue;
    pub(super) use std::sync::atomic::{AtomicBool, Ordering, fence};
}

pub(crate) use acceptor::accept_for;
pub use endpoint::Endpoint;
pub(crate) use inbox::Inbox;
pub use incoming::Incoming;
pub use strategy::{Accept, UnknownAccept};
