//! What a server and a client offer, ask for and put up with: options, and the handles that connections are made from.

use super::{Identity, Provider, Roots};
use rustls::{
    client::ClientSessionMemoryCache,
    crypto::CryptoProvider,
    pki_types::{ServerName, UnixTime},
    server::{NoServerSessionStorage, ServerSessionMemoryCache, WebPkiClientVerifier},
    sign::SingleCertAndKey,
    time_provider::{DefaultTimeProvider, TimeProvider},
    version::{TLS12, TLS13},
};
use std::{fmt, sync::Arc, time::Duration};

/// What a server does.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Who it is.
    pub identity: Identity,
    /// Whether clients have to show who they are.
    pub client_certificates: ClientCertificates,
    /// Protocols for ALPN (RFC 7301), the preferred first. With none, whatever clients offer is ignored; else a client that offers
    /// only others is refused, and one that offers none at all is not.
    pub protocols: Vec<Vec<u8>>,
    /// Versions it speaks.
    pub versions: Versions,
    /// Whether a client may come back without a full handshake.
    pub resumption: Resumption,
    /// What a connection may cost.
    pub limits: Limits,
    /// What the end of a stream without close_notify means.
    pub abrupt_end: AbruptEnd,
    /// Cryptography and randomness.
    pub provider: Provider,
    /// What the wall clock is asked for: whether certificates of clients are valid, and the age of tickets. `None` is the system's.
    pub wall_clock: Option<WallClock>,
}

impl ServerOptions {
    /// The usual ones: no client certificates, no ALPN, both versions, tickets if the provider makes any and else 256 stored sessions,
    /// [`Limits::USUAL`], an abrupt end is an error, the system's clock.
    #[must_use]
    pub fn usual(identity: Identity, provider: Provider) -> Self {
        let resumption = if provider.makes_tickets() {
            Resumption::Tickets
        } else {
            Resumption::Stored { sessions: 256 }
        };
        Self {
            identity,
            client_certificates: ClientCertificates::NotAsked,
            protocols: Vec::new(),
            versions: Versions::Both,
            resumption,
            limits: Limits::USUAL,
            abrupt_end: AbruptEnd::Refused,
            provider,
            wall_clock: None,
        }
    }
}

/// What a client does.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Authorities it trusts.
    pub roots: Roots,
    /// The server's name, or its address, as its certificate has to have it. A name is also sent (SNI, RFC 6066), an address is not.
    pub server_name: String,
    /// Who it is, if the server asks.
    pub identity: Option<Identity>,
    /// Protocols it offers in ALPN (RFC 7301), the preferred first; with none, it offers nothing.
    pub protocols: Vec<Vec<u8>>,
    /// Versions it speaks.
    pub versions: Versions,
    /// Sessions it remembers in order to come back to a server without a full handshake; 0 for none.
    pub resumable_sessions: usize,
    /// What a connection may cost.
    pub limits: Limits,
    /// What the end of a stream without close_notify means.
    pub abrupt_end: AbruptEnd,
    /// Cryptography and randomness.
    pub provider: Provider,
    /// What the wall clock is asked for: whether the server's certificate is valid, and the age of tickets. `None` is the system's.
    pub wall_clock: Option<WallClock>,
}

impl ClientOptions {
    /// The usual ones: no certificate, no ALPN, both versions, 256 resumable sessions, [`Limits::USUAL`], an abrupt end is an error,
    /// the system's clock.
    #[must_use]
    pub fn usual(roots: Roots, server_name: impl Into<String>, provider: Provider) -> Self {
        Self {
            roots,
            server_name: server_name.into(),
            identity: None,
            protocols: Vec::new(),
            versions: Versions::Both,
            resumable_sessions: 256,
            limits: Limits::USUAL,
            abrupt_end: AbruptEnd::Refused,
            provider,
            wall_clock: None,
        }
    }
}

/// Whether clients have to show who they are.
#[derive(Clone, Debug)]
pub enum ClientCertificates {
    /// Nobody asks them.
    NotAsked,
    /// They may; but what they show must lead to one of these roots.
    Optional(Roots),
    /// They must, and it must lead to one of these roots.
    Required(Roots),
}

/// Versions of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Versions {
    /// TLS 1.2 (RFC 5246) alone.
    Tls12,
    /// TLS 1.3 (RFC 8446) alone.
    Tls13,
    /// Either; 1.3 if the peer has it too.
    Both,
}

impl Versions {
    fn all(self) -> Vec<&'static rustls::SupportedProtocolVersion> {
        match self {
            Self::Tls12 => vec![&TLS12],
            Self::Tls13 => vec![&TLS13],
            Self::Both => vec![&TLS13, &TLS12],
        }
    }
}

