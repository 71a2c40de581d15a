//! A shard's life: accept, serve, drain.

use super::endpoints::Adopted;
use crate::{
    accept::{Inbox, accept_for},
    backend::Backend,
    context,
    datagram::hand_out,
    placement::Seat,
    race::{Either, race},
    shard::{Facts, Shard, World},
    shutdown::stopping,
    task::Task,
    time::{now, sleep},
};
use std::{cell::RefCell, future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

/// What came of a shard's service.
pub(crate) struct Served<T> {
    /// `None` if it was cut off.
    pub(crate) result: Option<T>,
    pub(crate) tasks_cut_off: usize,
}

/// A shard's main future: accepts, serves, drains.
pub(crate) async fn live<B: Backend, T>(
    index: usize,
    seat: Seat,
    world: Arc<World<B>>,
    adopted: Adopted<B>,
    service: impl AsyncFn(Shard<B>) -> T,
    drain: Duration,
) -> Served<T> {
    let sockets = adopted.sockets.into_iter().enumerate();
    let socket = |(at, socket): (usize, B::Datagram)| Some(world.posts[at].socket(index, socket));
    let shard = Shard::new(Facts {
        index,
        seat,
        sockets: RefCell::new(sockets.map(socket).collect()),
        world: world.clone(),
    });
    let mut closing = Closing::new(shard.clone());
    let mut acceptors = start_acceptors(&shard, adopted.listeners);
    acceptors.extend(start_receivers(&shard, adopted.receivers));
    let mut stopped_at = None;
    let deadline = async {
        stopping().await;
        stopped_at = Some(now());
        sleep(drain).await;
    };
    let result = match race(pin!(service(shard)), pin!(deadline)).await {
        Either::Left(value) => Some(value),
        Either::Right(()) => None,
    };
    for acceptor in acceptors {
        acceptor.cancel().await;
    }
    closing.returned();
    let drained = stopped_at.map_or(Duration::ZERO, |at| now().saturating_duration_since(at));
    Served {
        result,
        tasks_cut_off: wait_for_tasks(drain.saturating_sub(drained)).await,
    }
}

/// What the end of a shard's service means for the others, however it ended.
///
/// No connection waits for it: others serve what comes; and so it is with datagrams, once nobody has its socket any more. If it
/// panicked, or if it accepted for others, the plan as a whole is asked to end: a service of which a part is missing, or that no
/// connection reaches any more, is better restarted than left running.
struct Closing<B: Backend> {
    shard: Shard<B>,
    panicked: bool,
}

impl<B: Backend> Closing<B> {
    fn new(shard: Shard<B>) -> Self {
        // Taken back when the service returns; a panic does not come that far.
        Self {
            shard,
            panicked: true,
        }
    }

    /// The service has returned, or was cut off.
    fn returned(&mut self) {
        self.panicked = false;
        self.shard.inboxes().for_each(Inbox::close);
        self.shard.give_up_datagrams();
        if self.shard.accepts_for_others() {
            self.shard.world().stopper.drain();
        }
    }
}

impl<B: Backend> Drop for Closing<B> {
    fn drop(&mut self) {
        self.shard.inboxes().for_each(|inbox| {
            inbox.close();
            inbox.clear();
        });
        if self.panicked {
            self.shard.world().stopper.drain();
        }
    }
}

fn start_acceptors<B: Backend>(
    shard: &Shard<B>,
    listeners: Vec<Option<B::Listener>>,
) -> Vec<Task<()>> {
    let start = |(endpoint, listener): (usize, Option<B::Listener>)| {
        let door = &shard.world().doors[endpoint];
        let targets = door.targets(shard.index());
        listener.map(|listener| shard.spawn(accept_for::<B>(listener, targets, door.accept)))
    };
    listeners
        .into_iter()
        .enumerate()
        .filter_map(start)
        .collect()
}

fn start_receivers<B: Backend>(
    shard: &Shard<B>,
    receivers: Vec<Option<B::Datagram>>,
) -> Vec<Task<()>> {
    let start = |(endpoint, receiver): (usize, Option<B::Datagram>)| {
        let letterboxes = shard.world().posts[endpoint].letterboxes.clone();
        receiver.map(|receiver| shard.spawn(hand_out(receiver, letterboxes)))
    };
    receivers
        .into_iter()
        .enumerate()
        .filter_map(start)
        .collect()
}

/// Waits until only the calling task is left. Returns how many others there are when `limit` is over first.
async fn wait_for_tasks(limit: Duration) -> usize {
    let core = context::current();
    let others_gone = poll_fn(|cx| {
        core.wake_at_task_end(cx.waker());
        if core.live_tasks() <= 1 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    match race(others_gone, sleep(limit)).await {
        Either::Left(()) => 0,
        Either::Right(()) => core.live_tasks() - 1,
    }
}
