//! The driver of datagrams, over a socket in memory and in virtual time.

use crate::fake::{Running, World};
use shardloop::{Batch, Datagram, Outbox, datagram::SendError};
use shardloop_protocols::{
    datagram::{Datagram as Input, DatagramApp, DatagramMachine, Transmit},
    drive::{Host, Traffic, serve_datagrams},
    machine::TURN_OUTPUT_BYTES,
    udp::{Reply, Udp},
};
use std::{
    cell::RefCell,
    collections::VecDeque,
    convert::Infallible,
    future::poll_fn,
    io,
    net::SocketAddr,
    rc::Rc,
    task::{Poll, Waker},
    time::{Duration, Instant},
};

type Letter = (SocketAddr, Vec<u8>);

fn peer(port: u16) -> SocketAddr {
    ([10, 0, 0, 1], port).into()
}

/// A socket whose other end is the test.
#[derive(Clone, Default)]
struct Fake(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    arrived: VecDeque<Letter>,
    /// Arrives again and again.
    endless: Option<Letter>,
    sent: Vec<Letter>,
    /// Where nothing can be sent.
    unreachable: Option<SocketAddr>,
    broken: bool,
    waker: Option<Waker>,
}

impl Fake {
    fn arrive(&self, from: SocketAddr, bytes: &[u8]) {
        let mut state = self.0.borrow_mut();
        state.arrived.push_back((from, bytes.to_vec()));
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    fn take_sent(&self) -> Vec<Letter> {
        std::mem::take(&mut self.0.borrow_mut().sent)
    }
}

impl Datagram for Fake {
    async fn recv(&mut self, batch: &mut Batch) -> io::Result<()> {
        batch.clear();
        poll_fn(|cx| {
            let mut state = self.0.borrow_mut();
            if state.broken {
                return Poll::Ready(Err(io::ErrorKind::NotConnected.into()));
            }
            while batch.len() < batch.capacity()
                && let Some((from, bytes)) =
                    state.arrived.pop_front().or_else(|| state.endless.clone())
            {
                assert!(batch.push(from, &bytes));
            }
            if batch.is_empty() {
                state.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    async fn send(&mut self, outbox: &mut Outbox) -> Result<(), SendError> {
        assert!(!outbox.is_empty(), "nothing was sent");
        let mut state = self.0.borrow_mut();
        loop {
            let Some((to, bytes)) = outbox.iter().next() else {
                return Ok(());
            };
            let refused = state.unreachable == Some(to);
            if !refused {
                state.sent.push((to, bytes.to_vec()));
            }
            outbox.advance(1);
            if refused {
                let error = io::ErrorKind::NetworkUnreachable.into();
                return Err(SendError { to, error });
            }
        }
    }

    fn address(&self) -> io::Result<SocketAddr> {
        Ok(peer(1))
    }

    fn dropped(&self) -> Option<u64> {
        None
    }
}

fn echo(_: SocketAddr, message: &mut [u8], mut reply: Reply<'_>) {
    reply.send(message);
}

fn serve(world: &World, socket: &Fake) -> Running<'static, io::Result<Traffic>> {
    let served = serve_datagrams(socket.clone(), Udp::default(), echo, world.clone());
    Running::new(world, served)
}

#[test]
fn every_datagram_is_answered_to_who_sent_it() {
    let (world, socket) = (World::new(), Fake::default());
    let mut running = serve(&world, &socket);
    let mut letters = Vec::new();
    for number in 0..100_u16 {
        // Every third is empty.
        let bytes = vec![7; usize::from(number % 3) * usize::from(number)];
        socket.arrive(peer(number % 5), &bytes);
        letters.push((peer(number % 5), bytes));
    }
    assert!(running.run().is_none(), "it serves on");
    assert_eq!(socket.take_sent(), letters);
    socket.arrive(peer(9), b"last");
    world.stop();
    let traffic = running.finish().expect("in order");
    assert_eq!(socket.take_sent(), [(peer(9), b"last".to_vec())]);
    let expected = Traffic {
        received: 101,
        sent: 101,
        refused: 0,
    };
    assert_eq!(traffic, expected);
}

#[test]
fn a_peer_that_cannot_be_reached_costs_nobody_else_anything() {
    let (world, socket) = (World::new(), Fake::default());
    socket.0.borrow_mut().unreachable = Some(peer(2));
    let mut running = serve(&world, &socket);
    for port in [1, 2, 2, 3] {
        socket.arrive(peer(port), b"?");
    }
    world.stop();
    let traffic = running.finish().expect("in order");
    let sent = [(peer(1), b"?".to_vec()), (peer(3), b"?".to_vec())];
    assert_eq!(socket.take_sent(), sent);
    assert_eq!((traffic.sent, traffic.refused), (2, 2));
}

#[test]
fn a_flood_hides_neither_the_stop_nor_other_tasks() {
    let (world, socket) = (World::new(), Fake::default());
    socket.0.borrow_mut().endless = Some((peer(1), vec![1; 1000]));
    let mut running = serve(&world, &socket);
    assert!(running.run_for(5).is_none());
    assert_eq!(running.yields, 5, "others had their turn");
    let (answers, bytes) = {
        let sent = socket.take_sent();
        let bytes: usize = sent.iter().map(|(_, bytes)| bytes.len()).sum();
        (sent.len(), bytes)
    };
    assert!(answers > 0 && bytes <= 5 * (TURN_OUTPUT_BYTES + 32 * 1000));
    world.stop();
    assert!(running.run_for(2).is_some(), "it heard the stop");
}

#[test]
fn a_socket_that_is_broken_ends_the_service() {
    let (world, socket) = (World::new(), Fake::default());
    socket.0.borrow_mut().broken = true;
    let error = serve(&world, &socket).finish().expect_err("it is broken");
    assert_eq!(error.kind(), io::ErrorKind::NotConnected);
}

/// Says "tick" to peer 4 every second.
struct Ticker {
    next: Instant,
    due: bool,
}

impl DatagramMachine for Ticker {
    type Message<'m> = ();
    type Reply<'r> = ();
    type Error = Infallible;

    fn handle(&mut self, _: Instant, _: Input<'_>, _: &mut impl DatagramApp<Self>) {}

    fn poll_transmit(&mut self, _: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        std::mem::take(&mut self.due).then(|| {
            out.extend_from_slice(b"tick");
            Transmit { to: peer(4) }
        })
    }

    fn timeout(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn handle_timeout(&mut self, now: Instant) {
        if now >= self.next {
            (self.next, self.due) = (now + Duration::from_secs(1), true);
        }
    }

    fn send<R>(
        &mut self,
        _: Instant,
        _: SocketAddr,
        f: impl FnOnce(()) -> R,
    ) -> Result<R, Infallible> {
        Ok(f(()))
    }
}

#[test]
fn a_machine_is_told_of_the_time_it_asked_for() {
    let (world, socket) = (World::new(), Fake::default());
    let ticker = Ticker {
        next: world.now() + Duration::from_secs(1),
        due: false,
    };
    let ignore = |_: SocketAddr, (): (), (): ()| {};
    let served = serve_datagrams(socket.clone(), ticker, ignore, world.clone());
    let mut running = Running::new(&world, served);
    assert!(running.run().is_none());
    assert!(socket.take_sent().is_empty(), "too early");
    for _ in 0..3 {
        world.pass(Duration::from_secs(1));
        assert!(running.run().is_none());
        assert_eq!(socket.take_sent(), [(peer(4), b"tick".to_vec())]);
    }
    // A datagram in between changes nothing.
    world.pass(Duration::from_millis(500));
    socket.arrive(peer(1), b"?");
    assert!(running.run().is_none());
    assert!(socket.take_sent().is_empty());
    world.pass(Duration::from_millis(500));
    assert!(running.run().is_none());
    assert_eq!(socket.take_sent().len(), 1);
}
