//! Many hostile peers at once.

use super::{
    client,
    line::{Line, config, hello},
    words::{self, Excess},
};
use crate::{
    contract::{Protocol, Ready},
    stress::oracle::seeded::Seeded,
};
use shardloop_protocols::tls::ClientConfig;
use std::{
    io::{ErrorKind, Write},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

/// Bytes that a peer which never reads asks for at most.
const DEAF_BYTES_MOST: usize = 64 << 20;

/// The peers that are there. They stay until the crowd is dropped.
pub(super) struct Crowd {
    ready: Ready,
    config: Option<ClientConfig>,
    /// What a peer says first, whole.
    opening: Vec<u8>,
    slow: Vec<Slow>,
    /// Those of whom nothing more comes.
    others: Vec<TcpStream>,
}

struct Slow {
    stream: TcpStream,
    sent: usize,
}

impl Crowd {
    pub(super) fn new(ready: &Ready) -> anyhow::Result<Self> {
        let config = config(ready)?;
        let opening = match &config {
            Some(config) => hello(config)?,
            None => words::opening(ready.protocol),
        };
        Ok(Self {
            ready: ready.clone(),
            config,
            opening,
            slow: Vec::new(),
            others: Vec::new(),
        })
    }

    pub(super) fn connected(&self) -> usize {
        self.slow.len() + self.others.len()
    }

    /// Peers that send a byte at a time.
    pub(super) fn slow(&mut self, count: usize) -> anyhow::Result<()> {
        for _ in 0..count {
            let stream = client::connect(self.ready.address)?;
            self.slow.push(Slow { stream, sent: 0 });
        }
        Ok(())
    }

    /// The next byte of each.
    pub(super) fn drip(&mut self) -> anyhow::Result<()> {
        for slow in &mut self.slow {
            let Some(byte) = self.opening.get(slow.sent) else {
                continue;
            };
            slow.sent += 1;
            // Once it was refused there is nobody to send it to.
            let _ = slow.stream.write_all(&[*byte]);
        }
        Ok(())
    }

    /// Peers that stop in the middle of what they say first.
    pub(super) fn half_open(&mut self, count: usize) -> anyhow::Result<()> {
        let half = &self.opening[..self.opening.len() / 2];
        for _ in 0..count {
            let mut stream = client::connect(self.ready.address)?;
            stream.write_all(half)?;
            self.others.push(stream);
        }
        Ok(())
    }

    /// Peers that send random bytes.
    pub(super) fn random(&mut self, count: usize) -> anyhow::Result<()> {
        for number in 0..count {
            let mut stream = client::connect(self.ready.address)?;
            let bytes = Seeded::new(number as u64).bytes(64 + number % 2_000);
            // The first of them may be enough to be refused.
            let _ = stream.write_all(&bytes);
            self.others.push(stream);
        }
        Ok(())
    }

    /// Whether the server ends a connection with too much of something.
    pub(super) fn overdo(&self, excess: &Excess) -> anyhow::Result<bool> {
        let config = self.config.as_ref().filter(|_| !excess.outside);
        let mut line = Line::new(&self.ready, config)?;
        if !excess.first.is_empty() {
            let first = line.wrapped(&excess.first)?;
            line.stream.write_all(&first)?;
            line.hear()?;
        }
        line.provoke(&excess.bytes)
    }

    /// Peers that ask for as much as the server takes, and never read.
    pub(super) fn deaf(&mut self, count: usize) -> anyhow::Result<()> {
        let request = words::request(self.ready.protocol);
        for _ in 0..count {
            let mut line = Line::new(&self.ready, self.config.as_ref())?;
            if matches!(self.ready.protocol, Protocol::Ws | Protocol::Wss) {
                let first = line.wrapped(&words::opening(Protocol::Ws))?;
                line.stream.write_all(&first)?;
                line.hear()?;
            }
            line.stream.set_nonblocking(true)?;
            let mut asked = 0;
            while asked < DEAF_BYTES_MOST {
                let bytes = line.wrapped(&request)?;
                asked += bytes.len();
                if !fill(&line.stream, &bytes)? {
                    break;
                }
            }
            self.others.push(line.stream);
        }
        Ok(())
    }
}

/// Sends while the server takes something; whether it took all.
fn fill(mut stream: &TcpStream, mut bytes: &[u8]) -> anyhow::Result<bool> {
    const STUCK: Duration = Duration::from_millis(100);
    let mut last = Instant::now();
    while !bytes.is_empty() {
        match stream.write(bytes) {
            Ok(count) => {
                bytes = &bytes[count..];
                last = Instant::now();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if last.elapsed() > STUCK {
                    return Ok(false);
                }
                thread::sleep(Duration::from_millis(2));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}
