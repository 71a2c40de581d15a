//! The endpoints of a plan: bound before any shard runs, shared out, and adopted by the shards.

use super::{LaunchError, Plan, error::with_advice};
use crate::{
    accept::{Accept, Endpoint, Inbox},
    address::Address,
    backend::Backend,
    bind_error::BindError,
    datagram::Letterbox,
    options::DatagramEndpoint,
    shard::{Door, Post},
    wake::Remote,
};
use std::{io, net::SocketAddr, sync::Arc};

/// Where the endpoints of a plan are bound, ports resolved, in the plan's order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    pub(crate) streams: Vec<Address>,
    pub(crate) datagrams: Vec<SocketAddr>,
}

/// What was bound for a plan.
pub(crate) struct Bound<B: Backend> {
    pub(crate) addresses: Addresses,
    portions: Vec<Portion<B>>,
}

/// What of it is one shard's: for each endpoint, what it has of it.
pub(crate) struct Portion<B: Backend> {
    listeners: Vec<Option<B::Bound>>,
    sockets: Vec<B::BoundDatagram>,
    /// To receive for all shards from.
    receivers: Vec<Option<B::BoundDatagram>>,
}

/// What one shard has adopted.
pub(crate) struct Adopted<B: Backend> {
    pub(crate) listeners: Vec<Option<B::Listener>>,
    pub(crate) sockets: Vec<B::Datagram>,
    pub(crate) receivers: Vec<Option<B::Datagram>>,
}

impl<B: Backend> Bound<B> {
    /// Binds all endpoints of `plan`.
    pub(crate) fn new(plan: &Plan) -> Result<Self, LaunchError> {
        let mut bound = Self {
            addresses: Addresses::default(),
            portions: (0..plan.shards).map(|_| Portion::default()).collect(),
        };
        let known = |error| match error {
            LaunchError::Address(error) => LaunchError::Address(with_advice(error, plan)),
            error => error,
        };
        for endpoint in &plan.endpoints {
            bound.add_stream(endpoint).map_err(known)?;
        }
        for endpoint in &plan.datagram_endpoints {
            bound.add_datagram(endpoint).map_err(known)?;
        }
        Ok(bound)
    }

    /// The shares of shard 0, 1, ….
    pub(crate) fn portions(self) -> impl Iterator<Item = Portion<B>> {
        self.portions.into_iter()
    }

    fn add_stream(&mut self, endpoint: &Endpoint) -> Result<(), LaunchError> {
        let count = endpoint.listeners(self.portions.len());
        let group = B::bind(endpoint, count)
            .map_err(|error| refused(error, &endpoint.address, &self.addresses.streams))?;
        let address = B::address(&group[0]).map_err(LaunchError::Address)?;
        self.addresses.streams.push(address);
        let mut group = group.into_iter();
        for portion in &mut self.portions {
            portion.listeners.push(group.next());
        }
        Ok(())
    }

    fn add_datagram(&mut self, endpoint: &DatagramEndpoint) -> Result<(), LaunchError> {
        let shards = self.portions.len();
        let spread = endpoint.accept == Accept::ReusePort;
        let count = if spread { shards } else { 1 };
        let mut group = B::bind_datagram(endpoint, count).map_err(|error| {
            let before: Vec<_> = self
                .addresses
                .datagrams
                .iter()
                .copied()
                .map(Address::from)
                .collect();
            refused(error, &endpoint.address.into(), &before)
        })?;
        let address = B::datagram_address(&group[0]).map_err(LaunchError::Address)?;
        self.addresses.datagrams.push(address);
        let mut receiver = None;
        if group.len() < shards {
            // The same socket for all, to send from the one address.
            let copies: io::Result<Vec<_>> =
                (0..shards).map(|_| B::clone_datagram(&group[0])).collect();
            receiver = group.pop();
            group = copies.map_err(LaunchError::Address)?;
        }
        for (portion, socket) in self.portions.iter_mut().zip(group) {
            portion.sockets.push(socket);
            portion.receivers.push(receiver.take());
        }
        Ok(())
    }
}

/// Why `wish` could not be bound: by somebody else's fault or, if one of those bound `before` is in its way, by the plan's own.
fn refused(error: BindError, wish: &Address, before: &[Address]) -> LaunchError {
    let in_the_way = |bound: &Address| match (bound, wish) {
        (Address::Inet(bound), Address::Inet(wish)) => {
            let any = bound.ip().is_unspecified() || wish.ip().is_unspecified();
            bound.port() == wish.port() && (bound.ip() == wish.ip() || any)
        }
        (bound, wish) => bound == wish,
    };
    if error.is_in_use() && before.iter().any(in_the_way) {
        LaunchError::Twice(wish.clone())
    } else {
        LaunchError::Bind(error)
    }
}

impl<B: Backend> Default for Portion<B> {
    fn default() -> Self {
        Self {
            listeners: Vec::new(),
            sockets: Vec::new(),
            receivers: Vec::new(),
        }
    }
}

impl<B: Backend> Portion<B> {
    /// Makes it the current shard's.
    pub(crate) fn adopt(self) -> io::Result<Adopted<B>> {
        let listener = |bound: Option<B::Bound>| bound.map(B::adopt_listener).transpose();
        let receiver = |bound: Option<B::BoundDatagram>| bound.map(B::adopt_datagram).transpose();
        let sockets = self.sockets.into_iter().map(B::adopt_datagram);
        Ok(Adopted {
            listeners: self
                .listeners
                .into_iter()
                .map(listener)
                .collect::<io::Result<_>>()?,
            sockets: sockets.collect::<io::Result<_>>()?,
            receivers: self
                .receivers
                .into_iter()
                .map(receiver)
                .collect::<io::Result<_>>()?,
        })
    }
}

/// The stream endpoints from the inside.
pub(crate) fn doors<B: Backend>(
    plan: &Plan,
    addresses: &Addresses,
    remotes: &[Arc<Remote>],
) -> Vec<Door<B>> {
    let inbox = |remote: &Arc<Remote>| Arc::new(Inbox::new(remote.clone()));
    let door = |(endpoint, address): (&Endpoint, &Address)| Door {
        address: address.clone(),
        accept: endpoint.accept,
        stream: endpoint.stream,
        inboxes: remotes.iter().map(inbox).collect(),
    };
    let endpoints = plan.endpoints.iter().zip(&addresses.streams);
    endpoints.map(door).collect()
}

/// The datagram endpoints from the inside.
pub(crate) fn posts(plan: &Plan, addresses: &Addresses, remotes: &[Arc<Remote>]) -> Vec<Post> {
    let letterbox = |remote: &Arc<Remote>| Arc::new(Letterbox::new(remote.clone()));
    let post = |(endpoint, address): (&DatagramEndpoint, &SocketAddr)| Post {
        address: *address,
        letterboxes: match endpoint.accept {
            Accept::ReusePort => Vec::new(),
            _ if plan.shards == 1 => Vec::new(),
            _ => remotes.iter().map(letterbox).collect(),
        },
    };
    let endpoints = plan.datagram_endpoints.iter().zip(&addresses.datagrams);
    endpoints.map(post).collect()
}
