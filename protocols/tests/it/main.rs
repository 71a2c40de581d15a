//! The integration tests of `shardloop-protocols`, one binary.

#[cfg(all(feature = "drive", feature = "aws-lc-rs"))]
mod clients;
#[cfg(any(feature = "aws-lc-rs", feature = "ring"))]
mod corpora;
#[cfg(feature = "drive")]
mod datagrams;
#[cfg(feature = "drive")]
mod drive;
#[cfg(feature = "drive")]
mod fake;
mod http1;
mod layer;
#[cfg(feature = "drive")]
mod manners;
#[cfg(feature = "drive")]
mod network;
mod pair;
mod random;
mod splits;
#[cfg(any(feature = "aws-lc-rs", feature = "ring"))]
mod tls;
mod websocket;
