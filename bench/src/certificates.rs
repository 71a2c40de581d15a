//! What a TLS server of this tool shows and its clients trust: made in memory, or somebody's own from a folder.
//!
//! Made anew for each server, good for this machine's loopback addresses only, and worth nothing to anybody: the key never leaves the
//! process. A load process gets the authority's certificate, so it checks the server's as it would any other.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// Names and addresses the certificate made here is good for.
pub(crate) const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A server's certificate and what goes with it, in PEM.
#[derive(Clone, Debug)]
pub(crate) struct Certificates {
    /// The authority that a client has to trust.
    pub(crate) ca_pem: String,
    /// The server's certificate, and those between it and the authority.
    pub(crate) chain_pem: String,
    /// The server's key.
    pub(crate) key_pem: String,
}

/// Why a folder's certificates cannot be used.
#[derive(Debug)]
pub(crate) struct Unreadable {
    /// The file.
    pub(crate) path: PathBuf,
    /// What happened.
    pub(crate) error: io::Error,
}

impl Certificates {
    /// Files of a folder: the authority, the server's chain, its key.
    pub(crate) const FILES: [&str; 3] = ["ca.pem", "cert.pem", "key.pem"];

    /// Of an authority of its own.
    pub(crate) fn made() -> Result<Self, rcgen::Error> {
        let (ca, ca_key) = (authority(), KeyPair::generate()?);
        let ca_pem = ca.self_signed(&ca_key)?.pem();
        let issuer = Issuer::new(ca, ca_key);
        let key = KeyPair::generate()?;
        Ok(Self {
            ca_pem,
            chain_pem: server()?.signed_by(&key, &issuer)?.pem(),
            key_pem: key.serialize_pem(),
        })
    }

    /// From `folder`, as it is: whether it is any good shows when it is used.
    pub(crate) fn read(folder: &Path) -> Result<Self, Unreadable> {
        let [ca_pem, chain_pem, key_pem] = Self::FILES.map(|name| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|error| Unreadable { path, error })
        });
        Ok(Self {
            ca_pem: ca_pem?,
            chain_pem: chain_pem?,
            key_pem: key_pem?,
        })
    }
}

fn authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    named(&mut params, "shardloop bench: authority of one run");
    params
}

fn server() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(NAMES.map(str::to_owned))?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    named(&mut params, "shardloop bench: server of one run");
    Ok(params)
}

fn named(params: &mut CertificateParams, name: &str) {
    params.distinguished_name.push(DnType::CommonName, name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_read_back_from_a_folder() {
        let made = Certificates::made().expect("keys can be made here");
        let folder = tempfile::tempdir().expect("a folder for the test");
        let texts = [&made.ca_pem, &made.chain_pem, &made.key_pem];
        for (name, text) in Certificates::FILES.iter().zip(texts) {
            assert!(text.starts_with("-----BEGIN "), "{name}");
            fs::write(folder.path().join(name), text).expect("it can be written");
        }
        let read = Certificates::read(folder.path()).expect("all files are there");
        assert_eq!(read.chain_pem, made.chain_pem);
        fs::remove_file(folder.path().join("key.pem")).expect("it was there");
        let missing = Certificates::read(folder.path()).expect_err("the key is missing");
        assert!(missing.path.ends_with("key.pem"));
        assert_eq!(missing.error.kind(), io::ErrorKind::NotFound);
    }
}
