//! Hostile input for the machines: for each target a function from bytes to a panic, if what must hold does not.
//!
//! Used twice: by the fuzz targets beside it, and by a test that replays the committed corpora (`protocols/tests/it/corpora.rs`). A
//! target reads a few bytes of its own from the front of the input (limits, cuts, manners); the rest is what the peer sends, or what
//! happens.
//!
//! What must hold for all: the contract of a machine ([`feed`]), and that nothing depends on how the input was cut. What each target
//! adds stands at its function.

mod feed;
mod http1;
mod length;
mod source;
mod tls;
mod websocket;

/// Looks at the allocator, where there is one that can be looked at.
#[derive(Clone, Copy)]
pub(crate) struct Meter {
    /// What is allocated now; 0 if nobody knows.
    pub(crate) allocated_bytes: fn() -> usize,
    /// From now on an allocation beyond this many bytes in all fails.
    pub(crate) limit: fn(usize),
}

type Target = fn(&[u8], Meter);

/// Every target by its name.
pub(crate) const TARGETS: [(&str, Target); 11] = [
    ("length", length::length),
    ("http1_server", http1::server::server),
    ("http1_client", http1::client::client),
    ("http1_operations", http1::operations::operations),
    ("websocket_handshake", websocket::peers::handshake),
    ("websocket_server", websocket::peers::server),
    ("websocket_client", websocket::peers::client),
    ("websocket_operations", websocket::operations::operations),
    ("tls_server", tls::peers::server),
    ("tls_client", tls::peers::client),
    ("tls_operations", tls::operations::operations),
];

/// Runs one input through a target.
pub(crate) fn run(target: &str, data: &[u8], meter: Meter) {
    let found = TARGETS.iter().find(|(name, _)| *name == target);
    let (_, function) = found.expect("every target is in the list");
    function(data, meter);
}
