//! What happens when a peer takes too long, in virtual time.

use super::{
    CLOSE, FIN, PING, PONG, REQUEST, TEXT, asked_client, client_options, closing, from_client,
    from_server, goodbye, nobody, server_with, start,
};
use shardloop_protocols::{
    Next, StreamMachine,
    websocket::{
        Deadlines, KeepAlive, RequestError, ResponseError, ServerOptions, WebSocket, WebSocketError,
    },
};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

fn options(keep_alive: Option<KeepAlive>) -> ServerOptions {
    let deadlines = Deadlines {
        handshake: 10 * SECOND,
        close: 5 * SECOND,
        keep_alive,
    };
    ServerOptions {
        deadlines,
        ..ServerOptions::default()
    }
}

fn open(keep_alive: Option<KeepAlive>, now: Instant) -> WebSocket {
    let mut server = server_with(options(keep_alive));
    show(&mut server, now, REQUEST.as_bytes());
    server
}

fn show(machine: &mut WebSocket, now: Instant, bytes: &[u8]) -> Vec<u8> {
    let (mut bytes, mut out) = (bytes.to_vec(), Vec::new());
    let step = machine.handle(now, &mut bytes, &mut nobody, &mut out);
    assert_eq!(step.map(|step| step.next), Ok(Next::NeedInput));
    out
}

/// Lets the machine's deadline come; nothing happens a moment before.
fn time_out(machine: &mut WebSocket) -> (Result<Next, WebSocketError>, Vec<u8>) {
    let at = machine.timeout().expect("there is a deadline");
    let mut out = Vec::new();
    let early = machine.handle_timeout(at - Duration::from_nanos(1), &mut out);
    assert_eq!(
        (early.map(|step| step.next), out.len()),
        (Ok(Next::NeedInput), 0)
    );
    let step = machine.handle_timeout(at, &mut out);
    (step.map(|step| step.next), out)
}

#[test]
fn a_client_that_does_not_ask_is_told_so() {
    let (mut server, now) = (server_with(options(None)), Instant::now());
    assert_eq!(server.timeout(), None);
    start(&mut server, now);
    assert_eq!(server.timeout(), Some(now + 10 * SECOND));
    show(&mut server, now + 9 * SECOND, &REQUEST.as_bytes()[..90]);
    assert_eq!(
        server.timeout(),
        Some(now + 10 * SECOND),
        "bytes do not buy time"
    );
    let (end, out) = time_out(&mut server);
    assert_eq!(end, Err(RequestError::TimedOut.into()));
    assert!(out.starts_with(b"HTTP/1.1 408 Request Timeout\r\n"));
    assert_eq!(server.timeout(), None);
}

#[test]
fn without_a_start_the_first_bytes_are_one() {
    let (mut server, now) = (server_with(options(None)), Instant::now());
    show(&mut server, now, b"GET ");
    assert_eq!(server.timeout(), Some(now + 10 * SECOND));
}

#[test]
fn a_server_that_does_not_answer_is_given_up() {
    let (mut client, _) = asked_client(client_options());
    let (end, out) = time_out(&mut client);
    assert_eq!(end, Err(ResponseError::TimedOut.into()));
    assert!(out.is_empty());
}

#[test]
fn a_peer_that_does_not_answer_our_close_is_given_up() {
    let now = Instant::now();
    let mut server = open(None, now);
    assert_eq!(server.timeout(), None);
    goodbye(&mut server, now + SECOND);
    assert_eq!(server.timeout(), Some(now + 6 * SECOND));
    show(
        &mut server,
        now + 5 * SECOND,
        &from_client(FIN | TEXT, b"x"),
    );
    assert_eq!(
        server.timeout(),
        Some(now + 6 * SECOND),
        "bytes do not buy time"
    );
    assert_eq!(
        time_out(&mut server),
        (Err(WebSocketError::CloseTimedOut), vec![])
    );
}

#[test]
fn a_silent_peer_is_pinged_and_then_given_up() {
    let keep_alive = KeepAlive {
        idle: 20 * SECOND,
        answer: 3 * SECOND,
    };
    let now = Instant::now();
    let mut server = open(Some(keep_alive), now);
    assert_eq!(server.timeout(), Some(now + 20 * SECOND));
    show(&mut server, now + 5 * SECOND, &from_client(PONG, b""));
    assert_eq!(server.timeout(), Some(now + 25 * SECOND));
    assert_eq!(
        time_out(&mut server),
        (Ok(Next::NeedInput), from_server(PING, b""))
    );
    assert_eq!(server.timeout(), Some(now + 28 * SECOND));
    show(&mut server, now + 27 * SECOND, &from_client(PONG, b"")[..1]);
    assert_eq!(
        server.timeout(),
        Some(now + 47 * SECOND),
        "anything is an answer"
    );
    assert_eq!(time_out(&mut server).0, Ok(Next::NeedInput));
    let expected = from_server(CLOSE, &closing(1008, ""));
    assert_eq!(
        time_out(&mut server),
        (Err(WebSocketError::KeepAliveTimedOut), expected)
    );
    assert_eq!(server.timeout(), None);
}

#[test]
fn a_deadline_beyond_the_clock_never_comes() {
    let mut options = options(None);
    options.deadlines.handshake = Duration::MAX;
    let mut server = server_with(options);
    start(&mut server, Instant::now());
    assert_eq!(server.timeout(), None);
}
