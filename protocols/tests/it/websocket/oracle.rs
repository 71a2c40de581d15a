//! Against tungstenite, both ways: random messages, cut into random fragments and random pieces, must come through and come back.

use super::{Echo, client_options, goodbye, server, start};
use crate::{random::Random, splits::Feed};
use shardloop_protocols::{
    Flow, Next, StreamMachine,
    websocket::{Message, Reply, WebSocket},
};
use std::{
    collections::VecDeque,
    io::{self, ErrorKind, Read, Write},
    time::Instant,
};
use tungstenite::{
    Bytes, HandshakeError, Message as Theirs, Utf8Bytes,
    protocol::{
        CloseFrame,
        frame::{
            Frame,
            coding::{CloseCode, Data, OpCode},
        },
    },
};

/// The other end's stream.
#[derive(Debug, Default)]
struct Pipe {
    input: VecDeque<u8>,
    output: Vec<u8>,
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.input.read(buffer)? {
            0 => Err(ErrorKind::WouldBlock.into()),
            bytes => Ok(bytes),
        }
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.output.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const THEY_WRITE: &str = "they write to memory";

type Other = tungstenite::WebSocket<Pipe>;

fn random_message(random: &mut Random) -> Theirs {
    let most = [4, 130, 70_000][random.below(3)];
    let length = random.below(most);
    if random.below(2) == 0 {
        return Theirs::Binary(random.bytes(length).into());
    }
    let characters = ['a', 'ß', '€', '😀', '\0', '\u{10ffff}'];
    let text: String = (0..length / 3)
        .map(|_| characters[random.below(6)])
        .collect();
    Theirs::Text(text.into())
}

/// Sends `message` in random fragments, with Pings in between.
fn send_fragments(other: &mut Other, message: &Theirs, random: &mut Random) {
    let data = message.clone().into_data();
    let mut opcode = if message.is_text() {
        Data::Text
    } else {
        Data::Binary
    };
    let mut rest = &data[..];
    loop {
        let (fragment, behind) = rest.split_at(random.below(rest.len() + 1));
        let last = behind.is_empty();
        let frame = Frame::message(Bytes::copy_from_slice(fragment), OpCode::Data(opcode), last);
        other.write(Theirs::Frame(frame)).expect(THEY_WRITE);
        if random.below(3) == 0 {
            let bytes = random.below(126);
            let ping = Theirs::Ping(random.bytes(bytes).into());
            other.write(ping).expect(THEY_WRITE);
        }
        if last {
            return other.flush().expect(THEY_WRITE);
        }
        (opcode, rest) = (Data::Continue, behind);
    }
}

/// Everything that has come for the other end.
fn received(other: &mut Other) -> Vec<Theirs> {
    let mut messages = Vec::new();
    loop {
        match other.read() {
            Ok(message) => messages.push(message),
            Err(tungstenite::Error::Io(fault)) if fault.kind() == ErrorKind::WouldBlock => break,
            Err(tungstenite::Error::ConnectionClosed) => break,
            Err(fault) => panic!("the other end says: {fault}"),
        }
    }
    messages
}

fn pieces<'b>(mut bytes: &'b [u8], random: &mut Random) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    while !bytes.is_empty() {
        let most = [1, 30, 5000, 100_000][random.below(4)];
        let (piece, rest) = bytes.split_at(1 + random.below(most.min(bytes.len())));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// Their client, opened on our server.
fn their_client(server: &mut Feed<WebSocket, Echo>, random: &mut Random) -> Other {
    let started = tungstenite::client("ws://server.example.com/chat", Pipe::default());
    let Err(HandshakeError::Interrupted(mut waiting)) = started else {
        panic!("it waits for the answer");
    };
    let request = std::mem::take(&mut waiting.get_mut().get_mut().output);
    pieces(&request, random)
        .into_iter()
        .for_each(|piece| server.piece(piece));
    let answer = std::mem::take(&mut server.output);
    waiting.get_mut().get_mut().input.extend(answer);
    waiting.handshake().expect("our answer is in order").0
}

#[test]
fn their_client_on_our_server() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let mut server = Feed::new(server(), Echo::default(), 0);
        let mut other = their_client(&mut server, &mut random);
        for _ in 0..20 {
            let message = random_message(&mut random);
            match random.below(3) {
                0 => other.send(message.clone()).unwrap(),
                _ => send_fragments(&mut other, &message, &mut random),
            }
            let up = std::mem::take(&mut other.get_mut().output);
            pieces(&up, &mut random)
                .into_iter()
                .for_each(|piece| server.piece(piece));
            other.get_mut().input.extend(server.output.drain(..));
            let mut back = received(&mut other);
            back.retain(|message| !message.is_pong());
            assert!(back == [message], "seed {seed}");
        }
        let reason = CloseFrame {
            code: CloseCode::Library(3333),
            reason: Utf8Bytes::from_static("done"),
        };
        other.close(Some(reason)).unwrap();
        let up = std::mem::take(&mut other.get_mut().output);
        server.piece(&up);
        let said = server.machine.peer_close().unwrap();
        assert_eq!((said.code, &said.reason[..]), (3333, "done"));
        other.get_mut().input.extend(server.output.drain(..));
        let back = received(&mut other);
        assert!(matches!(&back[..], [Theirs::Close(Some(said))] if u16::from(said.code) == 3333));
        assert_eq!(server.finish().end, Ok(Next::Close), "seed {seed}");
    }
}

