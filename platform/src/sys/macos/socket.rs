//! Sockets on macOS.

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::MsgFlags;
use socket2::{SockAddr, SockRef, Socket};

use super::sysctl;
use crate::socket::SocketMemory;
use crate::{NotExposed, Reading};

/// There is no MSG_NOSIGNAL: SO_NOSIGPIPE on the socket does its work.
pub(crate) const SEND_FLAGS: MsgFlags = MsgFlags::MSG_DONTWAIT;

pub(crate) const DESCRIPTOR_DIRECTORY: Result<&str, &str> = Ok("/dev/fd");

/// There is no accept4; socket2 sets closed-on-exec and SO_NOSIGPIPE after accepting.
pub(crate) fn accept(listener: &SockRef<'_>) -> io::Result<(Socket, SockAddr)> {
    let (socket, peer) = listener.accept()?;
    socket.set_nonblocking(true)?;
    Ok((socket, peer))
}

pub(crate) fn never_raise_sigpipe(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).set_nosigpipe(true)
}

pub(crate) fn congestion_control(_socket: &SockRef<'_>) -> Reading<String> {
    Err(NotExposed::new(
        "congestion control",
        "macOS has no TCP_CONGESTION option",
    ))
}

pub(crate) fn report_drops(_socket: &impl AsFd) -> Reading<()> {
    Err(NotExposed::new(
        "drops of a socket",
        "macOS counts them for the whole host only (net.inet.udp.stats)",
    ))
}

pub(crate) fn memory(_socket: &impl AsFd) -> Reading<SocketMemory> {
    Err(NotExposed::new(
        "memory of a socket",
        "macOS has no SO_MEMINFO",
    ))
}

/// setrlimit refuses more than this, whatever the hard limit says.
pub(crate) fn descriptor_ceiling() -> Option<libc::rlim_t> {
    sysctl::number("descriptor limit", "kern.maxfilesperproc").ok()
}

/// See [`crate::socket::REUSE_PORT_SPREADS`].
pub(crate) const REUSE_PORT_SPREADS: bool = false;
