//! Whether this process may use io_uring with the options it wants, and the reason when it may not.

use std::error::Error;
use std::fmt;

use crate::socket::is_descriptor_limit;
use crate::sys::os;

/// How the ring would be set up (io_uring_setup(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// Submission entries, 1 to 32,768; the kernel rounds up to a power of two.
    pub entries: u32,
    /// IORING_SETUP_COOP_TASKRUN (Linux 5.19).
    pub coop_taskrun: bool,
    /// IORING_SETUP_SINGLE_ISSUER (Linux 6.0).
    pub single_issuer: bool,
    /// IORING_SETUP_DEFER_TASKRUN (Linux 6.1); needs `single_issuer`.
    pub defer_taskrun: bool,
}

/// What the kernel offers, found by using it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RingFacts {
    /// Release of the running kernel, as uname(2) says it.
    pub kernel: String,
    /// Names of the features the kernel reported, without `IORING_FEAT_`.
    pub features: Vec<&'static str>,
    /// Names of the supported operations this project knows, without `IORING_OP_`.
    pub opcodes: Vec<&'static str>,
}

/// Builds a ring with exactly these options, checks that the kernel knows the operations an engine needs
/// (IORING_REGISTER_PROBE, Linux 5.6), sends one NOP through io_uring_enter(2), and closes the ring.
///
/// The kernel ends the ring a little later and interrupts the calling thread for it, so that a call that waits just then may fail
/// with EINTR: call this on a thread that makes no such calls, or ends.
///
/// Building is not enough: container policies exist that allow the set-up and refuse the submission.
///
/// # Errors
/// [`RingRefused`] with the cause. Always, except on Linux.
pub fn probe(options: &RingOptions) -> Result<RingFacts, RingRefused> {
    os::uring::probe(options)
}

/// Why io_uring_setup(2) with these options failed with this error.
#[must_use]
pub fn explain(options: &RingOptions, error: &std::io::Error) -> RingRefused {
    os::uring::explain(options, error)
}

/// What a policy may refuse, while it allows the rest.
#[cfg(feature = "refusals")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// io_uring_setup(2): there are no rings at all.
    Setup,
    /// io_uring_enter(2): rings can be built and not used.
    Enter,
}

/// Has the kernel refuse this with EPERM, to all threads of this process, for good: a seccomp filter as containers have it (seccomp(2),
/// Linux 3.17). For tests, in a process of their own.
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) except on Linux, or when the kernel takes no filter.
#[cfg(feature = "refusals")]
pub fn refuse(what: Refusal) -> crate::Reading<()> {
    os::uring::refuse(what)
}

/// io_uring cannot be used as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingRefused {
    /// Why.
    pub cause: RefusalCause,
}

/// Why io_uring cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalCause {
    /// This is not Linux.
    NotLinux,
    /// The sysctl `kernel.io_uring_disabled` has this value, and it applies to us (1: unless a member of
    /// `io_uring_group`; 2: everybody). Linux 6.6.
    Disabled(u32),
    /// EPERM or EACCES while the sysctl allows it: a seccomp filter or a security module.
    Denied,
    /// ENOMEM: the ring's memory exceeds RLIMIT_MEMLOCK. Kernels before 5.12 count every ring.
    MemlockLimit,
    /// The kernel does not know this set-up flag.
    FlagUnknown(&'static str),
    /// ENOSYS: the kernel has no io_uring (before Linux 5.1, or built without it), or a seccomp filter
    /// pretends so.
    TooOld,
    /// The kernel does not know an operation the engines need.
    OpcodeMissing(&'static str),
    /// The ring could be built, but submitting to it failed with this error number.
    EnterRefused(i32),
    /// Any other error number of io_uring_setup(2).
    Other(i32),
}

impl fmt::Display for RingRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            RefusalCause::NotLinux => f.write_str(
                "io_uring exists on Linux only; use the kqueue or epoll engine (monoio-legacy)",
            ),
            RefusalCause::Disabled(value) => write!(
                f,
                "io_uring is switched off on this host (sysctl kernel.io_uring_disabled = {value}{}); an \
                 administrator can allow it with `sysctl kernel.io_uring_disabled=0`",
                if value == 1 { ": only for members of kernel.io_uring_group" } else { "" }
            ),
            RefusalCause::Denied => f.write_str(
                "io_uring is denied to this process although the host has it, most likely by the seccomp \
                 profile of a container; run it with a profile that allows io_uring_setup, io_uring_enter and \
                 io_uring_register (Docker: --security-opt seccomp=<profile>)",
            ),
            RefusalCause::MemlockLimit => f.write_str(
                "the kernel had no memory for the ring, most likely because of RLIMIT_MEMLOCK; raise it \
                 (`ulimit -l`) or use fewer entries",
            ),
            RefusalCause::FlagUnknown(flag) => write!(
                f,
                "this kernel does not know the ring option {flag}; use a newer kernel or leave it out"
            ),
            RefusalCause::TooOld => f.write_str(
                "this kernel has no io_uring (Linux 5.1 or newer, built with CONFIG_IO_URING), or a sandbox \
                 hides it; use a newer kernel or the epoll engine (monoio-legacy)",
            ),
            RefusalCause::OpcodeMissing(name) => write!(
                f,
                "this kernel's io_uring lacks the operation {name}, which the engines need; use a newer kernel \
                 or the epoll engine (monoio-legacy)"
            ),
            RefusalCause::EnterRefused(errno) => write!(
                f,
                "a ring could be built but submitting to it failed ({}), most likely because a seccomp profile \
                 allows io_uring_setup and not io_uring_enter; allow both",
                std::io::Error::from_raw_os_error(errno)
            ),
            RefusalCause::Other(errno)
                if is_descriptor_limit(&std::io::Error::from_raw_os_error(errno)) =>
            {
                write!(
                    f,
                    "there was no descriptor left for a ring ({}); raise the limit (`ulimit -n`)",
                    std::io::Error::from_raw_os_error(errno)
                )
            }
            RefusalCause::Other(errno) => write!(
                f,
                "io_uring_setup failed: {}; use the epoll engine (monoio-legacy)",
                std::io::Error::from_raw_os_error(errno)
            ),
        }
    }
}

impl Error for RingRefused {}

impl From<RefusalCause> for RingRefused {
    fn from(cause: RefusalCause) -> Self {
        Self { cause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_names_a_remedy() {
        let text = |cause| RingRefused { cause }.to_string();
        assert!(text(RefusalCause::Disabled(2)).contains("sysctl kernel.io_uring_disabled=0"));
        assert!(text(RefusalCause::Disabled(1)).contains("io_uring_group"));
        assert!(text(RefusalCause::Denied).contains("seccomp"));
        assert!(text(RefusalCause::MemlockLimit).contains("ulimit -l"));
        assert!(text(RefusalCause::FlagUnknown("SINGLE_ISSUER")).contains("SINGLE_ISSUER"));
        assert!(text(RefusalCause::TooOld).contains("5.1"));
        assert!(text(RefusalCause::OpcodeMissing("ACCEPT")).contains("ACCEPT"));
        assert!(text(RefusalCause::Other(libc::EMFILE)).contains("ulimit -n"));
    }
}
