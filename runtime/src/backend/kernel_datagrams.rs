//! A UDP socket of the operating system, which never waits: the same for every engine that uses such.

use crate::{
    context,
    datagram::{Batch, Outbox, SendError, Slot},
    executor::Core,
};
use shardloop_platform::{
    datagram::{self, MAX_SLOTS, Outgoing},
    socket::socket_memory,
};
use std::{
    cell::Cell,
    future::Future,
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    rc::Rc,
};

/// Datagrams sent with one system call.
const SENT_AT_ONCE: usize = 32;

/// A nonblocking UDP socket, and what its batched system calls need.
#[derive(Debug)]
pub(crate) struct KernelDatagrams {
    socket: UdpSocket,
    core: Rc<Core>,
    incoming: datagram::Batch,
    outgoing: datagram::Batch,
    /// The kernel's own counter when it was last asked, which has 32 bits, and what it has counted all in all.
    dropped: Cell<(u32, u64)>,
}

impl KernelDatagrams {
    pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            core: context::current(),
            incoming: datagram::Batch::new(1),
            outgoing: datagram::Batch::new(SENT_AT_ONCE),
            dropped: Cell::default(),
        })
    }

    /// To be awaited before receiving or sending: what never waits is to give way, too.
    pub(crate) fn give_way(&self) -> impl Future<Output = ()> {
        self.core.give_way()
    }

    /// Fills `batch` with what is there, after forgetting what it held. False if nothing is.
    pub(crate) fn receive(&mut self, batch: &mut Batch) -> io::Result<bool> {
        batch.clear();
        let wanted = batch.capacity().min(MAX_SLOTS);
        if self.incoming.slots() < wanted {
            self.incoming = datagram::Batch::new(wanted);
        }
        let (pieces, slots) = batch.parts();
        let received = datagram::recv_batch(&self.socket, &mut self.incoming, pieces)?;
        slots.extend(received.iter().map(|datagram| Slot {
            from: datagram.source,
            bytes: datagram.bytes,
            truncated: datagram.truncated,
        }));
        self.core.done_at_once();
        Ok(!batch.is_empty())
    }

    /// Sends what the socket takes now. False if that is not all.
    pub(crate) fn send(&mut self, outbox: &mut Outbox) -> Result<bool, SendError> {
        let outgoing = outbox.iter().map(|(to, bytes)| Outgoing {
            to: Some(to),
            bytes,
        });
        let sent = datagram::send_batch(&self.socket, &mut self.outgoing, outgoing);
        outbox.advance(sent.datagrams);
        self.core.done_at_once();
        match sent.error {
            Some(error) => Err(outbox.fail(error)),
            None => Ok(outbox.is_empty()),
        }
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Asks the kernel. Who never asks within 2^32 drops misses a round of its counter.
    pub(crate) fn dropped(&self) -> Option<u64> {
        let now = socket_memory(&self.socket).ok()?.drops?;
        let (before, total) = self.dropped.get();
        let total = total + u64::from(now.wrapping_sub(before));
        self.dropped.set((now, total));
        Some(total)
    }
}

/// To wait for its readiness.
impl AsFd for KernelDatagrams {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
