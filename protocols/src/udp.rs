//! `udp`: every datagram is one message, and every answer one datagram (RFC 768). Nothing is repeated, ordered or acknowledged.
//!
//! The measured protocol `udp`, and what a service without a protocol of its own begins with.

use crate::datagram::{Datagram, DatagramApp, DatagramMachine, Transmit};
use std::{convert::Infallible, net::SocketAddr, time::Instant};

/// Either end of any number of exchanges of plain datagrams.
#[derive(Debug, Default)]
pub struct Udp {
    /// What is to be sent, one after the other.
    bytes: Vec<u8>,
    /// Where each goes, and where in `bytes` it ends.
    ends: Vec<(SocketAddr, usize)>,
    taken: usize,
    truncated: u64,
}

impl Udp {
    /// Datagrams whose end was missing. The application was not told of them: half a message is none.
    #[must_use]
    pub fn truncated(&self) -> u64 {
        self.truncated
    }

    fn is_drained(&self) -> bool {
        self.taken == self.ends.len()
    }

    fn reply(&mut self, to: SocketAddr) -> Reply<'_> {
        debug_assert!(self.is_drained(), "drain the output before the next call");
        self.bytes.clear();
        self.ends.clear();
        self.taken = 0;
        Reply { machine: self, to }
    }
}

/// Sends datagrams to one peer.
#[derive(Debug)]
pub struct Reply<'r> {
    machine: &'r mut Udp,
    to: SocketAddr,
}

impl Reply<'_> {
    /// One datagram of `bytes`, which may be empty. What is longer than UDP can carry is refused by the socket, not here.
    pub fn send(&mut self, bytes: &[u8]) {
        self.machine.bytes.extend_from_slice(bytes);
        let end = self.machine.bytes.len();
        self.machine.ends.push((self.to, end));
    }
}

impl DatagramMachine for Udp {
    type Message<'m> = &'m mut [u8];
    type Reply<'r> = Reply<'r>;
    type Error = Infallible;

    fn handle(&mut self, _now: Instant, datagram: Datagram<'_>, app: &mut impl DatagramApp<Self>) {
        if datagram.truncated {
            self.truncated += 1;
            return;
        }
        let from = datagram.from;
        app.message(from, datagram.bytes, self.reply(from));
    }

    fn poll_transmit(&mut self, _now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let (to, end) = *self.ends.get(self.taken)?;
        let start = match self.taken {
            0 => 0,
            taken => self.ends[taken - 1].1,
        };
        out.extend_from_slice(&self.bytes[start..end]);
        self.taken += 1;
        Some(Transmit { to })
    }

    fn timeout(&self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _now: Instant) {}

    fn send<R>(
        &mut self,
        _now: Instant,
        to: SocketAddr,
        f: impl FnOnce(Reply<'_>) -> R,
    ) -> Result<R, Infallible> {
        Ok(f(self.reply(to)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Datagram, DatagramMachine, Reply, Udp};
    use std::{net::SocketAddr, time::Instant};

    fn peer(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn drain(machine: &mut Udp) -> Vec<(u16, Vec<u8>)> {
        let mut all = Vec::new();
        loop {
            let mut out = Vec::new();
            match machine.poll_transmit(Instant::now(), &mut out) {
                Some(transmit) => all.push((transmit.to.port(), out)),
                None => return all,
            }
        }
    }

    #[test]
    fn each_answer_is_a_datagram_to_who_asked() {
        let mut machine = Udp::default();
        let mut app = |_, message: &mut [u8], mut reply: Reply<'_>| {
            message.reverse();
            reply.send(message);
            reply.send(b"");
        };
        for port in [7, 8] {
            let datagram = Datagram {
                from: peer(port),
                bytes: &mut [1, 2, 3],
                truncated: false,
            };
            machine.handle(Instant::now(), datagram, &mut app);
            let expected = [(port, vec![3, 2, 1]), (port, Vec::new())];
            assert_eq!(drain(&mut machine), expected);
        }
    }

    #[test]
    fn half_a_message_is_none() {
        let mut machine = Udp::default();
        let datagram = Datagram {
            from: peer(7),
            bytes: &mut [1, 2, 3],
            truncated: true,
        };
        let mut app = |_, _: &mut [u8], _: Reply<'_>| panic!("it was cut");
        machine.handle(Instant::now(), datagram, &mut app);
        assert_eq!((machine.truncated(), drain(&mut machine).len()), (1, 0));
    }

    #[test]
    fn a_client_speaks_first() {
        let mut machine = Udp::default();
        let asked = machine.send(Instant::now(), peer(9), |mut request| request.send(b"?"));
        assert_eq!(asked, Ok(()));
        assert_eq!(drain(&mut machine), [(9, b"?".to_vec())]);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "drain the output before the next call")]
    fn output_that_was_not_drained_is_noticed() {
        let mut machine = Udp::default();
        for _ in 0..2 {
            let _ = machine.send(Instant::now(), peer(9), |mut request| request.send(b"?"));
        }
    }
}
