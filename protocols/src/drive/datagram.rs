//! A socket of datagrams from its first to its last.

use super::{Host, Turn, has_come};
use crate::{
    datagram::{DatagramApp, DatagramMachine},
    machine::TURN_OUTPUT_BYTES,
};
use shardloop::{Batch, Datagram, Outbox, datagram::LARGEST_BYTES};
use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    task::Poll,
};

/// Datagrams received at a time.
const BATCH: usize = 32;

/// What went over a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Datagrams that came.
    pub received: u64,
    /// Datagrams that were sent.
    pub sent: u64,
    /// Datagrams that could not be sent: too long, or to where there is no way.
    pub refused: u64,
}

/// Runs `machine` on `socket` until `host` wants connections to end. A datagram that has come by then is still answered.
///
/// # Errors
/// The socket cannot be received on any more.
pub async fn serve_datagrams<M: DatagramMachine>(
    socket: impl Datagram,
    machine: M,
    app: impl DatagramApp<M>,
    host: impl Host,
) -> io::Result<Traffic> {
    let mut stop = pin!(host.stopping());
    let mut served = Served {
        socket,
        machine,
        app,
        outbox: Outbox::new(),
        traffic: Traffic::default(),
        turn: Turn::default(),
    };
    let mut batch = Batch::new(BATCH, LARGEST_BYTES);
    loop {
        let alarm = served.machine.timeout().map(|at| host.sleep_until(at));
        match next(&mut served.socket, &mut batch, alarm, stop.as_mut()).await {
            Event::Received(received) => {
                received?;
                served.answer(&mut batch, &host).await;
            }
            Event::TimedOut => {
                served.machine.handle_timeout(host.now());
                served.collect(&host);
                served.send().await;
                // It counts, so that a machine whose deadline stays in the past does not keep the shard for itself.
                served.turn.received(0);
            }
            Event::Stop => return Ok(served.traffic),
        }
        served.turn.end_if_used_up().await;
        // Input that never pauses is always first; it must not hide the stop.
        if served.turn.has_ended() && has_come(stop.as_mut()).await {
            return Ok(served.traffic);
        }
    }
}

struct Served<D, M, A> {
    socket: D,
    machine: M,
    app: A,
    outbox: Outbox,
    traffic: Traffic,
    turn: Turn,
}

impl<D: Datagram, M: DatagramMachine, A: DatagramApp<M>> Served<D, M, A> {
    /// Shows the machine what came, and sends what it says.
    async fn answer(&mut self, batch: &mut Batch, host: &impl Host) {
        for datagram in batch.iter_mut() {
            self.traffic.received += 1;
            self.turn.received(datagram.bytes.len());
            let datagram = crate::datagram::Datagram {
                from: datagram.from,
                bytes: datagram.bytes,
                truncated: datagram.truncated,
            };
            self.machine.handle(host.now(), datagram, &mut self.app);
            self.collect(host);
            if self.outbox.len_bytes() >= TURN_OUTPUT_BYTES {
                self.send().await;
            }
        }
        self.send().await;
    }

    /// Takes out what the machine has to say.
    fn collect(&mut self, host: &impl Host) {
        let (machine, now) = (&mut self.machine, host.now());
        let next = |out: &mut Vec<u8>| machine.poll_transmit(now, out).map(|transmit| transmit.to);
        let mut next = next;
        while self.outbox.write_if(&mut next) {}
    }

    async fn send(&mut self) {
        self.turn.sent(self.outbox.len_bytes());
        let mut refused = 0;
        let all = self.outbox.len() as u64;
        while !self.outbox.is_empty() {
            // One peer that cannot be reached says nothing about the others.
            if self.socket.send(&mut self.outbox).await.is_err() {
                refused += 1;
            }
        }
        self.traffic.refused += refused;
        self.traffic.sent += all - refused;
    }
}

enum Event {
    Received(io::Result<()>),
    TimedOut,
    Stop,
}

async fn next(
    socket: &mut impl Datagram,
    batch: &mut Batch,
    alarm: Option<impl Future<Output = ()>>,
    mut stop: Pin<&mut impl Future<Output = ()>>,
) -> Event {
    let (mut receive, mut alarm) = (pin!(socket.recv(batch)), pin!(alarm));
    poll_fn(|cx| {
        if let Poll::Ready(received) = receive.as_mut().poll(cx) {
            return Poll::Ready(Event::Received(received));
        }
        if stop.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Event::Stop);
        }
        match alarm.as_mut().as_pin_mut() {
            Some(alarm) => alarm.poll(cx).map(|()| Event::TimedOut),
            None => Poll::Pending,
        }
    })
    .await
}
