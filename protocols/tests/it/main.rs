//! The integration tests of `shardloop-protocols`, one binary.

mod layer;
mod pair;
mod random;
mod splits;
