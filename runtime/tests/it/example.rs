//! The shipped example, as somebody runs it who has just found this crate.

use crate::{
    client::{self, Seeded},
    engine::on_every_engine,
};
use shardloop::Backend;
use shardloop_platform::signal::{self, Signal};
use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

on_every_engine!(
    ;
    kernel
    "its clients are outside its process": echo_serves_and_ends_on_sigterm,
    "other servers are none of its world's": echo_says_what_is_wrong,
);

/// Next to this test: `target/<profile>/examples/echo`, where `target/<profile>/deps` has the test.
fn echo() -> Command {
    let test = std::env::current_exe().expect("a test knows its own file");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("in the folder deps of a profile");
    let example: PathBuf = [profile.as_os_str(), "examples".as_ref(), "echo".as_ref()]
        .iter()
        .collect();
    assert!(
        example.exists(),
        "{} is missing: cargo test builds it, cargo test --test it does not",
        example.display()
    );
    Command::new(example)
}

/// Ends the process if the test fails first.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Errors when it has ended already, as it should have.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn echo_serves_and_ends_on_sigterm<B: Backend>() {
    let mut command = echo();
    command
        .args([B::NAME, "127.0.0.1:0", "2"])
        .stdout(Stdio::piped());
    let mut running = Running(
        signal::with_default_signals(&mut command)
            .spawn()
            .expect("it starts"),
    );
    let mut output = BufReader::new(running.0.stdout.take().expect("piped"));
    let mut line = String::new();
    output
        .read_line(&mut line)
        .expect("it says where it listens");
    assert!(
        line.starts_with(&format!("2 shards on {} listen on ", B::NAME)),
        "{line:?}"
    );
    let address: SocketAddr = line
        .trim()
        .rsplit(' ')
        .next()
        .expect("words")
        .parse()
        .expect("an address");

    let streams: Vec<_> = (0..4).map(|_| client::connect(address)).collect();
    let mut seeded = Seeded::new(21);
    for stream in &streams {
        client::round_trip(stream, &seeded.bytes(100_000));
    }
    signal::send(running.0.id(), Signal::Terminate).expect("it runs");
    // It ends although connections are open: these are closed, not reset.
    for mut stream in streams {
        assert_eq!(stream.read(&mut [0]).expect("closed, not reset"), 0);
    }
    let mut rest = String::new();
    output.read_to_string(&mut rest).expect("text");
    assert!(running.0.wait().expect("it ends").success(), "{rest}");
    assert!(
        rest.contains("shard 0: 2 connections") && rest.contains("shard 1: 2 connections"),
        "{rest}"
    );
}

fn echo_says_what_is_wrong<B: Backend>() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = taken
        .local_addr()
        .map(|address| (taken, address))
        .expect("bound");
    let address = taken.1.to_string();
    for (arguments, expected) in [
        (["no-such-engine", "127.0.0.1:0", "1"], "monoio-legacy"),
        ([B::NAME, &address, "1"], "another server already does"),
        ([B::NAME, "127.0.0.1:0", "0"], "1 to 1024 shards"),
    ] {
        let output = echo().args(arguments).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains(expected),
            "{arguments:?}: {text}"
        );
        assert!(!text.contains("panicked"), "{text}");
    }
}
