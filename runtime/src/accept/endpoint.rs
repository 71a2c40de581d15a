//! Where a plan is reached.

use super::Accept;
use crate::{address::Address, options::StreamOptions};
use std::{net::SocketAddr, path::PathBuf};

/// An address that the shards of a plan serve together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where; port 0 lets the kernel pick one.
    pub address: Address,
    /// How connections are spread over shards.
    pub accept: Accept,
    /// Connections that may wait to be accepted; the kernel caps it at `somaxconn`.
    pub backlog: u32,
    /// Whether an IPv6 endpoint leaves IPv4 alone.
    pub only_v6: bool,
    /// What each accepted connection is set to.
    pub stream: StreamOptions,
}

impl Endpoint {
    /// TCP with `TCP_NODELAY` and the kernel's own buffer sizes, a backlog of 1,024, IPv6 separate from IPv4.
    #[must_use]
    pub fn tcp(address: SocketAddr, accept: Accept) -> Self {
        let stream = StreamOptions {
            nodelay: true,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
        };
        Self {
            address: address.into(),
            accept,
            backlog: 1024,
            only_v6: true,
            stream,
        }
    }

    /// A Unix stream socket at `path`, shard 0 accepting for all: Unix sockets know no SO_REUSEPORT. A file left there by a server
    /// that is gone is replaced.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        let stream = StreamOptions {
            nodelay: false,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
        };
        Self {
            address: Address::unix(path),
            accept: Accept::Handoff,
            backlog: 1024,
            only_v6: true,
            stream,
        }
    }

    /// Listeners this endpoint needs for `shards` shards.
    pub(crate) fn listeners(&self, shards: usize) -> usize {
        if self.accept.hands_out() { 1 } else { shards }
    }
}
