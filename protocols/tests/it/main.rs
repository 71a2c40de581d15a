//! The integration tests of `shardloop-protocols`, one binary.

#[cfg(feature = "drive")]
mod datagrams;
mod drive;
#[cfg(feature = "drive")]
mod fake;
mod http1;
mod layer;
mod pair;
mod random;
mod splits;
