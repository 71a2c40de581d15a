//! Datagrams in a world: any of them may be lost, doubled or overtaken, as its links say.

use super::{
    link::Way,
    listener::refused,
    log::Noted,
    net::{Event, Net, Place, State, Waiter},
};
use crate::{
    address::Address,
    backend::Datagram,
    bind_error::BindError,
    context,
    datagram::{Batch, LARGEST_BYTES, Outbox, SendError},
    executor::Core,
    options::DatagramEndpoint,
};
use shardloop_platform::socket::BindCause;
use std::{
    collections::VecDeque,
    fmt,
    future::poll_fn,
    io::{self, ErrorKind},
    net::SocketAddr,
    rc::Rc,
    task::Poll,
};

/// Bytes that wait in a socket at most, where nothing else is asked for: Linux's (net.core.rmem_default).
const RECEIVE_BUFFER_BYTES: usize = 212_992;
/// What a datagram takes in a socket beside its bytes.
const EACH_BYTES: usize = 64;
/// Bytes of the largest datagram over IPv4.
const LARGEST_V4_BYTES: usize = 65_507;

/// A bound socket, within the network.
pub(super) struct Socket {
    host: usize,
    address: SocketAddr,
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    waiting_bytes: usize,
    buffer_bytes: usize,
    dropped: u64,
    /// Whoever polled last; a socket is received from by one task, whoever else may send on it.
    waiter: Option<Waiter>,
    /// Handles to it.
    handles: usize,
}

impl State {
    fn open(
        &mut self,
        host: usize,
        endpoint: &DatagramEndpoint,
        count: usize,
    ) -> Result<Vec<u64>, BindCause> {
        if !self.has(host, endpoint.address.ip()) {
            return Err(BindCause::NotThisHost);
        }
        let members: Vec<_> = (0..count).map(|_| self.number()).collect();
        let (wish, only_v6) = (endpoint.address.into(), endpoint.only_v6);
        let names = &mut self.datagram_names;
        let address = names.claim(host, &wish, only_v6, members.clone())?;
        for number in &members {
            let socket = Socket {
                host,
                address: address.inet().unwrap_or(endpoint.address),
                waiting: VecDeque::new(),
                waiting_bytes: 0,
                buffer_bytes: endpoint
                    .receive_buffer_bytes
                    .unwrap_or(RECEIVE_BUFFER_BYTES),
                dropped: 0,
                waiter: None,
                handles: 1,
            };
            self.sockets.insert(*number, socket);
        }
        Ok(members)
    }

    fn release(&mut self, number: u64) {
        let Some(socket) = self.sockets.get_mut(&number) else {
            return;
        };
        socket.handles -= 1;
        if socket.handles == 0
            && let Some(socket) = self.sockets.remove(&number)
        {
            let address = socket.address.into();
            self.datagram_names.leave(socket.host, &address, number);
            self.forget(socket.waiter);
        }
    }

    fn receive(&mut self, number: u64, batch: &mut Batch, waiter: Waiter) -> Poll<io::Result<()>> {
        let Some(socket) = self.sockets.get_mut(&number) else {
            return Poll::Ready(Err(ErrorKind::NotConnected.into()));
        };
        while let Some((from, bytes)) = socket.waiting.front()
            && batch.push(*from, bytes)
        {
            socket.waiting_bytes -= bytes.len() + EACH_BYTES;
            socket.waiting.pop_front();
        }
        if !batch.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let old = socket.waiter.replace(waiter);
        self.forget(old);
        Poll::Pending
    }

