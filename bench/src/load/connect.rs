//! Makes the connections: nonblocking, a bounded number at a time, all within one deadline.

use super::{
    Plan,
    clock::{Clock, nanoseconds},
    fault::{Fault, Wrong},
    tally::Tally,
};
use crate::udp_socket::{REQUESTED, options};
use mio::{
    Events, Interest, Poll, Token,
    net::{TcpStream, UdpSocket},
};
use shardloop_platform::socket::bind_datagram;
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

/// Connections in the making at the same time.
const AT_ONCE: usize = 256;

/// Clients that share a source address. Linux gives one address 28,231 ephemeral ports by default and looks for a free one ever
/// longer the fewer there are: 20,000 clients on one address took 20 s. So beyond this number each client has an address and a port
/// of its own, the ports from [`FIRST_PORT`], below the ephemeral ones.
const CLIENTS_PER_ADDRESS: usize = 8_000;
const FIRST_PORT: u16 = 20_000;

/// Connects all clients of `plan`, each registered as readable under its number. One that cannot be made is `None` and counted.
///
/// # Errors
/// The poll itself failed.
pub(crate) fn all(
    plan: &Plan,
    poll: &mut Poll,
    clock: Clock,
    tally: &mut Tally,
) -> io::Result<Vec<Option<TcpStream>>> {
    let mut making = Making {
        plan,
        tally,
        streams: (0..plan.clients).map(|_| None).collect(),
        made: vec![false; plan.clients],
        started: 0,
        unfinished: 0,
    };
    let deadline_ns = clock.now_ns() + nanoseconds(plan.connect_timeout);
    let mut events = Events::with_capacity(AT_ONCE);
    loop {
        making.start_some(poll);
        let left_ns = deadline_ns.saturating_sub(clock.now_ns());
        if making.is_done() {
            return Ok(making.streams);
        }
        if left_ns == 0 {
            making.give_up();
            return Ok(making.streams);
        }
        super::wait(poll, &mut events, Duration::from_nanos(left_ns))?;
        for event in &events {
            making.look(event.token(), poll);
        }
    }
}

/// Connections on their way.
struct Making<'a> {
    plan: &'a Plan,
    tally: &'a mut Tally,
    streams: Vec<Option<TcpStream>>,
    made: Vec<bool>,
    started: usize,
    unfinished: usize,
}

impl Making<'_> {
    fn is_done(&self) -> bool {
        self.started == self.plan.clients && self.unfinished == 0
    }

    fn start_some(&mut self, poll: &Poll) {
        while self.started < self.plan.clients && self.unfinished < AT_ONCE {
            let client = self.started;
            self.started += 1;
            match start(self.plan.connect, client, self.plan.clients, poll) {
                Ok(stream) => {
                    self.streams[client] = Some(stream);
                    self.unfinished += 1;
                    self.look(Token(client), poll);
                }
                Err(error) => self.count(client, error),
            }
        }
    }

    /// Asks whether a connection is made by now.
    fn look(&mut self, Token(client): Token, poll: &Poll) {
        if self.made[client] {
            return;
        }
        let Some(stream) = &mut self.streams[client] else {
            return;
        };
        let result = match is_made(stream) {
            Ok(false) => return,
            Ok(true) => poll
                .registry()
                .reregister(stream, Token(client), Interest::READABLE),
            Err(error) => Err(error),
        };
        self.made[client] = true;
        self.unfinished -= 1;
        if let Err(error) = result {
            self.streams[client] = None;
            self.count(client, error);
        }
    }

    /// The deadline has passed.
    fn give_up(&mut self) {
        for client in 0..self.plan.clients {
            if !self.made[client] && (client >= self.started || self.streams[client].is_some()) {
                self.streams[client] = None;
                let words = format!("no answer within {:?}", self.plan.connect_timeout);
                self.count(client, io::Error::new(io::ErrorKind::TimedOut, words));
            }
        }
    }

    fn count(&mut self, client: usize, error: io::Error) {
        let fault = Fault {
            client: super::client_id(client),
            sequence: 0,
            wrong: Wrong::Connect(error),
        };
        self.tally.failed(&fault, 0);
    }
}

