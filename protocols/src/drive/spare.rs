//! Byte buffers that connections of one thread take turns with: output on its way out, and beginnings of messages.
//!
//! An idle connection keeps none, and a busy one allocates none. Allocating them per turn instead costs more than it looks: buffers of
//! this size at the top of the heap make the allocator give memory back and fault it in again.

use std::cell::RefCell;

/// Buffers kept per thread.
const KEPT: usize = 64;
/// Larger ones are freed; with [`KEPT`] this bounds the memory kept per thread to 8 MiB.
const LARGEST_BYTES: usize = 128 * 1024;

thread_local! {
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer, with whatever capacity it had before.
pub(super) fn take() -> Vec<u8> {
    SPARE
        .try_with(|spare| spare.borrow_mut().pop())
        .ok()
        .flatten()
        .unwrap_or_default()
}

/// Takes a buffer back that is done with.
pub(super) fn give_back(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > LARGEST_BYTES {
        return;
    }
    buffer.clear();
    // A thread that is going away keeps nothing any more.
    let _ = SPARE.try_with(|spare| {
        let mut spare = spare.borrow_mut();
        if spare.len() < KEPT {
            spare.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{KEPT, LARGEST_BYTES, SPARE, give_back, take};

    #[test]
    fn buffers_come_back_empty_and_large_or_many_are_not_kept() {
        give_back(b"abc".to_vec());
        assert!(take().is_empty());
        give_back(Vec::with_capacity(LARGEST_BYTES + 1));
        assert_eq!(take().capacity(), 0);
        for _ in 0..2 * KEPT {
            give_back(Vec::with_capacity(16));
        }
        assert_eq!(SPARE.with_borrow(Vec::len), KEPT);
    }
}
