//! The null server: what the load generator is measured against to learn its own limit, the floor.
//!
//! One thread, one poll, and bytes go back as they come: no message is parsed and none of the library under test is on the way, so
//! it answers whatever is framed and whatever is not. A connection that does not take its bytes is not read from until it has: the
//! server owns at most one read's worth of bytes per connection.

use super::{
    handler::{Job, kind},
    null_datagrams::NullDatagrams,
};
use crate::contract::Buffers;
use mio::{
    Events, Interest, Poll, Registry, Token, Waker,
    event::Event,
    net::{TcpListener, TcpStream},
};
use shardloop_platform::socket::{BindError, ListenOptions, listen};
use std::{
    io::{self, Read, Write},
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Bytes of one read; the generator reads as many.
const READ_BYTES: usize = 256 * 1024;
/// Reads of one connection before others have their turn.
const TURN_READS: usize = 8;
/// How long accepting pauses after it failed, most likely for want of descriptors.
pub(super) const BACK_OFF: Duration = Duration::from_millis(100);

const LISTENER: Token = Token(usize::MAX - 1);
const STOP: Token = Token(usize::MAX - 2);

/// A null server that listens.
#[derive(Debug)]
pub(crate) struct NullServer {
    job: Arc<Job>,
    pub(crate) address: SocketAddr,
    /// Of the socket of datagrams.
    pub(crate) granted: Option<Buffers>,
    poll: Poll,
    door: Door,
    end: Arc<End>,
}

/// Where clients come in.
#[derive(Debug)]
enum Door {
    Streams(TcpListener),
    Datagrams(Box<NullDatagrams>),
}

/// Why there is none.
#[derive(Debug)]
pub(crate) enum NullError {
    Bind(BindError),
    Poll(io::Error),
}

impl NullServer {
    /// Listens; connections are served once [`Self::wait`] is called. Of `job` only the counters are used, and whether it is about
    /// datagrams.
    pub(crate) fn start(
        job: Arc<Job>,
        address: SocketAddr,
        buffers: Buffers,
    ) -> Result<Self, NullError> {
        if job.speech.protocol.is_datagram() {
            let datagrams = NullDatagrams::bind(address, buffers)?;
            return Self::with_datagrams(job, datagrams).map_err(NullError::Poll);
        }
        // The same as the other servers.
        let options = ListenOptions {
            address,
            backlog: 1024,
            reuse_port: false,
            only_v6: true,
        };
        let listener = listen(&options).map_err(NullError::Bind)?;
        Self::with(job, listener).map_err(NullError::Poll)
    }

    fn with(job: Arc<Job>, listener: std::net::TcpListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let mut listener = TcpListener::from_std(listener);
        let poll = Poll::new()?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self {
            job,
            address,
            granted: None,
            end: End::new(&poll)?,
            poll,
            door: Door::Streams(listener),
        })
    }

    fn with_datagrams(job: Arc<Job>, mut datagrams: NullDatagrams) -> io::Result<Self> {
        let poll = Poll::new()?;
        datagrams.register(poll.registry(), LISTENER)?;
        Ok(Self {
            job,
            address: datagrams.address,
            granted: datagrams.granted,
            end: End::new(&poll)?,
            poll,
            door: Door::Datagrams(Box::new(datagrams)),
        })
    }

    pub(crate) fn stopper(&self) -> NullStopper {
        NullStopper(self.end.clone())
    }

    /// Serves on this thread until it is asked to end. It ends at once; returns how many connections that cut off.
    pub(crate) fn wait(self) -> u64 {
        let Self {
            job,
            poll,
            door,
            end,
            ..
        } = self;
        let mut turns = Turns {
            poll,
            events: Events::with_capacity(1024),
            end,
        };
        match door {
            Door::Streams(listener) => {
                let mut service = Service::new(&job, listener);
                while turns.wait(service.patience(), &job) {
                    service.turn(&turns.events, turns.poll.registry());
                }
                service.open()
            }
            Door::Datagrams(mut datagrams) => {
                while turns.wait(datagrams.patience(), &job) {
                    datagrams.turn(&job);
                }
                job.datagrams.dropped(datagrams.dropped());
                0
            }
        }
    }
}

/// One poll after the other, until the server is asked to end.
struct Turns {
    poll: Poll,
    events: Events,
    end: Arc<End>,
}

impl Turns {
    /// Waits for events. False at the end.
    fn wait(&mut self, patience: Option<Duration>, job: &Job) -> bool {
        if self.end.asked.load(Ordering::Acquire) {
            return false;
        }
        if let Err(error) = self.poll.poll(&mut self.events, patience) {
            if error.kind() != io::ErrorKind::Interrupted {
                job.note(format!("the poll failed: {}", error.kind()));
                return false;
            }
            self.events.clear();
        }
        true
    }
}

/// Asks a null server to end, from any thread.
#[derive(Clone, Debug)]
pub(crate) struct NullStopper(Arc<End>);

impl NullStopper {
    pub(crate) fn stop(&self) {
        self.0.asked.store(true, Ordering::Release);
        // It fails where the poll is gone, and then so is the server.
        let _ = self.0.waker.wake();
    }
}

#[derive(Debug)]
struct End {
    asked: AtomicBool,
    waker: Waker,
}

impl End {
    fn new(poll: &Poll) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            asked: AtomicBool::new(false),
            waker: Waker::new(poll.registry(), STOP)?,
        }))
    }
}

/// Listener and connections on their way.
struct Service<'a> {
    job: &'a Job,
    listener: TcpListener,
    /// Connections that are due may wait for the listener: accepting failed, and no event will tell when to try again.
    accept_owed: bool,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Connections whose turn ended before their bytes did.
    again: Vec<usize>,
    input: Vec<u8>,
}

