//! Tests that no file of the kernel can make a parser panic, whatever is in it: every fixture with its files cut off,
//! emptied, missing, or with characters changed. What the parsers answer then is their business; they answer.

use super::files::ListedFiles;
use super::{affinity, cgroup, host, network, noise, topology, usage};
use crate::NotExposed;
use crate::cpu_set::CpuSet;

const FIXTURES: &[&str] = &[
    include_str!("../../../tests/fixtures/arm-server/files.txt"),
    include_str!("../../../tests/fixtures/container-v1/files.txt"),
    include_str!("../../../tests/fixtures/container-v2/files.txt"),
    include_str!("../../../tests/fixtures/hybrid-6p8e/files.txt"),
    include_str!("../../../tests/fixtures/hybrid-laptop/files.txt"),
    include_str!("../../../tests/fixtures/numa-server/files.txt"),
    include_str!("../../../tests/fixtures/offline-cpus/files.txt"),
    include_str!("../../../tests/fixtures/small-vm/files.txt"),
    include_str!("../../../tests/fixtures/without-psi/files.txt"),
];

/// Numbers that look random and are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        // The multiplier of Knuth's MMIX; its high bits are the good ones.
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }
}

fn damage(text: &str, numbers: &mut Numbers) -> Option<String> {
    const ODD: [&str; 11] = [
        "-",
        "",
        "x",
        ",",
        ":",
        "/",
        " ",
        "\n",
        "\u{fffd}",
        "0",
        "99999999999999999999",
    ];
    let mut characters: Vec<char> = text.chars().collect();
    match numbers.below(8) {
        0 => return None,
        1 => characters.clear(),
        2 => characters.truncate(numbers.below(characters.len() + 1)),
        3 => {
            characters.drain(..numbers.below(characters.len() + 1));
        }
        4 | 5 if !characters.is_empty() => {
            let at = numbers.below(characters.len());
            characters.splice(at..=at, ODD[numbers.below(ODD.len())].chars());
        }
        _ => {}
    }
    Some(characters.into_iter().collect())
}

fn ask_everything(files: &ListedFiles) {
    if let Ok(topology) = topology::read_from(files) {
        let allowed = CpuSet::parse("0-31,300").unwrap();
        assert_eq!(topology.placement_order(&allowed).len(), allowed.len());
        assert!(topology.among(&allowed).physical_cores() <= allowed.len());
    }
    let affinity = NotExposed::new("affinity", "of the test");
    assert!(affinity::allowed_from(files, Err(affinity)).usable() >= 1);
    let _ = (cgroup::throttling(files), host::describe_from(files));
    let _ = (network::udp_from(files), network::udp6_from(files));
    let _ = (network::tcp_from(files), network::backlog_from(files));
    if let Ok(times) = noise::cpu_times_from(files, 100) {
        assert!(times.total() >= times.busy());
    }
    let _ = (
        noise::pressure_from(files),
        noise::group_pressure_from(files),
    );
    let _ = (
        noise::context_switches_from(files),
        noise::frequency_from(files),
        noise::thermal_throttles_from(files),
        noise::run_queue_wait_from(files, Some(4_242)),
    );
    let _ = (
        usage::memory_from(files, Some(4_242)),
        usage::switches_from(files, Some(4_242)),
    );
}

#[test]
fn damaged_files_are_answered_without_a_panic() {
    const ROUNDS: usize = 60;
    let mut numbers = Numbers(1);
    for listing in FIXTURES {
        let whole = ListedFiles::parse(listing);
        ask_everything(&whole);
        for _ in 0..ROUNDS {
            ask_everything(&whole.changed(|text| damage(text, &mut numbers)));
        }
    }
}

#[test]
fn files_that_are_all_the_same_are_answered_without_a_panic() {
    let texts = [
        "",
        "\n",
        "-1",
        "0",
        "18446744073709551615",
        "a b c",
        ":",
        "0-511",
    ];
    for listing in FIXTURES {
        let whole = ListedFiles::parse(listing);
        for text in texts {
            ask_everything(&whole.changed(|_| Some(text.to_owned())));
        }
    }
}
