//! Code of somebody else's that the shard runs outside a task's poll: wakers that are woken or dropped, destructors.

use super::Panic;
use crate::context;
use std::{
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Waker,
};

/// Runs code for whose panic nobody waits: it is one more panic on the shard, and that is all.
pub(crate) fn shield(f: impl FnOnce()) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(f)) else {
        return;
    };
    let panic = Panic::new(payload);
    context::note_panic(panic.message());
    // What was thrown may panic in its destructor. What that throws is forgotten, so that there is an end to it.
    if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        mem::forget(payload);
    }
}

/// Wakes whoever it is for. A program may poll our futures with wakers of its own.
pub(crate) fn wake(waker: Waker) {
    shield(|| waker.wake());
}

/// Drops a waker, which may be the last to hold something.
pub(crate) fn forget(waker: Option<Waker>) {
    if let Some(waker) = waker {
        shield(|| drop(waker));
    }
}
