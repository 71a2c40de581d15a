//! A descriptor one thread sleeps on and others make readable.
//!
//! A socket pair rather than an eventfd: every engine can read a stream socket, and macOS has it too.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use crate::socket;
use crate::sys::os;

/// Makes the two ends: nonblocking, closed on exec.
///
/// # Errors
/// The operating system's (socketpair(2)): no descriptors left, mostly.
pub fn pair() -> io::Result<(WakeReader, Waker)> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    writer.set_nonblocking(true)?;
    os::socket::never_raise_sigpipe(&writer)?;
    Ok((WakeReader(reader), Waker(writer)))
}

/// The end that becomes readable. Convert it into a [`UnixStream`] to give it to an engine.
#[derive(Debug)]
pub struct WakeReader(UnixStream);

impl WakeReader {
    /// Takes out every wake that has arrived and says whether there was one. Afterwards the descriptor is not
    /// readable until the next wake.
    ///
    /// # Errors
    /// The operating system's. Kind `UnexpectedEof` when every [`Waker`] is gone, so that nobody sleeps on a
    /// descriptor that stays readable for ever.
    pub fn drain(&self) -> io::Result<bool> {
        let mut wakes = [0; 64];
        let mut woken = false;
        loop {
            match socket::receive(&self.0, &mut wakes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => woken = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(woken),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl From<WakeReader> for UnixStream {
    fn from(reader: WakeReader) -> Self {
        reader.0
    }
}

impl From<WakeReader> for OwnedFd {
    fn from(reader: WakeReader) -> Self {
        reader.0.into()
    }
}

impl AsFd for WakeReader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for WakeReader {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The end that wakes, from any thread.
#[derive(Debug)]
pub struct Waker(UnixStream);

impl Waker {
    /// Makes the reader readable with one byte. A full socket counts as done: the reader has wakes to read.
    ///
    /// # Errors
    /// The operating system's; see [`socket::is_peer_gone`] for a reader that is no more.
    pub fn wake(&self) -> io::Result<()> {
        loop {
            match socket::send(&self.0, &[1]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_is_read_once() {
        let (reader, waker) = pair().unwrap();
        assert!(!reader.drain().unwrap());
        waker.wake().unwrap();
        waker.wake().unwrap();
        assert!(reader.drain().unwrap());
        assert!(!reader.drain().unwrap());
    }

    #[test]
    fn waking_a_full_descriptor_succeeds() {
        let (reader, waker) = pair().unwrap();
        for _ in 0..1_000_000 {
            waker.wake().unwrap();
        }
        assert!(reader.drain().unwrap());
    }

    #[test]
    fn each_end_notices_that_the_other_is_gone() {
        let (reader, waker) = pair().unwrap();
        drop(waker);
        assert_eq!(
            reader.drain().unwrap_err().kind(),
            io::ErrorKind::UnexpectedEof
        );
        let (reader, waker) = pair().unwrap();
        drop(reader);
        assert!(socket::is_peer_gone(&waker.wake().unwrap_err()));
    }

    #[test]
    fn another_thread_wakes_a_blocked_reader() {
        use std::io::Read;
        let (reader, waker) = pair().unwrap();
        let mut stream = UnixStream::from(reader);
        stream.set_nonblocking(false).unwrap();
        let thread = std::thread::spawn(move || waker.wake().unwrap());
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        thread.join().unwrap();
    }
}
