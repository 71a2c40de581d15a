//! Many datagrams per system call: recvmmsg(2), sendmmsg(2).
//!
//! [`Slots`] owns a slot and a header per datagram. Headers are made anew in every call and point into the slots and
//! into payloads whose loan lasts longer than the call; afterwards they are left as they are and never used again.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use nix::errno::Errno;

use super::socket::SEND_FLAGS;
use crate::datagram::{Outgoing, Progress, Received};
use crate::sys::message::Slot;

/// The control message that SO_RXQ_OVFL switches on.
pub(crate) const DROPS_MESSAGE: Option<libc::c_int> = Some(libc::SO_RXQ_OVFL);

pub(crate) struct Slots {
    /// Boxed, so that they stay where the headers point to.
    slots: Box<[Slot]>,
    /// With capacity for all slots.
    headers: Vec<libc::mmsghdr>,
}

// SAFETY: the pointers in `headers` are used in the call that makes them, and by nobody in between two calls.
unsafe impl Send for Slots {}
// SAFETY: a shared reference reads nothing but the number of slots.
unsafe impl Sync for Slots {}

impl Slots {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            slots: (0..count).map(|_| Slot::new()).collect(),
            headers: Vec::with_capacity(count),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Appends what was received. All `buffers` are on loan at the same time, and for the whole call.
    pub(crate) fn receive<'c>(
        &mut self,
        socket: BorrowedFd<'_>,
        buffers: impl Iterator<Item = &'c mut [u8]>,
        received: &mut Vec<Received>,
    ) -> io::Result<()> {
        self.headers.clear();
        let slots = self.slots.iter_mut().zip(buffers);
        self.headers
            .extend(slots.map(|(slot, buffer)| one_of_many(slot.receive_header(buffer))));
        let count = match receive_many(socket, &mut self.headers) {
            Err(Errno::EAGAIN) => 0,
            result => result?,
        };
        let filled = self.slots.iter().zip(&self.headers).take(count);
        received.extend(filled.map(|(slot, header)| {
            let bytes = usize::try_from(header.msg_len).expect("a datagram has at most 64 KiB");
            slot.received(&header.msg_hdr, bytes)
        }));
        Ok(())
    }

    /// Sends as many as there are slots, or fewer. All payloads are on loan for the whole call.
    pub(crate) fn send<'c>(
        &mut self,
        socket: BorrowedFd<'_>,
        datagrams: &mut impl Iterator<Item = Outgoing<'c>>,
    ) -> Progress {
        self.headers.clear();
        // The slot is asked for first: a datagram for which there is none stays in the iterator.
        let slots = self.slots.iter_mut().zip(datagrams);
        self.headers
            .extend(slots.map(|(slot, datagram)| one_of_many(slot.send_header(&datagram))));
        let mut sent = 0;
        while sent < self.headers.len() {
            match send_many(socket, &mut self.headers[sent..]) {
                // The kernel keeps the error that ended it to itself; sending the next one tells.
                Ok(count) if count > 0 => sent += count,
                Ok(_) | Err(Errno::EAGAIN) => break,
                Err(errno) => {
                    let error = Some(errno.into());
                    return Progress { sent, error };
                }
            }
        }
        Progress { sent, error: None }
    }
}

fn one_of_many(header: libc::msghdr) -> libc::mmsghdr {
    libc::mmsghdr {
        msg_hdr: header,
        msg_len: 0,
    }
}

/// How many of the headers were filled. They must have been made in this call: see the head of this file.
fn receive_many(socket: BorrowedFd<'_>, headers: &mut [libc::mmsghdr]) -> nix::Result<usize> {
    let count = count(headers);
    if count == 0 {
        return Ok(0);
    }
    // SAFETY: `headers` has `count` of them, and each points to a slot nobody else uses and to a payload on loan; no
    // time limit is given.
    repeat(|| unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count,
            libc::MSG_DONTWAIT as _,
            ptr::null_mut(),
        )
    })
}

/// How many of the headers were sent. They must have been made in this call: see the head of this file.
fn send_many(socket: BorrowedFd<'_>, headers: &mut [libc::mmsghdr]) -> nix::Result<usize> {
    let count = count(headers);
    // SAFETY: as in `receive_many`; the kernel reads the payloads and writes into the headers only.
    repeat(|| unsafe {
        libc::sendmmsg(
            socket.as_raw_fd(),
            headers.as_mut_ptr(),
            count,
            SEND_FLAGS.bits() as _,
        )
    })
}

fn count(headers: &[libc::mmsghdr]) -> libc::c_uint {
    headers.len().try_into().expect("a batch is small")
}

fn repeat(call: impl FnMut() -> libc::c_int) -> nix::Result<usize> {
    let mut call = call;
    loop {
        match Errno::result(call()) {
            Err(Errno::EINTR) => {}
            result => return result.map(|count| count.try_into().expect("not negative")),
        }
    }
}
