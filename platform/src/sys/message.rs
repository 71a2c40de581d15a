//! A datagram as recvmsg(2) and sendmsg(2) want it described, and what they write back.
//!
//! A [`Slot`] owns the room for an address and for control messages. A header made by [`Slot::receive_header`] or
//! [`Slot::send_header`] points into the slot and into the payload it was given: it may be handed to the kernel while the
//! slot has not moved and was not touched, and while the loan of the payload lasts. Nobody reads or writes through
//! these pointers but the kernel, in a call that is over when it returns; what it wrote is then read from the slot.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

use socket2::SockAddr;

use super::os;
use crate::datagram::{Outgoing, Received};

/// What the kernel needs beside the payload.
pub(crate) struct Slot {
    address: libc::sockaddr_storage,
    control: Control,
    payload: libc::iovec,
}

// SAFETY: the pointer in `payload` is not used by this value, only by the kernel during a call that begins with
// setting it anew; the rest is plain memory.
unsafe impl Send for Slot {}
// SAFETY: a shared reference gives no access to anything but plain memory.
unsafe impl Sync for Slot {}

/// Room for the one control message that is asked for (24 bytes on 64-bit Linux) and some that others may have
/// switched on for the socket, aligned as `cmsghdr` wants it.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// What stands for "no address of IP".
const NOBODY: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

impl Slot {
    pub(crate) fn new() -> Self {
        Self {
            // SAFETY: it is plain numbers, for which zero is a value ("unspecified").
            address: unsafe { MaybeUninit::zeroed().assume_init() },
            control: Control([0; 64]),
            payload: libc::iovec {
                iov_base: ptr::null_mut(),
                iov_len: 0,
            },
        }
    }

    /// A header with which one datagram is received into `buffer`.
    pub(crate) fn receive_header(&mut self, buffer: &mut [u8]) -> libc::msghdr {
        self.payload = libc::iovec {
            iov_base: buffer.as_mut_ptr().cast(),
            iov_len: buffer.len(),
        };
        let mut header = self.header();
        header.msg_name = (&raw mut self.address).cast();
        header.msg_namelen = length(size_of::<libc::sockaddr_storage>());
        header.msg_control = (&raw mut self.control).cast();
        header.msg_controllen = length(size_of::<Control>());
        header
    }

    /// A header with which `datagram` is sent. The kernel only reads what it points to.
    pub(crate) fn send_header(&mut self, datagram: &Outgoing<'_>) -> libc::msghdr {
        self.payload = libc::iovec {
            iov_base: datagram.bytes.as_ptr().cast_mut().cast(),
            iov_len: datagram.bytes.len(),
        };
        let mut header = self.header();
        if let Some(to) = datagram.to {
            header.msg_namelen = self.set_address(to);
            header.msg_name = (&raw mut self.address).cast();
        }
        header
    }

    fn header(&mut self) -> libc::msghdr {
        // SAFETY: it is numbers and pointers, for which zero is a value ("none").
        let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        header.msg_iov = &raw mut self.payload;
        header.msg_iovlen = 1;
        header
    }

    fn set_address(&mut self, address: SocketAddr) -> libc::socklen_t {
        let address = SockAddr::from(address);
        let bytes = usize::try_from(address.len()).expect("an address is short");
        assert!(bytes <= size_of_val(&self.address), "an address fits");
        // SAFETY: `address` has that many bytes, and ours has room for them; they are two values.
        unsafe {
            ptr::copy_nonoverlapping(
                address.as_ptr().cast::<u8>(),
                (&raw mut self.address).cast::<u8>(),
                bytes,
            );
        }
        address.len()
    }

    /// What the kernel wrote: `header` is the one made by [`Slot::receive_header`], after the call, and `bytes` what the
    /// call said about the payload.
    pub(crate) fn received(&self, header: &libc::msghdr, bytes: usize) -> Received {
        Received {
            source: self.source(header).unwrap_or(NOBODY),
            bytes,
            truncated: header.msg_flags & libc::MSG_TRUNC != 0,
            drops: os::datagram::DROPS_MESSAGE.and_then(|kind| self.number(header, kind)),
        }
    }

