//! What a connection is told before it begins: limits, deadlines, and what the handshake is about.

use super::handshake::Request;
use std::{fmt, sync::Arc, time::Duration};

/// What a connection takes. Each bound has its answer: an HTTP status in the handshake, close code 1009 after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest payload of a frame, in bytes. A longer reply of ours goes out in several.
    pub frame_bytes: usize,
    /// The longest message, in bytes, received or sent.
    pub message_bytes: usize,
    /// Fragments of a received message.
    pub fragments: usize,
    /// The longest head of a handshake, in bytes, from its first to its empty line.
    pub head_bytes: usize,
    /// Header lines in a head.
    pub headers: usize,
}

/// 1 MiB, 4 MiB, 131,072 fragments: enough for 4 MiB in fragments of 64 bytes and an empty one at the end, as the Autobahn test suite
/// sends it; a head of 16 KiB and 64 lines.
impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_bytes: 1024 * 1024,
            message_bytes: 4 * 1024 * 1024,
            fragments: 131_072,
            head_bytes: 16 * 1024,
            headers: 64,
        }
    }
}

/// How long a peer may take. A deadline that lies beyond what the clock can express never comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// For the opening handshake, from [`start`](crate::StreamMachine::start) on.
    pub handshake: Duration,
    /// For the peer's Close, from ours on.
    pub close: Duration,
    /// Whether a silent peer is asked if it is there.
    pub keep_alive: Option<KeepAlive>,
}

/// 10 s, 5 s, no keep-alive.
impl Default for Deadlines {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            close: Duration::from_secs(5),
            keep_alive: None,
        }
    }
}

/// How a silent peer is asked if it is there. Anything it sends is an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence after which a Ping is sent.
    pub idle: Duration,
    /// Further silence after which the connection is given up.
    pub answer: Duration,
}

/// A server's options; connections share them.
#[derive(Clone, Debug, Default)]
pub struct ServerOptions {
    /// What it takes.
    pub limits: Limits,
    /// How long it waits.
    pub deadlines: Deadlines,
    /// Subprotocols it speaks, the preferred first. If a client offers others only, none is chosen, and the client decides.
    pub subprotocols: Vec<String>,
    /// Origins whose pages may connect (RFC 6455 section 10.2), compared without regard to case; `None` for any. A request without an
    /// Origin comes from no page and is let in.
    pub origins: Option<Vec<String>>,
    /// Has the last word on a request.
    pub admit: Admit,
}

/// Decides whether a request that is otherwise in order is let in: by its path, its cookies.
#[derive(Clone, Default)]
pub struct Admit(Option<Arc<Decide>>);

type Decide = dyn Fn(&Request) -> Result<(), u16> + Send + Sync;

impl Admit {
    /// Every request is let in.
    #[must_use]
    pub const fn all() -> Self {
        Self(None)
    }

    /// `decide` lets a request in, or returns the HTTP status it is refused with, of 400 to 599; any other stands for 403.
    #[must_use]
    pub fn by(decide: impl Fn(&Request) -> Result<(), u16> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(decide)))
    }

    pub(super) fn decide(&self, request: &Request) -> Result<(), u16> {
        let decided = self.0.as_ref().map_or(Ok(()), |decide| decide(request));
        decided.map_err(|status| match status {
            400..=599 => status,
            _ => 403,
        })
    }
}

impl fmt::Debug for Admit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "by(…)" } else { "all" })
    }
}

/// A client's options, of one connection.
#[derive(Clone)]
pub struct ClientOptions {
    /// What it takes.
    pub limits: Limits,
    /// How long it waits.
    pub deadlines: Deadlines,
    /// The server's name and, unless it is the default, its port: `example.com:8080`.
    pub host: String,
    /// What is asked for: a path, with a query if there is one.
    pub target: String,
    /// The page it speaks for; none outside browsers.
    pub origin: Option<String>,
    /// Subprotocols it speaks, the preferred first.
    pub subprotocols: Vec<String>,
    /// Further headers, such as `Authorization`; none of those that belong to the handshake.
    pub headers: Vec<(String, String)>,
    /// What the handshake's key and the frames' masks are drawn from (ChaCha). It must be new for each connection and must not be
    /// guessed (RFC 6455 section 10.3): take it from the system's randomness.
    pub seed: [u8; 32],
}

impl ClientOptions {
    /// A request for `target` at `host` without anything that is optional, with the limits and deadlines of `default()`.
    #[must_use]
    pub fn new(host: &str, target: &str, seed: [u8; 32]) -> Self {
        Self {
            limits: Limits::default(),
            deadlines: Deadlines::default(),
            host: host.to_owned(),
            target: target.to_owned(),
            origin: None,
            subprotocols: Vec::new(),
            headers: Vec::new(),
            seed,
        }
    }
}

/// Without the seed, and without what headers may hold of secrets.
impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("limits", &self.limits)
            .field("deadlines", &self.deadlines)
            .field("host", &self.host)
            .field("target", &self.target)
            .field("origin", &self.origin)
            .field("subprotocols", &self.subprotocols)
            .finish_non_exhaustive()
    }
}
