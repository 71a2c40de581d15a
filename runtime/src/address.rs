//! Where a service is reached, and where its peers are.

use std::{
    error::Error,
    fmt,
    net::SocketAddr,
    path::{Path, PathBuf},
    str::FromStr,
};

/// An address of a stream: of an internet host, or of a Unix socket on this one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// TCP: an IPv4 or IPv6 address and a port.
    Inet(SocketAddr),
    /// A Unix socket by its path; `None` for one without, as clients mostly are.
    Unix(Option<PathBuf>),
}

impl Address {
    /// A Unix socket at `path`.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::Unix(Some(path.into()))
    }

    /// The internet address, if it is one.
    #[must_use]
    pub fn inet(&self) -> Option<SocketAddr> {
        match self {
            Self::Inet(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// The path, if it is a Unix socket that has one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => path.as_deref(),
            Self::Inet(_) => None,
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self::Inet(address)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(Some(path)) => write!(f, "unix:{}", path.display()),
            Self::Unix(None) => f.write_str("unix:"),
        }
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    /// `unix:PATH`, or an internet address with its port.
    fn from_str(text: &str) -> Result<Self, BadAddress> {
        match text.strip_prefix("unix:") {
            Some("") => Ok(Self::Unix(None)),
            Some(path) => Ok(Self::unix(path)),
            None => text.parse().map(Self::Inet).map_err(|_| BadAddress {
                text: text.to_owned(),
            }),
        }
    }
}

/// A text that is no address.
#[derive(Clone, PartialEq, Eq)]
pub struct BadAddress {
    /// The text.
    pub text: String,
}

/// Its text: what a `main` prints that returns it.
impl fmt::Debug for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for BadAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no address, and names are not resolved here; write 127.0.0.1:7000, [::1]:7000 or unix:/run/name.sock",
            self.text
        )
    }
}

impl Error for BadAddress {}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses_survive_being_written_and_read() {
        for text in ["127.0.0.1:80", "[::1]:7000", "unix:/run/a b.sock", "unix:"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_says_how_one_looks() {
        for text in ["", "localhost:80", "127.0.0.1", "/run/name.sock"] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains("unix:/run/name.sock"), "{error}");
        }
    }
}
