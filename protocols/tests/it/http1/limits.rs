//! What never ends: heads, extensions, trailers, bodies in crumbs. Memory stays within the limits, and time with the bytes.

use super::{Service, assert_refused};
use crate::splits::{Case, Outcome};
use shardloop_protocols::{
    App, Flow, Next, StreamMachine,
    http1::{Http1Error as Fault, Limits, Reply, Request, Server, ServerOptions, Status},
};
use std::time::Instant;

const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";

/// Feeds `prefix` and then `piece` for ever, or until 64 MiB; asserts that it is refused in time, and what is kept meanwhile.
fn feed_for_ever(prefix: &str, piece: &str, most_bytes: usize) -> Outcome {
    let mut machine = Server::new(ServerOptions::DEFAULT);
    let (mut app, now) = (Service::default(), Instant::now());
    let (mut pending, mut out) = (prefix.as_bytes().to_vec(), Vec::new());
    let mut fed = 0;
    loop {
        pending.extend_from_slice(piece.as_bytes());
        fed += piece.len();
        assert!(fed < 64 << 20, "it takes everything");
        let kept = pending.len() + machine.held_bytes();
        assert!(kept <= most_bytes + piece.len(), "{kept} bytes are kept");
        match machine.handle(now, &mut pending, &mut app, &mut out) {
            Ok(step) => pending.drain(..step.consumed),
            Err(fault) => {
                return Outcome {
                    notes: app.notes,
                    output: out,
                    end: Err(format!("{fault:?}")),
                };
            }
        };
    }
}

#[test]
fn what_never_ends_is_refused_in_bounded_memory() {
    let head = Limits::DEFAULT.head_bytes + 200;
    #[rustfmt::skip]
    let table = [
        ("", "x", head, Fault::TargetTooLong),
        ("GET / HTTP/1.1\r\n", "X: y\r\n", head, Fault::HeadTooLarge),
        ("GET / HTTP/1.1\r\nX: ", "y", head, Fault::HeadTooLarge),
        (CHUNKED, "1;a\r\nx\r\n", head, Fault::ExtensionsTooLarge),
        (CHUNKED, "1;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nx\r\n", head, Fault::ExtensionsTooLarge),
        (&*format!("{CHUNKED}1;"), "a", head, Fault::ExtensionsTooLarge),
        (&*format!("{CHUNKED}1;a=\""), "a", head, Fault::ExtensionsTooLarge),
        (&*format!("{CHUNKED}0\r\n"), "X:\r\n", head, Fault::TooManyTrailers),
        (&*format!("{CHUNKED}0\r\nX:"), "x", head, Fault::TrailersTooLarge),
        (&*format!("{CHUNKED}0\r\n"), "x", head, Fault::TrailersTooLarge),
        (CHUNKED, "0", head, Fault::InvalidChunkSize),
        (CHUNKED, "1\r\nx\r\n", head + (1 << 20), Fault::BodyTooLarge),
    ];
    for (prefix, piece, most_bytes, fault) in table {
        let outcome = feed_for_ever(prefix, piece, most_bytes);
        assert_refused(&outcome, fault, piece);
    }
}

#[test]
fn a_length_over_the_limit_is_refused_before_its_body() {
    let outcome = feed_for_ever(
        "POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 1048577\r\n\r\n",
        "x",
        200,
    );
    assert_refused(&outcome, Fault::BodyTooLarge, "no 100 either");
}

/// Everything at its limit is taken.
#[test]
fn what_is_at_its_limit_is_taken() {
    let service = Service {
        longest_body_bytes: 1 << 20,
        ..Service::default()
    };
    let case = Case::with(|| Server::new(ServerOptions::DEFAULT), service);
    let body = "x".repeat(1 << 20);
    let target = "/".to_owned() + &"x".repeat(8 * 1024 - 1);
    let fields = "X:y\r\n".repeat(98);
    let input = format!(
        "POST {target} HTTP/1.1\r\nHost:h\r\n{fields}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let outcome = case.check_cuts(input.as_bytes(), 1);
    assert_eq!(outcome.end, Ok(Next::Close));
    assert!(outcome.output.starts_with(b"HTTP/1.1 200 OK\r\n"));

    let start = "GET / HTTP/1.1\r\nHost: h\r\nX: ";
    let value = "x".repeat(16 * 1024 - start.len() - 4);
    let outcome = case.check_cuts(format!("{start}{value}\r\n\r\n").as_bytes(), 2);
    assert_eq!(outcome.end, Ok(Next::Close));
    let outcome = case.check_cuts(format!("{start}{value}x\r\n\r\n").as_bytes(), 3);
    assert_refused(&outcome, Fault::HeadTooLarge, "a byte more");
}

/// The largest body there is, in chunks of one byte and byte by byte.
#[test]
fn a_body_in_crumbs() {
    let mut machine = Server::new(ServerOptions::DEFAULT);
    let mut seen = 0;
    let mut app = |request: Request<'_>, reply: Reply<'_>| {
        seen = request.body.len();
        reply.empty(Status::OK).unwrap();
        Flow::Continue
    };
    let input = CHUNKED.to_owned() + &"1\r\nx\r\n".repeat(1 << 20) + "0\r\n\r\n";
    let (mut pending, mut out, now) = (Vec::new(), Vec::new(), Instant::now());
    for byte in input.bytes() {
        pending.push(byte);
        let step = machine
            .handle(now, &mut pending, &mut app, &mut out)
            .unwrap();
        pending.drain(..step.consumed);
        assert!(machine.held_bytes() <= CHUNKED.len() + (1 << 20));
    }
    assert_eq!((seen, pending.len(), machine.held_bytes()), (1 << 20, 0, 0));
    assert!(out.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

/// A head byte by byte is looked at once: twice as many bytes are not four times the work. Counted in bytes that the scan can have
/// looked at, by a head that is as long as one may be and whose every prefix is shown.
#[test]
fn the_longest_head_byte_by_byte() {
    let options = ServerOptions {
        limits: Limits {
            head_bytes: 1 << 20,
            ..Limits::DEFAULT
        },
        ..ServerOptions::DEFAULT
    };
    let mut machine = Server::new(options);
    let mut app = Service::default();
    let head = format!(
        "GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n",
        "x".repeat(1 << 19)
    );
    let (mut input, mut out) = (head.into_bytes(), Vec::new());
    // Half a million prefixes of half a mebibyte: looked at anew each time, they would keep this test for minutes.
    let now = Instant::now();
    for end in 1..=input.len() {
        let _ = machine
            .handle(now, &mut input[..end], &mut app, &mut out)
            .unwrap();
    }
    assert_eq!(app.requests, 1);
}

#[test]
#[should_panic(expected = "at most 256 header fields have a place")]
fn more_headers_than_have_a_place() {
    let limits = Limits {
        headers: 257,
        ..Limits::DEFAULT
    };
    let _ = Server::new(ServerOptions {
        limits,
        ..ServerOptions::DEFAULT
    });
}

/// An application that takes a generic machine's messages; so that the trait of a closure is used too.
#[test]
fn a_closure_is_an_application() {
    fn takes(_: &impl App<Server>) {}
    takes(&|_: Request<'_>, _: Reply<'_>| Flow::Continue);
}
