//! The server's side of the handshake: what a client asks for, whether that is in order, and the answer (RFC 6455 section 4.2).

use super::{
    accept_of,
    head::{self, NoHead},
};
use crate::websocket::options::ServerOptions;
use base64::{Engine, prelude::BASE64_STANDARD};
use std::{fmt, str};

/// A client's request, as it came.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    head: Box<[u8]>,
}

impl Request {
    /// What was asked for, as it stands in the request line: mostly a path and perhaps a query.
    #[must_use]
    pub fn target(&self) -> &str {
        text(target(&self.head))
    }

    /// The path: the target without its query and, if it is absolute, without scheme and authority. Nothing in it is decoded.
    #[must_use]
    pub fn path(&self) -> &str {
        let (path, _) = self.path_and_query();
        if path.is_empty() { "/" } else { path }
    }

    /// What stands behind the question mark.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.path_and_query().1
    }

    /// The server, as the client knows it.
    #[must_use]
    pub fn host(&self) -> &str {
        self.header("Host").map_or("", |value| text(value))
    }

    /// The page that the request comes from, if it comes from a browser.
    #[must_use]
    pub fn origin(&self) -> Option<&str> {
        self.header("Origin").map(text)
    }

    /// Subprotocols the client offers, the preferred first.
    pub fn subprotocols(&self) -> impl Iterator<Item = &str> {
        head::list(&self.head, PROTOCOL).map(text)
    }

    /// The value of the first header line called `name`, in any case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        head::values(&self.head, name).next()
    }

    /// All header lines: name, and value without the white space around it.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &[u8])> {
        head::fields(&self.head)
    }

    fn path_and_query(&self) -> (&str, Option<&str>) {
        let target = self.target();
        let target = match target.split_once("://") {
            Some((_, absolute)) if !target.starts_with('/') => {
                absolute.find(['/', '?']).map_or("", |at| &absolute[at..])
            }
            _ => target,
        };
        match target.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (target, None),
        }
    }
}

/// Without what headers may hold of secrets.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("target", &self.target())
            .field("host", &self.host())
            .finish_non_exhaustive()
    }
}

/// What was seen to be ASCII when the request was let in.
fn text(value: &[u8]) -> &str {
    str::from_utf8(value).unwrap_or("")
}

