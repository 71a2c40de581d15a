//! Which CPUs this process may use, and putting a thread on one of them.

use std::error::Error;
use std::fmt;

use crate::Reading;
use crate::cpu_set::CpuSet;
use crate::sys::os;

/// The CPUs this process may use and the CPU time it may take, with the sources the answer comes from.
///
/// Read it before pinning anything: the affinity is that of the calling thread.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// The CPUs in both `affinity` and `cpuset`; where neither is known, as many as the system has online.
    /// Never empty.
    pub cpus: CpuSet,
    /// Affinity mask of the calling thread (sched_getaffinity(2)).
    pub affinity: Reading<CpuSet>,
    /// CPUs of the control group (cgroup v2 `cpuset.cpus.effective`, v1 `cpuset.effective_cpus`).
    pub cpuset: Reading<CpuSet>,
    /// CPUs' worth of time per period that the control groups grant (cgroup v2 `cpu.max`, v1
    /// `cpu.cfs_quota_us` over `cpu.cfs_period_us`): the tightest limit from this process's group up to the
    /// root that it can see. `Ok(None)`: none of them sets a limit. A limit above the root of a cgroup
    /// namespace cannot be seen.
    pub quota_cpus: Reading<Option<f64>>,
}

impl Allowed {
    /// Asks the host. macOS has neither affinity, cpusets nor quotas: there `cpus` is every active CPU.
    #[must_use]
    pub fn read() -> Self {
        os::affinity::allowed()
    }

    /// How many threads can run at the same time: the number of CPUs or the quota rounded up, whichever is
    /// smaller, and at least 1.
    #[must_use]
    pub fn usable(&self) -> usize {
        let cpus = self.cpus.len().max(1);
        match self.quota_cpus {
            // Looked up by counting, so that no number has to be cast: the answer lies in 1..=cpus.
            Ok(Some(quota)) => (1..cpus)
                .zip(1u32..)
                .find(|(_, n)| f64::from(*n) >= quota)
                .map_or(cpus, |(n, _)| n),
            Ok(None) | Err(_) => cpus,
        }
    }

    /// Combines the sources into the set to use. `online` is the fallback where no source is known.
    pub(crate) fn from_sources(
        affinity: Reading<CpuSet>,
        cpuset: Reading<CpuSet>,
        quota_cpus: Reading<Option<f64>>,
        online: impl FnOnce() -> usize,
    ) -> Self {
        let cpus = match (&affinity, &cpuset) {
            (Ok(affinity), Ok(cpuset)) => affinity.intersection(cpuset),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => one.clone(),
            (Err(_), Err(_)) => CpuSet::default(),
        };
        let cpus = match (cpus.is_empty(), &affinity) {
            (false, _) => cpus,
            // The mask is what the scheduler obeys; a cpuset that contradicts it is being changed.
            (true, Ok(affinity)) if !affinity.is_empty() => affinity.clone(),
            (true, _) => (0..online().max(1)).collect(),
        };
        Self {
            cpus,
            affinity,
            cpuset,
            quota_cpus,
        }
    }
}

/// Ties the calling thread to one CPU, reads back where it may run, and returns that CPU.
///
/// Linux: sched_setaffinity(2), then sched_getaffinity(2). macOS has no thread affinity: the thread asks for
/// the quality-of-service class "user interactive", which favours the fast cores, and the answer is an error
/// that says so.
///
/// # Errors
/// [`NotPinned`] when the host has no affinity, the CPU is not allowed or not there, or the mask read back is
/// another one.
pub fn pin_current_thread(cpu: usize) -> Result<usize, NotPinned> {
    os::affinity::pin_current_thread(cpu)
}

/// The CPUs the calling thread may run on.
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) where threads have no affinity (macOS).
pub fn current_thread_cpus() -> Reading<CpuSet> {
    os::affinity::current_thread_cpus()
}

/// A thread that was not tied to a CPU. It runs wherever the scheduler puts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotPinned {
    /// The CPU that was asked for.
    pub cpu: usize,
    /// Why, and what to do about it.
    pub reason: String,
}

impl fmt::Display for NotPinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not pinned: {}", self.reason)
    }
}

impl Error for NotPinned {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NotExposed;

    fn allowed(cpus: &str, quota: Reading<Option<f64>>) -> Allowed {
        Allowed::from_sources(Ok(CpuSet::parse(cpus).unwrap()), unknown(), quota, || 1)
    }

    fn unknown<T>() -> Reading<T> {
        Err(NotExposed::new("this", "of the test"))
    }

    #[test]
    fn quota_is_rounded_up_and_never_below_one_thread() {
        assert_eq!(allowed("0-7", Ok(None)).usable(), 8);
        assert_eq!(allowed("0-7", unknown()).usable(), 8);
        assert_eq!(allowed("0-7", Ok(Some(2.5))).usable(), 3);
        assert_eq!(allowed("0-7", Ok(Some(2.0))).usable(), 2);
        assert_eq!(allowed("0-7", Ok(Some(0.1))).usable(), 1);
        assert_eq!(allowed("0-7", Ok(Some(64.0))).usable(), 8);
        assert_eq!(allowed("3", Ok(Some(0.5))).usable(), 1);
    }

    #[test]
    fn the_cpus_are_those_every_known_source_grants() {
        let set = |list| Ok(CpuSet::parse(list).unwrap());
        let cpus = |affinity, cpuset| {
            Allowed::from_sources(affinity, cpuset, Ok(None), || 2)
                .cpus
                .to_string()
        };
        assert_eq!(cpus(set("0-3"), set("2-5")), "2-3");
        assert_eq!(cpus(set("0-3"), unknown()), "0-3");
        assert_eq!(cpus(unknown(), set("2-5")), "2-5");
        assert_eq!(cpus(unknown(), unknown()), "0-1");
        assert_eq!(cpus(set("0-1"), set("2-3")), "0-1");
    }
}
