//! Protocol state machines **without I/O**: bytes and time are arguments, output goes to a buffer of the caller's.
//!
//! | Module | Protocol | Source |
//! |---|---|---|
//! | [`length`] | u32 big-endian length, then the payload | this crate |
//! | [`echo`] | plain bytes, sent back as they come | RFC 862 |
//!
//! A machine is a [`StreamMachine`]: it is handed what was received, tells an [`App`] about each message, and appends what is to be
//! sent. It opens no socket, reads no clock and starts no thread, so a test feeds it byte by byte and a simulator in virtual time;
//! outside [`drive`] this crate builds for `wasm32-unknown-unknown`.
//!
//! The feature `drive` (on by default) adds the drivers that run a machine on any stream of `shardloop`, on a shard as well as on
//! another runtime that implements its `Stream`.
//!
//! What this crate does not do: resolve names, open connections, pick ports, log.

pub mod echo;
pub mod length;
pub mod machine;
pub mod work;

#[cfg(feature = "drive")]
pub mod drive;

pub use machine::{App, Fault, Flow, Next, Side, Step, StreamMachine};
