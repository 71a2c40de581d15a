//! An echo server over TLS: bytes come back as they were sent (RFC 862), encrypted (RFC 8446).
//!
//! ```text
//! cargo run --release -p shardloop-protocols --example tls_echo -- [--client-ca CA.pem] PORT CERT.pem KEY.pem [PROTOCOL…]
//! openssl s_client -connect 127.0.0.1:PORT -CAfile CA.pem -verify_return_error
//! ```
//!
//! Port 0 takes a free one. `CERT.pem` holds the server's certificate and those between it and the authority; `PROTOCOL…` are names for
//! ALPN. With `--client-ca` clients have to show a certificate of that authority. It prints where it listens, serves until SIGINT or SIGTERM, and tells why connections ended that did not end in order.

use shardloop::{Accept, Backend, Endpoint, Error, Kind, Plan, Service, Shard, run};
use shardloop_protocols::{
    Flow,
    drive::{self, OnShard},
    echo::{Echo, Reply},
    tls::{ClientCertificates, Identity, Provider, Roots, ServerConfig, ServerOptions, Tls},
};
use std::{env, fs, process::ExitCode};

#[derive(Clone)]
struct TlsEcho {
    config: ServerConfig,
}

impl Service for TlsEcho {
    async fn run<B: Backend>(self, shard: Shard<B>) -> Result<(), Error> {
        println!("listening on {}", shard.address(0));
        let mut incoming = shard.incoming(0);
        while let Some((stream, peer)) = incoming.next().await {
            let machine = Tls::server(&self.config, Echo);
            let app = |bytes: &mut [u8], mut reply: Reply<'_>| {
                reply.send(bytes);
                Flow::Continue
            };
            let served = drive::serve(stream, machine, app, OnShard);
            let task = async move {
                if let Err(fault) = served.await {
                    eprintln!("{peer}: {fault}");
                }
            };
            shard.spawn(task).detach();
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    match listen() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tls_echo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn listen() -> Result<(), Box<dyn std::error::Error>> {
    const USAGE: &str = "arguments: [--client-ca CA.pem] PORT CERT.pem KEY.pem [PROTOCOL...]";
    let mut arguments = env::args().skip(1);
    let mut port = arguments.next().ok_or(USAGE)?;
    let mut client_certificates = ClientCertificates::NotAsked;
    if port == "--client-ca" {
        let roots = Roots::from_pem(&fs::read(arguments.next().ok_or(USAGE)?)?)?;
        client_certificates = ClientCertificates::Required(roots);
        port = arguments.next().ok_or(USAGE)?;
    }
    let chain = fs::read(arguments.next().ok_or(USAGE)?)?;
    let key = fs::read(arguments.next().ok_or(USAGE)?)?;
    let identity = Identity::from_pem(&chain, &key)?;
    let config = ServerConfig::new(&ServerOptions {
        client_certificates,
        protocols: arguments.map(String::into_bytes).collect(),
        ..ServerOptions::usual(identity, Provider::built_in())
    })?;
    let address = format!("127.0.0.1:{port}").parse()?;
    let plan = Plan::new(1).endpoint(Endpoint::tcp(address, Accept::Handoff));
    run(Kind::Auto, plan, TlsEcho { config })?;
    Ok(())
}
