//! Why a TLS connection cannot go on: what happened, whose fault it is, and what to do.

use super::{alert::Alert, record::HEADER_BYTES};
use crate::machine::{Fault, Side};
use rustls::{CertificateError, Error, InvalidMessage, PeerIncompatible, PeerMisbehaved};
use std::{fmt, time::Duration};

/// Why a connection cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsError<E> {
    /// The machine in the layer.
    Inner(E),
    /// The layer.
    Tls(TlsFault),
}

impl<E> From<TlsFault> for TlsError<E> {
    fn from(fault: TlsFault) -> Self {
        Self::Tls(fault)
    }
}

impl<E: fmt::Display> fmt::Display for TlsError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inner(fault) => fault.fmt(f),
            Self::Tls(fault) => write!(f, "TLS: {fault}"),
        }
    }
}

impl<E: Fault> std::error::Error for TlsError<E> {}

impl<E: Fault> Fault for TlsError<E> {
    fn side(&self) -> Side {
        match self {
            Self::Inner(fault) => fault.side(),
            Self::Tls(fault) => fault.side(),
        }
    }
}

/// What went wrong in the layer itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TlsFault {
    /// The peer has ended the connection and said why.
    Alert(Alert),
    /// The peer's certificate is not good.
    Certificate(CertificateFault),
    /// Nothing of this kind is acceptable to both ends.
    NothingInCommon(Offer),
    /// The stream ended during the handshake.
    HandshakeTruncated,
    /// The stream ended without close_notify: something may be missing.
    Truncated,
    /// The peer does not speak TLS but begins with a text.
    Text {
        /// How it begins.
        begins: [u8; HEADER_BYTES],
    },
    /// What the peer sent is no TLS, or damaged.
    Garbage,
    /// A record was changed on its way, or the peer has other keys.
    Undecipherable,
    /// The handshake was not done in time.
    TooSlow {
        /// What it may take.
        limit: Duration,
    },
    /// The handshake is too long.
    HandshakeTooLong {
        /// What it may have.
        limit_bytes: usize,
    },
    /// The inner machine wants more at once than the layer keeps.
    PlaintextTooLong {
        /// What the layer keeps.
        limit_bytes: usize,
    },
    /// The peer broke the protocol in another way.
    Misbehaved(Box<str>),
    /// There is no sending before the handshake is done.
    NotReady,
    /// There is no sending after the end was said.
    Ended,
    /// The keys have encrypted as much as they may, and TLS 1.2 has no way to change them.
    KeysUsedUp,
    /// There are no random numbers.
    NoRandomness,
    /// The time of day is not known.
    NoTime,
    /// Anything else, in the words of the TLS library.
    Other(Box<str>),
}

/// What is wrong with a peer's certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateFault {
    /// There is none.
    Missing,
    /// None of the trusted authorities signed it.
    UnknownAuthority,
    /// It is not valid any more.
    Expired {
        /// By how much, if that is known.
        for_seconds: Option<u64>,
    },
    /// It is not valid yet.
    NotYetValid {
        /// For how long, if that is known.
        for_seconds: Option<u64>,
    },
    /// It is somebody else's.
    WrongName {
        /// The name that was looked for.
        wanted: Box<str>,
        /// Those in the certificate, with commas.
        found: Box<str>,
    },
    /// It was revoked.
    Revoked,
    /// It is for something else: a client's as a server's, or the other way round.
    WrongPurpose,
    /// A signature in it or with it does not hold.
    BadSignature,
    /// Anything else, in the words of the TLS library.
    Other(Box<str>),
}

/// What the two ends of a handshake have to agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// A version of TLS.
    Version,
    /// A cipher suite.
    CipherSuite,
    /// A group for the exchange of keys.
    Group,
    /// A way to sign.
    Signature,
    /// An application protocol (ALPN).
    Protocol,
}

impl Fault for TlsFault {
    fn side(&self) -> Side {
        match self {
            Self::NotReady | Self::Ended | Self::KeysUsedUp | Self::Other(_) => Side::Us,
            Self::NoRandomness | Self::NoTime => Side::Host,
            _ => Side::Peer,
        }
    }
}

