//! How connections reach shards: endpoints, strategies, and what a shard is handed.
//!
//! Whatever the strategy, a task accepts and puts connections into the *inboxes* of shards, and a service takes them out through
//! [`Incoming`]. With `ReusePort` and `Shared` every shard accepts and has itself as the only target; with `Handoff` and
//! `HandoffLeast` shard 0 accepts for all.

use crate::{
    address::Address,
    backend::{Backend, Listener},
    context,
    executor::{Core, Event},
    options::StreamOptions,
    race::{Either, race},
    shutdown::{Watch, stopping},
    time::{sleep, yield_now},
    wake::{Phase, Remote},
};
use crossbeam_queue::ArrayQueue;
use shardloop_platform::socket::is_descriptor_exhaustion;
use std::{
    error::Error,
    fmt,
    future::poll_fn,
    net::SocketAddr,
    path::PathBuf,
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering, fence},
    },
    task::{Context, Poll},
    time::Duration,
};

/// An address that the shards of a plan serve together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where; port 0 lets the kernel pick one.
    pub address: Address,
    /// How connections are spread over shards.
    pub accept: Accept,
    /// Connections that may wait to be accepted; the kernel caps it at `somaxconn`.
    pub backlog: u32,
    /// Whether an IPv6 endpoint leaves IPv4 alone.
    pub only_v6: bool,
    /// What each accepted connection is set to.
    pub stream: StreamOptions,
}

impl Endpoint {
    /// TCP with `TCP_NODELAY` and the kernel's own buffer sizes, a backlog of 1,024, IPv6 separate from IPv4.
    #[must_use]
    pub fn tcp(address: SocketAddr, accept: Accept) -> Self {
        let stream = StreamOptions {
            nodelay: true,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
        };
        Self {
            address: address.into(),
            accept,
            backlog: 1024,
            only_v6: true,
            stream,
        }
    }

    /// A Unix stream socket at `path`, shard 0 accepting for all: Unix sockets know no SO_REUSEPORT. A file left there by a server
    /// that is gone is replaced.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        let stream = StreamOptions {
            nodelay: false,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
        };
        Self {
            address: Address::unix(path),
            accept: Accept::Handoff,
            backlog: 1024,
            only_v6: true,
            stream,
        }
    }

    /// Listeners this endpoint needs for `shards` shards.
    pub(crate) fn listeners(&self, shards: usize) -> usize {
        if self.accept.hands_out() { 1 } else { shards }
    }
}

/// How connections are spread over shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accept {
    /// One listener per shard on the same address; the kernel picks by a hash of the addresses, so a few connections may bunch on
    /// one shard. Linux only: elsewhere all connections would go to one listener, so a plan of several shards is refused.
    ReusePort,
    /// Shard 0 accepts and gives each connection to the next shard in turn, so that counts differ by at most one. Costs a wake of the
    /// other thread per connection, nothing after that.
    Handoff,
    /// As [`Handoff`](Self::Handoff), but to the shard with the fewest open connections: for connections that live for very different
    /// times.
    HandoffLeast,
    /// One listener that all shards accept from: whoever is awake first gets the connection, so busy shards get fewer. Idle shards are
    /// all woken for each.
    Shared,
}

impl Accept {
    /// All strategies.
    pub const ALL: [Self; 4] = [
        Self::ReusePort,
        Self::Handoff,
        Self::HandoffLeast,
        Self::Shared,
    ];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReusePort => "reuseport",
            Self::Handoff => "handoff",
            Self::HandoffLeast => "handoff-least",
            Self::Shared => "shared",
        }
    }

    /// Whether one shard takes what comes and gives it to the others.
    pub(crate) fn hands_out(self) -> bool {
        matches!(self, Self::Handoff | Self::HandoffLeast)
    }
}

impl fmt::Display for Accept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Accept {
    type Err = UnknownAccept;

    fn from_str(name: &str) -> Result<Self, UnknownAccept> {
        let known = Self::ALL.into_iter().find(|accept| accept.name() == name);
        known.ok_or_else(|| UnknownAccept {
            name: name.to_owned(),
        })
    }
}

/// There is no accept strategy of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAccept {
    /// The name.
    pub name: String,
}

impl fmt::Display for UnknownAccept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Accept::ALL.map(Accept::name).join(", ");
        write!(
            f,
            "there is no accept strategy {:?}; there are {names}",
            self.name
        )
    }
}

impl Error for UnknownAccept {}

/// Connections on their way into one shard.
pub(crate) struct Inbox<S> {
    queue: ArrayQueue<(S, Address)>,
    /// The shard's service has ended: nothing new is put in.
    closed: AtomicBool,
    remote: Arc<Remote>,
}

impl<S> Inbox<S> {
    /// Connections that may wait for a shard.
    const BOUND: usize = 4096;

    pub(crate) fn new(remote: Arc<Remote>) -> Self {
        Self {
            queue: ArrayQueue::new(Self::BOUND),
            closed: AtomicBool::new(false),
            remote,
        }
    }

