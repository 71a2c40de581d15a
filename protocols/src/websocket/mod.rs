//! `websocket`: RFC 6455, both ends, from the HTTP request that opens a connection to the Close that ends it.
//!
//! One machine, [`WebSocket`], is a server or a client. Nothing is sent but the handshake before it is done. A message that lies whole in
//! the input is unmasked in place and shown from there, so that an echo costs one copy, the one into the output; see [`Limits`] for what
//! is taken, [`Deadlines`] for how long is waited. No extension is offered or accepted, compression neither.
//!
//! A server that speaks to a client, both of this crate:
//!
//! ```
//! use shardloop_protocols::{Flow, Next, Step, StreamMachine};
//! use shardloop_protocols::websocket::{ClientOptions, Message, Reply, ServerOptions, WebSocket, close};
//! use std::{sync::Arc, time::Instant};
//!
//! let mut server = WebSocket::server(Arc::new(ServerOptions::default()));
//! // A client's randomness is an argument; a real one takes it from the system.
//! let mut client = WebSocket::client(ClientOptions::new("example.com", "/chat?room=5", [7; 32]));
//!
//! let mut echo = |message: Message<'_>, mut reply: Reply<'_>| {
//!     assert_eq!(reply.request().map(|request| request.path()), Some("/chat"));
//!     let sent = match message {
//!         Message::Text(text) => reply.text(text),
//!         Message::Binary(bytes) => reply.binary(bytes),
//!     };
//!     sent.expect("what was received is not over the limit");
//!     Flow::Continue
//! };
//! let mut heard = Vec::new();
//! let mut listen = |message: Message<'_>, _: Reply<'_>| {
//!     if let Message::Text(text) = message {
//!         heard.push(text.to_owned());
//!     }
//!     Flow::Continue
//! };
//!
//! // Each way is a buffer here: one end's output, and the other's input once it is complete.
//! let (now, mut up, mut down) = (Instant::now(), Vec::new(), Vec::new());
//! let all_of = |step: Step, input: &mut Vec<u8>| {
//!     assert_eq!(step.consumed, input.len());
//!     input.clear();
//!     step.next
//! };
//!
//! assert_eq!(client.start(now, &mut up)?.next, Next::NeedInput);
//! all_of(server.handle(now, &mut up, &mut echo, &mut down)?, &mut up);
//! all_of(client.handle(now, &mut down, &mut listen, &mut up)?, &mut down);
//! assert!(client.is_ready() && server.is_ready());
//!
//! client.send(now, &mut up, |mut reply| reply.text("κόσμε"))?.expect("it is short");
//! all_of(server.handle(now, &mut up, &mut echo, &mut down)?, &mut up);
//! all_of(client.handle(now, &mut down, &mut listen, &mut up)?, &mut down);
//!
//! assert_eq!(client.close(now, &mut up)?.next, Next::NeedInput);
//! let next = all_of(server.handle(now, &mut up, &mut echo, &mut down)?, &mut up);
//! assert_eq!(next, Next::Close);
//! assert_eq!(server.peer_close().map(|said| said.code), Some(close::NORMAL));
//! assert_eq!(heard, ["κόσμε"]);
//! # Ok::<(), shardloop_protocols::websocket::WebSocketError>(())
//! ```
//!
//! # Who owns the bytes
//!
//! A head and a control frame stay with the caller until they are whole, and so does the header of a frame. The payload of a frame that
//! is not whole, or is one of several, is the machine's as soon as it has come ([`held_bytes`](crate::StreamMachine::held_bytes)); that memory
//! is given back once the message was shown.
//!
//! # How it ends
//!
//! A fault of the peer's is answered with a Close that has its code ([`WebSocketError::close_code`]), in the handshake with an HTTP status
//! ([`RequestError::status`]), and is the error that ends the connection. [`close`](crate::StreamMachine::close) and [`Reply::close`] say Close
//! and await the peer's, not longer than [`Deadlines::close`]; what comes before it is discarded. A peer's Close is answered with its own
//! code. A client need not wait until the server has closed the stream, though section 7.1.1 would like it to.

pub mod close;
mod fault;
mod frame;
mod handshake;
mod incoming;
mod machine;
mod mask;
mod options;
mod phase;
mod reply;
mod text;

pub use close::PeerClose;
pub use fault::WebSocketError;
pub use handshake::{Request, RequestError, ResponseError};
pub use incoming::Message;
pub use options::{Admit, ClientOptions, Deadlines, KeepAlive, Limits, ServerOptions};
pub use reply::{Reply, ReplyError};

use handshake::{Asked, Scan};
use incoming::Incoming;
use phase::Phase;
use rand_chacha::{
    ChaCha12Rng,
    rand_core::{RngCore, SeedableRng},
};
use reply::Outgoing;
use std::sync::Arc;

/// Either end of a WebSocket connection.
#[derive(Debug)]
pub struct WebSocket {
    /// Until the handshake is done.
    opening: Option<Opening>,
    phase: Phase,
    deadlines: Deadlines,
    is_server: bool,
    incoming: Incoming,
    outgoing: Outgoing,
    request: Option<Request>,
    subprotocol: Option<String>,
    peer_close: Option<PeerClose>,
}

/// What the handshake needs.
#[derive(Debug)]
enum Opening {
    /// A server waits for a request.
    Server {
        options: Arc<ServerOptions>,
        scan: Scan,
    },
    /// A client has not asked yet.
    Client {
        options: Box<ClientOptions>,
        nonce: [u8; 16],
    },
    /// A client waits for the answer.
    Asked { asked: Asked, scan: Scan },
}

impl WebSocket {
    /// A server's end.
    #[must_use]
    pub fn server(options: Arc<ServerOptions>) -> Self {
        let (limits, deadlines) = (options.limits, options.deadlines);
        let scan = Scan::default();
        Self::new(Opening::Server { options, scan }, limits, deadlines, None)
    }

    /// A client's end. It asks when it is told to [`start`](crate::StreamMachine::start).
    #[must_use]
    pub fn client(options: ClientOptions) -> Self {
        let (limits, deadlines) = (options.limits, options.deadlines);
        let mut keys = Box::new(ChaCha12Rng::from_seed(options.seed));
        let mut nonce = [0; 16];
        keys.fill_bytes(&mut nonce);
        let options = Box::new(options);
        Self::new(
            Opening::Client { options, nonce },
            limits,
            deadlines,
            Some(keys),
        )
    }

    fn new(
        opening: Opening,
        limits: Limits,
        deadlines: Deadlines,
        keys: Option<Box<ChaCha12Rng>>,
    ) -> Self {
        let is_server = keys.is_none();
        Self {
            opening: Some(opening),
            phase: Phase::Opening { deadline: None },
            deadlines,
            is_server,
            incoming: Incoming::new(is_server, limits),
            outgoing: Outgoing::new(keys, limits),
            request: None,
            subprotocol: None,
            peer_close: None,
        }
    }

    /// The request that opened the connection, at a server whose handshake is done.
    #[must_use]
    pub fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    /// The subprotocol that the handshake chose.
    #[must_use]
    pub fn subprotocol(&self) -> Option<&str> {
        self.subprotocol.as_deref()
    }

    /// What the peer said with its Close, once it did.
    #[must_use]
    pub fn peer_close(&self) -> Option<&PeerClose> {
        self.peer_close.as_ref()
    }
}
