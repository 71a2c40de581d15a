//! What an I/O engine is to this crate: the traits, and the engines there are.
//!
//! An engine builds itself, parks until I/O, a deadline or a wake, and does sockets; tasks, timers and wakes are this crate's
//! (`executor`). Its differences stay in its own file here, and [`Kind`](crate::Kind) is the one place that picks one by name.

mod bytes;
mod monoio;

pub use bytes::Bytes;
pub use monoio::{MonoioLegacy, MonoioUring};

use crate::{
    launch::{LaunchError, Plan, Running, launch_threads},
    options::{EngineOptions, StreamOptions},
    shard::Shard,
};
use shardloop_platform::socket::{BindError, ListenOptions};
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

    /// A bound endpoint that no shard has adopted yet.
    type Bound: Send + 'static;
    /// A connection that no shard has adopted yet: it may go to any.
    type Socket: Send + 'static;
    /// An endpoint that accepts connections.
    type Listener: Listener<Socket = Self::Socket>;
    /// A connection.
    type Stream: Stream;

    /// Whether this engine can be used here, tried with the very options it would run with.
    ///
    /// # Errors
    /// The reason why not, and what to do about it.
    fn probe(options: &EngineOptions) -> Result<Capabilities, Unavailable>;

    /// Builds an engine on this thread and runs a shard on it: `main` is called within the engine, and its future is the shard's
    /// main task. Returns when that and everything it left behind has ended.
    ///
    /// # Errors
    /// The engine could not be built; `main` was not called then.
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
    fn bind(options: &ListenOptions, count: usize) -> Result<Vec<Self::Bound>, BindError>;

    /// Where an endpoint is bound, its port resolved.
    ///
    /// # Errors
    /// The operating system's.
    fn address(bound: &Self::Bound) -> io::Result<SocketAddr>;

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

    /// Connects to the first of `addresses` that answers, each in turn, within the deadline of `options`. Resolving names is the
    /// caller's.
    ///
    /// # Errors
    /// `TimedOut` past the deadline, otherwise what the last address answered; `InvalidInput` if there is no address.
    fn connect(
        addresses: &[SocketAddr],
        options: &ConnectOptions,
    ) -> impl Future<Output = io::Result<Self::Stream>>;

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
    pub main: Result<T, crate::task::TaskError>,
    /// Tasks other than the main one that were still there when that had ended.
    pub tasks_cut_off: usize,
    /// Tasks whose future could not be dropped in time. 0 unless destructors started new ones again and again; these are leaked.
    pub tasks_left: usize,
    /// Operations that still held memory when the deadline for that had passed. Their memory is leaked, not freed.
    pub operations_left: usize,
}

/// An endpoint that accepts connections.
pub trait Listener: 'static {
    /// What it gives.
    type Socket;

    /// The next connection, and its peer's address. Dropping the future loses no connection.
    ///
    /// # Errors
    /// The operating system's. For want of descriptors the connection stays in the backlog: try again later.
    fn accept(&mut self) -> impl Future<Output = io::Result<(Self::Socket, SocketAddr)>>;
}

/// The receiving side of a connection.
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
    /// Sends all of `bytes` and gives them back. If the future is dropped before that, how much was sent is unknown: the connection
    /// can then not be sent on any more, and says so.
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
    fn into_split(self) -> (Self::Recv, Self::Send);
}

/// What an engine found when it was probed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The facility it uses: `io_uring`, `epoll`, `kqueue`.
    pub facility: &'static str,
    /// Options it runs with, by their names in the manual.
    pub flags: Vec<&'static str>,
    /// What differs from what was asked for, and why; one sentence each.
    pub remarks: Vec<String>,
}

/// An engine cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unavailable {
    /// Its name.
    pub engine: &'static str,
    /// The reason, and what to do about it.
    pub reason: String,
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be used here: {}", self.engine, self.reason)
    }
}

impl Error for Unavailable {}