const KEY: &str = "Sec-WebSocket-Key";
const PROTOCOL: &str = "Sec-WebSocket-Protocol";
const VERSION: &str = "Sec-WebSocket-Version";
const KEY_BYTES: usize = 16;

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestError {
    /// It is no HTTP request: a bare line feed, a folded line, a control character, a line that is none.
    Malformed,
    /// Its head is over the limit of bytes.
    HeadTooLong,
    /// It has more header lines than the limit.
    TooManyHeaders,
    /// Not HTTP/1.1.
    HttpVersion,
    /// Not GET.
    Method,
    /// The target is neither a path nor an absolute `http` URI.
    Target,
    /// No Host, or one that is no host.
    Host,
    /// A header stands there twice that may stand there once; this one.
    Repeated(&'static str),
    /// It announces a body.
    Body,
    /// `Upgrade` does not ask for a WebSocket.
    NoUpgrade,
    /// `Connection` does not say that `Upgrade` is meant for this server.
    NoConnectionUpgrade,
    /// `Sec-WebSocket-Version` is not 13.
    Version,
    /// `Sec-WebSocket-Key` is not 16 bytes in base64.
    Key,
    /// `Sec-WebSocket-Protocol` is no list of different tokens.
    Subprotocols,
    /// The page it comes from is not among those allowed.
    Origin,
    /// It did not come in time.
    TimedOut,
    /// [`Admit`](crate::websocket::Admit) refused it, with this status.
    NotAdmitted(u16),
}

impl RequestError {
    /// The HTTP status it is answered with.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::HeadTooLong | Self::TooManyHeaders => 431,
            Self::HttpVersion => 505,
            Self::Method => 405,
            Self::TimedOut => 408,
            Self::NoUpgrade | Self::Version => 426,
            Self::Origin => 403,
            Self::NotAdmitted(status) => *status,
            Self::Malformed
            | Self::Target
            | Self::Host
            | Self::Repeated(_)
            | Self::Body
            | Self::NoConnectionUpgrade
            | Self::Key
            | Self::Subprotocols => 400,
        }
    }

    /// The header lines its answer must have.
    const fn demands(&self) -> &'static str {
        match self {
            Self::Method => "Allow: GET\r\nConnection: close\r\n",
            Self::NoUpgrade | Self::Version => {
                "Upgrade: websocket\r\nConnection: Upgrade, close\r\nSec-WebSocket-Version: 13\r\n"
            }
            _ => "Connection: close\r\n",
        }
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "this is no HTTP request",
            Self::HeadTooLong => "the head of the request is too long",
            Self::TooManyHeaders => "the request has too many header lines",
            Self::HttpVersion => "a WebSocket begins with HTTP/1.1",
            Self::Method => "a WebSocket begins with GET",
            Self::Target => "the target is neither a path nor an absolute http URI",
            Self::Host => "the request needs one Host",
            Self::Repeated(name) => return write!(f, "{name} stands there twice"),
            Self::Body => "the request announces a body",
            Self::NoUpgrade => "this is a WebSocket server: the request needs `Upgrade: websocket`",
            Self::NoConnectionUpgrade => "the request needs `Connection: Upgrade`",
            Self::Version => "the request needs `Sec-WebSocket-Version: 13`",
            Self::Key => "Sec-WebSocket-Key is not 16 bytes in base64",
            Self::Subprotocols => "Sec-WebSocket-Protocol is no list of different tokens",
            Self::Origin => "pages of this origin may not connect",
            Self::TimedOut => "the request did not come in time",
            Self::NotAdmitted(status) => return write!(f, "not admitted (status {status})"),
        })
    }
}

impl From<NoHead> for RequestError {
    fn from(fault: NoHead) -> Self {
        match fault {
            NoHead::Malformed => Self::Malformed,
            NoHead::TooLong => Self::HeadTooLong,
        }
    }
}

/// Judges a whole head. If it is in order, puts out the answer that opens the connection; the request, and the subprotocol chosen.
pub(in super::super) fn accept(
    head: &[u8],
    options: &ServerOptions,
    out: &mut Vec<u8>,
) -> Result<(Request, Option<String>), RequestError> {
    check_line(head, options.limits.headers)?;
    check_http(head)?;
    let key = check_upgrade(head)?;
    let subprotocol = choose_subprotocol(head, options)?;
    check_origin(head, options)?;
    let request = Request { head: head.into() };
    options
        .admit
        .decide(&request)
        .map_err(RequestError::NotAdmitted)?;
    out.extend_from_slice(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ",
    );
    out.extend_from_slice(accept_of(key).as_bytes());
    if let Some(subprotocol) = &subprotocol {
        out.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
        out.extend_from_slice(subprotocol.as_bytes());
    }
    out.extend_from_slice(b"\r\n\r\n");
    Ok((request, subprotocol))
}

/// Puts out the answer to a request that was refused.
pub(in super::super) fn refuse(out: &mut Vec<u8>, fault: RequestError) {
    let (status, demands, reason) = (fault.status(), fault.demands(), fault.to_string());
    let answer = format!(
        "HTTP/1.1 {status} {phrase}\r\n{demands}Content-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{reason}",
        phrase = phrase(status),
        length = reason.len(),
    );
    out.extend_from_slice(answer.as_bytes());
}

/// What a status is called (RFC 9110 section 15, RFC 6585).
const fn phrase(status: u16) -> &'static str {
    match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        426 => "Upgrade Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "Refused",
    }
}

/// The request line, and that every other line is a header.
fn check_line(head: &[u8], limit: usize) -> Result<(), RequestError> {
    let mut headers = vec![httparse::EMPTY_HEADER; limit];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(bytes)) if bytes == head.len() && head[0] != b'\r' => {}
        Err(httparse::Error::TooManyHeaders) => return Err(RequestError::TooManyHeaders),
        Err(httparse::Error::Version) if names_version(head) => {
            return Err(RequestError::HttpVersion);
        }
        _ => return Err(RequestError::Malformed),
    }
    if parsed.method != Some("GET") {
        return Err(RequestError::Method);
    }
    if parsed.version != Some(1) {
        return Err(RequestError::HttpVersion);
    }
    Ok(())
}

