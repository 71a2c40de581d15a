//! UDP sockets, groups of them on one port, and what a socket has dropped.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{BindError, buffer_size};
use crate::Reading;
use crate::sys::os;

/// Where and how to receive datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramOptions {
    /// The address; port 0 lets the kernel pick one.
    pub address: SocketAddr,
    /// SO_REUSEPORT: others of the same user may bind this address too, and on Linux (3.9) the kernel spreads
    /// datagrams over all of them, by a hash of source and destination: those of one client stay with one socket
    /// for as long as the group stays as it is. [`bind_datagram_group`] sets it by itself where it is needed.
    pub reuse_port: bool,
    /// IPV6_V6ONLY: an IPv6 socket does not take IPv4 datagrams. Ignored for IPv4 addresses.
    pub only_v6: bool,
    /// SO_SNDBUF in bytes; `None` leaves it at the host's default (`net.core.wmem_default`): the buffers of UDP do not
    /// grow by themselves. Linux caps it at `net.core.wmem_max` without saying so, see [`granted_datagram`]; macOS
    /// refuses more than `kern.ipc.maxsockbuf` (ENOBUFS).
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF in bytes; `None` leaves it at the host's default (`net.core.rmem_default`). Linux caps it at
    /// `net.core.rmem_max`, and charges a datagram with more than its payload: with some 2.3 KiB for 1 KiB.
    pub receive_buffer_bytes: Option<usize>,
}

/// What the kernel granted a UDP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramGranted {
    /// SO_SNDBUF as reported, in bytes. Linux reports twice what was asked for, to cover its bookkeeping
    /// (socket(7)): asking for 65,536 is granted with 131,072, and with twice `net.core.wmem_max` at most.
    pub send_buffer_bytes: usize,
    /// SO_RCVBUF as reported, in bytes; doubled on Linux likewise.
    pub receive_buffer_bytes: usize,
}

/// Reads back what a socket has: two getsockopt(2).
///
/// # Errors
/// The operating system's.
pub fn granted_datagram(socket: impl AsFd) -> io::Result<DatagramGranted> {
    let socket = SockRef::from(&socket);
    Ok(DatagramGranted {
        send_buffer_bytes: socket.send_buffer_size()?,
        receive_buffer_bytes: socket.recv_buffer_size()?,
    })
}

/// One UDP socket: nonblocking, closed on exec. Without SO_REUSEADDR, which for UDP would let a second server take
/// the port over. The buffers are set before the address, so that no datagram meets the smaller ones.
///
/// # Errors
/// [`BindError`].
pub fn bind_datagram(options: &DatagramOptions) -> Result<UdpSocket, BindError> {
    let socket = bound(options, options.reuse_port);
    socket
        .map(UdpSocket::from)
        .map_err(|error| BindError::new(options.address, &error))
}

/// `count` UDP sockets on one address, which the kernel spreads datagrams over (Linux 3.9; macOS gives them all to
/// one socket). Port 0 is resolved once: all have the same port.
///
/// The first is bound *without* SO_REUSEPORT and gets the option afterwards, as [`super::listen_group`] does and for
/// the same reason: somebody who has the port already, even with SO_REUSEPORT, is an error and not a silent sharing
/// of the datagrams. With `count` 1 SO_REUSEPORT is set only if `options.reuse_port` says so. Datagrams that arrive
/// before the last socket is bound are with those that were there, so read from all of them.
///
/// # Errors
/// [`BindError`].
///
/// # Panics
/// When `count` is 0.
pub fn bind_datagram_group(
    options: &DatagramOptions,
    count: usize,
) -> Result<Vec<UdpSocket>, BindError> {
    assert!(count > 0, "a group of sockets has at least one");
    let fail = |error: io::Error| BindError::new(options.address, &error);
    let first = bound(options, false).map_err(fail)?;
    if count > 1 || options.reuse_port {
        first.set_reuse_port(true).map_err(fail)?;
    }
    let first = UdpSocket::from(first);
    let further = DatagramOptions {
        address: first.local_addr().map_err(fail)?,
        reuse_port: true,
        ..*options
    };
    let mut group = vec![first];
    for _ in 1..count {
        group.push(bind_datagram(&further)?);
    }
    Ok(group)
}

fn bound(options: &DatagramOptions, reuse_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(options.address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    socket.set_nonblocking(true)?;
    if reuse_port {
        socket.set_reuse_port(true)?;
    }
    if options.address.is_ipv6() {
        socket.set_only_v6(options.only_v6)?;
    }
    if let Some(bytes) = options.send_buffer_bytes {
        socket.set_send_buffer_size(buffer_size(bytes))?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(buffer_size(bytes))?;
    }
    socket.bind(&options.address.into())?;
    Ok(socket)
}

/// Has the kernel tell with every datagram how many the socket had dropped before it: SO_RXQ_OVFL (socket(7), Linux
/// 2.6.33). [`crate::datagram::Received::drops`] then has the number.
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) on other systems: macOS counts drops for the whole host only, see
/// [`crate::network::UdpCounters`].
pub fn report_drops(socket: impl AsFd) -> Reading<()> {
    os::socket::report_drops(&socket)
}

/// What a socket holds and has dropped at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketMemory {
    /// Memory of what was received and not yet read, in bytes; more than its payload, because bookkeeping counts.
    /// `SK_MEMINFO_RMEM_ALLOC`.
    pub receive_bytes: u32,
    /// How far `receive_bytes` may go, in bytes: SO_RCVBUF as reported. `SK_MEMINFO_RCVBUF`.
    pub receive_buffer_bytes: u32,
    /// Memory of what was sent and has not left, in bytes. `SK_MEMINFO_WMEM_ALLOC`.
    pub send_bytes: u32,
    /// How far `send_bytes` may go, in bytes: SO_SNDBUF as reported. `SK_MEMINFO_SNDBUF`.
    pub send_buffer_bytes: u32,
    /// Received while somebody else had the socket locked, in bytes. `SK_MEMINFO_BACKLOG`.
    pub backlog_bytes: u32,
    /// Datagrams or packets dropped since the socket exists, most of them because `receive_buffer_bytes` was
    /// reached. It has 32 bits and goes around: subtract with [`u32::wrapping_sub`]. `SK_MEMINFO_DROPS`; `None`
    /// where the kernel's answer ends before it.
    pub drops: Option<u32>,
}

/// Asks a socket: one getsockopt(2) with SO_MEMINFO (Linux 4.12; kernel header `linux/sock_diag.h`).
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) where the kernel has no such option, and on macOS.
pub fn socket_memory(socket: impl AsFd) -> Reading<SocketMemory> {
    os::socket::memory(&socket)
}
