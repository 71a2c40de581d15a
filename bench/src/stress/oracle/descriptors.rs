//! Descriptors of this process, counted; they must come back to what they were.

use anyhow::Context;
use shardloop_platform::socket;
use std::time::{Duration, Instant};

/// How many are open.
pub(crate) fn count() -> anyhow::Result<usize> {
    socket::open_descriptors().context("open descriptors must be countable for this scenario")
}

/// How many are open once there are `expected`, or once patience is over: threads that end close theirs a moment later.
pub(crate) fn settled(expected: usize, patience: Duration) -> anyhow::Result<usize> {
    let deadline = Instant::now() + patience;
    loop {
        let now = count()?;
        if now == expected || Instant::now() >= deadline {
            return Ok(now);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Raises the limit; an error if that is not enough for `needed`.
pub(crate) fn allow(needed: u64) -> anyhow::Result<Result<(), String>> {
    let limit = socket::raise_descriptor_limit()?;
    Ok(if limit < needed {
        Err(format!(
            "{needed} descriptors are needed and {limit} allowed; raise the hard limit (ulimit -Hn)"
        ))
    } else {
        Ok(())
    })
}
