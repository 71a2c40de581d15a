//! A shard as a service sees it: its number, its endpoints, its tasks.

use crate::{
    accept::{Accept, Inbox, Incoming},
    address::Address,
    backend::{Backend, Capabilities},
    datagram::{DatagramSocket, Letterbox},
    launch::{Addresses, Plan, doors, posts},
    metrics::Metrics,
    options::StreamOptions,
    placement::Seat,
    shutdown::{Stopper, Stopping, stopping},
    task::{Task, spawn},
    wake::Remote,
};
use std::{cell::RefCell, fmt, future::Future, net::SocketAddr, rc::Rc, sync::Arc};

/// The shard a service runs on. Cheap to clone; never leaves its thread.
pub struct Shard<B: Backend>(Rc<Facts<B>>);

pub(crate) struct Facts<B: Backend> {
    pub(crate) index: usize,
    pub(crate) seat: Seat,
    /// Those that the service has not taken yet.
    pub(crate) sockets: RefCell<Vec<Option<DatagramSocket<B>>>>,
    pub(crate) world: Arc<World<B>>,
}

/// What all shards of a plan have in common.
pub(crate) struct World<B: Backend> {
    pub(crate) shards: usize,
    pub(crate) stopper: Stopper,
    pub(crate) capabilities: Capabilities,
    pub(crate) doors: Vec<Door<B>>,
    pub(crate) posts: Vec<Post>,
}

impl<B: Backend> World<B> {
    pub(crate) fn new(
        plan: &Plan,
        capabilities: Capabilities,
        addresses: &Addresses,
        remotes: &[Arc<Remote>],
    ) -> Self {
        Self {
            shards: plan.shards,
            stopper: Stopper::new(remotes.to_vec()),
            capabilities,
            doors: doors(plan, addresses, remotes),
            posts: posts(plan, addresses, remotes),
        }
    }
}

/// An endpoint for datagrams from the inside.
pub(crate) struct Post {
    pub(crate) address: SocketAddr,
    /// One per shard, if shard 0 receives for all.
    pub(crate) letterboxes: Vec<Arc<Letterbox>>,
}

impl Post {
    /// The datagrams of shard `index`, which has `socket`.
    pub(crate) fn socket<B: Backend>(
        &self,
        index: usize,
        socket: B::Datagram,
    ) -> DatagramSocket<B> {
        match self.letterboxes.get(index) {
            Some(letterbox) => DatagramSocket::shared(socket, letterbox.clone(), index == 0),
            None => DatagramSocket::own(socket),
        }
    }
}

/// An endpoint from the inside.
pub(crate) struct Door<B: Backend> {
    pub(crate) address: Address,
    pub(crate) accept: Accept,
    pub(crate) stream: StreamOptions,
    /// One per shard.
    pub(crate) inboxes: Vec<Arc<Inbox<B::Socket>>>,
}

impl<B: Backend> Door<B> {
    /// Whom the listener of shard `index` accepts for.
    pub(crate) fn targets(&self, index: usize) -> Vec<Arc<Inbox<B::Socket>>> {
        if self.accept.hands_out() {
            self.inboxes.clone()
        } else {
            vec![self.inboxes[index].clone()]
        }
    }
}

impl<B: Backend> Shard<B> {
    pub(crate) fn new(facts: Facts<B>) -> Self {
        Self(Rc::new(facts))
    }

    /// Its number, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.0.index
    }

    /// How many shards the plan has.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.world.shards
    }

    /// What its engine offers, and why `auto` chose it, if it did.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.0.world.capabilities
    }

    /// Where it runs.
    #[must_use]
    pub fn seat(&self) -> &Seat {
        &self.0.seat
    }

    /// Where endpoint `endpoint` of the plan is bound, its port resolved.
    ///
    /// # Panics
    /// If the plan has no such endpoint.
    #[must_use]
    pub fn address(&self, endpoint: usize) -> &Address {
        &self.0.world.doors[endpoint].address
    }

    /// The connections this shard is given from endpoint `endpoint` of the plan.
    ///
    /// # Panics
    /// If the plan has no such endpoint.
    #[must_use]
    pub fn incoming(&self, endpoint: usize) -> Incoming<B> {
        let door = &self.0.world.doors[endpoint];
        Incoming::new(door.inboxes[self.index()].clone(), door.stream)
    }

    /// Where datagram endpoint `endpoint` of the plan is bound, its port resolved.
    ///
    /// # Panics
    /// If the plan has no such endpoint.
    #[must_use]
    pub fn datagram_address(&self, endpoint: usize) -> SocketAddr {
        self.0.world.posts[endpoint].address
    }

    /// This shard's share of datagram endpoint `endpoint` of the plan; `None` if it was taken before, or the service has returned. Each
    /// shard has one from the start: who wants none drops it, and its share goes to the others.
    ///
    /// # Panics
    /// If the plan has no such endpoint.
    #[must_use]
    pub fn datagrams(&self, endpoint: usize) -> Option<DatagramSocket<B>> {
        self.0.sockets.borrow_mut()[endpoint].take()
    }

    /// Runs a future on this shard; see [`spawn`](crate::spawn()).
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        spawn(future)
    }

    /// Ends the shards of this plan, from anywhere.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.world().stopper.clone()
    }

    /// Completes once this shard is asked to end: take nothing new, finish what there is.
    pub fn stopping(&self) -> Stopping {
        stopping()
    }

    /// Its counters so far.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        crate::context::current().metrics()
    }

    /// Where this shard's connections are left for it.
    pub(crate) fn inboxes(&self) -> impl Iterator<Item = &Inbox<B::Socket>> {
        self.0
            .world
            .doors
            .iter()
            .map(|door| &*door.inboxes[self.index()])
    }

    /// Gives up the shares of datagrams that the service did not take.
    pub(crate) fn give_up_datagrams(&self) {
        let untaken: Vec<_> = self
            .0
            .sockets
            .borrow_mut()
            .iter_mut()
            .map(Option::take)
            .collect();
        drop(untaken);
    }

    /// Whether other shards depend on this one for their connections.
    pub(crate) fn accepts_for_others(&self) -> bool {
        let handed_out = |door: &Door<B>| door.accept.hands_out();
        let received = |post: &Post| !post.letterboxes.is_empty();
        let world = self.world();
        self.index() == 0
            && self.count() > 1
            && (world.doors.iter().any(handed_out) || world.posts.iter().any(received))
    }

    pub(crate) fn world(&self) -> &Arc<World<B>> {
        &self.0.world
    }
}

impl<B: Backend> Clone for Shard<B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<B: Backend> fmt::Debug for Shard<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shard")
            .field("index", &self.index())
            .field("of", &self.count())
            .field("engine", &B::NAME)
            .finish_non_exhaustive()
    }
}
