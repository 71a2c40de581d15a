//! Giving memory back on macOS.

use std::io;
use std::ptr::NonNull;

use crate::sys::unix;

/// # Safety
/// `[start, start + len)` must be whole pages of private anonymous memory that the caller owns and holds no
/// references into; it is zero afterwards.
pub(crate) unsafe fn zero_and_release(start: NonNull<u8>, len: usize) -> io::Result<()> {
    // MADV_DONTNEED is only a hint here and keeps the contents; mapping the range anew does not.
    // SAFETY: the caller owns the range, and MAP_FIXED replaces exactly that.
    unsafe { unix::map(start.as_ptr().cast(), len, libc::MAP_FIXED) }.map(|_| ())
}

/// The system's allocator gives large free ranges back by itself and offers no call that suits.
pub(crate) fn trim_heap() -> bool {
    false
}
