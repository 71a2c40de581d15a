//! The shipped examples, as somebody runs them who has just found this crate.

use crate::{
    client::{self, Seeded},
    engine::on_every_engine,
};
use shardloop::Backend;
use shardloop_platform::signal::{self, Signal};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
};

on_every_engine!(
    ;
    kernel
    "its clients are outside its process": echo_serves_and_ends_on_sigterm,
    "other servers are none of its world's": echo_says_what_is_wrong,
    "its clients are outside its process": chat_carries_lines_across_shards,
    "its clients are outside its process": chat_sends_away_who_says_too_much_at_once,
    "its clients are outside its process": proxy_passes_everything_on_both_ways,
    "its clients are outside its process": proxy_bridges_to_unix_sockets,
    "its clients are outside its process": proxy_lets_go_of_clients_whose_target_is_gone,
);

/// Next to this test: `target/<profile>/examples/NAME`, where `target/<profile>/deps` has the test.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("a test knows its own file");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("in the folder deps of a profile");
    let example: PathBuf = [profile.as_os_str(), "examples".as_ref(), name.as_ref()]
        .iter()
        .collect();
    assert!(
        example.exists(),
        "{} is missing: cargo test builds it, cargo test --test it does not",
        example.display()
    );
    Command::new(example)
}

/// An example that serves; ended if the test fails first.
struct Running {
    process: Child,
    output: BufReader<ChildStdout>,
    /// Its first line.
    line: String,
}

impl Running {
    fn start(name: &str, arguments: &[&str]) -> Self {
        let mut command = example(name);
        command.args(arguments).stdout(Stdio::piped());
        let mut process = signal::with_default_signals(&mut command)
            .spawn()
            .expect("it starts");
        let mut output = BufReader::new(process.stdout.take().expect("piped"));
        let mut line = String::new();
        output
            .read_line(&mut line)
            .expect("it says where it listens");
        Self {
            process,
            output,
            line: line.trim().to_owned(),
        }
    }

    /// The address among the words of its first line.
    fn address(&self) -> SocketAddr {
        self.line
            .split(' ')
            .find_map(|word| word.parse().ok())
            .unwrap_or_else(|| panic!("no address: {:?}", self.line))
    }

    fn connect(&self) -> TcpStream {
        client::connect(self.address())
    }

    fn terminate(&self) {
        signal::send(self.process.id(), Signal::Terminate).expect("it runs");
    }

    /// Waits for an orderly end, and returns what else it said.
    fn end(mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        assert!(self.process.wait().expect("it ends").success(), "{rest}");
        rest
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Errors when it has ended already, as it should have.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn echo_serves_and_ends_on_sigterm<B: Backend>() {
    let running = Running::start("echo", &[B::NAME, "127.0.0.1:0", "2"]);
    let expected = format!("2 shards on {} listen on ", B::NAME);
    assert!(running.line.starts_with(&expected), "{:?}", running.line);
    let streams: Vec<_> = (0..4).map(|_| running.connect()).collect();
    let mut seeded = Seeded::new(21);
    for stream in &streams {
        client::round_trip(stream, &seeded.bytes(100_000));
    }
    running.terminate();
    // It ends although connections are open: these are closed, not reset.
    for mut stream in streams {
        assert_eq!(stream.read(&mut [0]).expect("closed, not reset"), 0);
    }
    let rest = running.end();
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
        let output = example("echo").args(arguments).output().expect("it starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains(expected),
            "{arguments:?}: {text}"
        );
        assert!(!text.contains("panicked"), "{text}");
    }
}

/// A guest of the chat: reads lines, says lines.
struct Guest(BufReader<TcpStream>);

impl Guest {
    fn enter(chat: &Running) -> Self {
        let mut guest = Self(BufReader::new(chat.connect()));
        let greeting = guest.hears();
        assert!(greeting.starts_with("you are guest "), "{greeting:?}");
        guest
    }

