//! A connection of a hostile peer: plain, or in TLS with whatever bytes it likes inside.

use super::client;
use crate::contract::Ready;
use anyhow::{Context, ensure};
use shardloop_protocols::{
    Flow, StreamMachine,
    echo::{Echo, Reply},
    tls::{ClientConfig, ClientOptions, Provider, Roots, Tls},
};
use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Instant,
};

/// How its TLS is configured; `None` for a protocol without.
pub(super) fn config(ready: &Ready) -> anyhow::Result<Option<ClientConfig>> {
    let Some(ca_pem) = &ready.ca_pem else {
        return Ok(None);
    };
    let roots = Roots::from_pem(ca_pem.as_bytes())?;
    let name = ready.address.ip().to_string();
    let options = ClientOptions::usual(roots, name, Provider::built_in());
    Ok(Some(ClientConfig::new(&options)?))
}

/// What a client of TLS says first.
pub(super) fn hello(config: &ClientConfig) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    let _ = Tls::client(config, Echo)?.start(Instant::now(), &mut out)?;
    Ok(out)
}

/// A connection whose TLS, if there is one, is done.
pub(super) struct Line {
    pub(super) stream: TcpStream,
    tls: Option<Tls<Echo>>,
}

impl Line {
    pub(super) fn new(ready: &Ready, config: Option<&ClientConfig>) -> anyhow::Result<Self> {
        let mut stream = client::connect(ready.address)?;
        let tls = match config {
            Some(config) => Some(shake(&mut stream, config)?),
            None => None,
        };
        Ok(Self { stream, tls })
    }

    /// `bytes` as they go over the wire.
    pub(super) fn wrapped(&mut self, bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
        let Some(tls) = &mut self.tls else {
            return Ok(bytes.to_vec());
        };
        let mut all = Vec::new();
        for piece in bytes.chunks(16 * 1024) {
            let mut out = Vec::new();
            tls.send(Instant::now(), &mut out, |mut reply| reply.send(piece))?;
            all.append(&mut out);
        }
        Ok(all)
    }

    /// Sends `bytes`, and reads until the server has ended the connection, in whatever way; whether it has.
    pub(super) fn provoke(mut self, bytes: &[u8]) -> anyhow::Result<bool> {
        let bytes = self.wrapped(bytes)?;
        // It may end before all of them are sent.
        let _ = self.stream.write_all(&bytes);
        let mut sink = [0; 4096];
        loop {
            match self.stream.read(&mut sink) {
                Ok(0) => return Ok(true),
                Ok(_) => {}
                Err(error) => return Ok(error.kind() != std::io::ErrorKind::WouldBlock),
            }
        }
    }

    /// Reads one answer of a handshake.
    pub(super) fn hear(&mut self) -> anyhow::Result<()> {
        let mut sink = [0; 4096];
        let count = self.stream.read(&mut sink).context("no answer")?;
        ensure!(count > 0, "the server has closed");
        Ok(())
    }
}

/// The handshake.
fn shake(stream: &mut TcpStream, config: &ClientConfig) -> anyhow::Result<Tls<Echo>> {
    let (mut tls, now) = (Tls::client(config, Echo)?, Instant::now());
    let mut out = Vec::new();
    let _ = tls.start(now, &mut out)?;
    stream.write_all(&out)?;
    let mut app = |_: &mut [u8], _: Reply<'_>| Flow::Continue;
    let mut pending = Vec::new();
    while !tls.is_ready() {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).context("no handshake")?;
        ensure!(count > 0, "the server has ended the handshake");
        pending.extend_from_slice(&buffer[..count]);
        out.clear();
        let step = tls.handle(now, &mut pending, &mut app, &mut out)?;
        pending.drain(..step.consumed);
        stream.write_all(&out)?;
    }
    Ok(tls)
}
