//! Many datagrams with one system call: recvmmsg(2) and sendmmsg(2) on Linux, elsewhere a loop that looks the same.
//!
//! Nothing here waits, and nothing is allocated per call. A [`Batch`] has the room the kernel needs for addresses and
//! control messages, is made once and used for one call after the other. It owns no payload: the buffers to receive
//! into, and the bytes to send, are lent for the one call, and nothing of them is kept when it returns. Have one batch
//! for receiving and another for sending, so that what was received can be looked at while answers go out:
//!
//! ```
//! use shardloop_platform::datagram::{Batch, Outgoing, recv_batch, send_batch};
//! # use shardloop_platform::socket::{DatagramOptions, bind_datagram};
//! # let options = DatagramOptions {
//! #     address: "127.0.0.1:0".parse()?,
//! #     reuse_port: false,
//! #     only_v6: false,
//! #     send_buffer_bytes: None,
//! #     receive_buffer_bytes: None,
//! # };
//! # let socket = bind_datagram(&options)?;
//! let (mut incoming, mut outgoing) = (Batch::new(32), Batch::new(32));
//! let mut buffers = vec![vec![0; 2_048]; incoming.slots()];
//! # let ping = Outgoing { to: Some(socket.local_addr()?), bytes: b"ping" };
//! # assert_eq!(send_batch(&socket, &mut outgoing, [ping, ping]).datagrams, 2);
//! // When the socket is readable: every datagram goes back to where it came from.
//! let received = recv_batch(&socket, &mut incoming, &mut buffers)?;
//! let replies = received.iter().zip(&buffers).map(|(datagram, buffer)| Outgoing {
//!     to: Some(datagram.source),
//!     bytes: &buffer[..datagram.bytes],
//! });
//! let sent = send_batch(&socket, &mut outgoing, replies);
//! # assert_eq!(sent.datagrams, 2);
//! if sent.datagrams < received.len() {
//!     // `sent.error` is why. `None`: the socket takes no more now; the rest can go when it is writable.
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use crate::sys::os;

/// Room for the addresses and control messages of some datagrams, and what the last call received.
pub struct Batch {
    slots: os::datagram::Slots,
    /// With capacity for all slots.
    received: Vec<Received>,
}

/// The most datagrams one call takes (`UIO_MAXIOV` of Linux).
pub const MAX_SLOTS: usize = 1_024;

impl Batch {
    /// A batch for up to `slots` datagrams per call, of some 300 bytes each. 16 to 64 are usual: beyond that a call
    /// costs little compared with its datagrams.
    ///
    /// # Panics
    /// When `slots` is 0 or above [`MAX_SLOTS`].
    #[must_use]
    pub fn new(slots: usize) -> Self {
        assert!(
            (1..=MAX_SLOTS).contains(&slots),
            "a batch has 1 to {MAX_SLOTS} slots, not {slots}"
        );
        Self {
            slots: os::datagram::Slots::new(slots),
            received: Vec::with_capacity(slots),
        }
    }

    /// How many datagrams one call takes at most.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots.len()
    }

    /// What the last [`recv_batch`] received; empty if it failed.
    #[must_use]
    pub fn received(&self) -> &[Received] {
        &self.received
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("slots", &self.slots())
            .field("received", &self.received)
            .finish()
    }
}

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Who sent it; on an IPv6 socket that takes IPv4, too, such an address is mapped (`::ffff:127.0.0.1`). UDP always
    /// knows; on a socket of another family it is the unspecified address with port 0.
    pub source: SocketAddr,
    /// How many bytes of it are in its buffer. 0 is a datagram, too: an empty one.
    pub bytes: usize,
    /// Whether it was longer than its buffer; the rest is lost.
    pub truncated: bool,
    /// How many datagrams the socket had dropped since it exists when this one was queued, if
    /// [`report_drops`](crate::socket::report_drops) was asked for. `None` also while nothing was dropped. It has 32
    /// bits and goes around: subtract with [`u32::wrapping_sub`]. Drops after the last datagram in the queue are
    /// told by the next one, or now by [`socket_memory`](crate::socket::socket_memory).
    pub drops: Option<u32>,
}

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a> {
    /// Where to; `None` for a connected socket, to its peer. On macOS a connected socket refuses an address.
    pub to: Option<SocketAddr>,
    /// The payload; an empty one is sent as an empty datagram.
    pub bytes: &'a [u8],
}

/// How far [`send_batch`] came.
#[must_use = "datagrams beyond the count were not sent"]
#[derive(Debug)]
pub struct Sent {
    /// How many were sent: the first so many.
    pub datagrams: usize,
    /// Why the next one was not. `None`: there was no next one, or the socket takes no more now.
    pub error: Option<io::Error>,
}

/// Receives what is there into `buffers`, the first datagram into the first buffer and so on, at most as many as the
/// batch has slots; never waits. An empty answer: nothing was there (or no buffer was lent). Fewer datagrams than
/// buffers: the socket was empty afterwards, more or less; wait for it to become readable.
///
/// A buffer is used as long as it is, be it a `Vec` or a piece of a larger one: lend `Vec`s with the length you want, not
/// empty ones with capacity.
///
/// Linux: one recvmmsg(2). Elsewhere a recvmsg(2) for each, and one that finds nothing. Interrupted calls are repeated.
///
/// # Errors
/// The operating system's, if it comes before the first datagram. An error after some datagrams does not take them
/// away: it is the answer of the next call for the same socket. UDP hands out here what the network answered to a
/// datagram sent before (`ECONNREFUSED`, on connected sockets), which says nothing about receiving: go on.
pub fn recv_batch<'b, 'm, B: AsMut<[u8]> + ?Sized + 'm>(
    socket: impl AsFd,
    batch: &'b mut Batch,
    buffers: impl IntoIterator<Item = &'m mut B>,
) -> io::Result<&'b [Received]> {
    let Batch { slots, received } = batch;
    received.clear();
    let buffers = buffers.into_iter().map(AsMut::as_mut);
    slots.receive(socket.as_fd(), buffers, received)?;
    Ok(received)
}

/// Sends `datagrams` in order, until one is not taken; never waits and raises no SIGPIPE. There may be more of them
/// than the batch has slots. It may have taken more from the iterator than it sent; so let it walk over what you
/// keep, and take out [`Sent::datagrams`] afterwards.
///
/// Linux: a sendmmsg(2) for each full batch, and one more to learn why a batch ended early. Elsewhere a sendmsg(2) for
/// each. Interrupted calls are repeated.
///
/// A datagram that is too long (`EMSGSIZE`) or that cannot be sent to its address stays the first of the rest, so an
/// error that trying again will not mend is for the caller to step over.
pub fn send_batch<'a>(
    socket: impl AsFd,
    batch: &mut Batch,
    datagrams: impl IntoIterator<Item = Outgoing<'a>>,
) -> Sent {
    let mut datagrams = datagrams.into_iter();
    let mut sent = 0;
    loop {
        let progress = batch.slots.send(socket.as_fd(), &mut datagrams);
        sent += progress.sent;
        let all_went = progress.sent == batch.slots();
        if progress.error.is_some() || !all_went {
            return Sent {
                datagrams: sent,
                error: progress.error,
            };
        }
    }
}

/// How far one round of sending came.
pub(crate) struct Progress {
    /// How many were sent: as many as there are slots, or fewer because the rest was not taken or there is none.
    pub(crate) sent: usize,
    /// Why the next one was not, unless the socket just takes no more now.
    pub(crate) error: Option<io::Error>,
}
