//! What every Unix does alike but safe wrappers do not offer: mappings, hooks between fork and exec, limits.
//!
//! A [`Mapping`] owns its pages from `new` to `drop`; slices of them borrow it.

use std::io;
use std::os::unix::process::CommandExt;
use std::os::unix::thread::JoinHandleExt;
use std::process::Command;
use std::ptr::{self, NonNull};
use std::slice;
use std::thread::JoinHandle;

use nix::errno::Errno;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};

use super::os;
use crate::host::Limit;
use crate::{NotExposed, Reading};

/// Whole pages of anonymous private memory.
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory owned by this value alone; nothing about it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference only gives shared slices of bytes.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// `len` must be a multiple of the page size, above 0 and at most `isize::MAX`.
    pub(crate) fn new(len: usize) -> io::Result<Self> {
        // SAFETY: without MAP_FIXED and with no address wish, the kernel picks a range nobody uses.
        let start = unsafe { map(ptr::null_mut(), len, 0) }?;
        Ok(Self { start, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` is the start of `len` readable bytes, initialised (to zero) by the kernel, that live
        // as long as `self`; the borrow of `self` excludes writers. `len` is at most `isize::MAX`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, writable too, and the borrow of `self` is exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Gives the pages back; they read as zero afterwards.
    pub(crate) fn release(&mut self) -> io::Result<()> {
        // SAFETY: the range is exactly the one this value owns, and the exclusive borrow means that no slice of
        // it exists. Its bytes become zero, which is valid for `u8`.
        unsafe { os::memory::zero_and_release(self.start, self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly the one mapped in `new`, and no slice of it outlives `self`.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert_eq!(result, 0, "munmap of a range we mapped");
    }
}

/// Maps zeroed private memory; `flags` are added to the usual ones.
///
/// # Safety
/// With MAP_FIXED in `flags`, `[address, address + len)` must be mapped memory the caller owns and holds no
/// references into. Without it there is no condition.
pub(crate) unsafe fn map(
    address: *mut libc::c_void,
    len: usize,
    flags: i32,
) -> io::Result<NonNull<u8>> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANON;
    // SAFETY: mmap checks its arguments; replacing memory is the caller's business, as stated above.
    let start = unsafe {
        libc::mmap(
            address,
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mmap gave the address zero"))
}

pub(crate) fn page_bytes() -> usize {
    // SAFETY: sysconf reads a number and touches no memory of ours.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes)
        .ok()
        .filter(|bytes| bytes.is_power_of_two())
        .expect("POSIX systems have a page size")
}

/// Adds a hook that unblocks `signals` in the child and gives them their default action.
pub(crate) fn default_signals_in_child(command: &mut Command, signals: SigSet) -> &mut Command {
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. The hook makes sigaction and
    // pthread_sigmask calls on a set copied into it, and allocates nothing.
    unsafe { command.pre_exec(move || use_default_signals(signals)) }
}

fn use_default_signals(signals: SigSet) -> io::Result<()> {
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    for signal in &signals {
        // SAFETY: the default action runs no code of ours.
        unsafe { sigaction(signal, &default) }?;
    }
    signals.thread_unblock()?;
    Ok(())
}

/// Sends a signal to one thread, which has not been joined because its handle is here.
pub(crate) fn signal_thread<T>(thread: &JoinHandle<T>, signal: Signal) -> nix::Result<()> {
    // SAFETY: the handle keeps the thread's number valid, whether the thread has ended or not.
    let error =
        unsafe { libc::pthread_kill(thread.as_pthread_t() as libc::pthread_t, signal as i32) };
    match error {
        0 => Ok(()),
        errno => Err(Errno::from_raw(errno)),
    }
}

/// Blocked signals that wait for the calling thread or for the process.
pub(crate) fn waiting_signals() -> SigSet {
    let mut waiting = *SigSet::empty().as_ref();
    // SAFETY: the pointer is to a set of signals, and valid for writing.
    let failed = unsafe { libc::sigpending(&raw mut waiting) };
    debug_assert_eq!(failed, 0, "it fails for bad pointers only");
    // SAFETY: the set was valid before, and the kernel writes valid ones.
    unsafe { SigSet::from_sigset_t_unchecked(waiting) }
}

/// RLIMIT_NOFILE.
pub(crate) fn descriptor_limit() -> Reading<Limit> {
    limit("descriptor limit", |limit| {
        // SAFETY: the pointer comes from `limit` below and is valid for writing.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, limit) }
    })
}

/// RLIMIT_MEMLOCK, which nix does not have on every system.
pub(crate) fn memlock_limit() -> Reading<Limit> {
    limit("limit on locked memory", |limit| {
        // SAFETY: the pointer comes from `limit` below and is valid for writing.
        unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, limit) }
    })
}

fn limit(what: &'static str, get: impl FnOnce(*mut libc::rlimit) -> libc::c_int) -> Reading<Limit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    Errno::result(get(&raw mut limit)).map_err(|errno| NotExposed::new(what, errno))?;
    Ok(Limit {
        soft: finite(limit.rlim_cur),
        hard: finite(limit.rlim_max),
    })
}

/// Systems disagree about whether these numbers have a sign.
fn finite(limit: libc::rlim_t) -> Option<u64> {
    fn unsigned(limit: impl TryInto<u64>) -> Option<u64> {
        limit.try_into().ok()
    }
    if limit == libc::RLIM_INFINITY {
        None
    } else {
        unsigned(limit)
    }
}
