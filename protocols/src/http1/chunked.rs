//! The chunked coding (RFC 9112 section 7.1), decoded as it arrives: a byte of framing at a time, data in whole pieces.
//!
//! Where it stands is one value, so that a cut anywhere makes no difference. Sizes are hexadecimal digits and nothing else; lines end
//! with CR LF and nothing else; extensions and trailers are checked, counted and dropped. A trailer that would frame, route or
//! authenticate the message is refused, as a reader that merges trailers into the header would be led astray by it.

use super::{fault::Http1Error, limits::Limits, token};

/// Digits of a chunk size, at most; as many as a `u64` holds.
const MOST_DIGITS: u8 = 16;

/// The longest name of [`FORBIDDEN_TRAILERS`], in bytes.
const LONGEST_NAME_BYTES: usize = 24;

/// Fields that are no trailers (RFC 9110 section 6.5.1): framing, routing, authentication, and what controls the connection.
const FORBIDDEN_TRAILERS: &[&str] = &[
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "keep-alive",
    "max-forwards",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "www-authenticate",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
];

/// A body being decoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunked {
    at: At,
    /// Of the chunk in hand: its size, then what is left of it.
    left_bytes: u64,
    digits: u8,
    body_bytes: usize,
    extension_bytes: usize,
    trailer_bytes: usize,
    trailers: usize,
    name: [u8; LONGEST_NAME_BYTES],
    name_bytes: usize,
}

/// Where in the grammar the next byte stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Size,
    /// Whitespace before a semicolon.
    Gap,
    ExtensionStart,
    ExtensionName,
    /// Whitespace behind a name; an equals sign may follow.
    ExtensionNameGap,
    ValueStart,
    Value,
    Quoted,
    QuotedPair,
    QuotedEnd,
    SizeEnd,
    Data,
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerEnd,
    LastLf,
    Done,
}

impl Chunked {
    pub(super) const fn new() -> Self {
        Self {
            at: At::Size,
            left_bytes: 0,
            digits: 0,
            body_bytes: 0,
            extension_bytes: 0,
            trailer_bytes: 0,
            trailers: 0,
            name: [0; LONGEST_NAME_BYTES],
            name_bytes: 0,
        }
    }

    /// Decodes from the front of `input` into `body`; how many bytes it took. Less than all only if the body has ended.
    ///
    /// # Errors
    /// The coding is malformed, or a limit is broken. `body` holds at most as much as the limit.
    pub(super) fn decode(
        &mut self,
        input: &[u8],
        body: &mut Vec<u8>,
        limits: &Limits,
    ) -> Result<usize, Http1Error> {
        let mut taken = 0;
        while taken < input.len() && !self.is_done() {
            if self.at == At::Data {
                taken += self.data(&input[taken..], body);
            } else {
                self.at = self.framing(input[taken], limits)?;
                taken += 1;
            }
        }
        Ok(taken)
    }

    /// Whether the body has ended.
    pub(super) fn is_done(&self) -> bool {
        self.at == At::Done
    }

    fn data(&mut self, input: &[u8], body: &mut Vec<u8>) -> usize {
        let left = usize::try_from(self.left_bytes).unwrap_or(usize::MAX);
        let piece = &input[..input.len().min(left)];
        body.extend_from_slice(piece);
        self.left_bytes -= piece.len() as u64;
        if self.left_bytes == 0 {
            self.at = At::DataCr;
        }
        piece.len()
    }

    /// What a byte that is no data leads to.
    fn framing(&mut self, byte: u8, limits: &Limits) -> Result<At, Http1Error> {
        match self.at {
            At::Size => self.size(byte, limits),
            At::SizeEnd => self.size_end(byte, limits),
            At::DataCr if byte == b'\r' => Ok(At::DataLf),
            At::DataLf if byte == b'\n' => {
                (self.left_bytes, self.digits) = (0, 0);
                Ok(At::Size)
            }
            At::DataCr | At::DataLf => Err(Http1Error::InvalidChunkEnd),
            At::TrailerStart | At::TrailerName | At::TrailerValue | At::TrailerEnd => {
                self.trailer(byte, limits)
            }
            At::LastLf if byte == b'\n' => Ok(At::Done),
            At::LastLf => Err(Http1Error::InvalidTrailer),
            At::Data | At::Done => unreachable!("neither takes framing"),
            at => self.extension(at, byte, limits),
        }
    }

