//! Requests that a server refuses: the status each gets, however the input is cut, and nothing else.

use super::{Echo, REQUEST, server, server_with};
use crate::splits::Case;
use shardloop_protocols::{
    Fault, Side,
    websocket::{Admit, Limits, RequestError as Error, ServerOptions, WebSocket, WebSocketError},
};

fn strict() -> WebSocket {
    server_with(ServerOptions {
        limits: Limits {
            head_bytes: 400,
            headers: 8,
            ..Limits::default()
        },
        origins: Some(vec!["https://good.example".to_owned()]),
        admit: Admit::by(|request| match request.path() {
            "/chat" => Ok(()),
            "/private" => Err(401),
            "/strange" => Err(200),
            _ => Err(404),
        }),
        ..ServerOptions::default()
    })
}

/// The request with one thing in place of another.
fn with(old: &str, new: &str) -> Vec<u8> {
    assert!(REQUEST.contains(old));
    REQUEST.replace(old, new).into_bytes()
}

/// The request with a line more.
fn plus(line: &str) -> Vec<u8> {
    with("Host", &format!("{line}\r\nHost"))
}

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";

fn malformed() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("bare line feeds", with("\r\n", "\n")),
        ("one bare line feed", with("/1.1\r\n", "/1.1\n")),
        (
            "a bare line feed in a value",
            with("server.example.com", "a\nX: b"),
        ),
        ("a bare carriage return", with("server.example.com", "a\rb")),
        ("a folded line", plus("X: a\r\n b")),
        ("a line folded with a tab", plus("X: a\r\n\tb")),
        ("a NUL", plus("X: a\0b")),
        ("a DEL", plus("X: a\x7fb")),
        ("an escape in the target", with("/chat", "/ch\x1bat")),
        ("white space before a colon", with("Host:", "Host :")),
        ("a line without a colon", plus("nothing")),
        ("a line without a name", plus(": x")),
        ("a name that is no token", plus("X(Y): z")),
        (
            "an empty line in front",
            [b"\r\n", REQUEST.as_bytes()].concat(),
        ),
        ("nothing but an empty line", b"\r\n\r\n".to_vec()),
        ("two spaces in the request line", with("GET ", "GET  ")),
        ("a request line in two words", with(" HTTP/1.1", "")),
        ("a request line in four words", with("/chat", "/ch at")),
        (
            "another protocol",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        ),
        ("words", b"hello there\r\n\r\n".to_vec()),
    ]
}

fn rows() -> Vec<(&'static str, Vec<u8>, Error)> {
    let long = format!("X: {}", "x".repeat(400));
    vec![
        ("POST", with("GET", "POST"), Error::Method),
        ("a small get", with("GET", "get"), Error::Method),
        ("HTTP/1.0", with("HTTP/1.1", "HTTP/1.0"), Error::HttpVersion),
        ("HTTP/2.0", with("HTTP/1.1", "HTTP/2.0"), Error::HttpVersion),
        ("no path", with("/chat", "chat"), Error::Target),
        ("all of the server", with("/chat", "*"), Error::Target),
        (
            "another scheme",
            with("/chat", "ftp://h/chat"),
            Error::Target,
        ),
        ("a scheme alone", with("/chat", "http://"), Error::Target),
        ("a fragment", with("/chat", "/chat#x"), Error::Target),
        (
            "a target beyond ASCII",
            with("/chat", "/chät"),
            Error::Target,
        ),
        (
            "no host",
            with("Host: server.example.com\r\n", ""),
            Error::Host,
        ),
        ("an empty host", with("server.example.com", ""), Error::Host),
        (
            "a host with a path",
            with("server.example.com", "a/b"),
            Error::Host,
        ),
        (
            "two hosts in one",
            with("server.example.com", "a, b"),
            Error::Host,
        ),
        ("two hosts", plus("hOST: x"), Error::Repeated("Host")),
        (
            "two keys",
            plus(&format!("Sec-WebSocket-Key: {KEY}")),
            Error::Repeated("Sec-WebSocket-Key"),
        ),
        (
            "two versions",
            plus("Sec-WebSocket-Version: 13"),
            Error::Repeated("Sec-WebSocket-Version"),
        ),
        (
            "two origins",
            plus("Origin: a\r\nOrigin: a"),
            Error::Repeated("Origin"),
        ),
        ("a length", plus("Content-Length: 5"), Error::Body),
        (
            "a length of nothing",
            plus("Content-Length: 0"),
            Error::Body,
        ),
        (
            "a coded body",
            plus("Transfer-Encoding: chunked"),
            Error::Body,
        ),
        (
            "no upgrade",
            with("Upgrade: websocket\r\n", ""),
            Error::NoUpgrade,
        ),
        (
            "another upgrade",
            with("Upgrade: websocket", "Upgrade: h2c"),
            Error::NoUpgrade,
        ),
        (
            "an upgrade with more",
            with("Upgrade: websocket", "Upgrade: websocket2"),
            Error::NoUpgrade,
        ),
        (
            "no connection",
            with("Connection: Upgrade\r\n", ""),
            Error::NoConnectionUpgrade,
        ),
        (
            "another connection",
            with("Connection: Upgrade", "Connection: close"),
            Error::NoConnectionUpgrade,
        ),
        (
            "no version",
            with("Sec-WebSocket-Version: 13\r\n", ""),
            Error::Version,
        ),
        ("version 8", with(": 13", ": 8"), Error::Version),
        ("version 013", with(": 13", ": 013"), Error::Version),
        (
            "two versions in one",
            with(": 13", ": 13, 8"),
            Error::Version,
        ),
        (
            "no key",
            with(&format!("Sec-WebSocket-Key: {KEY}\r\n"), ""),
            Error::Key,
        ),
        ("an empty key", with(KEY, ""), Error::Key),
        (
            "a key of 15 bytes",
            with(KEY, "AAAAAAAAAAAAAAAAAAAA"),
            Error::Key,
        ),
        (
            "a key of 17 bytes",
            with(KEY, "AAAAAAAAAAAAAAAAAAAAAAA="),
            Error::Key,
        ),
        (
            "a key of 18 bytes",
            with(KEY, "AAAAAAAAAAAAAAAAAAAAAAAA"),
            Error::Key,
        ),
        (
            "a key without its padding",
            with(KEY, &KEY[..22]),
            Error::Key,
        ),
        (
            "a key with bits to spare",
            with(KEY, "AAAAAAAAAAAAAAAAAAAAAB=="),
            Error::Key,
        ),
        (
            "a key that is no base64",
            with(KEY, "AAAA*AAAAAAAAAAAAAAAAA=="),
            Error::Key,
        ),
        (
            "a subprotocol twice",
            plus("Sec-WebSocket-Protocol: a, b, a"),
            Error::Subprotocols,
        ),
        (
            "a subprotocol that is no token",
            plus("Sec-WebSocket-Protocol: a b"),
            Error::Subprotocols,
        ),
        (
            "a page of somebody else",
            plus("Origin: https://bad.example"),
            Error::Origin,
        ),
        ("a page of nobody", plus("Origin: null"), Error::Origin),
        ("a page without a name", plus("Origin:"), Error::Origin),
        (
            "too many lines",
            plus("A:\r\nB:\r\nC:\r\nD:"),
            Error::TooManyHeaders,
        ),
        ("a long line", plus(&long), Error::HeadTooLong),
        (
            "a line without an end",
            [b"GET /", &[b'x'; 500][..]].concat(),
            Error::HeadTooLong,
        ),
        ("another path", with("/chat", "/"), Error::NotAdmitted(404)),
        (
            "a private path",
            with("/chat", "/private?x"),
            Error::NotAdmitted(401),
        ),
        (
            "a status that refuses nothing",
            with("/chat", "/strange"),
            Error::NotAdmitted(403),
        ),
    ]
}

