//! Compiles what this machine cannot run: every target of the workspace, tests too, for macOS on arm64.

use crate::check::Work;
use crate::cross::Cross;
use anyhow::Result;

/// Lints with the features that exist on macOS, which today are the default ones.
pub(crate) fn work(cross: &Cross) -> Result<Work> {
    cross.work(
        "aarch64-apple-darwin",
        "clippy",
        "--workspace --all-targets --locked",
    )
}
