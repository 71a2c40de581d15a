//! How the logical CPUs relate: hardware threads of one core, packages, memory nodes, fast and slow cores.

use std::collections::BTreeMap;

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
    /// What the host calls the kind of its core; `None` where it does not name kinds (no hybrid processor, or
    /// a kernel that does not tell). [`Cpu::class`] is what to sort by.
    pub kind: Option<CoreKind>,
    /// How much work it does compared with the fastest CPU of the host, which has 1,024; as the scheduler
    /// counts it (Linux: `cpu_capacity`). `None` where the host does not tell.
    pub capacity: Option<u32>,
    /// Highest frequency of its clock, in kHz (Linux: `cpufreq/cpuinfo_max_freq`). `None` where the host does
    /// not tell.
    pub max_frequency_khz: Option<u64>,
    /// The hardware threads of its core that are online, itself included.
    pub siblings: CpuSet,
}

/// The kinds of cores a hybrid processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoreKind {
    /// Made for speed: "P-core", `cpu_core`, big.
    Performance,
    /// Made for thrift: "E-core", `cpu_atom`, LITTLE.
    Efficiency,
}

impl Topology {
    /// Asks the host.
    ///
    /// Linux: `/sys/devices/system/cpu` and `/sys/devices/system/node` (kernel documentation,
    /// `admin-guide/cputopology.rst`, `ABI/testing/sysfs-devices-system-cpu`, `ABI/stable/sysfs-devices-node`).
    /// The kind is that of `/sys/devices/cpu_core/cpus` and `/sys/devices/cpu_atom/cpus`, which hybrid Intel
    /// processors have (Linux 5.13). The class is by kind first and within a kind by `cpu_capacity`, else by
    /// `cpufreq/cpuinfo_max_freq`, where speeds within a tenth of each other are one class (turbo bins of
    /// favoured cores are not a kind of core).
    /// macOS: `hw.perflevel*` of sysctl(3), macOS 12; nothing tells a capacity, a frequency or a node.
    ///
    /// # Errors
    /// [`NotExposed`](crate::NotExposed) when the host does not list its CPUs.
    pub fn read() -> Reading<Self> {
        os::topology::read()
    }

    /// The order in which threads should take the allowed CPUs. Every allowed CPU appears exactly once; those
    /// this topology does not know come last. What is decided first counts most:
    ///
    /// 1. One hardware thread of every physical core before the second of any: two threads of a core share its
    ///    execution units and caches, so the second adds a fraction of what a core of its own adds. That holds
    ///    for the slow cores of a hybrid processor too: such a core to oneself is worth more than half a fast
    ///    one, and does not slow down the thread that has the other half.
    /// 2. Fast cores before slow ones: a shard never hands work to another, so the slowest shard in use sets
    ///    the latency of its connections. As long as there are fast cores, no shard should have a slow one.
    /// 3. One package after the other, and within it one node after the other: few threads then share a last
    ///    level cache and near memory with the queues between them and with the network card's interrupts, and
    ///    the other packages stay free for somebody else. Spreading over nodes would give each thread more
    ///    memory bandwidth, which is not what messages of some KiB run out of.
    /// 4. Ascending numbers.
    #[must_use]
    pub fn placement_order(&self, allowed: &CpuSet) -> Vec<usize> {
        let mut order: Vec<(Rank, usize)> = allowed
            .iter()
            .map(|cpu| (self.rank(cpu, allowed), cpu))
            .collect();
        order.sort_unstable();
        order.into_iter().map(|(_, cpu)| cpu).collect()
    }

    /// This topology as far as `allowed` goes: the other CPUs are left out, among the siblings too.
    #[must_use]
    pub fn among(&self, allowed: &CpuSet) -> Self {
        let cpus = self.cpus.iter().filter(|cpu| allowed.contains(cpu.number));
        let cpus = cpus.map(|cpu| Cpu {
            siblings: cpu.siblings.intersection(allowed),
            ..cpu.clone()
        });
        Self {
            cpus: cpus.collect(),
        }
    }

    /// The CPUs of each package, by its number. Empty where the host does not number packages.
    #[must_use]
    pub fn packages(&self) -> BTreeMap<usize, CpuSet> {
        self.grouped_by(|cpu| cpu.package)
    }

    /// The CPUs of each NUMA node that has any, by its number. Empty where the host has or shows no nodes.
    #[must_use]
    pub fn nodes(&self) -> BTreeMap<usize, CpuSet> {
        self.grouped_by(|cpu| cpu.node)
    }

    /// The CPUs of each performance class, the fastest first: more than one on a hybrid processor.
    #[must_use]
    pub fn classes(&self) -> BTreeMap<usize, CpuSet> {
        self.grouped_by(|cpu| Some(cpu.class))
    }

    /// Whether any core has more than one hardware thread here.
    #[must_use]
    pub fn has_smt(&self) -> bool {
        self.cpus.iter().any(|cpu| cpu.siblings.len() > 1)
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
        let found = self.cpus.binary_search_by_key(&number, |cpu| cpu.number);
        found.ok().map(|index| &self.cpus[index])
    }

    fn grouped_by(&self, key: impl Fn(&Cpu) -> Option<usize>) -> BTreeMap<usize, CpuSet> {
        let mut groups = BTreeMap::<usize, Vec<usize>>::new();
        for cpu in &self.cpus {
            if let Some(key) = key(cpu) {
                groups.entry(key).or_default().push(cpu.number);
            }
        }
        let sets = groups
            .into_iter()
            .map(|(key, cpus)| (key, cpus.into_iter().collect()));
        sets.collect()
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
                package: cpu.package,
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
        package: Option<usize>,
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
                kind: None,
                capacity: None,
                max_frequency_khz: None,
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
    fn the_nodes_of_a_package_stay_together_whatever_their_numbers() {
        let mut crossed = topology(&[("0", 0, 0), ("1", 1, 0), ("2", 2, 0), ("3", 3, 0)]);
        for cpu in &mut crossed.cpus {
            cpu.package = Some(cpu.number % 2);
        }
        assert_eq!(order(&crossed, "0-3"), [0, 2, 1, 3]);
        assert_eq!(crossed.packages()[&1].to_string(), "1,3");
        assert_eq!(crossed.nodes().len(), 4);
    }

    #[test]
    fn what_is_not_allowed_is_not_a_sibling_either() {
        let smt = topology(&[("0,4", 0, 0), ("1,5", 0, 1), ("2,6", 1, 1)]);
        assert!(smt.has_smt());
        let part = smt.among(&CpuSet::parse("0,5-6,77").unwrap());
        assert!(!part.has_smt());
        assert_eq!(part.physical_cores(), 3);
        assert_eq!(part.cpu(5).unwrap().siblings.to_string(), "5");
        assert_eq!(part.classes()[&1].to_string(), "5-6");
        assert_eq!(part.packages().len(), 2);
        assert_eq!(smt.among(&CpuSet::default()).cpus, []);
    }

    #[test]
    fn only_allowed_cpus_are_used_and_unknown_ones_come_last() {
        let smt = topology(&[("0,4", 0, 0), ("1,5", 0, 0)]);
        assert_eq!(order(&smt, "4,1,5,9"), [1, 4, 5, 9]);
    }
}
