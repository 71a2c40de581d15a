//! Proves that the protocols know no socket, clock, thread or runtime: they build where none of these exist.

use crate::check::Work;
use crate::cross::Cross;
use anyhow::Result;

/// Builds `protocols` without `drive`, but with TLS, for a target without an operating system. Cryptography is left out: its providers
/// bring C and assembly.
pub(crate) fn work(cross: &Cross) -> Result<Work> {
    cross.work(
        "wasm32-unknown-unknown",
        "check",
        "-p shardloop-protocols --no-default-features --features tls --locked",
    )
}