/// What any HTTP request without a body is to have.
fn check_http(head: &[u8]) -> Result<(), RequestError> {
    if !is_target(target(head)) {
        return Err(RequestError::Target);
    }
    match single(head, "Host")? {
        Some(host) if head::is_host(host) => {}
        _ => return Err(RequestError::Host),
    }
    let announces = |name| head::values(head, name).next().is_some();
    if announces("Content-Length") || announces("Transfer-Encoding") {
        return Err(RequestError::Body);
    }
    Ok(())
}

/// What makes it a WebSocket's; its key.
fn check_upgrade(head: &[u8]) -> Result<&[u8], RequestError> {
    if !head::has_token(head, "Upgrade", "websocket") {
        return Err(RequestError::NoUpgrade);
    }
    if !head::has_token(head, "Connection", "Upgrade") {
        return Err(RequestError::NoConnectionUpgrade);
    }
    if single(head, VERSION)? != Some(b"13") {
        return Err(RequestError::Version);
    }
    match single(head, KEY)? {
        Some(key) if is_key(key) => Ok(key),
        _ => Err(RequestError::Key),
    }
}

fn is_key(key: &[u8]) -> bool {
    // As many as the decoder wants to have, which thinks of three bytes for every four characters.
    let mut decoded = [0; KEY_BYTES + 2];
    let decoded = BASE64_STANDARD.decode_slice(key, &mut decoded);
    decoded == Ok(KEY_BYTES)
}

/// The first of ours that the client offers.
fn choose_subprotocol(
    head: &[u8],
    options: &ServerOptions,
) -> Result<Option<String>, RequestError> {
    let offered: Vec<_> = head::list(head, PROTOCOL).collect();
    let is_new = |(at, name): (usize, &&[u8])| !offered[..at].contains(name);
    if !offered.iter().all(|name| head::is_token(name)) || !offered.iter().enumerate().all(is_new) {
        return Err(RequestError::Subprotocols);
    }
    let is_offered = |ours: &&String| offered.contains(&ours.as_bytes());
    Ok(options.subprotocols.iter().find(is_offered).cloned())
}

fn check_origin(head: &[u8], options: &ServerOptions) -> Result<(), RequestError> {
    let Some(origin) = single(head, "Origin")? else {
        return Ok(());
    };
    let is_allowed = |allowed: &String| allowed.as_bytes().eq_ignore_ascii_case(origin);
    match &options.origins {
        _ if !origin.is_ascii() => Err(RequestError::Origin),
        Some(allowed) if !allowed.iter().any(is_allowed) => Err(RequestError::Origin),
        _ => Ok(()),
    }
}

fn single<'h>(head: &'h [u8], name: &'static str) -> Result<Option<&'h [u8]>, RequestError> {
    head::single(head, name).map_err(|head::Repeated| RequestError::Repeated(name))
}

/// Whether the third word of the request line is a version of HTTP.
fn names_version(head: &[u8]) -> bool {
    let third = head.split(|byte| *byte == b' ').nth(2);
    third.is_some_and(|word| word.starts_with(b"HTTP/"))
}

/// What stands between the two spaces of the request line.
fn target(head: &[u8]) -> &[u8] {
    head.split(|byte| *byte == b' ').nth(1).unwrap_or_default()
}

fn is_target(target: &[u8]) -> bool {
    let absolute = |scheme: &[u8]| {
        target
            .split_at_checked(scheme.len())
            .is_some_and(|(front, rest)| front.eq_ignore_ascii_case(scheme) && !rest.is_empty())
    };
    let begins = target.first() == Some(&b'/') || absolute(b"http://") || absolute(b"https://");
    begins && head::is_visible(target) && !target.contains(&b'#')
}
