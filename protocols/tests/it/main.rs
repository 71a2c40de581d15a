//! The integration tests of `shardloop-protocols`, one binary.

mod layer;
mod random;
mod splits;
