//! Drivers: run a machine on a stream, on whatever runtime the stream belongs to.
//!
//! A driver receives, shows the machine what has come, sends what the machine answered, and only then receives again: pending output
//! is back-pressure. Work per turn and connection is bounded ([`TURN_MESSAGES`](crate::machine::TURN_MESSAGES),
//! [`TURN_OUTPUT_BYTES`](crate::machine::TURN_OUTPUT_BYTES)); after as much, others have their turn, even if the stream always has more.
//! An idle connection holds no buffer but the one its receive needs.
//!
//! [`serve`] is a server's connection from its first byte to its end, [`Connection`] the same in steps, for clients and for services
//! with a mind of their own, [`echo`] plain bytes sent back in the very buffer they came in.
//!
//! Nothing here knows an engine: time and the wish to end come from a [`Host`], so the same functions run on shards ([`OnShard`]) and
//! on any other runtime whose sockets implement `shardloop::Stream`.

mod connection;
mod input;
mod server;
mod spare;

pub use connection::{Connection, DriveError, Received, Turned};
pub use server::{echo, serve};

use std::{
    future::{Future, poll_fn},
    task::Poll,
    time::Instant,
};

/// What a driver needs of the runtime it runs on.
pub trait Host {
    /// The runtime's time.
    fn now(&self) -> Instant;

    /// Completes at `deadline`.
    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()>;

    /// Completes once connections are asked to finish what they have and to close.
    fn stopping(&self) -> impl Future<Output = ()>;
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
