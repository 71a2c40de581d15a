//! A client and a server of ours, connected in memory: what one sends the other is shown, and both close in order.

use super::{Echo, client_options, goodbye, server, start};
use crate::{random::Random, splits::Feed};
use shardloop_protocols::{
    Flow, Next, StreamMachine,
    websocket::{Message, Reply, WebSocket, close},
};
use std::time::Instant;

/// A client that keeps what it hears.
struct Client {
    machine: WebSocket,
    unread: Vec<u8>,
    heard: Vec<Vec<u8>>,
    ended: bool,
}

impl Client {
    fn hear(&mut self, piece: &[u8]) -> Vec<u8> {
        self.unread.extend_from_slice(piece);
        let mut sent = Vec::new();
        loop {
            let mut app = |message: Message<'_>, _: Reply<'_>| {
                self.heard.push(match message {
                    Message::Text(text) => text.as_bytes().to_vec(),
                    Message::Binary(bytes) => bytes.to_vec(),
                });
                Flow::Continue
            };
            let mut out = Vec::new();
            let step = self
                .machine
                .handle(Instant::now(), &mut self.unread, &mut app, &mut out);
            let step = step.expect("the server keeps to the protocol");
            sent.append(&mut out);
            self.unread.drain(..step.consumed);
            self.ended |= step.next == Next::Close;
            if step.next != Next::Again {
                return sent;
            }
        }
    }
}

/// Carries what the client sends to the server and back, in pieces.
fn carry(client: &mut Client, server: &mut Feed<WebSocket, Echo>, up: &[u8], piece_bytes: usize) {
    let mut up = up.to_vec();
    while !up.is_empty() {
        up.chunks(piece_bytes).for_each(|piece| server.piece(piece));
        let down = std::mem::take(&mut server.output);
        up = down
            .chunks(piece_bytes)
            .flat_map(|piece| client.hear(piece))
            .collect();
    }
}

#[test]
fn a_client_and_a_server_understand_each_other() {
    for (seed, piece_bytes) in [(1, 1), (2, 7), (3, 1448), (4, usize::MAX)] {
        let mut random = Random::new(seed);
        let mut server = Feed::new(server(), Echo::default(), 0);
        let mut client = Client {
            machine: WebSocket::client(client_options()),
            unread: Vec::new(),
            heard: Vec::new(),
            ended: false,
        };
        let now = Instant::now();
        let up = start(&mut client.machine, now);
        carry(&mut client, &mut server, &up, piece_bytes);
        assert!(client.machine.is_ready() && server.machine.is_ready());

        let mut said = Vec::new();
        for _ in 0..30 {
            let most = [3, 200, piece_bytes.clamp(3000, 70_000)][random.below(3)];
            let length = random.below(most);
            let bytes = random.bytes(length);
            let text = "ä".repeat(length / 2);
            let mut up = Vec::new();
            let sent = client.machine.send(now, &mut up, |mut reply| {
                reply.ping(&bytes[..length.min(125)])?;
                reply.text(&text)?;
                reply.binary(&bytes)
            });
            assert_eq!(sent, Ok(Ok(())));
            said.extend([text.into_bytes(), bytes]);
            carry(&mut client, &mut server, &up, piece_bytes);
        }
        assert!(client.heard == said, "pieces of {piece_bytes}");

        let up = goodbye(&mut client.machine, now);
        carry(&mut client, &mut server, &up, piece_bytes);
        let said = client.machine.peer_close().map(|said| said.code);
        assert_eq!((client.ended, said), (true, Some(close::NORMAL)));
        assert_eq!(server.finish().end, Ok(Next::Close));
    }
}
