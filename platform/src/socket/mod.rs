//! Sockets: options as plain data, listeners that notice somebody else's server, and the bare calls an engine
//! needs. Also the limit on descriptors, which is what accepting runs into.
//!
//! Listeners and connections of TCP are here, UDP sockets in `datagram`, sockets that are files in `local`. Sending
//! and receiving many datagrams with one call is [`crate::datagram`].
//!
//! Every socket made here is closed on exec and does not block. No call here raises SIGPIPE on Linux; on macOS
//! that is an option of the socket, which the standard library, socket2 and [`accept`] set.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::MsgFlags;
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};

use crate::sys::{os, unix};
use crate::{NotExposed, Reading};

mod bind;
mod datagram;
mod local;

pub use bind::{BindCause, BindError};
pub use datagram::{
    DatagramGranted, DatagramOptions, SocketMemory, bind_datagram, bind_datagram_group,
    granted_datagram, report_drops, socket_memory,
};
pub use local::{UnixBindCause, UnixBindError, accept_unix, listen_unix, unix_path};

/// Whether SO_REUSEPORT spreads connections over the listeners of a group, and datagrams over its sockets: on Linux
/// (3.9) it does; macOS gives them all to one.
pub const REUSE_PORT_SPREADS: bool = os::socket::REUSE_PORT_SPREADS;

/// Whether a nonblocking connect(2) has begun and will tell its result later (EINPROGRESS).
#[must_use]
pub fn is_in_progress(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::EINPROGRESS as i32)
}

/// What a TCP connection is set to before it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// TCP_NODELAY: small messages leave at once instead of waiting for an acknowledgement (tcp(7)).
    pub nodelay: bool,
    /// SO_SNDBUF in bytes; `None` leaves the kernel's own sizing on. Linux caps it at `net.core.wmem_max`
    /// without saying so: see [`granted`].
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF in bytes; `None` leaves the kernel's own sizing on. Linux caps it at `net.core.rmem_max`.
    pub receive_buffer_bytes: Option<usize>,
}

impl StreamOptions {
    /// Sets what differs from a fresh socket: one setsockopt(2) for `nodelay`, one per given buffer size, none
    /// at all when everything is left as it is. What the kernel made of it is read by [`granted`].
    ///
    /// # Errors
    /// The operating system's: `EINVAL` when the peer has already reset the connection (macOS), `ENOTSOCK`.
    pub fn apply(&self, socket: impl AsFd) -> io::Result<()> {
        let socket = SockRef::from(&socket);
        if self.nodelay {
            socket.set_tcp_nodelay(true)?;
        }
        if let Some(bytes) = self.send_buffer_bytes {
            socket.set_send_buffer_size(buffer_size(bytes))?;
        }
        if let Some(bytes) = self.receive_buffer_bytes {
            socket.set_recv_buffer_size(buffer_size(bytes))?;
        }
        Ok(())
    }
}

/// What the kernel granted a TCP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamGranted {
    /// TCP_NODELAY.
    pub nodelay: bool,
    /// SO_SNDBUF as reported, in bytes. Linux reports twice what was asked for, to cover its bookkeeping
    /// (socket(7)).
    pub send_buffer_bytes: usize,
    /// SO_RCVBUF as reported, in bytes; doubled on Linux likewise.
    pub receive_buffer_bytes: usize,
}

/// Reads back what a connection has: three getsockopt(2), so not on the accept path.
///
/// # Errors
/// The operating system's.
pub fn granted(socket: impl AsFd) -> io::Result<StreamGranted> {
    let socket = SockRef::from(&socket);
    Ok(StreamGranted {
        nodelay: socket.tcp_nodelay()?,
        send_buffer_bytes: socket.send_buffer_size()?,
        receive_buffer_bytes: socket.recv_buffer_size()?,
    })
}

/// Where and how to listen for TCP connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenOptions {
    /// The address; port 0 lets the kernel pick one.
    pub address: SocketAddr,
    /// Connections that may wait to be accepted; the kernel caps it at `somaxconn` and at `i32::MAX`.
    pub backlog: u32,
    /// SO_REUSEPORT: others of the same user may listen here too, and on Linux (3.9) the kernel spreads
    /// connections over all of them. [`listen_group`] sets it by itself where it is needed.
    pub reuse_port: bool,
    /// IPV6_V6ONLY: an IPv6 listener does not take IPv4 connections. Ignored for IPv4 addresses.
    pub only_v6: bool,
}