/// How a server knows a client again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumption {
    /// Not at all: every handshake is a full one.
    Off,
    /// The server keeps so many sessions, and clients get a number (RFC 5246, section 7.3).
    Stored {
        /// The most it keeps; older ones are forgotten first.
        sessions: usize,
    },
    /// The client keeps the session, encrypted with a key that changes every 6 hours by the system's clock (RFC 5077, RFC 8446).
    Tickets,
}

/// What a connection may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time from `start` to the end of the handshake.
    pub handshake: Duration,
    /// Bytes of a handshake, those of the peer's certificates among them. It takes effect in steps of up to 18 KiB.
    pub handshake_bytes: usize,
    /// Bytes that were decrypted and that the inner machine left, because they are no whole message yet: must be above its own limit.
    pub plaintext_bytes: usize,
}

impl Limits {
    /// 10 s, 128 KiB, 4 MiB.
    pub const USUAL: Self = Self {
        handshake: Duration::from_secs(10),
        handshake_bytes: 128 * 1024,
        plaintext_bytes: 4 * 1024 * 1024,
    };
}

/// What it means that a stream ends without close_notify. Anybody between the two ends can bring that about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbruptEnd {
    /// Something may be missing: [`TlsFault::Truncated`](super::TlsFault::Truncated).
    Refused,
    /// What it means in the inner protocol. Only for protocols whose messages say how long they are, so that a missing one is noticed;
    /// the end inside of a record is refused all the same.
    InnerDecides,
}

/// A source of the time of day: time since 1970-01-01 00:00:00 UTC, or `None` if it is not known. Cheap to clone.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> Option<Duration> + Send + Sync>);

impl WallClock {
    /// Asks `now` whenever the time is needed.
    #[must_use]
    pub fn new(now: impl Fn() -> Option<Duration> + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WallClock")
    }
}

impl TimeProvider for WallClock {
    fn current_time(&self) -> Option<UnixTime> {
        (self.0)().map(UnixTime::since_unix_epoch)
    }
}

/// A server's connections are made from it. Cheap to clone. Clones share what resumption needs, behind a lock that handshakes take for
/// a moment; so a client may come back to another shard. To share nothing, make one for each shard: then a client that comes back to
/// another has a full handshake.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    pub(super) rustls: Arc<rustls::ServerConfig>,
    pub(super) terms: Terms,
}

impl ServerConfig {
    /// Checks the options and makes them ready.
    ///
    /// # Errors
    /// They do not fit together; it says what to change.
    pub fn new(options: &ServerOptions) -> Result<Self, ConfigError> {
        let provider = &options.provider;
        let builder = rustls::ServerConfig::builder_with_details(
            provider.crypto.clone(),
            time_provider(options.wall_clock.as_ref()),
        )
        .with_protocol_versions(&options.versions.all())?;
        let builder = match &options.client_certificates {
            ClientCertificates::NotAsked => builder.with_no_client_auth(),
            ClientCertificates::Optional(roots) => {
                builder.with_client_cert_verifier(verifier(roots, &provider.crypto, true)?)
            }
            ClientCertificates::Required(roots) => {
                builder.with_client_cert_verifier(verifier(roots, &provider.crypto, false)?)
            }
        };
        let certified = options.identity.certified(&provider.crypto)?;
        let mut rustls = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        rustls.alpn_protocols = protocols(&options.protocols)?;
        resume(&mut rustls, options)?;
        let terms = Terms::new(options.limits, options.abrupt_end);
        Ok(Self {
            rustls: Arc::new(rustls),
            terms,
        })
    }
}

/// A client's connections are made from it. Cheap to clone. Clones share the sessions they can resume, behind a lock that handshakes
/// take for a moment; to share nothing, make one for each shard.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    pub(super) rustls: Arc<rustls::ClientConfig>,
    pub(super) server_name: ServerName<'static>,
    pub(super) terms: Terms,
}

impl ClientConfig {
    /// Checks the options and makes them ready.
    ///
    /// # Errors
    /// They do not fit together; it says what to change.
    pub fn new(options: &ClientOptions) -> Result<Self, ConfigError> {
        let provider = &options.provider;
        let builder = rustls::ClientConfig::builder_with_details(
            provider.crypto.clone(),
            time_provider(options.wall_clock.as_ref()),
        )
        .with_protocol_versions(&options.versions.all())?
        .with_root_certificates(options.roots.0.clone());
        let mut rustls = match &options.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let certified = identity.certified(&provider.crypto)?;
                builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(certified)))
            }
        };
        rustls.alpn_protocols = protocols(&options.protocols)?;
        rustls.resumption = match options.resumable_sessions {
            0 => rustls::client::Resumption::disabled(),
            sessions => {
                rustls::client::Resumption::store(Arc::new(ClientSessionMemoryCache::new(sessions)))
            }
        };
        Ok(Self {
            rustls: Arc::new(rustls),
            server_name: server_name(&options.server_name)?,
            terms: Terms::new(options.limits, options.abrupt_end),
        })
    }

    /// The same for another server; the sessions that it remembers are shared.
    ///
    /// # Errors
    /// It is no name and no address.
    pub fn with_server_name(&self, name: &str) -> Result<Self, ConfigError> {
        let server_name = server_name(name)?;
        Ok(Self {
            server_name,
            ..self.clone()
        })
    }
}