/// Our client, opened on their server.
fn our_client(random: &mut Random) -> (WebSocket, Other) {
    let mut client = WebSocket::client(client_options());
    let mut pipe = Pipe::default();
    pipe.input.extend(start(&mut client, Instant::now()));
    let mut other = tungstenite::accept(pipe).expect("our request is in order");
    let answer = std::mem::take(&mut other.get_mut().output);
    let heard = hear(&mut client, &answer, random);
    assert!(client.is_ready() && heard.0.is_empty() && heard.1.is_empty());
    (client, other)
}

/// Shows a client random pieces; what it was shown of it, and what it answers.
fn hear(client: &mut WebSocket, bytes: &[u8], random: &mut Random) -> (Vec<Theirs>, Vec<u8>) {
    let (mut heard, mut unread, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    let mut app = |message: Message<'_>, _: Reply<'_>| {
        heard.push(match message {
            Message::Text(text) => Theirs::text(text),
            Message::Binary(bytes) => Theirs::binary(bytes.to_vec()),
        });
        Flow::Continue
    };
    for piece in pieces(bytes, random) {
        unread.extend_from_slice(piece);
        let mut next = Next::Again;
        while next == Next::Again {
            let mut out = Vec::new();
            let step = client
                .handle(Instant::now(), &mut unread, &mut app, &mut out)
                .expect("they keep to the protocol");
            sent.append(&mut out);
            unread.drain(..step.consumed);
            next = step.next;
        }
    }
    assert!(unread.is_empty());
    (heard, sent)
}

#[test]
fn our_client_on_their_server() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let (mut client, mut other) = our_client(&mut random);
        for _ in 0..20 {
            let message = random_message(&mut random);
            let mut up = Vec::new();
            let sent = client.send(Instant::now(), &mut up, |mut reply| match &message {
                Theirs::Text(text) => reply.text(text),
                other => reply.binary(&other.clone().into_data()),
            });
            assert_eq!(sent, Ok(Ok(())));
            other.get_mut().input.extend(up);
            assert!(received(&mut other) == [message.clone()], "seed {seed}");

            send_fragments(&mut other, &message, &mut random);
            let down = std::mem::take(&mut other.get_mut().output);
            let (heard, pongs) = hear(&mut client, &down, &mut random);
            assert!(heard == [message], "seed {seed}");
            other.get_mut().input.extend(pongs);
            assert!(received(&mut other).iter().all(Theirs::is_pong));
        }
        other
            .get_mut()
            .input
            .extend(goodbye(&mut client, Instant::now()));
        let said = received(&mut other);
        assert!(matches!(&said[..], [Theirs::Close(Some(said))] if said.code == CloseCode::Normal));
        other.flush().ok();
        let down = std::mem::take(&mut other.get_mut().output);
        hear(&mut client, &down, &mut random);
        assert_eq!(client.peer_close().map(|said| said.code), Some(1000));
    }
}

/// What one of the two refuses of random frames, the other refuses too.
#[test]
fn broken_frames_are_broken_for_both() {
    let mut refused = 0;
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let mut server = Feed::new(super::open_server(), Echo::default(), 0);
        let config = tungstenite::protocol::WebSocketConfig::default()
            .max_frame_size(Some(1 << 20))
            .max_message_size(Some(4 << 20));
        let role = tungstenite::protocol::Role::Server;
        let mut other = Other::from_raw_socket(Pipe::default(), role, Some(config));
        let mut input: Vec<u8> = Vec::new();
        for _ in 0..4 {
            let opcode = [0, 1, 2, 3, 9, 10][random.below(6)];
            let fin = if random.below(3) == 0 { 0 } else { 0x80 };
            let bits = if random.below(20) == 0 { 0x40 } else { 0 };
            let bytes = random.below(8);
            let text = if random.below(4) == 0 {
                random.bytes(bytes)
            } else {
                vec![b'x'; bytes]
            };
            input.extend(super::from_client(fin | bits | opcode, &text));
        }
        server.piece(&input);
        other.get_mut().input.extend(&input);
        let theirs = loop {
            match other.read() {
                Ok(_) => {}
                Err(tungstenite::Error::Io(_) | tungstenite::Error::ConnectionClosed) => {
                    break Ok(());
                }
                Err(fault) => break Err(fault),
            }
        };
        let ours = server.finish().end;
        let is_fault = ours.is_err() && ours != Err("EndedWithoutClose".to_owned());
        assert_eq!(
            is_fault,
            theirs.is_err(),
            "seed {seed}: {ours:?}, {theirs:?}, {input:02x?}"
        );
        refused += usize::from(is_fault);
    }
    assert!(
        (500..2900).contains(&refused),
        "{refused} of 3000 are refused"
    );
}