/// The status that RFC 6455 sections 4.2.2 and 4.4, RFC 9110 and RFC 6585 have for it.
fn status(fault: Error) -> &'static str {
    match fault {
        Error::Method => "405 Method Not Allowed",
        Error::HttpVersion => "505 HTTP Version Not Supported",
        Error::NoUpgrade | Error::Version => "426 Upgrade Required",
        Error::Origin | Error::NotAdmitted(403) => "403 Forbidden",
        Error::NotAdmitted(401) => "401 Unauthorized",
        Error::NotAdmitted(_) => "404 Not Found",
        Error::HeadTooLong | Error::TooManyHeaders => "431 Request Header Fields Too Large",
        _ => "400 Bad Request",
    }
}

fn check(name: &str, request: &[u8], fault: Error) {
    let outcome = Case::with(strict, Echo::default()).check(request);
    let error = WebSocketError::Request(fault);
    assert_eq!(outcome.end, Err(format!("{error:?}")), "{name}");
    let answer = String::from_utf8(outcome.output).expect("it is ASCII");
    let start = format!("HTTP/1.1 {}\r\n", status(fault));
    assert!(answer.starts_with(&start), "{name}: {answer}");
    let (head, body) = answer.split_once("\r\n\r\n").expect("it has a head");
    assert!(head.contains("close"), "{name}: {head}");
    assert!(
        head.contains(&format!("Content-Length: {}", body.len())),
        "{name}: {head}"
    );
    assert_eq!(body, fault.to_string(), "{name}");
    let has_version = head.contains("Sec-WebSocket-Version: 13\r\n");
    assert_eq!(has_version, fault.status() == 426, "{name}: {head}");
    assert_eq!(
        head.contains("Allow: GET\r\n"),
        fault.status() == 405,
        "{name}"
    );
    assert_eq!(
        (error.side(), error.close_code()),
        (Side::Peer, None),
        "{name}"
    );
}

#[test]
fn every_request_that_is_not_in_order_gets_its_status() {
    for (name, request, fault) in rows() {
        check(name, &request, fault);
    }
}

#[test]
fn what_is_no_http_is_refused_as_such() {
    for (name, request) in malformed() {
        check(name, &request, Error::Malformed);
    }
}

#[test]
fn what_follows_a_refused_request_is_not_read() {
    let request = [with(": 13", ": 8"), REQUEST.as_bytes().to_vec()].concat();
    check("two requests", &request, Error::Version);
}

#[test]
fn a_head_of_exactly_the_limit_is_taken() {
    let request = plus(&format!("X: {}", "x".repeat(400 - REQUEST.len() - 5)));
    assert_eq!(request.len(), 400);
    let outcome = Case::with(strict, Echo::default()).check(&request);
    assert!(outcome.output.starts_with(b"HTTP/1.1 101 "));
    let request = plus("A:\r\nB:\r\nC:");
    let outcome = Case::with(strict, Echo::default()).check(&request);
    assert!(outcome.output.starts_with(b"HTTP/1.1 101 "));
}

/// Whoever sees an origin sees text.
#[test]
fn an_origin_that_is_no_ascii_is_refused_where_all_are_allowed() {
    let request = plus("Origin: https://köln.example");
    let outcome = Case::with(server, Echo::default()).check(&request);
    assert_eq!(outcome.end, Err("Request(Origin)".to_owned()));
}
