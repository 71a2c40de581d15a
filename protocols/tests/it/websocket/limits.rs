//! Limits, each at its bound and beyond it, and what a promise costs.

use super::{
    BINARY, CLOSE, CONTINUATION, Echo, FIN, KEY, TEXT, closing, frames_of, from_client,
    from_server, open_client_with, open_server, open_server_with,
};
use crate::splits::{Case, Feed};
use shardloop_protocols::{
    Next, StreamMachine,
    websocket::{ClientOptions, Limits, ReplyError, ServerOptions, WebSocket},
};
use std::time::Instant;

const SMALL: Limits = Limits {
    frame_bytes: 200,
    message_bytes: 500,
    fragments: 4,
    head_bytes: 1000,
    headers: 16,
};

fn small_server() -> WebSocket {
    open_server_with(ServerOptions {
        limits: SMALL,
        ..ServerOptions::default()
    })
}

/// A message in frames of these sizes.
fn message(sizes: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, size) in sizes.iter().enumerate() {
        let opcode = if at == 0 { BINARY } else { CONTINUATION };
        let fin = if at + 1 == sizes.len() { FIN } else { 0 };
        bytes.extend(from_client(fin | opcode, &vec![1; *size]));
    }
    bytes
}

#[test]
fn a_message_may_be_as_long_as_the_limits() {
    for sizes in [&[200][..], &[200, 200, 100], &[1, 1, 1, 1], &[0, 0, 0, 200]] {
        let outcome = Case::with(small_server, Echo::default()).check(&message(sizes));
        let bytes = vec![1; sizes.iter().sum()];
        assert_eq!(outcome.notes, from_server(FIN | BINARY, &bytes));
        assert_eq!(outcome.end, Err("EndedWithoutClose".to_owned()));
    }
}

#[test]
fn beyond_the_limits_it_is_refused_with_1009() {
    let rows: [(&[usize], &str); 4] = [
        (
            &[201],
            "FrameTooLong { length_bytes: 201, limit_bytes: 200 }",
        ),
        (
            &[9, 201],
            "FrameTooLong { length_bytes: 201, limit_bytes: 200 }",
        ),
        (&[200, 200, 101], "MessageTooLong { limit_bytes: 500 }"),
        (&[1, 0, 0, 0, 0], "TooManyFragments { limit: 4 }"),
    ];
    for (sizes, fault) in rows {
        let outcome = Case::with(small_server, Echo::default()).check(&message(sizes));
        assert_eq!(outcome.end, Err(fault.to_owned()));
        assert_eq!(outcome.output, from_server(CLOSE, &closing(1009, "")));
        assert_eq!(outcome.notes, []);
    }
}

#[test]
fn a_long_message_in_very_many_fragments_is_taken_by_default() {
    let piece = [7; 64];
    let mut input = from_client(TEXT, &piece);
    let middle = from_client(CONTINUATION, &piece);
    input.extend(middle.repeat(65_535));
    // As the original test suite of Autobahn ends it (cases 9.3.1 and 9.4.1).
    input.extend(from_client(FIN | CONTINUATION, b""));
    for cut in [input.len(), 16_384, 1000] {
        let mut feed = Feed::new(open_server(), Echo::default(), 0);
        input.chunks(cut).for_each(|piece| feed.piece(piece));
        assert_eq!((feed.app.messages, feed.machine.held_bytes()), (1, 0));
        // It is longer than a frame may be, so it comes back in four.
        let frames = frames_of(&feed.output, false);
        let firsts: Vec<_> = frames.iter().map(|(first, _)| *first).collect();
        assert_eq!(
            firsts,
            [TEXT, CONTINUATION, CONTINUATION, FIN | CONTINUATION]
        );
        assert!(frames.iter().all(|(_, payload)| payload.len() == 1 << 20));
    }
}

#[test]
fn one_fragment_more_is_too_many() {
    let mut input = from_client(TEXT, b"x");
    input.extend(from_client(CONTINUATION, b"").repeat(131_072));
    let outcome = Case::with(open_server, Echo::default()).run([&input[..]]);
    assert_eq!(
        outcome.end,
        Err("TooManyFragments { limit: 131072 }".to_owned())
    );
}

/// If it did, the process would be out of memory.
#[test]
fn an_announced_length_allocates_nothing() {
    let limits = Limits {
        frame_bytes: usize::MAX,
        message_bytes: usize::MAX,
        ..Limits::default()
    };
    let server = open_server_with(ServerOptions {
        limits,
        ..ServerOptions::default()
    });
    let mut feed = Feed::new(server, Echo::default(), 0);
    feed.piece(&[FIN | BINARY, 0xff]);
    feed.piece(&(1_u64 << 62).to_be_bytes());
    feed.piece(&KEY);
    assert_eq!(feed.machine.held_bytes(), 0);
    feed.piece(&[1; 1000]);
    assert_eq!(feed.machine.held_bytes(), 1000);
    assert_eq!(feed.finish().end, Err("EndedWithoutClose".to_owned()));
}

#[test]
fn replies_have_limits_too() {
    let options = ClientOptions {
        limits: SMALL,
        ..super::client_options()
    };
    let mut client = open_client_with(options);
    let mut out = Vec::new();
    let too_long = |length_bytes, limit_bytes| {
        Err(ReplyError::TooLong {
            length_bytes,
            limit_bytes,
        })
    };
    let sent = client.send(Instant::now(), &mut out, |mut reply| {
        assert_eq!(reply.binary(&[0; 501]), too_long(501, 500));
        assert_eq!(reply.text(&"x".repeat(501)), too_long(501, 500));
        assert_eq!(reply.ping(&[0; 126]), too_long(126, 125));
        assert_eq!(reply.close(1000, &"x".repeat(124)), too_long(124, 123));
        assert_eq!(reply.close(1005, ""), Err(ReplyError::Code(1005)));
        reply.binary(&[1; 200])?;
        reply.binary(&[2; 500])?;
        reply.close(4999, &"x".repeat(123))?;
        assert_eq!(reply.text(""), Err(ReplyError::Closed));
        assert_eq!(reply.ping(b""), Err(ReplyError::Closed));
        reply.close(1000, "")
    });
    assert_eq!(sent, Ok(Err(ReplyError::Closed)));
    let sizes: Vec<_> = frames_of(&out, true)
        .iter()
        .map(|(first, payload)| (*first, payload.len()))
        .collect();
    let expected = [
        (FIN | BINARY, 200),
        (BINARY, 200),
        (CONTINUATION, 200),
        (FIN | CONTINUATION, 100),
        (CLOSE, 125),
    ];
    assert_eq!(sizes, expected);
}

#[test]
fn a_flood_of_pings_is_answered_in_turns() {
    let input = from_client(super::PING, &[3; 125]).repeat(2000);
    let (mut server, mut rest, mut turns) = (open_server(), input, 0);
    loop {
        let mut out = Vec::new();
        let step = server
            .handle(Instant::now(), &mut rest, &mut super::nobody, &mut out)
            .unwrap();
        assert!(out.len() < 65_536 + 127);
        rest.drain(..step.consumed);
        turns += 1;
        if step.next == Next::NeedInput {
            break;
        }
    }
    assert_eq!((rest.len(), turns), (0, 4));
}
