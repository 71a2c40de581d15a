//! Usage on Linux: CPU-time clocks by system call, the rest from `/proc/<pid>`.

use std::io;
use std::time::Duration;

use nix::errno::Errno;
use nix::time::ClockId;
use nix::unistd::Pid;

use super::files::{Files, HostFiles, absent};
use crate::usage::{Memory, Switches};
use crate::{NotExposed, Reading};

#[derive(Debug)]
pub(crate) struct Clock(ClockId);

impl Clock {
    pub(crate) fn read(&self) -> io::Result<Duration> {
        Ok(self.0.now()?.into())
    }
}

pub(crate) fn clock_of_process(pid: u32) -> Reading<Clock> {
    let unknown = |reason: String| NotExposed::new("CPU time", format!("process {pid}: {reason}"));
    // A clock's number has only 29 bits for the process: larger ones would name another process, or ourselves.
    let number = i32::try_from(pid)
        .ok()
        .filter(|number| (1..=PID_MAX_LIMIT).contains(number));
    let number = number.ok_or_else(|| unknown("no process has this number".to_owned()))?;
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(number));
    clock.map(Clock).map_err(|errno| unknown(errno.to_string()))
}

/// The largest `kernel.pid_max` on 64-bit machines (proc_sys_kernel(5)).
const PID_MAX_LIMIT: i32 = 1 << 22;

pub(crate) fn clock_of_this_process() -> Clock {
    Clock(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Not CLOCK_THREAD_CPUTIME_ID: that number means whichever thread reads it.
pub(crate) fn clock_of_this_thread() -> Reading<Clock> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: pthread_self is this living thread, and `clock` is a valid place for the answer.
    let error = unsafe { libc::pthread_getcpuclockid(libc::pthread_self(), &raw mut clock) };
    match error {
        0 => Ok(Clock(ClockId::from_raw(clock))),
        errno => Err(NotExposed::new(
            "CPU time of the thread",
            Errno::from_raw(errno),
        )),
    }
}

pub(crate) fn memory(pid: Option<u32>) -> Reading<Memory> {
    memory_from(&HostFiles, pid)
}

pub(super) fn memory_from(files: &impl Files, pid: Option<u32>) -> Reading<Memory> {
    let path = format!("{}/status", directory(pid));
    let status = files.reading("memory", &path)?;
    parse_memory(&status).ok_or_else(|| {
        NotExposed::new(
            "memory",
            format!("{path} has no VmRSS: the process has ended"),
        )
    })
}

/// VmRSS and VmHWM, which are given in units of 1,024 bytes.
fn parse_memory(status: &str) -> Option<Memory> {
    let bytes = |key| {
        field(status, key)?
            .strip_suffix("kB")?
            .trim_end()
            .parse::<u64>()
            .ok()?
            .checked_mul(1_024)
    };
    Some(Memory {
        resident_bytes: bytes("VmRSS:")?,
        peak_bytes: bytes("VmHWM:"),
    })
}

pub(crate) fn switches(pid: Option<u32>) -> Reading<Switches> {
    switches_from(&HostFiles, pid)
}

pub(super) fn switches_from(files: &impl Files, pid: Option<u32>) -> Reading<Switches> {
    let mut total = Switches::default();
    for_each_thread(files, "context switches", pid, "status", |status| {
        let switches = parse_switches(status)?;
        total.voluntary = total.voluntary.saturating_add(switches.voluntary);
        total.involuntary = total.involuntary.saturating_add(switches.involuntary);
        Some(())
    })?;
    Ok(total)
}

fn parse_switches(status: &str) -> Option<Switches> {
    Some(Switches {
        voluntary: field(status, "voluntary_ctxt_switches:")?.parse().ok()?,
        involuntary: field(status, "nonvoluntary_ctxt_switches:")?.parse().ok()?,
    })
}

/// The value of a line "key value".
fn field<'t>(status: &'t str, key: &str) -> Option<&'t str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .map(str::trim)
}

/// Hands `take` the file `name` of every thread that is alive. Threads that end meanwhile are passed over; the
/// answer is a reason when there was no thread at all or `take` could not read one.
pub(super) fn for_each_thread(
    files: &impl Files,
    what: &'static str,
    pid: Option<u32>,
    name: &str,
    mut take: impl FnMut(&str) -> Option<()>,
) -> Reading<()> {
    let directory = format!("{}/task", directory(pid));
    let threads = files
        .names(&directory)
        .map_err(|error| absent(what, &directory, &error))?;
    let mut seen = false;
    for thread in threads {
        let path = format!("{directory}/{thread}/{name}");
        match files.read(&path) {
            Ok(text) => take(&text)
                .ok_or_else(|| NotExposed::new(what, format!("{path} does not have it")))?,
            Err(error) if has_ended(&error) => continue,
            Err(error) => return Err(absent(what, &path, &error)),
        }
        seen = true;
    }
    if seen {
        Ok(())
    } else {
        Err(NotExposed::new(
            what,
            format!("no thread in {directory} has a file {name}"),
        ))
    }
}

fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

fn directory(pid: Option<u32>) -> String {
    pid.map_or("/proc/self".to_owned(), |pid| format!("/proc/{pid}"))
}

#[cfg(test)]
mod tests {
    use super::super::files::ListedFiles;
    use super::*;

    fn server() -> ListedFiles {
        ListedFiles::parse(include_str!(
            "../../../tests/fixtures/numa-server/files.txt"
        ))
    }

    #[test]
    fn memory_is_read_in_bytes() {
        let memory = memory_from(&server(), Some(4_242)).unwrap();
        assert_eq!(
            memory,
            Memory {
                resident_bytes: 13_720 * 1_024,
                peak_bytes: Some(15_004 * 1_024)
            }
        );
    }

    #[test]
    fn a_process_without_memory_is_a_reason() {
        let zombie = memory_from(&server(), Some(4_300)).unwrap_err();
        assert!(zombie.reason.contains("has no VmRSS"));
        assert!(
            memory_from(&server(), Some(1))
                .unwrap_err()
                .reason
                .contains("does not exist")
        );
    }

    #[test]
    fn switches_are_summed_over_threads() {
        let switches = switches_from(&server(), Some(4_242)).unwrap();
        assert_eq!(
            switches,
            Switches {
                voluntary: 1_500 + 98_000 + 3,
                involuntary: 12 + 450
            }
        );
        assert!(switches_from(&server(), Some(1)).is_err());
    }

    #[test]
    fn numbers_that_are_no_process_are_refused() {
        for pid in [0, u32::MAX, i32::MAX.unsigned_abs()] {
            assert!(clock_of_process(pid).is_err());
        }
    }
}
