//! The tool as its users meet it: the built program, its exit codes, its files.

#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap in a test is a failed test with a line number"
)]

mod encrypted;
mod null;
mod peers;
mod program;
mod refusals;
mod runs;
mod server;
mod stress;
mod udp;
