//! The client's side of the handshake: the request, and whether the answer is one (RFC 6455 section 4.1).

use super::{
    accept_of,
    head::{self, NoHead},
};
use crate::websocket::{
    WebSocketError,
    options::{ClientOptions, Limits},
};
use base64::{Engine, prelude::BASE64_STANDARD};
use std::fmt;

/// Why a server's answer does not open a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResponseError {
    /// It is no HTTP response.
    Malformed,
    /// Its head is over the limit of bytes.
    HeadTooLong,
    /// It has more header lines than the limit.
    TooManyHeaders,
    /// Not HTTP/1.1.
    HttpVersion,
    /// The status is this one and not 101.
    Status(u16),
    /// `Upgrade` is not `websocket`.
    NoUpgrade,
    /// `Connection` does not have `Upgrade`.
    NoConnectionUpgrade,
    /// `Sec-WebSocket-Accept` does not belong to our key: whoever answered does not speak WebSocket, or answers from a cache.
    Accept,
    /// An extension, and none was offered.
    Extension,
    /// A subprotocol that was not offered, or several.
    Subprotocol,
    /// It did not come in time.
    TimedOut,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "this is no HTTP response",
            Self::HeadTooLong => "the head of its answer is too long",
            Self::TooManyHeaders => "its answer has too many header lines",
            Self::HttpVersion => "it does not speak HTTP/1.1",
            Self::Status(status) => return write!(f, "it answered with status {status}"),
            Self::NoUpgrade => "its answer lacks `Upgrade: websocket`",
            Self::NoConnectionUpgrade => "its answer lacks `Connection: Upgrade`",
            Self::Accept => "its Sec-WebSocket-Accept does not belong to our key",
            Self::Extension => "it chose an extension, and none was offered",
            Self::TimedOut => "its answer did not come in time",
            Self::Subprotocol => "it chose a subprotocol that was not offered",
        })
    }
}

impl From<NoHead> for ResponseError {
    fn from(fault: NoHead) -> Self {
        match fault {
            NoHead::Malformed => Self::Malformed,
            NoHead::TooLong => Self::HeadTooLong,
        }
    }
}

/// What was asked, as far as the answer is to be held against it.
#[derive(Debug)]
pub(in super::super) struct Asked {
    accept: String,
    subprotocols: Vec<String>,
    pub(in super::super) limits: Limits,
}

/// Puts out the request. `nonce` is the key before base64.
pub(in super::super) fn ask(
    options: &ClientOptions,
    nonce: [u8; 16],
    out: &mut Vec<u8>,
) -> Result<Asked, WebSocketError> {
    check(options).map_err(WebSocketError::Options)?;
    let key = BASE64_STANDARD.encode(nonce);
    let mut text = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n",
        options.target, options.host
    );
    let mut line = |name: &str, value: &str| {
        [name, ": ", value, "\r\n"]
            .into_iter()
            .for_each(|part| text.push_str(part));
    };
    if let Some(origin) = &options.origin {
        line("Origin", origin);
    }
    if !options.subprotocols.is_empty() {
        line("Sec-WebSocket-Protocol", &options.subprotocols.join(", "));
    }
    options
        .headers
        .iter()
        .for_each(|(name, value)| line(name, value));
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
    Ok(Asked {
        accept: accept_of(key.as_bytes()),
        subprotocols: options.subprotocols.clone(),
        limits: options.limits,
    })
}

/// Headers that the options may not add.
const OURS: &[&str] = &[
    "Host",
    "Upgrade",
    "Connection",
    "Origin",
    "Content-Length",
    "Transfer-Encoding",
];

/// Whether the options make a request: nothing in them may add a line of its own.
fn check(options: &ClientOptions) -> Result<(), &'static str> {
    let is_ours = |name: &str| {
        let is = |ours: &&str| ours.eq_ignore_ascii_case(name);
        name.to_ascii_lowercase().starts_with("sec-websocket-") || OURS.iter().any(is)
    };
    let is_value = |value: &str| {
        value
            .bytes()
            .all(|byte| matches!(byte, b'\t' | b' '..=b'~' | 0x80..))
    };
    let target = options.target.as_bytes();
    let target_fits =
        target.starts_with(b"/") && head::is_visible(target) && !target.contains(&b'#');
    let mut headers = options.headers.iter();
    let mut subprotocols = options.subprotocols.iter();
    let checks = [
        (target_fits, "the target is no path"),
        (
            head::is_host(options.host.as_bytes()),
            "the host is no host",
        ),
        (
            options
                .origin
                .as_ref()
                .is_none_or(|origin| is_value(origin)),
            "the origin holds a control character",
        ),
        (
            subprotocols.all(|name| head::is_token(name.as_bytes())),
            "a subprotocol is no token",
        ),
        (
            headers
                .clone()
                .all(|(name, _)| head::is_token(name.as_bytes()) && !is_ours(name)),
            "the name of a header is none, or belongs to the handshake",
        ),
        (
            headers.all(|(_, value)| is_value(value)),
            "the value of a header holds a control character",
        ),
    ];
    match checks.iter().find(|(fits, _)| !fits) {
        Some((_, what)) => Err(what),
        None => Ok(()),
    }
}

impl Asked {
    /// Judges the head of the answer; the subprotocol that the server chose.
    pub(in super::super) fn judge(&self, head: &[u8]) -> Result<Option<String>, ResponseError> {
        check_status(head, self.limits.headers)?;
        if !head::has_token(head, "Upgrade", "websocket") {
            return Err(ResponseError::NoUpgrade);
        }
        if !head::has_token(head, "Connection", "Upgrade") {
            return Err(ResponseError::NoConnectionUpgrade);
        }
        match head::single(head, "Sec-WebSocket-Accept") {
            Ok(Some(accept)) if accept == self.accept.as_bytes() => {}
            _ => return Err(ResponseError::Accept),
        }
        if head::values(head, "Sec-WebSocket-Extensions").any(|value| !value.is_empty()) {
            return Err(ResponseError::Extension);
        }
        self.chosen(head)
    }

    fn chosen(&self, head: &[u8]) -> Result<Option<String>, ResponseError> {
        let chosen = head::single(head, "Sec-WebSocket-Protocol");
        let Some(chosen) = chosen.map_err(|head::Repeated| ResponseError::Subprotocol)? else {
            return Ok(None);
        };
        let is_it = |offered: &&String| offered.as_bytes() == chosen;
        let offered = self.subprotocols.iter().find(is_it);
        offered.cloned().map(Some).ok_or(ResponseError::Subprotocol)
    }
}

fn check_status(head: &[u8], limit: usize) -> Result<(), ResponseError> {
    let mut headers = vec![httparse::EMPTY_HEADER; limit];
    let mut parsed = httparse::Response::new(&mut headers);
    match parsed.parse(head) {
        Ok(httparse::Status::Complete(bytes)) if bytes == head.len() && head[0] != b'\r' => {}
        Err(httparse::Error::TooManyHeaders) => return Err(ResponseError::TooManyHeaders),
        Err(httparse::Error::Version) if head.starts_with(b"HTTP/") => {
            return Err(ResponseError::HttpVersion);
        }
        _ => return Err(ResponseError::Malformed),
    }
    match (parsed.version, parsed.code) {
        (Some(1), Some(101)) => Ok(()),
        (Some(1), Some(status)) => Err(ResponseError::Status(status)),
        _ => Err(ResponseError::HttpVersion),
    }
}
