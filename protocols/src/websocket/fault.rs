//! Why a WebSocket connection cannot go on. One variant per refusal, so that a server can count them.

use super::{
    close,
    handshake::{RequestError, ResponseError},
};
use crate::machine::{Fault, Side};
use std::fmt;

/// Why a WebSocket connection cannot go on, or could not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WebSocketError {
    /// A client's options do not make a request; this is which.
    Options(&'static str),
    /// Output was wanted before the handshake was done, or after the Close.
    NotOpen,
    /// The client's opening handshake was refused; the answer was its HTTP status.
    Request(RequestError),
    /// The server's answer to the opening handshake is not one (RFC 6455 section 4.1).
    Response(ResponseError),
    /// The peer closed in the middle of the opening handshake.
    EndedInHandshake,
    /// A reserved bit is set, and no extension was agreed on (section 5.2).
    ReservedBits,
    /// A reserved opcode (section 5.2).
    ReservedOpcode(u8),
    /// A control frame that is a fragment (section 5.5).
    FragmentedControl,
    /// A control frame with more than 125 bytes (section 5.5).
    LongControl,
    /// A client's frame without a mask (section 5.1).
    NotMasked,
    /// A server's frame with a mask (section 5.1).
    Masked,
    /// A length in more bytes than it needs (section 5.2).
    LengthNotMinimal,
    /// A length with the most significant of its 64 bits set (section 5.2).
    LengthTopBit,
    /// A continuation of nothing (section 5.4).
    LoneContinuation,
    /// A new message in the middle of another (section 5.4).
    Interleaved,
    /// A Close with half a code (section 5.5.1).
    HalfCloseCode,
    /// A Close with a code that may not be sent (section 7.4).
    CloseCode(u16),
    /// A Close whose reason is not UTF-8 (section 5.5.1).
    CloseReasonNotUtf8,
    /// A text message that is not UTF-8 (section 8.1).
    TextNotUtf8,
    /// A frame over the limit.
    FrameTooLong {
        /// What the peer announced.
        length_bytes: u64,
        /// What this end takes.
        limit_bytes: usize,
    },
    /// A message over the limit, all its fragments taken together.
    MessageTooLong {
        /// What this end takes.
        limit_bytes: usize,
    },
    /// A message in more fragments than the limit.
    TooManyFragments {
        /// What this end takes.
        limit: usize,
    },
    /// The peer closed the connection without a Close (close code 1006, section 7.1.5).
    EndedWithoutClose,
    /// The peer did not answer our Close within the deadline.
    CloseTimedOut,
    /// The peer was silent, and silent again after a Ping.
    KeepAliveTimedOut,
}

impl WebSocketError {
    /// The code of the Close that the peer is told this with; `None` if it is told otherwise or not at all.
    #[must_use]
    pub const fn close_code(&self) -> Option<u16> {
        match self {
            Self::ReservedBits
            | Self::ReservedOpcode(_)
            | Self::FragmentedControl
            | Self::LongControl
            | Self::NotMasked
            | Self::Masked
            | Self::LengthNotMinimal
            | Self::LengthTopBit
            | Self::LoneContinuation
            | Self::Interleaved
            | Self::HalfCloseCode
            | Self::CloseCode(_) => Some(close::PROTOCOL_ERROR),
            Self::CloseReasonNotUtf8 | Self::TextNotUtf8 => Some(close::INVALID_DATA),
            Self::FrameTooLong { .. }
            | Self::MessageTooLong { .. }
            | Self::TooManyFragments { .. } => Some(close::TOO_BIG),
            Self::KeepAliveTimedOut => Some(close::POLICY),
            Self::Options(_)
            | Self::NotOpen
            | Self::Request(_)
            | Self::Response(_)
            | Self::EndedInHandshake
            | Self::EndedWithoutClose
            | Self::CloseTimedOut => None,
        }
    }
}

impl fmt::Display for WebSocketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Options(what) => what,
            Self::NotOpen => {
                "a WebSocket that is not open sends nothing: wait for the handshake, and stop at the Close"
            }
            Self::Request(fault) => return write!(f, "the opening handshake was refused: {fault}"),
            Self::Response(fault) => {
                return write!(f, "the server did not open a WebSocket: {fault}");
            }
            Self::EndedInHandshake => "the peer closed in the middle of the opening handshake",
            Self::ReservedBits => "the peer set a reserved bit, but no extension was agreed on",
            Self::ReservedOpcode(opcode) => {
                return write!(f, "the peer sent a frame with the reserved opcode {opcode}");
            }
            Self::FragmentedControl => "the peer sent a fragment of a control frame",
            Self::LongControl => "the peer sent a control frame of more than 125 bytes",
            Self::NotMasked => "the client sent a frame without a mask",
            Self::Masked => "the server sent a frame with a mask",
            Self::LengthNotMinimal => "the peer sent a length in more bytes than it needs",
            Self::LengthTopBit => "the peer announced a frame of 2^63 bytes or more",
            Self::LoneContinuation => "the peer went on with a message that it had not begun",
            Self::Interleaved => "the peer began a message in the middle of another",
            Self::HalfCloseCode => "the peer sent a Close with a single byte",
            Self::CloseCode(code) => {
                return write!(f, "the peer sent a Close with {code}, which may not be sent");
            }
            Self::CloseReasonNotUtf8 => "the peer sent a Close whose reason is not UTF-8",
            Self::TextNotUtf8 => "the peer sent a text that is not UTF-8",
            Self::FrameTooLong {
                length_bytes,
                limit_bytes,
            } => {
                return write!(
                    f,
                    "the peer announced a frame of {length_bytes} bytes; this end takes at most {limit_bytes} (`Limits::frame_bytes`)"
                );
            }
            Self::MessageTooLong { limit_bytes } => {
                return write!(
                    f,
                    "the peer sent a message of more than {limit_bytes} bytes (`Limits::message_bytes`)"
                );
            }
            Self::TooManyFragments { limit } => {
                return write!(
                    f,
                    "the peer sent a message in more than {limit} fragments (`Limits::fragments`)"
                );
            }
            Self::EndedWithoutClose => "the peer closed the connection without a Close",
            Self::CloseTimedOut => "the peer did not answer the Close in time",
            Self::KeepAliveTimedOut => "the peer was silent and did not answer a Ping in time",
        })
    }
}

impl std::error::Error for WebSocketError {}

impl Fault for WebSocketError {
    fn side(&self) -> Side {
        match self {
            Self::Options(_) | Self::NotOpen => Side::Us,
            _ => Side::Peer,
        }
    }
}

impl From<RequestError> for WebSocketError {
    fn from(fault: RequestError) -> Self {
        Self::Request(fault)
    }
}

impl From<ResponseError> for WebSocketError {
    fn from(fault: ResponseError) -> Self {
        Self::Response(fault)
    }
}
