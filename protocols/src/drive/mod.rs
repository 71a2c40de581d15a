//! Drivers: run a machine on a stream, on whatever runtime the stream belongs to.
//!
//! A driver receives, shows the machine what has come, sends what the machine answered, and only then receives again: pending output
//! is back-pressure. Work per turn and connection is bounded ([`TURN_MESSAGES`],
//! [`TURN_OUTPUT_BYTES`]); after as much, others have their turn, even if the stream always has more.
//! An idle connection holds no buffer but the one its receive needs. A peer that takes nothing of what it is sent is given up after
//! [`SEND_TIMEOUT`].
//!
//! [`serve`] is a server's connection from its first byte to its end, [`Connection`] the same in steps, for clients and for services
//! with a mind of their own, [`echo`] plain bytes sent back in the very buffer they came in; [`serve_datagrams`] is a socket of
//! datagrams.
//!
//! A server of [`length`](crate::length) on two shards:
//!
//! ```no_run
//! use shardloop::{Accept, Endpoint, MonoioLegacy, Plan, launch};
//! use shardloop_protocols::{Flow, drive::{self, OnShard}, length::{Length, Reply}};
//!
//! let plan = Plan::new(2).endpoint(Endpoint::tcp("127.0.0.1:7000".parse()?, Accept::Handoff));
//! let running = launch::<MonoioLegacy, _>(plan, async |shard| {
//!     let mut incoming = shard.incoming(0);
//!     while let Some((stream, peer)) = incoming.next().await {
//!         let app = |message: &mut [u8], mut reply: Reply<'_>| {
//!             reply.send(message).expect("an answer is as long as its question");
//!             Flow::Continue
//!         };
//!         let served = drive::serve(stream, Length::default(), app, OnShard);
//!         let task = async move {
//!             if let Err(fault) = served.await {
//!                 eprintln!("{peer}: {fault}");
//!             }
//!         };
//!         shard.spawn(task).detach();
//!     }
//! })?;
//! running.wait();
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing here knows an engine: time and the wish to end come from a [`Host`], so the same functions run on shards ([`OnShard`]) and
//! on any other runtime whose sockets implement `shardloop::Stream`.

mod client;
mod clock;
mod connection;
mod datagram;
mod input;
mod server;
mod spare;

pub use connection::{Connection, DriveError, Received, Turned};
pub use datagram::{Traffic, serve_datagrams};
pub use server::{echo, serve};

use crate::machine::{TURN_MESSAGES, TURN_OUTPUT_BYTES};
use std::{
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
    time::{Duration, Instant},
};

/// How long a send may take unless a [`Host`] says otherwise: 30 seconds.
pub const SEND_TIMEOUT: Duration = Duration::from_secs(30);

/// What a driver needs of the runtime it runs on.
pub trait Host {
    /// The runtime's time.
    fn now(&self) -> Instant;

    /// Completes at `deadline`.
    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()>;

    /// Completes once connections are asked to finish what they have and to close.
    fn stopping(&self) -> impl Future<Output = ()>;

    /// How long one send may take, from when the system first takes no more of it until all of it is taken: at most a turn's output
    /// and a reply. A peer that is slower than that is given up ([`TimedOut`](std::io::ErrorKind::TimedOut)), so that peers who never
    /// read cannot hold memory for ever. [`SEND_TIMEOUT`] by default.
    fn send_timeout(&self) -> Duration {
        SEND_TIMEOUT
    }
}

/// The shard a driver runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnShard;

impl Host for OnShard {
    fn now(&self) -> Instant {
        shardloop::time::now()
    }

    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> {
        shardloop::time::sleep_until(deadline)
    }

    fn stopping(&self) -> impl Future<Output = ()> {
        shardloop::stopping()
    }
}

/// What a connection has done since others last had their turn.
#[derive(Debug, Default)]
struct Turn {
    spent_bytes: usize,
    /// One has ended since somebody asked.
    ended: bool,
}

impl Turn {
    /// What a receive counts at least, so that small ones end a turn after as many as messages do.
    const RECEIVE_BYTES: usize = TURN_OUTPUT_BYTES / TURN_MESSAGES;

    fn received(&mut self, bytes: usize) {
        self.spent_bytes += bytes.max(Self::RECEIVE_BYTES);
    }

    fn sent(&mut self, bytes: usize) {
        self.spent_bytes += bytes;
    }

    /// Lets others have their turn if this one is used up.
    async fn end_if_used_up(&mut self) {
        if self.spent_bytes >= TURN_OUTPUT_BYTES {
            self.end().await;
        }
    }

    async fn end(&mut self) {
        (self.spent_bytes, self.ended) = (0, true);
        yield_once().await;
    }

    /// Whether one has ended since the last time this was asked: then it is time to look up from input that never pauses.
    fn has_ended(&mut self) -> bool {
        std::mem::take(&mut self.ended)
    }
}

/// Whether an event has come, without waiting for it.
async fn has_come(mut event: Pin<&mut impl Future<Output = ()>>) -> bool {
    poll_fn(|cx| Poll::Ready(event.as_mut().poll(cx).is_ready())).await
}

/// Lets others have their turn, on any runtime.
async fn yield_once() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
