//! `websocket`: RFC 6455, both ends, from the HTTP request that opens a connection to the Close that ends it.
//!
//! One machine, [`WebSocket`], is a server or a client. Nothing is sent but the handshake before it is done. A message that lies whole in
//! the input is unmasked in place and shown from there, so that an echo costs one copy, the one into the output; see [`Limits`] for what
//! is taken, [`Deadlines`] for how long is waited. No extension is offered or accepted, compression neither.
//!
//! A server that speaks to a client, both of this crate:
//!
//! ```
//! use shardloop_protocols::{Flow, Next, StreamMachine};
//! use shardloop_protocols::websocket::{ClientOptions, Message, Reply, ServerOptions, WebSocket, close};
//! use std::{sync::Arc, time::Instant};
//!
//! let now = Instant::now();
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
//! // Each way is one buffer here; it is carried over and worked off at once.
//! let (mut up, mut down) = (Vec::new(), Vec::new());
//! client.start(now, &mut up)?;
//! server.handle(now, &mut up, &mut echo, &mut down)?;
//! up.clear();
//! client.handle(now, &mut down, &mut listen, &mut up)?;
//! down.clear();
//! assert!(client.is_ready() && server.is_ready());
//!
//! client.send(now, &mut up, |mut reply| reply.text("κόσμε"))?.expect("it is short");
//! server.handle(now, &mut up, &mut echo, &mut down)?;
//! up.clear();
//! client.handle(now, &mut down, &mut listen, &mut up)?;
//! down.clear();
//!
//! client.close(now, &mut up)?;
//! let step = server.handle(now, &mut up, &mut echo, &mut down)?;
//! assert_eq!(step.next, Next::Close);
//! assert_eq!(server.peer_close().map(|said| said.code), Some(close::NORMAL));
//! assert_eq!(heard, ["κόσμε"]);
//! # Ok::<(), shardloop_protocols::websocket::WebSocketError>(())
//! ```
//!
//! # Who owns the bytes
//!
//! A head and a control frame stay with the caller until they are whole, and so does the header of a frame. The payload of a frame that
//! is not whole, or is one of several, is the machine's as soon as it has come ([`held_bytes`](StreamMachine::held_bytes)); that memory
//! is given back once the message was shown.
//!
//! # How it ends
//!
//! A fault of the peer's is answered with a Close that has its code ([`WebSocketError::close_code`]), in the handshake with an HTTP status
//! ([`RequestError::status`]), and is the error that ends the connection. [`close`](StreamMachine::close) and [`Reply::close`] say Close
//! and await the peer's, not longer than [`Deadlines::close`]; what comes before it is discarded. A peer's Close is answered with its own
//! code. A client need not wait until the server has closed the stream, though section 7.1.1 would like it to.

pub mod close;
mod fault;
mod frame;
mod handshake;
mod incoming;
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

use crate::machine::{App, Flow, Step, StreamMachine, TURN_MESSAGES, TURN_OUTPUT_BYTES};
use handshake::{Asked, Scan};
use incoming::{Event, Incoming};
use phase::Phase;
use rand_chacha::{
    ChaCha12Rng,
    rand_core::{RngCore, SeedableRng},
};
use reply::Outgoing;
use std::{sync::Arc, time::Instant};

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

    /// A client's end. It asks when it is told to [`start`](StreamMachine::start).
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

impl StreamMachine for WebSocket {
    type Message<'m> = Message<'m>;
    type Reply<'r> = Reply<'r>;
    type Error = WebSocketError;

    fn start(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, WebSocketError> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        self.set_handshake_deadline(now);
        let result = self.ask(out);
        self.conclude(result, out)
    }

    fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    fn held_bytes(&self) -> usize {
        self.incoming.held_bytes()
    }

    fn handle(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, WebSocketError> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        if self.phase == Phase::Closed {
            return Ok(Step::close(0));
        }
        let result = self.read(now, input, app, out);
        self.conclude(result, out)
    }

    fn end_of_input(
        &mut self,
        _now: Instant,
        unread: usize,
        _out: &mut Vec<u8>,
    ) -> Result<Step, WebSocketError> {
        match std::mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Open { .. } => Err(WebSocketError::EndedWithoutClose),
            // Somebody who looks whether there is a server says nothing.
            Phase::Opening { .. } if !self.is_server || unread > 0 => {
                Err(WebSocketError::EndedInHandshake)
            }
            // After our Close there is nothing that the peer could have missed.
            Phase::Opening { .. } | Phase::Closing { .. } | Phase::Closed => Ok(Step::close(0)),
        }
    }

    fn timeout(&self) -> Option<Instant> {
        self.phase.timeout(self.deadlines.keep_alive)
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, WebSocketError> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        if self.timeout().is_none_or(|at| now < at) {
            return Ok(Step::need_input(0));
        }
        let result = self.time_out(now, out);
        self.conclude(result, out)
    }

    fn send<R>(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        f: impl FnOnce(Reply<'_>) -> R,
    ) -> Result<R, WebSocketError> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        if !self.is_ready() {
            return Err(WebSocketError::NotOpen);
        }
        let value = f(self.reply(out));
        self.look_for_close(now);
        Ok(value)
    }

    /// Says Close with 1001 from a server, 1000 from a client.
    fn close(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, WebSocketError> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        match self.phase {
            Phase::Opening { .. } | Phase::Closed => {
                self.phase = Phase::Closed;
                Ok(Step::close(0))
            }
            Phase::Open { .. } | Phase::Closing { .. } => {
                let code = if self.is_server {
                    close::GOING_AWAY
                } else {
                    close::NORMAL
                };
                self.outgoing.close(out, Some(code), "");
                self.look_for_close(now);
                Ok(Step::need_input(0))
            }
        }
    }
}

