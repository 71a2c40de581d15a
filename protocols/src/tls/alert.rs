//! Alerts: how a peer says why it ends a connection (RFC 8446, section 6).

use std::fmt;

/// A fatal alert of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Alert {
    /// Its number in the registry of IANA (TLS Alerts).
    pub code: u8,
}

impl Alert {
    /// Its name in that registry, if this crate knows it.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|(_, name, _)| *name)
    }

    fn row(self) -> Option<&'static (u8, &'static str, &'static str)> {
        ALERTS.iter().find(|(code, ..)| *code == self.code)
    }
}

impl fmt::Display for Alert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row() {
            Some((code, name, meaning)) => write!(f, "{name} ({code}): {meaning}"),
            None => write!(f, "number {}", self.code),
        }
    }
}

/// Number, name, and what it means to whom it is sent.
const ALERTS: &[(u8, &str, &str)] = &[
    (0, "close_notify", "it has nothing more to say"),
    (
        10,
        "unexpected_message",
        "it did not expect what this end sent",
    ),
    (
        20,
        "bad_record_mac",
        "a record did not arrive as it was sent",
    ),
    (22, "record_overflow", "a record was too long for it"),
    (
        40,
        "handshake_failure",
        "it found nothing that both ends accept: compare versions, cipher suites and kinds of keys",
    ),
    (
        42,
        "bad_certificate",
        "it cannot use the certificate of this end; often its name is not the one the peer asked for",
    ),
    (
        43,
        "unsupported_certificate",
        "the certificate of this end is of a kind that it does not take",
    ),
    (
        44,
        "certificate_revoked",
        "the certificate of this end was revoked",
    ),
    (
        45,
        "certificate_expired",
        "the certificate of this end has expired or is not valid yet, by the peer's clock",
    ),
    (
        46,
        "certificate_unknown",
        "it does not accept the certificate of this end",
    ),
    (
        47,
        "illegal_parameter",
        "something this end sent makes no sense to it",
    ),
    (
        48,
        "unknown_ca",
        "it does not trust the authority that signed the certificate of this end: give it that authority's certificate",
    ),
    (
        49,
        "access_denied",
        "it knows this end and does not let it in",
    ),
    (50, "decode_error", "it could not read what this end sent"),
    (
        51,
        "decrypt_error",
        "a signature of this end did not hold; often the key is not that of the certificate",
    ),
    (
        70,
        "protocol_version",
        "it does not speak the versions that this end allows",
    ),
    (
        71,
        "insufficient_security",
        "it wants stronger cryptography than this end allows",
    ),
    (80, "internal_error", "something is wrong with itself"),
    (
        86,
        "inappropriate_fallback",
        "this end tried an older version than both ends speak",
    ),
    (90, "user_canceled", "it gave up during the handshake"),
    (
        109,
        "missing_extension",
        "something it needs was missing in what this end sent",
    ),
    (
        110,
        "unsupported_extension",
        "this end sent something it did not ask for",
    ),
    (
        112,
        "unrecognized_name",
        "it serves no host of the name that this end asked for",
    ),
    (
        113,
        "bad_certificate_status_response",
        "the revocation status this end sent is not valid",
    ),
    (
        115,
        "unknown_psk_identity",
        "it does not know the session this end wanted to resume",
    ),
    (
        116,
        "certificate_required",
        "it wants a certificate, and this end showed none",
    ),
    (
        120,
        "no_application_protocol",
        "it speaks none of the protocols that this end offered in ALPN",
    ),
];
