//! The closing handshake, from either end, and the table of close codes.

use super::{
    BINARY, CLOSE, CONTINUATION, Echo, FIN, PING, TEXT, closing, frames_of, from_client,
    from_server, nobody, open_client, open_server,
};
use crate::splits::{Case, Feed};
use shardloop_protocols::{
    Next, StreamMachine,
    websocket::{PeerClose, WebSocketError, close},
};
use std::time::Instant;

#[test]
fn every_close_code_is_answered_with_itself_or_refused() {
    let case = Case::with(open_server, Echo::default());
    for code in 0..=u16::MAX {
        let allowed = matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999);
        assert_eq!(close::may_be_sent(code), allowed);
        let at_a_border = matches!(code % 1000, 0..20 | 995..);
        if !at_a_border && code % 97 != 0 {
            continue;
        }
        let outcome = case.run([&from_client(CLOSE, &closing(code, "why"))[..]]);
        let (end, echoed) = match allowed {
            true => (Ok(Next::Close), code),
            false => (Err(format!("CloseCode({code})")), 1002),
        };
        assert_eq!(outcome.end, end);
        assert_eq!(outcome.output, from_server(CLOSE, &closing(echoed, "")));
    }
}

#[test]
fn a_close_without_a_code_is_answered_with_one_without() {
    let outcome = Case::with(open_server, Echo::default()).check(&from_client(CLOSE, b""));
    assert_eq!(outcome.output, from_server(CLOSE, b""));
    assert_eq!(outcome.end, Ok(Next::Close));
}

#[test]
fn what_the_peer_said_is_kept() {
    let said = |payload: &[u8]| {
        let mut feed = Feed::new(open_server(), Echo::default(), 0);
        assert_eq!(feed.machine.peer_close(), None);
        feed.piece(&from_client(CLOSE, payload));
        assert!(!feed.machine.is_ready());
        feed.machine.peer_close().cloned()
    };
    let close = |code, reason: &str| {
        Some(PeerClose {
            code,
            reason: reason.to_owned(),
        })
    };
    assert_eq!(said(&closing(3001, "κόσμε")), close(3001, "κόσμε"));
    assert_eq!(said(b""), close(close::NO_CODE, ""));
}

/// Closes an end in the middle of a message that it receives, and shows it what may still come.
#[test]
fn after_our_close_nothing_is_said_or_shown_and_the_peers_is_awaited() {
    for (mut machine, masked, code) in [(open_server(), false, 1001), (open_client(), true, 1000)] {
        let frame = if masked { from_server } else { from_client };
        let now = Instant::now();
        let (mut out, mut begun) = (Vec::new(), frame(TEXT, b"begun"));
        let step = machine.handle(now, &mut begun, &mut nobody, &mut out);
        assert_eq!(step.unwrap().consumed, begun.len());
        assert_eq!(machine.held_bytes(), 5);

        assert_eq!(machine.close(now, &mut out).unwrap().next, Next::NeedInput);
        assert_eq!(frames_of(&out, masked), [(CLOSE, closing(code, ""))]);
        out.clear();
        assert!(!machine.is_ready() && machine.held_bytes() == 0);
        assert_eq!(machine.close(now, &mut out).unwrap().next, Next::NeedInput);
        let sent = machine.send(now, &mut out, |_| ());
        assert_eq!(sent, Err(WebSocketError::NotOpen));

        let rest = [
            frame(FIN | CONTINUATION, b"\xff and ended"),
            frame(PING, b"there?"),
            frame(FIN | TEXT, b"not shown"),
            frame(BINARY, &[1; 1000]),
            frame(FIN | CONTINUATION, &[1; 1000]),
            frame(CLOSE, &closing(code, "")),
        ];
        let mut rest = rest.concat();
        let step = machine
            .handle(now, &mut rest, &mut nobody, &mut out)
            .unwrap();
        assert_eq!((step.consumed, step.next), (rest.len(), Next::Close));
        assert!(out.is_empty(), "after the Close nothing is sent");
        assert_eq!(machine.close(now, &mut out).unwrap().next, Next::Close);
    }
}

#[test]
fn a_reply_may_say_close() {
    let app = Echo {
        close_after: Some(2),
        ..Echo::default()
    };
    let input = [
        from_client(FIN | TEXT, b"one"),
        from_client(FIN | TEXT, b"two"),
        from_client(FIN | TEXT, b"three"),
        from_client(TEXT, b"\xff"),
        from_client(PING, b""),
        from_client(FIN | CONTINUATION, b""),
        from_client(CLOSE, &closing(3000, "")),
    ];
    let outcome = Case::with(open_server, app).check(&input.concat());
    let expected = [
        from_server(FIN | TEXT, b"one"),
        from_server(FIN | TEXT, b"two"),
        from_server(CLOSE, &closing(3000, "enough")),
    ];
    assert_eq!(outcome.output, expected.concat());
    assert_eq!(outcome.notes, expected[..2].concat());
    assert_eq!(outcome.end, Ok(Next::Close));
}

#[test]
fn a_fault_after_our_close_is_not_answered_with_a_second() {
    let app = Echo {
        close_after: Some(1),
        ..Echo::default()
    };
    let input = [from_client(FIN | TEXT, b"x"), from_server(FIN | TEXT, b"x")];
    let outcome = Case::with(open_server, app).check(&input.concat());
    let expected = [
        from_server(FIN | TEXT, b"x"),
        from_server(CLOSE, &closing(3000, "enough")),
    ];
    assert_eq!(outcome.output, expected.concat());
    assert_eq!(outcome.end, Err("NotMasked".to_owned()));
}

#[test]
fn a_stream_that_ends_early_is_a_fault_unless_we_had_said_close() {
    let case = Case::with(open_server, Echo::default());
    let fragment = from_client(TEXT, b"never ended");
    let cut = from_client(FIN | TEXT, b"cut");
    for input in [&b""[..], &fragment, &cut[..3], &cut[..8]] {
        assert_eq!(case.check(input).end, Err("EndedWithoutClose".to_owned()));
    }
    let app = Echo {
        close_after: Some(1),
        ..Echo::default()
    };
    assert_eq!(
        Case::with(open_server, app).check(&cut).end,
        Ok(Next::Close)
    );
}

#[test]
fn before_the_handshake_there_is_no_goodbye() {
    let mut out = Vec::new();
    let step = super::server().close(Instant::now(), &mut out);
    assert_eq!((step.unwrap().next, out.len()), (Next::Close, 0));
}
