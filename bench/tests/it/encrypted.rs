//! Protocols with a handshake through the built program: whom a client trusts, what happens when the two do not speak the same, and
//! that a server outlives it.

use crate::program::{assert_wrong_usage, ended, run};
use crate::server::Server;
use serde_json::Value;
use shardloop_protocols::{
    App, Flow, StreamMachine, http1,
    length::{self, Length},
    tls::{ClientConfig, ClientOptions, Provider, Roots, Tls},
};
use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Instant;

/// A server of `protocol` that left the certificate to trust in `ca.pem`, if it has one.
fn serve(folder: &Path, protocol: &str) -> Server {
    let ca = if is_encrypted(protocol) {
        " --write-ca ca.pem"
    } else {
        ""
    };
    Server::start(folder, &format!("--shards 2 --protocol {protocol}{ca}"))
}

fn is_encrypted(protocol: &str) -> bool {
    ["tls", "wss", "https"].contains(&protocol)
}

/// A load of a few messages; its exit code and its report.
fn load(folder: &Path, protocol: &str, server: &Server, more: &str) -> (Option<i32>, Value) {
    let address = server.address();
    let args = format!(
        "load --protocol {protocol} --connect {address} --clients 2 --window 4 --messages 20 --connect-timeout 5s --json - {more}"
    );
    let output = run(folder, &args);
    let report = serde_json::from_slice(&output.stdout);
    (
        output.status.code(),
        report.unwrap_or_else(|_| panic!("{args}: {}", ended(&output).1)),
    )
}

#[test]
fn whoever_speaks_the_same_is_served_and_told_what_was_agreed_on() {
    let folder = tempfile::tempdir().unwrap();
    for protocol in ["tls", "ws", "wss", "http", "https"] {
        let server = serve(folder.path(), protocol);
        let trust = if is_encrypted(protocol) {
            "--ca ca.pem"
        } else {
            ""
        };
        for payload in ["16", "1000", "100000"] {
            let more = format!("{trust} --payload {payload}");
            let (code, report) = load(folder.path(), protocol, &server, &more);
            assert_eq!(code, Some(0), "{protocol} {payload}: {report}");
            assert_eq!(report["counters"]["received"], 40);
            if is_encrypted(protocol) {
                assert_eq!(report["tls"]["version"], "TLS 1.3");
                assert!(report["tls"]["cipher_suite"].is_string());
            } else {
                assert_eq!(report["tls"], Value::Null);
            }
        }
        let (done, code) = server.end();
        assert_eq!((code, &done["left_open"]), (Some(0), &Value::from(0)));
        assert_eq!(done["faults"], serde_json::json!({}), "{protocol}: {done}");
        assert_eq!(done["messages"], 120);
    }
}

#[test]
fn a_server_that_somebody_else_vouches_for_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (mine, other) = (folder.path().join("mine"), folder.path().join("other"));
    std::fs::create_dir(&mine).unwrap();
    std::fs::create_dir(&other).unwrap();
    let server = serve(&mine, "tls");
    let stranger = serve(&other, "tls");
    let (code, report) = load(&other, "tls", &server, "--ca ca.pem");
    assert_eq!(code, Some(1), "{report}");
    assert_eq!(
        report["counters"]["protocol_errors"], 2,
        "one for each connection"
    );
    let failure = report["first_failure"].as_str().unwrap();
    assert!(
        failure.contains("no authority that is trusted here"),
        "{failure}"
    );
    drop(stranger);
    let (code, _) = load(&mine, "tls", &server, "--ca ca.pem");
    assert_eq!(code, Some(0), "it serves on");
    let (done, _) = server.end();
    let faults: u64 = done["faults"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(faults, 2, "{done}");
}

#[test]
fn two_that_do_not_speak_the_same_say_so_and_the_server_serves_on() {
    let folder = tempfile::tempdir().unwrap();
    for (served, spoken) in [
        ("tls", "http"),
        ("wss", "ws"),
        ("http", "tls"),
        ("http", "ws"),
        ("ws", "http"),
        ("https", "tls"),
        ("ws", "tcp"),
    ] {
        let server = serve(folder.path(), served);
        let trust = match (is_encrypted(served), is_encrypted(spoken)) {
            (_, false) => String::new(),
            (true, true) => "--ca ca.pem".to_owned(),
            (false, true) => {
                let other = serve(folder.path(), spoken);
                drop(other);
                "--ca ca.pem".to_owned()
            }
        };
        let (code, report) = load(folder.path(), spoken, &server, &trust);
        assert_eq!(code, Some(1), "{spoken} to {served}: {report}");
        assert!(report["first_failure"].is_string(), "{report}");
        let trust = if is_encrypted(served) {
            "--ca ca.pem"
        } else {
            ""
        };
        let (code, report) = load(folder.path(), served, &server, trust);
        assert_eq!(code, Some(0), "{served} serves on: {report}");
        let (done, code) = server.end();
        assert_eq!(code, Some(0));
        // To an HTTP server a request for WebSocket is a request like any other.
        let unnoticed = (served, spoken) == ("http", "ws");
        assert_eq!(
            done["faults"] == serde_json::json!({}),
            unnoticed,
            "{spoken} to {served}: {done}"
        );
    }
}

