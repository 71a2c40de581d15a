//! Runs every cell of the benchmark once as a user would, optimised, with the content of every reply verified.

use crate::check::Work;
use crate::command::CommandLine;

/// The benchmark's own test.
pub(crate) fn work() -> Work {
    Work::Commands(vec![CommandLine::new(
        "cargo run --release --locked -p bench -- test",
    )])
}
