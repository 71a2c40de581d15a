//! What goes out: messages and control frames, framed and, from a client, masked (RFC 6455 sections 5 and 5.3).

use super::{
    close,
    frame::{self, CONTROL_BYTES, HEADER_BYTES_MOST, Opcode},
    handshake::Request,
    mask,
    options::Limits,
};
use rand_chacha::{ChaCha12Rng, rand_core::RngCore};
use std::fmt;

/// Writes messages into the output.
#[derive(Debug)]
pub struct Reply<'r> {
    pub(super) out: &'r mut Vec<u8>,
    pub(super) outgoing: &'r mut Outgoing,
    pub(super) request: Option<&'r Request>,
}

impl Reply<'_> {
    /// Sends a text.
    ///
    /// # Errors
    /// It is over the limit of this end, or this end has said its Close. Nothing is appended.
    pub fn text(&mut self, text: &str) -> Result<(), ReplyError> {
        self.outgoing
            .message(self.out, Opcode::Text, text.as_bytes())
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    pub fn binary(&mut self, bytes: &[u8]) -> Result<(), ReplyError> {
        self.outgoing.message(self.out, Opcode::Binary, bytes)
    }

    /// Sends a Ping with up to 125 bytes. The application does not see the Pong; for keep-alive there is
    /// [`Deadlines::keep_alive`](super::Deadlines::keep_alive).
    ///
    /// # Errors
    /// It is too long, or this end has said its Close. Nothing is appended.
    pub fn ping(&mut self, bytes: &[u8]) -> Result<(), ReplyError> {
        self.outgoing.check_open()?;
        check_length(bytes.len(), CONTROL_BYTES)?;
        self.outgoing.frame(self.out, true, Opcode::Ping, bytes);
        Ok(())
    }

    /// Says Close: the last that this end sends. `code` is one that [may be sent](close::may_be_sent), `reason` has up to
    /// [`close::REASON_BYTES`]. The application sees no message any more.
    ///
    /// # Errors
    /// The code or the reason cannot be sent, or this end has said its Close already. Nothing is appended.
    pub fn close(&mut self, code: u16, reason: &str) -> Result<(), ReplyError> {
        self.outgoing.check_open()?;
        if !close::may_be_sent(code) {
            return Err(ReplyError::Code(code));
        }
        check_length(reason.len(), close::REASON_BYTES)?;
        self.outgoing.close(self.out, Some(code), reason);
        Ok(())
    }

    /// The request that opened the connection, at a server; `None` at a client.
    #[must_use]
    pub fn request(&self) -> Option<&Request> {
        self.request
    }
}

/// Why a reply cannot be sent. The connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyError {
    /// It is over a limit.
    TooLong {
        /// What was to be sent.
        length_bytes: usize,
        /// What may be.
        limit_bytes: usize,
    },
    /// A Close may not carry this code (RFC 6455 section 7.4).
    Code(u16),
    /// After the Close nothing is sent (section 5.5.1).
    Closed,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong {
                length_bytes,
                limit_bytes,
            } => write!(
                f,
                "{length_bytes} bytes were to be sent; at most {limit_bytes} may be"
            ),
            Self::Code(code) => write!(f, "a Close may not carry the code {code}"),
            Self::Closed => f.write_str("this end has said Close; nothing may follow"),
        }
    }
}

impl std::error::Error for ReplyError {}

/// The sending half of a connection.
#[derive(Debug)]
pub(super) struct Outgoing {
    /// Where a client's keys come from.
    keys: Option<Box<ChaCha12Rng>>,
    limits: Limits,
    closed: bool,
}

impl Outgoing {
    pub(super) fn new(keys: Option<Box<ChaCha12Rng>>, limits: Limits) -> Self {
        Self {
            keys,
            limits,
            closed: false,
        }
    }

    /// Whether this end has said Close.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    fn check_open(&self) -> Result<(), ReplyError> {
        match self.closed {
            true => Err(ReplyError::Closed),
            false => Ok(()),
        }
    }

    /// One frame, unless it would be longer than this end's own limit for one: peers tend to have the same.
    fn message(
        &mut self,
        out: &mut Vec<u8>,
        opcode: Opcode,
        payload: &[u8],
    ) -> Result<(), ReplyError> {
        self.check_open()?;
        check_length(payload.len(), self.limits.message_bytes)?;
        let mut opcode = opcode;
        let mut rest = payload;
        while rest.len() > self.limits.frame_bytes {
            let (fragment, behind) = rest.split_at(self.limits.frame_bytes.max(1));
            self.frame(out, false, opcode, fragment);
            (opcode, rest) = (Opcode::Continuation, behind);
        }
        self.frame(out, true, opcode, rest);
        Ok(())
    }

    /// Answers a Ping, unless Close was said.
    pub(super) fn pong(&mut self, out: &mut Vec<u8>, payload: &[u8]) {
        if !self.closed {
            self.frame(out, true, Opcode::Pong, payload);
        }
    }

    /// Asks whether the peer is there.
    pub(super) fn ping(&mut self, out: &mut Vec<u8>) {
        self.frame(out, true, Opcode::Ping, &[]);
    }

    /// Says Close, unless that was said.
    pub(super) fn close(&mut self, out: &mut Vec<u8>, code: Option<u16>, reason: &str) {
        if self.closed {
            return;
        }
        let code = code.map(u16::to_be_bytes);
        let payload = [
            code.as_ref().map_or(&[][..], |code| code),
            reason.as_bytes(),
        ]
        .concat();
        self.frame(out, true, Opcode::Close, &payload);
        self.closed = true;
    }

    fn frame(&mut self, out: &mut Vec<u8>, fin: bool, opcode: Opcode, payload: &[u8]) {
        let key = self.keys.as_mut().map(|keys| keys.next_u32().to_le_bytes());
        out.reserve(HEADER_BYTES_MOST + payload.len());
        frame::write(out, fin, opcode, payload.len(), key);
        let at = out.len();
        out.extend_from_slice(payload);
        if let Some(key) = key {
            mask::apply(&mut out[at..], key);
        }
    }
}

fn check_length(length_bytes: usize, limit_bytes: usize) -> Result<(), ReplyError> {
    match length_bytes <= limit_bytes {
        true => Ok(()),
        false => Err(ReplyError::TooLong {
            length_bytes,
            limit_bytes,
        }),
    }
}