/// Asks once over TLS, waits for the answer, and leaves without a goodbye.
fn ask_and_leave<M: StreamMachine>(
    server: &Server,
    machine: M,
    ask: impl FnOnce(M::Reply<'_>),
    answers: &Cell<u32>,
    mut app: impl App<Tls<M>>,
) {
    let ca = server.ready["ca_pem"].as_str().unwrap();
    let roots = Roots::from_pem(ca.as_bytes()).unwrap();
    let options = ClientOptions::usual(roots, "127.0.0.1", Provider::built_in());
    let config = ClientConfig::new(&options).unwrap();
    let mut machine = Tls::client(&config, machine).unwrap();
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let (mut out, mut ask) = (Vec::new(), Some(ask));
    let _ = machine.start(Instant::now(), &mut out).unwrap();
    while answers.get() == 0 {
        stream.write_all(&out).unwrap();
        out.clear();
        if machine.is_ready()
            && let Some(ask) = ask.take()
        {
            machine.send(Instant::now(), &mut out, ask).unwrap();
            continue;
        }
        let mut input = [0; 8192];
        let count = stream.read(&mut input).unwrap();
        assert_ne!(count, 0, "the server left");
        let step = machine.handle(Instant::now(), &mut input[..count], &mut app, &mut out);
        assert_eq!(
            step.unwrap().consumed,
            count,
            "a layer leaves nothing with its caller"
        );
    }
}

#[test]
fn leaving_without_a_goodbye_is_a_fault_only_where_something_may_be_missing() {
    let folder = tempfile::tempdir().unwrap();
    let answers = Cell::new(0);
    let server = serve(folder.path(), "https");
    let client = http1::Client::new("127.0.0.1", http1::ClientOptions::default()).unwrap();
    let ask = |mut ask: http1::Ask<'_>| ask.write("POST", "/", &[], b"hello").unwrap();
    let app = |answer: http1::Answer<'_>, _: http1::Ask<'_>| {
        assert_eq!(answer.body, b"hello");
        answers.set(1);
        Flow::Continue
    };
    ask_and_leave(&server, client, ask, &answers, app);
    let (done, code) = server.end();
    assert_eq!((code, &done["faults"]), (Some(0), &serde_json::json!({})));

    answers.set(0);
    let server = serve(folder.path(), "tls");
    let ask = |mut reply: length::Reply<'_>| reply.send(b"hello").unwrap();
    let app = |answer: &mut [u8], _: length::Reply<'_>| {
        assert_eq!(answer, b"hello");
        answers.set(1);
        Flow::Continue
    };
    ask_and_leave(&server, Length::default(), ask, &answers, app);
    let (done, code) = server.end();
    assert_eq!(code, Some(0));
    assert_eq!(done["faults"].as_object().unwrap().len(), 1, "{done}");
}

#[test]
fn wrong_certificates_and_flags_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    assert_wrong_usage(
        folder.path(),
        &[
            ("load --protocol tls --connect 127.0.0.1:9", "E-CA"),
            (
                "load --protocol ws --connect 127.0.0.1:9 --ca x.pem",
                "E-CA",
            ),
            ("serve --protocol http --null", "--null"),
            ("serve --protocol ws --shards 1 --certs .", "--certs"),
            (
                "serve --protocol tcp --shards 1 --write-ca ca.pem",
                "--write-ca",
            ),
        ],
    );
    std::fs::write(folder.path().join("none.pem"), "nothing").unwrap();
    for (args, part) in [
        (
            "load --protocol tls --connect 127.0.0.1:9 --ca gone.pem",
            "gone.pem",
        ),
        (
            "serve --protocol tls --shards 1 --certs gone",
            "ca.pem, cert.pem, key.pem",
        ),
        (
            "serve --protocol tls --shards 1 --write-ca gone/ca.pem",
            "gone/ca.pem",
        ),
    ] {
        let (code, stderr) = ended(&run(folder.path(), args));
        assert_eq!(code, Some(4), "{args}: {stderr}");
        assert!(stderr.contains(part), "{args}: {stderr}");
    }
    let none = "load --protocol tls --connect 127.0.0.1:9 --ca none.pem";
    let (code, stderr) = ended(&run(folder.path(), none));
    assert!(
        code != Some(0) && stderr.contains("--ca"),
        "{code:?} {stderr}"
    );
}

#[test]
fn certificates_of_a_folder_are_used() {
    let folder = tempfile::tempdir().unwrap();
    // Any server's own files will do: what it made is written by hand here, from the parts it tells.
    let server = serve(folder.path(), "https");
    let told = server.ready["ca_pem"].as_str().unwrap().to_owned();
    let written = std::fs::read_to_string(folder.path().join("ca.pem")).unwrap();
    assert_eq!(told, written);
    std::fs::write(folder.path().join("cert.pem"), &written).unwrap();
    std::fs::write(folder.path().join("key.pem"), &written).unwrap();
    let (code, stderr) = ended(&run(
        folder.path(),
        "serve --protocol https --shards 1 --certs .",
    ));
    assert_eq!(code, Some(4), "{stderr}");
    assert!(stderr.contains("key"), "a certificate is no key: {stderr}");
}
