//! How connections are spread over shards.

use std::{error::Error, fmt, str::FromStr};

/// How connections are spread over shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accept {
    /// One listener per shard on the same address; the kernel picks by a hash of the addresses, so a few connections may bunch on
    /// one shard. Linux only: elsewhere all connections would go to one listener, so a plan of several shards is refused.
    ReusePort,
    /// Shard 0 accepts and gives each connection to the next shard in turn, so that counts differ by at most one. Costs a wake of the
    /// other thread per connection, nothing after that.
    Handoff,
    /// As [`Handoff`](Self::Handoff), but to the shard with the fewest open connections: for connections that live for very different
    /// times.
    HandoffLeast,
    /// One listener that all shards accept from: whoever is awake first gets the connection, so busy shards get fewer. Idle shards are
    /// all woken for each.
    Shared,
}

impl Accept {
    /// All strategies.
    pub const ALL: [Self; 4] = [
        Self::ReusePort,
        Self::Handoff,
        Self::HandoffLeast,
        Self::Shared,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReusePort => "reuseport",
            Self::Handoff => "handoff",
            Self::HandoffLeast => "handoff-least",
            Self::Shared => "shared",
        }
    }

    /// Whether one shard takes what comes and gives it to the others.
    pub(crate) fn hands_out(self) -> bool {
        matches!(self, Self::Handoff | Self::HandoffLeast)
    }
}

impl fmt::Display for Accept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Accept {
    type Err = UnknownAccept;

    fn from_str(name: &str) -> Result<Self, UnknownAccept> {
        let known = Self::ALL.into_iter().find(|accept| accept.name() == name);
        known.ok_or_else(|| UnknownAccept {
            name: name.to_owned(),
        })
    }
}

/// There is no accept strategy of that name.
#[derive(Clone, PartialEq, Eq)]
pub struct UnknownAccept {
    /// The name.
    pub name: String,
}

/// Its text: what a `main` prints that returns it.
impl fmt::Debug for UnknownAccept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for UnknownAccept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Accept::ALL.map(Accept::name).join(", ");
        write!(
            f,
            "there is no accept strategy {:?}; there are {names}",
            self.name
        )
    }
}

impl Error for UnknownAccept {}
