//! Which CPU each shard runs on.
//!
//! CPUs come from the *allowed* set (affinity mask, cpuset), physical cores first. Where a thread cannot be pinned the shard runs
//! unpinned and the report says why: placement is never fatal.

use shardloop_platform::{
    affinity::{Allowed, pin_current_thread},
    topology::Topology,
};
use std::fmt;

/// How shards are placed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// One CPU after the other of those allowed, one hardware thread of every physical core before the second of any; around again
    /// if there are more shards than CPUs.
    #[default]
    Spread,
    /// Shard `i` on the `i`-th of these, around again.
    Cpus(Vec<usize>),
    /// Left to the scheduler.
    Unpinned,
}

impl Placement {
    /// The CPU of each of `shards` shards; `None` leaves it to the scheduler. Another kind of server that is to be compared with
    /// shards asks here too, so that both get the same CPUs.
    #[must_use]
    pub fn cpus(&self, shards: usize) -> Vec<Option<usize>> {
        let order = match self {
            Self::Spread => allowed_order(),
            Self::Cpus(cpus) => cpus.clone(),
            Self::Unpinned => Vec::new(),
        };
        if order.is_empty() {
            return vec![None; shards];
        }
        order.into_iter().cycle().take(shards).map(Some).collect()
    }
}

fn allowed_order() -> Vec<usize> {
    let allowed = Allowed::read();
    match Topology::read() {
        Ok(topology) => topology.placement_order(&allowed.cpus),
        Err(_) => allowed.cpus.iter().collect(),
    }
}

/// Where a shard really runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seat {
    /// On this CPU, read back after pinning.
    Cpu(usize),
    /// Wherever the scheduler puts it, and why.
    NotPinned(String),
}

impl Seat {
    /// Puts the calling thread there.
    pub(crate) fn take(wish: Option<usize>) -> Self {
        let Some(cpu) = wish else {
            return Self::NotPinned("left to the scheduler".to_owned());
        };
        match pin_current_thread(cpu) {
            Ok(cpu) => Self::Cpu(cpu),
            Err(reason) => Self::NotPinned(reason.to_string()),
        }
    }

    /// The CPU, if it is pinned.
    #[must_use]
    pub fn cpu(&self) -> Option<usize> {
        match self {
            Self::Cpu(cpu) => Some(*cpu),
            Self::NotPinned(_) => None,
        }
    }
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(cpu) => write!(f, "CPU {cpu}"),
            Self::NotPinned(reason) => write!(f, "not pinned: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Placement;

    #[test]
    fn more_shards_than_cpus_go_around_again() {
        let cpus = Placement::Cpus(vec![3, 5]).cpus(5);
        assert_eq!(cpus, [3, 5, 3, 5, 3].map(Some));
        assert_eq!(Placement::Unpinned.cpus(2), [None, None]);
        assert_eq!(Placement::Cpus(Vec::new()).cpus(1), [None]);
    }
}
