//! glommio where there is none: it cannot be used, and says so. No shard ever has one of its sockets; their types are those of an
//! engine that exists.

use super::{
    Backend, Bound, Capabilities, ConnectOptions, Ended, MonoioLegacy, Unavailable, bound,
};
use crate::{
    accept::Endpoint,
    address::Address,
    bind_error::BindError,
    options::{DatagramEndpoint, EngineOptions, StreamOptions},
};
use std::{
    future::Future,
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::OwnedFd,
    time::Instant,
};

/// glommio, which exists on Linux only.
#[derive(Debug)]
pub enum Glommio {}

fn unavailable() -> Unavailable {
    Unavailable {
        engine: Glommio::NAME,
        reason: "glommio exists on Linux only; take monoio-legacy, which is kqueue here".to_owned(),
    }
}

impl Backend for Glommio {
    const NAME: &'static str = "glommio";

    type Bound = Bound;
    type Socket = OwnedFd;
    type Listener = <MonoioLegacy as Backend>::Listener;
    type Stream = <MonoioLegacy as Backend>::Stream;
    type BoundDatagram = UdpSocket;
    type Datagram = <MonoioLegacy as Backend>::Datagram;

    fn probe(_options: &EngineOptions) -> Result<Capabilities, Unavailable> {
        Err(unavailable())
    }

    fn run<F>(_options: &EngineOptions, _main: impl FnOnce() -> F) -> io::Result<Ended<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        Err(unsupported())
    }

    fn now() -> Instant {
        Instant::now()
    }

    fn bind(endpoint: &Endpoint, count: usize) -> Result<Vec<Bound>, BindError> {
        bound::bind(endpoint, count)
    }

    fn address(bound: &Bound) -> io::Result<Address> {
        bound.address()
    }

    fn adopt_listener(_bound: Bound) -> io::Result<Self::Listener> {
        Err(unsupported())
    }

    fn adopt_stream(_socket: OwnedFd, _options: &StreamOptions) -> io::Result<Self::Stream> {
        Err(unsupported())
    }

    async fn connect(
        _addresses: &[Address],
        _options: &ConnectOptions,
    ) -> io::Result<Self::Stream> {
        Err(unsupported())
    }

    fn bind_datagram(
        endpoint: &DatagramEndpoint,
        count: usize,
    ) -> Result<Vec<UdpSocket>, BindError> {
        bound::bind_datagram(endpoint, count)
    }

    fn clone_datagram(bound: &UdpSocket) -> io::Result<UdpSocket> {
        bound.try_clone()
    }

    fn datagram_address(bound: &UdpSocket) -> io::Result<SocketAddr> {
        bound.local_addr()
    }

    fn adopt_datagram(_bound: UdpSocket) -> io::Result<Self::Datagram> {
        Err(unsupported())
    }
}

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, unavailable())
}
