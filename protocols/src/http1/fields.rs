//! The fields that decide how a message is framed and whether another follows: found in one pass, refused where two readers could
//! understand them differently.

use super::{fault::Http1Error, target::is_host, token};

/// What the fields of one head say about the connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields {
    pub(super) has_host: bool,
    /// Content-Length in bytes.
    pub(super) length: Option<u64>,
    /// Transfer-Encoding is exactly `chunked`.
    pub(super) chunked: bool,
    /// Connection has `close`.
    pub(super) close: bool,
    /// Connection has `keep-alive`.
    pub(super) keep_alive: bool,
    /// Expect has come.
    pub(super) expects: Option<Expectation>,
}

/// Who reads a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It reads requests.
    Server,
    /// It reads responses, in which a Host means nothing.
    Client,
}

/// What a client waits for before it sends a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expectation {
    /// `100-continue`.
    Continue,
    /// Something else.
    Unknown,
}

impl Fields {
    /// Reads all of them.
    pub(super) fn read(headers: &[httparse::Header<'_>], role: Role) -> Result<Self, Http1Error> {
        let mut fields = Self::default();
        for header in headers {
            fields.take(header.name.as_bytes(), token::trim(header.value), role)?;
        }
        if fields.chunked && fields.length.is_some() {
            return Err(Http1Error::LengthAndCoding);
        }
        Ok(fields)
    }

    fn take(&mut self, name: &[u8], value: &[u8], role: Role) -> Result<(), Http1Error> {
        // By length first: most fields are none of these.
        match name.len() {
            4 if role == Role::Server && name.eq_ignore_ascii_case(b"host") => self.host(value),
            6 if name.eq_ignore_ascii_case(b"expect") => {
                self.expect(value);
                Ok(())
            }
            10 if name.eq_ignore_ascii_case(b"connection") => {
                self.connection(value);
                Ok(())
            }
            14 if name.eq_ignore_ascii_case(b"content-length") => self.content_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => self.transfer_encoding(value),
            _ => Ok(()),
        }
    }

    fn host(&mut self, value: &[u8]) -> Result<(), Http1Error> {
        if std::mem::replace(&mut self.has_host, true) {
            return Err(Http1Error::SeveralHosts);
        }
        if is_host(value) {
            Ok(())
        } else {
            Err(Http1Error::InvalidHost)
        }
    }

    fn expect(&mut self, value: &[u8]) {
        let known = value.eq_ignore_ascii_case(b"100-continue");
        self.expects = match self.expects {
            Some(Expectation::Unknown) => Some(Expectation::Unknown),
            _ if known => Some(Expectation::Continue),
            _ => Some(Expectation::Unknown),
        };
    }

    fn connection(&mut self, value: &[u8]) {
        for option in token::list(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), Http1Error> {
        if self.length.is_some() {
            return Err(Http1Error::SeveralContentLengths);
        }
        self.length = Some(decimal(value).ok_or(Http1Error::InvalidContentLength)?);
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Http1Error> {
        if std::mem::replace(&mut self.chunked, true) {
            return Err(Http1Error::SeveralTransferEncodings);
        }
        let (mut others, mut chunked, mut last) = (0, 0, false);
        for coding in token::list(value) {
            last = coding.eq_ignore_ascii_case(b"chunked");
            if last {
                chunked += 1;
            } else {
                others += 1;
            }
        }
        match (chunked, others) {
            _ if !last => Err(Http1Error::NotEndingInChunked),
            (1, 0) => Ok(()),
            (1, _) => Err(Http1Error::UnknownCoding),
            _ => Err(Http1Error::ChunkedTwice),
        }
    }
}

/// Digits and nothing else. A number beyond `u64` is over every limit, and is the largest there is.
fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0_u64, |number, digit| {
        let digit = u64::from(digit - b'0');
        number.saturating_mul(10).saturating_add(digit)
    });
    Some(number)
}
