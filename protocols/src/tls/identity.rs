//! Certificates and keys, out of PEM or DER: who one is, and whom one trusts. Reading files is the caller's.

use super::config::ConfigError;
use rustls::{
    CertificateError, Error, InconsistentKeys, RootCertStore,
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    sign::CertifiedKey,
};
use std::{fmt, sync::Arc};

/// A chain of certificates and the key of its first: who one is. Cheap to clone.
#[derive(Clone)]
pub struct Identity(Arc<Parts>);

struct Parts {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// From PEM, as files `cert.pem` and `key.pem` hold it. `chain` begins with the own certificate, the one that signed it is next.
    /// Both may stand in one file. A key is PKCS #8, PKCS #1 (RSA) or SEC 1 (elliptic curves), and not encrypted.
    ///
    /// # Errors
    /// It is no PEM, or what is looked for is not in it. Whether the key belongs to the certificate shows when a configuration is made.
    pub fn from_pem(chain: &[u8], key: &[u8]) -> Result<Self, ConfigError> {
        let chain = certificates(chain)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| match error {
            _ if is_encrypted(key) => ConfigError::EncryptedKey,
            pem::Error::NoItemsFound => ConfigError::NoKey,
            error => ConfigError::Pem(fault(&error)),
        })?;
        Ok(Self(Arc::new(Parts { chain, key })))
    }

    /// From DER.
    ///
    /// # Errors
    /// There is no certificate, or the key is none.
    pub fn from_der(chain: Vec<Vec<u8>>, key: Vec<u8>) -> Result<Self, ConfigError> {
        if chain.is_empty() {
            return Err(ConfigError::NoCertificate);
        }
        let chain = chain.into_iter().map(CertificateDer::from).collect();
        let key = PrivateKeyDer::try_from(key).map_err(|_| ConfigError::UnsupportedKey)?;
        Ok(Self(Arc::new(Parts { chain, key })))
    }

    /// Made ready to sign, once it is clear that key and certificate belong together.
    pub(super) fn certified(&self, crypto: &CryptoProvider) -> Result<CertifiedKey, ConfigError> {
        let (chain, key) = (self.0.chain.clone(), self.0.key.clone_key());
        CertifiedKey::from_der(chain, key, crypto).map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => ConfigError::KeyMismatch,
            Error::InvalidCertificate(_) => ConfigError::BadCertificate,
            _ => ConfigError::UnsupportedKey,
        })
    }
}

impl fmt::Debug for Identity {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<_> = self.0.chain.iter().map(|one| one.len()).collect();
        f.debug_struct("Identity")
            .field("certificates_bytes", &bytes)
            .finish_non_exhaustive()
    }
}

/// Certificates of the authorities one trusts. Cheap to clone.
#[derive(Clone)]
pub struct Roots(pub(super) Arc<RootCertStore>);

impl Roots {
    /// From PEM, one certificate or many.
    ///
    /// # Errors
    /// It is no PEM, there is no certificate in it, or one is not valid.
    pub fn from_pem(pem: &[u8]) -> Result<Self, ConfigError> {
        Self::of(certificates(pem)?)
    }

    /// From DER.
    ///
    /// # Errors
    /// There is no certificate, or one is not valid.
    pub fn from_der(roots: Vec<Vec<u8>>) -> Result<Self, ConfigError> {
        if roots.is_empty() {
            return Err(ConfigError::NoCertificate);
        }
        Self::of(roots.into_iter().map(CertificateDer::from).collect())
    }

    fn of(certificates: Vec<CertificateDer<'static>>) -> Result<Self, ConfigError> {
        let mut store = RootCertStore::empty();
        for certificate in certificates {
            store.add(certificate).map_err(|error| match error {
                Error::InvalidCertificate(CertificateError::BadEncoding) => {
                    ConfigError::BadCertificate
                }
                error => ConfigError::Other(error.to_string().into()),
            })?;
        }
        Ok(Self(Arc::new(store)))
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Roots({})", self.0.len())
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let all = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    match all {
        Ok(all) if all.is_empty() => Err(ConfigError::NoCertificate),
        Ok(all) => Ok(all),
        Err(error) => Err(ConfigError::Pem(fault(&error))),
    }
}

/// What is wrong with a text that begins as PEM.
fn fault(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no END line",
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line does not end in five dashes",
        pem::Error::Base64Decode(_) => "a section is not base64",
        _ => "a section cannot be read",
    }
}

/// Whether there is a key, but one that a passphrase protects.
fn is_encrypted(pem: &[u8]) -> bool {
    const MARK: &[u8] = b"ENCRYPTED";
    pem.windows(MARK.len()).any(|window| window == MARK)
}
