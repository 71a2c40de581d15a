//! What an I/O engine is to this crate: the traits, and the engines there are.
//!
//! An engine builds itself, parks until I/O, a deadline or a wake, and does sockets; tasks, timers and wakes are this crate's
//! (`executor`). Its differences stay in its own file here, and [`Kind`](crate::Kind) is the one place that picks one by name.

#[cfg(target_os = "linux")]
mod apart;
mod bound;
mod bytes;
mod dial;
#[cfg(feature = "glommio")]
#[cfg_attr(not(target_os = "linux"), path = "no_glommio.rs")]
mod glommio;
mod halves;
mod kernel_datagrams;
mod monoio;
pub mod sim;

pub use bound::Bound;
pub use bytes::Bytes;
#[cfg(feature = "glommio")]
pub use glommio::Glommio;
pub use halves::Halves;
use kernel_datagrams::KernelDatagrams;
pub use monoio::{MonoioLegacy, MonoioUring};
pub use sim::Sim;

use crate::{
    accept::Endpoint,
    address::Address,
    bind_error::BindError,
    datagram::{Batch, Outbox, SendError},
    launch::{LaunchError, Plan, Running, launch_threads},
    options::DatagramEndpoint,
    options::{EngineOptions, StreamOptions},
    shard::Shard,
    task::TaskError,
};
use std::{
    error::Error,
    fmt,
    future::Future,
    io,
    net::SocketAddr,
    ops::{Deref, DerefMut},
    time::Instant,
};

