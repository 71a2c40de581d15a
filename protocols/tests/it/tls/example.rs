//! The shipped example, over the sockets of this host: a machine of this crate as its client.

use super::{
    Authority, EACH_VERSION,
    authority::LOCAL_NAMES,
    pair::{End, Listening},
};
use shardloop_protocols::{
    StreamMachine,
    echo::Echo,
    tls::{ClientConfig, ClientOptions, Provider, Tls},
};
use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

/// Ended with the test.
struct Running {
    process: Child,
    address: SocketAddr,
}

impl Running {
    fn start(folder: &Path) -> Self {
        let mut process = Command::new(example())
            .args(["0".as_ref(), folder.join("cert.pem").as_os_str()])
            .args([folder.join("key.pem").as_os_str(), "echo".as_ref()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("it says where it listens");
        let address = line.trim().strip_prefix("listening on ");
        let address = address.and_then(|address| address.parse().ok());
        Self {
            process,
            address: address.unwrap_or_else(|| panic!("no address: {line:?}")),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Errors when it has ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Next to this test: `target/<profile>/examples/NAME`, where `target/<profile>/deps` has the test.
fn example() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    let profile = test
        .ancestors()
        .nth(2)
        .expect("in the folder deps of a profile");
    let example = profile.join("examples").join("tls_echo");
    assert!(
        example.exists(),
        "{} is missing: cargo test builds it, cargo test --test it does not",
        example.display()
    );
    example
}

/// A client's end and its socket.
struct Client {
    end: End<Tls<Echo>, Listening>,
    stream: TcpStream,
}

impl Client {
    fn connect(config: &ClientConfig, address: SocketAddr) -> Self {
        let machine = Tls::client(config, Echo).expect("this host has random numbers");
        let mut end = End::new(machine, Listening::default());
        end.start(Instant::now());
        let stream = TcpStream::connect(address).expect("it listens");
        Self { end, stream }
    }

    /// Sends and receives until `is_enough`, or the stream's end.
    fn turn_until(&mut self, is_enough: impl Fn(&End<Tls<Echo>, Listening>) -> bool) {
        let mut buffer = [0; 4096];
        while !is_enough(&self.end) {
            let sent = std::mem::take(&mut self.end.sent);
            self.stream.write_all(&sent).expect("the server listens on");
            match self.stream.read(&mut buffer).expect("the server answers") {
                0 => return self.end.end_of_input(Instant::now()),
                bytes => self.end.hear(Instant::now(), &buffer[..bytes]),
            }
        }
    }
}

#[test]
fn the_example_echoes_to_clients_of_either_version() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tls_echo");
    fs::create_dir_all(&folder).expect("tests may write there");
    let authority = Authority::new("test authority");
    let pems = authority.server_named(&LOCAL_NAMES);
    fs::write(folder.join("cert.pem"), &pems.chain).expect("the folder is there");
    fs::write(folder.join("key.pem"), &pems.key).expect("the folder is there");
    let running = Running::start(&folder);
    let payload = vec![7; 20_000];
    for versions in EACH_VERSION {
        let config = ClientConfig::new(&ClientOptions {
            versions,
            protocols: vec![b"echo".to_vec()],
            ..ClientOptions::usual(authority.roots(), "127.0.0.1", Provider::built_in())
        })
        .expect("the options are valid");
        for is_resumed in [false, true] {
            let mut client = Client::connect(&config, running.address);
            client.turn_until(|end| end.machine.is_ready());
            assert_eq!(client.end.machine.protocol(), Some(&b"echo"[..]));
            assert_eq!(client.end.machine.is_resumed(), is_resumed);
            let sent = client
                .end
                .send(Instant::now(), |mut reply| reply.send(&payload));
            assert_eq!(sent, Ok(()));
            client.turn_until(|end| end.app.notes.len() >= payload.len());
            assert!(client.end.app.notes == payload);
            client.end.close(Instant::now());
            assert_eq!(client.end.end.take(), Some(Ok(())));
            client.turn_until(|_| false);
            assert_eq!(client.end.end, Some(Ok(())), "the server closes as well");
        }
    }
}
