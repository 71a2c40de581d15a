//! Datagrams through the built program: every model answers, nothing is unaccounted for, and settings are what was asked for.

use crate::program::{bench, ended, run};
use crate::server::Server;
use serde_json::Value;
use std::path::Path;

/// A load against a server: its report.
fn load(folder: &Path, server: &Server, flags: &str) -> Value {
    let connect = format!("load --protocol udp --connect {}", server.address());
    let output = run(folder, &format!("{connect} {flags} --json -"));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A figure that must be there.
fn count(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no count"))
}

#[test]
fn every_model_answers_every_datagram() {
    let folder = tempfile::tempdir().unwrap();
    for (model, accept) in [
        ("--pool 2", Value::Null),
        ("--null", Value::Null),
        ("--shards 2 --accept handoff --spin-us 20", "handoff".into()),
        (
            "--shards 1 --driver monoio-legacy --accept reuseport",
            "reuseport".into(),
        ),
    ] {
        let server = Server::start(folder.path(), &format!("--protocol udp {model}"));
        assert_eq!(server.ready["accept"], accept, "{model}");
        let asked = &server.ready["udp_buffers"]["requested"];
        assert_eq!(
            (count(&asked["send_bytes"]), count(&asked["receive_bytes"])),
            (64 * 1024, 4 * 1024 * 1024)
        );
        let mut sent = 0;
        for flags in [
            "--clients 4 --window 4 --payload 1024 --messages 100",
            "--clients 1 --window 1 --payload 65507 --messages 20",
            "--clients 1 --window 1 --payload 16 --messages 20",
        ] {
            let report = load(folder.path(), &server, &format!("{flags} --udp-timeout 5s"));
            assert_eq!(report["ok"], true, "{model}: {}", report["first_failure"]);
            let whole = &report["udp"]["whole"];
            assert_eq!(whole["sent"], whole["echoed"], "{model}");
            sent += count(&whole["sent"]);
        }
        let (done, code) = server.end();
        assert_eq!(code, Some(0));
        assert_eq!(count(&done["udp"]["received"]), sent, "{model}: {done}");
        assert_eq!(count(&done["udp"]["sent"]), sent, "{model}: {done}");
        assert_eq!(done["faults"], serde_json::json!({}), "{model}");
    }
}

/// Many large datagrams at once against a receive buffer for one: what is missing in the end is what the kernel dropped.
#[test]
fn what_a_tiny_receive_buffer_loses_is_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    for model in ["--pool 2", "--shards 1"] {
        let flags = format!("--protocol udp {model} --rcvbuf 4096 --work 20000");
        let server = Server::start(folder.path(), &flags);
        let report = load(
            folder.path(),
            &server,
            "--clients 4 --window 32 --payload 4096 --messages 50 --udp-timeout 300ms --max-loss 100",
        );
        let (done, _) = server.end();
        assert_eq!(report["ok"], true, "{}", report["first_failure"]);
        let (udp, whole) = (&report["udp"], &report["udp"]["whole"]);
        assert_eq!(
            count(&whole["sent"]),
            count(&whole["echoed"]) + count(&whole["lost"]) + count(&whole["in_flight_end"])
        );
        let Some(server_dropped) = done["udp"]["dropped"].as_u64() else {
            println!("skipped: this system does not tell what a socket dropped");
            return;
        };
        let missing = count(&whole["lost"]) - count(&whole["late"]);
        let dropped = server_dropped + count(&udp["client_dropped"]);
        assert_eq!(missing, dropped, "{model}: {whole} {done}");
    }
}

#[test]
fn a_run_over_udp_has_a_control_a_floor_and_its_losses() {
    let folder = tempfile::tempdir().unwrap();
    let args = "run --allow-debug -p tcp,udp --shards 1 --pool 1 --rounds 3 --duration 40ms --warmup 10ms --clients 2 --window 2 \
                --spin-us 0,5 --accept handoff --udp-timeout 5s --no-progress --out here";
    let output = bench(folder.path(), args)
        .args(["--json", "-"])
        .output()
        .unwrap();
    let (code, stderr) = ended(&output);
    assert_eq!(code, Some(0), "{stderr}");
    let file: Value = serde_json::from_slice(&output.stdout).unwrap();
    let ids: Vec<&str> = file["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|cell| cell["id"].as_str())
        .collect();
    for id in [
        "tcp.pool1.tokio.1024.c2.w2.work0.closed.aa",
        "udp.pool1.tokio.1024.c2.w2.work0.closed.aa",
        "tcp.shards1.auto.1024.c2.w2.work0.closed.spin5",
    ] {
        assert!(ids.contains(&id), "{ids:?}");
    }
    assert_eq!(file["floors"].as_array().unwrap().len(), 2);
    assert_eq!(
        file["comparisons"]["by_protocol"].as_array().unwrap().len(),
        2
    );
    let udp = file["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|cell| cell["factors"]["protocol"] == "udp");
    for repetition in udp.flat_map(|cell| cell["repetitions"].as_array().unwrap()) {
        assert_eq!(repetition["loss"]["lost"], 0, "{repetition}");
        assert!(repetition["udp"]["window"]["echoed"].is_u64());
    }
}
