//! What a protocol machine over datagrams is.
//!
//! One value per *socket*, whoever the peers are. The verbs are those of a machine that may send whenever it likes, not only when
//! something came: [`handle`](DatagramMachine::handle) and [`handle_timeout`](DatagramMachine::handle_timeout) change it,
//! [`poll_transmit`](DatagramMachine::poll_transmit) takes out one datagram after the other, [`timeout`](DatagramMachine::timeout)
//! says when it wants to be told of the time. The drain rule of [`machine`](crate::machine) holds here, too: after every change, take
//! out everything before the next.
//!
//! There is no error of a datagram: one that is broken is as good as lost, and a machine counts it.

use crate::machine::Fault;
use std::{net::SocketAddr, time::Instant};

/// A protocol over datagrams, one value per socket.
pub trait DatagramMachine: Sized {
    /// A message as the application sees it; borrows from the datagram or from the machine.
    type Message<'m>;
    /// What an application answers through.
    type Reply<'r>;
    /// Why nothing can be sent to a peer.
    type Error: Fault;

    /// A datagram has come.
    fn handle(&mut self, now: Instant, datagram: Datagram<'_>, app: &mut impl DatagramApp<Self>);

    /// The next datagram to be sent, appended to `out`; `None` if there is none, and then nothing was appended.
    #[must_use]
    fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit>;

    /// When [`handle_timeout`](Self::handle_timeout) wants to be called; `None` for never.
    #[must_use]
    fn timeout(&self) -> Option<Instant>;

    /// The time of [`timeout`](Self::timeout) has come. Calling it early does nothing.
    fn handle_timeout(&mut self, now: Instant);

    /// Output nobody asked for: a push, a client's request.
    ///
    /// # Errors
    /// The machine's state allows no output to that peer.
    fn send<R>(
        &mut self,
        now: Instant,
        to: SocketAddr,
        f: impl FnOnce(Self::Reply<'_>) -> R,
    ) -> Result<R, Self::Error>;
}

/// A datagram that has come.
#[derive(Debug, PartialEq, Eq)]
pub struct Datagram<'d> {
    /// Who sent it, or says so.
    pub from: SocketAddr,
    /// What it says; may be changed in place.
    pub bytes: &'d mut [u8],
    /// Its end is missing, because there was no room for it.
    pub truncated: bool,
}

/// Where a datagram is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Transmit {
    /// To whom.
    pub to: SocketAddr,
}

/// What is done with messages that come in datagrams.
pub trait DatagramApp<M: DatagramMachine> {
    /// One message has come; an answer, if there is one, goes through `reply`.
    fn message(&mut self, from: SocketAddr, message: M::Message<'_>, reply: M::Reply<'_>);
}

impl<M: DatagramMachine, F> DatagramApp<M> for F
where
    F: for<'m, 'r> FnMut(SocketAddr, M::Message<'m>, M::Reply<'r>),
{
    fn message(&mut self, from: SocketAddr, message: M::Message<'_>, reply: M::Reply<'_>) {
        self(from, message, reply);
    }
}
