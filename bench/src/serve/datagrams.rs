//! What a server does with a socket of datagrams: the same function for shards and for the pool.

use super::handler::Job;
use crate::contract::ServedDatagrams;
use shardloop::{Backend, Batch, Datagram, DatagramSocket, Outbox, datagram::SendError};
use shardloop_protocols::{
    drive::{self, Host, Traffic},
    udp::{Reply, Udp},
};
use std::{
    future::Future,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What all sockets of a server have seen.
#[derive(Debug, Default)]
pub(crate) struct Datagrams(Mutex<ServedDatagrams>);

impl Datagrams {
    /// All in all.
    pub(crate) fn total(&self) -> ServedDatagrams {
        *self.lock()
    }

    /// The kernel dropped so many at one socket; `None` if it does not tell, and then the sum is not known either.
    pub(super) fn dropped(&self, count: Option<u64>) {
        let mut total = self.lock();
        total.dropped = count.map(|count| count + total.dropped.unwrap_or(0));
    }

    /// So many were dropped on their way to one shard.
    fn dropped_between_shards(&self, count: u64) {
        *self.lock().dropped_between_shards.get_or_insert(0) += count;
    }

    /// So many came, and of as many answers so many were sent.
    pub(super) fn count(&self, received: u64, sent: u64) {
        self.add(Traffic {
            received,
            sent,
            refused: received - sent,
        });
    }

    fn add(&self, traffic: Traffic) {
        let mut total = self.lock();
        total.received += traffic.received;
        total.sent += traffic.sent;
        total.refused += traffic.refused;
    }

    fn lock(&self) -> MutexGuard<'_, ServedDatagrams> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves one socket until the server ends.
pub(crate) async fn serve_socket(job: &Job, socket: impl Datagram, host: impl Host) {
    let app = |_: SocketAddr, message: &mut [u8], mut reply: Reply<'_>| {
        job.answered(message);
        reply.send(message);
    };
    match drive::serve_datagrams(socket, Udp::default(), app, host).await {
        Ok(traffic) => job.datagrams.add(traffic),
        Err(error) => job.note(format!("the socket broke: {}", error.kind())),
    }
}

/// A shard's socket, which leaves its counts of drops behind when its driver is done with it.
pub(super) struct Watched<B: Backend> {
    socket: DatagramSocket<B>,
    job: Arc<Job>,
}

impl<B: Backend> Watched<B> {
    pub(super) fn new(socket: DatagramSocket<B>, job: Arc<Job>) -> Self {
        Self { socket, job }
    }
}

impl<B: Backend> Datagram for Watched<B> {
    fn recv(&mut self, batch: &mut Batch) -> impl Future<Output = io::Result<()>> {
        self.socket.recv(batch)
    }

    fn send(&mut self, outbox: &mut Outbox) -> impl Future<Output = Result<(), SendError>> {
        self.socket.send(outbox)
    }

    fn address(&self) -> io::Result<SocketAddr> {
        self.socket.address()
    }

    fn dropped(&self) -> Option<u64> {
        self.socket.dropped()
    }
}

impl<B: Backend> Drop for Watched<B> {
    fn drop(&mut self) {
        self.job.datagrams.dropped(self.socket.dropped_by_kernel());
        if let Some(count) = self.socket.dropped_between_shards() {
            self.job.datagrams.dropped_between_shards(count);
        }
    }
}
