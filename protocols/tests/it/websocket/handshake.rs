//! The opening handshake, where it succeeds.

use super::{
    ANSWER, Echo, REQUEST, asked_client, client_options, nobody, server, server_with, start,
};
use crate::splits::Case;
use shardloop_protocols::{
    Next, StreamMachine,
    websocket::{Admit, ClientOptions, ServerOptions, WebSocket, WebSocketError},
};
use std::time::Instant;

/// RFC 6455 section 1.3.
#[test]
fn the_example_of_the_rfc() {
    let request = "GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nOrigin: http://example.com\r\nSec-WebSocket-Protocol: chat, superchat\r\nSec-WebSocket-Version: 13\r\n\r\n";
    let chatting = || {
        server_with(ServerOptions {
            subprotocols: vec!["chat".to_owned()],
            ..ServerOptions::default()
        })
    };
    let outcome = Case::with(chatting, Echo::default()).check(request.as_bytes());
    let (front, _) = ANSWER.split_at(ANSWER.len() - 2);
    let answer = format!("{front}Sec-WebSocket-Protocol: chat\r\n\r\n");
    assert_eq!(String::from_utf8(outcome.output).unwrap(), answer);
    assert_eq!(outcome.end, Err("EndedWithoutClose".to_owned()));
}

/// What may be otherwise in a request.
#[test]
fn requests_that_are_in_order() {
    let rows = [
        ("the least", REQUEST.to_owned()),
        (
            "tokens in lists and in any case",
            REQUEST
                .replace("Upgrade: websocket", "uPGRADE: h2c,  WebSocket")
                .replace("Connection: Upgrade", "connection: keep-alive, upgrade"),
        ),
        (
            "lists over lines",
            REQUEST.replace(
                "Connection: Upgrade",
                "Connection: keep-alive\r\nConnection: ,Upgrade,",
            ),
        ),
        ("no white space after the colon", REQUEST.replace(": ", ":")),
        (
            "extensions that nobody takes",
            REQUEST.replace(
                "Host",
                "Sec-WebSocket-Extensions: permessage-deflate; x=\"a, b\"\r\nHost",
            ),
        ),
        (
            "an absolute target",
            REQUEST.replace("/chat", "http://server.example.com/chat?x=1"),
        ),
        (
            "bytes above ASCII in a value",
            REQUEST.replace("Host", "X-Name: κόσμε\r\nHost"),
        ),
        (
            "an IPv6 host with a port",
            REQUEST.replace("server.example.com", "[::1]:8080"),
        ),
    ];
    for (name, request) in rows {
        let outcome = Case::with(server, Echo::default()).check(request.as_bytes());
        assert_eq!(String::from_utf8(outcome.output).unwrap(), ANSWER, "{name}");
    }
}

/// Opens a server with `request`.
fn opened(options: ServerOptions, request: &str) -> WebSocket {
    let mut server = server_with(options);
    assert!(server.request().is_none());
    let mut input = request.as_bytes().to_vec();
    let step = server.handle(Instant::now(), &mut input, &mut nobody, &mut Vec::new());
    assert_eq!(step.map(|step| step.consumed), Ok(input.len()));
    server
}

#[test]
fn a_service_sees_what_was_asked_for() {
    let request = REQUEST
        .replace("/chat", "/rooms/5?name=a%20b&x")
        .replace("Host", "Origin: https://a.example\r\nCookie: a=b\r\nSec-WebSocket-Protocol: one, two\r\nsec-websocket-protocol: three\r\nHost");
    let server = opened(ServerOptions::default(), &request);
    let request = server.request().unwrap();
    assert_eq!(request.target(), "/rooms/5?name=a%20b&x");
    assert_eq!(
        (request.path(), request.query()),
        ("/rooms/5", Some("name=a%20b&x"))
    );
    assert_eq!(request.host(), "server.example.com");
    assert_eq!(request.origin(), Some("https://a.example"));
    assert_eq!(
        request.subprotocols().collect::<Vec<_>>(),
        ["one", "two", "three"]
    );
    assert_eq!(request.header("cookie"), Some(&b"a=b"[..]));
    assert_eq!(request.headers().count(), 9);
    assert_eq!(server.subprotocol(), None);
    let told = format!("{request:?}");
    assert!(
        told.contains("/rooms/5") && !told.contains("a=b"),
        "no secret in {told}"
    );
}

#[test]
fn a_path_is_found_in_every_target() {
    let rows = [
        ("/", "/", None),
        ("/a/b", "/a/b", None),
        ("/a?b?c", "/a", Some("b?c")),
        ("/a?", "/a", Some("")),
        ("/http://x/y", "/http://x/y", None),
        ("http://h/a?b", "/a", Some("b")),
        ("HTTPS://h:1/a", "/a", None),
        ("http://h", "/", None),
        ("http://h?b/c", "/", Some("b/c")),
    ];
    for (target, path, query) in rows {
        let request = REQUEST.replace("/chat", target);
        let server = opened(ServerOptions::default(), &request);
        let request = server.request().unwrap();
        assert_eq!((request.path(), request.query()), (path, query), "{target}");
    }
}

