//! Answers of servers that a client refuses, however the input is cut, without a word.

use super::{Echo, asked_client, client_options};
use crate::splits::Case;
use shardloop_protocols::websocket::{
    ClientOptions, Limits, ResponseError as Error, WebSocket, WebSocketError,
};

fn options() -> ClientOptions {
    ClientOptions {
        limits: Limits {
            head_bytes: 400,
            headers: 6,
            ..Limits::default()
        },
        subprotocols: vec!["one".to_owned(), "two".to_owned()],
        ..client_options()
    }
}

fn client() -> WebSocket {
    asked_client(options()).0
}

/// The right answer with one thing in place of another.
fn with(old: &str, new: &str) -> Vec<u8> {
    let answer = String::from_utf8(asked_client(options()).1).expect("it is ASCII");
    assert!(answer.contains(old), "{answer}");
    answer.replace(old, new).into_bytes()
}

fn plus(line: &str) -> Vec<u8> {
    with(
        "Upgrade: websocket",
        &format!("{line}\r\nUpgrade: websocket"),
    )
}

fn rows() -> Vec<(&'static str, Vec<u8>, Error)> {
    let status = |new| with("101 Switching Protocols", new);
    vec![
        ("OK", status("200 OK"), Error::Status(200)),
        ("a detour", status("302 Found"), Error::Status(302)),
        (
            "another version",
            status("426 Upgrade Required"),
            Error::Status(426),
        ),
        ("no status", status("x"), Error::Malformed),
        ("HTTP/1.0", with("HTTP/1.1", "HTTP/1.0"), Error::HttpVersion),
        ("HTTP/2.0", with("HTTP/1.1", "HTTP/2.0"), Error::HttpVersion),
        (
            "no HTTP",
            b"SSH-2.0-OpenSSH_9.2\r\n\r\n".to_vec(),
            Error::Malformed,
        ),
        ("bare line feeds", with("\r\n", "\n"), Error::Malformed),
        ("a folded line", plus("X: a\r\n b"), Error::Malformed),
        (
            "an empty line in front",
            with("HTTP/1.1 101", "\r\nHTTP/1.1 101"),
            Error::Malformed,
        ),
        (
            "no upgrade",
            with("Upgrade: websocket\r\n", ""),
            Error::NoUpgrade,
        ),
        (
            "another upgrade",
            with(": websocket", ": h2c"),
            Error::NoUpgrade,
        ),
        (
            "no connection",
            with("Connection: Upgrade\r\n", ""),
            Error::NoConnectionUpgrade,
        ),
        (
            "another connection",
            with(": Upgrade", ": close"),
            Error::NoConnectionUpgrade,
        ),
        (
            "no accept",
            with("Sec-WebSocket-Accept", "X"),
            Error::Accept,
        ),
        (
            "an accept of another key",
            with("Accept: ", "Accept: A"),
            Error::Accept,
        ),
        (
            "two accepts",
            plus("Sec-WebSocket-Accept: x"),
            Error::Accept,
        ),
        (
            "an extension",
            plus("Sec-WebSocket-Extensions: permessage-deflate"),
            Error::Extension,
        ),
        (
            "a strange subprotocol",
            with("Protocol: one", "Protocol: three"),
            Error::Subprotocol,
        ),
        (
            "a subprotocol in another case",
            with("Protocol: one", "Protocol: One"),
            Error::Subprotocol,
        ),
        (
            "two subprotocols in one",
            with("Protocol: one", "Protocol: one, two"),
            Error::Subprotocol,
        ),
        (
            "two subprotocols",
            plus("Sec-WebSocket-Protocol: one"),
            Error::Subprotocol,
        ),
        (
            "too many lines",
            plus("A:\r\nB:\r\nC:"),
            Error::TooManyHeaders,
        ),
        (
            "a line without an end",
            [b"HTTP/1.1 101 ", &[b'x'; 500][..]].concat(),
            Error::HeadTooLong,
        ),
    ]
}

#[test]
fn every_answer_that_is_not_one_is_refused() {
    for (name, answer, fault) in rows() {
        let outcome = Case::with(client, Echo::default()).check(&answer);
        let error = WebSocketError::Response(fault);
        assert_eq!(outcome.end, Err(format!("{error:?}")), "{name}");
        assert!(outcome.output.is_empty(), "{name}");
        assert!(error.to_string().len() > 20, "{name} is explained: {error}");
    }
}

#[test]
fn a_server_need_not_choose_a_subprotocol() {
    let answer = with("Sec-WebSocket-Protocol: one\r\n", "");
    let outcome = Case::with(client, Echo::default()).check(&answer);
    assert_eq!(outcome.end, Err("EndedWithoutClose".to_owned()));
}
