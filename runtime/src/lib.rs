//! A thread-per-core completion runtime: one shard = one thread = one I/O engine.
//!
//! A service is written once, with owned buffers, and runs on io_uring, epoll or kqueue without changing a line. What it opens stays
//! on the shard that opened it; shards share nothing but bounded queues.
//!
//! ```no_run
//! use shardloop::{Accept, Endpoint, MonoioLegacy, Plan, RecvHalf, SendHalf, launch};
//!
//! let plan = Plan::new(2).endpoint(Endpoint::tcp("127.0.0.1:7000".parse()?, Accept::Handoff));
//! let running = launch::<MonoioLegacy, _>(plan, async |shard| {
//!     let mut incoming = shard.incoming(0);
//!     while let Some((mut stream, _peer)) = incoming.next().await {
//!         shard
//!             .spawn(async move {
//!                 while let Ok(bytes) = stream.recv().await {
//!                     if bytes.is_empty() || stream.send_all(bytes).await.0.is_err() {
//!                         break;
//!                     }
//!                 }
//!             })
//!             .detach();
//!     }
//! })?;
//! running.wait();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! To pick the engine when the program runs, implement [`Service`] and call [`run`] with [`Kind::Auto`].
//!
//! # What it promises, on every engine
//! * Dropping a `recv` or `accept` future loses nothing: no byte, no connection, no descriptor, no buffer.
//! * A panic ends its task alone. A task that yields in a loop starves no other. Any thread may wake a task.
//! * Ending a shard drops its tasks, waits until the kernel has let go of all memory, and says what was left if it could not.
//! * "Not supported" is an error with a reason.
//!
//! # What it does not do
//! It resolves no names, reads no files, has no work stealing, and moves no future between threads. macOS is compiled and linted
//! here, but has never been run by its authors.

mod accept;
mod address;
pub mod backend;
mod bind_error;
mod context;
pub mod datagram;
mod executor;
mod join;
mod kind;
mod launch;
pub mod lease;
mod metrics;
pub mod options;
mod placement;
mod race;
mod shard;
mod shutdown;
mod task;
pub mod time;
mod timer;
mod wake;

pub use accept::{Accept, Endpoint, Incoming, UnknownAccept};
pub use address::{Address, BadAddress};
#[cfg(feature = "glommio")]
pub use backend::Glommio;
pub use backend::{
    Backend, Bytes, Capabilities, Datagram, Halves, Listener, MonoioLegacy, MonoioUring, RecvHalf,
    SendHalf, Sim, Stream, Unavailable, sim,
};
pub use bind_error::BindError;
pub use datagram::{Batch, DatagramSocket, Outbox};
pub use join::{join, try_join};
pub use kind::{Choice, Kind, UnknownKind};
pub use launch::{
    Error, LaunchError, Plan, Report, Running, Service, ShardReport, launch, run, start,
};
pub use lease::Lease;
pub use metrics::{Metrics, Stalls};
pub use options::{ConnectOptions, DatagramEndpoint, EngineOptions, StreamOptions};
pub use placement::{Placement, Seat};
pub use race::{Either, Race, race};
pub use shard::Shard;
pub use shutdown::{Stopper, Stopping, stopping};
pub use task::{Panic, Task, TaskError, spawn};

/// The program in the README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
