//! Messages, fragments and control frames, fed in every way.

use super::{
    ANSWER, BINARY, CLOSE, CONTINUATION, Echo, FIN, KEY, PING, PONG, REQUEST, TEXT, asked_client,
    client_options, closing, frames_of, from_client, from_server, open_client, open_server, server,
};
use crate::{
    layer::{Mask, mask, unmask},
    random::Random,
    splits::{Case, Feed},
};
use shardloop_protocols::{
    Flow, Next, Step, StreamMachine,
    websocket::{Message, Reply, WebSocket},
};
use std::time::Instant;

/// What a client says, and what the application sees of it.
fn conversation(frame: fn(u8, &[u8]) -> Vec<u8>) -> (Vec<u8>, Vec<u8>) {
    let said = [
        frame(FIN | TEXT, "Hello, κόσμε".as_bytes()),
        frame(FIN | BINARY, &[0, 255, 7]),
        frame(FIN | TEXT, b""),
        frame(TEXT, "half of a \u{20ac}".split_at(10).0.as_bytes()),
        frame(PING, b"between"),
        frame(CONTINUATION, &[0xe2, 0x82]),
        frame(PONG, b"nobody asked"),
        frame(CONTINUATION, b""),
        frame(FIN | CONTINUATION, &[0xac, b'!']),
        frame(BINARY, b""),
        frame(FIN | CONTINUATION, &[9; 200]),
        frame(FIN | BINARY, &[8; 126]),
        frame(PING, &[1; 125]),
        frame(CLOSE, &closing(1000, "good bye")),
        b"nobody reads this".to_vec(),
    ];
    let shown = [
        from_server(FIN | TEXT, "Hello, κόσμε".as_bytes()),
        from_server(FIN | BINARY, &[0, 255, 7]),
        from_server(FIN | TEXT, b""),
        from_server(FIN | TEXT, "half of a €!".as_bytes()),
        from_server(FIN | BINARY, &[9; 200]),
        from_server(FIN | BINARY, &[8; 126]),
    ];
    (said.concat(), shown.concat())
}

fn answers() -> Vec<(u8, Vec<u8>)> {
    vec![
        (FIN | TEXT, "Hello, κόσμε".as_bytes().to_vec()),
        (FIN | BINARY, vec![0, 255, 7]),
        (FIN | TEXT, vec![]),
        (PONG, b"between".to_vec()),
        (FIN | TEXT, "half of a €!".as_bytes().to_vec()),
        (FIN | BINARY, vec![9; 200]),
        (FIN | BINARY, vec![8; 126]),
        (PONG, vec![1; 125]),
        (CLOSE, closing(1000, "")),
    ]
}

#[test]
fn a_server_hears_the_same_however_the_input_is_cut() {
    let (said, shown) = conversation(from_client);
    let input = [REQUEST.as_bytes(), &said].concat();
    let outcome = Case::with(server, Echo::default()).check(&input);
    assert_eq!(outcome.notes, shown);
    let frames = outcome.output.strip_prefix(ANSWER.as_bytes()).unwrap();
    assert_eq!(frames_of(frames, false), answers());
    assert_eq!(outcome.end, Ok(Next::Close));
}

#[test]
fn a_client_hears_the_same_however_the_input_is_cut() {
    let (said, shown) = conversation(from_server);
    let input = [asked_client(client_options()).1, said].concat();
    let client = || asked_client(client_options()).0;
    let outcome = Case::with(client, Echo::default()).check(&input);
    assert_eq!(outcome.notes, shown);
    assert_eq!(frames_of(&outcome.output, true), answers());
    assert_eq!(outcome.end, Ok(Next::Close));
}

