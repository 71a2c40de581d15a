//! Topology of a Mac: counts of cores per performance level. Its CPUs cannot be addressed one by one, so their
//! numbers are labels of ours: the fastest level first, hardware threads of a core next to each other.

use super::sysctl;
use crate::Reading;
use crate::cpu_set::CpuSet;
use crate::topology::{CoreKind, Cpu, Topology};

pub(crate) fn read() -> Reading<Topology> {
    let levels = levels()?;
    Ok(Topology {
        cpus: number_cpus(&levels),
    })
}

/// Logical and physical CPUs of one kind.
struct Level {
    logical: usize,
    physical: usize,
    kind: Option<CoreKind>,
}

const WHAT: &str = "CPU topology";

/// Level 0 is the fastest (`hw.perflevel0`, macOS 12). Intel Macs have one level and may not name it.
fn levels() -> Reading<Vec<Level>> {
    let level = |prefix: &str| {
        Ok(Level {
            logical: sysctl::count(WHAT, &format!("{prefix}.logicalcpu"))?,
            physical: sysctl::count(WHAT, &format!("{prefix}.physicalcpu"))?,
            kind: sysctl::text(WHAT, &format!("{prefix}.name"))
                .ok()
                .and_then(|name| kind(&name)),
        })
    };
    match sysctl::count(WHAT, "hw.nperflevels") {
        Ok(levels) => (0..levels)
            .map(|number| level(&format!("hw.perflevel{number}")))
            .collect(),
        Err(_) => Ok(vec![level("hw")?]),
    }
}

/// `hw.perflevelN.name`. Further names may come; the order of the levels tells then which is faster.
fn kind(name: &str) -> Option<CoreKind> {
    match name {
        "Performance" => Some(CoreKind::Performance),
        "Efficiency" => Some(CoreKind::Efficiency),
        _ => None,
    }
}

fn number_cpus(levels: &[Level]) -> Vec<Cpu> {
    let mut cpus = Vec::new();
    let mut core = 0;
    for (class, level) in levels.iter().enumerate() {
        let threads = (level.logical / level.physical.max(1)).max(1);
        for _ in 0..level.physical {
            let first = cpus.len();
            let siblings: CpuSet = (first..first + threads).collect();
            cpus.extend(siblings.iter().map(|number| Cpu {
                number,
                package: None,
                core: Some(core),
                node: None,
                class,
                kind: level.kind,
                capacity: None,
                max_frequency_khz: None,
                siblings: siblings.clone(),
            }));
            core += 1;
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_cores_have_the_low_numbers() {
        let cpus = number_cpus(&[
            Level {
                logical: 4,
                physical: 4,
                kind: kind("Performance"),
            },
            Level {
                logical: 2,
                physical: 2,
                kind: kind("Efficiency"),
            },
        ]);
        assert_eq!(
            cpus.iter().map(|cpu| cpu.class).collect::<Vec<_>>(),
            [0, 0, 0, 0, 1, 1]
        );
        assert_eq!(cpus[3].kind, Some(CoreKind::Performance));
        assert_eq!(cpus[4].kind, Some(CoreKind::Efficiency));
        assert_eq!(Topology { cpus }.physical_cores(), 6);
    }

    #[test]
    fn intel_macs_have_two_threads_per_core() {
        let cpus = number_cpus(&[Level {
            logical: 8,
            physical: 4,
            kind: kind("Standard"),
        }]);
        assert_eq!(cpus[3].siblings.to_string(), "2-3");
        assert_eq!(Topology { cpus }.physical_cores(), 4);
    }
}
