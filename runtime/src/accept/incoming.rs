//! The connections a shard is given.

use super::Inbox;
use crate::{
    address::Address,
    backend::Backend,
    context,
    executor::{Core, Event},
    options::StreamOptions,
    shutdown::Watch,
    wake::Phase,
};
use std::{
    fmt,
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

/// The connections a shard is given to serve from one endpoint.
pub struct Incoming<B: Backend> {
    inbox: Arc<Inbox<B::Socket>>,
    options: StreamOptions,
    watch: Watch,
}

impl<B: Backend> Incoming<B> {
    pub(crate) fn new(inbox: Arc<Inbox<B::Socket>>, options: StreamOptions) -> Self {
        Self {
            inbox,
            options,
            watch: Watch::new(context::current(), Event::Left),
        }
    }

    /// The next connection and its peer's address; `None` once the shard is asked to end and everything it was given was taken.
    /// Dropping the future loses no connection. A connection that its peer reset before it could be served is counted as an accept
    /// error and passed over.
    pub async fn next(&mut self) -> Option<(B::Stream, Address)> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(B::Stream, Address)>> {
        if self.core().gives_way(cx) {
            return Poll::Pending;
        }
        // Watching first: what is left after the queue was seen empty wakes this future.
        self.watch.set(cx);
        while let Some((socket, peer)) = self.inbox.take() {
            match B::adopt_stream(socket, &self.options) {
                Ok(stream) => {
                    self.core().done_at_once();
                    return Poll::Ready(Some((stream, peer)));
                }
                Err(_) => self.core().counters().accept_errors.add(1),
            }
        }
        if self.core().remote().phase() > Phase::Running {
            return Poll::Ready(None);
        }
        Poll::Pending
    }

    fn core(&self) -> &Core {
        self.watch.core()
    }
}

impl<B: Backend> fmt::Debug for Incoming<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("waiting", &self.inbox.waiting())
            .finish_non_exhaustive()
    }
}
