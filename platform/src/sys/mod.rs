//! The one place where platforms are told apart. `os` has the same modules, and those the same names, on each.

#[cfg(test)]
mod batches;
pub(crate) mod message;
// Linux does without, and tests it all the same: nobody runs the tests elsewhere as often.
#[cfg(any(test, not(target_os = "linux")))]
pub(crate) mod one_by_one;
#[cfg_attr(target_os = "linux", path = "linux/mod.rs")]
#[cfg_attr(target_os = "macos", path = "macos/mod.rs")]
#[cfg_attr(not(any(target_os = "linux", target_os = "macos")), path = "other.rs")]
pub(crate) mod os;
pub(crate) mod unix;
