//! Batches where the system has no call for them: recvmsg(2) and sendmsg(2), one datagram at a time.
//!
//! [`Slots`] owns one slot, which serves one datagram after the other. A header is made for one call, points into the
//! slot and into a payload whose loan lasts longer than the call, and is gone when the call has returned.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use nix::errno::Errno;

use super::message::Slot;
use super::os::socket::SEND_FLAGS;
use crate::datagram::{Outgoing, Progress, Received};

pub(crate) struct Slots {
    slot: Box<Slot>,
    count: usize,
    /// What ended the last receiving after some datagrams, for the next call: the socket forgets it by telling.
    pending: Option<(RawFd, Errno)>,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            slot: Box::new(Slot::new()),
            count,
            pending: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Appends what was received.
    pub(crate) fn receive<'c>(
        &mut self,
        socket: BorrowedFd<'_>,
        buffers: impl Iterator<Item = &'c mut [u8]>,
        received: &mut Vec<Received>,
    ) -> io::Result<()> {
        match self.pending.take() {
            Some((of, errno)) if of == socket.as_raw_fd() => return Err(errno.into()),
            _ => {}
        }
        let before = received.len();
        for buffer in buffers.take(self.count) {
            match receive_one(socket, &mut self.slot, buffer) {
                Ok(datagram) => received.push(datagram),
                Err(Errno::EAGAIN) => break,
                Err(errno) if received.len() == before => return Err(errno.into()),
                Err(errno) => {
                    self.pending = Some((socket.as_raw_fd(), errno));
                    break;
                }
            }
        }
        Ok(())
    }

    /// Sends as many as there are slots, or fewer.
    pub(crate) fn send<'c>(
        &mut self,
        socket: BorrowedFd<'_>,
        datagrams: &mut impl Iterator<Item = Outgoing<'c>>,
    ) -> Progress {
        let mut sent = 0;
        while sent < self.count {
            let Some(datagram) = datagrams.next() else {
                break;
            };
            match send_one(socket, &mut self.slot, &datagram) {
                Ok(()) => sent += 1,
                Err(Errno::EAGAIN) => break,
                Err(errno) => {
                    let error = Some(errno.into());
                    return Progress { sent, error };
                }
            }
        }
        Progress { sent, error: None }
    }
}

fn receive_one(
    socket: BorrowedFd<'_>,
    slot: &mut Slot,
    buffer: &mut [u8],
) -> nix::Result<Received> {
    let mut header = slot.receive_header(buffer);
    let bytes = repeat(|| {
        // SAFETY: the header points to the slot, which nobody else uses, and to the buffer on loan to this function.
        unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut header, libc::MSG_DONTWAIT) }
    })?;
    Ok(slot.received(&header, bytes))
}

/// A datagram is taken as a whole or not at all, so the number of bytes tells nothing.
fn send_one(socket: BorrowedFd<'_>, slot: &mut Slot, datagram: &Outgoing<'_>) -> nix::Result<()> {
    let header = slot.send_header(datagram);
    repeat(|| {
        // SAFETY: the header points to the slot and to the payload on loan to this function; both are only read.
        unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const header, SEND_FLAGS.bits()) }
    })?;
    Ok(())
}

fn repeat(call: impl FnMut() -> isize) -> nix::Result<usize> {
    let mut call = call;
    loop {
        match Errno::result(call()) {
            Err(Errno::EINTR) => {}
            result => return result.map(|bytes| bytes.try_into().expect("not negative")),
        }
    }
}
