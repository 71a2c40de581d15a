//! The other end: plain blocking sockets of the standard library.

use anyhow::Context;
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// After this long without an answer a connection counts as stuck.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Loopback, any port.
pub(crate) fn anywhere() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// A blocking connection that gives up, with an error, where it would hang.
pub(crate) fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)
        .with_context(|| format!("no connection to {address}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends a few bytes, which any socket buffer takes, and reads them back; how long that took.
pub(crate) fn ping(mut stream: &TcpStream, bytes: &[u8]) -> anyhow::Result<Duration> {
    let (begun, mut back) = (Instant::now(), vec![0; bytes.len()]);
    stream
        .write_all(bytes)
        .context("a ping could not be sent")?;
    stream
        .read_exact(&mut back)
        .context("a ping was not answered")?;
    anyhow::ensure!(back == bytes, "a ping came back changed");
    Ok(begun.elapsed())
}

/// Whether something comes before `deadline`: one byte.
pub(crate) fn answered_by(mut stream: &TcpStream, deadline: Instant) -> bool {
    let left = deadline.saturating_duration_since(Instant::now());
    // Zero would mean for ever.
    let patience = left.max(Duration::from_millis(1));
    stream.set_read_timeout(Some(patience)).is_ok() && stream.read_exact(&mut [0]).is_ok()
}
