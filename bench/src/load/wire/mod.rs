//! What the generator needs of a protocol, and the protocols it speaks.
//!
//! A protocol is a [`StreamMachine`] of the workspace, driven as a client: the codecs are all that the generator shares with what
//! it measures.

mod http;
mod length;
mod pieces;
mod tls;
mod websocket;

pub(super) use pieces::Pieces;

use super::{Plan, fault::Wrong};
use crate::contract::TlsSession;
use shardloop_protocols::{StreamMachine, tls::ClientConfig};
use std::{io, net::SocketAddr};

/// What the clients of one run have in common.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// All messages have as many bytes; a longer reply is refused.
    payload_bytes: usize,
    /// Requests outstanding at most.
    window: usize,
    /// The server.
    server: SocketAddr,
    /// How the server's certificate is checked; `None` where it has none.
    tls: Option<ClientConfig>,
}

impl Setup {
    /// Of a plan.
    pub(crate) fn new(plan: &Plan) -> io::Result<Self> {
        let wanted = plan.protocol.is_encrypted();
        let tls = wanted.then(|| tls::config(plan.connect, plan.ca_pem.as_deref()));
        Ok(Self {
            payload_bytes: plan.payload_bytes,
            window: plan.window_per_client,
            server: plan.connect,
            tls: tls.transpose()?,
        })
    }
}

/// A protocol as the generator drives it: one machine per connection.
pub(crate) trait Wire: StreamMachine {
    /// A client that has just been connected.
    fn client(setup: &Setup) -> io::Result<Self>;

    /// Bytes of one message on the stream, where all messages have as many and the machine leaves the beginning of one with its
    /// caller. `None` where it takes what has come, and leaves less than a header.
    fn frame_bytes(payload_bytes: usize) -> Option<usize>;

    /// The payload of a message, or what is wrong with it before that is looked at.
    fn payload<'m>(message: Self::Message<'m>) -> Result<&'m [u8], Wrong>;

    /// Appends one request.
    fn request(reply: Self::Reply<'_>, payload: &[u8]);

    /// A machine's error as what is wrong with a reply.
    fn wrong(error: Self::Error) -> Wrong;

    /// What its handshake agreed on, if it is encrypted.
    fn session(&self) -> Option<TlsSession> {
        None
    }
}
