//! What touches the real host: sockets on the loopback at ports the kernel picks, child processes, clocks.
//!
//! The same tests run on every platform, so where a host may refuse, a refusal with a reason passes too.

#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap in a test is a failed test with a line number"
)]

mod affinity;
mod datagram;
mod host;
mod local;
mod signal;
mod socket;
mod uring;
mod usage;
