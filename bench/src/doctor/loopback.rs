//! One byte there and back over the loopback: that sockets work, and what the machine takes for a round trip between two threads.

use super::facts::RoundTrips;
use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    thread,
    time::{Duration, Instant},
};

/// Round trips of each kind; the median counts.
const TIMES: usize = 300;

/// Longest wait for one of them.
const PATIENCE: Duration = Duration::from_secs(2);

/// Both kinds.
///
/// # Errors
/// Sockets cannot be had or do not answer.
pub(super) fn round_trips() -> io::Result<RoundTrips> {
    Ok(RoundTrips {
        tcp: tcp()?,
        udp: udp()?,
    })
}

fn tcp() -> io::Result<Duration> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut here = TcpStream::connect(listener.local_addr()?)?;
    let (mut there, _) = listener.accept()?;
    for stream in [&here, &there] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
    }
    let echo = thread::spawn(move || -> io::Result<()> {
        let mut byte = [0];
        for _ in 0..TIMES {
            there.read_exact(&mut byte)?;
            there.write_all(&byte)?;
        }
        Ok(())
    });
    let median = median(|| {
        here.write_all(&[1])?;
        here.read_exact(&mut [0])
    });
    drop(here);
    // It ends with the connection; what went wrong there shows here as well.
    let _ = echo.join();
    median
}

fn udp() -> io::Result<Duration> {
    let there = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let here = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    here.connect(there.local_addr()?)?;
    there.connect(here.local_addr()?)?;
    for socket in [&here, &there] {
        socket.set_read_timeout(Some(PATIENCE))?;
    }
    let echo = thread::spawn(move || -> io::Result<()> {
        let mut byte = [0];
        for _ in 0..TIMES {
            there.recv(&mut byte)?;
            there.send(&byte)?;
        }
        Ok(())
    });
    let median = median(|| {
        here.send(&[1])?;
        here.recv(&mut [0]).map(drop)
    });
    let _ = echo.join();
    median
}

fn median(mut round_trip: impl FnMut() -> io::Result<()>) -> io::Result<Duration> {
    let mut times = Vec::with_capacity(TIMES);
    for _ in 0..TIMES {
        let start = Instant::now();
        round_trip()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times[TIMES / 2])
}
