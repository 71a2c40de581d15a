//! Memory that an engine may read while a send is under way.

use crate::lease::{Lease, Loan};
use std::io;

/// Memory an engine may read until the call returns it.
///
/// # Safety
/// What [`as_slice`](Self::as_slice) returns stays at the same address, readable and unchanged while the value moves and until it is
/// dropped or mutated.
pub unsafe trait Bytes: Unpin + 'static {
    /// The bytes.
    fn as_slice(&self) -> &[u8];
}

// SAFETY: the buffer is a heap block or a mapping of its own; moving the lease moves only the pointer to it.
unsafe impl Bytes for Lease {
    fn as_slice(&self) -> &[u8] {
        self
    }
}

// SAFETY: the bytes are those of a `Vec`, which is neither changed nor reallocated before the drop.
unsafe impl Bytes for Loan {
    fn as_slice(&self) -> &[u8] {
        self
    }
}

// SAFETY: the elements are on the heap, and nothing reallocates them without `&mut`.
unsafe impl Bytes for Vec<u8> {
    fn as_slice(&self) -> &[u8] {
        self
    }
}

// SAFETY: the elements are on the heap and never move.
unsafe impl Bytes for Box<[u8]> {
    fn as_slice(&self) -> &[u8] {
        self
    }
}

// SAFETY: `bytes::Bytes` points to shared immutable memory outside itself.
unsafe impl Bytes for bytes::Bytes {
    fn as_slice(&self) -> &[u8] {
        self
    }
}

// SAFETY: static memory neither moves nor changes.
unsafe impl Bytes for &'static [u8] {
    fn as_slice(&self) -> &[u8] {
        self
    }
}

/// What a send says after one that failed or was dropped under way.
pub(super) fn dropped_midway() -> io::Error {
    io::Error::new(
        io::ErrorKind::BrokenPipe,
        "an earlier send on this connection failed or was dropped before it finished, so the peer may have part of it; close the connection",
    )
}
