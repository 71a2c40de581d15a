//! What a process costs: CPU time, resident memory, context switches.

use std::io;
use std::time::Duration;

use crate::Reading;
use crate::sys::os;

/// The CPU time (user and system together) of a process or a thread, in nanoseconds as far as the host counts
/// them. Resolved once, read often.
///
/// Linux: the CPU-time clocks of clock_getcpuclockid(3). They are exact where the user/system split of
/// getrusage(2) is sampled by ticks, and those of a process include threads that have ended and the worker
/// threads of its rings (since Linux 5.12, where these became threads of the process).
/// macOS: proc_pid_rusage(2), whose Mach time units are converted; a thread by thread_info, in microseconds.
#[derive(Debug)]
pub struct CpuClock(os::usage::Clock);

impl CpuClock {
    /// The clock of all threads of process `pid`.
    ///
    /// # Errors
    /// [`NotExposed`](crate::NotExposed) when there is no such process, or on macOS when it belongs to
    /// somebody else.
    pub fn of_process(pid: u32) -> Reading<Self> {
        os::usage::clock_of_process(pid).map(Self)
    }

    /// The clock of all threads of this process.
    #[must_use]
    pub fn this_process() -> Self {
        Self(os::usage::clock_of_this_process())
    }

    /// The clock of the calling thread. It may be read from other threads of this process.
    ///
    /// # Errors
    /// [`NotExposed`](crate::NotExposed) where threads have no clock of their own.
    pub fn this_thread() -> Reading<Self> {
        os::usage::clock_of_this_thread().map(Self)
    }

    /// CPU time used so far.
    ///
    /// # Errors
    /// The operating system's, after the process or thread has ended (EINVAL or ESRCH).
    pub fn read(&self) -> io::Result<Duration> {
        self.0.read()
    }
}

/// Memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of physical memory in use. Linux: `VmRSS`, behind by up to some pages per CPU because the kernel
    /// batches its counters (proc_pid_status(5)).
    pub resident_bytes: u64,
    /// The largest value `resident_bytes` ever had, where the host keeps it. Linux: `VmHWM`.
    pub peak_bytes: Option<u64>,
}

/// Memory of process `pid`, or of this process.
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) when the process is gone, has no memory of its own (a zombie, a kernel
/// thread), or must not be looked at.
pub fn memory(pid: Option<u32>) -> Reading<Memory> {
    os::usage::memory(pid)
}

/// How often threads of a process left the CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Gave it up, to wait for something.
    pub voluntary: u64,
    /// Had it taken away.
    pub involuntary: u64,
}

/// Context switches of process `pid`, or of this process.
///
/// Linux: summed over the threads alive now (`/proc/<pid>/task/*/status`), so a thread that ends takes its
/// count along. macOS: getrusage(2) for this process; for others the kernel does not split the count.
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) when the process is gone, must not be looked at, or the host does not
/// tell.
pub fn switches(pid: Option<u32>) -> Reading<Switches> {
    os::usage::switches(pid)
}