impl std::error::Error for TlsFault {}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alert(alert) => write!(f, "the peer has ended the connection with {alert}"),
            Self::Certificate(fault) => fault.fmt(f),
            Self::NothingInCommon(offer) => write!(
                f,
                "the peer and this end have no {offer} in common: {}",
                offer.advice()
            ),
            Self::Text { begins } => fmt_text(*begins, f),
            Self::TooSlow { limit } => {
                write!(f, "the peer did not finish the handshake within {limit:?}")
            }
            Self::HandshakeTooLong { limit_bytes } => write!(
                f,
                "the peer's handshake has more than {limit_bytes} bytes (Limits::handshake_bytes)"
            ),
            Self::PlaintextTooLong { limit_bytes } => write!(
                f,
                "a message of the peer has more than {limit_bytes} bytes; if it may, raise Limits::plaintext_bytes"
            ),
            Self::Misbehaved(how) => write!(f, "the peer broke the protocol: {how}"),
            Self::Other(what) => f.write_str(what),
            fixed => f.write_str(fixed.sentence()),
        }
    }
}

impl TlsFault {
    /// What is said of a fault without particulars.
    fn sentence(&self) -> &'static str {
        match self {
            Self::HandshakeTruncated => {
                "the peer closed during the handshake; it may not like what it saw and not say so"
            }
            Self::Truncated => {
                "the peer closed without close_notify, so something may be missing; if the protocol in TLS would notice that itself, take AbruptEnd::InnerDecides"
            }
            Self::Garbage => "what the peer sent is no TLS, or was damaged on its way",
            Self::Undecipherable => {
                "a record cannot be decrypted: it was changed on its way, or the peer uses other keys"
            }
            Self::NotReady => "the handshake is not done yet: wait for is_ready before sending",
            Self::Ended => "the connection was closed already: there is no sending any more",
            Self::KeysUsedUp => {
                "the keys of this connection are used up, and TLS 1.2 cannot change them: connect anew, or take TLS 1.3"
            }
            Self::NoRandomness => "there are no random numbers on this host",
            Self::NoTime => {
                "the time of day is not known, so certificates cannot be checked: set the clock"
            }
            _ => "the connection cannot go on",
        }
    }
}

fn fmt_text(begins: [u8; HEADER_BYTES], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const METHODS: [&[u8]; 8] = [
        b"GET ", b"HEAD ", b"POST ", b"PUT ", b"PATCH", b"DELET", b"OPTIO", b"CONNE",
    ];
    let text = String::from_utf8_lossy(&begins);
    if METHODS.iter().any(|method| begins.starts_with(method)) {
        write!(
            f,
            "this port speaks TLS, and the peer sent a plain HTTP request (it begins with {text:?}): let it use https"
        )
    } else if begins == *b"HTTP/" {
        f.write_str("the peer answered in plain HTTP: it does not speak TLS on this port")
    } else {
        write!(
            f,
            "the peer speaks no TLS but a plain text (it begins with {text:?})"
        )
    }
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |of: &Option<u64>| match of {
            Some(seconds) => format!(" (by {seconds} s)"),
            None => String::new(),
        };
        match self {
            Self::Missing => f.write_str("the peer showed no certificate, and must"),
            Self::UnknownAuthority => f.write_str(
                "no trusted authority signed the peer's certificate: add the one that did to the roots, and let the peer send its whole chain",
            ),
            Self::Expired { for_seconds } => write!(
                f,
                "the peer's certificate has expired{}: it needs a new one, or the clock here is wrong",
                seconds(for_seconds)
            ),
            Self::NotYetValid { for_seconds } => write!(
                f,
                "the peer's certificate is not valid yet{}: one of the two clocks is wrong",
                seconds(for_seconds)
            ),
            Self::WrongName { wanted, found } => write!(
                f,
                "the peer's certificate is not for {wanted}, but for {found}"
            ),
            Self::Revoked => f.write_str("the peer's certificate was revoked"),
            Self::WrongPurpose => f.write_str(
                "the peer's certificate is for another purpose: its extended key usage must be that of a server or a client",
            ),
            Self::BadSignature => f.write_str(
                "a signature of the peer does not hold: no authority that is trusted here signed its certificate, though one has the same \
                 name, or the peer does not have the certificate's key",
            ),
            Self::Other(what) => write!(f, "the peer's certificate is not accepted: {what}"),
        }
    }
}

impl Offer {
    fn advice(self) -> &'static str {
        match self {
            Self::Version => "this end speaks 1.3 and 1.2, as far as its options allow",
            Self::CipherSuite | Self::Group => "the peer's software may be too old",
            Self::Signature => "a certificate with another kind of key may help",
            Self::Protocol => "compare the lists of both ends",
        }
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "version of TLS",
            Self::CipherSuite => "cipher suite",
            Self::Group => "group for the exchange of keys",
            Self::Signature => "way to sign",
            Self::Protocol => "application protocol (ALPN)",
        })
    }
}