    fn size(&mut self, byte: u8, limits: &Limits) -> Result<At, Http1Error> {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            b'\r' | b';' | b' ' | b'\t' if self.digits > 0 => {
                return self.extension(At::QuotedEnd, byte, limits);
            }
            _ => return Err(Http1Error::InvalidChunkSize),
        };
        if self.digits == MOST_DIGITS {
            return Err(Http1Error::InvalidChunkSize);
        }
        self.digits += 1;
        self.left_bytes = self.left_bytes << 4 | u64::from(digit);
        Ok(At::Size)
    }

    fn size_end(&mut self, byte: u8, limits: &Limits) -> Result<At, Http1Error> {
        if byte != b'\n' {
            return Err(Http1Error::BareCarriageReturn);
        }
        if self.left_bytes == 0 {
            return Ok(At::TrailerStart);
        }
        let size = usize::try_from(self.left_bytes).unwrap_or(usize::MAX);
        self.body_bytes = self.body_bytes.saturating_add(size);
        if self.body_bytes > limits.body_bytes {
            return Err(Http1Error::BodyTooLarge);
        }
        Ok(At::Data)
    }

    /// What a byte of an extension leads to. Behind a quoted value, and behind a size, the same may follow.
    fn extension(&mut self, at: At, byte: u8, limits: &Limits) -> Result<At, Http1Error> {
        if byte != b'\r' {
            self.extension_bytes += 1;
            if self.extension_bytes > limits.extension_bytes {
                return Err(Http1Error::ExtensionsTooLarge);
            }
        }
        match (at, byte) {
            (At::ExtensionName | At::Value | At::QuotedEnd, b'\r') => Ok(At::SizeEnd),
            (
                At::ExtensionName | At::ExtensionNameGap | At::Value | At::QuotedEnd | At::Gap,
                b';',
            ) => Ok(At::ExtensionStart),
            (At::Value | At::QuotedEnd | At::Gap, b' ' | b'\t') => Ok(At::Gap),
            (At::ExtensionName | At::ExtensionNameGap, b' ' | b'\t') => Ok(At::ExtensionNameGap),
            (At::ExtensionName | At::ExtensionNameGap, b'=') => Ok(At::ValueStart),
            (At::ExtensionStart | At::ValueStart, b' ' | b'\t') => Ok(at),
            (At::ValueStart, b'"') => Ok(At::Quoted),
            (At::ExtensionStart | At::ExtensionName, _) if token::is_token_byte(byte) => {
                Ok(At::ExtensionName)
            }
            (At::ValueStart | At::Value, _) if token::is_token_byte(byte) => Ok(At::Value),
            (At::Quoted, b'"') => Ok(At::QuotedEnd),
            (At::Quoted, b'\\') => Ok(At::QuotedPair),
            (At::Quoted | At::QuotedPair, _) if token::is_value_byte(byte) => Ok(At::Quoted),
            _ => Err(Http1Error::InvalidChunkExtension),
        }
    }

    fn trailer(&mut self, byte: u8, limits: &Limits) -> Result<At, Http1Error> {
        self.trailer_bytes += 1;
        if self.trailer_bytes > limits.trailer_bytes {
            return Err(Http1Error::TrailersTooLarge);
        }
        match (self.at, byte) {
            (At::TrailerStart, b'\r') => Ok(At::LastLf),
            (At::TrailerStart, _) if token::is_token_byte(byte) => {
                self.trailers += 1;
                if self.trailers > limits.trailers {
                    return Err(Http1Error::TooManyTrailers);
                }
                self.name_bytes = 0;
                self.name_byte(byte);
                Ok(At::TrailerName)
            }
            (At::TrailerName, b':') if self.is_forbidden() => Err(Http1Error::ForbiddenTrailer),
            (At::TrailerName, b':') => Ok(At::TrailerValue),
            (At::TrailerName, _) if token::is_token_byte(byte) => {
                self.name_byte(byte);
                Ok(At::TrailerName)
            }
            (At::TrailerValue, b'\r') => Ok(At::TrailerEnd),
            (At::TrailerValue, _) if token::is_value_byte(byte) => Ok(At::TrailerValue),
            (At::TrailerEnd, b'\n') => Ok(At::TrailerStart),
            _ => Err(Http1Error::InvalidTrailer),
        }
    }

    /// Remembers as much of a name as could be forbidden.
    fn name_byte(&mut self, byte: u8) {
        if let Some(place) = self.name.get_mut(self.name_bytes) {
            *place = byte.to_ascii_lowercase();
        }
        self.name_bytes += 1;
    }

    fn is_forbidden(&self) -> bool {
        let name = self.name.get(..self.name_bytes);
        name.is_some_and(|name| {
            FORBIDDEN_TRAILERS
                .iter()
                .any(|other| other.as_bytes() == name)
        })
    }
}
