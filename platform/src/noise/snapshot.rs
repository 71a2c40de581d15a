//! All sensors at one moment, and what happened between two moments.

use std::time::{Duration, Instant};

use super::{CpuTimes, Frequency, Pressure, ThermalThrottles, Throttling};
use crate::counter::added_where_known;
use crate::network::{BacklogCounters, TcpCounters, UdpCounters};
use crate::usage::CpuClock;

/// What every sensor said at one moment. A sensor this machine does not have is `None` ("not exposed") and never
/// zero; the function or type that reads it alone tells the reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// When the reading began.
    pub at: Instant,
    /// [`CpuTimes::read`].
    pub cpu: Option<CpuTimes>,
    /// CPU time of the processes that are ours, all together. `None` when one of their clocks could not be read:
    /// the process has ended.
    pub ours: Option<Duration>,
    /// [`load_average`](super::load_average).
    pub load: Option<[f64; 3]>,
    /// [`pressure`](super::pressure).
    pub pressure: Option<Pressure>,
    /// [`group_pressure`](super::group_pressure).
    pub group_pressure: Option<Pressure>,
    /// [`context_switches`](super::context_switches).
    pub context_switches: Option<u64>,
    /// [`frequency`](super::frequency).
    pub frequency: Option<Frequency>,
    /// [`governor`](super::governor).
    pub governor: Option<String>,
    /// [`throttling`](super::throttling).
    pub throttling: Option<Throttling>,
    /// [`thermal_throttles`](super::thermal_throttles).
    pub thermal: Option<ThermalThrottles>,
    /// [`TcpCounters::read`].
    pub tcp: Option<TcpCounters>,
    /// [`UdpCounters::read`].
    pub udp: Option<UdpCounters>,
    /// [`UdpCounters::read_v6`].
    pub udp6: Option<UdpCounters>,
    /// [`BacklogCounters::read`].
    pub backlog: Option<BacklogCounters>,
}

impl Snapshot {
    /// Asks every sensor. `ours` are the clocks of the processes whose work is not noise: server, load generator and
    /// the one that asks.
    ///
    /// Takes about half a millisecond on a small machine and some milliseconds with many CPUs, so take it outside of
    /// what is measured. CPU times come in ticks, usually of 10 ms: on two CPUs one tick is 2.8 % of 180 ms.
    #[must_use]
    pub fn read(ours: &[CpuClock]) -> Self {
        Self {
            at: Instant::now(),
            cpu: CpuTimes::read().ok(),
            ours: ours.iter().map(|clock| clock.read().ok()).sum(),
            load: super::load_average().ok(),
            pressure: super::pressure().ok(),
            group_pressure: super::group_pressure().ok(),
            context_switches: super::context_switches().ok(),
            frequency: super::frequency().ok(),
            governor: super::governor().ok(),
            throttling: super::throttling().ok(),
            thermal: super::thermal_throttles().ok(),
            tcp: TcpCounters::read().ok(),
            udp: UdpCounters::read().ok(),
            udp6: UdpCounters::read_v6().ok(),
            backlog: BacklogCounters::read().ok(),
        }
    }

    /// What happened from `earlier` to this snapshot.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Noise {
        let cpu = both(&self.cpu, &earlier.cpu, CpuTimes::since);
        let ours = both(&self.ours, &earlier.ours, |now, then| {
            now.saturating_sub(*then)
        });
        Noise {
            elapsed: self.at.saturating_duration_since(earlier.at),
            steal: cpu.and_then(|cpu| cpu.steal),
            softirq: cpu.and_then(|cpu| cpu.softirq),
            foreign: cpu.zip(ours).map(|(cpu, ours)| foreign(&cpu, ours)),
            cpu,
            ours,
            load: self.load,
            pressure: both(&self.pressure, &earlier.pressure, Pressure::since),
            group_pressure: both(
                &self.group_pressure,
                &earlier.group_pressure,
                Pressure::since,
            ),
            context_switches: added_where_known(self.context_switches, earlier.context_switches),
            frequency: self.frequency,
            governor_changed: both(&self.governor, &earlier.governor, |now, then| now != then),
            throttling: both_known(
                &self.throttling,
                &earlier.throttling,
                Throttling::added_since,
            ),
            thermal: both_known(
                &self.thermal,
                &earlier.thermal,
                ThermalThrottles::added_since,
            ),
            tcp: both(&self.tcp, &earlier.tcp, TcpCounters::since),
            udp: both(&self.udp, &earlier.udp, UdpCounters::since),
            udp6: both(&self.udp6, &earlier.udp6, UdpCounters::since),
            backlog: both(&self.backlog, &earlier.backlog, BacklogCounters::since),
        }
    }
}