    fn says(&self, text: &str) {
        self.0.get_ref().write_all(text.as_bytes()).expect("sent");
    }

    /// The next line; empty at the end.
    fn hears(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("a line, or the end");
        line
    }
}

fn chat_carries_lines_across_shards<B: Backend>() {
    let chat = Running::start("chat", &[B::NAME, "127.0.0.1:0", "2"]);
    // Handed out in turn: two on each shard.
    let mut guests: Vec<_> = (0..4).map(|_| Guest::enter(&chat)).collect();
    for speaker in 0..4 {
        // In pieces, and two lines at once.
        guests[speaker].says("hel");
        guests[speaker].says("lo\nand so on\n");
        for (listener, guest) in guests.iter_mut().enumerate() {
            if listener != speaker {
                assert_eq!(guest.hears(), format!("guest {speaker}: hello\n"));
                assert_eq!(guest.hears(), format!("guest {speaker}: and so on\n"));
            }
        }
    }
    drop(guests.remove(0));
    guests[0].says("still here\n");
    assert_eq!(guests[1].hears(), "guest 1: still here\n");
    chat.terminate();
    assert_eq!(guests[2].hears(), "guest 1: still here\n");
    assert_eq!(guests[2].hears(), "", "the room is closed");
    let rest = chat.end();
    assert!(
        rest.contains("shard 0: 2 guests") && rest.contains("shard 1: 2 guests"),
        "{rest}"
    );
}

fn chat_sends_away_who_says_too_much_at_once<B: Backend>() {
    let chat = Running::start("chat", &[B::NAME, "127.0.0.1:0", "1"]);
    let (mut babbler, mut other) = (Guest::enter(&chat), Guest::enter(&chat));
    babbler.says(&"x".repeat(5000));
    // Closed with unread input, or in order: it is gone in either case.
    let mut line = String::new();
    assert!(matches!(babbler.0.read_line(&mut line), Ok(0) | Err(_)));
    Guest::enter(&chat).says("hello\n");
    assert_eq!(other.hears(), "guest 2: hello\n");
    chat.terminate();
    chat.end();
}

fn through_the_proxy<B: Backend>(target: &str, front: &str) {
    let proxy = Running::start("proxy", &[target, front, B::NAME, "2"]);
    let mut seeded = Seeded::new(22);
    for _ in 0..4 {
        let stream = proxy.connect();
        client::round_trip(&stream, &seeded.bytes(1));
        client::round_trip(&stream, &seeded.bytes(1 << 20));
        // What the target says after the client has ended still arrives, and then its end.
        assert!(client::finish(&stream).is_empty());
    }
    proxy.terminate();
    proxy.end();
}

fn proxy_passes_everything_on_both_ways<B: Backend>() {
    let echo = Running::start("echo", &[B::NAME, "127.0.0.1:0", "1"]);
    through_the_proxy::<B>(&echo.address().to_string(), "127.0.0.1:0");
}

fn proxy_bridges_to_unix_sockets<B: Backend>() {
    let echo = Running::start("echo", &[B::NAME, "127.0.0.1:0", "1"]);
    let name = format!("shardloop-proxy-{}-{}.sock", std::process::id(), B::NAME);
    let path = std::env::temp_dir().join(name);
    let behind = format!("unix:{}", path.display());
    let target = echo.address().to_string();
    let back = Running::start("proxy", &[&target, &behind, B::NAME, "1"]);
    through_the_proxy::<B>(&behind, "127.0.0.1:0");
    back.terminate();
    back.end();
    let _ = std::fs::remove_file(path);
}

fn proxy_lets_go_of_clients_whose_target_is_gone<B: Backend>() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let target = gone.local_addr().expect("bound").to_string();
    drop(gone);
    let proxy = Running::start("proxy", &[&target, "127.0.0.1:0", B::NAME, "1"]);
    assert!(matches!(proxy.connect().read(&mut [0]), Ok(0) | Err(_)));
    proxy.terminate();
    proxy.end();
}
