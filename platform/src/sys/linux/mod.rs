//! Linux: everything is read from procfs, sysfs and cgroupfs through [`files`], or asked by system call.

pub(crate) mod affinity;
pub(crate) mod calls;
mod cgroup;
#[cfg(test)]
mod damaged;
pub(crate) mod datagram;
mod files;
pub(crate) mod host;
pub(crate) mod memory;
pub(crate) mod network;
pub(crate) mod noise;
pub(crate) mod signal;
pub(crate) mod socket;
pub(crate) mod topology;
pub(crate) mod uring;
pub(crate) mod usage;
