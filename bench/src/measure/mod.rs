//! What is made of observations.

pub(crate) mod histogram;
