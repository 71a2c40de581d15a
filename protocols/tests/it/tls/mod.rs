//! TLS over a stream in memory, once with every cryptographic provider that is compiled in.

pub(crate) mod authority;
mod data;
mod ending;
#[cfg(all(feature = "drive", feature = "aws-lc-rs"))]
mod example;
mod handshake;
mod pair;
mod polite;
mod trust;

use authority::Authority;
use pair::{Cut, Pair};
use shardloop_protocols::{
    StreamMachine,
    length::Length,
    tls::{
        ClientConfig, ClientOptions, Provider, ServerConfig, ServerOptions, Tls, TlsFault, Versions,
    },
};

/// Makes a test of each function that takes a provider, for each provider.
macro_rules! on_every_provider {
    ($($test:ident),* $(,)?) => {
        #[cfg(feature = "aws-lc-rs")]
        mod aws_lc_rs {
            $(#[test] fn $test() { super::$test(&super::Provider::aws_lc_rs()); })*
        }
        #[cfg(feature = "ring")]
        mod ring {
            $(#[test] fn $test() { super::$test(&super::Provider::ring()); })*
        }
    };
}
use on_every_provider;

pub(crate) const EACH_VERSION: [Versions; 2] = [Versions::Tls12, Versions::Tls13];

/// What both ends of a test are configured with.
struct Setup {
    server: ServerOptions,
    client: ClientOptions,
}

impl Setup {
    /// A client that trusts the server.
    fn new(provider: &Provider) -> Self {
        let authority = Authority::new("test authority");
        Self::by(&authority, provider)
    }

    fn by(authority: &Authority, provider: &Provider) -> Self {
        Self {
            server: ServerOptions::usual(authority.server(), provider.clone()),
            client: ClientOptions::usual(authority.roots(), "localhost", provider.clone()),
        }
    }

    fn with_versions(mut self, versions: Versions) -> Self {
        (self.server.versions, self.client.versions) = (versions, versions);
        self
    }

    fn configs(&self) -> Configs {
        Configs {
            server: ServerConfig::new(&self.server).expect("the options are valid"),
            client: ClientConfig::new(&self.client).expect("the options are valid"),
        }
    }

    /// Two ends of `length`, after the handshake.
    fn connected(&self, cut: Cut) -> Pair<Tls<Length>> {
        self.configs().connected(Length::default, cut)
    }
}

struct Configs {
    server: ServerConfig,
    client: ClientConfig,
}

impl Configs {
    fn ends<M: StreamMachine>(&self, inner: impl Fn() -> M) -> (Tls<M>, Tls<M>) {
        let client = Tls::client(&self.client, inner()).expect("this host has random numbers");
        (client, Tls::server(&self.server, inner()))
    }

    fn pair<M>(&self, inner: impl Fn() -> M, cut: Cut) -> Pair<Tls<M>>
    where
        M: for<'m> StreamMachine<Message<'m> = &'m mut [u8]>,
        for<'r> M::Reply<'r>: crate::splits::Answer,
    {
        let (client, server) = self.ends(inner);
        Pair::new(client, server, cut)
    }

    fn connected<M>(&self, inner: impl Fn() -> M, cut: Cut) -> Pair<Tls<M>>
    where
        M: for<'m> StreamMachine<Message<'m> = &'m mut [u8]>,
        for<'r> M::Reply<'r>: crate::splits::Answer,
    {
        let (client, server) = self.ends(inner);
        Pair::connected(client, server, cut)
    }
}

/// It may be moved to whichever thread will run it.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Tls<Tls<Length>>>();
    is_send::<ServerConfig>();
    is_send::<ClientConfig>();
};

/// The layer's own fault.
fn fault<M: StreamMachine, A: shardloop_protocols::App<Tls<M>>>(
    end: &pair::End<Tls<M>, A>,
) -> &TlsFault {
    match end.fault() {
        shardloop_protocols::tls::TlsError::Tls(fault) => fault,
        shardloop_protocols::tls::TlsError::Inner(fault) => panic!("the inner machine's: {fault}"),
    }
}
