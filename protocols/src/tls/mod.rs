//! TLS 1.3 and 1.2 as a layer over any stream machine (RFC 8446, RFC 5246), server and client. The TLS itself is rustls'.
//!
//! [`Tls<M>`] is a [`StreamMachine`] whose messages and replies are those of `M`: `Tls<Length>` is framed messages over TLS,
//! `Tls<Tls<M>>` is TLS in TLS. Its bytes are records.
//!
//! ```
//! # #[cfg(feature = "aws-lc-rs")] {
//! use shardloop_protocols::{length::Length, tls::{ConfigError, Identity, Provider, ServerConfig, ServerOptions, Tls}};
//!
//! fn configure(chain_pem: &[u8], key_pem: &[u8]) -> Result<ServerConfig, ConfigError> {
//!     let identity = Identity::from_pem(chain_pem, key_pem)?;
//!     ServerConfig::new(&ServerOptions {
//!         protocols: vec![b"http/1.1".to_vec()],
//!         ..ServerOptions::usual(identity, Provider::built_in())
//!     })
//! }
//!
//! fn machine(config: &ServerConfig) -> Tls<Length> {
//!     Tls::server(config, Length::default())
//! }
//! # assert!(configure(b"", b"").is_err());
//! # let _ = machine;
//! # }
//! ```
//!
//! # From the first byte to the last
//!
//! [`start`](StreamMachine::start) puts out what a client says first, and starts the deadline of the handshake. Once that is done, the
//! inner machine is started and [`is_ready`](StreamMachine::is_ready) says so. What the inner machine puts out in one call leaves in
//! as few records as possible.
//!
//! The peer's close_notify is the end of the inner machine's input. [`close`](StreamMachine::close) lets the inner machine say its
//! goodbye, and close_notify follows; it does not wait for the peer's. A stream that ends without one may have been cut short by
//! anybody, and is an error unless [`AbruptEnd::InnerDecides`] says otherwise.
//!
//! After an error `out` holds the alert that tells the peer, if TLS has one for it. Messages before it in the same input still reach
//! the application; but there is no answering them any more.
//!
//! # Who owns the bytes
//!
//! All input is consumed, unless the application pauses, or it is less than the very first header. The beginning of a record is kept
//! by the TLS library (at most 18 KiB; 64 KiB in a handshake), and what was decrypted and the inner machine left, by the layer
//! ([`Limits::plaintext_bytes`]). While the inner machine wants another turn nothing more is decrypted. Between calls an idle
//! connection keeps a buffer of 4 KiB and the state of the TLS library: with the providers built in, about 6.5 KiB in all.
//!
//! Floods are bounded by the library: 32 changes of keys without data between them, one wish to negotiate anew, 4 warnings, 32 empty
//! records in a row.
//!
//! What it does not do: early data (0-RTT), revocation lists, choosing among several certificates by name, key logs.

mod alert;
mod config;
mod fault;
mod identity;
mod plain;
mod provider;
mod record;
mod session;

pub use alert::Alert;
pub use config::{
    AbruptEnd, ClientCertificates, ClientConfig, ClientOptions, ConfigError, Limits, Resumption,
    ServerConfig, ServerOptions, Versions, WallClock,
};
pub use fault::{CertificateFault, Offer, TlsError, TlsFault};
pub use identity::{Identity, Roots};
pub use provider::Provider;

use crate::machine::{App, Flow, Next, Step, StreamMachine, TURN_MESSAGES, TURN_OUTPUT_BYTES};
use config::Terms;
use plain::Plain;
use record::{HEADER_BYTES, RECORD_BYTES, Records};
use session::Session;
use std::{marker::PhantomData, time::Instant};

/// Either end of a TLS connection, with the machine that speaks in it.
#[derive(Debug)]
pub struct Tls<M> {
    inner: M,
    session: Session,
    terms: Terms,
    stage: Stage,
    /// Of the handshake, while it lasts.
    deadline: Option<Instant>,
    /// What has come of it.
    handshake_bytes: usize,
    records: Records,
    /// What the inner machine left.
    plain: Plain,
    /// The inner machine is to be called before anything more is read.
    again: bool,
    /// The inner machine has said its goodbye and waits for the peer's.
    closing: bool,
    /// What is wrong behind the plaintext that the inner machine has not seen yet.
    fault: Option<TlsFault>,
    /// The inner machine's output on its way into records; empty between calls.
    inner_out: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Handshake,
    Open,
    /// close_notify or another alert was put out, and nothing may follow.
    Ended,
}

