//! Affinity on Linux: sched_setaffinity(2) and the control groups.

use nix::errno::Errno;
use nix::sched::{self, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::cgroup;
use super::files::{Files, HostFiles};
use crate::affinity::{Allowed, NotPinned};
use crate::cpu_set::CpuSet;
use crate::{NotExposed, Reading};

pub(crate) fn allowed() -> Allowed {
    allowed_from(&HostFiles, current_thread_cpus())
}

pub(super) fn allowed_from(files: &impl Files, affinity: Reading<CpuSet>) -> Allowed {
    let online = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    Allowed::from_sources(
        affinity,
        cgroup::cpuset(files),
        cgroup::quota_cpus(files),
        online,
    )
}

pub(crate) fn current_thread_cpus() -> Reading<CpuSet> {
    let mask = sched_getaffinity(CALLING_THREAD)
        .map_err(|errno| NotExposed::new("affinity", format!("sched_getaffinity: {errno}")))?;
    let holds = |&cpu: &usize| mask.is_set(cpu).unwrap_or(false);
    Ok((0..sched::CpuSet::count()).filter(holds).collect())
}

pub(crate) fn pin_current_thread(cpu: usize) -> Result<usize, NotPinned> {
    let refused = |reason: String| NotPinned { cpu, reason };
    let mut mask = sched::CpuSet::new();
    mask.set(cpu).map_err(|_| refused(too_high(cpu)))?;
    sched_setaffinity(CALLING_THREAD, &mask).map_err(|errno| refused(why(cpu, errno)))?;
    let in_force = current_thread_cpus().map_err(|absent| refused(absent.to_string()))?;
    if in_force.iter().eq([cpu]) {
        Ok(cpu)
    } else {
        Err(refused(format!(
            "asked for CPU {cpu}, and the kernel put the thread on {in_force} instead"
        )))
    }
}

const CALLING_THREAD: Pid = Pid::from_raw(0);

fn too_high(cpu: usize) -> String {
    format!(
        "there is no CPU {cpu} (the mask ends at {})",
        sched::CpuSet::count() - 1
    )
}

fn why(cpu: usize, errno: Errno) -> String {
    match errno {
        Errno::EINVAL => format!(
            "CPU {cpu} is offline, does not exist, or is outside of this process's CPU set; choose one that \
             Cpus_allowed_list in /proc/self/status lists"
        ),
        Errno::EPERM | Errno::EACCES | Errno::ENOSYS => {
            format!(
                "a security policy forbids sched_setaffinity ({errno}); allow it, or run without pinning"
            )
        }
        errno => format!("sched_setaffinity to CPU {cpu}: {errno}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::files::ListedFiles;
    use super::*;

    fn usable(listing: &str, affinity: &str) -> (String, usize) {
        let allowed = allowed_from(
            &ListedFiles::parse(listing),
            Ok(CpuSet::parse(affinity).unwrap()),
        );
        (allowed.cpus.to_string(), allowed.usable())
    }

    #[test]
    fn containers_may_use_what_every_limit_leaves() {
        let v1 = include_str!("../../../tests/fixtures/container-v1/files.txt");
        assert_eq!(usable(v1, "0-7"), ("0-3".to_owned(), 2));
        let v2 = include_str!("../../../tests/fixtures/container-v2/files.txt");
        assert_eq!(usable(v2, "0-15"), ("4-7,12-15".to_owned(), 3));
        assert_eq!(usable(v2, "4"), ("4".to_owned(), 1));
    }

    #[test]
    fn a_cpu_that_cannot_be_is_refused_with_a_sentence() {
        let refused = pin_current_thread(1_000_000).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "not pinned: there is no CPU 1000000 (the mask ends at 1023)"
        );
        assert!(
            pin_current_thread(1_023)
                .unwrap_err()
                .reason
                .contains("CPU 1023 is offline")
        );
    }
}
