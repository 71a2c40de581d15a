//! Sockets of the operating system that are bound and not adopted by a shard yet: the same for every engine that uses such.

use crate::{
    accept::{Accept, Endpoint},
    address::Address,
    bind_error::BindError,
    options::DatagramEndpoint,
};
use shardloop_platform::socket::{
    self, BindCause, DatagramOptions, ListenOptions, UnixBindCause, UnixBindError,
};
use std::{
    io,
    net::{TcpListener, UdpSocket},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::{SocketAddr as UnixAddress, UnixListener},
    },
    path::Path,
};

/// What [`Backend`](crate::Backend) is in common for all engines whose sockets are the kernel's. Written within an `impl`; the
/// names it uses are its own.
macro_rules! kernel_sockets {
    () => {
        type Bound = crate::backend::Bound;
        type Socket = std::os::fd::OwnedFd;
        type BoundDatagram = std::net::UdpSocket;

        fn now() -> std::time::Instant {
            std::time::Instant::now()
        }

        fn bind(
            endpoint: &crate::Endpoint,
            count: usize,
        ) -> Result<Vec<crate::backend::Bound>, crate::BindError> {
            crate::backend::bound::bind(endpoint, count)
        }

        fn address(bound: &crate::backend::Bound) -> std::io::Result<crate::Address> {
            bound.address()
        }

        fn bind_datagram(
            endpoint: &crate::DatagramEndpoint,
            count: usize,
        ) -> Result<Vec<std::net::UdpSocket>, crate::BindError> {
            crate::backend::bound::bind_datagram(endpoint, count)
        }

        fn clone_datagram(bound: &std::net::UdpSocket) -> std::io::Result<std::net::UdpSocket> {
            bound.try_clone()
        }

        fn datagram_address(bound: &std::net::UdpSocket) -> std::io::Result<std::net::SocketAddr> {
            bound.local_addr()
        }
    };
}
pub(super) use kernel_sockets;

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
    let listener = match &endpoint.address {
        Address::Inet(address) => {
            let options = ListenOptions {
                address: *address,
                backlog: endpoint.backlog,
                // Set by the group of listeners where it is needed: one listener never shares its address.
                reuse_port: false,
                only_v6: endpoint.only_v6,
            };
            if endpoint.accept == Accept::ReusePort {
                let group = socket::listen_group(&options, count)?;
                return Ok(group.into_iter().map(Bound::Tcp).collect());
            }
            Bound::Tcp(socket::listen(&options)?)
        }
        Address::Unix(path) => {
            let path = path.as_deref().unwrap_or(Path::new(""));
            Bound::Unix(socket::listen_unix(path, endpoint.backlog)?)
        }
    };
    many(listener, count).map_err(|error| unshared(&endpoint.address, &error))
}

/// The same socket `count` times.
fn many(one: Bound, count: usize) -> io::Result<Vec<Bound>> {
    let mut all = Vec::with_capacity(count);
    for _ in 1..count {
        all.push(one.same()?);
    }
    all.push(one);
    Ok(all)
}

/// A bound socket could not be had a second time.
fn unshared(address: &Address, error: &io::Error) -> BindError {
    let errno = error.raw_os_error();
    match address {
        Address::Inet(address) => BindError::Inet(socket::BindError {
            address: *address,
            cause: BindCause::Other,
            errno,
        }),
        Address::Unix(path) => BindError::Unix(UnixBindError {
            path: path.clone().unwrap_or_default(),
            cause: UnixBindCause::Other,
            errno,
        }),
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
            Self::Unix(listener) => {
                let accepted = socket::accept_unix(listener)?;
                Ok(accepted.map(|socket| (socket.into(), Address::Unix(None))))
            }
        }
    }

    fn same(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            Self::Unix(listener) => listener.try_clone().map(Self::Unix),
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

/// Binds a socket of datagrams `count` times.
pub(super) fn bind_datagram(
    endpoint: &DatagramEndpoint,
    count: usize,
) -> Result<Vec<UdpSocket>, BindError> {
    let options = DatagramOptions {
        address: endpoint.address,
        reuse_port: false,
        only_v6: endpoint.only_v6,
        send_buffer_bytes: endpoint.send_buffer_bytes,
        receive_buffer_bytes: endpoint.receive_buffer_bytes,
    };
    Ok(socket::bind_datagram_group(&options, count)?)
}
