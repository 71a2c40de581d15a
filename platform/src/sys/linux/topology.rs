//! Topology of Linux: `/sys/devices/system/cpu` and `/sys/devices/system/node`, and the kinds of cores.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::files::{Files, HostFiles};
use crate::cpu_set::CpuSet;
use crate::topology::{CoreKind, Cpu, Topology};
use crate::{NotExposed, Reading};

pub(crate) fn read() -> Reading<Topology> {
    read_from(&HostFiles)
}

pub(super) fn read_from(files: &impl Files) -> Reading<Topology> {
    let online = online(files)?;
    let nodes = node_of_each_cpu(files);
    let kinds = Kinds::read(files);
    let mut cpus: Vec<Cpu> = online
        .iter()
        .map(|number| Cpu {
            number,
            package: fact(files, number, "topology/physical_package_id"),
            core: fact(files, number, "topology/core_id"),
            node: nodes.get(&number).copied(),
            class: 0,
            kind: kinds.of(number),
            capacity: fact(files, number, "cpu_capacity"),
            max_frequency_khz: fact(files, number, "cpufreq/cpuinfo_max_freq"),
            siblings: siblings(files, number).intersection(&online),
        })
        .collect();
    let classes = class_of_each(&cpus);
    for (cpu, class) in cpus.iter_mut().zip(classes) {
        cpu.class = class;
    }
    Ok(Topology { cpus })
}

/// The CPUs that are online.
pub(super) fn online(files: &impl Files) -> Reading<CpuSet> {
    list(files, ONLINE)
}

/// The nodes that are online, in ascending order.
pub(super) fn nodes(files: &impl Files) -> Reading<CpuSet> {
    list(files, NODES)
}

const WHAT: &str = "CPU topology";
const ONLINE: &str = "/sys/devices/system/cpu/online";
const NODES: &str = "/sys/devices/system/node/online";

/// A list of numbers, in the same notation for CPUs and nodes.
fn list(files: &impl Files, path: &str) -> Reading<CpuSet> {
    let text = files.reading(WHAT, path)?;
    CpuSet::parse(&text).map_err(|error| NotExposed::new(WHAT, format!("{path}: {error}")))
}

/// A number a CPU tells about itself. Virtual machines and some ARM boards say -1 for "not known", which does not
/// parse as one here.
fn fact<T: FromStr>(files: &impl Files, cpu: usize, name: &str) -> Option<T> {
    files
        .number(WHAT, &format!("/sys/devices/system/cpu/cpu{cpu}/{name}"))
        .ok()
}

/// A CPU without a list is a core of its own.
fn siblings(files: &impl Files, cpu: usize) -> CpuSet {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    let listed = list(files, &path).ok().filter(|set| set.contains(cpu));
    listed.unwrap_or_else(|| [cpu].into_iter().collect())
}

