//! What this end writes: first lines, fields and bodies, checked before the first byte, so that an error leaves nothing behind.

use super::{status::Status, token};
use std::{error, fmt};

/// A field to be sent: its name and its value.
pub type Field<'a> = (&'a str, &'a [u8]);

/// Why a message was not written. Nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WriteError {
    /// A field name that is no token.
    InvalidHeaderName,
    /// A field value with a control character.
    InvalidHeaderValue,
    /// A field that this crate writes itself: Content-Length, Transfer-Encoding, Connection.
    FramingHeader,
    /// A status that is not the last one: 1xx.
    InterimStatus,
    /// A body where none may be: 204, 205, 304.
    BodyNotAllowed,
    /// A method that is no token, or CONNECT.
    InvalidMethod,
    /// A target that is not as RFC 9112 section 3.2 wants it.
    InvalidTarget,
    /// A host that is no host and port.
    InvalidHost,
    /// As many requests are unanswered as may be.
    WindowFull,
    /// The connection takes no further request.
    Closing,
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidHeaderName => "a header name is no token",
            Self::InvalidHeaderValue => "a header value has a control character",
            Self::FramingHeader => "a header that frames the message is not the caller's",
            Self::InterimStatus => "the status is not a final one",
            Self::BodyNotAllowed => "a body with a status that has none",
            Self::InvalidMethod => "the method is no token, or CONNECT",
            Self::InvalidTarget => "the target is malformed",
            Self::InvalidHost => "the host is malformed",
            Self::WindowFull => "as many requests are unanswered as may be",
            Self::Closing => "the connection takes no further request",
        })
    }
}

impl error::Error for WriteError {}

/// Whether all of `fields` may be sent.
pub(super) fn check_fields(fields: &[Field<'_>]) -> Result<(), WriteError> {
    const OURS: [&str; 3] = ["content-length", "transfer-encoding", "connection"];
    for (name, value) in fields {
        if !token::is_token(name.as_bytes()) {
            return Err(WriteError::InvalidHeaderName);
        }
        if !value.iter().all(|byte| token::is_value_byte(*byte)) {
            return Err(WriteError::InvalidHeaderValue);
        }
        if OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)) {
            return Err(WriteError::FramingHeader);
        }
    }
    Ok(())
}

/// Appends a status line.
pub(super) fn status_line(out: &mut Vec<u8>, status: Status) {
    if status == Status::OK {
        return out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    decimal(out, status.code().into());
    out.push(b' ');
    out.extend_from_slice(status.reason().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends fields that were checked.
pub(super) fn fields(out: &mut Vec<u8>, fields: &[Field<'_>]) {
    for (name, value) in fields {
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
}

/// Appends a Content-Length.
pub(super) fn content_length(out: &mut Vec<u8>, bytes: usize) {
    out.extend_from_slice(b"Content-Length: ");
    decimal(out, bytes as u64);
    out.extend_from_slice(b"\r\n");
}

/// Bytes that a message's head takes at most, besides its first line.
pub(super) fn fields_bytes(fields: &[Field<'_>]) -> usize {
    const OUR_OWN_BYTES: usize = 160;
    let of = |(name, value): &Field<'_>| name.len() + value.len() + 4;
    fields.iter().map(of).sum::<usize>() + OUR_OWN_BYTES
}

/// Appends a number in decimal digits, without the machinery of formatting.
fn decimal(out: &mut Vec<u8>, number: u64) {
    digits::<10>(out, number);
}

fn digits<const BASE: u64>(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        let digit = usize::try_from(number % BASE).expect("it is below the base");
        digits[at] = b"0123456789abcdef"[digit];
        number /= BASE;
        if number == 0 {
            return out.extend_from_slice(&digits[at..]);
        }
    }
}

/// Writes a body whose length is not known beforehand. Dropped without [`finish`](Self::finish), the message stays without an end, and
/// the connection is closed so that the peer sees it.
#[derive(Debug)]
#[must_use = "a body that is not finished breaks the connection"]
pub struct BodyWriter<'r> {
    pub(super) out: &'r mut Vec<u8>,
    pub(super) coding: Coding,
    /// Set until the body is finished.
    pub(super) broken: &'r mut bool,
}

/// How such a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Chunked,
    /// As it is: it ends with the connection, as HTTP/1.0 knows no chunks.
    Plain,
    /// Not at all: the answer to HEAD, or a status without a body.
    Nothing,
}

impl<'r> BodyWriter<'r> {
    pub(super) fn new(out: &'r mut Vec<u8>, coding: Coding, broken: &'r mut bool) -> Self {
        *broken = true;
        Self {
            out,
            coding,
            broken,
        }
    }

    /// Appends `bytes` as one chunk; nothing if there are none, as an empty chunk would be the end.
    pub fn chunk(&mut self, bytes: &[u8]) {
        match self.coding {
            Coding::Chunked if !bytes.is_empty() => {
                digits::<16>(self.out, bytes.len() as u64);
                self.out.extend_from_slice(b"\r\n");
                self.out.extend_from_slice(bytes);
                self.out.extend_from_slice(b"\r\n");
            }
            Coding::Plain => self.out.extend_from_slice(bytes),
            Coding::Chunked | Coding::Nothing => {}
        }
    }

    /// Ends the body.
    pub fn finish(self) {
        if self.coding == Coding::Chunked {
            self.out.extend_from_slice(b"0\r\n\r\n");
        }
        *self.broken = false;
    }
}
