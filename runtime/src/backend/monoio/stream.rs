//! A connection on monoio.
//!
//! # Who owns what
//! The receiving half lives in a boxed future of its own, the *pump*, for as long as the connection: it submits a receive when it is
//! polled for one, and keeps it when whoever polled goes away. So a dropped `recv` loses nothing, and the box is made once per
//! connection, not once per receive. The pump hands each result over in its slot before it returns to its caller.
//!
//! The buffer of a receive belongs to the engine until its completion was seen: monoio keeps it when the operation is dropped.
//!
//! # Idle connections
//! A receive has to be given its buffer up front, and a connection that was busy has a large one. If nothing arrives between two
//! sweeps of the shard, the receive is cancelled; the pump submits it again with the smallest buffer. Data that arrives at that very
//! moment completes the receive as usual.

use crate::{
    address::Address,
    backend::{Bytes, Halves, RecvHalf, SendHalf, bytes, dial},
    context,
    executor::{Core, Idle, InFlight, Open},
    lease::{Class, Lease, Sizing, Vacant},
    metrics::Counters,
    options::StreamOptions,
};
use monoio::{
    BufResult,
    buf::{IoBuf, IoBufMut},
    io::{
        AsyncReadRent, AsyncWriteRent, CancelableAsyncReadRent, Canceller, OwnedReadHalf,
        OwnedWriteHalf, Splitable,
    },
};
use shardloop_platform::socket;
use socket2::Socket;
use std::{
    cell::{Cell, RefCell},
    convert::Infallible,
    fmt,
    future::{Future, poll_fn},
    io,
    net::TcpStream,
    os::fd::OwnedFd,
    pin::Pin,
    rc::Rc,
    task::Poll,
};

type Engine = monoio::net::TcpStream;

/// What monoio answers for a cancelled operation: Linux's ECANCELED, on every system.
const CANCELLED: i32 = 125;

/// A TCP or Unix connection of one shard.
pub(super) type MonoioStream = Halves<MonoioRecv, MonoioSend>;

impl MonoioStream {
    pub(super) fn adopt(
        socket: OwnedFd,
        options: &StreamOptions,
        blocking: bool,
    ) -> io::Result<Self> {
        options.apply(&socket)?;
        Self::on(socket, blocking)
    }

    fn on(socket: OwnedFd, blocking: bool) -> io::Result<Self> {
        socket::set_nonblocking(&socket, !blocking)?;
        let stream = engine(socket)?;
        let open = Open::new(context::current());
        let (read, write) = stream.into_split();
        let send = MonoioSend {
            half: write,
            open: open.clone(),
            state: State::Whole,
        };
        Ok(Self::new(MonoioRecv::new(read, open), send))
    }

    pub(super) async fn connect(
        address: &Address,
        options: &StreamOptions,
        blocking: bool,
    ) -> io::Result<Self> {
        // The same socket under a second descriptor, in the one type of the engine that can wait for readiness.
        let writable = async |socket: &Socket| {
            let same = engine(socket.try_clone()?.into())?;
            same.writable(false).await
        };
        let socket = dial::connect(address, options, writable).await?;
        Self::on(socket.into(), blocking)
    }
}

/// The engine's type for any stream socket. It is called after TCP and does nothing that Unix sockets do not know.
pub(super) fn engine(socket: OwnedFd) -> io::Result<Engine> {
    Engine::from_std(TcpStream::from(socket))
}

/// The receiving half.
pub struct MonoioRecv {
    pump: Pin<Box<dyn Future<Output = Infallible>>>,
    slot: Rc<Slot>,
    open: Rc<Open>,
}

impl MonoioRecv {
    fn new(half: OwnedReadHalf<Engine>, open: Rc<Open>) -> Self {
        let slot = Rc::<Slot>::default();
        Self {
            pump: Box::pin(pump(half, open.core().clone(), slot.clone())),
            slot,
            open,
        }
    }
}

impl RecvHalf for MonoioRecv {
    type Lease = Lease;

