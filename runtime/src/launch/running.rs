//! A started plan.

use super::{Report, ShardReport, endpoints::Addresses};
use crate::{address::Address, backend::Capabilities, placement::Seat, shutdown::Stopper};
use std::{net::SocketAddr, thread::JoinHandle};

/// A started plan; [`wait`](Self::wait) lets its shards finish.
///
/// Dropping it asks all shards to end at once, as [`Stopper::force`] does, and does not wait: their threads drop what runs there, let go
/// of their memory and descriptors and end a little later, while the addresses are still taken. Who needs to know when that is done asks
/// [`stopper`](Self::stopper) and waits.
#[derive(Debug)]
pub struct Running<T> {
    threads: Vec<JoinHandle<Vec<ShardReport<T>>>>,
    addresses: Addresses,
    seats: Vec<Seat>,
    stopper: Stopper,
    engine: &'static str,
    capabilities: Capabilities,
}

impl<T> Running<T> {
    /// Shards on `threads`, each of which has some of them, in their order.
    pub(crate) fn new(
        threads: Vec<JoinHandle<Vec<ShardReport<T>>>>,
        addresses: Addresses,
        seats: Vec<Seat>,
        stopper: Stopper,
        (engine, capabilities): (&'static str, Capabilities),
    ) -> Self {
        Self {
            threads,
            addresses,
            seats,
            stopper,
            engine,
            capabilities,
        }
    }

    /// Where the endpoints are bound, ports resolved, in the plan's order.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses.streams
    }

    /// Where the datagram endpoints are bound, ports resolved, in the plan's order.
    #[must_use]
    pub fn datagram_addresses(&self) -> &[SocketAddr] {
        &self.addresses.datagrams
    }

    /// Where each shard runs.
    #[must_use]
    pub fn seats(&self) -> &[Seat] {
        &self.seats
    }

    /// The engine's name.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        self.engine
    }

    /// What the engine offers, and why it was chosen.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// A handle to end it with, from anywhere.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits until all shards have ended.
    ///
    /// # Panics
    /// If a shard's thread panicked outside its tasks, which is a fault of this crate.
    pub fn wait(mut self) -> Report<T> {
        let threads = std::mem::take(&mut self.threads);
        let join = |thread: JoinHandle<_>| {
            thread
                .join()
                .expect("every panic of a task is caught, so a shard's thread returns")
        };
        Report {
            engine: self.engine,
            capabilities: std::mem::take(&mut self.capabilities),
            shards: threads.into_iter().flat_map(join).collect(),
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.stopper.force();
        }
    }
}
