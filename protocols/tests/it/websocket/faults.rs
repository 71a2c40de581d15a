//! What a peer must not send: the Close it gets, the error that ends the connection, and nothing of it shown, however the input is cut.

use super::{
    BINARY, CLOSE, CONTINUATION, Echo, FIN, KEY, PING, PONG, TEXT, closing, frames_of, from_client,
    from_server, open_client, open_server,
};
use crate::splits::Case;
use shardloop_protocols::{Fault, Side, websocket::WebSocketError as Error};

/// Name, what is sent, the error, the close code.
type Row = (&'static str, Vec<u8>, Error, u16);

fn of_both_ends(frame: fn(u8, &[u8]) -> Vec<u8>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, bit) in [("RSV1", 0x40), ("RSV2", 0x20), ("RSV3", 0x10)] {
        rows.push((
            name,
            frame(FIN | bit | TEXT, b"x"),
            Error::ReservedBits,
            1002,
        ));
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        let fault = Error::ReservedOpcode(opcode);
        rows.push(("a reserved opcode", frame(FIN | opcode, b"x"), fault, 1002));
    }
    for first in [CLOSE, PING, PONG] {
        let fragment = frame(first & !FIN, b"");
        rows.push((
            "a fragmented control frame",
            fragment,
            Error::FragmentedControl,
            1002,
        ));
        let long = frame(first, &[b'x'; 126]);
        rows.push(("a long control frame", long, Error::LongControl, 1002));
    }
    for first in [CONTINUATION, FIN | CONTINUATION] {
        rows.push((
            "nothing to continue",
            frame(first, b"x"),
            Error::LoneContinuation,
            1002,
        ));
    }
    for first in [TEXT, BINARY, FIN | TEXT, FIN | BINARY] {
        let both = [frame(TEXT, b"x"), frame(PING, b""), frame(first, b"x")].concat();
        rows.push(("a message in a message", both, Error::Interleaved, 1002));
    }
    let texts: [(&str, &[u8]); 5] = [
        ("a lone continuation byte", b"ab\x80"),
        ("a surrogate", b"\xed\xa0\x80"),
        ("an over-long form", b"\xc0\xaf"),
        ("beyond the last character", b"\xf4\x90\x80\x80"),
        ("a cut character", b"ab\xe2\x82"),
    ];
    for (name, text) in texts {
        rows.push((name, frame(FIN | TEXT, text), Error::TextNotUtf8, 1007));
        let fragments = [
            frame(TEXT, &text[..1]),
            frame(CONTINUATION, b""),
            frame(PONG, b""),
            frame(FIN | CONTINUATION, &text[1..]),
        ];
        rows.push((name, fragments.concat(), Error::TextNotUtf8, 1007));
        rows.push((
            name,
            frame(CLOSE, &[&1000_u16.to_be_bytes(), text].concat()),
            Error::CloseReasonNotUtf8,
            1007,
        ));
    }
    rows.push((
        "half a close code",
        frame(CLOSE, &[3]),
        Error::HalfCloseCode,
        1002,
    ));
    rows
}

/// Without a key, so that what is announced is all there is.
fn announced(mask: u8, length: &[u8]) -> Vec<u8> {
    let key = if mask == 0 { &[][..] } else { &KEY };
    [&[FIN | BINARY, mask | length[0]], &length[1..], key, b"xyz"].concat()
}

fn of_lengths(mask: u8) -> Vec<Row> {
    let length_16 = |length: u16| [&[126][..], &length.to_be_bytes()].concat();
    let length_64 = |length: u64| [&[127][..], &length.to_be_bytes()].concat();
    let mut rows = Vec::new();
    for length in [0, 1, 125] {
        let bytes = announced(mask, &length_16(length));
        rows.push((
            "not minimal in 16 bits",
            bytes,
            Error::LengthNotMinimal,
            1002,
        ));
    }
    for length in [0, 125, 126, 65_535] {
        let bytes = announced(mask, &length_64(length));
        rows.push((
            "not minimal in 64 bits",
            bytes,
            Error::LengthNotMinimal,
            1002,
        ));
    }
    for length in [1 << 63, u64::MAX] {
        let bytes = announced(mask, &length_64(length));
        rows.push(("the top bit of a length", bytes, Error::LengthTopBit, 1002));
    }
    for length_bytes in [(1 << 20) + 1, 1 << 62] {
        let fault = Error::FrameTooLong {
            length_bytes,
            limit_bytes: 1 << 20,
        };
        rows.push((
            "over the limit",
            announced(mask, &length_64(length_bytes)),
            fault,
            1009,
        ));
    }
    rows
}

