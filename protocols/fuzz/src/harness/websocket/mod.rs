//! WebSocket: the application that the targets share, and ends whose handshake is done.

pub(super) mod operations;
pub(super) mod peers;

use super::{
    Meter,
    feed::{Terms, Witness},
};
use shardloop_protocols::{
    App, Flow, StreamMachine,
    websocket::{ClientOptions, Limits, Message, Reply, ServerOptions, WebSocket},
};
use std::{sync::Arc, time::Instant};

/// Limits that a short input reaches.
const SMALL: Limits = Limits {
    frame_bytes: 300,
    message_bytes: 500,
    fragments: 5,
    head_bytes: 400,
    headers: 8,
};

/// What is held besides a message: the boxes of a handshake, its request, a client's keys.
const FIXED_BYTES: usize = 64 * 1024;

/// Notes every message; sends it back, if it is not silent.
#[derive(Default)]
pub(super) struct Echo {
    pub(super) notes: Vec<u8>,
    pub(super) messages: usize,
    pub(super) longest_bytes: usize,
    pub(super) pause_every: usize,
    pub(super) silent: bool,
    /// Says Close after so many.
    pub(super) close_after: usize,
}

impl<M> App<M> for Echo
where
    M: for<'m, 'r> StreamMachine<Message<'m> = Message<'m>, Reply<'r> = Reply<'r>>,
{
    fn message(&mut self, message: Message<'_>, mut reply: Reply<'_>) -> Flow {
        self.messages += 1;
        let (kind, bytes): (u8, &[u8]) = match &message {
            Message::Text(text) => (b't', text.as_bytes()),
            Message::Binary(bytes) => (b'b', bytes),
        };
        note(&mut self.notes, kind, bytes);
        self.longest_bytes = self.longest_bytes.max(bytes.len() + bytes.len() / 16 + 256);
        if !self.silent {
            let sent = match message {
                Message::Text(text) => reply.text(text),
                Message::Binary(bytes) => reply.binary(bytes),
            };
            sent.expect("what was received may be sent");
        }
        if self.close_after == self.messages {
            reply.close(3000, "enough").expect("nobody said it before");
        }
        match self.pause_every {
            0 => Flow::Continue,
            every if self.messages.is_multiple_of(every) => Flow::Pause,
            _ => Flow::Continue,
        }
    }
}

fn note(notes: &mut Vec<u8>, kind: u8, bytes: &[u8]) {
    notes.push(kind);
    notes.extend_from_slice(&bytes.len().to_be_bytes());
    notes.extend_from_slice(bytes);
}

impl Witness for Echo {
    fn notes(&mut self) -> &mut Vec<u8> {
        &mut self.notes
    }

    fn messages(&self) -> usize {
        self.messages
    }

    fn longest_answer_bytes(&self) -> usize {
        self.longest_bytes + 256
    }
}

fn terms(limits: Limits, meter: Meter) -> Terms {
    Terms {
        meter,
        layers: 0,
        limit_bytes: limits.message_bytes + limits.head_bytes,
        fixed_bytes: FIXED_BYTES,
    }
}

fn server_options(limits: Limits) -> ServerOptions {
    ServerOptions {
        limits,
        subprotocols: vec!["chat".to_owned(), "superchat".to_owned()],
        origins: Some(vec!["https://example.com".to_owned()]),
        ..ServerOptions::default()
    }
}

fn client_options(limits: Limits) -> ClientOptions {
    let mut options = ClientOptions::new("server.example.com", "/chat", [42; 32]);
    options.limits = limits;
    options.subprotocols = vec!["chat".to_owned()];
    options
}

/// Two ends whose handshake is done.
fn opened(limits: Limits) -> (WebSocket, WebSocket) {
    // The handshake is not what is limited here.
    let limits = Limits {
        head_bytes: Limits::default().head_bytes,
        headers: Limits::default().headers,
        ..limits
    };
    let mut client = WebSocket::client(client_options(limits));
    let mut server = WebSocket::server(Arc::new(server_options(limits)));
    let with = |machine: &mut WebSocket, input: &mut Vec<u8>| {
        let mut out = Vec::new();
        let now = Instant::now();
        let step = machine.handle(now, input, &mut Echo::default(), &mut out);
        let _ = step.expect("the other end keeps to the protocol");
        out
    };
    let mut request = Vec::new();
    let asked = client.start(Instant::now(), &mut request);
    let _ = asked.expect("the options make a request");
    let mut answer = with(&mut server, &mut request);
    with(&mut client, &mut answer);
    assert!(client.is_ready() && server.is_ready());
    (client, server)
}
