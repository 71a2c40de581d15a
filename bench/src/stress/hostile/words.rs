//! What hostile peers say, by protocol, and what it is to be counted as.

use crate::contract::Protocol;
use shardloop_protocols::websocket::Limits;

/// Too much of something.
pub(super) struct Excess {
    pub(super) what: &'static str,
    /// In order, and answered, before it.
    pub(super) first: Vec<u8>,
    pub(super) bytes: Vec<u8>,
    /// Part of the fault's text.
    pub(super) fault: &'static str,
    /// In place of TLS, and not in it.
    pub(super) outside: bool,
}

const HTTP: &str = "POST /echo HTTP/1.1\r\nHost: localhost\r\n";
const CHUNKED: &str =
    "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
/// That of RFC 6455 section 1.3, as far as it must be there.
const WEBSOCKET: &str = "GET /chat HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";

/// What a client of a protocol without TLS says first, whole.
pub(super) fn opening(protocol: Protocol) -> Vec<u8> {
    match protocol {
        Protocol::Ws | Protocol::Wss => format!("{WEBSOCKET}\r\n"),
        _ => format!("{HTTP}X: {}\r\nContent-Length: 0\r\n\r\n", "x".repeat(200)),
    }
    .into_bytes()
}

/// A request with a long answer, as often as one likes once the handshake is done.
pub(super) fn request(protocol: Protocol) -> Vec<u8> {
    const BYTES: usize = 256 * 1024;
    let mut request = match protocol {
        Protocol::Ws | Protocol::Wss => {
            let length = (BYTES as u64).to_be_bytes();
            [&[0x82, 0xff][..], &length, &[0; 4]].concat()
        }
        Protocol::Http | Protocol::Https => {
            format!("{HTTP}Content-Length: {BYTES}\r\n\r\n").into_bytes()
        }
        _ => u32::try_from(BYTES).unwrap_or(0).to_be_bytes().to_vec(),
    };
    request.resize(request.len() + BYTES, b'x');
    request
}

/// What it is called that a handshake or a head took too long; part of a fault's text.
pub(super) fn too_slow(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http => "the head took too long",
        Protocol::Ws => "the request did not come in time",
        _ => "the peer did not finish the handshake",
    }
}

/// Too much of everything that a protocol has.
pub(super) fn excesses(protocol: Protocol) -> Vec<Excess> {
    match protocol {
        Protocol::Http => http(),
        Protocol::Https => all(tls(), http()),
        Protocol::Ws => websocket(),
        Protocol::Wss => all(tls(), websocket()),
        _ => all(tls(), length()),
    }
}

fn all(mut one: Vec<Excess>, other: Vec<Excess>) -> Vec<Excess> {
    one.extend(other);
    one
}

fn excess(what: &'static str, bytes: Vec<u8>, fault: &'static str) -> Excess {
    Excess {
        what,
        first: Vec::new(),
        bytes,
        fault,
        outside: false,
    }
}

fn http() -> Vec<Excess> {
    let text = |what, bytes: String, fault| excess(what, bytes.into_bytes(), fault);
    let long = |count| "x".repeat(count);
    vec![
        text(
            "a long head",
            format!("{HTTP}X: {}", long(20_000)),
            "the head is over its limit",
        ),
        text(
            "a long target",
            format!("GET /{}", long(9_000)),
            "the request target is over its limit",
        ),
        text(
            "many headers",
            format!("{HTTP}{}\r\n", "X: y\r\n".repeat(200)),
            "more headers than allowed",
        ),
        text(
            "a long body",
            format!("{HTTP}Content-Length: 99999999999\r\n\r\n"),
            "the body is over its limit",
        ),
        text(
            "a long chunk",
            format!("{CHUNKED}fffffffffffffff\r\n"),
            "the body is over its limit",
        ),
        text(
            "a long chunk extension",
            format!("{CHUNKED}1;x={}", long(20_000)),
            "the chunk extensions are over their limit",
        ),
        text(
            "long trailers",
            format!("{CHUNKED}0\r\nX: {}", long(20_000)),
            "the trailers are over their limit",
        ),
        text(
            "many trailers",
            format!("{CHUNKED}0\r\n{}\r\n", "X: y\r\n".repeat(100)),
            "more trailers than allowed",
        ),
    ]
}

fn websocket() -> Vec<Excess> {
    let opened = |what, bytes: Vec<u8>, fault| Excess {
        first: opening(Protocol::Ws),
        ..excess(what, bytes, fault)
    };
    let head = format!("{WEBSOCKET}X: {}", "x".repeat(20_000));
    let lines = format!("{WEBSOCKET}{}\r\n", "X: y\r\n".repeat(100));
    vec![
        excess("a long head", head.into_bytes(), "the head"),
        excess("many header lines", lines.into_bytes(), "header lines"),
        opened(
            "a long frame",
            [&[0x82, 0xff][..], &[0, 0, 0, 0xff, 0, 0, 0, 0], &[0; 4]].concat(),
            "the peer announced a frame of",
        ),
        opened(
            "a frame of all that can be said",
            [&[0x82, 0xff][..], &[0xff; 8], &[0; 4]].concat(),
            "2^63 bytes or more",
        ),
        opened(
            "a long Ping",
            vec![0x89, 0xfe, 1, 0, 0, 0, 0, 0],
            "a control frame of more than 125 bytes",
        ),
        opened(
            "many fragments",
            [
                &[2, 0x80, 0, 0, 0, 0][..],
                &[0, 0x80, 0, 0, 0, 0].repeat(Limits::default().fragments + 1),
            ]
            .concat(),
            "fragments",
        ),
    ]
}

fn tls() -> Vec<Excess> {
    let outside = |what, bytes: Vec<u8>, fault| Excess {
        outside: true,
        ..excess(what, bytes, fault)
    };
    // Each says that 16 MiB of a ClientHello follow, or goes on with it.
    let begun = [
        &[22, 3, 1, 0x40, 0][..],
        &[1, 0xff, 0xff, 0xff],
        &[0; 16_380],
    ]
    .concat();
    let more = [&[22, 3, 1, 0x40, 0][..], &[0; 16_384]].concat();
    vec![
        outside(
            "a long record",
            [&[22, 3, 1, 0x60, 0][..], &[0; 24_576]].concat(),
            "TLS: ",
        ),
        outside(
            "a long handshake",
            [begun, more.repeat(12)].concat(),
            "TLS: ",
        ),
        outside("a text", b"GET / HTTP/1.1\r\n\r\n".to_vec(), "TLS: "),
    ]
}

fn length() -> Vec<Excess> {
    vec![excess(
        "a long frame",
        vec![0xff; 4],
        "the peer announced a frame of",
    )]
}
