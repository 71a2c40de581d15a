//! Wrong requests: each has its message and its exit code, and nothing runs.

use crate::program::{assert_wrong_usage, ended, run};

#[test]
fn wrong_usage_is_2_and_names_its_error() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("run --protocols smtp", "E-PROTOCOL"),
        ("run --driver poll", "E-DRIVER"),
        ("run --shards 0", "E-RANGE"),
        ("run --pool 65", "E-RANGE"),
        ("run --shards none --pool none", "E-EMPTY"),
        ("run --shards 1,1", "E-DUPLICATE"),
        ("run --payload 15", "E-RANGE"),
        ("run --payload 64..x", "E-LIST"),
        (
            "run -p tcp --clients 1024 --window 1024 --payload 64K",
            "E-CAP",
        ),
        (
            "run --payload 65508",
            "udp/ipv4 payload 65508 exceeds 65507 (65535 - 20 IP - 8 UDP)",
        ),
        ("run --ipv6 -p udp --payload 65528", "exceeds 65527"),
        ("run --shards none --accept shared", "E-POOL"),
        ("run -p udp --accept shared", "E-ACCEPT"),
        ("serve --protocol udp --shards 2 --accept shared", "handoff"),
        (
            "serve --protocol udp --pool 2 --accept reuseport",
            "a pool has one listener or socket for all",
        ),
        ("serve --protocol tcp --pool 2 --spin-us 5", "--spin-us 5"),
        ("run --rounds 2", "3..=1000"),
        ("run --duration 0", "at least 1 ms"),
        ("run --order sorted", "possible values"),
        ("serve --protocol tcp", "neither --shards N nor --pool N"),
        (
            "serve --protocol tcp --pool 1 --driver monoio-legacy",
            "a pool has its own engine",
        ),
        (
            "serve --protocol tcp --shards 1 --driver sim",
            "simulates time and network",
        ),
        ("run --driver sim", "E-DRIVER"),
        ("walk", "unrecognized subcommand"),
    ];
    assert_wrong_usage(folder.path(), &cases);
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "no folder was made"
    );
}

#[test]
fn a_place_that_cannot_be_written_is_4() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    for args in [
        "--allow-debug --out file/run",
        "run --allow-debug --out fine --json file/run.json",
    ] {
        let (code, stderr) = ended(&run(folder.path(), args));
        assert_eq!(code, Some(4), "{args}: {stderr}");
        assert!(
            stderr.contains("E-OUT") && stderr.contains("--out"),
            "{args}: {stderr}"
        );
    }
}

#[cfg(debug_assertions)]
#[test]
fn a_debug_build_is_refused_where_figures_are_made() {
    let folder = tempfile::tempdir().unwrap();
    for args in ["", "quick", "run"] {
        let (code, stderr) = ended(&run(folder.path(), args));
        assert_eq!(code, Some(2), "{args}: {stderr}");
        assert!(
            stderr.contains("E-DEBUG") && stderr.contains("cargo run --release -p bench"),
            "{stderr}"
        );
    }
}

#[test]
fn a_dry_run_and_a_list_run_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let dry = run(
        folder.path(),
        "run --dry-run --seed 7 --shards 1,2 --pool 2 -p tcp",
    );
    assert_eq!(dry.status.code(), Some(0));
    assert_eq!(
        dry.stdout,
        run(
            folder.path(),
            "run --dry-run --seed 7 --shards 1,2 --pool 2 -p tcp"
        )
        .stdout,
        "one plan per seed"
    );
    let text = String::from_utf8_lossy(&dry.stdout).into_owned();
    assert!(
        text.contains("tcp.shards2.auto.1024.c16.w8.work0.closed")
            && text
                .contains("floor first: the null server at 1 x 1 x 1024 B and at 16 x 8 x 1024 B"),
        "{text}"
    );
    let many = run(folder.path(), "run --dry-run --shards 64");
    assert!(
        String::from_utf8_lossy(&many.stdout).contains("W-OVERSUBSCRIBED")
            || std::thread::available_parallelism().unwrap().get() >= 64
    );
    let list = run(folder.path(), "list --payload 64,1K -p echo");
    let text = String::from_utf8_lossy(&list.stdout).into_owned();
    assert!(
        text.contains("protocols   tcp, echo")
            && text.contains("monoio-legacy")
            && text.contains("echo."),
        "{text}"
    );
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        0,
        "no folder was made"
    );
}

#[test]
fn help_tells_how_long_a_drain_lasts() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "serve --help");
    let help = String::from_utf8(output.stdout).unwrap();
    let words: Vec<&str> = help.split_whitespace().collect();
    assert!(words.join(" ").contains("for at most 10 s."), "{help}");
}
