//! Sockets of the operating system that are bound and not adopted by a shard yet: the same for every engine that uses such.

use crate::{accept::Endpoint, address::Address, datagram::Batch, options::DatagramEndpoint};
use shardloop_platform::socket::{self, BindError, ListenOptions};
use std::{
    io,
    net::{TcpListener, UdpSocket},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::{SocketAddr as UnixAddress, UnixListener},
    },
};

/// A bound endpoint that no shard has adopted yet.
#[derive(Debug)]
pub enum Bound {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket.
    Unix(UnixListener),
}

/// Binds an endpoint `count` times.
pub(super) fn bind(endpoint: &Endpoint, count: usize) -> Result<Vec<Bound>, BindError> {
    match &endpoint.address {
        Address::Inet(address) => {
            let options = ListenOptions {
                address: *address,
                backlog: endpoint.backlog,
                // Set by the group of listeners where it is needed: one listener never shares its address.
                reuse_port: false,
                only_v6: endpoint.only_v6,
            };
            let group = socket::listen_group(&options, count)?;
            Ok(group.into_iter().map(Bound::Tcp).collect())
        }
        Address::Unix(path) => {
            let path = path.as_deref().unwrap_or(std::path::Path::new(""));
            let listener = UnixListener::bind(path).map_err(|error| BindError {
                address: std::net::SocketAddr::from(([0, 0, 0, 0], 0)),
                cause: shardloop_platform::socket::BindCause::Other,
                errno: error.raw_os_error(),
            })?;
            Ok(vec![Bound::Unix(listener)])
        }
    }
}

impl Bound {
    pub(super) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => listener.local_addr().map(Address::Inet),
            Self::Unix(listener) => listener.local_addr().map(|address| unix(&address)),
        }
    }

    /// The next connection, if one waits.
    pub(super) fn accept(&self) -> io::Result<Option<(OwnedFd, Address)>> {
        match self {
            Self::Tcp(listener) => {
                let accepted = socket::accept(listener)?;
                Ok(accepted.map(|(socket, peer)| (socket.into(), Address::Inet(peer))))
            }
            Self::Unix(listener) => match listener.accept() {
                Ok((socket, peer)) => Ok(Some((socket.into(), unix(&peer)))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                Err(error) => Err(error),
            },
        }
    }

    /// The same socket under another descriptor.
    pub(super) fn descriptor(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(OwnedFd::from),
            Self::Unix(listener) => listener.try_clone().map(OwnedFd::from),
        }
    }
}

impl AsFd for Bound {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

fn unix(address: &UnixAddress) -> Address {
    Address::Unix(address.as_pathname().map(Into::into))
}

impl From<TcpListener> for Bound {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl From<UnixListener> for Bound {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

/// Binds a socket `count` times.
pub(super) fn bind_datagram(
    endpoint: &DatagramEndpoint,
    count: usize,
) -> Result<Vec<UdpSocket>, BindError> {
    let fail = |error: io::Error| BindError {
        address: endpoint.address,
        cause: shardloop_platform::socket::BindCause::Other,
        errno: error.raw_os_error(),
    };
    let mut group = Vec::new();
    let mut address = endpoint.address;
    for _ in 0..count {
        let socket = socket2::Socket::new(
            socket2::Domain::for_address(address),
            socket2::Type::DGRAM,
            None,
        )
        .map_err(fail)?;
        if count > 1 {
            socket.set_reuse_port(true).map_err(fail)?;
        }
        socket.bind(&address.into()).map_err(fail)?;
        let socket = UdpSocket::from(socket);
        address = socket.local_addr().map_err(fail)?;
        group.push(socket);
    }
    Ok(group)
}

/// Puts what has arrived at a nonblocking socket into `batch`, as much as there is room for.
///
/// # Errors
/// The operating system's, if nothing was received before it.
pub(super) fn receive(socket: &UdpSocket, batch: &mut Batch) -> io::Result<()> {
    let mut bytes = [0; 65_536];
    while batch.len() < batch.capacity() {
        match socket.recv_from(&mut bytes) {
            Ok((filled, from)) => {
                batch.push(from, &bytes[..filled]);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if batch.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(())
}
