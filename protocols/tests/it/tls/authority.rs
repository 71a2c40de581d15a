//! A certificate authority in memory, for tests only: it signs whatever it is asked to.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use shardloop_protocols::tls::{Identity, Roots};

/// Names a server on this host is asked for by.
pub(crate) const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A chain and a key as they stand in files.
pub(crate) struct Pems {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Pems {
    pub(crate) fn identity(&self) -> Identity {
        Identity::from_pem(self.chain.as_bytes(), self.key.as_bytes()).expect("both are there")
    }
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self(CertifiedIssuer::self_signed(params, new_key()).expect("the parameters are valid"))
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::from_pem(self.pem().as_bytes()).expect("it is a certificate")
    }

    /// For a server on this host.
    pub(crate) fn server(&self) -> Identity {
        self.server_named(&LOCAL_NAMES).identity()
    }

    /// For a server that is asked for by `names`.
    pub(crate) fn server_named(&self, names: &[&str]) -> Pems {
        self.sign(params(names, ExtendedKeyUsagePurpose::ServerAuth))
    }

    /// For a server on this host, but of long ago.
    pub(crate) fn expired_server(&self) -> Identity {
        let mut params = params(&LOCAL_NAMES, ExtendedKeyUsagePurpose::ServerAuth);
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
        self.sign(params).identity()
    }

    /// For a client.
    pub(crate) fn client(&self, name: &str) -> Identity {
        self.sign(params(&[name], ExtendedKeyUsagePurpose::ClientAuth))
            .identity()
    }

    fn sign(&self, params: CertificateParams) -> Pems {
        let key = new_key();
        let certificate = params
            .signed_by(&key, &self.0)
            .expect("the authority may sign");
        Pems {
            chain: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

fn new_key() -> KeyPair {
    KeyPair::generate().expect("this host has random numbers")
}

fn params(names: &[&str], purpose: ExtendedKeyUsagePurpose) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("the names are valid");
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    params
}
