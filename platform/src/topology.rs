//! How the logical CPUs relate: hardware threads of one core, packages, memory nodes, fast and slow cores.

use crate::Reading;
use crate::cpu_set::CpuSet;
use crate::sys::os;

/// The logical CPUs that are online, in ascending order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// One entry per logical CPU.
    pub cpus: Vec<Cpu>,
}

/// One logical CPU (a hardware thread).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its number, as the affinity calls use it. On macOS only a label: the fast cores come first.
    pub number: usize,
    /// The package (socket) it sits on; `None` where the host does not number packages.
    pub package: Option<usize>,
    /// The kernel's number of its core, unique only within a package (and die): compare [`Cpu::siblings`] to
    /// tell cores apart. `None` where the host does not number cores.
    pub core: Option<usize>,
    /// The NUMA node whose memory is near; `None` where the host has or shows no nodes.
    pub node: Option<usize>,
    /// Performance class: 0 for the fastest cores, 1 for the next slower kind, and so on. All 0 where the
    /// cores are alike or the host does not tell.
    pub class: usize,
    /// The hardware threads of its core, itself included.
    pub siblings: CpuSet,
}

impl Topology {
    /// Asks the host.
    ///
    /// Linux: `/sys/devices/system/cpu` and `/sys/devices/system/node` (kernel documentation,
    /// `admin-guide/cputopology.rst`); the class from `cpu_capacity` or `cpufreq/cpuinfo_max_freq`, where
    /// speeds within a tenth of each other are one class (turbo bins of favoured cores are not a kind of core).
    /// macOS: `hw.perflevel*` of sysctl(3).
    ///
    /// # Errors
    /// [`NotExposed`](crate::NotExposed) when the host does not list its CPUs.
    pub fn read() -> Reading<Self> {
        os::topology::read()
    }

    /// The order in which threads should take the allowed CPUs: one hardware thread of every physical core
    /// first, fast cores before slow ones and then node by node, after them the second hardware threads, and
    /// so on. Allowed CPUs this topology does not know come last. Every allowed CPU appears exactly once.
    #[must_use]
    pub fn placement_order(&self, allowed: &CpuSet) -> Vec<usize> {
        let mut order: Vec<(Rank, usize)> = allowed
            .iter()
            .map(|cpu| (self.rank(cpu, allowed), cpu))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, cpu)| cpu).collect()
    }

    /// The number of physical cores.
    #[must_use]
    pub fn physical_cores(&self) -> usize {
        self.cores().len()
    }

    /// The hardware threads of each physical core, ordered by their first CPU number.
    #[must_use]
    pub fn cores(&self) -> Vec<CpuSet> {
        let first_threads = self
            .cpus
            .iter()
            .filter(|cpu| cpu.siblings.first() == Some(cpu.number));
        first_threads.map(|cpu| cpu.siblings.clone()).collect()
    }

    /// The entry of one logical CPU.
    #[must_use]
    pub fn cpu(&self, number: usize) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.number == number)
    }

    fn rank(&self, number: usize, allowed: &CpuSet) -> Rank {
        match self.cpu(number) {
            // The position counts allowed siblings only: where just the second thread of a core is allowed,
            // it is the first one we can have.
            Some(cpu) => Rank::Known {
                position_in_core: cpu
                    .siblings
                    .intersection(allowed)
                    .iter()
                    .take_while(|&other| other < number)
                    .count(),
                class: cpu.class,
                node: cpu.node,
            },
            None => Rank::Unknown,
        }
    }
}

/// What placement sorts by; the order of variants and fields is the order of preference.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Known {
        position_in_core: usize,
        class: usize,
        node: Option<usize>,
    },
    Unknown,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cores given as lists of their hardware threads, with node and class.
    fn topology(cores: &[(&str, usize, usize)]) -> Topology {
        let threads = |&(list, node, class): &(&str, usize, usize)| {
            let siblings = CpuSet::parse(list).unwrap();
            let cpu = |number| Cpu {
                number,
                package: Some(node),
                core: siblings.first(),
                node: Some(node),
                class,
                siblings: siblings.clone(),
            };
            siblings.iter().map(cpu).collect::<Vec<_>>()
        };
        let mut cpus: Vec<Cpu> = cores.iter().flat_map(threads).collect();
        cpus.sort_by_key(|cpu| cpu.number);
        Topology { cpus }
    }

    fn order(topology: &Topology, allowed: &str) -> Vec<usize> {
        topology.placement_order(&CpuSet::parse(allowed).unwrap())
    }

    #[test]
    fn every_core_gets_a_thread_before_any_gets_a_second() {
        let smt = topology(&[("0,4", 0, 0), ("1,5", 0, 0), ("2,6", 0, 0), ("3,7", 0, 0)]);
        assert_eq!(order(&smt, "0-7"), [0, 1, 2, 3, 4, 5, 6, 7]);
        let adjacent = topology(&[("0-1", 0, 0), ("2-3", 0, 0)]);
        assert_eq!(order(&adjacent, "0-3"), [0, 2, 1, 3]);
        assert_eq!(adjacent.physical_cores(), 2);
    }

    #[test]
    fn fast_cores_come_first_and_their_siblings_after_the_slow_cores() {
        let hybrid = topology(&[("0", 0, 1), ("1", 0, 1), ("2-3", 0, 0), ("4-5", 0, 0)]);
        assert_eq!(order(&hybrid, "0-5"), [2, 4, 0, 1, 3, 5]);
    }

    #[test]
    fn nodes_are_filled_one_after_the_other() {
        let interleaved = topology(&[("0", 0, 0), ("1", 1, 0), ("2", 0, 0), ("3", 1, 0)]);
        assert_eq!(order(&interleaved, "0-3"), [0, 2, 1, 3]);
    }

    #[test]
    fn only_allowed_cpus_are_used_and_unknown_ones_come_last() {
        let smt = topology(&[("0,4", 0, 0), ("1,5", 0, 0)]);
        assert_eq!(order(&smt, "4,1,5,9"), [1, 4, 5, 9]);
    }
}
