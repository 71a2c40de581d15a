//! CPU time of the whole machine.

use std::time::Duration;

use crate::sys::os;
use crate::{NotExposed, Reading};

/// CPU time of the whole machine since boot, summed over its CPUs. Counted in ticks, usually of 10 ms each:
/// too coarse for windows well below a second.
///
/// Linux: the first line of `/proc/stat` (proc_stat(5)). macOS: host_statistics with HOST_CPU_LOAD_INFO, which
/// has no more than user, nice, system and idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuTimes {
    /// In user mode, guests of virtual machines included.
    pub user: Duration,
    /// In user mode with lowered priority.
    pub nice: Duration,
    /// In the kernel; on macOS interrupts are in here.
    pub system: Duration,
    /// Doing nothing.
    pub idle: Duration,
    /// Doing nothing while something waits for a disk. May go backwards. `None` where not counted.
    pub iowait: Option<Duration>,
    /// Serving interrupts. `None` where not counted.
    pub irq: Option<Duration>,
    /// In deferred interrupt work: on Linux where received packets are processed. `None` where not counted.
    pub softirq: Option<Duration>,
    /// Taken by the hypervisor while we had work. `None` where not counted; see [`CpuTimes::steal`].
    pub steal: Option<Duration>,
}

impl CpuTimes {
    /// Asks the host.
    ///
    /// # Errors
    /// [`NotExposed`] when it does not tell.
    pub fn read() -> Reading<Self> {
        os::noise::cpu_times()
    }

    /// What was added since `earlier`. Nothing is below zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let added =
            |now: Option<Duration>, then: Option<Duration>| Some(now?.saturating_sub(then?));
        Self {
            user: self.user.saturating_sub(earlier.user),
            nice: self.nice.saturating_sub(earlier.nice),
            system: self.system.saturating_sub(earlier.system),
            idle: self.idle.saturating_sub(earlier.idle),
            iowait: added(self.iowait, earlier.iowait),
            irq: added(self.irq, earlier.irq),
            softirq: added(self.softirq, earlier.softirq),
            steal: added(self.steal, earlier.steal),
        }
    }

    /// Time the CPUs worked, for anybody on this machine: all but idle, iowait and steal.
    #[must_use]
    pub fn busy(&self) -> Duration {
        self.user
            + self.nice
            + self.system
            + self.irq.unwrap_or_default()
            + self.softirq.unwrap_or_default()
    }

    /// Time a hypervisor took away.
    ///
    /// # Errors
    /// [`NotExposed`] where it is not counted (macOS).
    pub fn steal(&self) -> Reading<Duration> {
        self.steal
            .ok_or_else(|| NotExposed::new("steal time", "this kernel does not count it"))
    }

    /// All time there was: number of CPUs times the time that passed.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.busy() + self.idle + self.iowait.unwrap_or_default() + self.steal.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const EARLIER: CpuTimes = CpuTimes {
        user: ms(100),
        nice: ms(1),
        system: ms(50),
        idle: ms(1_000),
        iowait: Some(ms(30)),
        irq: Some(ms(2)),
        softirq: Some(ms(3)),
        steal: Some(ms(7)),
    };

    #[test]
    fn busy_leaves_out_what_nobody_here_used() {
        assert_eq!(EARLIER.busy(), ms(156));
        assert_eq!(EARLIER.total(), ms(1_193));
    }

    #[test]
    fn a_counter_that_goes_backwards_adds_nothing() {
        let later = CpuTimes {
            user: ms(160),
            iowait: Some(ms(20)),
            steal: Some(ms(9)),
            ..EARLIER
        };
        let added = later.since(&EARLIER);
        assert_eq!(added.busy(), ms(60));
        assert_eq!(added.iowait, Some(ms(0)));
        assert_eq!(added.steal(), Ok(ms(2)));
    }

    #[test]
    fn what_is_not_counted_is_not_zero() {
        let times = CpuTimes {
            steal: None,
            ..EARLIER
        };
        assert!(times.steal().is_err());
        assert_eq!(times.since(&EARLIER).steal, None);
    }
}