#[test]
fn the_server_prefers_and_the_client_offers() {
    let rows = [
        (&["a", "b"][..], "b, a", Some("a")),
        (&["a", "b"], "b", Some("b")),
        (&["a", "b"], "A, c", None),
        (&[], "a", None),
    ];
    for (ours, theirs, chosen) in rows {
        let options = ServerOptions {
            subprotocols: ours.iter().map(|name| (*name).to_owned()).collect(),
            ..ServerOptions::default()
        };
        let offer = format!("Sec-WebSocket-Protocol: {theirs}\r\nHost");
        let server = opened(options, &REQUEST.replace("Host", &offer));
        assert_eq!(server.subprotocol(), chosen, "{ours:?} {theirs}");
    }
}

#[test]
fn origins_and_a_hook_let_in() {
    let options = || ServerOptions {
        origins: Some(vec!["https://good.example".to_owned()]),
        admit: Admit::by(|request| match request.path() {
            "/chat" => Ok(()),
            _ => Err(404),
        }),
        ..ServerOptions::default()
    };
    opened(options(), REQUEST);
    opened(
        options(),
        &REQUEST.replace("Host", "Origin: HTTPS://Good.example\r\nHost"),
    );
}

#[test]
fn a_client_asks_for_what_it_was_told() {
    let options = ClientOptions {
        origin: Some("https://a.example".to_owned()),
        subprotocols: vec!["one".to_owned(), "two".to_owned()],
        headers: vec![("Authorization".to_owned(), "Bearer secret".to_owned())],
        ..client_options()
    };
    assert!(!format!("{options:?}").contains("secret"));
    let mut client = WebSocket::client(options);
    let request = String::from_utf8(start(&mut client, Instant::now())).unwrap();
    let (key, _) = request
        .split_once("Sec-WebSocket-Key: ")
        .unwrap()
        .1
        .split_once("\r\n")
        .unwrap();
    let expected = format!(
        "GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\nOrigin: https://a.example\r\nSec-WebSocket-Protocol: one, two\r\nAuthorization: Bearer secret\r\n\r\n"
    );
    assert_eq!(request, expected);
    assert_eq!((key.len(), key.ends_with("==")), (24, true));
    let again = start(&mut client, Instant::now());
    assert!(again.is_empty(), "it asks once");
}

#[test]
fn a_clients_key_comes_from_its_seed() {
    let request = |seed| {
        let mut client = WebSocket::client(ClientOptions::new("h", "/", [seed; 32]));
        start(&mut client, Instant::now())
    };
    assert_eq!(request(1), request(1));
    assert_ne!(request(1), request(2));
}

#[test]
fn options_that_make_no_request_are_refused() {
    let header = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    let rows = [
        ClientOptions::new("h", "chat", [0; 32]),
        ClientOptions::new("h", "/a b", [0; 32]),
        ClientOptions::new("h", "/a#b", [0; 32]),
        ClientOptions::new("h", "/\r\nX: y", [0; 32]),
        ClientOptions::new("", "/", [0; 32]),
        ClientOptions::new("h/x", "/", [0; 32]),
        ClientOptions::new("h\r\nX: y", "/", [0; 32]),
        ClientOptions {
            origin: Some("a\r\nX: y".to_owned()),
            ..client_options()
        },
        ClientOptions {
            subprotocols: vec!["a,b".to_owned()],
            ..client_options()
        },
        ClientOptions {
            headers: header("X Y", "z"),
            ..client_options()
        },
        ClientOptions {
            headers: header("sec-websocket-key", "z"),
            ..client_options()
        },
        ClientOptions {
            headers: header("X", "z\r\nY: z"),
            ..client_options()
        },
    ];
    for options in rows {
        let what = format!("{options:?}");
        let (mut client, mut out) = (WebSocket::client(options), Vec::new());
        let step = client.start(Instant::now(), &mut out);
        assert!(matches!(step, Err(WebSocketError::Options(_))), "{what}");
        assert!(out.is_empty() && !client.is_ready());
    }
}

#[test]
fn a_client_knows_the_subprotocol_chosen() {
    let options = ClientOptions {
        subprotocols: vec!["one".to_owned(), "two".to_owned()],
        ..client_options()
    };
    let (mut client, mut answer) = asked_client(options);
    let step = client.handle(Instant::now(), &mut answer, &mut nobody, &mut Vec::new());
    assert_eq!(step.unwrap().consumed, answer.len());
    assert_eq!(client.subprotocol(), Some("one"));
}

#[test]
fn whoever_only_looks_whether_there_is_a_server_is_no_fault() {
    let outcome = Case::with(server, Echo::default()).check(b"");
    assert_eq!((outcome.end, outcome.output), (Ok(Next::Close), vec![]));
    let outcome = Case::with(server, Echo::default()).check(&REQUEST.as_bytes()[..50]);
    assert_eq!(outcome.end, Err("EndedInHandshake".to_owned()));
    let client = || asked_client(client_options()).0;
    let outcome = Case::with(client, Echo::default()).check(b"");
    assert_eq!(outcome.end, Err("EndedInHandshake".to_owned()));
}
