//! Connecting: each address in turn, within one deadline. How one of them is connected is the engine's.

use super::ConnectOptions;
use crate::{address::Address, options::StreamOptions, time};
use shardloop_platform::socket::{UnixBindCause, is_in_progress, unix_path};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{error::Error, fmt, io, path::Path, time::Duration};

/// What `connect` gives for the first of `addresses` that it reaches.
pub(super) async fn first<S>(
    addresses: &[Address],
    options: &ConnectOptions,
    connect: impl AsyncFn(&Address, &StreamOptions) -> io::Result<S>,
) -> io::Result<S> {
    let began = time::now();
    let mut tried = Vec::new();
    for (left, address) in (1..=addresses.len()).rev().zip(addresses) {
        let spent = time::now().saturating_duration_since(began);
        // An address that never answers is not to eat what those behind it need.
        let share =
            options.deadline.saturating_sub(spent) / u32::try_from(left).unwrap_or(u32::MAX);
        let attempt = async {
            possible(address)?;
            connect(address, &options.stream).await
        };
        match time::timeout(share, attempt).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => tried.push((address.clone(), error)),
            Err(_) => tried.push((address.clone(), no_answer(share))),
        }
    }
    match tried.len() {
        0 => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no address to connect to",
        )),
        // Whoever gave one address knows it, and may want the system's own error.
        1 => Err(tried.remove(0).1),
        last => Err(io::Error::new(tried[last - 1].1.kind(), Unreached(tried))),
    }
}

fn no_answer(within: Duration) -> io::Error {
    let text = format!("no connection within {within:?}");
    io::Error::new(io::ErrorKind::TimedOut, text)
}

/// An address that no socket can have is not asked of the system: it would cut a path at a zero byte and take what is left.
fn possible(address: &Address) -> io::Result<()> {
    let Address::Unix(path) = address else {
        return Ok(());
    };
    let path = path.as_deref().unwrap_or(Path::new(""));
    unix_path(path).map_err(|cause| {
        let text = match cause {
            UnixBindCause::PathTooLong => "the path is longer than the address of a socket can be",
            _ => "the path is empty or has a zero byte in it, so no socket can be there",
        };
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

/// None of several addresses was reached: each of them, and what came of it.
#[derive(Debug)]
struct Unreached(Vec<(Address, io::Error)>);

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "none of {} addresses was reached", self.0.len())?;
        let mut before = ": ";
        for (address, error) in &self.0 {
            write!(f, "{before}{address}: {error}")?;
            before = "; ";
        }
        Ok(())
    }
}

impl Error for Unreached {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        let (_, last) = self.0.last()?;
        Some(last)
    }
}

/// Pauses before a server at a path, whose backlog is full, is asked again. Linux answers EAGAIN at once then, and nothing tells when
/// there is room (unix(7)); with TCP the system itself asks again.
const FULL_FIRST: Duration = Duration::from_millis(1);
const FULL_MOST: Duration = Duration::from_millis(64);

/// A socket that is connected to `address`, set to `options` and nonblocking. `writable` waits until it can be written to, or has
/// failed, as the engine does that.
pub(super) async fn connect(
    address: &Address,
    options: &StreamOptions,
    writable: impl AsyncFnOnce(&Socket) -> io::Result<()>,
) -> io::Result<Socket> {
    let is_path = matches!(address, Address::Unix(_));
    let (socket, address) = self::socket(address, options)?;
    socket.set_nonblocking(true)?;
    let mut pause = FULL_FIRST;
    loop {
        match socket.connect(&address) {
            Ok(()) => return Ok(socket),
            Err(error) if is_in_progress(&error) => break,
            Err(error) if is_path && error.kind() == io::ErrorKind::WouldBlock => {
                time::sleep(pause).await;
                pause = (pause * 2).min(FULL_MOST);
            }
            Err(error) => return Err(error),
        }
    }
    writable(&socket).await?;
    match socket.take_error()? {
        Some(error) => Err(error),
        None => Ok(socket),
    }
}

/// A socket that can be connected to `address`, set to `options`, and that address as the system knows it.
fn socket(address: &Address, options: &StreamOptions) -> io::Result<(Socket, SockAddr)> {
    match address {
        Address::Inet(address) => {
            let domain = Domain::for_address(*address);
            let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
            options.apply(&socket)?;
            Ok((socket, SockAddr::from(*address)))
        }
        Address::Unix(path) => {
            let path = path.as_deref().unwrap_or(Path::new(""));
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            let options = StreamOptions {
                nodelay: false,
                ..*options
            };
            options.apply(&socket)?;
            Ok((socket, SockAddr::unix(path)?))
        }
    }
}
