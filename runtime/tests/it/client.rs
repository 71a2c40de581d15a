//! The other end: plain blocking sockets of the standard library, and seeded content.

use crate::engine;
use socket2::{Domain, Socket, Type};
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    thread,
    time::Duration,
};

/// A reproducible stream of bytes (splitmix64): what is sent, and what must come back.
#[derive(Clone, Debug)]
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// The next `count` bytes. `count` is a multiple of 8 for all but the last piece.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

/// A blocking connection that gives up, with an error, where a test would hang.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream =
        TcpStream::connect(address).unwrap_or_else(|error| panic!("connect to {address}: {error}"));
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a socket takes a timeout");
    stream
        .set_write_timeout(Some(Duration::from_secs(60)))
        .expect("a socket takes a timeout");
    stream
        .set_nodelay(true)
        .expect("a TCP socket takes TCP_NODELAY");
    stream
}

/// Sends `bytes` and reads as many back; they must be the same. Sends and reads at the same time, as an echo needs it.
pub(crate) fn round_trip(stream: &TcpStream, bytes: &[u8]) {
    let mut back = vec![0; bytes.len()];
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut writing = stream;
            writing
                .write_all(bytes)
                .expect("the server takes what we send");
        });
        let mut reading = stream;
        reading.read_exact(&mut back).expect("the server answers");
    });
    assert!(back == bytes, "{} bytes came back changed", bytes.len());
}

/// As [`round_trip`], for messages that any socket buffer takes whole.
pub(crate) fn ping(mut stream: &TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    let mut back = vec![0; bytes.len()];
    stream.write_all(bytes)?;
    stream.read_exact(&mut back)?;
    assert!(back == bytes, "{} bytes came back changed", bytes.len());
    Ok(())
}

/// Closes our side and returns everything that still comes.
pub(crate) fn finish(mut stream: &TcpStream) -> Vec<u8> {
    stream
        .shutdown(Shutdown::Write)
        .expect("a connection can be half closed");
    let mut rest = Vec::new();
    stream
        .read_to_end(&mut rest)
        .expect("the server closes its side");
    rest
}

/// A listener with a full backlog: connecting to it takes for ever.
pub(crate) struct Deaf {
    pub(crate) address: SocketAddr,
    _listener: Socket,
    filling: Vec<TcpStream>,
}

impl Deaf {
    /// Connections after which a backlog that does not fill is believed not to.
    const MOST: usize = 64;

    pub(crate) fn new() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        listener.bind(&engine::v4().into()).expect("a free port");
        listener.listen(0).expect("it listens");
        let address = listener
            .local_addr()
            .expect("bound")
            .as_socket()
            .expect("an IPv4 address");
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
        let filling = (0..Self::MOST).map_while(connect).collect();
        Self {
            address,
            _listener: listener,
            filling,
        }
    }

    /// Whether it is as it should be.
    pub(crate) fn is_full(&self) -> bool {
        self.filling.len() < Self::MOST
    }
}
