//! Waiting on glommio until a socket of any kind is ready.
//!
//! glommio waits for readiness in its streams only, and these receive as soon as it is there, which would take a datagram. So a wait
//! has an epoll instance that watches the socket, and the stream is made of that: its receive fails on what is no socket, takes
//! nothing, and says that the time has come. Such a stream waits once, so there is one for each wait; it takes four system calls.
//!
//! Who owns what: the stream owns the epoll instance, and is kept if the future that waits is dropped, so that the next wait goes on
//! with it. It may then be ready for something that is over: whoever waits tries again and waits again.

use super::stream::engine;
use futures_io::AsyncRead;
use glommio::net::TcpStream;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use std::{future::poll_fn, io, os::fd::AsFd, pin::Pin};

/// Waits for one direction of one socket.
#[derive(Debug)]
pub(super) struct Readiness {
    direction: EpollFlags,
    watch: Option<TcpStream>,
}

impl Readiness {
    /// For something to receive, or to accept.
    pub(super) fn to_receive() -> Self {
        Self {
            direction: EpollFlags::EPOLLIN,
            watch: None,
        }
    }

    /// For room to send, or the end of connecting.
    pub(super) fn to_send() -> Self {
        Self {
            direction: EpollFlags::EPOLLOUT,
            watch: None,
        }
    }

    /// Waits until `socket`, which must be the same each time, is ready or has failed. May return too early.
    ///
    /// # Errors
    /// For want of descriptors.
    pub(super) async fn wait(&mut self, socket: impl AsFd) -> io::Result<()> {
        let watch = match &mut self.watch {
            Some(watch) => watch,
            none => {
                let Epoll(epoll) = self::watch(socket, self.direction)?;
                none.insert(engine(epoll))
            }
        };
        // The answer is always the same error (ENOTSOCK), once the epoll instance has something to say.
        let _ = poll_fn(|cx| Pin::new(&mut *watch).poll_read(cx, &mut [])).await;
        self.watch = None;
        Ok(())
    }
}

fn watch(socket: impl AsFd, direction: EpollFlags) -> nix::Result<Epoll> {
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.add(socket, EpollEvent::new(direction, 0))?;
    Ok(epoll)
}