    fn recv(&mut self) -> impl Future<Output = io::Result<Lease>> {
        poll_fn(|cx| {
            if self.open.core().gives_way(cx) {
                return Poll::Pending;
            }
            let Poll::Pending = self.pump.as_mut().poll(cx);
            let Some(result) = self.slot.result.take() else {
                return Poll::Pending;
            };
            self.open.core().done_at_once();
            Poll::Ready(result)
        })
    }
}

impl fmt::Debug for MonoioRecv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MonoioRecv").finish_non_exhaustive()
    }
}

/// Where a pump and its connection meet.
#[derive(Default)]
struct Slot {
    result: Cell<Option<io::Result<Lease>>>,
    /// Cancels the receive that is under way with a large buffer. Made once it is needed, used for many receives.
    canceller: RefCell<Option<Canceller>>,
    /// Receives begun with a large buffer, so that a sweep sees whether anything happened since the last.
    begun: Cell<u64>,
    begun_at_sweep: Cell<u64>,
    waiting: Cell<bool>,
    listed: Cell<bool>,
    shrunk: Cell<bool>,
}

impl Idle for Slot {
    fn sweep(&self, counters: &Counters) -> bool {
        let happened = self.begun_at_sweep.replace(self.begun.get()) != self.begun.get();
        let again = self.waiting.get() && happened;
        if self.waiting.get() && !happened {
            self.shrink(counters);
        }
        self.listed.set(again);
        again
    }
}

impl Slot {
    fn shrink(&self, counters: &Counters) {
        if let Some(canceller) = self.canceller.take() {
            counters.receives_shrunk.add(1);
            self.shrunk.set(true);
            self.canceller.replace(Some(canceller.cancel()));
        }
    }
}

