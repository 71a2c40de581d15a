//! TLS: the configurations of both ends, made once in a process, and records as an adversary on the way sees them.

pub(super) mod operations;
pub(super) mod peers;

use super::{Meter, feed::Terms};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use shardloop_protocols::{
    length::Length,
    tls::{
        ClientConfig, ClientOptions, Identity, Provider, Roots, ServerConfig, ServerOptions, Tls,
        Versions,
    },
};
use std::sync::OnceLock;

/// What the TLS library holds for a connection, in a handshake, certificates included.
const FIXED_BYTES: usize = 512 * 1024;

const VERSIONS: [Versions; 3] = [Versions::Both, Versions::Tls13, Versions::Tls12];

struct Configs {
    server: ServerConfig,
    client: ClientConfig,
}

/// For the version with this number.
fn configs(number: usize) -> &'static Configs {
    static CONFIGS: OnceLock<[Configs; 3]> = OnceLock::new();
    let configs = CONFIGS.get_or_init(|| VERSIONS.map(make));
    &configs[number]
}

fn make(versions: Versions) -> Configs {
    let host = "this host has random numbers";
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().expect(host))
        .expect("the parameters are valid");
    let key = KeyPair::generate().expect(host);
    let names = vec!["localhost".to_owned()];
    let certificate = CertificateParams::new(names)
        .and_then(|params| params.signed_by(&key, &authority))
        .expect("the parameters are valid");
    let pem = (certificate.pem(), key.serialize_pem());
    let identity = Identity::from_pem(pem.0.as_bytes(), pem.1.as_bytes());
    let identity = identity.expect("both are there");
    let roots = Roots::from_pem(authority.pem().as_bytes()).expect("it is a certificate");
    let server = ServerOptions {
        versions,
        protocols: vec![b"length".to_vec()],
        ..ServerOptions::usual(identity, Provider::built_in())
    };
    let client = ClientOptions {
        versions,
        protocols: vec![b"length".to_vec()],
        ..ClientOptions::usual(roots, "localhost", Provider::built_in())
    };
    Configs {
        server: ServerConfig::new(&server).expect("the options are valid"),
        client: ClientConfig::new(&client).expect("the options are valid"),
    }
}

impl Configs {
    fn server(&self) -> Tls<Length> {
        Tls::server(&self.server, Length::new(5000))
    }

    fn client(&self) -> Tls<Length> {
        Tls::client(&self.client, Length::new(5000)).expect("this host has random numbers")
    }
}

fn terms(meter: Meter) -> Terms {
    Terms {
        meter,
        layers: 1,
        // What was decrypted and not taken: less than a message and a record; the library's buffer.
        limit_bytes: 256 * 1024,
        fixed_bytes: FIXED_BYTES,
    }
}

/// Records of a byte string, each with its header, and what is left of a last one.
fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let length = bytes.get(3..5).map_or(usize::MAX, |length| {
            5 + (usize::from(length[0]) << 8 | usize::from(length[1]))
        });
        let (record, rest) = bytes.split_at(length.min(bytes.len()));
        records.push(record.to_vec());
        bytes = rest;
    }
    records
}
