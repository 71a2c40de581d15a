//! Connections as a shard has them.
//!
//! No receive holds memory while it waits: a lease is taken from the shard's pool when there is something to put into it.

use super::{
    connection::Half,
    net::{Net, Place, Waiter},
};
use crate::{
    address::Address,
    backend::{Bytes, Halves, RecvHalf, SendHalf, bytes},
    context,
    executor::Open,
    lease::{Class, Lease, Sizing},
    options::StreamOptions,
};
use std::{
    fmt,
    future::poll_fn,
    io::{self, ErrorKind},
    rc::Rc,
    task::Poll,
};

/// A connection that no shard has adopted yet. Dropping it closes the connection.
pub struct SimSocket {
    net: Net,
    connection: u64,
    is_adopted: bool,
}

impl SimSocket {
    pub(super) fn new(net: Net, connection: u64) -> Self {
        Self {
            net,
            connection,
            is_adopted: false,
        }
    }
}

impl Drop for SimSocket {
    fn drop(&mut self) {
        if !self.is_adopted {
            self.net.with(|state| state.close(self.connection, 1));
        }
    }
}

impl fmt::Debug for SimSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimSocket").field(&self.connection).finish()
    }
}

/// A connection of one shard. The receiving half is closed first, so that the closing of the other sees whether all was received.
pub type SimStream = Halves<SimRecv, SimSend>;

impl SimStream {
    pub(super) fn adopt(mut socket: SimSocket, options: &StreamOptions) -> io::Result<Self> {
        let place = Place::current().ok_or(ErrorKind::Unsupported)?;
        let (net, id) = (socket.net.clone(), socket.connection);
        net.with(|state| match state.connections.get_mut(&id) {
            Some(connection) => connection.adopt(1, options),
            None => Err(ErrorKind::NotConnected.into()),
        })?;
        socket.is_adopted = true;
        Ok(Self::on(&place, id, 1))
    }

    fn on(place: &Place, connection: u64, side: usize) -> Self {
        let open = Open::new(context::current());
        let end = |half| End {
            net: place.net.clone(),
            shard: place.shard,
            connection,
            side,
            half,
        };
        let recv = SimRecv {
            end: end(Half::Recv),
            open: open.clone(),
            sizing: Sizing::default(),
        };
        let send = SimSend {
            end: end(Half::Send),
            open,
            is_midway: false,
        };
        Self::new(recv, send)
    }

    pub(super) async fn connect(address: &Address, options: &StreamOptions) -> io::Result<Self> {
        /// Gives up when it is dropped.
        struct Attempt<'a>(&'a Net, u64);
        impl Drop for Attempt<'_> {
            fn drop(&mut self) {
                self.0.with(|state| state.give_up(self.1));
            }
        }
        let place = Place::current().ok_or(ErrorKind::Unsupported)?;
        let begun = place
            .net
            .with(|state| state.begin(place.host, address, options));
        let attempt = Attempt(&place.net, begun?);
        let connection = poll_fn(|cx| {
            let waiter = Waiter::new(place.shard, cx);
            place.net.with(|state| state.attempted(attempt.1, waiter))
        });
        Ok(Self::on(&place, connection.await?, 0))
    }
}

/// What a half knows of its end of a connection. Dropping it closes that half.
struct End {
    net: Net,
    shard: usize,
    connection: u64,
    side: usize,
    half: Half,
}

impl Drop for End {
    fn drop(&mut self) {
        self.net
            .with(|state| state.close_half(self.connection, self.side, self.half));
    }
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End")
            .field("connection", &self.connection)
            .field("side", &self.side)
            .field("half", &self.half)
            .finish_non_exhaustive()
    }
}

/// The receiving half.
pub struct SimRecv {
    end: End,
    open: Rc<Open>,
    sizing: Sizing,
}

impl RecvHalf for SimRecv {
    type Lease = Lease;

    async fn recv(&mut self) -> io::Result<Lease> {
        let End {
            net,
            shard,
            connection,
            side,
            ..
        } = &self.end;
        let core = self.open.core();
        core.give_way().await;
        let pool = core.pool();
        let class = self.sizing.class();
        let received = poll_fn(|cx| {
            let waiter = Waiter::new(*shard, cx);
            net.with(|state| state.read(*connection, *side, || pool.take(class), waiter))
        });
        let received = received.await?;
        core.done_at_once();
        core.want_sweep();
        let Some((vacant, count)) = received else {
            return Ok(pool.take(Class::SMALLEST).filled(0));
        };
        self.sizing.learn(vacant.class(), count);
        Ok(vacant.filled(count))
    }
}

impl fmt::Debug for SimRecv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimRecv")
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// The sending half.
pub struct SimSend {
    end: End,
    open: Rc<Open>,
    /// A send is under way, was dropped under way, or has failed.
    is_midway: bool,
}

impl fmt::Debug for SimSend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimSend")
            .field("end", &self.end)
            .field("is_midway", &self.is_midway)
            .finish_non_exhaustive()
    }
}

impl SendHalf for SimSend {
    async fn send_all<B: Bytes>(&mut self, bytes: B) -> (io::Result<()>, B) {
        if self.is_midway {
            return (Err(bytes::dropped_midway()), bytes);
        }
        let core = self.open.core();
        core.give_way().await;
        core.done_at_once();
        self.is_midway = true;
        let end = &self.end;
        let mut sent = 0;
        let result = poll_fn(|cx| {
            while sent < bytes.as_slice().len() {
                let rest = &bytes.as_slice()[sent..];
                let waiter = Waiter::new(end.shard, cx);
                let written = end
                    .net
                    .with(|state| state.write(end.connection, end.side, rest, waiter));
                match written {
                    Poll::Ready(Ok(count)) => sent += count,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(Ok(()))
        });
        let result = result.await;
        // After an error nobody knows how much of it the peer has.
        self.is_midway = result.is_err();
        (result, bytes)
    }

    async fn shutdown_write(&mut self) -> io::Result<()> {
        let End {
            net,
            connection,
            side,
            ..
        } = &self.end;
        net.with(|state| state.end(*connection, *side))
    }
}