/// Whatever a broken byte turns a conversation into, it turns into the same however the input is cut.
#[test]
fn broken_conversations_break_at_the_same_place_in_every_cut() {
    let server_hears = [REQUEST.as_bytes(), &conversation(from_client).0].concat();
    let client_hears = [
        asked_client(client_options()).1,
        conversation(from_server).0,
    ]
    .concat();
    let client = || asked_client(client_options()).0;
    for seed in 0..500 {
        let mut random = Random::new(seed);
        for (input, machine) in [
            (&server_hears, server as fn() -> WebSocket),
            (&client_hears, client),
        ] {
            let mut input = input.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(input.len());
                input[at] ^= 1 << random.below(8);
            }
            Case::with(machine, Echo::default()).check_cuts(&input, seed);
        }
    }
}

#[test]
fn a_server_under_a_layer_hears_the_same() {
    let (said, shown) = conversation(from_client);
    let input = [REQUEST.as_bytes(), &said].concat();
    let case = Case {
        layers: 1,
        decode: unmask,
        ..Case::with(|| Mask::new(server()), Echo::default())
    };
    let outcome = case.check(&mask(&input, &mut Random::new(1)));
    assert_eq!(outcome.notes, shown);
    let frames = outcome.output.strip_prefix(ANSWER.as_bytes()).unwrap();
    assert_eq!(frames_of(frames, false), answers());
}

#[test]
fn a_pause_and_the_bounds_of_a_turn_change_nothing() {
    let small: Vec<u8> = (0..150)
        .flat_map(|n| from_client(FIN | BINARY, &[n; 3]))
        .collect();
    let long = [
        from_client(FIN | BINARY, &[1; 20_000]),
        from_client(PING, b"p"),
    ]
    .concat();
    for (input, pause_every) in [(small, 0), (long.repeat(9), 0), (long.repeat(3), 1)] {
        let app = Echo {
            pause_every,
            ..Echo::default()
        };
        let outcome = Case::with(open_server, app).check_cuts(&input, 3);
        let output = frames_of(&outcome.output, false);
        let echoed: Vec<_> = output
            .into_iter()
            .filter(|(first, _)| *first != PONG)
            .collect();
        assert!(frames_of(&outcome.notes, false) == echoed);
        assert_eq!(outcome.end, Err("EndedWithoutClose".to_owned()));
    }
}

#[test]
fn after_a_pause_the_next_message_waits() {
    let mut app = Echo {
        pause_every: 1,
        ..Echo::default()
    };
    let one = from_client(FIN | TEXT, b"one");
    let (mut server, mut input, mut out) = (open_server(), one.repeat(2), Vec::new());
    let step = server.handle(Instant::now(), &mut input, &mut app, &mut out);
    assert_eq!(step, Ok(Step::again(one.len())));
    assert_eq!(app.messages, 1);
}

/// RFC 6455 section 5.7.
#[test]
fn the_examples_of_the_rfc() {
    let unmasked = [0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f];
    let masked = [
        0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
    ];
    let fragments = [0x01, 0x03, 0x48, 0x65, 0x6c, 0x80, 0x02, 0x6c, 0x6f];
    let ping = [0x89, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f];
    let pong = [
        0x8a, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
    ];

    let heard = Case::with(open_server, Echo::default()).check(&masked);
    assert_eq!(
        (&heard.notes[..], &heard.output[..]),
        (&unmasked[..], &unmasked[..])
    );
    let heard = Case::with(open_server, Echo::default()).check(&pong);
    assert_eq!((heard.notes, heard.output), (vec![], vec![]));

    let client = Case::with(open_client, Echo::default());
    assert_eq!(client.check(&unmasked).notes, unmasked);
    assert_eq!(client.check(&fragments).notes, unmasked);
    assert_eq!(
        frames_of(&client.check(&ping).output, true),
        [(PONG, b"Hello".to_vec())]
    );

    let binary_256 = [&[0x82, 0x7e, 0x01, 0x00][..], &[5; 256]].concat();
    assert_eq!(client.check(&binary_256).notes, binary_256);
    let binary_64k = [&[0x82, 0x7f, 0, 0, 0, 0, 0, 1, 0, 0][..], &[5; 65_536]].concat();
    assert!(client.check_cuts(&binary_64k, 1).notes == binary_64k);
}