impl<'a> Service<'a> {
    fn new(job: &'a Job, listener: TcpListener) -> Self {
        Self {
            job,
            listener,
            accept_owed: false,
            connections: Vec::new(),
            free: Vec::new(),
            again: Vec::new(),
            input: vec![0; READ_BYTES],
        }
    }

    /// How long the poll may wait.
    fn patience(&self) -> Option<Duration> {
        if !self.again.is_empty() {
            Some(Duration::ZERO)
        } else {
            self.accept_owed.then_some(BACK_OFF)
        }
    }

    fn open(&self) -> u64 {
        self.connections.iter().flatten().count() as u64
    }

    /// What one poll brought, and what the turn before it left over.
    fn turn(&mut self, events: &Events, registry: &Registry) {
        let left_over = std::mem::take(&mut self.again);
        for event in events {
            match event.token() {
                STOP => {}
                LISTENER => self.accept_owed = true,
                Token(index) => self.announced(index, event, registry),
            }
        }
        for index in left_over {
            self.serve(index, registry);
        }
        if self.accept_owed {
            self.accept_owed = self.accept(registry).is_err();
        }
    }

    /// Takes every connection that waits.
    fn accept(&mut self, registry: &Registry) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(stream, registry),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(()),
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => return Err(error),
                },
            }
        }
    }

    fn admit(&mut self, stream: TcpStream, registry: &Registry) {
        let index = self.free.pop().unwrap_or(self.connections.len());
        match Connection::new(stream, Token(index), registry) {
            Ok(connection) => {
                if index == self.connections.len() {
                    self.connections.push(None);
                }
                self.connections[index] = Some(connection);
                self.job.lanes.accepted();
            }
            Err(error) => {
                self.job.note(kind(&error));
                if index < self.connections.len() {
                    self.free.push(index);
                }
            }
        }
    }

    fn announced(&mut self, index: usize, event: &Event, registry: &Registry) {
        if let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) {
            connection.ending |= event.is_read_closed() || event.is_error();
        }
        self.serve(index, registry);
    }

    /// A turn of one connection. An event of one that is gone may still come, and finds none or a new one; neither minds.
    fn serve(&mut self, index: usize, registry: &Registry) {
        let Some(connection) = self.connections.get_mut(index).and_then(Option::as_mut) else {
            return;
        };
        let served = connection.serve(&mut self.input, self.job);
        match served.and_then(|then| connection.watch_writable(registry).map(|()| then)) {
            Ok(Then::Wait) => {}
            Ok(Then::Again) => {
                if !self.again.contains(&index) {
                    self.again.push(index);
                }
            }
            Ok(Then::Gone) => self.forget(index),
            Err(error) => {
                self.job.note(kind(&error));
                self.forget(index);
            }
        }
    }

    /// Closing takes it out of the poll.
    fn forget(&mut self, index: usize) {
        self.connections[index] = None;
        self.free.push(index);
        self.again.retain(|queued| *queued != index);
    }
}

/// What becomes of a connection after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    /// An event will tell.
    Wait,
    /// There may be more, and no event will tell.
    Again,
    /// The peer has ended it and has all its bytes back.
    Gone,
}

/// A connection, and what it read and could not send back yet. Nothing is read while there is such a rest.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    token: Token,
    rest: Vec<u8>,
    sent_of_rest: usize,
    watches_writable: bool,
    /// An end or an error was announced: it stands behind the last bytes, and a short read does not reach it.
    ending: bool,
}

impl Connection {
    fn new(mut stream: TcpStream, token: Token, registry: &Registry) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        registry.register(&mut stream, token, Interest::READABLE)?;
        Ok(Self {
            stream,
            token,
            rest: Vec::new(),
            sent_of_rest: 0,
            watches_writable: false,
            ending: false,
        })
    }

    /// Sends back what there is, for a bounded number of reads.
    fn serve(&mut self, input: &mut [u8], job: &Job) -> io::Result<Then> {
        for _ in 0..TURN_READS {
            if !self.send_rest()? {
                return Ok(Then::Wait);
            }
            let bytes = match self.stream.read(input) {
                Ok(0) => return Ok(Then::Gone),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Then::Wait),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            job.lanes.message();
            let sent = write_some(&mut self.stream, &input[..bytes])?;
            self.rest.extend_from_slice(&input[sent..bytes]);
            // A short read empties a stream socket; what comes later is announced.
            if self.rest.is_empty() && bytes < input.len() && !self.ending {
                return Ok(Then::Wait);
            }
        }
        Ok(Then::Again)
    }

    /// Whether nothing is left of it.
    fn send_rest(&mut self) -> io::Result<bool> {
        if self.rest.is_empty() {
            return Ok(true);
        }
        self.sent_of_rest += write_some(&mut self.stream, &self.rest[self.sent_of_rest..])?;
        if self.sent_of_rest < self.rest.len() {
            return Ok(false);
        }
        self.rest.clear();
        self.sent_of_rest = 0;
        Ok(true)
    }

    /// Asks for a word when the socket is writable again, once for its life: with edge-triggered events that costs nothing while
    /// everything is taken.
    fn watch_writable(&mut self, registry: &Registry) -> io::Result<()> {
        if self.rest.is_empty() || self.watches_writable {
            return Ok(());
        }
        self.watches_writable = true;
        let both = Interest::READABLE | Interest::WRITABLE;
        registry.reregister(&mut self.stream, self.token, both)
    }
}

/// One write. Returns the bytes taken, which may be none.
fn write_some(stream: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    loop {
        match stream.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            other => return other,
        }
    }
}