/// One listener: nonblocking, closed on exec, SO_REUSEADDR (a restart need not wait for old connections in
/// TIME_WAIT; it does not let two listeners share the port).
///
/// # Errors
/// [`BindError`].
pub fn listen(options: &ListenOptions) -> Result<TcpListener, BindError> {
    let fail = |error: io::Error| BindError::new(options.address, &error);
    let socket = bound(options, options.reuse_port).map_err(fail)?;
    socket.listen(backlog(options.backlog)).map_err(fail)?;
    Ok(socket.into())
}

/// `count` listeners on one address, which the kernel spreads connections over (Linux 3.9; macOS gives them
/// all to one listener). Port 0 is resolved once: all have the same port.
///
/// The first is bound *without* SO_REUSEPORT and gets the option afterwards, so that a server already
/// listening there, even one that sets SO_REUSEPORT itself, is an error and not a silent sharing of its
/// connections. There is no moment in between at which the port is free. With `count` 1 SO_REUSEPORT is set
/// only if `options.reuse_port` says so.
///
/// # Errors
/// [`BindError`].
///
/// # Panics
/// When `count` is 0.
pub fn listen_group(options: &ListenOptions, count: usize) -> Result<Vec<TcpListener>, BindError> {
    assert!(count > 0, "a group of listeners has at least one");
    let fail = |error: io::Error| BindError::new(options.address, &error);
    let first = bound(options, false).map_err(fail)?;
    if count > 1 || options.reuse_port {
        first.set_reuse_port(true).map_err(fail)?;
    }
    first.listen(backlog(options.backlog)).map_err(fail)?;
    let first = TcpListener::from(first);
    let address = first.local_addr().map_err(fail)?;
    let further = ListenOptions {
        address,
        reuse_port: true,
        ..*options
    };
    let mut group = vec![first];
    for _ in 1..count {
        group.push(listen(&further)?);
    }
    Ok(group)
}

