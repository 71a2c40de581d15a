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
pub struct DatagramSocket<B: Backend> {
    socket: B::Datagram,
    /// Where the datagrams come in, if the socket is not this shard's alone.
    share: Option<Share>,
}

struct Share {
    letterbox: Arc<Letterbox>,
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

    /// A socket to send on, and a letterbox to receive from.
    pub(crate) fn shared(socket: B::Datagram, letterbox: Arc<Letterbox>) -> Self {
        let share = Share {
            letterbox,
            rest: Outbox::new(),
            watch: Watch::new(context::current(), Event::Left),
        };
        Self {
            socket,
            share: Some(share),
        }
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

    fn dropped(&self) -> Option<u64> {
        match &self.share {
            None => self.socket.dropped(),
            // What the kernel dropped before that, only the receiving socket knows.
            Some(share) => Some(share.letterbox.dropped()),
        }
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
