//! A connection on glommio.
//!
//! # Who owns what
//! Both halves share one of glommio's streams; nobody borrows it beyond a poll. A receive tries at once and then waits for readiness;
//! it takes a buffer from the shard's pool for the attempt only. So a dropped `recv` loses nothing, no operation holds a buffer, and an
//! idle connection has none. A send tries at once, too, and nothing of the application's is read after it returned.
//!
//! glommio watches for the next bytes as soon as a receive did not fill its buffer. What it watches is the open socket: that is closed
//! when the engine has let go of it, one turn after the stream was dropped.

use super::readiness::Readiness;
use crate::{
    address::Address,
    backend::{Bytes, Halves, RecvHalf, SendHalf, bytes, dial},
    context,
    executor::Open,
    lease::{Lease, Sizing},
    options::StreamOptions,
};
use futures_io::{AsyncRead, AsyncWrite};
use shardloop_platform::socket;
use socket2::{SockRef, Socket};
use std::{
    cell::RefCell,
    fmt,
    future::poll_fn,
    io,
    net::Shutdown,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

type Engine = glommio::net::TcpStream;

/// The engine's type for any stream socket: it is called after TCP and does nothing that other descriptors do not know.
pub(super) fn engine(socket: OwnedFd) -> Engine {
    // SAFETY: the descriptor is open, and nobody else owns it from here on.
    unsafe { Engine::from_raw_fd(socket.into_raw_fd()) }
}

/// A TCP or Unix connection of one shard.
pub(super) type GlommioStream = Halves<GlommioRecv, GlommioSend>;

impl GlommioStream {
    pub(super) fn adopt(socket: OwnedFd, options: &StreamOptions) -> io::Result<Self> {
        options.apply(&socket)?;
        Ok(Self::on(socket))
    }

    /// Whether the socket blocks does not matter: no call on it ever waits.
    fn on(socket: OwnedFd) -> Self {
        let engine = Rc::new(RefCell::new(engine(socket)));
        let open = Open::new(context::current());
        let send = GlommioSend {
            engine: engine.clone(),
            state: State::Whole,
            open: open.clone(),
        };
        let recv = GlommioRecv {
            engine,
            open,
            sizing: Sizing::default(),
        };
        Self::new(recv, send)
    }

    pub(super) async fn connect(address: &Address, options: &StreamOptions) -> io::Result<Self> {
        let writable = async |socket: &Socket| Readiness::to_send().wait(socket).await;
        let socket = dial::connect(address, options, writable).await?;
        Ok(Self::on(socket.into()))
    }
}

/// The receiving half.
pub struct GlommioRecv {
    engine: Rc<RefCell<Engine>>,
    open: Rc<Open>,
    sizing: Sizing,
}

impl GlommioRecv {
    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Lease>> {
        let core = self.open.core();
        if core.gives_way(cx) {
            return Poll::Pending;
        }
        let mut vacant = core.pool().take(self.sizing.class());
        loop {
            let mut engine = self.engine.borrow_mut();
            match Pin::new(&mut *engine).poll_read(cx, vacant.bytes_mut()) {
                Poll::Ready(Ok(filled)) => {
                    core.done_at_once();
                    self.sizing.learn(vacant.class(), filled);
                    return Poll::Ready(Ok(vacant.filled(filled)));
                }
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl RecvHalf for GlommioRecv {
    type Lease = Lease;

    fn recv(&mut self) -> impl Future<Output = io::Result<Lease>> {
        poll_fn(|cx| self.poll_recv(cx))
    }
}

impl fmt::Debug for GlommioRecv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlommioRecv").finish_non_exhaustive()
    }
}

/// The sending half.
pub struct GlommioSend {
    engine: Rc<RefCell<Engine>>,
    state: State,
    open: Rc<Open>,
}

impl fmt::Debug for GlommioSend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlommioSend")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Everything that was to be sent was sent.
    Whole,
    /// A send is under way, was dropped under way, or has failed.
    Midway,
}

/// Ends what is sent, as long as the receiving half is there; the end of both closes the connection anyway.
impl Drop for GlommioSend {
    fn drop(&mut self) {
        if Rc::strong_count(&self.engine) > 1 {
            let engine = self.engine.borrow();
            // SAFETY: the stream owns the descriptor, and is borrowed for longer than this.
            let descriptor = unsafe { BorrowedFd::borrow_raw(engine.as_raw_fd()) };
            // It fails if the connection has ended: there is nothing to tell anybody then.
            let _ = SockRef::from(&descriptor).shutdown(Shutdown::Write);
        }
    }
}

impl GlommioSend {
    fn poll_send(&self, bytes: &[u8], cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut engine = self.engine.borrow_mut();
        // SAFETY: the stream owns the descriptor, and is borrowed for longer than this.
        let descriptor = unsafe { BorrowedFd::borrow_raw(engine.as_raw_fd()) };
        match socket::send(descriptor, bytes) {
            // The engine tries once more before it waits; it is asked only now because its own attempt may raise SIGPIPE.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Pin::new(&mut *engine).poll_write(cx, bytes)
            }
            sent => Poll::Ready(sent),
        }
    }

    async fn send(&self, mut rest: &[u8]) -> io::Result<()> {
        while !rest.is_empty() {
            match poll_fn(|cx| self.poll_send(rest, cx)).await {
                Ok(sent) => rest = &rest[sent..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl SendHalf for GlommioSend {
    async fn send_all<B: Bytes>(&mut self, bytes: B) -> (io::Result<()>, B) {
        if self.state == State::Midway {
            return (Err(bytes::dropped_midway()), bytes);
        }
        // Nothing is under way yet: dropped here, the connection is still whole.
        self.open.core().give_way().await;
        self.state = State::Midway;
        let result = self.send(bytes.as_slice()).await;
        self.open.core().done_at_once();
        // After an error nobody knows how much of it the peer has.
        if result.is_ok() {
            self.state = State::Whole;
        }
        (result, bytes)
    }

    async fn shutdown_write(&mut self) -> io::Result<()> {
        poll_fn(|cx| Pin::new(&mut *self.engine.borrow_mut()).poll_close(cx)).await
    }
}
