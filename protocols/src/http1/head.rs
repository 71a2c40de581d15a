//! First line and fields of a head that is whole: parsed by `httparse`, then held to what it lets pass.

use super::{
    fault::Http1Error,
    fields::{Fields, Role},
    limits::{Limits, MOST_HEADERS},
    status::Status,
    token,
};
use httparse::{Error, Header, ParserConfig};
use std::mem::MaybeUninit;

/// Room for the fields of one head, on the stack and not written before it is needed.
pub(super) type Slots<'h> = [MaybeUninit<Header<'h>>; MOST_HEADERS];

/// Such room.
pub(super) const fn slots<'h>() -> Slots<'h> {
    [const { MaybeUninit::uninit() }; MOST_HEADERS]
}

/// The version of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0.
    Http10,
    /// HTTP/1.1, and every later 1.x, which is read as 1.1 (RFC 9110 section 2.5).
    Http11,
}

impl Version {
    const fn from_minor(minor: Option<u8>) -> Self {
        match minor {
            Some(0) => Self::Http10,
            _ => Self::Http11,
        }
    }
}

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestHead<'h> {
    pub(super) method: &'h str,
    pub(super) target: &'h str,
    pub(super) version: Version,
    pub(super) headers: &'h [Header<'h>],
}

impl<'h> RequestHead<'h> {
    /// Parses a head whose end was found by [`Scan`](super::scan::Scan).
    pub(super) fn parse(
        head: &'h [u8],
        slots: &'h mut Slots<'h>,
        limits: &Limits,
    ) -> Result<Self, Http1Error> {
        let mut request = httparse::Request::new(&mut []);
        let slots = &mut slots[..limits.headers];
        let parsed =
            ParserConfig::default().parse_request_with_uninit_headers(&mut request, head, slots);
        match parsed {
            Ok(httparse::Status::Complete(end)) if end == head.len() => {}
            Ok(_) => return Err(Http1Error::InvalidRequestLine),
            Err(error) => return Err(refused_request(error, head)),
        }
        let target = request.path.unwrap_or_default();
        if target.len() > limits.target_bytes {
            return Err(Http1Error::TargetTooLong);
        }
        Ok(Self {
            method: request.method.unwrap_or_default(),
            target,
            version: Version::from_minor(request.version),
            headers: request.headers,
        })
    }

    /// What its fields say, if a request may say so.
    pub(super) fn fields(&self) -> Result<Fields, Http1Error> {
        let fields = Fields::read(self.headers, Role::Server)?;
        match self.version {
            Version::Http10 if fields.chunked => Err(Http1Error::CodingInOldVersion),
            Version::Http11 if !fields.has_host => Err(Http1Error::MissingHost),
            _ => Ok(fields),
        }
    }
}

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub(super) struct ResponseHead<'h> {
    pub(super) version: Version,
    pub(super) status: Status,
    pub(super) reason: &'h str,
    pub(super) headers: &'h [Header<'h>],
}

impl<'h> ResponseHead<'h> {
    /// Parses a head whose end was found by [`Scan`](super::scan::Scan).
    pub(super) fn parse(
        head: &'h [u8],
        slots: &'h mut Slots<'h>,
        limits: &Limits,
    ) -> Result<Self, Http1Error> {
        let mut response = httparse::Response::new(&mut []);
        let slots = &mut slots[..limits.headers];
        let parsed =
            ParserConfig::default().parse_response_with_uninit_headers(&mut response, head, slots);
        match parsed {
            Ok(httparse::Status::Complete(end)) if end == head.len() => {}
            Ok(_) => return Err(Http1Error::InvalidStatusLine),
            Err(error) => return Err(refused_response(error, head)),
        }
        let status = response.code.and_then(Status::new);
        Ok(Self {
            version: Version::from_minor(response.version),
            status: status.ok_or(Http1Error::InvalidStatusLine)?,
            reason: response.reason.unwrap_or_default(),
            headers: response.headers,
        })
    }

    /// What its fields say, if a response may say so.
    pub(super) fn fields(&self) -> Result<Fields, Http1Error> {
        let fields = Fields::read(self.headers, Role::Client)?;
        match self.version {
            Version::Http10 if fields.chunked => Err(Http1Error::CodingInOldVersion),
            _ => Ok(fields),
        }
    }
}

/// Reads a later minor version as 1.1, for a parser that knows no later one: `version` is where it stands.
pub(super) fn read_as_http11(version: Option<&mut [u8; 8]>) {
    if let Some(
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            b'1',
            b'.',
            minor @ b'2'..=b'9',
        ],
    ) = version
    {
        *minor = b'1';
    }
}

/// What is wrong with the head of a request.
#[cold]
fn refused_request(error: Error, head: &[u8]) -> Http1Error {
    let (line, fields) = split_line(head);
    match error {
        Error::TooManyHeaders => Http1Error::TooManyHeaders,
        Error::HeaderName | Error::HeaderValue => refused_field(error, fields),
        Error::Version => match refused_line(line) {
            // Three words, of which the first two are in order.
            Http1Error::InvalidRequestLine if line.split(|byte| *byte == b' ').count() == 3 => {
                refused_version(line)
            }
            fault => fault,
        },
        _ => refused_line(line),
    }
}

/// What is wrong with the version that ends a request line: it is another one, or none.
#[cold]
fn refused_version(line: &[u8]) -> Http1Error {
    match line.last_chunk::<9>() {
        Some([b' ', b'H', b'T', b'T', b'P', b'/', major, b'.', minor])
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            Http1Error::UnsupportedVersion
        }
        _ => Http1Error::InvalidVersion,
    }
}

#[cold]
fn refused_line(line: &[u8]) -> Http1Error {
    let mut words = line.split(|byte| *byte == b' ');
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some(method), Some(target), Some(_), None) => {
            if !token::is_token(method) {
                Http1Error::InvalidMethod
            } else if target.is_empty() || !target.iter().all(u8::is_ascii_graphic) {
                Http1Error::InvalidTarget
            } else {
                Http1Error::InvalidRequestLine
            }
        }
        _ => Http1Error::InvalidRequestLine,
    }
}

/// What is wrong with the head of a response.
#[cold]
fn refused_response(error: Error, head: &[u8]) -> Http1Error {
    match error {
        Error::TooManyHeaders => Http1Error::TooManyHeaders,
        Error::HeaderName | Error::HeaderValue => refused_field(error, split_line(head).1),
        Error::Version => Http1Error::UnsupportedVersion,
        _ => Http1Error::InvalidStatusLine,
    }
}

/// What is wrong with the first field line that is wrong.
#[cold]
fn refused_field(error: Error, mut fields: &[u8]) -> Http1Error {
    while !fields.is_empty() {
        let (line, rest) = split_line(fields);
        fields = rest;
        if line.is_empty() {
            break;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else {
            return Http1Error::MissingColon;
        };
        match &line[..colon] {
            [] => return Http1Error::EmptyHeaderName,
            [.., b' ' | b'\t'] => return Http1Error::WhitespaceBeforeColon,
            name if !token::is_token(name) => return Http1Error::InvalidHeaderName,
            _ if line[colon..].iter().all(|byte| token::is_value_byte(*byte)) => {}
            _ => return Http1Error::InvalidHeaderValue,
        }
    }
    match error {
        Error::HeaderName => Http1Error::InvalidHeaderName,
        _ => Http1Error::InvalidHeaderValue,
    }
}

/// The first line without its end, and what follows.
fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.windows(2).position(|end| end == b"\r\n") {
        Some(at) => (&bytes[..at], &bytes[at + 2..]),
        None => (bytes, &[]),
    }
}
