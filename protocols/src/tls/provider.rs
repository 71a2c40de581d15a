//! Where cryptography and randomness come from.

use rustls::{Error, crypto::CryptoProvider, server::ProducesTickets};
use std::{fmt, sync::Arc};

type NewTicketer = fn() -> Result<Arc<dyn ProducesTickets>, Error>;

/// A cryptographic library, its random numbers included. Cheap to clone.
///
/// The features of this crate bring two: `aws-lc-rs` (the default) and `ring`. Without either, [`custom`](Self::custom) takes any
/// that implements the interface of rustls.
#[derive(Clone)]
pub struct Provider {
    pub(super) crypto: Arc<CryptoProvider>,
    name: &'static str,
    ticketer: Option<NewTicketer>,
}

impl Provider {
    /// AWS-LC.
    #[cfg(feature = "aws-lc-rs")]
    #[must_use]
    pub fn aws_lc_rs() -> Self {
        Self {
            crypto: Arc::new(rustls::crypto::aws_lc_rs::default_provider()),
            name: "aws-lc-rs",
            ticketer: Some(rustls::crypto::aws_lc_rs::Ticketer::new),
        }
    }

    /// *ring*.
    #[cfg(feature = "ring")]
    #[must_use]
    pub fn ring() -> Self {
        Self {
            crypto: Arc::new(rustls::crypto::ring::default_provider()),
            name: "ring",
            ticketer: Some(rustls::crypto::ring::Ticketer::new),
        }
    }

    /// The one this crate was built with; AWS-LC if it was built with both.
    #[cfg(any(feature = "aws-lc-rs", feature = "ring"))]
    #[must_use]
    pub fn built_in() -> Self {
        #[cfg(feature = "aws-lc-rs")]
        return Self::aws_lc_rs();
        #[cfg(not(feature = "aws-lc-rs"))]
        return Self::ring();
    }

    /// Any other. It makes no tickets ([`Resumption::Tickets`](super::Resumption::Tickets)).
    #[must_use]
    pub fn custom(name: &'static str, crypto: CryptoProvider) -> Self {
        Self {
            crypto: Arc::new(crypto),
            name,
            ticketer: None,
        }
    }

    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn makes_tickets(&self) -> bool {
        self.ticketer.is_some()
    }

    /// Fresh keys for tickets, if it makes any.
    pub(super) fn ticketer(&self) -> Option<Result<Arc<dyn ProducesTickets>, Error>> {
        self.ticketer.map(|new| new())
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Provider").field(&self.name).finish()
    }
}
