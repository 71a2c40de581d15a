//! macOS: sysctl(3), libproc and Mach calls. What its kernel does not tell is answered with the reason.

pub(crate) mod affinity;
pub(crate) mod calls;
pub(crate) mod datagram;
pub(crate) mod host;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod noise;
pub(crate) mod signal;
pub(crate) mod socket;
mod sysctl;
pub(crate) mod topology;
pub(crate) mod uring;
pub(crate) mod usage;
