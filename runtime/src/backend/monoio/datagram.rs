//! Datagrams on monoio: receive until there is nothing left, then wait for readiness. No operation of the engine ever holds a
//! datagram, so a dropped receive cannot lose one, and one system call takes many.

use super::stream::engine;
use crate::{
    backend::{Datagram, KernelDatagrams},
    datagram::{Batch, Outbox, SendError},
};
use std::{
    io,
    net::{SocketAddr, UdpSocket},
};

/// A UDP socket of one shard.
#[derive(Debug)]
pub struct MonoioDatagram {
    socket: KernelDatagrams,
    /// The same socket under another descriptor, in the one type of the engine that can wait for readiness.
    readiness: monoio::net::TcpStream,
}

impl MonoioDatagram {
    pub(super) fn adopt(socket: UdpSocket) -> io::Result<Self> {
        let same = socket.try_clone()?;
        Ok(Self {
            socket: KernelDatagrams::new(socket)?,
            readiness: engine(same.into())?,
        })
    }
}

impl Datagram for MonoioDatagram {
    async fn recv(&mut self, batch: &mut Batch) -> io::Result<()> {
        self.socket.give_way().await;
        while !self.socket.receive(batch)? {
            // Not relaxed: the engine must forget the readiness that was used up.
            self.readiness.readable(false).await?;
        }
        Ok(())
    }

    async fn send(&mut self, outbox: &mut Outbox) -> Result<(), SendError> {
        self.socket.give_way().await;
        while !self.socket.send(outbox)? {
            if let Err(error) = self.readiness.writable(false).await {
                return Err(outbox.fail(error));
            }
        }
        Ok(())
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.socket.address()
    }

    fn dropped(&self) -> Option<u64> {
        self.socket.dropped()
    }
}
