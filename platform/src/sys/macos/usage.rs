//! Usage on macOS: proc_pid_rusage for processes, thread_info for threads, getrusage for switches.

use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::resource::{UsageWho, getrusage};

use crate::usage::{Memory, Switches};
use crate::{NotExposed, Reading};

#[derive(Debug)]
pub(crate) enum Clock {
    /// Its number.
    Process(libc::c_int),
    /// Its Mach port, which belongs to the thread and is not counted by us.
    Thread(libc::mach_port_t),
}

impl Clock {
    pub(crate) fn read(&self) -> io::Result<Duration> {
        match *self {
            Self::Process(pid) => {
                let usage = process_usage(pid)?;
                Ok(Timebase::read()?
                    .duration(usage.ri_user_time.saturating_add(usage.ri_system_time)))
            }
            Self::Thread(port) => thread_time(port),
        }
    }
}

pub(crate) fn clock_of_process(pid: u32) -> Reading<Clock> {
    let pid = process_number("CPU time", Some(pid))?;
    process_usage(pid)
        .map_err(|error| NotExposed::new("CPU time", format!("process {pid}: {error}")))?;
    Ok(Clock::Process(pid))
}

pub(crate) fn clock_of_this_process() -> Clock {
    Clock::Process(nix::unistd::getpid().as_raw())
}

pub(crate) fn clock_of_this_thread() -> Reading<Clock> {
    // SAFETY: pthread_self is this living thread; the call looks its port up.
    Ok(Clock::Thread(unsafe {
        libc::pthread_mach_thread_np(libc::pthread_self())
    }))
}

pub(crate) fn memory(pid: Option<u32>) -> Reading<Memory> {
    let pid = process_number("memory", pid)?;
    let usage = process_usage(pid)
        .map_err(|error| NotExposed::new("memory", format!("process {pid}: {error}")))?;
    Ok(Memory {
        resident_bytes: usage.ri_resident_size,
        peak_bytes: peak_bytes(pid),
    })
}

/// Kept for this process only (`ru_maxrss`, in bytes here); for others it is the peak of another measure.
fn peak_bytes(pid: libc::c_int) -> Option<u64> {
    if pid != nix::unistd::getpid().as_raw() {
        return None;
    }
    u64::try_from(getrusage(UsageWho::RUSAGE_SELF).ok()?.max_rss()).ok()
}

pub(crate) fn switches(pid: Option<u32>) -> Reading<Switches> {
    let unknown = |reason: String| NotExposed::new("context switches", reason);
    if process_number("context switches", pid)? != nix::unistd::getpid().as_raw() {
        return Err(unknown(
            "macOS does not tell voluntary from involuntary ones of other processes".to_owned(),
        ));
    }
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(|errno| unknown(errno.to_string()))?;
    let count = |switches: i64| u64::try_from(switches).unwrap_or_default();
    Ok(Switches {
        voluntary: count(usage.voluntary_context_switches()),
        involuntary: count(usage.involuntary_context_switches()),
    })
}

fn process_number(what: &'static str, pid: Option<u32>) -> Reading<libc::c_int> {
    let Some(pid) = pid else {
        return Ok(nix::unistd::getpid().as_raw());
    };
    let number = libc::c_int::try_from(pid).ok().filter(|&pid| pid > 0);
    number.ok_or_else(|| NotExposed::new(what, format!("no process {pid}")))
}

fn process_usage(pid: libc::c_int) -> io::Result<libc::rusage_info_v2> {
    let mut usage = MaybeUninit::<libc::rusage_info_v2>::uninit();
    // SAFETY: the flavour says that the buffer is a `rusage_info_v2`. The parameter's type is historical: the
    // kernel fills the structure pointed to.
    let result =
        unsafe { libc::proc_pid_rusage(pid, libc::RUSAGE_INFO_V2, usage.as_mut_ptr().cast()) };
    Errno::result(result)?;
    // SAFETY: the call succeeded and has filled it.
    Ok(unsafe { usage.assume_init() })
}

/// proc_pid_rusage counts in Mach time units: 1 ns on Intel, 125/3 ns on Apple silicon.
#[repr(C)]
struct Timebase {
    numerator: u32,
    denominator: u32,
}

unsafe extern "C" {
    /// `mach/mach_time.h`. libc's declaration is deprecated in favour of a crate of its own.
    fn mach_timebase_info(timebase: *mut Timebase) -> libc::kern_return_t;
}

impl Timebase {
    fn read() -> io::Result<Self> {
        let mut timebase = Self {
            numerator: 0,
            denominator: 0,
        };
        // SAFETY: `timebase` is laid out as the C structure and a valid place for the answer.
        match unsafe { mach_timebase_info(&raw mut timebase) } {
            libc::KERN_SUCCESS if timebase.denominator > 0 => Ok(timebase),
            code => Err(io::Error::other(format!(
                "mach_timebase_info: Mach error {code}"
            ))),
        }
    }

    fn duration(&self, units: u64) -> Duration {
        let ns = u128::from(units) * u128::from(self.numerator) / u128::from(self.denominator);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

fn thread_time(port: libc::mach_port_t) -> io::Result<Duration> {
    let mut info = MaybeUninit::<libc::thread_basic_info>::uninit();
    let mut count = libc::THREAD_BASIC_INFO_COUNT;
    // SAFETY: the flavour says that the buffer is a `thread_basic_info`, and `count` how large that is.
    let code = unsafe {
        libc::thread_info(
            port,
            libc::THREAD_BASIC_INFO.unsigned_abs(),
            info.as_mut_ptr().cast(),
            &raw mut count,
        )
    };
    if code != libc::KERN_SUCCESS {
        return Err(io::Error::other(format!("thread_info: Mach error {code}")));
    }
    // SAFETY: the call succeeded and has filled it.
    let info = unsafe { info.assume_init() };
    Ok(duration(info.user_time) + duration(info.system_time))
}

fn duration(time: libc::time_value_t) -> Duration {
    let seconds = u64::try_from(time.seconds).unwrap_or_default();
    let micros = u64::try_from(time.microseconds).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mach_units_become_nanoseconds() {
        let silicon = Timebase {
            numerator: 125,
            denominator: 3,
        };
        assert_eq!(silicon.duration(24_000_000), Duration::from_secs(1));
        assert_eq!(silicon.duration(u64::MAX), Duration::from_nanos(u64::MAX));
    }
}
