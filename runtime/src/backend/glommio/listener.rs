//! Accepting on glommio: wait for readiness, then accept4 until there is nothing left. No operation of the engine ever holds a
//! connection, so a dropped accept cannot lose one.

use super::readiness::Readiness;
use crate::{
    address::Address,
    backend::{Bound, Listener},
};
use shardloop_platform::socket;
use std::{io, os::fd::OwnedFd};

/// A listener of one shard.
#[derive(Debug)]
pub struct GlommioListener {
    bound: Bound,
    readiness: Readiness,
}

impl GlommioListener {
    pub(super) fn adopt(bound: Bound) -> io::Result<Self> {
        // accept4 must not block: the connection that made the listener readable may be gone by then.
        socket::set_nonblocking(&bound, true)?;
        Ok(Self {
            bound,
            readiness: Readiness::to_receive(),
        })
    }
}

impl Listener for GlommioListener {
    type Socket = OwnedFd;

    async fn accept(&mut self) -> io::Result<(OwnedFd, Address)> {
        loop {
            if let Some(accepted) = self.bound.accept()? {
                return Ok(accepted);
            }
            self.readiness.wait(&self.bound).await?;
        }
    }
}
