//! How many system calls this process makes.

use std::io;

use crate::Reading;
use crate::sys::os;

/// Counts the system calls of the calling thread and of every thread started from it afterwards, directly or
/// not, also after they have ended. Child processes are not counted (Linux 5.13; before it they are).
///
/// Linux only: the tracepoint `raw_syscalls:sys_enter` through perf_event_open(2), with `inherit`. It costs some
/// nanoseconds per call, so measure time and calls in different passes.
#[derive(Debug)]
pub struct CallCounter(os::calls::Counter);

impl CallCounter {
    /// Starts counting. Call it before starting threads: those already running are not seen.
    ///
    /// # Errors
    /// [`NotExposed`](crate::NotExposed) with the reason: no tracefs to read the tracepoint's number from,
    /// `kernel.perf_event_paranoid` above what this user may, a seccomp filter, not Linux.
    pub fn open() -> Reading<Self> {
        os::calls::Counter::open().map(Self)
    }

    /// System calls so far, over all threads. The call that reads is itself counted, in the next reading.
    ///
    /// # Errors
    /// The operating system's.
    pub fn read(&self) -> io::Result<u64> {
        self.0.read()
    }
}
