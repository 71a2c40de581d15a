//! Why an address could not be bound, as a sentence for whoever chose it.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use nix::errno::Errno;

/// An address that could not be bound or listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// What kind of refusal it was.
    pub cause: BindCause,
    /// The operating system's error number, if it came from there.
    pub errno: Option<i32>,
}

/// Why an address could not be bound or listened on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindCause {
    /// Somebody has that address and port already (EADDRINUSE).
    InUse,
    /// The port is privileged, or a policy forbids it (EACCES, EPERM).
    Permission,
    /// No interface of this host has that address (EADDRNOTAVAIL).
    NotThisHost,
    /// The host has no such address family: IPv6 is switched off (EAFNOSUPPORT).
    NoSuchFamily,
    /// This process, or the system, has no descriptor left (EMFILE, ENFILE).
    NoDescriptors,
    /// Anything else; the number tells.
    Other,
}

impl BindError {
    pub(super) fn new(address: SocketAddr, error: &io::Error) -> Self {
        let errno = error.raw_os_error();
        let cause = match errno.map(Errno::from_raw) {
            Some(Errno::EADDRINUSE) => BindCause::InUse,
            Some(Errno::EACCES | Errno::EPERM) => BindCause::Permission,
            Some(Errno::EADDRNOTAVAIL) => BindCause::NotThisHost,
            Some(Errno::EAFNOSUPPORT) => BindCause::NoSuchFamily,
            Some(Errno::EMFILE | Errno::ENFILE) => BindCause::NoDescriptors,
            _ => BindCause::Other,
        };
        Self {
            address,
            cause,
            errno,
        }
    }
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            cause,
            errno,
        } = self;
        let port = address.port();
        match cause {
            BindCause::InUse => write!(
                f,
                "cannot listen on {address}: another server already does, and sharing the port would hand it \
                 part of our clients; stop it, or use another port (0 picks a free one)"
            ),
            BindCause::Permission => write!(
                f,
                "cannot listen on {address}: this user must not use port {port}, so no client could reach us; \
                 use a port from 1024 up, or grant the right to bind low ports"
            ),
            BindCause::NotThisHost => write!(
                f,
                "cannot listen on {address}: no interface of this host has the address {}, so nothing sent \
                 there would arrive here; use an address of this host, or {} for all of them",
                address.ip(),
                if address.is_ipv6() { "[::]" } else { "0.0.0.0" }
            ),
            BindCause::NoSuchFamily => write!(
                f,
                "cannot listen on {address}: this host has {} switched off; use an address of the other family",
                if address.is_ipv6() { "IPv6" } else { "IPv4" }
            ),
            BindCause::NoDescriptors => write!(
                f,
                "cannot listen on {address}: this process has no descriptor left for a socket; raise the limit (`ulimit -n`)"
            ),
            BindCause::Other => write!(
                f,
                "cannot listen on {address}: {}; no client can reach us there; check the address \
                 and the limits of this process",
                errno.map_or("no reason given".to_owned(), |errno| {
                    io::Error::from_raw_os_error(errno).to_string()
                })
            ),
        }
    }
}

impl Error for BindError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind_error(errno: Errno) -> BindError {
        let address = "203.0.113.1:80".parse().unwrap();
        BindError::new(address, &io::Error::from(errno))
    }

    #[test]
    fn every_refusal_says_what_why_and_what_to_do() {
        let text = |errno| bind_error(errno).to_string();
        assert!(text(Errno::EADDRINUSE).contains("another server already does"));
        assert!(text(Errno::EACCES).contains("port from 1024 up"));
        assert!(text(Errno::EADDRNOTAVAIL).contains("0.0.0.0 for all of them"));
        assert!(text(Errno::EAFNOSUPPORT).contains("IPv4 switched off"));
        assert!(text(Errno::EMFILE).contains("ulimit -n"));
        assert!(text(Errno::EINVAL).contains("Invalid argument"));
    }
}
