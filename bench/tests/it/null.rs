//! The null server through the built program: every byte comes back, it ends when asked, and it says what it is.

use crate::program::{ended, run};
use crate::server::Server;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;

fn null(folder: &Path, protocol: &str) -> Server {
    Server::start(folder, &format!("--null --protocol {protocol}"))
}

#[test]
fn every_reply_is_right_whatever_the_load() {
    let folder = tempfile::tempdir().unwrap();
    for protocol in ["tcp", "echo"] {
        let server = null(folder.path(), protocol);
        assert_eq!(
            (&server.ready["model"], &server.ready["driver"]),
            (&Value::from("null"), &Value::from("null"))
        );
        let mut accepted = 0;
        for load in [
            "--clients 1 --window 16 --payload 1M --messages 20",
            "--clients 40 --window 8 --payload 1K --messages 50",
            "--clients 1 --window 1 --payload 16 --messages 100",
        ] {
            let connect = format!("--protocol {protocol} --connect {}", server.address());
            let output = run(
                folder.path(),
                &format!("load {connect} {load} --verify full --json -"),
            );
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(report["ok"], true, "{load}: {}", report["first_failure"]);
            accepted += report["clients"].as_u64().unwrap();
            let sent = asked_for(load);
            assert_eq!(report["counters"]["received"].as_u64(), Some(sent));
        }
        let (done, code) = server.end();
        assert_eq!(
            (code, done["accepted"].as_u64()),
            (Some(0), Some(accepted)),
            "{done}"
        );
        let lanes = done["per_shard"].as_array().unwrap();
        assert_eq!((lanes.len(), &lanes[0]["accepted"]), (1, &done["accepted"]));
        assert_eq!(done["left_open"], 0, "{done}");
    }
}

/// Clients times messages.
fn asked_for(load: &str) -> u64 {
    let after = |flag: &str| {
        let mut words = load.split(' ').skip_while(|word| *word != flag);
        words.nth(1).unwrap().parse::<u64>().unwrap()
    };
    after("--clients") * after("--messages")
}

#[test]
fn a_half_closed_connection_gets_all_its_bytes_back() {
    let folder = tempfile::tempdir().unwrap();
    let server = null(folder.path(), "echo");
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let sent: Vec<u8> = (0..8_000_000_u32).map(|at| (at % 251) as u8).collect();
    let mut writer = stream.try_clone().unwrap();
    let came = std::thread::scope(|scope| {
        scope.spawn(|| {
            writer.write_all(&sent).unwrap();
            writer.shutdown(Shutdown::Write).unwrap();
        });
        let mut came = Vec::new();
        stream.read_to_end(&mut came).unwrap();
        came
    });
    assert!(came == sent, "{} of {} bytes", came.len(), sent.len());
    assert_eq!(server.end().1, Some(0));
}

#[test]
fn a_peer_that_does_not_read_holds_nobody_up_and_its_end_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let server = null(folder.path(), "echo");
    let mut greedy = TcpStream::connect(server.address()).unwrap();
    greedy.set_nonblocking(true).unwrap();
    // Until nothing more is taken on the whole way; the server may then still move some of it on.
    while greedy.write(&[7; 65_536]).is_ok() {}
    let mut other = TcpStream::connect(server.address()).unwrap();
    other.write_all(b"still there?").unwrap();
    let mut answer = [0; 12];
    other.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"still there?");
    let (done, code) = server.end();
    assert_eq!(
        (code, done["left_open"].as_u64()),
        (Some(0), Some(2)),
        "{done}"
    );
    assert!(
        done["rss_peak_bytes"]
            .as_u64()
            .is_none_or(|peak| peak < 64 << 20),
        "{done}"
    );
}

#[test]
fn what_it_cannot_do_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for args in ["--null --shards 1", "--null --pool 1", "--null --work 5"] {
        let (code, stderr) = ended(&run(folder.path(), &format!("serve --protocol tcp {args}")));
        assert_eq!(code, Some(2), "{args}: {stderr}");
        assert!(stderr.contains("--null"), "{args}: {stderr}");
    }
}