impl WebSocket {
    fn set_handshake_deadline(&mut self, now: Instant) {
        if let Phase::Opening { deadline } = &mut self.phase {
            *deadline = deadline.or(now.checked_add(self.deadlines.handshake));
        }
    }

    /// A client's request, if it was not sent yet.
    fn ask(&mut self, out: &mut Vec<u8>) -> Result<Step, WebSocketError> {
        if let Some(Opening::Client { options, nonce }) = &self.opening {
            let asked = handshake::ask(options, *nonce, out)?;
            let scan = Scan::default();
            self.opening = Some(Opening::Asked { asked, scan });
        }
        Ok(Step::need_input(0))
    }

    fn read(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, WebSocketError> {
        let Some(head_bytes) = self.open(now, input, out)? else {
            return Ok(Step::need_input(0));
        };
        if !input.is_empty() {
            self.phase.heard(now);
        }
        let step = self.take_frames(now, &mut input[head_bytes..], app, out)?;
        Ok(Step {
            consumed: head_bytes + step.consumed,
            next: step.next,
        })
    }

    /// Does the handshake if it was not done; the length of its head, once it is.
    fn open(
        &mut self,
        now: Instant,
        input: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, WebSocketError> {
        let end = match &mut self.opening {
            None => return Ok(Some(0)),
            Some(Opening::Client { .. }) => return Err(WebSocketError::NotOpen),
            Some(Opening::Server { options, scan }) => {
                let end = scan.end(input, options.limits.head_bytes);
                let Some(end) = end.map_err(RequestError::from)? else {
                    self.set_handshake_deadline(now);
                    return Ok(None);
                };
                let (request, subprotocol) = handshake::accept(&input[..end], options, out)?;
                (self.request, self.subprotocol) = (Some(request), subprotocol);
                end
            }
            Some(Opening::Asked { asked, scan }) => {
                let end = scan.end(input, asked.limits.head_bytes);
                let Some(end) = end.map_err(ResponseError::from)? else {
                    return Ok(None);
                };
                self.subprotocol = asked.judge(&input[..end])?;
                end
            }
        };
        self.opening = None;
        self.phase = Phase::open(now);
        Ok(Some(end))
    }

    fn take_frames(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, WebSocketError> {
        let (mut consumed, mut messages) = (0, 0);
        while messages < TURN_MESSAGES && out.len() < TURN_OUTPUT_BYTES {
            let taken = self.incoming.next(&mut input[consumed..])?;
            if taken.bytes == 0 {
                return Ok(Step::need_input(consumed));
            }
            consumed += taken.bytes;
            let flow = match taken.event {
                None | Some(Event::Pong) => continue,
                Some(Event::Ping(payload)) => {
                    self.outgoing.pong(out, payload);
                    continue;
                }
                Some(Event::Close(payload)) => {
                    self.answer_close(payload, out)?;
                    return Ok(Step::close(consumed));
                }
                Some(Event::Message(message)) => app.message(message, self.reply(out)),
                Some(Event::Text(text)) => app.message(Message::Text(&text), self.reply(out)),
                Some(Event::Binary(mut bytes)) => {
                    app.message(Message::Binary(&mut bytes), self.reply(out))
                }
            };
            messages += 1;
            self.look_for_close(now);
            if flow == Flow::Pause {
                break;
            }
        }
        Ok(Step::again(consumed))
    }

    fn reply<'r>(&'r mut self, out: &'r mut Vec<u8>) -> Reply<'r> {
        Reply {
            out,
            outgoing: &mut self.outgoing,
            request: self.request.as_ref(),
        }
    }

    /// If Close was said, what still comes is nobody's, and the peer's is awaited.
    fn look_for_close(&mut self, now: Instant) {
        if self.is_ready() && self.outgoing.is_closed() {
            let deadline = now.checked_add(self.deadlines.close);
            self.phase = Phase::Closing { deadline };
            self.incoming.discard();
        }
    }

    /// The peer has said Close: so does this end, with the same code, unless it has.
    fn answer_close(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), WebSocketError> {
        let said = close::read(payload)?;
        let code = (said.code != close::NO_CODE).then_some(said.code);
        self.outgoing.close(out, code, "");
        self.phase = Phase::Closed;
        self.peer_close = Some(said);
        Ok(())
    }

    fn time_out(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, WebSocketError> {
        match &mut self.phase {
            Phase::Opening { .. } if self.is_server => Err(RequestError::TimedOut.into()),
            Phase::Opening { .. } => Err(ResponseError::TimedOut.into()),
            Phase::Open { pinged: true, .. } => Err(WebSocketError::KeepAliveTimedOut),
            Phase::Open { since, pinged } => {
                (*since, *pinged) = (now, true);
                self.outgoing.ping(out);
                Ok(Step::need_input(0))
            }
            Phase::Closing { .. } => Err(WebSocketError::CloseTimedOut),
            Phase::Closed => Ok(Step::close(0)),
        }
    }

    /// After a fault: what the peer is told of it, and that it was the last.
    fn conclude(
        &mut self,
        result: Result<Step, WebSocketError>,
        out: &mut Vec<u8>,
    ) -> Result<Step, WebSocketError> {
        let Err(fault) = &result else {
            return result;
        };
        match (*fault, fault.close_code()) {
            (WebSocketError::Request(fault), _) => handshake::refuse(out, fault),
            (_, Some(code)) => self.outgoing.close(out, Some(code), ""),
            _ => {}
        }
        self.phase = Phase::Closed;
        result
    }
}