/// An I/O engine as one shard sees it. Implementors are empty types, picked once, as a type parameter.
pub trait Backend: Sized + 'static {
    /// Its name, as [`Kind`](crate::Kind) knows it.
    const NAME: &'static str;

    /// Descriptors that the engine leaves open for ever, each time that it has run: none, unless it is somebody else's and its
    /// documentation here says why.
    const LEAKED_DESCRIPTORS: usize = 0;

    /// A bound endpoint that no shard has adopted yet.
    type Bound: Send + 'static;
    /// A connection that no shard has adopted yet: it may go to any.
    type Socket: Send + 'static;
    /// An endpoint that accepts connections.
    type Listener: Listener<Socket = Self::Socket>;
    /// A connection.
    type Stream: Stream;
    /// A bound socket of datagrams that no shard has adopted yet.
    type BoundDatagram: Send + 'static;
    /// A socket of datagrams.
    type Datagram: Datagram;

    /// Whether this engine can be used here, tried with the very options it would run with.
    ///
    /// # Errors
    /// The reason why not, and what to do about it.
    fn probe(options: &EngineOptions) -> Result<Capabilities, Unavailable>;

    /// Builds an engine on this thread and runs a shard on it: `main` is called within the engine, and its future is the shard's
    /// main task. Returns when that and everything it left behind has ended.
    ///
    /// # Errors
    /// The engine could not be built, or the calling thread runs a shard already; `main` was not called then.
    fn run<F>(options: &EngineOptions, main: impl FnOnce() -> F) -> io::Result<Ended<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static;

    /// The engine's time.
    fn now() -> Instant;

    /// Binds an endpoint `count` times, so that each of as many shards can accept from it.
    ///
    /// # Errors
    /// The address is taken, forbidden, or not of this host.
    fn bind(endpoint: &Endpoint, count: usize) -> Result<Vec<Self::Bound>, BindError>;

    /// Where an endpoint is bound, its port resolved.
    ///
    /// # Errors
    /// The operating system's.
    fn address(bound: &Self::Bound) -> io::Result<Address>;

    /// Makes a bound endpoint the current shard's.
    ///
    /// # Errors
    /// The operating system's, for example for want of descriptors.
    fn adopt_listener(bound: Self::Bound) -> io::Result<Self::Listener>;

    /// Makes a connection the current shard's. Whether the socket blocks or not does not matter: the adapter sets what its engine
    /// needs.
    ///
    /// # Errors
    /// The operating system's, for example if the peer has reset the connection.
    fn adopt_stream(socket: Self::Socket, options: &StreamOptions) -> io::Result<Self::Stream>;

    /// Connects to the first of `addresses` that answers, each in turn, within the deadline of `options`: each of those that are left
    /// gets an equal part of the time that is left, so one that never answers keeps no other from its turn. A Unix socket whose backlog
    /// is full is asked again until its time is over (on macOS it refuses like one that is gone). Resolving names is the caller's.
    ///
    /// # Errors
    /// What the last address answered, `TimedOut` if that was nothing; if there are several, the text names each of them with its
    /// answer. `InvalidInput` if there is no address, or one that no socket can have.
    fn connect(
        addresses: &[Address],
        options: &ConnectOptions,
    ) -> impl Future<Output = io::Result<Self::Stream>>;

    /// Binds a socket of datagrams `count` times, so that the kernel spreads what comes over as many shards.
    ///
    /// # Errors
    /// The address is taken, forbidden, or not of this host.
    fn bind_datagram(
        endpoint: &DatagramEndpoint,
        count: usize,
    ) -> Result<Vec<Self::BoundDatagram>, BindError>;

    /// The same socket once more, to be sent from by another shard.
    ///
    /// # Errors
    /// The operating system's, for example for want of descriptors.
    fn clone_datagram(bound: &Self::BoundDatagram) -> io::Result<Self::BoundDatagram>;

    /// Where it is bound, its port resolved.
    ///
    /// # Errors
    /// The operating system's.
    fn datagram_address(bound: &Self::BoundDatagram) -> io::Result<SocketAddr>;

    /// Makes a bound socket the current shard's.
    ///
    /// # Errors
    /// The operating system's, for example for want of descriptors.
    fn adopt_datagram(bound: Self::BoundDatagram) -> io::Result<Self::Datagram>;

    /// Starts a plan on this engine, which was found to offer `capabilities`, each shard on a thread of its own; see
    /// [`launch`](crate::launch()). An engine that runs its
    /// shards otherwise, as a simulated world does on one thread, has its own way.
    ///
    /// # Errors
    /// Nothing runs then.
    fn launch<T: Send + 'static>(
        plan: Plan,
        capabilities: Capabilities,
        service: impl AsyncFn(Shard<Self>) -> T + Clone + Send + 'static,
    ) -> Result<Running<T>, LaunchError> {
        launch_threads(plan, capabilities, service)
    }
}

pub use crate::options::ConnectOptions;

/// How a shard's run ended.
#[derive(Debug)]
pub struct Ended<T> {
    /// What the main future returned; `Err` if it panicked or was cut off.
    pub main: Result<T, TaskError>,
    /// Tasks other than the main one that were still there when that had ended.
    pub tasks_cut_off: usize,
    /// Tasks whose future could not be dropped in time. 0 unless destructors started new ones again and again; these are leaked.
    pub tasks_left: usize,
    /// Operations that still held memory when the deadline for that had passed. Their memory is leaked, not freed.
    pub operations_left: usize,
}

impl<T> Ended<T> {
    /// The end of a shard that had no engine.
    pub(crate) fn before_it_began() -> Self {
        Self {
            main: Err(TaskError::Cancelled),
            tasks_cut_off: 0,
            tasks_left: 0,
            operations_left: 0,
        }
    }
}

/// An endpoint that accepts connections.
pub trait Listener: 'static {
    /// What it gives.
    type Socket;

    /// The next connection, and its peer's address. Dropping the future loses no connection.
    ///
    /// # Errors
    /// The operating system's. For want of descriptors the connection stays in the backlog: try again later.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Socket, Address)>>;
}

/// The receiving side of a connection.
///
/// What this and the other operations here do without waiting is bounded: after 32 of them in one poll a task lets others run, so a
/// loop over a peer that never pauses keeps its shard from nobody.
pub trait RecvHalf {
    /// A filled buffer. It returns to its pool on drop, and can be sent as it is.
    type Lease: Deref<Target = [u8]> + DerefMut + Bytes;