    fn send(&mut self, number: u64, to: SocketAddr, bytes: &[u8]) -> io::Result<()> {
        let Some(socket) = self.sockets.get(&number) else {
            return Err(ErrorKind::NotConnected.into());
        };
        let (host, local) = (socket.host, socket.address);
        if local.is_ipv4() && to.is_ipv6() || to.port() == 0 {
            let text = "a datagram cannot go to such an address from this socket";
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let most = if to.is_ipv4() {
            LARGEST_V4_BYTES
        } else {
            LARGEST_BYTES
        };
        if bytes.len() > most {
            let text = format!(
                "a datagram has at most {most} bytes, this one {}",
                bytes.len()
            );
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let Some(target) = self.locate(host, to.ip()) else {
            return Err(ErrorKind::HostUnreachable.into());
        };
        let mut from = local;
        if from.ip().is_unspecified() {
            from.set_ip(self.source(host, to.ip()));
        }
        self.dispatch((host, target), from, to, bytes);
        Ok(())
    }

    /// Sends a datagram on its way, or loses it.
    fn dispatch(&mut self, way: Way, from: SocketAddr, to: SocketAddr, bytes: &[u8]) {
        let now = self.now();
        self.note(Noted::DatagramSent {
            from: way.0,
            to: way.1,
            bytes: bytes.len(),
        });
        let full = self.links.is_full(way, now);
        if self.links.loses(way, &mut self.random) || full {
            self.note(Noted::DatagramLost {
                from: way.0,
                to: way.1,
            });
            return;
        }
        let link = self.links.link(way);
        let mut copies = 1;
        if self.random.chance(link.duplicate) {
            self.note(Noted::DatagramDoubled {
                from: way.0,
                to: way.1,
            });
            copies = 2;
        }
        for _ in 0..copies {
            let mut at = self.arrival(way, bytes.len());
            if self.random.chance(link.reorder) {
                let most = super::clock::nanoseconds(link.reorder_by);
                at += self.random.below(most.saturating_add(1));
            }
            let bytes = bytes.to_vec();
            self.schedule(
                at,
                Event::Datagram {
                    way,
                    from,
                    to,
                    bytes,
                },
            );
        }
    }

    pub(super) fn datagram_arrives(
        &mut self,
        way: Way,
        from: SocketAddr,
        to: SocketAddr,
        bytes: &[u8],
    ) {
        let to = Address::from(to);
        let members = self.datagram_names.find(way.1, &to);
        let picked = self.pick(members, &from.into(), &to);
        let socket = picked.and_then(|number| self.sockets.get_mut(&number));
        let (Some(number), Some(socket)) = (picked, socket) else {
            return self.note(Noted::DatagramLost {
                from: way.0,
                to: way.1,
            });
        };
        let weight = bytes.len() + EACH_BYTES;
        if socket.waiting_bytes + weight > socket.buffer_bytes {
            socket.dropped += 1;
            return self.note(Noted::DatagramDropped {
                host: way.1,
                bytes: bytes.len(),
            });
        }
        socket.waiting_bytes += weight;
        socket.waiting.push_back((from, bytes.to_vec()));
        let waiter = socket.waiter.take();
        self.note(Noted::DatagramArrived {
            socket: number,
            bytes: bytes.len(),
        });
        self.wake(waiter);
    }
}

/// A socket of datagrams that is bound in a world, and that no shard has adopted yet.
pub struct SimBoundDatagram {
    net: Net,
    socket: u64,
    address: SocketAddr,
}

impl SimBoundDatagram {
    pub(super) fn bind(endpoint: &DatagramEndpoint, count: usize) -> Result<Vec<Self>, BindError> {
        let refused = |cause| refused(&endpoint.address.into(), cause);
        let place = Place::current().ok_or_else(|| refused(BindCause::NotThisHost))?;
        let (net, host) = (&place.net, place.host);
        net.with(|state| {
            let sockets = state.open(host, endpoint, count).map_err(refused)?;
            let bound = |socket: u64| Self {
                net: net.clone(),
                address: state.sockets[&socket].address,
                socket,
            };
            Ok(sockets.into_iter().map(bound).collect())
        })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Another handle to the same socket.
    pub(super) fn again(&self) -> Self {
        self.net.with(|state| {
            if let Some(socket) = state.sockets.get_mut(&self.socket) {
                socket.handles += 1;
            }
        });
        Self {
            net: self.net.clone(),
            ..*self
        }
    }
}

impl Drop for SimBoundDatagram {
    fn drop(&mut self) {
        self.net.with(|state| state.release(self.socket));
    }
}

impl fmt::Debug for SimBoundDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimBoundDatagram")
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

/// A socket of datagrams of one shard.
#[derive(Debug)]
pub struct SimDatagram {
    bound: SimBoundDatagram,
    shard: usize,
    core: Rc<Core>,
}

impl SimDatagram {
    pub(super) fn adopt(bound: SimBoundDatagram) -> io::Result<Self> {
        let place = Place::current().ok_or(ErrorKind::Unsupported)?;
        Ok(Self {
            bound,
            shard: place.shard,
            core: context::current(),
        })
    }
}

impl Datagram for SimDatagram {
    async fn recv(&mut self, batch: &mut Batch) -> io::Result<()> {
        batch.clear();
        self.core.give_way().await;
        let received = poll_fn(|cx| {
            let waiter = Waiter::new(self.shard, cx);
            let (net, socket) = (&self.bound.net, self.bound.socket);
            net.with(|state| state.receive(socket, batch, waiter))
        });
        let received = received.await;
        self.core.done_at_once();
        received
    }

    async fn send(&mut self, outbox: &mut Outbox) -> Result<(), SendError> {
        self.core.give_way().await;
        self.core.done_at_once();
        let (net, socket) = (&self.bound.net, self.bound.socket);
        loop {
            let first = outbox.iter().next();
            let sent = first.map(|(to, bytes)| net.with(|state| state.send(socket, to, bytes)));
            let Some(sent) = sent else {
                return Ok(());
            };
            match sent {
                Ok(()) => outbox.advance(1),
                Err(error) => return Err(outbox.fail(error)),
            }
        }
    }

    fn address(&self) -> io::Result<SocketAddr> {
        Ok(self.bound.address)
    }

    fn dropped(&self) -> Option<u64> {
        let socket = self.bound.socket;
        self.bound
            .net
            .with(|state| state.sockets.get(&socket).map(|socket| socket.dropped))
    }
}
