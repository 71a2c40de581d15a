//! What can go wrong with a connection: each fault has one counter and one sentence.

use crate::contract::Counters;
use std::{fmt, io, time::Duration};

/// The end of a connection, and whose it was.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The connection.
    pub(crate) client: u32,
    /// The reply it waited for.
    pub(crate) sequence: u64,
    /// What happened.
    pub(crate) wrong: Wrong,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Wrong {
    /// A reply differs from its request, first at this byte of the payload.
    Content(usize),
    /// The reply to a later request came first.
    Order(u64),
    /// A reply has this many bytes of payload.
    Length(u64),
    /// Nobody asked for this: an answer given twice, or never asked for.
    Unexpected,
    /// The peer ended the connection; `None` for an orderly end.
    Disconnect(Option<io::Error>),
    /// The connection could not be made.
    Connect(io::Error),
    /// A send or receive call failed.
    Io(io::Error),
    /// What came is not what the protocol allows or what was asked for.
    Protocol(String),
    /// A handshake was not done in time.
    Handshake(Duration),
}

impl Wrong {
    /// A failed call on a connection: ended by the peer, or another reason.
    pub(crate) fn from_call(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
        match error.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected => {
                Self::Disconnect(Some(error))
            }
            _ => Self::Io(error),
        }
    }

    /// The counter of this kind of fault.
    pub(crate) fn counter<'c>(&self, counters: &'c mut Counters) -> &'c mut u64 {
        match self {
            Self::Content(_) => &mut counters.content_errors,
            Self::Order(_) => &mut counters.order_errors,
            Self::Length(_) => &mut counters.length_errors,
            Self::Unexpected => &mut counters.unexpected,
            Self::Disconnect(_) => &mut counters.disconnects,
            Self::Connect(_) => &mut counters.connect_errors,
            Self::Io(_) => &mut counters.io_errors,
            Self::Protocol(_) => &mut counters.protocol_errors,
            Self::Handshake(_) => &mut counters.connect_errors,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            client,
            sequence,
            wrong,
        } = self;
        if let Wrong::Connect(error) = wrong {
            return write!(f, "client {client}: could not connect: {error}");
        }
        write!(f, "client {client}, sequence {sequence}: ")?;
        match wrong {
            Wrong::Content(byte) => write!(f, "byte {byte} of the reply differs from the request"),
            Wrong::Order(found) => write!(f, "the reply to sequence {found} came first"),
            Wrong::Length(bytes) => {
                write!(f, "the reply has {bytes} bytes, not those of the request")
            }
            Wrong::Unexpected => write!(f, "a reply nobody asked for"),
            Wrong::Disconnect(None) => write!(f, "the peer closed the connection before the end"),
            Wrong::Disconnect(Some(error)) => write!(f, "the connection ended: {error}"),
            Wrong::Io(error) => write!(f, "a call on the connection failed: {error}"),
            Wrong::Protocol(text) => f.write_str(text),
            Wrong::Handshake(limit) => write!(f, "the handshake was not done within {limit:?}"),
            Wrong::Connect(_) => unreachable!("told above"),
        }
    }
}