#[test]
fn a_whole_message_is_shown_where_it_lies_and_answered_with_one_copy() {
    let mut input = from_client(FIN | BINARY, &[7; 5000]);
    let (from, to) = (
        input.as_ptr() as usize,
        input.as_ptr() as usize + input.len(),
    );
    let mut app = |message: Message<'_>, mut reply: Reply<'_>| {
        let Message::Binary(bytes) = message else {
            panic!("it is binary");
        };
        assert!((from..to).contains(&(bytes.as_ptr() as usize)));
        bytes.reverse();
        reply.binary(bytes).unwrap();
        Flow::Continue
    };
    let (mut server, mut out) = (open_server(), Vec::new());
    let step = server.handle(Instant::now(), &mut input, &mut app, &mut out);
    assert_eq!(step.unwrap().consumed, input.len());
    assert_eq!(server.held_bytes(), 0);
    assert_eq!(frames_of(&out, false), [(FIN | BINARY, vec![7; 5000])]);
}

#[test]
fn what_is_held_grows_with_what_comes_and_is_given_back() {
    let input = [
        from_client(BINARY, &[1; 100]),
        from_client(FIN | CONTINUATION, &[2; 50]),
    ]
    .concat();
    let mut feed = Feed::new(open_server(), Echo::default(), 0);
    feed.piece(&input[..5]);
    assert_eq!(
        feed.machine.held_bytes(),
        0,
        "a header in the making stays with the caller"
    );
    feed.piece(&input[5..26]);
    assert_eq!(feed.machine.held_bytes(), 20);
    feed.piece(&input[26..126]);
    assert_eq!(feed.machine.held_bytes(), 114);
    feed.piece(&input[126..]);
    assert_eq!((feed.machine.held_bytes(), feed.app.messages), (0, 1));
}

#[test]
fn a_client_masks_every_frame_with_another_key() {
    let mut client = open_client();
    let mut keys = Vec::new();
    for _ in 0..20 {
        let mut out = Vec::new();
        let sent = client.send(Instant::now(), &mut out, |mut reply| reply.binary(&[0; 40]));
        assert_eq!(sent, Ok(Ok(())));
        let key = out[2..6].to_vec();
        assert_eq!(out[6..], key.repeat(10), "zeros show the key");
        keys.push(key);
    }
    assert!(!keys.contains(&KEY.to_vec()));
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 20);
}

#[test]
fn several_replies_to_one_message_go_out_in_order() {
    let mut app = |_: Message<'_>, mut reply: Reply<'_>| {
        reply.text("one").unwrap();
        reply.ping(b"two").unwrap();
        reply.binary(b"three").unwrap();
        assert_eq!(reply.request().unwrap().path(), "/chat");
        Flow::Continue
    };
    let mut out = Vec::new();
    let mut input = from_client(FIN | TEXT, b"go");
    let step = open_server().handle(Instant::now(), &mut input, &mut app, &mut out);
    assert_eq!(step.unwrap().next, Next::NeedInput);
    let expected = [
        (FIN | TEXT, b"one".to_vec()),
        (PING, b"two".to_vec()),
        (FIN | BINARY, b"three".to_vec()),
    ];
    assert_eq!(frames_of(&out, false), expected);
}

#[test]
fn nothing_is_sent_before_the_handshake_is_done() {
    let mut out = Vec::new();
    for mut machine in [server(), WebSocket::client(client_options())] {
        assert!(!machine.is_ready());
        let sent = machine.send(Instant::now(), &mut out, |_| panic!("not to be called"));
        assert_eq!(
            sent.map_err(|fault| format!("{fault:?}")),
            Err::<(), _>("NotOpen".to_owned())
        );
        assert!(out.is_empty());
    }
}

/// Other runtimes than shards move a connection from thread to thread.
#[test]
fn a_connection_may_move_between_threads() {
    fn check<T: Send>(_: &T) {}
    check(&server());
}
