//! The null server's UDP socket: datagrams go back to where they came from, as they are.

use super::{
    handler::Job,
    null::{BACK_OFF, NullError},
};
use crate::{
    contract::Buffers,
    udp_socket::{self, options},
};
use mio::{Interest, Registry, Token, net::UdpSocket};
use shardloop_platform::{
    datagram::{Batch, Outgoing, Received, recv_batch, send_batch},
    socket::{bind_datagram, socket_memory},
};
use std::{io, net::SocketAddr, time::Duration};

/// Datagrams of one system call, and calls before the poll has its turn.
const AT_ONCE: usize = 32;
const TURN_CALLS: usize = 8;
/// Room for the largest datagram.
const PIECE_BYTES: usize = 65_527;

/// The socket, and its room.
#[derive(Debug)]
pub(super) struct NullDatagrams {
    socket: UdpSocket,
    pub(super) address: SocketAddr,
    pub(super) granted: Option<Buffers>,
    pieces: Vec<u8>,
    incoming: Batch,
    outgoing: Batch,
    again: bool,
}

impl NullDatagrams {
    pub(super) fn bind(address: SocketAddr, buffers: Buffers) -> Result<Self, NullError> {
        let socket = bind_datagram(&options(address, buffers)).map_err(NullError::Bind)?;
        let address = socket.local_addr().map_err(NullError::Poll)?;
        Ok(Self {
            granted: udp_socket::granted(&socket),
            socket: UdpSocket::from_std(socket),
            address,
            pieces: vec![0; AT_ONCE * PIECE_BYTES],
            incoming: Batch::new(AT_ONCE),
            outgoing: Batch::new(AT_ONCE),
            again: false,
        })
    }

    pub(super) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.socket, token, Interest::READABLE)
    }

    /// How long the poll may wait.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.again.then_some(Duration::ZERO)
    }

    /// Sends back what there is, for a bounded number of calls.
    pub(super) fn turn(&mut self, job: &Job) {
        self.again = false;
        for _ in 0..TURN_CALLS {
            match self.echo_some(job) {
                Ok(count) if count == AT_ONCE => {}
                Ok(_) => return,
                Err(error) => {
                    job.note(format!("the socket broke: {}", error.kind()));
                    std::thread::sleep(BACK_OFF);
                    return;
                }
            }
        }
        self.again = true;
    }

    /// One receive, and what it brought back out again. What the socket does not take at once is dropped, as it would be further on.
    fn echo_some(&mut self, job: &Job) -> io::Result<usize> {
        let pieces = self.pieces.chunks_exact_mut(PIECE_BYTES);
        let came: &[Received] = recv_batch(&self.socket, &mut self.incoming, pieces)?;
        if came.is_empty() {
            return Ok(0);
        }
        job.lanes.message();
        let pieces = self.pieces.chunks_exact(PIECE_BYTES);
        let back = came.iter().zip(pieces).map(|(one, piece)| Outgoing {
            to: Some(one.source),
            bytes: &piece[..one.bytes],
        });
        let sent = send_batch(&self.socket, &mut self.outgoing, back).datagrams;
        job.datagrams.count(came.len() as u64, sent as u64);
        Ok(came.len())
    }

    /// What the kernel dropped at the socket since it exists.
    pub(super) fn dropped(&self) -> Option<u64> {
        socket_memory(&self.socket).ok()?.drops.map(u64::from)
    }
}
