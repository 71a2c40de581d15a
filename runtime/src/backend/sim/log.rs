//! What happened in a world, in its order.

use std::{
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

/// What happened in a world: the turns of its shards, and what its network did. The same seed gives the same log, byte by byte, as
/// long as the services depend on nothing outside their world.
#[derive(Clone, Debug)]
pub struct Log {
    entries: Vec<Entry>,
    left_out: u64,
    digest: DefaultHasher,
}

/// One event. Hosts, plans, shards, connections and sockets go by their numbers in their order; `side` 0 is who connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Entry {
    at_ns: u64,
    event: Noted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Noted {
    Turn {
        plan: usize,
        shard: usize,
    },
    Ended {
        plan: usize,
        shard: usize,
    },
    Connecting {
        attempt: u64,
        from: usize,
        to: usize,
    },
    Refused {
        attempt: u64,
    },
    Established {
        attempt: u64,
        connection: u64,
    },
    Sent {
        connection: u64,
        side: usize,
        bytes: usize,
    },
    Lost {
        connection: u64,
        side: usize,
    },
    Arrived {
        connection: u64,
        side: usize,
        bytes: usize,
        end: bool,
    },
    Received {
        connection: u64,
        side: usize,
        bytes: usize,
    },
    Failed {
        connection: u64,
        side: usize,
        timed_out: bool,
    },
    DatagramSent {
        from: usize,
        to: usize,
        bytes: usize,
    },
    DatagramDoubled {
        from: usize,
        to: usize,
    },
    DatagramLost {
        from: usize,
        to: usize,
    },
    DatagramArrived {
        socket: u64,
        bytes: usize,
    },
    DatagramDropped {
        host: usize,
        bytes: usize,
    },
    Parted {
        a: usize,
        b: usize,
    },
    Healed {
        a: usize,
        b: usize,
    },
    Severed {
        a: usize,
        b: usize,
    },
}

impl Log {
    /// Events that are kept; those after that are only counted, and go into the digest.
    pub const MOST: usize = 1 << 20;

    pub(super) fn new() -> Self {
        Self {
            entries: Vec::new(),
            left_out: 0,
            digest: DefaultHasher::new(),
        }
    }

    pub(super) fn note(&mut self, at_ns: u64, event: Noted) {
        let entry = Entry { at_ns, event };
        entry.hash(&mut self.digest);
        if self.entries.len() < Self::MOST {
            self.entries.push(entry);
        } else {
            self.left_out += 1;
        }
    }

    /// How many events there were.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.entries.len() as u64 + self.left_out
    }

    /// Whether there was none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A number for all of it, to compare runs of the same program by.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.digest.finish()
    }
}

impl fmt::Display for Log {
    /// A line for each event: the time since the start in seconds, and what it was.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { at_ns, event } in &self.entries {
            let at = Duration::from_nanos(*at_ns);
            writeln!(f, "{}.{:09} {event:?}", at.as_secs(), at.subsec_nanos())?;
        }
        if self.left_out > 0 {
            writeln!(f, "and {} more", self.left_out)?;
        }
        Ok(())
    }
}
