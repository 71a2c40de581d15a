//! One file per subcommand.

pub(crate) mod doctor;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod quick;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod stress;
pub(crate) mod test;
