//! The integration tests of `shardloop-protocols`, one binary.

#[cfg(feature = "drive")]
mod datagrams;
#[cfg(feature = "drive")]
mod drive;
#[cfg(feature = "drive")]
mod fake;
mod layer;
#[cfg(feature = "drive")]
mod manners;
mod pair;
mod random;
mod splits;
