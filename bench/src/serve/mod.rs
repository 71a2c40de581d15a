//! The servers under test: shards, and the shared pool they are compared with. Both run the very same connection functions.
//! Beside them the null server, which tests the load generator.

pub(crate) mod datagrams;
pub(crate) mod handler;
pub(crate) mod lanes;
pub(crate) mod null;
mod null_datagrams;
pub(crate) mod pool;
mod pool_datagrams;
pub(crate) mod pool_stream;
pub(crate) mod shards;
pub(crate) mod speech;
