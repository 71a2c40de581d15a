//! The seeds of the fuzz targets, and whatever the fuzzer has found, through the functions that the targets run (`protocols/fuzz`).

#[path = "../../fuzz/src/harness/mod.rs"]
mod harness;

use crate::random::Random;
use harness::{Meter, TARGETS};
use std::{fs, path::PathBuf};

/// Memory is bounded by the fuzz targets, which have an allocator for it.
const METER: Meter = Meter {
    allocated_bytes: || 0,
    limit: |_| {},
};

fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/seeds")
        .join(target);
    let entries = fs::read_dir(&folder).expect("every target has seeds");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| (path.clone(), fs::read(path).expect("it can be read"));
    paths.into_iter().map(read).collect()
}

fn replay(target: &str) {
    let seeds = seeds(target);
    assert!(seeds.len() >= 2, "{target} begins with nothing");
    for (path, seed) in seeds {
        println!("{}", path.display());
        harness::run(target, &seed, METER);
    }
}

#[test]
fn every_target_holds_on_its_seeds() {
    TARGETS.iter().for_each(|(target, _)| replay(target));
}

/// What the fuzzer does, for a moment: bytes changed, left out, repeated, and inputs put together from two.
#[test]
fn every_target_holds_on_seeds_that_were_changed() {
    for (target, _) in TARGETS {
        let (seeds, mut random) = (seeds(target), Random::new(7));
        let rounds = if target.starts_with("tls") { 20 } else { 300 };
        for _ in 0..rounds {
            let input = changed(&seeds, &mut random);
            println!("{target} {}", input.escape_ascii());
            harness::run(target, &input, METER);
        }
    }
}

fn changed(seeds: &[(PathBuf, Vec<u8>)], random: &mut Random) -> Vec<u8> {
    let mut input = seeds[random.below(seeds.len())].1.clone();
    for _ in 0..1 + random.below(4) {
        let at = random.below(input.len());
        match random.below(5) {
            0 => input[at..].iter_mut().take(1).for_each(|byte| *byte ^= 1),
            1 => input.truncate(at.max(4)),
            2 => {
                let bytes = random.below(9);
                input.splice(at..at, random.bytes(bytes));
            }
            3 => input.extend_from_within(at..),
            _ => {
                let other = &seeds[random.below(seeds.len())].1;
                input.extend_from_slice(&other[random.below(other.len())..]);
            }
        }
    }
    input
}