fn bound(options: &ListenOptions, reuse_port: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(options.address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_address(true)?;
    if reuse_port {
        socket.set_reuse_port(true)?;
    }
    if options.address.is_ipv6() {
        socket.set_only_v6(options.only_v6)?;
    }
    socket.bind(&options.address.into())?;
    Ok(socket)
}

fn backlog(connections: u32) -> i32 {
    i32::try_from(connections).unwrap_or(i32::MAX)
}

/// A buffer size as the option's type has room for; beyond it the number would turn negative.
fn buffer_size(bytes: usize) -> usize {
    const LARGEST: usize = i32::MAX.unsigned_abs() as usize;
    bytes.min(LARGEST)
}

/// Takes one waiting connection: nonblocking and closed on exec. Linux: one accept4(2); macOS: accept(2) and
/// the flags, with SO_NOSIGPIPE. `None`: no connection waits. Interrupted calls and connections whose peer has
/// gone already (ECONNABORTED) are passed over.
///
/// # Errors
/// The operating system's; see [`is_descriptor_exhaustion`]. Linux also hands out network errors of the
/// connection here (accept(2), "Error handling"): they concern that connection only.
pub fn accept(listener: impl AsFd) -> io::Result<Option<(TcpStream, SocketAddr)>> {
    match accept_any(listener)? {
        Some((socket, peer)) => accepted(socket, &peer).map(Some),
        None => Ok(None),
    }
}

fn accept_any(listener: impl AsFd) -> io::Result<Option<(Socket, SockAddr)>> {
    let listener = SockRef::from(&listener);
    loop {
        match os::socket::accept(&listener) {
            Ok(accepted) => return Ok(Some(accepted)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted
    )
}

fn accepted(socket: Socket, peer: &SockAddr) -> io::Result<(TcpStream, SocketAddr)> {
    // Darwin accepts a connection that is already gone with an empty address.
    let peer = peer.as_socket().ok_or(io::ErrorKind::ConnectionAborted)?;
    Ok((socket.into(), peer))
}

/// One recv(2) that never waits, whatever mode the socket is in. 0 means the peer has closed its side (or the
/// buffer is empty).
///
/// # Errors
/// The operating system's; kind `WouldBlock` when there is nothing to read.
pub fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<usize> {
    let descriptor = socket.as_fd().as_raw_fd();
    Ok(nix::sys::socket::recv(
        descriptor,
        buffer,
        MsgFlags::MSG_DONTWAIT,
    )?)
}

/// One send(2) that never waits and raises no SIGPIPE. Returns how many bytes were taken, which may be fewer
/// than there are.
///
/// # Errors
/// The operating system's; kind `WouldBlock` when the socket's buffer is full.
pub fn send(socket: impl AsFd, bytes: &[u8]) -> io::Result<usize> {
    let descriptor = socket.as_fd().as_raw_fd();
    Ok(nix::sys::socket::send(
        descriptor,
        bytes,
        os::socket::SEND_FLAGS,
    )?)
}

/// Switches O_NONBLOCK on or off. The flag belongs to the open file, so every duplicate of the descriptor
/// sees it.
///
/// # Errors
/// The operating system's.
pub fn set_nonblocking(socket: impl AsFd, nonblocking: bool) -> io::Result<()> {
    SockRef::from(&socket).set_nonblocking(nonblocking)
}

/// Name of the congestion control algorithm a TCP socket uses (TCP_CONGESTION, tcp(7)).
///
/// # Errors
/// [`NotExposed`] on macOS, which has no such option, and for sockets that are not TCP.
pub fn congestion_control(socket: impl AsFd) -> Reading<String> {
    os::socket::congestion_control(&SockRef::from(&socket))
}

/// Whether this process (EMFILE), or the system (ENFILE), may open no more descriptors.
#[must_use]
pub fn is_descriptor_limit(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(errno, Some(Errno::EMFILE | Errno::ENFILE))
}

/// Whether an accept or open failed because descriptors or the memory behind them ran out (EMFILE, ENFILE,
/// ENOBUFS, ENOMEM). The connection then still waits: trying again at once would spin.
#[must_use]
pub fn is_descriptor_exhaustion(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(
        errno,
        Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM)
    )
}

/// Whether the peer is what ended the connection: it closed or reset it, or the way to it is gone. Not our
/// fault and not worth more than a count.
#[must_use]
pub fn is_peer_gone(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw);
    matches!(
        errno,
        Some(
            Errno::ECONNRESET
                | Errno::EPIPE
                | Errno::ECONNABORTED
                | Errno::ENOTCONN
                | Errno::ETIMEDOUT
                | Errno::EHOSTUNREACH
                | Errno::ENETUNREACH
        )
    )
}

/// How many descriptors this process may have (the soft RLIMIT_NOFILE, getrlimit(2)); `u64::MAX` stands for
/// no limit.
///
/// # Errors
/// [`NotExposed`] when the host refuses to tell.
pub fn descriptor_limit() -> Reading<u64> {
    Ok(unix::descriptor_limit()?.soft.unwrap_or(u64::MAX))
}

/// Raises the soft limit on descriptors to the hard one and returns what is in force then. macOS: to
/// `kern.maxfilesperproc`, because its kernel refuses more whatever the hard limit says.
///
/// # Errors
/// [`NotExposed`] when the host refuses to tell or to raise.
pub fn raise_descriptor_limit() -> Reading<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(limit_unknown)?;
    let wanted = os::socket::descriptor_ceiling().map_or(hard, |ceiling| hard.min(ceiling));
    if wanted > soft {
        setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).map_err(limit_unknown)?;
    }
    descriptor_limit()
}

fn limit_unknown(errno: Errno) -> NotExposed {
    NotExposed::new("descriptor limit", errno)
}

/// How many descriptors this process has open, without the one needed to count them.
///
/// # Errors
/// [`NotExposed`] when the list (`/proc/self/fd`, `/dev/fd`) is not there.
pub fn open_descriptors() -> Reading<usize> {
    let unknown = |reason: String| NotExposed::new("open descriptors", reason);
    let directory =
        os::socket::DESCRIPTOR_DIRECTORY.map_err(|reason| unknown(reason.to_owned()))?;
    let entries =
        std::fs::read_dir(directory).map_err(|error| unknown(format!("{directory}: {error}")))?;
    Ok(entries.count().saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exhaustion_is_told_from_other_errors() {
        for errno in [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM] {
            assert!(is_descriptor_exhaustion(&errno.into()));
            assert!(!is_peer_gone(&errno.into()));
        }
        assert!(!is_descriptor_exhaustion(&Errno::ECONNRESET.into()));
        assert!(is_peer_gone(&Errno::ECONNRESET.into()));
        assert!(!is_descriptor_exhaustion(
            &io::ErrorKind::OutOfMemory.into()
        ));
    }
}
