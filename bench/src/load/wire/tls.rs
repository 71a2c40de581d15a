//! `tls`, `wss`, `https`: any of the others in TLS, the server's certificate verified.

use super::{Setup, Wire};
use crate::{contract::TlsSession, load::fault::Wrong};
use shardloop_protocols::tls::{ClientConfig, ClientOptions, Provider, Roots, Tls, TlsError};
use std::{io, net::SocketAddr};

/// How clients check a server at `address`: against the authority `ca_pem` alone. Each connection makes a full handshake.
pub(super) fn config(address: SocketAddr, ca_pem: Option<&str>) -> io::Result<ClientConfig> {
    let wrong = |error: &dyn std::fmt::Display| {
        io::Error::new(io::ErrorKind::InvalidInput, format!("--ca: {error}"))
    };
    let pem = ca_pem.ok_or_else(|| wrong(&"no certificate was given"))?;
    let roots = Roots::from_pem(pem.as_bytes()).map_err(|error| wrong(&error))?;
    let name = address.ip().to_string();
    ClientConfig::new(&ClientOptions {
        resumable_sessions: 0,
        ..ClientOptions::usual(roots, name, Provider::built_in())
    })
    .map_err(|error| wrong(&error))
}

impl<W: Wire> Wire for Tls<W> {
    fn client(setup: &Setup) -> io::Result<Self> {
        let config = setup.tls.as_ref().expect("made for what is encrypted");
        Self::client(config, W::client(setup)?).map_err(io::Error::other)
    }

    fn frame_bytes(_payload_bytes: usize) -> Option<usize> {
        None
    }

    fn payload<'m>(message: Self::Message<'m>) -> Result<&'m [u8], Wrong> {
        W::payload(message)
    }

    fn request(reply: Self::Reply<'_>, payload: &[u8]) {
        W::request(reply, payload);
    }

    fn wrong(error: TlsError<W::Error>) -> Wrong {
        match error {
            TlsError::Inner(error) => W::wrong(error),
            TlsError::Tls(fault) => Wrong::Protocol(format!("TLS: {fault}")),
        }
    }

    fn session(&self) -> Option<TlsSession> {
        Some(TlsSession {
            version: self.version()?.to_owned(),
            cipher_suite: self.cipher_suite()?.to_owned(),
        })
    }
}