impl<M: StreamMachine> Tls<M> {
    /// A server's end of a new connection.
    #[must_use]
    pub fn server(config: &ServerConfig, inner: M) -> Self {
        let session = Session::server(config)
            .expect("a server's end needs nothing that its configuration was not checked for");
        Self::new(session, config.terms, inner)
    }

    /// A client's end of a new connection.
    ///
    /// # Errors
    /// This host has no random numbers or no time of day.
    pub fn client(config: &ClientConfig, inner: M) -> Result<Self, TlsFault> {
        Ok(Self::new(Session::client(config)?, config.terms, inner))
    }

    fn new(session: Session, terms: Terms, inner: M) -> Self {
        Self {
            inner,
            session,
            terms,
            stage: Stage::Handshake,
            deadline: None,
            handshake_bytes: 0,
            records: Records::default(),
            plain: Plain::default(),
            again: false,
            closing: false,
            fault: None,
            inner_out: Vec::new(),
        }
    }

    /// The machine in the layer.
    pub fn inner(&self) -> &M {
        &self.inner
    }

    /// Whether the handshake is still going on.
    pub fn is_handshaking(&self) -> bool {
        self.stage == Stage::Handshake
    }

    /// The protocol that was agreed on (ALPN), if any was.
    pub fn protocol(&self) -> Option<&[u8]> {
        self.session.protocol()
    }