    /// `None` when the kernel wrote no address, so that ours is that of an earlier call, or one that is not IP.
    fn source(&self, header: &libc::msghdr) -> Option<SocketAddr> {
        let written = usize::try_from(header.msg_namelen).ok()?;
        let address = &raw const self.address;
        match libc::c_int::from(self.address.ss_family) {
            libc::AF_INET if written >= size_of::<libc::sockaddr_in>() => {
                // SAFETY: the family says which structure this is; the storage is large enough and aligned for any.
                let address = unsafe { address.cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(address.sin_port)).into())
            }
            libc::AF_INET6 if written >= size_of::<libc::sockaddr_in6>() => {
                // SAFETY: as above.
                let address = unsafe { address.cast::<libc::sockaddr_in6>().read() };
                let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
                let port = u16::from_be(address.sin6_port);
                let (flow, scope) = (address.sin6_flowinfo, address.sin6_scope_id);
                Some(SocketAddrV6::new(ip, port, flow, scope).into())
            }
            _ => None,
        }
    }

    /// The number in the control message of level SOL_SOCKET and this kind, if there is one.
    fn number(&self, header: &libc::msghdr, kind: libc::c_int) -> Option<u32> {
        // SAFETY: as in `header`.
        let mut answer: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        answer.msg_control = (&raw const self.control).cast_mut().cast();
        answer.msg_controllen = header.msg_controllen.min(length(size_of::<Control>()));
        // SAFETY: the control space is ours, aligned, and as long as the header says at least; it is only read.
        let mut message = unsafe { libc::CMSG_FIRSTHDR(&raw const answer) };
        // SAFETY: a message that is not null lies in the control space, which is initialised.
        while let Some(found) = unsafe { message.as_ref() } {
            if found.cmsg_level == libc::SOL_SOCKET
                && found.cmsg_type == kind
                && found.cmsg_len >= with_header(size_of::<u32>())
            {
                // SAFETY: the message says that four bytes follow its header.
                let number = unsafe { libc::CMSG_DATA(message).cast::<u32>().read_unaligned() };
                return Some(number);
            }
            // SAFETY: `message` is one that the two macros found in the control space of this header.
            message = unsafe { libc::CMSG_NXTHDR(&raw const answer, message) };
        }
        None
    }
}

/// Length of a control message with so many bytes.
fn with_header<T: TryFrom<usize>>(bytes: usize) -> T {
    // SAFETY: the macro only computes with numbers.
    let whole = unsafe { libc::CMSG_LEN(length(bytes)) };
    length(usize::try_from(whole).expect("a short message"))
}

/// Systems disagree about the types of these lengths.
fn length<T: TryFrom<usize>>(bytes: usize) -> T {
    T::try_from(bytes)
        .ok()
        .expect("lengths of headers fit into any of their types")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_come_back_as_they_were() {
        let mut slot = Slot::new();
        for text in ["127.0.0.1:9", "[::1]:65535", "[fe80::1%7]:1", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            let outgoing = Outgoing {
                to: Some(address),
                bytes: b"x",
            };
            let header = slot.send_header(&outgoing);
            assert_eq!(slot.source(&header), Some(address));
        }
    }

    #[test]
    fn an_address_the_kernel_did_not_write_is_nobody() {
        let mut slot = Slot::new();
        slot.set_address("127.0.0.1:9".parse().unwrap());
        let mut header = slot.receive_header(&mut []);
        header.msg_namelen = 0;
        assert_eq!(slot.received(&header, 0).source, NOBODY);
        assert_eq!(Slot::new().received(&header, 0).source, NOBODY);
    }

    #[test]
    fn a_datagram_without_an_address_goes_to_the_peer() {
        let outgoing = Outgoing {
            to: None,
            bytes: b"x",
        };
        let header = Slot::new().send_header(&outgoing);
        assert!(header.msg_name.is_null() && header.msg_namelen == 0);
    }
}
