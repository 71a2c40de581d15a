//! Programs that are not ours echo against `serve`: netcat, socat and Python, over IPv4 and IPv6, on every engine and the pool.
//! A program that is not installed is skipped, and that is said.

use crate::program::{eventually, run};
use crate::server::Server;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};

/// Sends standard input, closes its side, and copies what comes back to standard output until the server has closed too.
const PYTHON: &str = "
import socket, sys, threading
s = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20)
def send():
    s.sendall(sys.stdin.buffer.read())
    s.shutdown(socket.SHUT_WR)
threading.Thread(target=send).start()
while chunk := s.recv(65536):
    sys.stdout.buffer.write(chunk)
";

#[test]
fn netcat_echoes() {
    // The switch that closes the connection at the end of input is OpenBSD's; others call it otherwise or have none.
    let installed = Command::new("nc").arg("-h").output();
    if !installed.is_ok_and(|help| String::from_utf8_lossy(&help.stderr).contains("OpenBSD")) {
        return eprintln!("skip(nc, \"OpenBSD's netcat is not installed\")");
    }
    on_every_server(|address| {
        let mut command = Command::new("nc");
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        command.args(["-N", &host, &port]);
        command
    });
}

#[test]
fn socat_echoes() {
    if Command::new("socat").arg("-V").output().is_err() {
        return eprintln!("skip(socat, \"it is not installed\")");
    }
    on_every_server(|address| {
        let mut command = Command::new("socat");
        command.args(["-t20", "-", &format!("TCP:{address}")]);
        command
    });
}

#[test]
fn python_echoes() {
    if Command::new("python3").arg("--version").output().is_err() {
        return eprintln!("skip(python3, \"it is not installed\")");
    }
    on_every_server(|address| {
        let mut command = Command::new("python3");
        let (host, port) = (address.ip().to_string(), address.port().to_string());
        command.args(["-c", PYTHON, &host, &port]);
        command
    });
}

/// Lets a peer echo against each engine that works here and the pool, on both address families.
fn on_every_server(peer: impl Fn(SocketAddr) -> Command) {
    let folder = tempfile::tempdir().unwrap();
    let sent: Vec<u8> = (0..300_000_u32).map(|at| (at % 251) as u8).collect();
    std::fs::write(folder.path().join("sent"), &sent).unwrap();
    let drivers = ["monoio-uring", "monoio-legacy"];
    let shards = drivers.map(|driver| format!("--shards 2 --driver {driver}"));
    for server in shards.into_iter().chain(["--pool 2".to_owned()]) {
        for listen in ["127.0.0.1:0", "[::1]:0"] {
            let args = format!("--protocol echo {server} --listen {listen}");
            if !works_here(folder.path(), &args) {
                continue;
            }
            let server = Server::start(folder.path(), &args);
            let command = peer(server.address().parse().unwrap());
            let came = through(command, folder.path());
            assert!(
                came == sent,
                "{args}: {} of {} bytes",
                came.len(),
                sent.len()
            );
            assert_eq!(server.end().1, Some(0), "{args}");
        }
    }
}

/// False, and a word about it, where the engine does not work on this machine.
fn works_here(folder: &Path, args: &str) -> bool {
    let listed = String::from_utf8_lossy(&run(folder, "list").stdout).into_owned();
    let driver = args
        .split_whitespace()
        .skip_while(|word| *word != "--driver")
        .nth(1);
    let missing = |driver: &&str| {
        listed
            .lines()
            .any(|line| line.contains(driver) && line.contains("cannot be used"))
    };
    match driver.filter(missing) {
        Some(driver) => {
            eprintln!("skip({driver}, \"not available here\")");
            false
        }
        None => true,
    }
}

/// What comes out of a peer that is fed the file, within the patience of [`eventually`].
fn through(mut command: Command, folder: &Path) -> Vec<u8> {
    let came = folder.join("came");
    let mut process = command
        .stdin(File::open(folder.join("sent")).unwrap())
        .stdout(File::create(&came).unwrap())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let status = eventually(|| process.try_wait().unwrap());
    assert!(status.success(), "{status}");
    std::fs::read(came).unwrap()
}
