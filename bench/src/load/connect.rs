//! Makes the connections: nonblocking, a bounded number at a time, all within one deadline.

use super::{
    Plan,
    clock::{Clock, nanoseconds},
    fault::{Fault, Wrong},
    tally::Tally,
};
use mio::{Events, Interest, Poll, Token, net::TcpStream};
use socket2::{Domain, Protocol, Socket, Type};
use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::Duration,
};

/// Connections in the making at the same time.
const AT_ONCE: usize = 256;

/// Clients that share a source address. Linux gives one address 28,231 ephemeral ports.
const CLIENTS_PER_ADDRESS: usize = 20_000;

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
    if let Some(source) = source(to, client, clients) {
        socket.bind(&SocketAddr::new(source, 0).into())?;
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

/// The source address of a client where one address has too few ports; `None` lets the system choose.
fn source(to: SocketAddr, client: usize, clients: usize) -> Option<IpAddr> {
    let loopback = matches!(to.ip(), IpAddr::V4(ip) if ip.is_loopback());
    if !loopback || clients <= CLIENTS_PER_ADDRESS {
        return None;
    }
    let host = u8::try_from(1 + client / CLIENTS_PER_ADDRESS).expect("at most 60,000 clients");
    Some(Ipv4Addr::new(127, 0, 0, host).into())
}

/// The system goes on connecting.
fn is_on_its_way(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EINPROGRESS)
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
