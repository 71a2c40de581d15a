//! The one place where platforms are told apart. `os` has the same modules, and those the same names, on each.

#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(target_os = "macos", path = "macos/mod.rs")]
#[cfg_attr(not(any(target_os = "linux", target_os = "macos")), path = "other.rs")]
pub(crate) mod os;
pub(crate) mod unix;
