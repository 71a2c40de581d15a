//! Giving memory back on Linux.

use std::io;
use std::ptr::NonNull;

/// # Safety
/// `[start, start + len)` must be whole pages of private anonymous memory that the caller owns and holds no
/// references into; it is zero afterwards.
pub(crate) unsafe fn zero_and_release(start: NonNull<u8>, len: usize) -> io::Result<()> {
    // SAFETY: the caller owns the range. For private anonymous memory MADV_DONTNEED means that the next access
    // finds zeroed pages (madvise(2)).
    match unsafe { libc::madvise(start.as_ptr().cast(), len, libc::MADV_DONTNEED) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives free pages of the heap back to the system; true if the allocator can do that and did.
#[cfg(target_env = "gnu")]
pub(crate) fn trim_heap() -> bool {
    // SAFETY: malloc_trim(3) is thread-safe and touches only memory that the allocator itself holds as free.
    unsafe { libc::malloc_trim(0) == 1 }
}

/// Other allocators offer no such call.
#[cfg(not(target_env = "gnu"))]
pub(crate) fn trim_heap() -> bool {
    false
}
