//! What a shard's engine and its sockets are set to: plain data, written out where it matters.

use crate::accept::Accept;
use shardloop_platform::socket;
pub use shardloop_platform::socket::StreamOptions;
use std::{net::SocketAddr, time::Duration};

/// How a shard's engine is built and run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Submission entries of a ring, 256 to 32,768; for a readiness engine the events taken at once,
    /// and the nearer bound if it is outside.
    pub ring_entries: u32,
    /// How long a shard that has run out of work looks for more before it parks. Zero parks at once. Spinning saves the time that a
    /// parked thread takes to wake, and burns a CPU for it: only for shards that have one to themselves.
    pub spin: Duration,
    /// Watch for polls of tasks that keep the shard longer than this; see [`Metrics::stalls`](crate::Metrics::stalls). It reads the
    /// clock once per poll, so it is off unless it is asked for.
    pub stall_after: Option<Duration>,
}

impl Default for EngineOptions {
    /// 1,024 entries, no spinning, no watch for stalls.
    fn default() -> Self {
        Self {
            ring_entries: 1024,
            spin: Duration::ZERO,
            stall_after: None,
        }
    }
}

/// How a connection is made. It has no default: write it out.
///
/// ```
/// use shardloop::{ConnectOptions, StreamOptions};
/// use std::{net::SocketAddr, time::Duration};
///
/// let stream = StreamOptions { nodelay: true, send_buffer_bytes: None, receive_buffer_bytes: None };
/// let options = ConnectOptions { stream, deadline: Duration::from_secs(5) };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// What the connection is set to.
    pub stream: StreamOptions,
    /// For all addresses together; each of them gets an equal part of what is left when its turn comes.
    pub deadline: Duration,
}

/// An address at which the shards of a plan take datagrams together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramEndpoint {
    /// Where; port 0 lets the kernel pick one.
    pub address: SocketAddr,
    /// How datagrams are spread over shards: by the kernel with `ReusePort`; otherwise shard 0 receives, and gives all of one sender to
    /// one shard, for as long as that has its socket.
    pub accept: Accept,
    /// Whether an IPv6 endpoint leaves IPv4 alone.
    pub only_v6: bool,
    /// SO_SNDBUF in bytes; `None` leaves the kernel's own. Linux caps it at `net.core.wmem_max`.
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF in bytes; `None` leaves the kernel's own. What finds no room in it is dropped. Linux caps it at `net.core.rmem_max`.
    pub receive_buffer_bytes: Option<usize>,
}

impl DatagramEndpoint {
    /// UDP with the kernel's own buffer sizes, IPv6 separate from IPv4; datagrams are spread by the kernel where it does so, else
    /// shard 0 hands them out.
    #[must_use]
    pub fn udp(address: SocketAddr) -> Self {
        let accept = if socket::REUSE_PORT_SPREADS {
            Accept::ReusePort
        } else {
            Accept::Handoff
        };
        Self {
            address,
            accept,
            only_v6: true,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
        }
    }
}
