//! Sockets on Linux.

use std::io;
use std::os::fd::AsFd;

use nix::sys::socket::MsgFlags;
use socket2::{SockAddr, SockRef, Socket};

use crate::{NotExposed, Reading};

pub(crate) const SEND_FLAGS: MsgFlags = MsgFlags::MSG_DONTWAIT.union(MsgFlags::MSG_NOSIGNAL);

pub(crate) const DESCRIPTOR_DIRECTORY: Result<&str, &str> = Ok("/proc/self/fd");

pub(crate) fn accept(listener: &SockRef<'_>) -> io::Result<(Socket, SockAddr)> {
    listener.accept4(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)
}

/// Nothing to do: MSG_NOSIGNAL goes with every send.
pub(crate) fn never_raise_sigpipe(_socket: &impl AsFd) -> io::Result<()> {
    Ok(())
}

pub(crate) fn congestion_control(socket: &SockRef<'_>) -> Reading<String> {
    let name = socket
        .tcp_congestion()
        .map_err(|error| NotExposed::new("congestion control", error))?;
    Ok(String::from_utf8_lossy(&name)
        .trim_end_matches('\0')
        .to_owned())
}

/// The hard limit is the only one.
pub(crate) fn descriptor_ceiling() -> Option<libc::rlim_t> {
    None
}

/// See [`crate::socket::REUSE_PORT_SPREADS`].
pub(crate) const REUSE_PORT_SPREADS: bool = true;

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use crate::socket::{ListenOptions, accept, congestion_control, listen_group};

    /// The option is set on the first listener only after binding, and it must be a full member all the same.
    #[test]
    fn every_listener_of_a_group_gets_connections() {
        let address = "127.0.0.1:0".parse().unwrap();
        let options = ListenOptions {
            address,
            backlog: 1_024,
            reuse_port: true,
            only_v6: false,
        };
        let group = listen_group(&options, 2).unwrap();
        let address = group[0].local_addr().unwrap();
        // Each goes to either by a hash of its ports: that all of these miss one has a chance of 2^-128.
        let clients: Vec<_> = (0..128)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let mut accepted = [0; 2];
        while accepted.iter().sum::<usize>() < clients.len() {
            for (listener, count) in group.iter().zip(&mut accepted) {
                *count += usize::from(accept(listener).unwrap().is_some());
            }
        }
        assert!(accepted.iter().all(|&count| count > 0), "{accepted:?}");
        assert!(!congestion_control(&clients[0]).unwrap().is_empty());
    }
}