fn node_of_each_cpu(files: &impl Files) -> BTreeMap<usize, usize> {
    let nodes = nodes(files).unwrap_or_default();
    let cpus_of = |node| {
        list(
            files,
            &format!("/sys/devices/system/node/node{node}/cpulist"),
        )
        .unwrap_or_default()
    };
    nodes
        .iter()
        .flat_map(|node| {
            cpus_of(node)
                .iter()
                .map(|cpu| (cpu, node))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The two lists of a hybrid Intel processor; both empty elsewhere. Each is the set of CPUs that a unit for
/// counting events covers, and there is one unit per kind of core.
struct Kinds {
    performance: CpuSet,
    efficiency: CpuSet,
}

impl Kinds {
    fn read(files: &impl Files) -> Self {
        let cpus =
            |unit: &str| list(files, &format!("/sys/devices/{unit}/cpus")).unwrap_or_default();
        Self {
            performance: cpus("cpu_core"),
            efficiency: cpus("cpu_atom"),
        }
    }

    fn of(&self, cpu: usize) -> Option<CoreKind> {
        match (
            self.performance.contains(cpu),
            self.efficiency.contains(cpu),
        ) {
            (true, false) => Some(CoreKind::Performance),
            (false, true) => Some(CoreKind::Efficiency),
            // In neither list, or in both, which nothing that has cores of two kinds says.
            (false, false) | (true, true) => None,
        }
    }
}

/// The class of each CPU: by kind where every CPU has one, within a kind by speed.
fn class_of_each(cpus: &[Cpu]) -> Vec<usize> {
    let kinds: Option<Vec<CoreKind>> = cpus.iter().map(|cpu| cpu.kind).collect();
    let speeds = speed_of_each(cpus);
    let Some(kinds) = kinds else {
        return classes(&speeds);
    };
    let of_kind = |wanted: CoreKind| {
        let speeds = kinds.iter().zip(&speeds);
        let speeds = speeds.filter(|(kind, _)| **kind == wanted);
        classes(&speeds.map(|(_, speed)| *speed).collect::<Vec<_>>())
    };
    let fast = of_kind(CoreKind::Performance);
    let fast_classes = fast.iter().max().map_or(0, |slowest| slowest + 1);
    let (mut fast, mut slow) = (fast.into_iter(), of_kind(CoreKind::Efficiency).into_iter());
    let class = |kind: &CoreKind| match kind {
        CoreKind::Performance => fast.next(),
        CoreKind::Efficiency => slow.next().map(|class| class + fast_classes),
    };
    kinds.iter().filter_map(class).collect()
}

/// By capacity where every CPU states it (ARM, and hybrid x86 since Linux 6.13), else by highest frequency,
/// else all alike.
fn speed_of_each(cpus: &[Cpu]) -> Vec<u64> {
    let by = |speed: fn(&Cpu) -> Option<u64>| cpus.iter().map(speed).collect::<Option<Vec<_>>>();
    by(|cpu| cpu.capacity.map(u64::from))
        .or_else(|| by(|cpu| cpu.max_frequency_khz))
        .unwrap_or_else(|| vec![0; cpus.len()])
}

/// Puts speeds into classes, 0 the fastest. A class reaches down to nine tenths of its fastest member.
fn classes(speeds: &[u64]) -> Vec<usize> {
    let mut descending = speeds.to_vec();
    descending.sort_unstable_by(|a, b| b.cmp(a));
    let mut tops: Vec<u64> = Vec::new();
    for speed in descending {
        if tops.last().is_none_or(|top| speed < top - top / 10) {
            tops.push(speed);
        }
    }
    let class_of = |speed: u64| tops.iter().rposition(|&top| top >= speed).unwrap_or(0);
    speeds.iter().map(|&speed| class_of(speed)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::files::ListedFiles;
    use super::*;

    fn topology(listing: &str) -> Topology {
        read_from(&ListedFiles::parse(listing)).unwrap()
    }

    fn order(topology: &Topology, allowed: &str) -> String {
        let order = topology.placement_order(&CpuSet::parse(allowed).unwrap());
        order
            .iter()
            .map(usize::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn a_server_with_two_nodes_and_hardware_threads() {
        let server = topology(include_str!(
            "../../../tests/fixtures/numa-server/files.txt"
        ));
        assert_eq!(server.cpus.len(), 16);
        assert_eq!(server.physical_cores(), 8);
        let cpu = server.cpu(13).unwrap();
        assert_eq!(
            (cpu.package, cpu.core, cpu.node, cpu.class),
            (Some(1), Some(1), Some(1), 0)
        );
        assert_eq!(cpu.siblings.to_string(), "5,13");
        assert_eq!(
            order(&server, "0-15"),
            "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"
        );
        assert_eq!(order(&server, "4-7,12-15"), "4 5 6 7 12 13 14 15");
        assert_eq!(order(&server, "0,8,9"), "0 9 8");
    }

    #[test]
    fn a_laptop_with_fast_and_slow_cores() {
        let laptop = topology(include_str!(
            "../../../tests/fixtures/hybrid-laptop/files.txt"
        ));
        assert_eq!(laptop.physical_cores(), 6);
        let classes: Vec<usize> = laptop.cpus.iter().map(|cpu| cpu.class).collect();
        assert_eq!(classes, [0, 0, 0, 0, 1, 1, 1, 1]);
        assert_eq!(order(&laptop, "0-7"), "0 2 4 5 6 7 1 3");
    }

    #[test]
    fn a_small_virtual_machine() {
        let vm = topology(include_str!("../../../tests/fixtures/small-vm/files.txt"));
        assert_eq!(vm.physical_cores(), 2);
        assert_eq!(vm.cpus[1].node, Some(0));
    }

    #[test]
    fn cpus_that_tell_nothing_about_themselves_are_cores_of_their_own() {
        let bare = topology("/sys/devices/system/cpu/online:0-1\n");
        assert_eq!(bare.physical_cores(), 2);
        assert_eq!((bare.cpus[0].package, bare.cpus[0].node), (None, None));
        assert!(read_from(&ListedFiles::parse("")).is_err());
    }

    #[test]
    fn a_large_server_is_filled_core_by_core_node_by_node() {
        let server = topology(include_str!(
            "../../../tests/fixtures/large-server/files.txt"
        ));
        assert_eq!((server.cpus.len(), server.physical_cores()), (256, 128));
        assert_eq!(server.packages()[&1].to_string(), "64-127,192-255");
        // The ninth node has memory only.
        assert_eq!(server.nodes().len(), 8);
        assert_eq!(server.nodes()[&7].to_string(), "112-127,240-255");
        let order = server.placement_order(&CpuSet::parse("0-255").unwrap());
        assert!(order.into_iter().eq(0..256));
        // A part that begins in the middle: the node it begins in, then the next, then the siblings.
        let part = server.placement_order(&CpuSet::parse("30-33,158-161").unwrap());
        assert_eq!(part, [30, 31, 32, 33, 158, 159, 160, 161]);
    }

    #[test]
    fn the_kernel_names_the_cores_of_a_hybrid_laptop() {
        let laptop = topology(include_str!(
            "../../../tests/fixtures/hybrid-6p8e/files.txt"
        ));
        assert_eq!((laptop.cpus.len(), laptop.physical_cores()), (20, 14));
        assert_eq!(laptop.cpu(11).unwrap().kind, Some(CoreKind::Performance));
        assert_eq!(laptop.cpu(12).unwrap().kind, Some(CoreKind::Efficiency));
        assert_eq!(laptop.cpu(4).unwrap().max_frequency_khz, Some(5_400_000));
        assert_eq!(laptop.classes()[&0].to_string(), "0-11");
        assert_eq!(
            order(&laptop, "0-19"),
            "0 2 4 6 8 10 12 13 14 15 16 17 18 19 1 3 5 7 9 11"
        );
    }

    #[test]
    fn an_arm_server_has_no_hardware_threads() {
        let server = topology(include_str!("../../../tests/fixtures/arm-server/files.txt"));
        assert!(!server.has_smt());
        assert_eq!((server.cpus.len(), server.physical_cores()), (32, 32));
        assert_eq!(server.cpus[31].package, Some(36));
        assert_eq!(server.cpus[31].capacity, Some(1_024));
        assert_eq!(order(&server, "14-17"), "14 15 16 17");
        assert_eq!(server.nodes()[&1].to_string(), "16-31");
    }

    #[test]
    fn offline_cpus_leave_holes_and_no_siblings() {
        let host = topology(include_str!(
            "../../../tests/fixtures/offline-cpus/files.txt"
        ));
        let cores: Vec<String> = host.cores().iter().map(CpuSet::to_string).collect();
        assert_eq!(cores, ["0,8", "2,10", "3,11", "5,13"]);
        assert_eq!(host.cpus[0].package, None);
        assert!(host.packages().is_empty());
        assert_eq!(
            order(&host, "0-15"),
            "0 2 3 5 8 10 11 13 1 4 6 7 9 12 14 15"
        );
        assert_eq!(order(&host, "8,10-11,13"), "8 10 11 13");
    }

    #[test]
    fn kinds_outrank_speeds_and_speeds_tell_within_a_kind() {
        // A slow core may have the higher clock, and there may be two kinds of slow ones.
        let lists = |performance, efficiency| {
            format!(
                "/sys/devices/system/cpu/online:0-3\n/sys/devices/cpu_core/cpus:{performance}\n\
                 /sys/devices/cpu_atom/cpus:{efficiency}\n"
            )
        };
        let speeds = [(0, 3_400), (1, 3_600), (2, 2_100), (3, 3_500)];
        let speeds = speeds.map(|(number, mhz)| {
            format!("/sys/devices/system/cpu/cpu{number}/cpufreq/cpuinfo_max_freq:{mhz}000\n")
        });
        let classes = |listing: &str| {
            let cpus = topology(listing).cpus;
            cpus.iter().map(|cpu| cpu.class).collect::<Vec<_>>()
        };
        let speeds = speeds.concat();
        assert_eq!(classes(&(lists("0", "1-3") + &speeds)), [0, 1, 2, 1]);
        // A list that leaves a CPU out, or has it twice, is not believed.
        assert_eq!(classes(&(lists("0", "1-2") + &speeds)), [0, 0, 1, 0]);
        assert_eq!(classes(&(lists("0-1", "1-3") + &speeds)), [0, 0, 1, 0]);
        assert_eq!(classes(&lists("2-3", "0-1")), [1, 1, 0, 0]);
        assert_eq!(classes(&lists("0-3", "")), [0, 0, 0, 0]);
    }

    #[test]
    fn a_tenth_of_speed_does_not_make_another_class() {
        assert_eq!(classes(&[1024, 1024]), [0, 0]);
        assert_eq!(classes(&[4_700_000, 4_600_000, 3_500_000]), [0, 0, 1]);
        assert_eq!(classes(&[446, 1024, 871, 446]), [2, 0, 1, 2]);
        assert_eq!(classes(&[]), [] as [usize; 0]);
    }
}
