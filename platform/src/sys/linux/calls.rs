//! Counting system calls with the tracepoint `raw_syscalls:sys_enter`, perf_event_open(2).
//!
//! The tracepoint's number is found in tracefs. Where nobody has mounted it and we may (CAP_SYS_ADMIN), it is
//! mounted *detached*: reachable through one descriptor only, at no path, and gone when that is closed
//! (fsopen(2), Linux 5.2). So the machine is as it was.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::errno::Errno;

use super::files::{Files, HostFiles};
use crate::{NotExposed, Reading};

#[derive(Debug)]
pub(crate) struct Counter(File);

impl Counter {
    pub(crate) fn open() -> Reading<Self> {
        let tracepoint = tracepoint_id()?;
        let event = perf_event_open(&Attributes::counting(tracepoint, INHERIT | INHERIT_THREAD))
            // Before Linux 5.13 INHERIT_THREAD is a reserved bit.
            .or_else(|error| match error.raw_os_error() {
                Some(libc::EINVAL) => perf_event_open(&Attributes::counting(tracepoint, INHERIT)),
                _ => Err(error),
            });
        event
            .map(|event| Self(event.into()))
            .map_err(|error| refused(&error))
    }

    pub(crate) fn read(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        (&self.0).read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
}

const WHAT: &str = "number of system calls";
const ID_FILE: &str = "events/raw_syscalls/sys_enter/id";

fn refused(error: &io::Error) -> NotExposed {
    let reason = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let paranoid = HostFiles
                .read("/proc/sys/kernel/perf_event_paranoid")
                .unwrap_or_else(|_| "unknown".into());
            format!(
                "perf_event_open is not permitted (sysctl kernel.perf_event_paranoid = {paranoid}); an administrator \
                 can allow it with `sysctl kernel.perf_event_paranoid=1` or give this program CAP_PERFMON, and a \
                 container needs a seccomp profile with perf_event_open"
            )
        }
        Some(libc::ENOSYS) => "this kernel is built without performance events".to_owned(),
        _ => format!("perf_event_open: {error}"),
    };
    NotExposed::new(WHAT, reason)
}

fn tracepoint_id() -> Reading<u64> {
    let mut reasons = Vec::new();
    for mount in ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"] {
        match HostFiles.number(WHAT, &format!("{mount}/{ID_FILE}")) {
            Ok(id) => return Ok(id),
            Err(absent) => reasons.push(absent.reason),
        }
    }
    detached_tracepoint_id().map_err(|error| {
        reasons.push(format!("and tracefs cannot be mounted by us ({error})"));
        let remedy = "an administrator can mount it (`mount -t tracefs tracefs /sys/kernel/tracing`) and let this \
                      user read it";
        NotExposed::new(WHAT, format!("{}; {remedy}", reasons.join(", ")))
    })
}

/// The same file from a mount of our own that nobody else can see.
fn detached_tracepoint_id() -> io::Result<u64> {
    let root = mount_detached(c"tracefs")?;
    let flags = nix::fcntl::OFlag::O_RDONLY | nix::fcntl::OFlag::O_CLOEXEC;
    let file = nix::fcntl::openat(&root, ID_FILE, flags, nix::sys::stat::Mode::empty())?;
    let mut text = String::new();
    File::from(file).read_to_string(&mut text)?;
    text.trim().parse().map_err(io::Error::other)
}

fn mount_detached(filesystem: &std::ffi::CStr) -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string that outlives the call; the result is a new descriptor or an error.
    let context = descriptor(unsafe {
        libc::syscall(libc::SYS_fsopen, filesystem.as_ptr(), FSOPEN_CLOEXEC)
    })?;
    let none = std::ptr::null::<libc::c_char>();
    // SAFETY: this command takes neither key nor value, both null.
    let created = unsafe {
        libc::syscall(
            libc::SYS_fsconfig,
            context.as_raw_fd(),
            FSCONFIG_CMD_CREATE,
            none,
            none,
            0,
        )
    };
    Errno::result(created)?;
    // SAFETY: only numbers are passed; the result is a new descriptor or an error.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, 0) })
}

/// From `linux/mount.h`.
const FSOPEN_CLOEXEC: libc::c_uint = 1;
const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
const FSMOUNT_CLOEXEC: libc::c_uint = 1;

/// Takes ownership of the descriptor a system call has just returned.
fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    let result = Errno::result(result)?;
    let number = i32::try_from(result).map_err(io::Error::other)?;
    // SAFETY: the kernel has just opened this descriptor for us, so nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// `struct perf_event_attr` as far as its first version goes, which every kernel accepts.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const PERF_ATTR_SIZE_VER0: u32 = 64;
const _: () = assert!(size_of::<Attributes>() == PERF_ATTR_SIZE_VER0 as usize);
const PERF_TYPE_TRACEPOINT: u32 = 2;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;

/// Positions in the bit field `flags`: threads and children started later are counted too, ...
const INHERIT: u64 = 1 << 1;
/// ... but only threads (Linux 5.13).
const INHERIT_THREAD: u64 = 1 << 35;

impl Attributes {
    fn counting(tracepoint: u64, flags: u64) -> Self {
        Self {
            kind: PERF_TYPE_TRACEPOINT,
            size: PERF_ATTR_SIZE_VER0,
            config: tracepoint,
            sample_period: 0,
            sample_type: 0,
            read_format: 0,
            // C compilers fill bit fields from the other end on big-endian machines.
            flags: if cfg!(target_endian = "big") {
                flags.reverse_bits()
            } else {
                flags
            },
            wakeup_events: 0,
            breakpoint_type: 0,
            breakpoint_address: 0,
        }
    }
}

/// For the calling thread, on whichever CPU it runs.
fn perf_event_open(attributes: &Attributes) -> io::Result<OwnedFd> {
    const THIS_THREAD: libc::pid_t = 0;
    const ANY_CPU: libc::c_int = -1;
    const NO_GROUP: libc::c_int = -1;
    let attributes = std::ptr::from_ref(attributes);
    // SAFETY: the structure is laid out as the kernel expects, says its own size, and outlives the call.
    descriptor(unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes,
            THIS_THREAD,
            ANY_CPU,
            NO_GROUP,
            PERF_FLAG_FD_CLOEXEC,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_sysctl() {
        let reason = refused(&Errno::EACCES.into()).reason;
        assert!(reason.contains("kernel.perf_event_paranoid"));
        assert!(
            refused(&Errno::ENOSYS.into())
                .reason
                .contains("without performance events")
        );
    }

    /// Counts exactly, where it counts at all: whether it can is the host's business.
    #[test]
    fn calls_of_threads_started_later_are_counted() {
        const THREADS: u64 = 4;
        const CALLS: u64 = 10_000;
        let Ok(counter) = Counter::open() else { return };
        let before = counter.read().unwrap();
        let threads: Vec<_> = (0..THREADS)
            .map(|_| std::thread::spawn(|| call(CALLS)))
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let counted = counter.read().unwrap() - before;
        // Starting and ending a thread takes some calls of its own.
        assert!(
            (THREADS * CALLS..THREADS * (CALLS + 100)).contains(&counted),
            "{counted}"
        );
    }

    fn call(times: u64) {
        for _ in 0..times {
            nix::unistd::getppid();
        }
    }
}
