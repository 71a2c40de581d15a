//! Connecting: each address in turn, within one deadline. How one of them is connected is the engine's.

use super::ConnectOptions;
use crate::{address::Address, options::StreamOptions, time};
use shardloop_platform::socket::is_in_progress;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::{io, path::Path};

/// What `connect` gives for the first of `addresses` that it reaches.
pub(super) async fn first<S>(
    addresses: &[Address],
    options: &ConnectOptions,
    connect: impl AsyncFn(&Address, &StreamOptions) -> io::Result<S>,
) -> io::Result<S> {
    let attempt = async {
        let mut last = io::Error::new(io::ErrorKind::InvalidInput, "no address to connect to");
        for address in addresses {
            match connect(address, &options.stream).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    };
    time::timeout(options.deadline, attempt)
        .await
        .unwrap_or_else(|_| {
            let text = format!("no connection within {:?}", options.deadline);
            Err(io::Error::new(io::ErrorKind::TimedOut, text))
        })
}

/// A socket that is connected to `address`, set to `options` and nonblocking. `writable` waits until it can be written to, or has
/// failed, as the engine does that.
pub(super) async fn connect(
    address: &Address,
    options: &StreamOptions,
    writable: impl AsyncFnOnce(&Socket) -> io::Result<()>,
) -> io::Result<Socket> {
    let (socket, address) = self::socket(address, options)?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address) {
        Ok(()) => return Ok(socket),
        Err(error) if is_in_progress(&error) => {}
        Err(error) => return Err(error),
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
