//! What a shard's engine and its sockets are set to: plain data, written out where it matters.

pub use shardloop_platform::socket::StreamOptions;
use std::time::Duration;

/// How an engine is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Submission entries of a ring, 256 to 32,768; for a readiness engine the events taken at once,
    /// and the nearer bound if it is outside.
    pub ring_entries: u32,
}

impl Default for EngineOptions {
    /// 1,024 entries.
    fn default() -> Self {
        Self { ring_entries: 1024 }
    }
}

/// How a connection is made. It has no default: write it out.
///
/// ```
/// use shardloop::{ConnectOptions, StreamOptions};
/// use std::time::Duration;
///
/// let stream = StreamOptions { nodelay: true, send_buffer_bytes: None, receive_buffer_bytes: None };
/// let options = ConnectOptions { stream, deadline: Duration::from_secs(5) };
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// What the connection is set to.
    pub stream: StreamOptions,
    /// For all addresses together.
    pub deadline: Duration,
}
