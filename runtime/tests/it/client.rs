//! The other end: a connection of the engine itself, plain blocking sockets of the standard library, and seeded content.

use crate::engine::{self, Server};
use shardloop::{
    Address, Backend, ConnectOptions, RecvHalf, SendHalf, Stream, StreamOptions, join,
};
use socket2::{Domain, Socket, Type};
use std::{
    future::{Future, poll_fn},
    io::{self, ErrorKind, Read, Write},
    net::{Shutdown, SocketAddr, TcpStream},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    task::{Poll, Waker},
    thread,
    time::Duration,
};

/// What the connections of these tests are set to.
pub(crate) const STREAM: StreamOptions = StreamOptions {
    nodelay: true,
    send_buffer_bytes: None,
    receive_buffer_bytes: None,
};

pub(crate) fn connecting(deadline: Duration) -> ConnectOptions {
    ConnectOptions {
        stream: STREAM,
        deadline,
    }
}

/// Long enough for whatever is to happen.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// A client's connection, on the engine under test.
pub(crate) struct Talk<B: Backend> {
    recv: <B::Stream as Stream>::Recv,
    send: <B::Stream as Stream>::Send,
    /// Received and not read yet.
    rest: Vec<u8>,
}

impl<B: Backend> Talk<B> {
    pub(crate) async fn to(server: &Server) -> Self {
        let talk = Self::try_to(&server.address()).await;
        talk.unwrap_or_else(|error| panic!("connect to {}: {error}", server.address()))
    }

    pub(crate) async fn try_to(address: &Address) -> io::Result<Self> {
        let stream = B::connect(std::slice::from_ref(address), &connecting(LONG)).await?;
        Ok(Self::on(stream))
    }

    pub(crate) fn on(stream: B::Stream) -> Self {
        let (recv, send) = stream.into_split();
        Self {
            recv,
            send,
            rest: Vec::new(),
        }
    }

    pub(crate) async fn write(&mut self, bytes: impl Into<Vec<u8>>) -> io::Result<()> {
        self.send.send_all(bytes.into()).await.0
    }

    /// Exactly `count` bytes.
    pub(crate) async fn read(&mut self, count: usize) -> io::Result<Vec<u8>> {
        read::<B>(&mut self.recv, &mut self.rest, count).await
    }

    /// As much as has come, at least one byte; none at the end.
    pub(crate) async fn read_some(&mut self) -> io::Result<Vec<u8>> {
        if self.rest.is_empty() {
            self.rest = self.recv.recv().await?.to_vec();
        }
        Ok(std::mem::take(&mut self.rest))
    }

    /// Everything until the peer closes its side.
    pub(crate) async fn read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let mut all = std::mem::take(&mut self.rest);
        loop {
            let lease = self.recv.recv().await?;
            if lease.is_empty() {
                return Ok(all);
            }
            all.extend_from_slice(&lease);
        }
    }

    /// Sends `bytes` and reads as many back; they must be the same. Sends and reads at the same time, as an echo needs it.
    pub(crate) async fn round_trip(&mut self, bytes: &[u8]) {
        let sending = self.send.send_all(bytes.to_vec());
        let reading = read::<B>(&mut self.recv, &mut self.rest, bytes.len());
        let (sent, back) = join(sending, reading).await;
        sent.0.expect("the server takes what we send");
        let back = back.expect("the server answers");
        assert!(back == bytes, "{} bytes came back changed", bytes.len());
    }

    /// As [`round_trip`](Self::round_trip), for messages that any buffer takes whole.
    pub(crate) async fn ping(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes).await?;
        let back = self.read(bytes.len()).await?;
        assert!(back == bytes, "{} bytes came back changed", bytes.len());
        Ok(())
    }

    pub(crate) async fn shutdown(&mut self) {
        let closed = self.send.shutdown_write().await;
        closed.expect("a connection can be half closed");
    }

    /// Closes our side and returns everything that still comes.
    pub(crate) async fn finish(self) -> Vec<u8> {
        let rest = self.try_finish().await;
        rest.expect("the server closes its side")
    }

    pub(crate) async fn try_finish(mut self) -> io::Result<Vec<u8>> {
        self.send.shutdown_write().await?;
        self.read_to_end().await
    }
}

async fn read<B: Backend>(
    recv: &mut <B::Stream as Stream>::Recv,
    rest: &mut Vec<u8>,
    count: usize,
) -> io::Result<Vec<u8>> {
    while rest.len() < count {
        let lease = recv.recv().await?;
        if lease.is_empty() {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        rest.extend_from_slice(&lease);
    }
    let later = rest.split_off(count);
    Ok(std::mem::replace(rest, later))
}

/// A counter that a task waits for and others raise, on whatever thread.
#[derive(Default)]
pub(crate) struct Bell {
    rung: AtomicU64,
    waiting: Mutex<Option<Waker>>,
}

impl Bell {
    pub(crate) fn ring(&self) {
        self.rung.fetch_add(1, Ordering::Release);
        let waker = self.waiting.lock().expect("not poisoned").take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Waits until it has rung `count` times.
    pub(crate) fn rung(&self, count: u64) -> impl Future<Output = ()> {
        poll_fn(move |cx| {
            *self.waiting.lock().expect("not poisoned") = Some(cx.waker().clone());
            if self.rung.load(Ordering::Acquire) >= count {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
    }
}

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
    _filling: Vec<TcpStream>,
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
            _filling: filling,
        }
    }
}
