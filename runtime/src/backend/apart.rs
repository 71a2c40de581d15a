//! Trying rings on a thread of its own.
//!
//! The kernel ends a ring a little after its descriptor was closed, and interrupts the thread that made it for that: a call of that
//! thread that waits just then (accept(2), recv(2) with a timeout) fails with EINTR, which signal(7) does not lead anybody to expect.
//! So whoever asks whether an engine works here makes no ring; a thread does that ends with it.

use super::Unavailable;
use shardloop_platform::{
    socket::is_descriptor_limit,
    uring::{RefusalCause, RingRefused},
};
use std::io;

/// What `probe` says, tried on a thread that is gone afterwards.
pub(super) fn apart<T: Send + 'static>(
    engine: &'static str,
    probe: impl FnOnce() -> Result<T, Unavailable> + Send + 'static,
) -> Result<T, Unavailable> {
    let unavailable = |reason| Unavailable { engine, reason };
    let thread = std::thread::Builder::new()
        .name("probe".to_owned())
        .spawn(probe);
    let thread =
        thread.map_err(|error| unavailable(format!("a thread could not be started: {error}")))?;
    let panicked = |_| unavailable("it panicked while it was tried".to_owned());
    thread.join().map_err(panicked)?
}

/// Why a shard has no ring. Want of descriptors stays the system's own error, which whoever started the plan knows more of.
pub(super) fn no_ring(refused: RingRefused) -> io::Error {
    if let RefusalCause::Other(errno) = refused.cause {
        let error = io::Error::from_raw_os_error(errno);
        if is_descriptor_limit(&error) {
            return error;
        }
    }
    io::Error::other(refused)
}
