//! Datagrams on glommio: wait for readiness, then receive until there is nothing left. No operation of the engine ever holds a
//! datagram, so a dropped receive cannot lose one.

use super::readiness::Readiness;
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
pub struct GlommioDatagram {
    socket: UdpSocket,
    to_receive: Readiness,
    to_send: Readiness,
}

impl GlommioDatagram {
    pub(super) fn adopt(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            to_receive: Readiness::to_receive(),
            to_send: Readiness::to_send(),
        })
    }
}

impl Datagram for GlommioDatagram {
    async fn recv(&mut self, batch: &mut Batch) -> io::Result<()> {
        batch.clear();
        loop {
            bound::receive(&self.socket, batch)?;
            if !batch.is_empty() {
                return Ok(());
            }
            self.to_receive.wait(&self.socket).await?;
        }
    }

    async fn send(&mut self, outbox: &mut Outbox) -> Result<(), SendError> {
        loop {
            let Some((to, bytes)) = outbox.iter().next() else {
                return Ok(());
            };
            match self.socket.send_to(bytes, to) {
                Ok(_) => outbox.advance(1),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let waited = self.to_send.wait(&self.socket).await;
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