    /// Leaves a connection for the shard; gives it, or another that was left, back if the inbox is full or closed.
    fn put(&self, connection: (S, Address)) -> Result<(), (S, Address)> {
        if self.is_closed() {
            return Err(connection);
        }
        self.queue.push(connection)?;
        // It may have been closed in between. The fences see to it that either this notices, or `clear` finds what was pushed.
        fence(Ordering::SeqCst);
        if self.is_closed()
            && let Some(left) = self.queue.pop()
        {
            return Err(left);
        }
        self.remote.notify();
        Ok(())
    }

    /// Refuses what comes. What was left before may still be taken.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Closes the connections that nobody took.
    pub(crate) fn clear(&self) {
        fence(Ordering::SeqCst);
        while self.queue.pop().is_some() {}
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Connections that the shard has, or is about to have.
    fn load(&self) -> u64 {
        self.queue.len() as u64 + self.remote.connections()
    }
}

/// Accepts until the shard is asked to end.
pub(crate) async fn accept_for<B: Backend>(
    mut listener: B::Listener,
    targets: Vec<Arc<Inbox<B::Socket>>>,
    accept: Accept,
) {
    /// How long accepting waits for descriptors to become free; trying at once would only burn the CPU that could free some.
    const BACK_OFF: Duration = Duration::from_millis(100);
    /// How long it waits after any other error, which mostly concerns that one connection.
    const BREATH: Duration = Duration::from_millis(1);
    /// Connections taken in a row before other tasks have their turn.
    const BATCH: u64 = 16;

    let core = context::current();
    let mut turn = 0;
    let mut stop = std::pin::pin!(stopping());
    loop {
        // The stop is asked first: under a flood of connections accepting is always ready.
        match race(stop.as_mut(), listener.accept()).await {
            Either::Left(()) => return,
            Either::Right(Ok(connection)) => {
                core.counters().accepted.add(1);
                let first = match accept {
                    Accept::HandoffLeast => least(&targets, turn),
                    _ => turn,
                };
                turn = hand_over(connection, &targets, first).await + 1;
                if core.counters().accepted.get().is_multiple_of(BATCH) {
                    yield_now().await;
                }
            }
            Either::Right(Err(error)) => {
                core.counters().accept_errors.add(1);
                let pause = if is_descriptor_exhaustion(&error) {
                    BACK_OFF
                } else {
                    BREATH
                };
                if race(sleep(pause), stop.as_mut()).await == Either::Right(()) {
                    return;
                }
            }
        }
    }
}

/// The shard with the fewest connections; of equals the next in turn, or connections that come and go would all be one shard's.
fn least<S>(targets: &[Arc<Inbox<S>>], turn: usize) -> usize {
    let in_turn = (turn..turn + targets.len()).map(|next| next % targets.len());
    in_turn
        .min_by_key(|index| targets[*index].load())
        .unwrap_or_default()
}

/// Gives a connection to shard `first`, or to the next one that has room, and returns which. While none has, nothing is accepted; once
/// none ever will, the connection is closed.
async fn hand_over<S>(
    mut connection: (S, Address),
    targets: &[Arc<Inbox<S>>],
    first: usize,
) -> usize {
    const FULL: Duration = Duration::from_millis(1);
    loop {
        for next in first..first + targets.len() {
            match targets[next % targets.len()].put(connection) {
                Ok(()) => return next % targets.len(),
                Err(back) => connection = back,
            }
        }
        if targets.iter().all(|target| target.is_closed()) {
            return first;
        }
        sleep(FULL).await;
    }
}

/// The connections a shard is given to serve from one endpoint.
pub struct Incoming<B: Backend> {
    inbox: Arc<Inbox<B::Socket>>,
    options: StreamOptions,
    watch: Watch,
}

impl<B: Backend> Incoming<B> {
    pub(crate) fn new(inbox: Arc<Inbox<B::Socket>>, options: StreamOptions) -> Self {
        Self {
            inbox,
            options,
            watch: Watch::new(context::current(), Event::Left),
        }
    }

    /// The next connection and its peer's address; `None` once the shard is asked to end and everything it was given was taken.
    /// Dropping the future loses no connection. A connection that its peer reset before it could be served is counted as an accept
    /// error and passed over.
    pub async fn next(&mut self) -> Option<(B::Stream, Address)> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(B::Stream, Address)>> {
        // Watching first: what is left after the queue was seen empty wakes this future.
        self.watch.set(cx);
        while let Some((socket, peer)) = self.inbox.queue.pop() {
            match B::adopt_stream(socket, &self.options) {
                Ok(stream) => return Poll::Ready(Some((stream, peer))),
                Err(_) => self.core().counters().accept_errors.add(1),
            }
        }
        if self.core().remote().phase() > Phase::Running {
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    fn core(&self) -> &Core {
        self.watch.core()
    }
}

impl<B: Backend> fmt::Debug for Incoming<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("waiting", &self.inbox.queue.len())
            .finish_non_exhaustive()
    }
}
