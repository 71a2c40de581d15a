//! Batches of datagrams on macOS, which has no public call for them.

pub(crate) use crate::sys::one_by_one::Slots;

/// Drops are not told with datagrams.
pub(crate) const DROPS_MESSAGE: Option<libc::c_int> = None;
