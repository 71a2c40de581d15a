//! What a server of each protocol needs besides its sockets, made once and shared by its connections.

use crate::{
    certificates::{Certificates, Unreadable},
    contract::Protocol,
};
use shardloop_protocols::{
    http1,
    tls::{AbruptEnd, ConfigError, Identity, Provider, ServerConfig, ServerOptions},
    websocket,
};
use std::{fmt, path::Path, sync::Arc};

/// The longest WebSocket message that is echoed, in bytes: suites of test cases go up to it.
const WEBSOCKET_BYTES: usize = 16 * 1024 * 1024;

/// What connections are served with.
#[derive(Debug)]
pub(crate) struct Speech {
    pub(crate) protocol: Protocol,
    /// Of the protocols that are encrypted.
    pub(super) tls: Option<ServerConfig>,
    pub(super) websocket: Arc<websocket::ServerOptions>,
    pub(super) http: http1::ServerOptions,
    /// The authority that a client has to trust.
    pub(crate) ca_pem: Option<String>,
}

/// Why a protocol cannot be served.
#[derive(Debug)]
pub(crate) enum Mute {
    /// No certificate could be made.
    Made(rcgen::Error),
    /// A file cannot be read.
    Read(Unreadable),
    /// What is in the files is of no use.
    Config(ConfigError),
}

impl Speech {
    /// Of `protocol`; with the certificates in `folder`, or some made for this server.
    pub(crate) fn new(protocol: Protocol, folder: Option<&Path>) -> Result<Self, Mute> {
        let certificates = match folder {
            _ if !protocol.is_encrypted() => None,
            Some(folder) => Some(Certificates::read(folder).map_err(Mute::Read)?),
            None => Some(Certificates::made().map_err(Mute::Made)?),
        };
        let tls = certificates
            .as_ref()
            .map(|certificates| server_config(protocol, certificates));
        let limits = websocket::Limits {
            frame_bytes: WEBSOCKET_BYTES,
            message_bytes: WEBSOCKET_BYTES,
            ..websocket::Limits::default()
        };
        Ok(Self {
            protocol,
            tls: tls.transpose().map_err(Mute::Config)?,
            websocket: Arc::new(websocket::ServerOptions {
                limits,
                ..websocket::ServerOptions::default()
            }),
            http: http1::ServerOptions::default(),
            ca_pem: certificates.map(|certificates| certificates.ca_pem),
        })
    }
}

fn server_config(
    protocol: Protocol,
    certificates: &Certificates,
) -> Result<ServerConfig, ConfigError> {
    let Certificates {
        chain_pem, key_pem, ..
    } = certificates;
    let identity = Identity::from_pem(chain_pem.as_bytes(), key_pem.as_bytes())?;
    // Browsers and tools that could speak HTTP/2 are told that it is not spoken here.
    let protocols = match protocol {
        Protocol::Wss => vec![b"http/1.1".to_vec()],
        // A client that speaks no later version offers none.
        Protocol::Https => vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()],
        _ => Vec::new(),
    };
    // A request says how long it is, so who leaves between two has cut nothing off, and many do without a word.
    let abrupt_end = match protocol {
        Protocol::Https => AbruptEnd::InnerDecides,
        _ => AbruptEnd::Refused,
    };
    ServerConfig::new(&ServerOptions {
        protocols,
        abrupt_end,
        ..ServerOptions::usual(identity, Provider::built_in())
    })
}

impl fmt::Display for Mute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Made(error) => write!(f, "no certificate could be made: {error}"),
            Self::Read(Unreadable { path, error }) => write!(
                f,
                "{} cannot be read ({error}); a folder of certificates has {}",
                path.display(),
                Certificates::FILES.join(", ")
            ),
            Self::Config(error) => write!(f, "the certificates cannot be used: {error}"),
        }
    }
}
