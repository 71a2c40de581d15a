//! A server's connection from its first byte to its end.

use super::{
    Host,
    connection::{Connection, DriveError, Turned},
    yield_once,
};
use crate::machine::{App, StreamMachine, TURN_OUTPUT_BYTES};
use shardloop::{Either, Stream, race};
use std::{io, pin::Pin, pin::pin, time::Duration};

/// After a server has said its last word it reads on for as long, so that the kernel does not throw away what the peer has not read
/// yet (closing with unread input resets the connection, RFC 9293 section 3.6.1).
const LINGER: Duration = Duration::from_secs(1);

/// Serves `machine` on `stream` until the peer closes, the protocol ends, a fault happens, or `host` wants connections to end: then a
/// message that has begun to arrive is awaited and answered, nothing more is taken, and the peer sees an orderly end.
///
/// # Errors
/// Why the connection ended, if it was not in order. It is closed all the same.
pub async fn serve<S: Stream, M: StreamMachine>(
    stream: S,
    machine: M,
    mut app: impl App<M>,
    host: impl Host,
) -> Result<(), DriveError<M::Error>> {
    let mut connection = Connection::new(stream, machine);
    let result = exchange(&mut connection, &mut app, &host).await;
    // The peer may be gone, and then there is nobody to tell.
    let told = connection.shutdown_write().await;
    if result? == End::OnOurSide && told.is_ok() {
        linger(&mut connection, &host).await;
    }
    Ok(())
}

#[derive(PartialEq, Eq)]
enum End {
    /// The peer closed, or the protocol ended.
    OfProtocol,
    /// This side wants to end.
    OnOurSide,
}

async fn exchange<S: Stream, M: StreamMachine>(
    connection: &mut Connection<S, M>,
    app: &mut impl App<M>,
    host: &impl Host,
) -> Result<End, DriveError<M::Error>> {
    let mut stop = pin!(host.stopping());
    let mut stopped = false;
    loop {
        if stopped && connection.unread() == 0 {
            return Ok(End::OnOurSide);
        }
        let turned = match next(connection, host, stop.as_mut(), stopped).await? {
            Event::Received(received) => connection.work_off(host, app, received).await?,
            Event::TimedOut => connection.timed_out(host).await?,
            Event::Stop => {
                stopped = true;
                continue;
            }
        };
        if turned == Turned::Closed {
            return Ok(End::OfProtocol);
        }
    }
}

enum Event<L> {
    Received(super::connection::Received<L>),
    TimedOut,
    Stop,
}

/// Waits for whatever is first. `stop` is left alone once it has completed.
async fn next<S: Stream, M: StreamMachine>(
    connection: &mut Connection<S, M>,
    host: &impl Host,
    mut stop: Pin<&mut impl Future<Output = ()>>,
    stopped: bool,
) -> Result<Event<S::Lease>, DriveError<M::Error>> {
    let timeout = connection.timeout();
    let stop = async {
        match stopped {
            true => std::future::pending().await,
            false => stop.as_mut().await,
        }
    };
    let first = race(connection.receive(), stop);
    let first = match timeout {
        None => first.await,
        Some(at) => match race(first, host.sleep_until(at)).await {
            Either::Left(first) => first,
            Either::Right(()) => return Ok(Event::TimedOut),
        },
    };
    match first {
        Either::Left(received) => received.map(Event::Received),
        Either::Right(()) => Ok(Event::Stop),
    }
}

/// Reads and drops until the peer has closed too.
async fn linger<S: Stream, M: StreamMachine>(connection: &mut Connection<S, M>, host: &impl Host) {
    let until_closed = async {
        while connection
            .receive()
            .await
            .is_ok_and(|received| !received.is_end())
        {}
    };
    let _ = race(until_closed, host.sleep_until(host.now() + LINGER)).await;
}

/// Sends every received buffer back as it is, without a copy (RFC 862). `seen` sees it in between.
///
/// # Errors
/// The stream's.
pub async fn echo<S: Stream>(
    mut stream: S,
    mut seen: impl FnMut(&mut [u8]),
    host: impl Host,
) -> io::Result<()> {
    let mut stop = pin!(host.stopping());
    let mut spent = 0;
    loop {
        let mut lease = match race(stream.recv(), stop.as_mut()).await {
            Either::Left(lease) => lease?,
            Either::Right(()) => break,
        };
        if lease.is_empty() {
            return stream.shutdown_write().await;
        }
        seen(&mut lease);
        spent += lease.len();
        stream.send_all(lease).await.0?;
        if spent >= TURN_OUTPUT_BYTES {
            spent = 0;
            yield_once().await;
        }
    }
    stream.shutdown_write().await?;
    let until_closed = async { while stream.recv().await.is_ok_and(|lease| !lease.is_empty()) {} };
    let _ = race(until_closed, host.sleep_until(host.now() + LINGER)).await;
    Ok(())
}
