//! Wakers that are numbers.
//!
//! A waker names its task: which shard of this process, which place in that shard's table, which of the tasks that have stood there.
//! It owns nothing, so cloning and dropping one is free, a task is freed when it ends however many wakers are left of it, and waking
//! on the shard's own thread takes no atomic operation. A waker that outlived its task finds another one in its place or none; at the
//! worst it wakes a task for nothing, which every future has to bear.

use crate::{context, wake};
use std::{
    ptr,
    task::{RawWaker, RawWakerVTable, Waker},
};

/// A task, among all of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    /// The number of its shard.
    pub(crate) shard: usize,
    /// Its place in the shard's table.
    pub(crate) place: usize,
    /// Tells it from those that had the place before, nearly always.
    pub(crate) generation: usize,
}

const PLACE_BITS: u32 = 26;
const GENERATION_BITS: u32 = 22;
const SHARD_BITS: u32 = 16;
const _: () = assert!(
    SHARD_BITS + PLACE_BITS + GENERATION_BITS == usize::BITS,
    "a task's name has to fit into a pointer of 64 bits"
);

impl TaskId {
    /// Shards that a process can have at once.
    pub(crate) const SHARDS: usize = 1 << SHARD_BITS;
    /// Tasks that a shard can have at once.
    pub(crate) const PLACES: usize = 1 << PLACE_BITS;

    /// The generation of the `nth` task that a shard has started.
    pub(crate) fn generation(nth: u64) -> usize {
        (nth % (1 << GENERATION_BITS)) as usize
    }

    fn pack(self) -> usize {
        (self.shard << PLACE_BITS | self.place) << GENERATION_BITS | self.generation
    }

    fn unpack(bits: usize) -> Self {
        Self {
            shard: bits >> (GENERATION_BITS + PLACE_BITS),
            place: bits >> GENERATION_BITS & (Self::PLACES - 1),
            generation: bits & ((1 << GENERATION_BITS) - 1),
        }
    }

    /// What wakes it.
    pub(crate) fn waker(self) -> Waker {
        // SAFETY: the data is a number that no function of the table dereferences, so all of them are sound on any thread, in any
        // number, at any time; dropping has nothing to free.
        unsafe { Waker::from_raw(raw(self.pack())) }
    }

    /// Has its shard poll it, from whatever thread.
    fn wake(self) {
        let here = context::if_current(self.shard, |core| core.wake(self));
        if here.is_none() {
            wake::from_elsewhere(self);
        }
    }
}

fn raw(bits: usize) -> RawWaker {
    RawWaker::new(ptr::without_provenance(bits), &TABLE)
}

static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake, drop);

fn clone(data: *const ()) -> RawWaker {
    raw(data.addr())
}

fn wake(data: *const ()) {
    TaskId::unpack(data.addr()).wake();
}

fn drop(_: *const ()) {}

#[cfg(test)]
mod tests {
    use super::{GENERATION_BITS, TaskId};

    #[test]
    fn a_name_survives_packing_at_its_bounds() {
        let ends = |count: usize| [0, 1, count / 2, count - 1];
        for shard in ends(TaskId::SHARDS) {
            for place in ends(TaskId::PLACES) {
                for generation in ends(1 << GENERATION_BITS) {
                    let id = TaskId {
                        shard,
                        place,
                        generation,
                    };
                    assert_eq!(TaskId::unpack(id.pack()), id);
                }
            }
        }
    }

    #[test]
    fn generations_start_over() {
        assert_eq!(TaskId::generation(u64::MAX), (1 << GENERATION_BITS) - 1);
        assert_eq!(TaskId::generation(1 << GENERATION_BITS), 0);
    }

    #[test]
    fn a_waker_of_no_shard_does_nothing_and_knows_its_like() {
        let id = TaskId {
            shard: TaskId::SHARDS - 1,
            place: 7,
            generation: 3,
        };
        let waker = id.waker();
        let like = waker.clone();
        assert!(waker.will_wake(&like));
        assert!(!waker.will_wake(&TaskId { place: 8, ..id }.waker()));
        waker.wake_by_ref();
        like.wake();
    }
}