impl From<Error> for TlsFault {
    fn from(error: Error) -> Self {
        match error {
            Error::AlertReceived(alert) => Self::Alert(Alert { code: alert.into() }),
            Error::InvalidCertificate(error) => Self::Certificate(error.into()),
            Error::NoCertificatesPresented => Self::Certificate(CertificateFault::Missing),
            Error::NoApplicationProtocol => Self::NothingInCommon(Offer::Protocol),
            Error::PeerIncompatible(how) => how.into(),
            Error::InvalidMessage(
                InvalidMessage::InvalidContentType
                | InvalidMessage::UnknownProtocolVersion
                | InvalidMessage::MessageTooLarge
                | InvalidMessage::InvalidEmptyPayload,
            ) => Self::Garbage,
            Error::DecryptError => Self::Undecipherable,
            Error::FailedToGetRandomBytes => Self::NoRandomness,
            Error::FailedToGetCurrentTime => Self::NoTime,
            Error::InappropriateMessage { .. }
            | Error::InappropriateHandshakeMessage { .. }
            | Error::InvalidMessage(_)
            | Error::PeerSentOversizedRecord => Self::Misbehaved(error.to_string().into()),
            Error::PeerMisbehaved(PeerMisbehaved::TooManyKeyUpdateRequests) => {
                Self::Misbehaved("it changes its keys again and again".into())
            }
            Error::PeerMisbehaved(how) => Self::Misbehaved(format!("{how:?}").into()),
            error => Self::Other(error.to_string().into()),
        }
    }
}

impl From<PeerIncompatible> for TlsFault {
    fn from(how: PeerIncompatible) -> Self {
        use PeerIncompatible as P;
        let offer = match how {
            P::ServerDoesNotSupportTls12Or13
            | P::ServerTlsVersionIsDisabledByOurConfig
            | P::SupportedVersionsExtensionRequired
            // Whoever speaks 1.2 or newer sends it; whoever speaks only older versions does not know it.
            | P::SignatureAlgorithmsExtensionRequired
            | P::Tls12NotOffered
            | P::Tls12NotOfferedOrEnabled => Offer::Version,
            P::NoCipherSuitesInCommon => Offer::CipherSuite,
            P::NoKxGroupsInCommon
            | P::NoEcPointFormatsInCommon
            | P::NamedGroupsExtensionRequired
            | P::KeyShareExtensionRequired => Offer::Group,
            P::NoSignatureSchemesInCommon
            | P::NoCertificateRequestSignatureSchemesInCommon => Offer::Signature,
            how => return Self::Misbehaved(format!("{how:?}").into()),
        };
        Self::NothingInCommon(offer)
    }
}

impl From<CertificateError> for CertificateFault {
    fn from(error: CertificateError) -> Self {
        use CertificateError as C;
        let between = |late: u64, early: u64| Some(late.saturating_sub(early));
        match error {
            C::UnknownIssuer => Self::UnknownAuthority,
            C::Expired => Self::Expired { for_seconds: None },
            C::ExpiredContext { time, not_after } => Self::Expired {
                for_seconds: between(time.as_secs(), not_after.as_secs()),
            },
            C::NotValidYet => Self::NotYetValid { for_seconds: None },
            C::NotValidYetContext { time, not_before } => Self::NotYetValid {
                for_seconds: between(not_before.as_secs(), time.as_secs()),
            },
            C::NotValidForName => Self::WrongName {
                wanted: "the name that was asked for".into(),
                found: "another".into(),
            },
            C::NotValidForNameContext {
                expected,
                presented,
            } => Self::WrongName {
                wanted: expected.to_str().into(),
                found: names(&presented).into(),
            },
            C::Revoked => Self::Revoked,
            C::InvalidPurpose | C::InvalidPurposeContext { .. } => Self::WrongPurpose,
            C::BadSignature => Self::BadSignature,
            error => Self::Other(error.to_string().into()),
        }
    }
}

/// `DnsName("a")` is how they are handed out; a reader wants `a`.
fn names(presented: &[String]) -> String {
    let plain = |name: &String| {
        let inside = name.split_once('(').map_or(&name[..], |(_, rest)| rest);
        inside.trim_matches(['"', ')', '(']).to_owned()
    };
    match presented {
        [] => "nobody".to_owned(),
        names => names.iter().map(plain).collect::<Vec<_>>().join(", "),
    }
}
