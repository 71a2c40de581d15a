//! Accepting in a world: who listens, and who waits to be accepted.

use super::{
    net::{Net, Place, State, Waiter},
    stream::SimSocket,
};
use crate::{
    accept::{Accept, Endpoint},
    address::Address,
    backend::Listener,
    bind_error::BindError,
};
use shardloop_platform::socket::{self, BindCause, UnixBindCause, UnixBindError};
use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    future::poll_fn,
    io::{self, ErrorKind},
    task::Poll,
};

/// Somebody who listens, within the network.
pub(super) struct Door {
    host: usize,
    address: Address,
    backlog: usize,
    waiting: VecDeque<u64>,
    /// By their shards, of which several may accept from it.
    waiters: BTreeMap<usize, Waiter>,
    /// Handles to it.
    handles: usize,
}

impl Door {
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= self.backlog
    }
}

impl State {
    fn listen(
        &mut self,
        host: usize,
        endpoint: &Endpoint,
        count: usize,
    ) -> Result<Vec<u64>, BindCause> {
        if let Address::Inet(address) = endpoint.address
            && !self.has(host, address.ip())
        {
            return Err(BindCause::NotThisHost);
        }
        let spread = endpoint.accept == Accept::ReusePort;
        let (doors, handles) = if spread { (count, 1) } else { (1, count) };
        let members: Vec<_> = (0..doors).map(|_| self.number()).collect();
        let (wish, only_v6) = (&endpoint.address, endpoint.only_v6);
        let names = &mut self.stream_names;
        let address = names.claim(host, wish, only_v6, members.clone())?;
        for number in &members {
            let door = Door {
                host,
                address: address.clone(),
                // As on Linux, one always finds room.
                backlog: (endpoint.backlog as usize).max(1),
                waiting: VecDeque::new(),
                waiters: BTreeMap::new(),
                handles,
            };
            self.doors.insert(*number, door);
        }
        Ok(members.into_iter().cycle().take(count).collect())
    }

    /// A connection waits to be accepted.
    pub(super) fn queue(&mut self, door: u64, connection: u64) {
        if let Some(door) = self.doors.get_mut(&door) {
            door.waiting.push_back(connection);
            // Whoever is first gets it.
            for waiter in std::mem::take(&mut door.waiters).into_values() {
                self.wake(Some(waiter));
            }
        }
    }

    fn accept(&mut self, door: u64, waiter: Waiter) -> Poll<io::Result<(u64, Address)>> {
        let Some(door) = self.doors.get_mut(&door) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        let Some(id) = door.waiting.pop_front() else {
            let old = door.waiters.insert(waiter.shard(), waiter);
            self.forget(old);
            return Poll::Pending;
        };
        let peer = self.connections.get(&id).map(|c| c.peer(1));
        Poll::Ready(Ok((id, peer.unwrap_or(Address::Unix(None)))))
    }

    /// Somebody does not listen there any more; with the last of them, who waits is turned away.
    fn shut(&mut self, number: u64) {
        let Some(door) = self.doors.get_mut(&number) else {
            return;
        };
        door.handles -= 1;
        if door.handles == 0
            && let Some(door) = self.doors.remove(&number)
        {
            self.stream_names.leave(door.host, &door.address, number);
            for waiter in door.waiters.into_values() {
                self.forget(Some(waiter));
            }
            for connection in door.waiting {
                self.turn_away(connection);
            }
        }
    }
}

/// An address that is bound in a world, and that no shard has adopted yet.
pub struct SimBound {
    net: Net,
    door: u64,
    address: Address,
}

impl SimBound {
    pub(super) fn bind(endpoint: &Endpoint, count: usize) -> Result<Vec<Self>, BindError> {
        let refused = |cause| refused(&endpoint.address, cause);
        // What no kernel takes a world takes neither.
        if let Address::Unix(path) = &endpoint.address {
            let path = path.clone().unwrap_or_default();
            let unix = |cause| UnixBindError {
                path: path.clone(),
                cause,
                errno: None,
            };
            socket::unix_path(&path).map_err(unix)?;
        }
        // Where there is no world nothing is bound.
        let place = Place::current().ok_or_else(|| refused(BindCause::NotThisHost))?;
        let (net, host) = (&place.net, place.host);
        net.with(|state| {
            let doors = state.listen(host, endpoint, count).map_err(refused)?;
            let bound = |door: u64| Self {
                net: net.clone(),
                address: state.doors[&door].address.clone(),
                door,
            };
            Ok(doors.into_iter().map(bound).collect())
        })
    }

    pub(super) fn address(&self) -> Address {
        self.address.clone()
    }
}

/// An address that could not be bound.
pub(super) fn refused(address: &Address, cause: BindCause) -> BindError {
    match address {
        Address::Inet(address) => BindError::Inet(socket::BindError {
            address: *address,
            cause,
            errno: None,
        }),
        Address::Unix(path) => BindError::Unix(UnixBindError {
            path: path.clone().unwrap_or_default(),
            cause: match cause {
                BindCause::InUse => UnixBindCause::InUse,
                _ => UnixBindCause::Other,
            },
            errno: None,
        }),
    }
}

impl Drop for SimBound {
    fn drop(&mut self) {
        self.net.with(|state| state.shut(self.door));
    }
}

impl fmt::Debug for SimBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimBound")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// A listener of one shard.
#[derive(Debug)]
pub struct SimListener {
    bound: SimBound,
    shard: usize,
}

impl SimListener {
    pub(super) fn adopt(bound: SimBound) -> io::Result<Self> {
        let place = Place::current().ok_or(ErrorKind::Unsupported)?;
        Ok(Self {
            bound,
            shard: place.shard,
        })
    }
}

impl Listener for SimListener {
    type Socket = SimSocket;

    async fn accept(&mut self) -> io::Result<(SimSocket, Address)> {
        let (net, door) = (&self.bound.net, self.bound.door);
        let accepted = poll_fn(|cx| {
            let waiter = Waiter::new(self.shard, cx);
            net.with(|state| state.accept(door, waiter))
        });
        let (connection, peer) = accepted.await?;
        Ok((SimSocket::new(net.clone(), connection), peer))
    }
}
