//! Who accepts, and gives connections to shards.

use super::{Accept, Inbox};
use crate::{
    address::Address,
    backend::{Backend, Listener},
    context,
    race::{Either, race},
    shutdown::stopping,
    time::{sleep, yield_now},
};
use shardloop_platform::socket::is_descriptor_exhaustion;
use std::{sync::Arc, time::Duration};

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
