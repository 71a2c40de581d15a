//! Protocol state machines **without I/O**: bytes and time are arguments, output goes to a buffer of the caller's.
//!
//! | Module | Protocol | Source |
//! |---|---|---|
//! | [`length`] | u32 big-endian length, then the payload | this crate |
//! | [`echo`] | plain bytes, sent back as they come | RFC 862 |
//! | [`websocket`] | messages in frames, after an HTTP handshake | RFC 6455 |
//! | [`http1`] | HTTP/1.1, server and client | RFC 9110, RFC 9112 |
//! | [`tls`] | TLS 1.3 and 1.2, a layer over any of the above | RFC 8446, RFC 5246 |
//! | [`udp`] | one datagram, one message | RFC 768 |
//!
//! A machine is a [`StreamMachine`]: it is handed what was received, tells an [`App`] about each message, and appends what is to be
//! sent; over datagrams it is a [`DatagramMachine`]. It opens no socket, reads no clock and starts no thread, so a test feeds it byte by byte and a simulator in virtual time;
//! outside [`drive`] this crate builds for `wasm32-unknown-unknown`.
//!
//! By hand, as a test or a simulator does it:
//!
//! ```
//! use shardloop_protocols::{Flow, Next, StreamMachine, length::{Length, Reply}};
//! use std::time::Instant;
//!
//! let mut machine = Length::default();
//! let mut app = |message: &mut [u8], mut reply: Reply<'_>| {
//!     message.make_ascii_uppercase();
//!     reply.send(message).expect("an answer is as long as its question");
//!     Flow::Continue
//! };
//!
//! let (mut unread, mut sent) = (Vec::new(), Vec::new());
//! for piece in [&b"\0\0\0\x05hel"[..], b"lo\0\0", b"\0\x02it\0\0"] {
//!     unread.extend_from_slice(piece);
//!     loop {
//!         let mut out = Vec::new();
//!         let step = machine.handle(Instant::now(), &mut unread, &mut app, &mut out)?;
//!         // The drain rule: what was put out is taken before the next call.
//!         sent.append(&mut out);
//!         // What was not consumed is shown again, in front of what comes next.
//!         unread.drain(..step.consumed);
//!         match step.next {
//!             Next::Again => {}
//!             Next::NeedInput | Next::Close => break,
//!         }
//!     }
//! }
//! assert_eq!(sent, b"\0\0\0\x05HELLO\0\0\0\x02IT");
//! assert_eq!(unread, b"\0\0");
//! # Ok::<(), shardloop_protocols::length::LengthError>(())
//! ```
//!
//! The feature `drive` (on by default) adds the drivers that run a machine on any stream of `shardloop`, on a shard as well as on
//! another runtime that implements its `Stream`.
//!
//! What this crate does not do: resolve names, open connections, pick ports, log.

pub mod datagram;
pub mod echo;
pub mod http1;
pub mod length;
pub mod machine;
#[cfg(feature = "tls")]
pub mod tls;
pub mod udp;
pub mod websocket;
pub mod work;

#[cfg(feature = "drive")]
pub mod drive;

pub use datagram::{DatagramApp, DatagramMachine, Transmit};
pub use machine::{App, Fault, Flow, Next, Side, Step, StreamMachine};