fn both<T, R>(later: &Option<T>, earlier: &Option<T>, since: fn(&T, &T) -> R) -> Option<R> {
    Some(since(later.as_ref()?, earlier.as_ref()?))
}

fn both_known<T>(
    later: &Option<T>,
    earlier: &Option<T>,
    since: fn(&T, &T) -> Option<T>,
) -> Option<T> {
    since(later.as_ref()?, earlier.as_ref()?)
}

/// Interrupts are left out: nobody's work is charged with those our own packets cause, so they would count as foreign.
fn foreign(cpu: &CpuTimes, ours: Duration) -> Duration {
    let interrupts = cpu.irq.unwrap_or_default() + cpu.softirq.unwrap_or_default();
    cpu.busy().saturating_sub(interrupts).saturating_sub(ours)
}

impl Throttling {
    /// `None` when a counter went back: the process moved to other groups.
    fn added_since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            throttled_periods: self
                .throttled_periods
                .checked_sub(earlier.throttled_periods)?,
            throttled: self.throttled.checked_sub(earlier.throttled)?,
        })
    }
}

impl ThermalThrottles {
    /// `None` when a counter went back: CPUs went offline.
    fn added_since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            core_events: self.core_events.checked_sub(earlier.core_events)?,
            package_events: self.package_events.checked_sub(earlier.package_events)?,
        })
    }
}

/// What happened between two snapshots. `None`: this machine does not have the sensor, or one of the two readings
/// failed; never zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Noise {
    /// Time between the snapshots.
    pub elapsed: Duration,
    /// CPU time of the machine.
    pub cpu: Option<CpuTimes>,
    /// CPU time a hypervisor took away while we had work.
    pub steal: Option<Duration>,
    /// CPU time of deferred interrupt work: where received packets are processed.
    pub softirq: Option<Duration>,
    /// CPU time of our processes.
    pub ours: Option<Duration>,
    /// CPU time of everybody else: all that was used, without interrupts, less ours. Ours is exact and the rest comes
    /// in ticks, so over a short time it is rough; it is not below zero.
    pub foreign: Option<Duration>,
    /// Load average over 1, 5 and 15 minutes, at the end.
    pub load: Option<[f64; 3]>,
    /// CPU pressure of the machine.
    pub pressure: Option<Pressure>,
    /// CPU pressure within our control group.
    pub group_pressure: Option<Pressure>,
    /// Context switches of the machine.
    pub context_switches: Option<u64>,
    /// Clocks of the CPUs, at the end.
    pub frequency: Option<Frequency>,
    /// Whether the frequency governor is another one than before.
    pub governor_changed: Option<bool>,
    /// Throttling by CPU quotas.
    pub throttling: Option<Throttling>,
    /// Thermal throttling.
    pub thermal: Option<ThermalThrottles>,
    /// TCP segments of the host.
    pub tcp: Option<TcpCounters>,
    /// UDP datagrams of the host, IPv4.
    pub udp: Option<UdpCounters>,
    /// UDP datagrams of the host, IPv6.
    pub udp6: Option<UdpCounters>,
    /// Packets dropped before they came to any socket.
    pub backlog: Option<BacklogCounters>,
}

impl Noise {
    /// Steal as a share of the time the CPUs worked or would have: 0 to 1. `None` also when there was no such time.
    #[must_use]
    pub fn steal_share(&self) -> Option<f64> {
        let wanted = self.cpu?.busy() + self.steal?;
        share(self.steal?, wanted)
    }

    /// Foreign CPU time as a share of all CPU time there was: 0 to 1. `None` also when there was none: the snapshots
    /// are less than a tick apart.
    #[must_use]
    pub fn foreign_share(&self) -> Option<f64> {
        share(self.foreign?, self.cpu?.total())
    }
}

