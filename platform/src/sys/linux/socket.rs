//! Sockets on Linux.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, setsockopt, sockopt};
use socket2::{SockAddr, SockRef, Socket};

use crate::socket::SocketMemory;
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

pub(crate) fn report_drops(socket: &impl AsFd) -> Reading<()> {
    setsockopt(socket, sockopt::RxqOvfl, &1)
        .map_err(|errno| NotExposed::new("drops of a socket", errno))
}

pub(crate) fn memory(socket: &impl AsFd) -> Reading<SocketMemory> {
    let mut words = [0; WORDS];
    let filled = read_meminfo(socket, &mut words)
        .map_err(|error| NotExposed::new("memory of a socket", format!("SO_MEMINFO: {error}")))?;
    parse_meminfo(&words[..filled]).ok_or_else(|| {
        NotExposed::new(
            "memory of a socket",
            format!("SO_MEMINFO has {filled} numbers"),
        )
    })
}

/// More than any kernel has so far (nine), so that an answer that grew is read, too.
const WORDS: usize = 16;

/// How many numbers the kernel wrote.
fn read_meminfo(socket: &impl AsFd, words: &mut [u32; WORDS]) -> io::Result<usize> {
    let mut bytes = libc::socklen_t::try_from(size_of_val(words)).expect("a small array");
    // SAFETY: the buffer has as many writable bytes as `bytes` says; any bits are a valid u32.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    Errno::result(result)?;
    let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
    Ok((bytes / size_of::<u32>()).min(WORDS))
}

/// The numbers by their places in `linux/sock_diag.h`.
fn parse_meminfo(words: &[u32]) -> Option<SocketMemory> {
    let word = |place: libc::c_int| words.get(usize::try_from(place).ok()?).copied();
    Some(SocketMemory {
        receive_bytes: word(libc::SK_MEMINFO_RMEM_ALLOC)?,
        receive_buffer_bytes: word(libc::SK_MEMINFO_RCVBUF)?,
        send_bytes: word(libc::SK_MEMINFO_WMEM_ALLOC)?,
        send_buffer_bytes: word(libc::SK_MEMINFO_SNDBUF)?,
        backlog_bytes: word(libc::SK_MEMINFO_BACKLOG)?,
        drops: word(libc::SK_MEMINFO_DROPS),
    })
}

/// The hard limit is the only one.
pub(crate) fn descriptor_ceiling() -> Option<libc::rlim_t> {
    None
}

/// See [`crate::socket::REUSE_PORT_SPREADS`].
pub(crate) const REUSE_PORT_SPREADS: bool = true;

#[cfg(test)]
mod tests {
    use std::net::{TcpStream, UdpSocket};

    use super::parse_meminfo;
    use crate::socket::{
        DatagramOptions, ListenOptions, accept, bind_datagram, bind_datagram_group,
        congestion_control, listen_group, receive, socket_memory,
    };

    const LOOPBACK: DatagramOptions = DatagramOptions {
        address: std::net::SocketAddr::V4(std::net::SocketAddrV4::new(
            std::net::Ipv4Addr::LOCALHOST,
            0,
        )),
        reuse_port: false,
        only_v6: false,
        send_buffer_bytes: None,
        receive_buffer_bytes: None,
    };

    /// The first socket becomes a full member although it was bound without the option.
    #[test]
    fn every_socket_of_a_group_gets_datagrams() {
        let group = bind_datagram_group(&LOOPBACK, 2).unwrap();
        let address = group[0].local_addr().unwrap();
        for _ in 0..128 {
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.send_to(b"x", address).unwrap();
        }
        let received = group.iter().map(|socket| {
            let mut buffer = [0; 8];
            std::iter::from_fn(|| receive(socket, &mut buffer).ok()).count()
        });
        let received: Vec<usize> = received.collect();
        assert_eq!(received.iter().sum::<usize>(), 128);
        assert!(received.iter().all(|&count| count > 0), "{received:?}");
    }

    #[test]
    fn a_full_receive_buffer_drops_and_is_counted() {
        let socket = bind_datagram(&DatagramOptions {
            receive_buffer_bytes: Some(8_192),
            ..LOOPBACK
        })
        .unwrap();
        let before = socket_memory(&socket).unwrap();
        assert_eq!((before.receive_bytes, before.drops), (0, Some(0)));
        assert_eq!(before.receive_buffer_bytes, 16_384);
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..100 {
            client
                .send_to(&[0; 1_024], socket.local_addr().unwrap())
                .unwrap();
        }
        let after = socket_memory(&socket).unwrap();
        let mut buffer = [0; 2_048];
        let kept = std::iter::from_fn(|| receive(&socket, &mut buffer).ok()).count();
        assert!(after.receive_bytes > 0 && kept > 0);
        assert_eq!(usize::try_from(after.drops.unwrap()).unwrap() + kept, 100);
    }

    #[test]
    fn an_answer_that_ends_early_has_no_drops() {
        let words: Vec<u32> = (0..9).collect();
        assert_eq!(parse_meminfo(&words).unwrap().drops, Some(8));
        assert_eq!(parse_meminfo(&words).unwrap().backlog_bytes, 7);
        assert_eq!(parse_meminfo(&words[..8]).unwrap().drops, None);
        assert_eq!(parse_meminfo(&words[..3]), None);
    }

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
