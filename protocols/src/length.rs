//! `length`: u32 big-endian length, then as many bytes of payload, both ways, on one connection as often as one likes.
//!
//! The simplest framing there is, and the measured protocol `tcp`. A length over the limit is refused as soon as its four bytes are
//! there: nothing is buffered for it.

use crate::machine::{
    App, Fault, Flow, Side, Step, StreamMachine, TURN_MESSAGES, TURN_OUTPUT_BYTES,
};
use std::{fmt, time::Instant};

/// Largest payload by default: 1 MiB.
pub const DEFAULT_LIMIT_BYTES: u32 = 1024 * 1024;

/// Bytes in front of each payload.
pub const HEADER_BYTES: usize = 4;

/// Either end of a `length` connection. It has no state: everything stands in the bytes.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    limit_bytes: u32,
}

impl Length {
    /// An end that takes payloads of up to `limit_bytes`.
    #[must_use]
    pub const fn new(limit_bytes: u32) -> Self {
        Self { limit_bytes }
    }

    /// Splits the first whole frame off: its end, or `None` if there is none yet.
    fn frame(self, input: &[u8]) -> Result<Option<usize>, LengthError> {
        let Some(header) = input.first_chunk::<HEADER_BYTES>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes(*header);
        if length > self.limit_bytes {
            return Err(LengthError::TooLong {
                length_bytes: length,
                limit_bytes: self.limit_bytes,
            });
        }
        // In this order, because with the largest limit the sum overflows where addresses have 32 bits.
        let there = input.len() - HEADER_BYTES >= length as usize;
        Ok(there.then(|| HEADER_BYTES + length as usize))
    }
}

impl Default for Length {
    fn default() -> Self {
        Self::new(DEFAULT_LIMIT_BYTES)
    }
}

/// Writes framed payloads into the output.
#[derive(Debug)]
pub struct Reply<'r> {
    out: &'r mut Vec<u8>,
    limit_bytes: u32,
}

impl Reply<'_> {
    /// Appends one frame.
    ///
    /// # Errors
    /// The payload is over the limit of this end; nothing is appended.
    pub fn send(&mut self, payload: &[u8]) -> Result<(), LengthError> {
        match u32::try_from(payload.len()) {
            Ok(length) if length <= self.limit_bytes => {
                self.out.reserve(HEADER_BYTES + payload.len());
                self.out.extend_from_slice(&length.to_be_bytes());
                self.out.extend_from_slice(payload);
                Ok(())
            }
            _ => Err(LengthError::ReplyTooLong {
                length_bytes: payload.len(),
                limit_bytes: self.limit_bytes,
            }),
        }
    }
}

impl StreamMachine for Length {
    type Message<'m> = &'m mut [u8];
    type Reply<'r> = Reply<'r>;
    type Error = LengthError;

    fn handle(
        &mut self,
        _now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, LengthError> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        let mut consumed = 0;
        for _ in 0..TURN_MESSAGES {
            let Some(end) = self.frame(&input[consumed..])? else {
                return Ok(Step::need_input(consumed));
            };
            let message = &mut input[consumed + HEADER_BYTES..consumed + end];
            let reply = Reply {
                out: &mut *out,
                limit_bytes: self.limit_bytes,
            };
            let flow = app.message(message, reply);
            consumed += end;
            if flow == Flow::Pause || out.len() >= TURN_OUTPUT_BYTES {
                break;
            }
        }
        Ok(Step::again(consumed))
    }

    fn end_of_input(
        &mut self,
        _now: Instant,
        unread: usize,
        _out: &mut Vec<u8>,
    ) -> Result<Step, LengthError> {
        match unread {
            0 => Ok(Step::close(0)),
            bytes => Err(LengthError::Truncated {
                unread_bytes: bytes,
            }),
        }
    }

    fn timeout(&self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _now: Instant, _out: &mut Vec<u8>) -> Result<Step, LengthError> {
        Ok(Step::need_input(0))
    }

    fn send<R>(
        &mut self,
        _now: Instant,
        out: &mut Vec<u8>,
        f: impl FnOnce(Reply<'_>) -> R,
    ) -> Result<R, LengthError> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        Ok(f(Reply {
            out,
            limit_bytes: self.limit_bytes,
        }))
    }
}

/// Why a `length` connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LengthError {
    /// The peer announced a payload over the limit.
    TooLong {
        /// What it announced.
        length_bytes: u32,
        /// What this end takes.
        limit_bytes: u32,
    },
    /// The application wanted to send a payload over the limit.
    ReplyTooLong {
        /// What it wanted to send.
        length_bytes: usize,
        /// What this end allows.
        limit_bytes: u32,
    },
    /// The peer closed in the middle of a frame.
    Truncated {
        /// Bytes of the frame that had come.
        unread_bytes: usize,
    },
}

impl fmt::Display for LengthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong {
                length_bytes,
                limit_bytes,
            } => write!(
                f,
                "the peer announced a frame of {length_bytes} bytes; this end takes at most {limit_bytes}"
            ),
            Self::ReplyTooLong {
                length_bytes,
                limit_bytes,
            } => write!(
                f,
                "a frame of {length_bytes} bytes was to be sent; this end sends at most {limit_bytes}"
            ),
            Self::Truncated { unread_bytes } => write!(
                f,
                "the peer closed in the middle of a frame, {unread_bytes} bytes into it"
            ),
        }
    }
}

impl std::error::Error for LengthError {}

impl Fault for LengthError {
    fn side(&self) -> Side {
        match self {
            Self::TooLong { .. } | Self::Truncated { .. } => Side::Peer,
            Self::ReplyTooLong { .. } => Side::Us,
        }
    }
}
