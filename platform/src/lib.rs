//! Facts about the host and knobs on it: CPUs, clocks, memory, sockets, datagrams, signals, rings, noise.
//!
//! Nothing here is asynchronous and nothing changes the machine beyond the calling process. What a host does
//! not tell is a value with a reason ([`NotExposed`]), never a zero, a panic or a warning.
//!
//! The modules are the same on every platform. What differs lives in the private module `sys`, behind one
//! selection point, and is described at each item: Linux has everything, macOS has what its kernel offers,
//! other Unix systems compile and answer with reasons.

use std::error::Error;
use std::fmt;

mod sys;

pub mod affinity;
pub mod calls;
pub mod counter;
pub mod cpu_set;
pub mod datagram;
pub mod host;
pub mod memory;
pub mod network;
pub mod noise;
pub mod signal;
pub mod socket;
pub mod topology;
pub mod uring;
pub mod usage;
pub mod wake;

/// A reading the host does not give, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotExposed {
    /// What was asked for: "steal time", "CPU model".
    pub what: &'static str,
    /// Why there is no answer, and what would change that where something would.
    pub reason: String,
}

/// A fact about the host, or the reason why it is not known.
pub type Reading<T> = Result<T, NotExposed>;

impl NotExposed {
    /// A reading that does not exist, with its reason.
    pub fn new(what: &'static str, reason: impl fmt::Display) -> Self {
        Self {
            what,
            reason: reason.to_string(),
        }
    }
}

impl fmt::Display for NotExposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not known: {}", self.what, self.reason)
    }
}

impl Error for NotExposed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_part_of_the_sentence() {
        let absent = NotExposed::new("steal time", "macOS does not count it");
        assert_eq!(
            absent.to_string(),
            "steal time is not known: macOS does not count it"
        );
    }
}
