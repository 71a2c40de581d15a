//! A tokio socket as a `Stream`: what lets the pool run the very functions that shards run.
//!
//! Receive buffers follow the same size rule as a shard's. They come from a free list of the worker thread, and a connection that has
//! nothing to receive holds none: tokio is told of readiness first, so it need not. That is what a well-written tokio server gets.

use shardloop::{
    Bytes, Halves, RecvHalf, SendHalf,
    lease::{Class, Loan, Sizing},
};
use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWriteExt, ReadBuf},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

thread_local! {
    static FREE: RefCell<[Vec<Vec<u8>>; Class::BYTES.len()]> = const { RefCell::new([const { Vec::new() }; Class::BYTES.len()]) };
}

/// Free buffers of each size that a worker thread keeps.
const KEPT: usize = 64;

fn size_index(bytes: usize) -> Option<usize> {
    Class::BYTES.iter().position(|size| *size == bytes)
}

fn take(class: Class) -> Vec<u8> {
    let kept =
        size_index(class.bytes()).and_then(|index| FREE.with_borrow_mut(|free| free[index].pop()));
    kept.unwrap_or_else(|| vec![0; class.bytes()])
}

fn give_back(buffer: Vec<u8>) {
    // A thread that is going away has no list any more; the buffer is freed then.
    let _ = FREE.try_with(|free| {
        let mut free = free.borrow_mut();
        if let Some(list) = size_index(buffer.len()).map(|index| &mut free[index])
            && list.len() < KEPT
        {
            list.push(buffer);
        }
    });
}

/// A connection of the pool.
pub(crate) type PoolStream = Halves<PoolRecv, PoolSend>;

/// Makes a tokio socket one.
pub(crate) fn adopt(stream: TcpStream) -> PoolStream {
    let (read, write) = stream.into_split();
    let recv = PoolRecv {
        half: read,
        sizing: Sizing::default(),
    };
    Halves::new(recv, PoolSend { half: write })
}

/// Its receiving half.
#[derive(Debug)]
pub(crate) struct PoolRecv {
    half: OwnedReadHalf,
    sizing: Sizing,
}

impl PoolRecv {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Loan>> {
        let class = self.sizing.class();
        let mut memory = take(class);
        let mut buffer = ReadBuf::new(&mut memory);
        let poll = Pin::new(&mut self.half).poll_read(cx, &mut buffer);
        let filled = buffer.filled().len();
        if !matches!(poll, Poll::Ready(Ok(()))) {
            give_back(memory);
            ready!(poll)?;
            return Poll::Pending;
        }
        self.sizing.learn(class, filled);
        Poll::Ready(Ok(Loan::new(memory, filled, give_back)))
    }
}

impl RecvHalf for PoolRecv {
    type Lease = Loan;

    fn recv(&mut self) -> impl Future<Output = io::Result<Loan>> {
        poll_fn(|cx| self.poll_recv(cx))
    }
}

/// Its sending half.
#[derive(Debug)]
pub(crate) struct PoolSend {
    half: OwnedWriteHalf,
}

impl SendHalf for PoolSend {
    async fn send_all<B: Bytes>(&mut self, bytes: B) -> (io::Result<()>, B) {
        (self.half.write_all(bytes.as_slice()).await, bytes)
    }

    async fn shutdown_write(&mut self) -> io::Result<()> {
        self.half.shutdown().await
    }
}