    /// What has arrived, at least one byte; an empty lease says that the peer has closed its side. Dropping the future loses
    /// nothing: what it would have brought comes with the next call.
    ///
    /// # Errors
    /// The operating system's, for example that the peer has reset the connection.
    fn recv(&mut self) -> impl Future<Output = io::Result<Self::Lease>>;
}

/// The sending side of a connection.
pub trait SendHalf {
    /// Sends all of `bytes` and gives them back, however many these are. If the future is dropped before that, how much was sent is
    /// unknown: the connection can then not be sent on any more, and says so. The peer is not told: it sees what was sent, and in the
    /// end an orderly end. Who frames messages sees there that one is not whole.
    ///
    /// # Errors
    /// The operating system's (`BrokenPipe`, `ConnectionReset`), or that an earlier call was dropped halfway.
    fn send_all<B: Bytes>(&mut self, bytes: B) -> impl Future<Output = (io::Result<()>, B)>;

    /// Tells the peer that nothing more will be sent (TCP: a FIN). Receiving goes on.
    ///
    /// # Errors
    /// The operating system's.
    fn shutdown_write(&mut self) -> impl Future<Output = io::Result<()>>;
}

/// A connection: ordered bytes both ways.
pub trait Stream: RecvHalf + SendHalf + 'static {
    /// Its receiving half, once split.
    type Recv: RecvHalf<Lease = Self::Lease> + 'static;
    /// Its sending half, once split.
    type Send: SendHalf + 'static;

    /// Splits it, so that one task can receive while another sends. A receive under way goes along.
    ///
    /// A sending half that is dropped before the receiving one ends what is sent, as
    /// [`shutdown_write`](SendHalf::shutdown_write) does: the peer sees the end of the stream, and receiving goes on. A receiving half
    /// that is dropped first ends nothing: what still comes waits, and a peer that sends more than the system has room for waits, too.
    /// Who drops both, or a stream that was not split, closes the connection.
    fn into_split(self) -> (Self::Recv, Self::Send);
}

/// A socket of datagrams (UDP): whole messages, any of which may be lost, doubled or overtaken.
pub trait Datagram: 'static {
    /// Waits until something has arrived, and puts as much of it into `batch` as there is room for, after forgetting what was there.
    /// Dropping the future loses nothing.
    ///
    /// # Errors
    /// The operating system's; receiving may go on after it.
    fn recv(&mut self, batch: &mut Batch) -> impl Future<Output = io::Result<()>>;

    /// Sends what is in `outbox`, in order, and takes out what was sent. If the future is dropped, the rest is still there.
    /// That a datagram was sent says nothing about its arrival.
    ///
    /// # Errors
    /// One datagram could not be sent, for example because it is too long; it was taken out, and sending may go on.
    fn send(&mut self, outbox: &mut Outbox) -> impl Future<Output = Result<(), SendError>>;

    /// Where it is bound.
    ///
    /// # Errors
    /// The operating system's.
    fn address(&self) -> io::Result<SocketAddr>;

    /// Datagrams that were dropped because there was no room for them here; `None` where the kernel does not tell.
    fn dropped(&self) -> Option<u64>;
}

/// What an engine found when it was probed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The facility it uses: `io_uring`, `epoll`, `kqueue`, or `simulation`.
    pub facility: &'static str,
    /// Options it runs with, by their names in the manual.
    pub flags: Vec<&'static str>,
    /// What differs from what was asked for, and why; one sentence each.
    pub remarks: Vec<String>,
}

/// An engine cannot be used here.
#[derive(Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// Its name.
    pub engine: &'static str,
    /// The reason, and what to do about it.
    pub reason: String,
}

/// Its text: what a `main` prints that returns it.
impl fmt::Debug for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be used here: {}", self.engine, self.reason)
    }
}

impl Error for Unavailable {}
