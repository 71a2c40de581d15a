//! Certificates of one run, made by openssl: good ones, and one for each way of being none.

use super::Ground;
use anyhow::Result;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// For one call of openssl.
const LIMIT: Duration = Duration::from_secs(20);

/// A certificate and its key, in PEM.
pub(crate) struct Certificate {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// What the checks need.
pub(crate) struct Certificates {
    pub(crate) authority: Certificate,
    /// Of 127.0.0.1, by the authority.
    pub(crate) server: Certificate,
    /// The same, by an authority that nobody trusts.
    pub(crate) untrusted: Certificate,
    /// Of yesterday.
    pub(crate) expired: Certificate,
    /// Of another host.
    pub(crate) misnamed: Certificate,
    pub(crate) client: Certificate,
}

impl Certificates {
    pub(crate) fn make(ground: &Ground) -> Result<Self> {
        let office = Office {
            ground,
            openssl: ground.tools.system("openssl")?,
        };
        let authority = office.authority("authority")?;
        let stranger = office.authority("stranger")?;
        let here = "subjectAltName=IP:127.0.0.1,DNS:localhost";
        Ok(Self {
            server: office.issue("server", &authority, here, 7)?,
            untrusted: office.issue("untrusted", &stranger, here, 7)?,
            expired: office.issue("expired", &authority, here, -1)?,
            misnamed: office.issue(
                "misnamed",
                &authority,
                "subjectAltName=DNS:elsewhere.test",
                7,
            )?,
            client: office.issue("client", &authority, "extendedKeyUsage=clientAuth", 7)?,
            authority,
        })
    }
}

/// Where certificates are made.
struct Office<'a> {
    ground: &'a Ground,
    openssl: PathBuf,
}

impl Office<'_> {
    /// An authority, signed by itself.
    fn authority(&self, name: &str) -> Result<Certificate> {
        let made = self.named(name);
        let words = format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 7 -subj /CN={name} -addext keyUsage=critical,keyCertSign"
        );
        self.run(
            &words,
            &[("-keyout", &made.key), ("-out", &made.certificate)],
        )?;
        Ok(made)
    }

    /// A certificate by `authority`, that is valid for so many days from now on; if negative, it was.
    fn issue(
        &self,
        name: &str,
        authority: &Certificate,
        extension: &str,
        days: i32,
    ) -> Result<Certificate> {
        let made = self.named(name);
        let request = made.key.with_extension("csr");
        let words =
            format!("req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name}");
        self.run(&words, &[("-keyout", &made.key), ("-out", &request)])?;
        let extensions = made.key.with_extension("ext");
        fs::write(
            &extensions,
            format!("basicConstraints=CA:FALSE\n{extension}\n"),
        )?;
        let files = [
            ("-in", &request),
            ("-CA", &authority.certificate),
            ("-CAkey", &authority.key),
            ("-extfile", &extensions),
            ("-out", &made.certificate),
        ];
        self.run(&format!("x509 -req -CAcreateserial -days {days}"), &files)?;
        Ok(made)
    }

    fn named(&self, name: &str) -> Certificate {
        let file = |end: &str| self.ground.folder.join(format!("{name}.{end}"));
        Certificate {
            certificate: file("pem"),
            key: file("key"),
        }
    }

    fn run(&self, words: &str, files: &[(&str, &PathBuf)]) -> Result<()> {
        let mut peer = self.ground.peer(&self.openssl, LIMIT);
        peer = peer.args(words.split(' '));
        for (flag, file) in files {
            peer = peer.arg(flag).arg(file);
        }
        peer.listen()?.success().map(drop)
    }
}
