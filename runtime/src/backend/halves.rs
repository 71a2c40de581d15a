//! A connection whose halves are made apart and held together until somebody splits it.

use super::{Bytes, RecvHalf, SendHalf, Stream};
use std::{future::Future, io};

/// Two halves as one connection. The receiving half is dropped first.
#[derive(Debug)]
pub struct Halves<R, S> {
    recv: R,
    send: S,
}

impl<R, S> Halves<R, S> {
    /// The connection that has these halves.
    pub fn new(recv: R, send: S) -> Self {
        Self { recv, send }
    }
}

impl<R: RecvHalf, S> RecvHalf for Halves<R, S> {
    type Lease = R::Lease;

    fn recv(&mut self) -> impl Future<Output = io::Result<R::Lease>> {
        self.recv.recv()
    }
}

impl<R, S: SendHalf> SendHalf for Halves<R, S> {
    fn send_all<B: Bytes>(&mut self, bytes: B) -> impl Future<Output = (io::Result<()>, B)> {
        self.send.send_all(bytes)
    }

    fn shutdown_write(&mut self) -> impl Future<Output = io::Result<()>> {
        self.send.shutdown_write()
    }
}

impl<R: RecvHalf + 'static, S: SendHalf + 'static> Stream for Halves<R, S> {
    type Recv = R;
    type Send = S;

    fn into_split(self) -> (R, S) {
        (self.recv, self.send)
    }
}