fn share(part: Duration, whole: Duration) -> Option<f64> {
    (!whole.is_zero()).then(|| part.div_duration_f64(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const TIMES: CpuTimes = CpuTimes {
        user: ms(100),
        nice: ms(0),
        system: ms(50),
        idle: ms(1_000),
        iowait: Some(ms(30)),
        irq: Some(ms(2)),
        softirq: Some(ms(3)),
        steal: Some(ms(7)),
    };

    fn nothing() -> Snapshot {
        Snapshot {
            at: Instant::now(),
            cpu: None,
            ours: None,
            load: None,
            pressure: None,
            group_pressure: None,
            context_switches: None,
            frequency: None,
            governor: None,
            throttling: None,
            thermal: None,
            tcp: None,
            udp: None,
            udp6: None,
            backlog: None,
        }
    }

    #[test]
    fn a_machine_without_sensors_has_no_noise_and_not_zero_noise() {
        let snapshot = nothing();
        let noise = snapshot.since(&snapshot);
        let Noise {
            elapsed: Duration::ZERO,
            cpu: None,
            steal: None,
            softirq: None,
            ours: None,
            foreign: None,
            load: None,
            pressure: None,
            group_pressure: None,
            context_switches: None,
            frequency: None,
            governor_changed: None,
            throttling: None,
            thermal: None,
            tcp: None,
            udp: None,
            udp6: None,
            backlog: None,
        } = noise
        else {
            panic!("{noise:?}");
        };
        assert_eq!((noise.steal_share(), noise.foreign_share()), (None, None));
    }

    #[test]
    fn foreign_time_is_what_is_neither_ours_nor_an_interrupt() {
        let earlier = Snapshot {
            cpu: Some(TIMES),
            ours: Some(ms(1_000)),
            ..nothing()
        };
        let later = Snapshot {
            cpu: Some(CpuTimes {
                user: ms(160),
                system: ms(70),
                idle: ms(1_100),
                softirq: Some(ms(13)),
                steal: Some(ms(17)),
                ..TIMES
            }),
            ours: Some(ms(1_055)),
            ..nothing()
        };
        let noise = later.since(&earlier);
        assert_eq!(noise.foreign, Some(ms(25)));
        assert_eq!((noise.steal, noise.softirq), (Some(ms(10)), Some(ms(10))));
        assert_eq!(noise.steal_share(), Some(0.1));
        assert_eq!(noise.foreign_share(), Some(0.125));
        assert_eq!(later.since(&later).foreign_share(), None);
        let busier = Snapshot {
            ours: Some(ms(9_000)),
            ..later.clone()
        };
        assert_eq!(busier.since(&earlier).foreign, Some(ms(0)));
        let ended = Snapshot {
            ours: None,
            ..later
        };
        assert_eq!(ended.since(&earlier).foreign, None);
    }

    #[test]
    fn counters_that_went_back_are_not_known() {
        let throttling = |periods, throttled| Snapshot {
            throttling: Some(Throttling {
                throttled_periods: periods,
                throttled: ms(throttled),
            }),
            context_switches: Some(periods),
            ..nothing()
        };
        let noise = throttling(9, 90).since(&throttling(4, 50));
        let added = noise.throttling.unwrap();
        assert_eq!((added.throttled_periods, added.throttled), (5, ms(40)));
        assert_eq!(noise.context_switches, Some(5));
        let noise = throttling(3, 90).since(&throttling(4, 50));
        assert_eq!((noise.throttling, noise.context_switches), (None, None));
    }

    #[test]
    fn a_governor_that_changed_is_noticed() {
        let with = |name: &str| Snapshot {
            governor: Some(name.to_owned()),
            ..nothing()
        };
        let changed =
            |now: &str, then: &str| with(now).since(&with(then)).governor_changed.unwrap();
        assert!(changed("powersave", "performance"));
        assert!(!changed("powersave", "powersave"));
    }

    #[test]
    fn full_pressure_needs_both_readings() {
        let pressure = |some, full: Option<u64>| Pressure {
            some: ms(some),
            full: full.map(ms),
        };
        assert_eq!(
            pressure(9, Some(4)).since(&pressure(2, Some(1))),
            pressure(7, Some(3))
        );
        assert_eq!(
            pressure(9, Some(4)).since(&pressure(2, None)),
            pressure(7, None)
        );
    }
}
