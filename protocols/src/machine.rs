//! What a protocol machine is: the trait, what it returns, and the one rule about its output.
//!
//! # The drain rule
//!
//! *After every mutation, drain the output before the next one.* Whoever calls [`start`](StreamMachine::start),
//! [`handle`](StreamMachine::handle), [`end_of_input`](StreamMachine::end_of_input),
//! [`handle_timeout`](StreamMachine::handle_timeout), [`send`](StreamMachine::send) or [`close`](StreamMachine::close) takes what stands in `out` (sends it, or hands it to the layer below) and empties it before the
//! next of these calls. So a machine needs no memory for output, and back-pressure is plain: as long as output is pending nothing
//! is read. The machines of this crate assert the rule in debug builds.
//!
//! # Who owns the bytes
//!
//! `input` belongs to the caller. A machine may change in place what it consumes (unmask, decrypt); bytes it does not consume are
//! left as they were, and the caller shows them again, in front of newer ones, with the next call.
//!
//! A layer is the caller of the machine in it: of a record that it has consumed and decoded, it keeps what that machine left.

use std::{error::Error, time::Instant};

/// Output at which a machine stops taking input, in bytes. A reply begun below the bound is finished, so `out` may end up to one
/// reply longer; a layer's up to one call of the machine in it longer, and its own headers.
pub const TURN_OUTPUT_BYTES: usize = 64 * 1024;

/// Messages after which a machine stops taking input, so that one connection cannot keep its shard for itself.
pub const TURN_MESSAGES: usize = 64;

/// A protocol over an ordered stream of bytes, one value per connection. Server and client are the same trait: a client's request
/// is a [`send`](Self::send).
pub trait StreamMachine: Sized {
    /// A message as the application sees it; borrows from `input` or from the machine.
    type Message<'m>;
    /// What an application answers through; writes into `out` through the machine's framing.
    type Reply<'r>;
    /// Why a connection cannot go on.
    type Error: Fault;

    /// The connection is there and nothing has happened on it yet: puts out what does not wait for the peer (a client's hello), and
    /// starts the deadline of a handshake. To be called once, before anything else.
    ///
    /// # Errors
    /// The machine cannot begin.
    fn start(&mut self, _now: Instant, _out: &mut Vec<u8>) -> Result<Step, Self::Error> {
        Ok(Step::need_input(0))
    }

    /// Whether [`send`](Self::send) is possible now: a handshake is done, and the end was not said yet.
    #[must_use]
    fn is_ready(&self) -> bool {
        true
    }

    /// Bytes of messages that have begun to arrive, that the machine has consumed and has not shown to the application yet. Zero for a
    /// machine that leaves what is not whole with its caller.
    #[must_use]
    fn held_bytes(&self) -> usize {
        0
    }

    /// Reads from the front of `input`; stops at its end, when `app` pauses, or at the bound of `out`
    /// ([`TURN_OUTPUT_BYTES`], [`TURN_MESSAGES`]). What is not consumed stays with the caller.
    ///
    /// # Errors
    /// The peer broke the protocol or a limit. `out` may then hold the protocol's own answer (an alert, a status); it is to be sent
    /// before the connection is closed.
    fn handle(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, Self::Error>;

    /// The peer will send nothing more; every byte it sent was consumed, or is the beginning of a message that will never end.
    /// `unread` is the number of such bytes.
    ///
    /// # Errors
    /// The stream ended where the protocol does not allow it.
    fn end_of_input(
        &mut self,
        now: Instant,
        unread: usize,
        out: &mut Vec<u8>,
    ) -> Result<Step, Self::Error>;

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called; `None` for never.
    #[must_use]
    fn timeout(&self) -> Option<Instant>;

    /// The time of [`timeout`](Self::timeout) has come. Calling it early does nothing.
    ///
    /// # Errors
    /// The peer took too long.
    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, Self::Error>;

    /// Output nobody asked for: a push, a client's request. `f` writes through the machine's own framing.
    ///
    /// # Errors
    /// The machine's state allows no output; see [`is_ready`](Self::is_ready). `f` was not called.
    fn send<R>(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        f: impl FnOnce(Self::Reply<'_>) -> R,
    ) -> Result<R, Self::Error>;

    /// This end has nothing more to say: puts out the protocol's goodbye, if it has one. [`Next::Close`] if nothing is to be awaited
    /// from the peer; else its goodbye is, and [`handle`](Self::handle) says when it has come. From then on the application sees no
    /// message. Calling it again does nothing.
    ///
    /// # Errors
    /// The machine's state does not allow a goodbye; the connection is to be closed without.
    fn close(&mut self, _now: Instant, _out: &mut Vec<u8>) -> Result<Step, Self::Error> {
        Ok(Step::close(0))
    }
}

/// What is done with messages.
pub trait App<M: StreamMachine> {
    /// One message has come; an answer, if there is one, goes through `reply`.
    fn message(&mut self, message: M::Message<'_>, reply: M::Reply<'_>) -> Flow;
}

impl<M: StreamMachine, F> App<M> for F
where
    F: for<'m, 'r> FnMut(M::Message<'m>, M::Reply<'r>) -> Flow,
{
    fn message(&mut self, message: M::Message<'_>, reply: M::Reply<'_>) -> Flow {
        self(message, reply)
    }
}

/// Whether the application takes another message at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// It does.
    Continue,
    /// Not before output was drained and others had their turn.
    Pause,
}

/// How far a machine came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Step {
    /// Bytes taken from the front of the input.
    pub consumed: usize,
    /// What it wants next.
    pub next: Next,
}

impl Step {
    /// So much was consumed, and more input is wanted.
    pub const fn need_input(consumed: usize) -> Self {
        Self {
            consumed,
            next: Next::NeedInput,
        }
    }

    /// So much was consumed, and the same call is wanted again.
    pub const fn again(consumed: usize) -> Self {
        Self {
            consumed,
            next: Next::Again,
        }
    }

    /// So much was consumed, and the connection is to be closed.
    pub const fn close(consumed: usize) -> Self {
        Self {
            consumed,
            next: Next::Close,
        }
    }
}

/// What a machine wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More input: what is left over is no whole message, or nothing is left.
    NeedInput,
    /// The same call again with what is left, be it nothing, once output was drained.
    Again,
    /// Close the connection, once output was drained.
    Close,
}

/// A reason to end a connection, and whose it is.
pub trait Fault: Error + Send + 'static {
    /// Who has to change something.
    fn side(&self) -> Side;
}

/// Who is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// The peer broke the protocol or a limit.
    Peer,
    /// The application or this crate.
    Us,
    /// The machine this runs on.
    Host,
}

impl Fault for std::convert::Infallible {
    fn side(&self) -> Side {
        match *self {}
    }
}
