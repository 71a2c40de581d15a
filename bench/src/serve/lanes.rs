//! What each server thread counts, without one thread ever writing where another does.

use crate::contract::ShardCount;
use crossbeam_utils::CachePadded;
use std::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering},
};

thread_local! {
    /// Which lane this thread counts in.
    static LANE: Cell<usize> = const { Cell::new(0) };
}

/// Makes `lane` the calling thread's.
pub(crate) fn take_lane(lane: usize) {
    LANE.set(lane);
}

/// One lane per server thread.
#[derive(Debug)]
pub(crate) struct Lanes(Vec<CachePadded<Lane>>);

#[derive(Debug, Default)]
struct Lane {
    accepted: AtomicU64,
    messages: AtomicU64,
}

impl Lanes {
    pub(crate) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| CachePadded::default()).collect())
    }

    /// This thread got a connection to serve.
    pub(crate) fn accepted(&self) {
        bump(&self.mine().accepted);
    }

    /// This thread answered a message.
    pub(crate) fn message(&self) {
        bump(&self.mine().messages);
    }

    /// Messages answered on all lanes.
    pub(crate) fn messages(&self) -> u64 {
        self.0
            .iter()
            .map(|lane| lane.messages.load(Ordering::Relaxed))
            .sum()
    }

    pub(crate) fn per_lane(&self) -> Vec<ShardCount> {
        let count = |lane: &CachePadded<Lane>| ShardCount {
            accepted: lane.accepted.load(Ordering::Relaxed),
            messages: lane.messages.load(Ordering::Relaxed),
        };
        self.0.iter().map(count).collect()
    }

    fn mine(&self) -> &Lane {
        &self.0[LANE.get()]
    }
}

/// A lane has one writer, so a load and a store do; readers of other threads see some recent value.
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}