/// Begins one connection.
fn start(to: SocketAddr, client: usize, clients: usize, poll: &Poll) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if let Some(source) = source(to, client, clients, std::process::id()) {
        bind(&socket, source)?;
    }
    let begun = socket.connect(&to.into());
    let mut stream = TcpStream::from_std(socket.into());
    if let Err(error) = begun
        && !is_on_its_way(&error)
    {
        return Err(error);
    }
    let interest = Interest::READABLE | Interest::WRITABLE;
    poll.registry()
        .register(&mut stream, Token(client), interest)?;
    Ok(stream)
}

/// A client's UDP socket, which receives from the server alone.
pub(crate) fn datagrams(plan: &Plan, client: usize) -> io::Result<UdpSocket> {
    let to = plan.connect;
    let anywhere = match to {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
    };
    let bind = |source| bind_datagram(&options(source, REQUESTED)).ok();
    let own = source(to, client, plan.clients, std::process::id());
    let socket = match own.and_then(bind) {
        Some(socket) => socket,
        None => bind_datagram(&options(anywhere, REQUESTED)).map_err(io::Error::other)?,
    };
    socket.connect(to)?;
    Ok(UdpSocket::from_std(socket))
}

/// Binds to a source, if the machine has its address: macOS answers to 127.0.0.1 alone, and then the system chooses.
fn bind(socket: &Socket, source: SocketAddr) -> io::Result<()> {
    let any_port = SocketAddr::new(source.ip(), 0);
    let bound = match socket.bind(&source.into()) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => socket.bind(&any_port.into()),
        result => result,
    };
    match bound {
        Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(()),
        result => result,
    }
}

/// The source of a client where one address has too few ports; `None` lets the system choose. Each process takes addresses of its
/// own: the ports of the run before are in TIME_WAIT for a minute.
fn source(to: SocketAddr, client: usize, clients: usize, process: u32) -> Option<SocketAddr> {
    let loopback = matches!(to.ip(), IpAddr::V4(ip) if ip.is_loopback());
    if !loopback || clients <= CLIENTS_PER_ADDRESS {
        return None;
    }
    let [low, high, ..] = process.to_le_bytes();
    let host = u8::try_from(1 + client / CLIENTS_PER_ADDRESS).expect("at most 60,000 clients");
    let port = u16::try_from(client % CLIENTS_PER_ADDRESS).expect("fewer clients than ports");
    let address = Ipv4Addr::new(127, high, low, host);
    Some(SocketAddr::new(address.into(), FIRST_PORT + port))
}

/// The system goes on connecting.
fn is_on_its_way(error: &io::Error) -> bool {
    shardloop_platform::socket::is_in_progress(error)
}

/// Whether the connection stands; `Err` if it failed.
fn is_made(stream: &TcpStream) -> io::Result<bool> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source_of(to: &str, client: usize, clients: usize) -> Option<String> {
        let to = to.parse().expect("an address");
        source(to, client, clients, 0x0203).map(|address| address.to_string())
    }

    #[test]
    fn many_clients_on_ipv4_loopback_share_several_addresses() {
        assert_eq!(source_of("127.0.0.1:1", 7_999, 8_000), None);
        let of = |client| source_of("127.0.0.1:1", client, 60_000).expect("a source");
        assert_eq!(of(0), "127.2.3.1:20000");
        assert_eq!(of(7_999), "127.2.3.1:27999");
        assert_eq!(of(8_000), "127.2.3.2:20000");
        assert_eq!(of(59_999), "127.2.3.8:23999");
    }

    #[test]
    fn elsewhere_the_system_chooses() {
        assert_eq!(source_of("192.0.2.1:1", 59_999, 60_000), None);
        assert_eq!(source_of("[::1]:1", 59_999, 60_000), None);
    }
}