/// Receives for ever, one result per poll that finds one.
async fn pump(mut half: OwnedReadHalf<Engine>, core: Rc<Core>, slot: Rc<Slot>) -> Infallible {
    let mut sizing = Sizing::default();
    loop {
        let vacant = core.pool().take(sizing.class());
        let (result, Filling(vacant)) = if vacant.class() == Class::SMALLEST {
            receive_into(&mut half, Filling(vacant)).await
        } else {
            receive_large(&mut half, Filling(vacant), &core, &slot).await
        };
        match result {
            Ok(filled) => {
                sizing.learn(vacant.class(), filled);
                slot.result.set(Some(Ok(vacant.filled(filled))));
            }
            Err(error) if error.raw_os_error() == Some(CANCELLED) && slot.shrunk.take() => {
                sizing.reset();
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => slot.result.set(Some(Err(error))),
        }
        returned().await;
    }
}

/// Gives control back to the caller, who takes the result and comes again when it wants the next.
async fn returned() {
    let mut been = false;
    poll_fn(|_| {
        if std::mem::replace(&mut been, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// A receive that a sweep may cancel.
async fn receive_large(
    half: &mut OwnedReadHalf<Engine>,
    buffer: Filling,
    core: &Core,
    slot: &Rc<Slot>,
) -> BufResult<usize, Filling> {
    if !slot.listed.replace(true) {
        core.add_idle(slot.clone());
    }
    slot.begun.set(slot.begun.get() + 1);
    slot.waiting.set(true);
    let handle = slot.canceller.borrow_mut().get_or_insert_default().handle();
    let result = half.cancelable_read(buffer, handle).await;
    slot.waiting.set(false);
    if result.0.is_ok() {
        slot.shrunk.set(false);
    }
    result
}

/// A receive that keeps its buffer however long it takes.
pub(super) fn receive_into<R: AsyncReadRent>(
    stream: &mut R,
    buffer: Filling,
) -> impl Future<Output = BufResult<usize, Filling>> {
    stream.read(buffer)
}

/// A buffer as monoio sees it while it receives.
pub(super) struct Filling(pub(super) Vacant);

// SAFETY: the pointer and the length are those of one buffer whose address stays the same while the value moves.
unsafe impl IoBufMut for Filling {
    fn write_ptr(&mut self) -> *mut u8 {
        self.0.bytes_mut().as_mut_ptr()
    }

    fn bytes_total(&mut self) -> usize {
        self.0.bytes_mut().len()
    }

    unsafe fn set_init(&mut self, _count: usize) {
        // The buffer was initialised when it was made; how much was received is in the result.
    }
}

/// The sending half.
pub struct MonoioSend {
    half: OwnedWriteHalf<Engine>,
    open: Rc<Open>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Everything that was to be sent was sent.
    Whole,
    /// A send is under way, was dropped under way, or has failed.
    Midway,
}

impl SendHalf for MonoioSend {
    async fn send_all<B: Bytes>(&mut self, bytes: B) -> (io::Result<()>, B) {
        if self.state == State::Midway {
            return (Err(bytes::dropped_midway()), bytes);
        }
        let all = bytes.as_slice().len();
        if all == 0 {
            return (Ok(()), bytes);
        }
        let sending = Sending {
            bytes,
            sent: 0,
            _in_flight: self.open.core().send_in_flight(),
        };
        // Nothing is under way yet: dropped here, the connection is still whole.
        self.open.core().give_way().await;
        self.state = State::Midway;
        let (result, mut sending) = self.half.write(sending).await;
        let (result, sending) = match result {
            Ok(sent) if sent == all => (Ok(()), sending),
            // Boxed, so that a connection has no room for it that it hardly ever needs.
            Ok(sent) => {
                sending.sent = sent;
                Box::pin(send_rest(&mut self.half, sending)).await
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                Box::pin(send_rest(&mut self.half, sending)).await
            }
            Err(error) => (Err(error), sending),
        };
        // After an error nobody knows how much of it the peer has.
        if result.is_ok() {
            self.state = State::Whole;
        }
        self.open.core().done_at_once();
        (result, sending.bytes)
    }

    fn shutdown_write(&mut self) -> impl Future<Output = io::Result<()>> {
        self.half.shutdown()
    }
}

impl fmt::Debug for MonoioSend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MonoioSend")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// Sends what is left.
async fn send_rest<B: Bytes>(
    half: &mut OwnedWriteHalf<Engine>,
    mut sending: Sending<B>,
) -> (io::Result<()>, Sending<B>) {
    while sending.bytes_init() > 0 {
        let (result, back) = half.write(sending).await;
        sending = back;
        match result {
            Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), sending),
            Ok(sent) => sending.sent += sent,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (Err(error), sending),
        }
    }
    (Ok(()), sending)
}

/// Bytes that the engine is given at once. A length has 32 bits in io_uring, and monoio drops the others; no system sends more than
/// 2 GiB in one call anyway.
const PIECE_BYTES: usize = 1 << 30;

/// What is to be sent next of `all` bytes, of which `sent` are: where it begins, and how much it is.
fn piece(all: usize, sent: usize) -> (usize, usize) {
    let start = sent.min(all);
    (start, (all - start).min(PIECE_BYTES))
}

/// The application's bytes while the engine may read them. What it sees of them is the next piece.
struct Sending<B> {
    bytes: B,
    sent: usize,
    _in_flight: InFlight,
}

// SAFETY: `Bytes` promises an address that stays the same while the value moves; start and length are of a part of that slice.
unsafe impl<B: Bytes> IoBuf for Sending<B> {
    fn read_ptr(&self) -> *const u8 {
        let bytes = self.bytes.as_slice();
        bytes[piece(bytes.len(), self.sent).0..].as_ptr()
    }

    fn bytes_init(&self) -> usize {
        piece(self.bytes.as_slice().len(), self.sent).1
    }
}

#[cfg(test)]
mod tests {
    use super::piece;

    #[test]
    fn pieces_follow_each_other_to_the_end_and_fit_into_what_an_engine_counts_with() {
        for all in [1, (1 << 30) - 1, 1 << 30, 1 << 31, 1 << 32, (5 << 30) + 7] {
            let mut sent = 0;
            while sent < all {
                let (start, bytes) = piece(all, sent);
                assert_eq!(start, sent);
                assert!(
                    bytes > 0 && i32::try_from(bytes).is_ok(),
                    "{bytes} of {all}"
                );
                sent += bytes;
            }
            assert_eq!((sent, piece(all, sent).1), (all, 0));
        }
    }
}
