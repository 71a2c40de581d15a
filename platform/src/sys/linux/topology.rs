//! Topology of Linux: `/sys/devices/system/cpu` and `/sys/devices/system/node`.

use std::collections::BTreeMap;

use super::files::{Files, HostFiles};
use crate::cpu_set::CpuSet;
use crate::topology::{Cpu, Topology};
use crate::{NotExposed, Reading};

pub(crate) fn read() -> Reading<Topology> {
    read_from(&HostFiles)
}

pub(super) fn read_from(files: &impl Files) -> Reading<Topology> {
    let online = list(files, ONLINE)?;
    let nodes = node_of_each_cpu(files);
    let classes = class_of_each_cpu(files, &online);
    let cpus = online.iter().zip(classes).map(|(number, class)| Cpu {
        number,
        package: id(files, number, "physical_package_id"),
        core: id(files, number, "core_id"),
        node: nodes.get(&number).copied(),
        class,
        siblings: siblings(files, number).intersection(&online),
    });
    Ok(Topology {
        cpus: cpus.collect(),
    })
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

/// Virtual machines and some ARM boards say -1 for "not known", which does not parse as a number here.
fn id(files: &impl Files, cpu: usize, name: &str) -> Option<usize> {
    files
        .number(
            WHAT,
            &format!("/sys/devices/system/cpu/cpu{cpu}/topology/{name}"),
        )
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

/// By capacity where every CPU states it (ARM, and hybrid x86 since Linux 6.13), else by highest frequency,
/// else all alike.
fn class_of_each_cpu(files: &impl Files, online: &CpuSet) -> Vec<usize> {
    let by = |name: &str| {
        let speed = |cpu| {
            files
                .number(WHAT, &format!("/sys/devices/system/cpu/cpu{cpu}/{name}"))
                .ok()
        };
        online
            .iter()
            .map(speed)
            .collect::<Option<Vec<u64>>>()
            .map(|speeds| classes(&speeds))
    };
    by("cpu_capacity")
        .or_else(|| by("cpufreq/cpuinfo_max_freq"))
        .unwrap_or_else(|| vec![0; online.len()])
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
    fn a_tenth_of_speed_does_not_make_another_class() {
        assert_eq!(classes(&[1024, 1024]), [0, 0]);
        assert_eq!(classes(&[4_700_000, 4_600_000, 3_500_000]), [0, 0, 1]);
        assert_eq!(classes(&[446, 1024, 871, 446]), [2, 0, 1, 2]);
        assert_eq!(classes(&[]), [] as [usize; 0]);
    }
}
