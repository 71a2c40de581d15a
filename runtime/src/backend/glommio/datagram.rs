//! Datagrams on glommio: receive until there is nothing left, then wait for readiness. No operation of the engine ever holds a
//! datagram, so a dropped receive cannot lose one, and one system call takes many.

use super::readiness::Readiness;
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
pub struct GlommioDatagram {
    socket: KernelDatagrams,
    to_receive: Readiness,
    to_send: Readiness,
}

impl GlommioDatagram {
    pub(super) fn adopt(socket: UdpSocket) -> io::Result<Self> {
        Ok(Self {
            socket: KernelDatagrams::new(socket)?,
            to_receive: Readiness::to_receive(),
            to_send: Readiness::to_send(),
        })
    }
}

impl Datagram for GlommioDatagram {
    async fn recv(&mut self, batch: &mut Batch) -> io::Result<()> {
        self.socket.give_way().await;
        while !self.socket.receive(batch)? {
            self.to_receive.wait(&self.socket).await?;
        }
        Ok(())
    }

    async fn send(&mut self, outbox: &mut Outbox) -> Result<(), SendError> {
        self.socket.give_way().await;
        while !self.socket.send(outbox)? {
            if let Err(error) = self.to_send.wait(&self.socket).await {
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
