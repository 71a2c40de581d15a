//! Datagrams on monoio: wait for readiness, then receive until there is nothing left. No operation of the engine ever holds a
//! datagram, so a dropped receive cannot lose one, and one system call takes many.

use super::stream::engine;
use crate::{
    backend::{Datagram, bound},
    datagram::{Batch, Outbox, SendError},
};
use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

/// A UDP socket of one shard.
#[derive(Debug)]
pub struct MonoioDatagram {
    socket: UdpSocket,
    /// The same socket under another descriptor, in the one type of the engine that can wait for readiness.
    readiness: monoio::net::TcpStream,
}

impl MonoioDatagram {
    pub(super) fn adopt(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            readiness: engine(socket.try_clone()?.into())?,
            socket,
        })
    }
}

impl Datagram for MonoioDatagram {
    async fn recv(&mut self, batch: &mut Batch) -> io::Result<()> {
        batch.clear();
        loop {
            bound::receive(&self.socket, batch)?;
            if !batch.is_empty() {
                return Ok(());
            }
            // Not relaxed: the engine must forget the readiness that was used up.
            self.readiness.readable(false).await?;
        }
    }

    async fn send(&mut self, outbox: &mut Outbox) -> Result<(), SendError> {
        loop {
            let Some((to, bytes)) = outbox.iter().next() else {
                return Ok(());
            };
            let sent = self.socket.send_to(bytes, to);
            match sent {
                Ok(_) => outbox.advance(1),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let waited = self.readiness.writable(false).await;
                    waited.map_err(|error| SendError { to, error })?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    outbox.advance(1);
                    return Err(SendError { to, error });
                }
            }
        }
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn dropped(&self) -> Option<u64> {
        None
    }
}
