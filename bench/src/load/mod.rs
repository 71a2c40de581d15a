//! The load generator: a closed loop on one thread over mio. It is not the library it measures; they share only the codecs.
//!
//! A run is data ([`Plan`]): every axis is a value, and there is one loop ([`generator`]).
//!
//! | Module | Job |
//! |---|---|
//! | [`message`], [`exchange`] | requests, and what a reply must be |
//! | [`wire`] | the protocols, as clients |
//! | [`connect`], [`connection`], [`backlog`] | sockets: making them, reading and writing them |
//! | [`datagrams`] | the same over UDP, where replies may not come |
//! | [`opening`], [`timeline`], [`clock`] | staggered start; warm-up, window, drain |
//! | [`fault`], [`tally`], [`process_use`], [`report`] | what is counted and told |

pub(crate) mod report;

mod backlog;
mod clock;
mod connect;
mod connection;
mod datagrams;
mod exchange;
mod fault;
mod generator;
mod message;
mod opening;
mod process_use;
mod tally;
mod timeline;
mod wire;

#[cfg(test)]
mod tests;

use crate::contract::{LoadReport, Protocol};
use mio::{Events, Poll};
use shardloop_protocols::{http1, length::Length, tls::Tls, websocket::WebSocket};
use std::{io, net::SocketAddr, time::Duration};

/// One run, everything its result depends on.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) protocol: Protocol,
    pub(crate) connect: SocketAddr,
    pub(crate) clients: usize,
    pub(crate) window_per_client: usize,
    pub(crate) payload_bytes: usize,
    pub(crate) stop: Stop,
    /// Zero: the window begins with the first request.
    pub(crate) warmup: Duration,
    pub(crate) verify: Verify,
    pub(crate) server_pid: Option<u32>,
    /// The authority that the server's certificate must come from, in PEM, where there is one.
    pub(crate) ca_pem: Option<String>,
    /// For all connections together.
    pub(crate) connect_timeout: Duration,
    pub(crate) drain_timeout: Duration,
    /// Over datagrams: how long a reply is waited for.
    pub(crate) udp_timeout: Duration,
    /// Over datagrams: the share of requests that may be lost.
    pub(crate) max_loss: f64,
    /// Whether the window's begin and end are printed.
    pub(crate) announce: bool,
}

/// What ends the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Time.
    After(Duration),
    /// So many round trips of each client, or the longest time.
    Messages { per_client: u64, longest: Duration },
}

/// How replies are checked. Length, header and order always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Verify {
    /// Every body.
    Full,
    /// The body of every 16th reply.
    Sampled,
    /// No body.
    Header,
}

impl Verify {
    /// Replies per body compared by [`Verify::Sampled`].
    const SAMPLED_EVERY: u64 = 16;

    pub(crate) fn includes_body(self, sequence: u64) -> bool {
        match self {
            Self::Full => true,
            Self::Sampled => sequence.is_multiple_of(Self::SAMPLED_EVERY),
            Self::Header => false,
        }
    }

    /// Its name in reports and on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Sampled => "sampled",
            Self::Header => "header",
        }
    }
}

/// Runs `plan` to its end, which its timeouts bound.
///
/// # Errors
/// The poll itself failed, descriptors ran out, or the authority's certificate is none; faults of connections are counted in the report instead.
pub(crate) fn run(plan: &Plan) -> io::Result<LoadReport> {
    match plan.protocol {
        Protocol::Tcp => generator::run::<Length>(plan),
        Protocol::Echo => generator::run::<wire::Pieces>(plan),
        Protocol::Udp => datagrams::run(plan),
        Protocol::Tls => generator::run::<Tls<Length>>(plan),
        Protocol::Ws => generator::run::<WebSocket>(plan),
        Protocol::Wss => generator::run::<Tls<WebSocket>>(plan),
        Protocol::Http => generator::run::<http1::Client>(plan),
        Protocol::Https => generator::run::<Tls<http1::Client>>(plan),
    }
}

/// Descriptors a run of so many clients needs: a socket each, the poll, standard streams, files under /proc.
pub(crate) fn descriptors_needed(clients: usize) -> u64 {
    clients as u64 + 32
}

/// Waits for events. A signal ends the wait without any.
fn wait(poll: &mut Poll, events: &mut Events, at_most: Duration) -> io::Result<()> {
    match poll.poll(events, Some(at_most)) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        result => result,
    }
}

/// A client's number in its messages.
fn client_id(index: usize) -> u32 {
    u32::try_from(index).expect("at most 60,000 clients")
}
