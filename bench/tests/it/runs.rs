//! Short runs with real servers and real loads.

use crate::program::{bench, children_of, ended, eventually, run, start};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::path::Path;

/// Twelve repetitions of a moment each.
const SHORT: &str = "run --allow-debug -p tcp --shards 1,2 --pool 2 --rounds 3 --duration 60ms --warmup 20ms --clients 4 --seed 7 --out out";

fn json(file: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn lines(file: &Path) -> Vec<Value> {
    std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn pid(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap())
}

#[test]
fn every_server_passes_the_test() {
    let folder = tempfile::tempdir().unwrap();
    for args in ["test", "test --ipv6"] {
        let output = run(folder.path(), args);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{text}");
        let last = text.lines().last().unwrap();
        assert!(
            last.ends_with(" passed, 0 failed") && !last.starts_with('0'),
            "{text}"
        );
        for line in ["PASS  tcp   null", "PASS  udp   null", "PASS  udp   pool"] {
            assert!(text.contains(line), "{text}");
        }
    }
}

#[test]
fn the_doctor_looks_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "doctor --json");
    assert_eq!(output.status.code(), Some(0));
    let found: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(found["can_measure"], true, "{found}");
    let text = run(folder.path(), "doctor");
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("this machine can measure"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_run_leaves_its_files_and_prints_json_alone() {
    let folder = tempfile::tempdir().unwrap();
    let output = bench(folder.path(), SHORT)
        .args(["--json", "-"])
        .output()
        .unwrap();
    let (code, stderr) = ended(&output);
    assert_eq!(code, Some(0), "{stderr}");
    let printed: Value =
        serde_json::from_slice(&output.stdout).expect("one JSON document and nothing else");
    assert!(
        stderr.contains("ratio to pool 2") && !stderr.contains('\u{1b}'),
        "{stderr}"
    );
    assert!(
        stderr.lines().all(|line| line.chars().count() <= 100),
        "{stderr}"
    );

    let out = folder.path().join("out");
    assert_eq!(json(&out.join("run.json")), printed);
    assert_eq!(
        (
            printed["complete"].as_bool(),
            printed["interrupted"].as_bool()
        ),
        (Some(true), Some(false))
    );
    assert_eq!(printed["cells"].as_array().unwrap().len(), 4);
    assert_eq!(
        printed["tool"]["executable_sha256"].as_str().unwrap().len(),
        64
    );

    let (plan, journal) = (
        json(&out.join("plan.json")),
        lines(&out.join("samples.jsonl")),
    );
    let timed: Vec<&Value> = journal
        .iter()
        .filter(|line| line["pass"] == "timed")
        .collect();
    let planned = plan["orders"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|round| round.as_array().unwrap());
    let planned: Vec<&Value> = planned
        .map(|at| &plan["cells"][usize::try_from(at.as_u64().unwrap()).unwrap()]["id"])
        .collect();
    assert_eq!(
        timed.iter().map(|line| &line["cell"]).collect::<Vec<_>>(),
        planned,
        "in the planned order"
    );
    assert!(timed.iter().all(
        |line| line["load"]["counters"]["received"].as_u64() > Some(0)
            && line["done"]["done"] == true
    ));
    let passes = |name: &str| journal.iter().filter(|line| line["pass"] == name).count();
    assert_eq!((passes("counted"), passes("floor")), (3, 6));
    assert!(printed["floor"]["null_rt_per_s"].as_f64() > Some(0.0));
    assert!(printed["floor"]["null_rtt_p50_ns"].as_u64() > Some(0));
    assert!(printed["cells"][0]["floor_share"].as_f64() > Some(0.0));
    assert!(stderr.contains("generator  floor "), "{stderr}");
    assert!(
        std::fs::read_to_string(out.join("report.txt"))
            .unwrap()
            .contains("written")
    );
}

#[test]
fn a_signal_leaves_a_valid_partial_result_and_no_children() {
    for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let folder = tempfile::tempdir().unwrap();
        let long = SHORT.replace("--rounds 3", "--no-floor --rounds 500");
        let child = start(folder.path(), &long);
        let journal = folder.path().join("out/samples.jsonl");
        eventually(|| (std::fs::read_to_string(&journal).ok()?.lines().count() >= 5).then_some(()));
        let parent = child.id();
        kill(pid(parent), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(ended(&output).0, Some(code), "{}", ended(&output).1);
        let file = json(&folder.path().join("out/run.json"));
        assert_eq!(
            (file["interrupted"].as_bool(), file["complete"].as_bool()),
            (Some(true), Some(false))
        );
        assert!(file["design"]["rounds_ran"].as_u64() >= Some(1));
        assert_eq!(file["failed_cells"], 0, "an interruption is no failure");
        assert!(children_of(parent, "serve").is_empty() && children_of(parent, "load").is_empty());
    }
}

#[test]
fn a_server_killed_under_load_fails_its_cell_only() {
    let folder = tempfile::tempdir().unwrap();
    let child = start(folder.path(), &SHORT.replace("60ms", "300ms --no-floor"));
    // Where there is a load there is a server that serves.
    let server = eventually(|| {
        children_of(child.id(), "load").first()?;
        children_of(child.id(), "serve").first().copied()
    });
    kill(Pid::from_raw(server), Signal::SIGKILL).unwrap();
    let output = child.wait_with_output().unwrap();
    let (code, stderr) = ended(&output);
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(code, Some(1), "{stderr}");
    assert!(
        stdout.contains("!!! 1 of 4 cells FAILED") || stdout.contains("!!! 2 of 4 cells FAILED"),
        "{stdout}"
    );
    assert!(
        stdout.contains("E-SERVER-DIED") && stdout.contains("signal: 9"),
        "{stdout}"
    );
    let file = json(&folder.path().join("out/run.json"));
    assert_eq!(
        (file["complete"].as_bool(), file["failed_cells"].as_u64()),
        (Some(true), Some(1))
    );
    assert_eq!(
        std::fs::read_dir(folder.path().join("out/logs"))
            .unwrap()
            .count(),
        1,
        "its log is kept"
    );
}
