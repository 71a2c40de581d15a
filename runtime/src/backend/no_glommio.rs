//! glommio where there is none: it cannot be used, and says so. No shard ever has one of its sockets; their types are those of an
//! engine that exists.

use super::{
    Backend, Bound, Capabilities, ConnectOptions, Ended, MonoioLegacy, Unavailable,
    bound::kernel_sockets,
};
use crate::{
    address::Address,
    options::{EngineOptions, StreamOptions},
};
use std::{future::Future, io, net::UdpSocket, os::fd::OwnedFd};

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

    kernel_sockets!();
    type Listener = <MonoioLegacy as Backend>::Listener;
    type Stream = <MonoioLegacy as Backend>::Stream;
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

    fn adopt_datagram(_bound: UdpSocket) -> io::Result<Self::Datagram> {
        Err(unsupported())
    }
}

fn unsupported() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, unavailable())
}
