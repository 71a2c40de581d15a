//! The commands: arguments in, exit code out.

pub(crate) mod load;