/// Whatever was said before is answered; then comes a Close with `code`, and nothing else.
fn check(
    case: &Case<shardloop_protocols::websocket::WebSocket, Echo>,
    good: Vec<u8>,
    row: Row,
    masked: bool,
) {
    let (name, bad, fault, code) = row;
    let outcome = case.check(&[good, bad].concat());
    assert_eq!(outcome.end, Err(format!("{fault:?}")), "{name}");
    assert_eq!(outcome.notes, from_server(FIN | TEXT, b"good"), "{name}");
    let mut frames = frames_of(&outcome.output, masked);
    frames.retain(|(first, _)| *first != PONG);
    let expected = [(FIN | TEXT, b"good".to_vec()), (CLOSE, closing(code, ""))];
    assert_eq!(frames, expected, "{name}");
    assert_eq!(
        (fault.close_code(), fault.side()),
        (Some(code), Side::Peer),
        "{name}"
    );
    let words = fault.to_string();
    assert!(words.len() > 20, "{name} is explained: {words}");
}

#[test]
fn a_server_refuses_what_no_client_may_send() {
    let mut rows = of_both_ends(from_client);
    rows.extend(of_lengths(0x80));
    for first in [FIN | TEXT, BINARY, PING, CLOSE] {
        rows.push(("no mask", from_server(first, b""), Error::NotMasked, 1002));
    }
    let case = Case::with(open_server, Echo::default());
    for row in rows {
        check(&case, from_client(FIN | TEXT, b"good"), row, false);
    }
}

#[test]
fn a_client_refuses_what_no_server_may_send() {
    let mut rows = of_both_ends(from_server);
    rows.extend(of_lengths(0));
    for first in [FIN | TEXT, BINARY, PING, CLOSE] {
        rows.push(("a mask", from_client(first, b""), Error::Masked, 1002));
    }
    let case = Case::with(open_client, Echo::default());
    for row in rows {
        check(&case, from_server(FIN | TEXT, b"good"), row, true);
    }
}

#[test]
fn a_broken_text_is_refused_at_its_first_wrong_byte() {
    let text = b"long enough \xf0\x9f\x92\xff and much that nobody has to wait for";
    let whole = from_client(FIN | TEXT, text);
    let case = Case::with(open_server, Echo::default());
    let header_bytes = whole.len() - text.len();
    let wrong = header_bytes + 16;
    let outcome = case.run([&whole[..wrong - 1]]);
    assert_eq!(outcome.end, Err("EndedWithoutClose".to_owned()));
    let outcome = case.run([&whole[..wrong]]);
    assert_eq!(outcome.end, Err("TextNotUtf8".to_owned()));
    let outcome = case.run(whole[..wrong].chunks(1));
    assert_eq!(outcome.end, Err("TextNotUtf8".to_owned()));
}

#[test]
fn a_text_may_be_cut_into_fragments_anywhere() {
    let text = "κόσμε \u{10ffff}€\u{800}".as_bytes();
    let case = Case::with(open_server, Echo::default());
    for at in 0..=text.len() {
        let input = [
            from_client(TEXT, &text[..at]),
            from_client(FIN | CONTINUATION, &text[at..]),
        ];
        let outcome = case.check(&input.concat());
        assert_eq!(outcome.output, from_server(FIN | TEXT, text), "cut at {at}");
    }
}

#[test]
fn a_broken_text_may_be_cut_anywhere_and_stays_broken() {
    let text = b"ab\xe2\x82\xac\xed\xa0\x80c";
    let case = Case::with(open_server, Echo::default());
    for at in 0..=text.len() {
        let input = [
            from_client(TEXT, &text[..at]),
            from_client(FIN | CONTINUATION, &text[at..]),
        ];
        let outcome = case.check(&input.concat());
        assert_eq!(outcome.end, Err("TextNotUtf8".to_owned()), "cut at {at}");
        assert_eq!(outcome.output, from_server(CLOSE, &closing(1007, "")));
    }
}
