//! `websocket`: its tests, and what they are made of: bytes as they stand on the wire, written here once more and not by the machine,
//! and an application that sends back what it is shown.

mod close;
mod deadlines;
#[cfg(feature = "drive")]
mod driven;
mod faults;
mod handshake;
mod limits;
mod messages;
mod oracle;
mod pair;
mod refused_answers;
mod refused_requests;

use crate::splits::Witness;
use shardloop_protocols::{
    App, Flow, Step, StreamMachine,
    websocket::{ClientOptions, Message, Reply, ServerOptions, WebSocket},
};
use std::{sync::Arc, time::Instant};

const FIN: u8 = 0x80;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = FIN | 8;
const PING: u8 = FIN | 9;
const PONG: u8 = FIN | 10;

/// The key of RFC 6455 section 5.7.
const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// The request of RFC 6455 section 1.3, as far as it must be there.
const REQUEST: &str = "GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

/// Its answer.
const ANSWER: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// A frame whose first byte is `first`.
fn frame(first: u8, payload: &[u8], key: Option<[u8; 4]>) -> Vec<u8> {
    let mask = if key.is_some() { 0x80 } else { 0 };
    let [.., a, b] = payload.len().to_be_bytes();
    let mut bytes = vec![first];
    match payload.len() {
        ..126 => bytes.push(mask | b),
        126..65_536 => bytes.extend([mask | 126, a, b]),
        long => {
            bytes.push(mask | 127);
            bytes.extend((long as u64).to_be_bytes());
        }
    }
    bytes.extend(key.iter().flatten());
    let key = key.unwrap_or_default().into_iter().cycle();
    bytes.extend(payload.iter().zip(key).map(|(byte, key)| byte ^ key));
    bytes
}

fn from_client(first: u8, payload: &[u8]) -> Vec<u8> {
    frame(first, payload, Some(KEY))
}

fn from_server(first: u8, payload: &[u8]) -> Vec<u8> {
    frame(first, payload, None)
}

/// The payload of a Close.
fn closing(code: u16, reason: &str) -> Vec<u8> {
    [&code.to_be_bytes(), reason.as_bytes()].concat()
}

/// Whole frames, each with its first byte and its payload unmasked. All are masked, or none is.
fn frames_of(mut bytes: &[u8], masked: bool) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [first, second, rest @ ..] = bytes {
        assert_eq!(*second & 0x80 != 0, masked);
        let (length, rest) = match second & 0x7f {
            126 => (usize::from(rest[0]) << 8 | usize::from(rest[1]), &rest[2..]),
            127 => {
                let long = rest[..8]
                    .iter()
                    .fold(0, |long, byte| long << 8 | usize::from(*byte));
                (long, &rest[8..])
            }
            short => (usize::from(short), rest),
        };
        let (key, rest) = rest.split_at(if masked { 4 } else { 0 });
        let (payload, rest) = rest.split_at(length);
        let mut payload = payload.to_vec();
        for (byte, key) in payload.iter_mut().zip(key.iter().cycle()) {
            *byte ^= key;
        }
        frames.push((*first, payload));
        bytes = rest;
    }
    frames
}

fn server_with(options: ServerOptions) -> WebSocket {
    WebSocket::server(Arc::new(options))
}

fn server() -> WebSocket {
    server_with(ServerOptions::default())
}

/// A server whose handshake is done.
fn open_server_with(options: ServerOptions) -> WebSocket {
    let mut server = server_with(options);
    let mut request = REQUEST.as_bytes().to_vec();
    let mut out = Vec::new();
    let step = server.handle(Instant::now(), &mut request, &mut Echo::default(), &mut out);
    assert_eq!(step, Ok(Step::need_input(request.len())));
    assert!(server.is_ready());
    server
}

fn open_server() -> WebSocket {
    open_server_with(ServerOptions::default())
}

fn client_options() -> ClientOptions {
    ClientOptions::new("server.example.com", "/chat", [42; 32])
}

/// What a machine has to say at once.
fn start(machine: &mut WebSocket, now: Instant) -> Vec<u8> {
    let mut out = Vec::new();
    let step = machine.start(now, &mut out);
    assert_eq!(step, Ok(Step::need_input(0)));
    out
}

/// How a machine says Close.
fn goodbye(machine: &mut WebSocket, now: Instant) -> Vec<u8> {
    let mut out = Vec::new();
    let step = machine.close(now, &mut out);
    assert_eq!(step, Ok(Step::need_input(0)));
    out
}

/// A client that has asked, and the answer that it waits for.
fn asked_client(options: ClientOptions) -> (WebSocket, Vec<u8>) {
    let server_options = ServerOptions {
        subprotocols: options.subprotocols.clone(),
        ..ServerOptions::default()
    };
    let mut client = WebSocket::client(options);
    let (mut request, mut answer) = (start(&mut client, Instant::now()), Vec::new());
    let step = server_with(server_options).handle(
        Instant::now(),
        &mut request,
        &mut Echo::default(),
        &mut answer,
    );
    assert_eq!(step, Ok(Step::need_input(request.len())));
    (client, answer)
}

/// A client whose handshake is done.
fn open_client_with(options: ClientOptions) -> WebSocket {
    let (mut client, mut answer) = asked_client(options);
    let (mut app, mut out) = (Echo::default(), Vec::new());
    let step = client.handle(Instant::now(), &mut answer, &mut app, &mut out);
    assert_eq!(step, Ok(Step::need_input(answer.len())));
    assert!(client.is_ready() && out.is_empty());
    client
}

fn open_client() -> WebSocket {
    open_client_with(client_options())
}

const FITS: &str = "what was received may be sent";

/// Sends back what it is shown.
#[derive(Clone, Default)]
struct Echo {
    /// Every message as a frame of a server's.
    notes: Vec<u8>,
    messages: usize,
    /// Pauses after every message with a number divisible by it; 0 for never.
    pause_every: usize,
    /// Says Close after so many.
    close_after: Option<usize>,
}

impl<M> App<M> for Echo
where
    M: for<'m, 'r> StreamMachine<Message<'m> = Message<'m>, Reply<'r> = Reply<'r>>,
{
    fn message(&mut self, message: Message<'_>, mut reply: Reply<'_>) -> Flow {
        self.messages += 1;
        match message {
            Message::Text(text) => {
                self.notes.extend(from_server(FIN | TEXT, text.as_bytes()));
                reply.text(text).expect(FITS);
            }
            Message::Binary(bytes) => {
                self.notes.extend(from_server(FIN | BINARY, bytes));
                reply.binary(bytes).expect(FITS);
            }
        }
        if self.close_after == Some(self.messages) {
            reply.close(3000, "enough").expect(FITS);
        }
        match self.pause_every {
            0 => Flow::Continue,
            every if self.messages.is_multiple_of(every) => Flow::Pause,
            _ => Flow::Continue,
        }
    }
}

impl Witness for Echo {
    fn messages(&self) -> usize {
        self.messages
    }

    /// The message may have been held.
    fn longest_reply_bytes(&self, _input_bytes: usize) -> usize {
        1 << 23
    }

    fn into_notes(self) -> Vec<u8> {
        self.notes
    }
}

/// An application that must not be called.
fn nobody(message: Message<'_>, _reply: Reply<'_>) -> Flow {
    panic!("nobody waits for {message:?}")
}
