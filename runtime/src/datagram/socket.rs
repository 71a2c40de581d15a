//! The datagrams of one shard: its own socket, or its share of what one socket receives for all.

use super::{Batch, Outbox, SendError, parcel::Letterbox};
use crate::{
    backend::{Backend, Datagram},
    context,
    executor::Event,
    shutdown::Watch,
};
use std::{
    fmt,
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    sync::Arc,
    task::Poll,
};

/// The datagrams of one endpoint, as one shard sees them.
///
/// Dropping it gives up this shard's share: what its senders send goes to the shards that still have theirs, whose own senders stay where
/// they are if datagrams are handed out (with [`ReusePort`](crate::Accept::ReusePort) the kernel spreads all anew). What waited is lost.
/// A shard that has not taken its socket, because its service never asked for it, has it until the service returns.
pub struct DatagramSocket<B: Backend> {
    socket: B::Datagram,
    /// Where the datagrams come in, if the socket is not this shard's alone.
    share: Option<Share>,
}

struct Share {
    letterbox: Arc<Letterbox>,
    /// Whether this shard is the one whose socket receives for all.
    receives: bool,
    /// What was taken out and found no room in the batch.
    rest: Outbox,
    watch: Watch,
}

impl<B: Backend> DatagramSocket<B> {
    /// One shard's own socket.
    pub(crate) fn own(socket: B::Datagram) -> Self {
        Self {
            socket,
            share: None,
        }
    }

    /// A socket to send on, and a letterbox to receive from. `receives` says that this shard fills the letterboxes of all.
    pub(crate) fn shared(socket: B::Datagram, letterbox: Arc<Letterbox>, receives: bool) -> Self {
        let share = Share {
            letterbox,
            receives,
            rest: Outbox::new(),
            watch: Watch::new(context::current(), Event::Left),
        };
        Self {
            socket,
            share: Some(share),
        }
    }

    /// Of [`dropped`](Datagram::dropped), what the kernel dropped for want of room in the socket that this shard receives from; `None`
    /// where it does not tell. If one shard receives for all, it is that one's, and 0 at the others.
    #[must_use]
    pub fn dropped_by_kernel(&self) -> Option<u64> {
        match &self.share {
            // A descriptor of the same socket: what that has dropped counts once.
            Some(share) if !share.receives => self.socket.dropped().map(|_| 0),
            _ => self.socket.dropped(),
        }
    }

    /// Of [`dropped`](Datagram::dropped), what was dropped between the shard that receives for all and this one; `None` if the kernel
    /// spreads datagrams, or there is but one shard.
    #[must_use]
    pub fn dropped_between_shards(&self) -> Option<u64> {
        self.share.as_ref().map(|share| share.letterbox.dropped())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.letterbox.close();
    }
}

impl Share {
    async fn recv(&mut self, batch: &mut Batch) {
        batch.clear();
        let core = self.watch.core().clone();
        core.give_way().await;
        poll_fn(|cx| {
            // Watching first: what is left after the letterbox was seen empty wakes this future.
            self.watch.set(cx);
            while self.pour(batch)
                && let Some(parcel) = self.letterbox.take()
            {
                self.rest = parcel;
            }
            if batch.is_empty() {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
        core.done_at_once();
    }

    /// Moves datagrams over. False if the batch is full.
    fn pour(&mut self, batch: &mut Batch) -> bool {
        let moved = self
            .rest
            .iter()
            .take_while(|(from, bytes)| batch.push(*from, bytes))
            .count();
        self.rest.advance(moved);
        self.rest.is_empty()
    }
}

impl<B: Backend> Datagram for DatagramSocket<B> {
    async fn recv(&mut self, batch: &mut Batch) -> io::Result<()> {
        match &mut self.share {
            None => self.socket.recv(batch).await,
            Some(share) => {
                share.recv(batch).await;
                Ok(())
            }
        }
    }

    fn send(&mut self, outbox: &mut Outbox) -> impl Future<Output = Result<(), SendError>> {
        self.socket.send(outbox)
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.socket.address()
    }

    /// What was dropped on the way to this shard. The sum over all shards is what the endpoint has dropped: what the kernel dropped
    /// where one shard receives for all counts at that one (shard 0).
    fn dropped(&self) -> Option<u64> {
        let by_kernel = self.dropped_by_kernel()?;
        Some(by_kernel + self.dropped_between_shards().unwrap_or(0))
    }
}

impl<B: Backend> fmt::Debug for DatagramSocket<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatagramSocket")
            .field("address", &self.address().ok())
            .field("shared", &self.share.is_some())
            .finish_non_exhaustive()
    }
}
