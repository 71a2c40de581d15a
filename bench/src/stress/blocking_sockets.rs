//! 3: a socket that was made to block does not stop its shard: TCP, UDP and Unix, connections and listeners, with and without data.

use super::{
    Engine, client,
    oracle::ticker::{Times, tick},
    service::{self, STREAM},
    trial::Trial,
};
use anyhow::{Context, ensure};
use shardloop::{
    Batch, Datagram, Either, Listener, Plan, RecvHalf, SendHalf, Shard, StreamOptions, launch,
    race, time,
};
use std::{
    future::Future,
    io::Write,
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        fd::OwnedFd,
        unix::net::{UnixListener, UnixStream},
    },
    time::Duration,
};

/// Of the ticker.
const PERIOD: Duration = Duration::from_millis(10);
/// A tick later than this says that the shard stood still.
const LATEST: Duration = Duration::from_millis(500);
/// Waits without data: six kinds.
const KINDS: u32 = 6;

pub(crate) fn run<B: Engine>(trial: &mut Trial) -> anyhow::Result<()> {
    let length = trial.length(Duration::from_secs(12));
    let (hold, lateness) = (length / KINDS, Times::new()?);
    let service = {
        let lateness = lateness.clone();
        async move |shard: Shard<B>| {
            let ticker = shard.spawn(tick(PERIOD, lateness.clone()));
            let result = all::<B>(hold).await.map_err(|error| format!("{error:#}"));
            ticker.cancel().await;
            result
        }
    };
    let running = launch::<B, _>(Plan::new(1), service)?;
    let report = service::finish_by_itself(trial, running);
    match &report.shards[0].result {
        Ok(Ok(())) => {}
        Ok(Err(error)) => trial.require(false, || error.clone()),
        Err(error) => trial.require(false, || error.to_string()),
    }
    trial.note("sockets", KINDS);
    trial.note("ticks", lateness.count());
    trial.note_rounded("tick_lateness_ms_p99", lateness.ms_at(0.99));
    trial.note_rounded("tick_lateness_ms_max", lateness.ms_max());
    trial.require(lateness.count() > 0, || {
        "the ticker never ticked".to_owned()
    });
    trial.require_in_time(lateness.ms_max() < LATEST.as_secs_f64() * 1e3, || {
        format!(
            "a tick was {:.0} ms late, at most {} ms is allowed",
            lateness.ms_max(),
            LATEST.as_millis()
        )
    });
    Ok(())
}

async fn all<B: Engine>(hold: Duration) -> anyhow::Result<()> {
    super::trial::say("a TCP listener and a connection");
    tcp::<B>(hold).await?;
    super::trial::say("a datagram socket");
    datagrams::<B>(hold).await?;
    super::trial::say("a Unix listener and a connection");
    unix::<B>(hold).await
}

/// Waits for what cannot come for as long as `hold`.
async fn nothing_comes<T>(hold: Duration, future: impl Future<Output = T>) -> anyhow::Result<()> {
    match race(future, time::sleep(hold)).await {
        Either::Left(_) => anyhow::bail!("something came out of a socket that nobody sent to"),
        Either::Right(()) => Ok(()),
    }
}

/// With data ready, without, and with data again.
async fn receives<S: RecvHalf + SendHalf>(
    mut stream: S,
    mut peer: impl Write,
    hold: Duration,
) -> anyhow::Result<S> {
    peer.write_all(b"ready")?;
    ensure!(&*stream.recv().await? == b"ready", "wrong bytes came");
    nothing_comes(hold, stream.recv()).await?;
    peer.write_all(b"again")?;
    ensure!(
        &*stream.recv().await? == b"again",
        "wrong bytes came after a wait"
    );
    Ok(stream)
}

async fn tcp<B: Engine>(hold: Duration) -> anyhow::Result<()> {
    let listener = TcpListener::bind(client::anywhere())?;
    let address = listener.local_addr()?;
    let mut listener = B::adopt_listener(listener.into()).context("a blocking listener")?;
    nothing_comes(hold, listener.accept()).await?;
    let peer = TcpStream::connect(address)?;
    let (_accepted, _) = listener.accept().await?;
    // Not the one accepted, which the adapter made: one of our own, both of whose ends block.
    let own = TcpListener::bind(client::anywhere())?;
    let peer_of_own = TcpStream::connect(own.local_addr()?)?;
    let (blocking, _) = own.accept()?;
    let stream = B::adopt_stream(OwnedFd::from(blocking), &STREAM).context("a blocking stream")?;
    let mut stream = receives(stream, &peer_of_own, hold).await?;
    // Nobody reads it: this fills both buffers and waits.
    nothing_comes(hold, stream.send_all(vec![0; 64 << 20])).await?;
    drop(peer);
    Ok(())
}

async fn datagrams<B: Engine>(hold: Duration) -> anyhow::Result<()> {
    let socket = UdpSocket::bind(client::anywhere())?;
    let address = socket.local_addr()?;
    let peer = UdpSocket::bind(client::anywhere())?;
    peer.send_to(b"ready", address)?;
    let mut socket = B::adopt_datagram(socket).context("a blocking datagram socket")?;
    let mut batch = Batch::new(4, 64);
    for wanted in [&b"ready"[..], b"again"] {
        socket.recv(&mut batch).await?;
        let first = batch.iter_mut().next().map(|first| first.bytes.to_vec());
        ensure!(first.as_deref() == Some(wanted), "a wrong datagram came");
        if wanted == b"ready" {
            nothing_comes(hold, socket.recv(&mut batch)).await?;
            peer.send_to(b"again", address)?;
        }
    }
    Ok(())
}

async fn unix<B: Engine>(hold: Duration) -> anyhow::Result<()> {
    let name = format!("shardloop-stress-{}.sock", std::process::id());
    let path = std::env::temp_dir().join(name);
    let listener = UnixListener::bind(&path)?;
    let mut listener = B::adopt_listener(listener.into()).context("a blocking Unix listener")?;
    let waited = nothing_comes(hold, listener.accept()).await;
    let connected = UnixStream::connect(&path);
    std::fs::remove_file(&path)?;
    waited?;
    let _peer = connected?;
    let _accepted = listener.accept().await?;
    let options = StreamOptions {
        nodelay: false,
        send_buffer_bytes: None,
        receive_buffer_bytes: None,
    };
    let (blocking, peer) = UnixStream::pair()?;
    let stream = B::adopt_stream(OwnedFd::from(blocking), &options).context("a Unix stream")?;
    receives(stream, &peer, hold).await.map(drop)
}
