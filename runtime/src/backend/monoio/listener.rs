//! Accepting on monoio: wait for readiness, then accept4 until there is nothing left. No operation of the engine ever holds a
//! connection, so a dropped accept cannot lose one.

use crate::backend::Listener;
use shardloop_platform::socket;
use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
};

/// A TCP listener of one shard.
#[derive(Debug)]
pub struct MonoioListener {
    listener: TcpListener,
    /// The same socket under another descriptor, in the one type of the engine that can wait for readiness.
    readiness: monoio::net::TcpStream,
}

impl MonoioListener {
    pub(super) fn adopt(listener: TcpListener) -> io::Result<Self> {
        // accept4 must not block: the connection that made the listener readable may be gone by then.
        listener.set_nonblocking(true)?;
        let same = TcpStream::from(OwnedFd::from(listener.try_clone()?));
        Ok(Self {
            readiness: monoio::net::TcpStream::from_std(same)?,
            listener,
        })
    }
}

impl Listener for MonoioListener {
    type Socket = TcpStream;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        loop {
            if let Some(accepted) = socket::accept(&self.listener)? {
                return Ok(accepted);
            }
            // Not relaxed: the engine must forget the readiness that accept4 has used up.
            self.readiness.readable(false).await?;
        }
    }
}
