//! What else happens on the machine while we measure: CPU time of everybody, steal, pressure, load, throttling.
//!
//! Each sensor is a function that answers with a value or with the reason why there is none. [`Snapshot`] asks all of
//! them at once, and [`Noise`] is what happened between two snapshots.

use std::time::Duration;

use crate::Reading;
use crate::sys::os;

mod cpu_times;
mod snapshot;

pub use cpu_times::CpuTimes;
pub use snapshot::{Noise, Snapshot};

/// Total time in which at least one runnable thread of the machine waited for a CPU, since boot, counted in
/// microseconds: [`Pressure::some`] of [`pressure`].
///
/// # Errors
/// As [`pressure`].
pub fn pressure_cpu() -> Reading<Duration> {
    pressure().map(|pressure| pressure.some)
}

/// How long threads have waited for a CPU, in total, counted in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// Time in which at least one runnable thread waited.
    pub some: Duration,
    /// Time in which every thread that was not idle waited, so that none ran. `None` where it is not counted:
    /// for the whole machine it has no meaning, and the zero that kernels write there is not taken for a value.
    pub full: Option<Duration>,
}

impl Pressure {
    /// What was added since `earlier`. Nothing is below zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let full = self.full.zip(earlier.full);
        Self {
            some: self.some.saturating_sub(earlier.some),
            full: full.map(|(later, earlier)| later.saturating_sub(earlier)),
        }
    }
}

/// CPU pressure of the whole machine, since boot.
///
/// Linux 4.20: `/proc/pressure/cpu` (kernel documentation, `accounting/psi.rst`).
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) where the kernel is built or booted without it (`psi=1` turns it on), and on
/// other systems.
pub fn pressure() -> Reading<Pressure> {
    os::noise::pressure()
}

/// CPU pressure within the control group of this process, since the group exists. Here throttling counts, too.
///
/// Linux 4.20, cgroup v2: `cpu.pressure` of the group.
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) where there is no such file: in the root group, in cgroup v1, where pressure is
/// switched off, and on other systems.
pub fn group_pressure() -> Reading<Pressure> {
    os::noise::group_pressure()
}

/// Time the threads of process `pid` (or of this one) spent runnable but not running, since each began, summed
/// over the threads alive now.
///
/// Linux: the second field of `/proc/<pid>/task/*/schedstat`, in nanoseconds (kernel documentation,
/// `scheduler/sched-stats.rst`).
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) where the kernel does not keep it (needs CONFIG_SCHED_INFO), the process is gone, and on
/// other systems.
pub fn run_queue_wait(pid: Option<u32>) -> Reading<Duration> {
    os::noise::run_queue_wait(pid)
}

/// Load average over 1, 5 and 15 minutes: threads running or ready to run, and on Linux those waiting for a
/// disk (getloadavg(3)).
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) when the host does not tell.
pub fn load_average() -> Reading<[f64; 3]> {
    os::noise::load_average()
}

/// Context switches of the whole machine since boot, over all CPUs.
///
/// Linux: the line `ctxt` of `/proc/stat` (proc_stat(5)).
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) on other systems.
pub fn context_switches() -> Reading<u64> {
    os::noise::context_switches()
}

/// The clocks of the CPUs at one moment, in kHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frequency {
    /// The slowest.
    pub lowest_khz: u64,
    /// The mean over the clocks that can be set apart from each other, rounded down.
    pub mean_khz: u64,
    /// The fastest.
    pub highest_khz: u64,
}

/// How fast the CPUs run now. A CPU that idles may say the frequency it last had.
///
/// Linux: `scaling_cur_freq` of every directory in `/sys/devices/system/cpu/cpufreq` (kernel documentation,
/// `admin-guide/pm/cpufreq.rst`). With many CPUs this takes milliseconds.
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) where no driver sets frequencies (most virtual machines), and on other systems.
pub fn frequency() -> Reading<Frequency> {
    os::noise::frequency()
}

/// Frequency governor of the CPUs; several, joined by commas, when they differ.
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) where no driver sets frequencies, and on other systems.
pub fn governor() -> Reading<String> {
    os::host::governor()
}

/// How often and for how long control groups held this process back because their CPU quota was used up, summed over
/// the groups from that of this process up to the root that it can see. Other processes of a group use up its quota
/// and are held back with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Periods in which a group was held back.
    pub throttled_periods: u64,
    /// For how long. A group on several CPUs is held back on each, so this may exceed the time that passed.
    pub throttled: Duration,
}

/// Throttling by CPU quotas, since the groups exist.
///
/// Linux: `cpu.stat`, in cgroup v2 `nr_throttled` and `throttled_usec`, in v1 `nr_throttled` and `throttled_time`
/// (kernel documentation, `admin-guide/cgroup-v2.rst`, `scheduler/sched-bwc.rst`).
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) where no group of this process has the CPU controller, and on other systems.
pub fn throttling() -> Reading<Throttling> {
    os::noise::throttling()
}

/// How often CPUs were slowed down because they were hot, since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThermalThrottles {
    /// Events of cores, summed over hardware threads: an event of a core with two threads may count twice.
    pub core_events: u64,
    /// Events of whole packages: of all CPUs the one that has seen most, because each counts those of its package.
    pub package_events: u64,
}

/// Thermal throttling.
///
/// Linux on Intel: `thermal_throttle/core_throttle_count` and `package_throttle_count` of every CPU (kernel source,
/// `arch/x86/kernel/cpu/mce/therm_throt.c`). With many CPUs this takes milliseconds.
///
/// # Errors
/// [`NotExposed`](crate::NotExposed) where the processor or the hypervisor does not count them, and on other systems.
/// macOS: `pmset -g therm` prints whether it slows down now.
pub fn thermal_throttles() -> Reading<ThermalThrottles> {
    os::noise::thermal_throttles()
}
