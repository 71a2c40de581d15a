//! The pool's UDP socket as a `Datagram`: what lets its tasks run the very function that shards run.
//!
//! It is *one* socket, which a task per worker thread serves, as the pool has one listener: whoever is awake takes what is there, and
//! any thread may answer any client, and replies to one client may overtake each other. A socket per task (SO_REUSEPORT) would have the kernel deal clients out to threads, which is what
//! shards do; then there would be no shared pool to compare them with. Datagrams are received and sent with the same batched calls as
//! on a shard, after tokio's readiness, straight into the driver's batch.

use shardloop::{Batch, Datagram, Outbox, datagram::SendError};
use shardloop_platform::{
    datagram::{self, Outgoing, recv_batch, send_batch},
    socket::socket_memory,
};
use std::{io, net::SocketAddr, sync::Arc};
use tokio::{io::Interest, net::UdpSocket};

/// Datagrams of one system call, as on a shard.
const AT_ONCE: usize = 32;

/// The socket as one task has it.
#[derive(Debug)]
pub(super) struct PoolDatagrams {
    socket: Arc<UdpSocket>,
    incoming: datagram::Batch,
    outgoing: datagram::Batch,
}

impl PoolDatagrams {
    pub(super) fn new(socket: Arc<UdpSocket>) -> Self {
        Self {
            socket,
            incoming: datagram::Batch::new(AT_ONCE),
            outgoing: datagram::Batch::new(AT_ONCE),
        }
    }

    /// Fills the batch with what is there; nothing is `WouldBlock`, which tells tokio that the readiness is used up.
    fn receive(&mut self, batch: &mut Batch) -> io::Result<()> {
        let Self {
            socket, incoming, ..
        } = self;
        socket.try_io(Interest::READABLE, || {
            batch.fill(|pieces| {
                let came = recv_batch(&**socket, incoming, pieces)?;
                Ok::<_, io::Error>(
                    came.iter()
                        .map(|one| (one.source, one.bytes, one.truncated)),
                )
            })?;
            if batch.is_empty() {
                Err(io::ErrorKind::WouldBlock.into())
            } else {
                Ok(())
            }
        })
    }

    /// Sends what the socket takes. `WouldBlock` if that is not all.
    fn transmit(&mut self, outbox: &mut Outbox) -> io::Result<()> {
        let Self {
            socket, outgoing, ..
        } = self;
        socket.try_io(Interest::WRITABLE, || {
            let datagrams = outbox.iter().map(|(to, bytes)| Outgoing {
                to: Some(to),
                bytes,
            });
            let sent = send_batch(&**socket, outgoing, datagrams);
            outbox.advance(sent.datagrams);
            match sent.error {
                Some(error) => Err(error),
                None if outbox.is_empty() => Ok(()),
                None => Err(io::ErrorKind::WouldBlock.into()),
            }
        })
    }
}

impl Datagram for PoolDatagrams {
    async fn recv(&mut self, batch: &mut Batch) -> io::Result<()> {
        loop {
            match self.receive(batch) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.socket.readable().await?;
                }
                result => return result,
            }
        }
    }

    async fn send(&mut self, outbox: &mut Outbox) -> Result<(), SendError> {
        loop {
            let failed = match self.transmit(outbox) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match self.socket.writable().await {
                        Ok(()) => continue,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            let to = outbox.iter().next().map(|(to, _)| to);
            outbox.advance(1);
            return Err(SendError {
                to: to.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0))),
                error: failed,
            });
        }
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn dropped(&self) -> Option<u64> {
        dropped(&self.socket)
    }
}

/// What the kernel dropped at the socket since it exists.
pub(super) fn dropped(socket: &UdpSocket) -> Option<u64> {
    socket_memory(socket).ok()?.drops.map(u64::from)
}