/// What a connection itself has to know of its options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) limits: Limits,
    pub(super) abrupt_end: AbruptEnd,
}

impl Terms {
    fn new(limits: Limits, abrupt_end: AbruptEnd) -> Self {
        Self { limits, abrupt_end }
    }
}

fn time_provider(wall_clock: Option<&WallClock>) -> Arc<dyn TimeProvider> {
    match wall_clock {
        Some(clock) => Arc::new(clock.clone()),
        None => Arc::new(DefaultTimeProvider),
    }
}

fn verifier(
    roots: &Roots,
    crypto: &Arc<CryptoProvider>,
    optional: bool,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, ConfigError> {
    let builder = WebPkiClientVerifier::builder_with_provider(roots.0.clone(), crypto.clone());
    let builder = if optional {
        builder.allow_unauthenticated()
    } else {
        builder
    };
    builder
        .build()
        .map_err(|error| ConfigError::Other(error.to_string().into()))
}

fn resume(rustls: &mut rustls::ServerConfig, options: &ServerOptions) -> Result<(), ConfigError> {
    rustls.session_storage = Arc::new(NoServerSessionStorage {});
    match options.resumption {
        Resumption::Off => rustls.send_tls13_tickets = 0,
        Resumption::Stored { sessions } => {
            rustls.session_storage = ServerSessionMemoryCache::new(sessions);
        }
        Resumption::Tickets => {
            let ticketer = options.provider.ticketer();
            rustls.ticketer = ticketer.ok_or(ConfigError::NoTickets)??;
        }
    }
    Ok(())
}

/// As ALPN can say them (RFC 7301, section 3.1).
fn protocols(names: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, ConfigError> {
    match names.iter().find(|name| !(1..=255).contains(&name.len())) {
        Some(name) => Err(ConfigError::ProtocolName { bytes: name.len() }),
        None => Ok(names.to_vec()),
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, ConfigError> {
    let owned = name.to_owned();
    ServerName::try_from(owned).map_err(|_| ConfigError::ServerName(name.into()))
}

/// Why options cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// Not PEM; what is wrong with it.
    Pem(&'static str),
    /// There is no certificate where one was looked for.
    NoCertificate,
    /// A certificate is not one.
    BadCertificate,
    /// There is no private key where one was looked for.
    NoKey,
    /// The private key is protected by a passphrase.
    EncryptedKey,
    /// The private key is of a kind that the provider does not know, or damaged.
    UnsupportedKey,
    /// The private key belongs to another certificate.
    KeyMismatch,
    /// Neither a name nor an address.
    ServerName(Box<str>),
    /// A protocol's name must have 1 to 255 bytes.
    ProtocolName {
        /// It has so many.
        bytes: usize,
    },
    /// The provider makes no tickets.
    NoTickets,
    /// Anything else, in the words of the TLS library.
    Other(Box<str>),
}

impl From<rustls::Error> for ConfigError {
    fn from(error: rustls::Error) -> Self {
        Self::Other(error.to_string().into())
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pem(what) => write!(f, "not PEM: {what}"),
            Self::NoCertificate => f.write_str(
                "no certificate found: a PEM file has a section that starts with -----BEGIN CERTIFICATE-----",
            ),
            Self::BadCertificate => f.write_str("a certificate is damaged: it is no X.509"),
            Self::NoKey => f.write_str(
                "no private key found: a PEM file has a section that starts with -----BEGIN PRIVATE KEY-----",
            ),
            Self::EncryptedKey => f.write_str(
                "the private key is protected by a passphrase: decrypt it first (openssl pkey -in key.pem -out plain.pem)",
            ),
            Self::UnsupportedKey => f.write_str(
                "the private key is damaged or of an unsupported kind: take ECDSA (P-256, P-384), Ed25519 or RSA (2048 bits and more)",
            ),
            Self::KeyMismatch => f.write_str(
                "the private key belongs to another certificate: the first certificate of the chain must be its own",
            ),
            Self::ServerName(name) => write!(f, "`{name}` is neither a host name nor an IP address"),
            Self::ProtocolName { bytes } => write!(
                f,
                "a name for ALPN has {bytes} bytes; it must have 1 to 255"
            ),
            Self::NoTickets => f.write_str(
                "this cryptographic provider makes no tickets: take Resumption::Stored or Resumption::Off",
            ),
            Self::Other(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for ConfigError {}