    /// `TLS 1.3` or `TLS 1.2`, once it was agreed on.
    pub fn version(&self) -> Option<&'static str> {
        self.session.version()
    }

    /// The cipher suite by its name in the registry of IANA (those of TLS 1.3 begin with `TLS13`), once it was agreed on.
    pub fn cipher_suite(&self) -> Option<&'static str> {
        self.session.cipher_suite()
    }

    /// Whether the handshake was a short one, which goes on from an earlier connection.
    pub fn is_resumed(&self) -> bool {
        self.session.is_resumed()
    }

    /// At a server: the name that the client asked for (SNI).
    pub fn server_name(&self) -> Option<&str> {
        self.session.server_name()
    }

    /// The peer's certificates in DER, its own first, once they came; none if it showed none.
    pub fn peer_certificates(&self) -> impl Iterator<Item = &[u8]> {
        self.session.peer_certificates()
    }

    /// New keys from the next record on, for connections that live long. TLS 1.3 also does so by itself before a key has encrypted too
    /// much. Peers refuse to do it often without data in between.
    ///
    /// # Errors
    /// The handshake is not done, the connection has ended, or it is TLS 1.2.
    pub fn refresh_keys(&mut self, out: &mut Vec<u8>) -> Result<(), TlsFault> {
        self.check_open()?;
        self.session.refresh_keys()?;
        self.session.take_output(out);
        Ok(())
    }

    fn check_open(&self) -> Result<(), TlsFault> {
        match self.stage {
            Stage::Handshake => Err(TlsFault::NotReady),
            Stage::Open if !self.closing && !self.session.has_failed() => Ok(()),
            Stage::Open | Stage::Ended => Err(TlsFault::Ended),
        }
    }

    /// What [`handle`](StreamMachine::handle) does, until there is nothing more to do or others have their turn.
    fn turn(
        &mut self,
        now: Instant,
        input: &[u8],
        consumed: &mut usize,
        app: &mut Through<'_, impl App<Self>, M>,
        out: &mut Vec<u8>,
    ) -> Result<Next, TlsError<M::Error>> {
        loop {
            if self.again {
                let next = self.show(now, app, out)?;
                if next != Next::NeedInput {
                    return Ok(next);
                }
            }
            if self.fault.is_some() || self.session.peer_has_ended() {
                return self.finish(now, out);
            }
            if *consumed == input.len() || self.is_too_little(input) {
                return Ok(Next::NeedInput);
            }
            // The bound of messages is the application's pause.
            if out.len() >= TURN_OUTPUT_BYTES {
                return Ok(Next::Again);
            }
            *consumed += self.gather(&input[*consumed..], out);
            if self.stage == Stage::Handshake
                && !self.session.is_handshaking()
                && self.open(now, out)? == Next::Close
            {
                return Ok(Next::Close);
            }
        }
    }

    /// The first header is left with the caller until it is whole, so that it can be told what it is if it is none.
    fn is_too_little(&self, input: &[u8]) -> bool {
        self.stage == Stage::Handshake && self.handshake_bytes == 0 && input.len() < HEADER_BYTES
    }

    /// Decrypts until the input is used up or about a record has come out; so what many small messages are answered leaves in one
    /// record. How much of the input was taken.
    fn gather(&mut self, input: &[u8], out: &mut Vec<u8>) -> usize {
        let (before, mut taken) = (self.plain.len(), 0);
        self.plain.expect(match before {
            0 => input.len().min(RECORD_BYTES),
            // A long message is under way, and all of this may belong to it.
            _ => input.len(),
        });
        while taken < input.len() && self.plain.len() - before < RECORD_BYTES {
            let read = self.session.read(&input[taken..], self.plain.back());
            let (Ok(bytes) | Err((bytes, _))) = read;
            self.records.pass(&input[taken..taken + bytes]);
            taken += bytes;
            if let Err((_, fault)) = read {
                self.fault = Some(self.first_of(fault));
            }
            let is_shaken = self.stage == Stage::Handshake && self.is_shaken(bytes, out);
            if is_shaken || self.fault.is_some() || self.session.peer_has_ended() {
                break;
            }
        }
        self.session.take_output(out);
        self.again = self.again || self.plain.len() > before;
        taken
    }

    /// Counts bytes of the handshake; whether it is over, one way or the other.
    fn is_shaken(&mut self, bytes: usize, out: &mut Vec<u8>) -> bool {
        if !self.session.is_handshaking() {
            return true;
        }
        self.handshake_bytes += bytes;
        let limit_bytes = self.terms.limits.handshake_bytes;
        if self.handshake_bytes > limit_bytes && self.fault.is_none() {
            self.session.end(out);
            self.fault = Some(TlsFault::HandshakeTooLong { limit_bytes });
        }
        self.fault.is_some()
    }

    /// What looks like nothing at all may be a text.
    fn first_of(&self, fault: TlsFault) -> TlsFault {
        match self.records.text() {
            Some(begins) if fault == TlsFault::Garbage => TlsFault::Text { begins },
            _ => fault,
        }
    }

    /// The handshake is done: the inner machine begins.
    fn open(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Next, TlsError<M::Error>> {
        self.stage = Stage::Open;
        let step = self.inner.start(now, &mut self.inner_out);
        self.conclude(step, out)
    }

    /// Shows the inner machine what was decrypted, and seals what it answers.
    fn show(
        &mut self,
        now: Instant,
        app: &mut Through<'_, impl App<Self>, M>,
        out: &mut Vec<u8>,
    ) -> Result<Next, TlsError<M::Error>> {
        self.again = false;
        let step = self
            .inner
            .handle(now, self.plain.unread(), app, &mut self.inner_out);
        if let Ok(step) = &step {
            self.plain.consume(step.consumed);
        }
        let next = self.conclude(step, out)?;
        let limit_bytes = self.terms.limits.plaintext_bytes;
        if next == Next::NeedInput && self.plain.len() > limit_bytes {
            self.end(out);
            return Err(TlsFault::PlaintextTooLong { limit_bytes }.into());
        }
        Ok(next)
    }

    /// Seals what the inner machine has put out, and does what it wants.
    fn conclude(
        &mut self,
        step: Result<Step, M::Error>,
        out: &mut Vec<u8>,
    ) -> Result<Next, TlsError<M::Error>> {
        self.seal(out)?;
        match step {
            Ok(Step { next, .. }) => {
                self.again = self.again || next == Next::Again;
                if next == Next::Close {
                    self.end(out);
                }
                Ok(next)
            }
            Err(fault) => {
                self.end(out);
                Err(TlsError::Inner(fault))
            }
        }
    }

    /// Moves the inner machine's output into records. After a fault nobody may send any.
    fn seal(&mut self, out: &mut Vec<u8>) -> Result<(), TlsFault> {
        if self.session.has_failed() {
            self.inner_out.clear();
        }
        let sealed = self.session.write(&self.inner_out, out);
        self.inner_out.clear();
        if sealed.is_err() {
            self.stage = Stage::Ended;
        }
        sealed
    }

    /// Nothing more comes, and the inner machine has seen all that came.
    fn finish(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Next, TlsError<M::Error>> {
        match self.fault.take() {
            Some(fault) => {
                self.stage = Stage::Ended;
                Err(fault.into())
            }
            None => self.end_of_plaintext(now, out),
        }
    }

    fn end_of_plaintext(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<Next, TlsError<M::Error>> {
        let step = self
            .inner
            .end_of_input(now, self.plain.len(), &mut self.inner_out);
        self.conclude(step, out)?;
        self.end(out);
        Ok(Next::Close)
    }

    /// Puts out close_notify, unless there was an alert before.
    fn end(&mut self, out: &mut Vec<u8>) {
        if !self.session.has_failed() {
            self.session.end(out);
        }
        self.stage = Stage::Ended;
    }

    /// What a connection does not need while nothing happens.
    fn give_back(&mut self) {
        self.plain.shrink();
        self.inner_out = Vec::new();
        if self.records.unfinished_bytes() == 0 {
            self.session.shrink();
        }
    }
}

impl<M: StreamMachine> StreamMachine for Tls<M> {
    type Message<'m> = M::Message<'m>;
    type Reply<'r> = M::Reply<'r>;
    type Error = TlsError<M::Error>;

    fn start(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, Self::Error> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        self.deadline = now.checked_add(self.terms.limits.handshake);
        self.session.take_output(out);
        Ok(Step::need_input(0))
    }

    fn is_ready(&self) -> bool {
        self.check_open().is_ok() && self.inner.is_ready()
    }

    fn held_bytes(&self) -> usize {
        match self.stage {
            Stage::Open => {
                self.plain.len() + self.records.unfinished_bytes() + self.inner.held_bytes()
            }
            Stage::Handshake | Stage::Ended => 0,
        }
    }

    fn handle(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, Self::Error> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        if self.stage == Stage::Ended {
            return Ok(Step::close(input.len()));
        }
        let mut app = Through {
            app,
            messages: 0,
            layer: PhantomData,
        };
        let mut consumed = 0;
        let next = self.turn(now, input, &mut consumed, &mut app, out);
        self.give_back();
        Ok(Step {
            consumed,
            next: next?,
        })
    }

    fn end_of_input(
        &mut self,
        now: Instant,
        unread: usize,
        out: &mut Vec<u8>,
    ) -> Result<Step, Self::Error> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        let received_bytes = self.handshake_bytes + unread;
        let truncated = match (self.stage, self.terms.abrupt_end) {
            (Stage::Ended, _) => return Ok(Step::close(0)),
            // Whoever only looks whether somebody listens here has done nothing wrong.
            (Stage::Handshake, _) if received_bytes == 0 && self.session.is_server() => {
                return Ok(Step::close(0));
            }
            (Stage::Handshake, _) => Some(TlsFault::HandshakeTruncated),
            // The goodbyes that matter are the inner machines'.
            (Stage::Open, _) if self.closing => None,
            (Stage::Open, AbruptEnd::InnerDecides) if self.records.unfinished_bytes() == 0 => None,
            (Stage::Open, _) => Some(TlsFault::Truncated),
        };
        match truncated {
            None => self
                .end_of_plaintext(now, out)
                .map(|next| Step { consumed: 0, next }),
            Some(fault) => {
                self.end(out);
                Err(fault.into())
            }
        }
    }

    fn timeout(&self) -> Option<Instant> {
        match self.stage {
            Stage::Handshake => self.deadline,
            Stage::Open => self.inner.timeout(),
            Stage::Ended => None,
        }
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, Self::Error> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        match self.stage {
            Stage::Ended => Ok(Step::close(0)),
            Stage::Handshake if self.deadline.is_some_and(|deadline| deadline <= now) => {
                self.end(out);
                let limit = self.terms.limits.handshake;
                Err(TlsFault::TooSlow { limit }.into())
            }
            Stage::Handshake => Ok(Step::need_input(0)),
            Stage::Open => {
                let step = self.inner.handle_timeout(now, &mut self.inner_out);
                let next = self.conclude(step, out)?;
                Ok(Step { consumed: 0, next })
            }
        }
    }

    fn send<R>(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        f: impl FnOnce(Self::Reply<'_>) -> R,
    ) -> Result<R, Self::Error> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        self.check_open()?;
        let value = self.inner.send(now, &mut self.inner_out, f);
        self.seal(out)?;
        self.inner_out = Vec::new();
        value.map_err(TlsError::Inner)
    }

    fn close(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, Self::Error> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        match self.stage {
            Stage::Open if self.closing => Ok(Step::need_input(0)),
            Stage::Open => {
                self.closing = true;
                let step = self.inner.close(now, &mut self.inner_out);
                let next = self.conclude(step, out)?;
                Ok(Step { consumed: 0, next })
            }
            Stage::Handshake | Stage::Ended => {
                self.end(out);
                Ok(Step::close(0))
            }
        }
    }
}

/// An application of the layer, as the inner machine's; keeps the number of messages of one call within its bound.
struct Through<'a, A, M> {
    app: &'a mut A,
    messages: usize,
    layer: PhantomData<fn(M)>,
}

impl<M: StreamMachine, A: App<Tls<M>>> App<M> for Through<'_, A, M> {
    fn message(&mut self, message: M::Message<'_>, reply: M::Reply<'_>) -> Flow {
        self.messages += 1;
        match self.app.message(message, reply) {
            Flow::Continue if self.messages < TURN_MESSAGES => Flow::Continue,
            _ => Flow::Pause,
        }
    }
}
