//! Accepting on monoio: wait for readiness, then accept4 until there is nothing left. No operation of the engine ever holds a
//! connection, so a dropped accept cannot lose one.

use super::stream::engine;
use crate::{
    address::Address,
    backend::{Bound, Listener},
};
use shardloop_platform::socket;
use std::{io, os::fd::OwnedFd};

/// A listener of one shard.
#[derive(Debug)]
pub struct MonoioListener {
    bound: Bound,
    /// The same socket under another descriptor, in the one type of the engine that can wait for readiness.
    readiness: monoio::net::TcpStream,
}

impl MonoioListener {
    pub(super) fn adopt(bound: Bound) -> io::Result<Self> {
        let same = bound.descriptor()?;
        // accept4 must not block: the connection that made the listener readable may be gone by then.
        socket::set_nonblocking(&same, true)?;
        Ok(Self {
            readiness: engine(same)?,
            bound,
        })
    }
}

impl Listener for MonoioListener {
    type Socket = OwnedFd;

    async fn accept(&mut self) -> io::Result<(OwnedFd, Address)> {
        loop {
            if let Some(accepted) = self.bound.accept()? {
                return Ok(accepted);
            }
            // Not relaxed: the engine must forget the readiness that accept4 has used up.
            self.readiness.readable(false).await?;
        }
    }
}
