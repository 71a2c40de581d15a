//! The scenarios of `stress`, each for a moment on every engine that works here: what must hold at any speed.

use crate::program::{assert_wrong_usage, ended, run};
use serde_json::Value;

/// Runs one on every engine and wants it to hold.
fn holds(scenario: &str) {
    let folder = tempfile::tempdir().unwrap();
    let args = format!("stress {scenario} --seconds 0.4 --any-speed --json");
    let output = run(folder.path(), &args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(ended(&output), (Some(0), String::new()), "{text}");
    let mut runs = 0;
    for line in text.lines() {
        let run: Value = serde_json::from_str(line).unwrap();
        match run["verdict"].as_str() {
            Some("skip") => eprintln!("skip({}, {})", run["engine"], run["reasons"][0]),
            verdict => assert_eq!(verdict, Some("ok"), "{line}"),
        }
        assert_eq!(run["shortened"], true, "{line}");
        runs += 1;
    }
    assert!(runs >= 1, "no engine works here");
}

/// One test per scenario.
macro_rules! scenarios {
    ($($test:ident: $name:literal),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                holds($name);
            }
        )+

        #[test]
        fn the_list_has_every_scenario() {
            let folder = tempfile::tempdir().unwrap();
            let output = run(folder.path(), "stress --list --json");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(ended(&output), (Some(0), String::new()), "{text}");
            let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            let names: Vec<_> = lines.map(|line| line["name"].as_str().unwrap().to_owned()).collect();
            assert_eq!(names, [$($name),+]);
        }
    };
}

scenarios!(
    timed_out_reads: "timed-out-reads",
    foreign_wakes: "foreign-wakes",
    blocking_sockets: "blocking-sockets",
    descriptors: "descriptors",
    tear_down: "tear-down",
    refusals: "refusals",
    back_pressure: "back-pressure",
    balance: "balance",
    greed: "greed",
    small_ring: "small-ring",
    honest_load: "honest-load",
    hostile: "hostile",
    soak: "soak",
);

#[test]
fn unknown_names_are_2_and_the_known_ones_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("stress timed-out-writes", "tear-down"),
        ("stress 10", "small-ring"),
        ("stress 1 --driver poll", "monoio-legacy"),
        ("stress 1 --seconds 0", "seconds from"),
    ];
    assert_wrong_usage(folder.path(), &cases);
}
