//! What the doctor looks at, as it is at this moment. Gathering takes about a second.

use super::loopback;
use crate::contract::Buffers;
use crate::host::{self, DriverInfo};
use crate::provenance;
use crate::udp_socket::{REQUESTED, granted_beside};
use shardloop_platform::{
    Reading,
    affinity::Allowed,
    calls::CallCounter,
    host::{Host, clock_overhead},
    noise::{Snapshot, Throttling},
    topology::Topology,
    usage::CpuClock,
};
use std::net::Ipv4Addr;
use std::time::Duration;

/// How long the machine is watched.
const WATCHED: Duration = Duration::from_millis(500);

/// The machine, this process's place on it, and what goes on there now.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(super) debug_build: bool,
    pub(super) host: Host,
    pub(super) allowed: Allowed,
    /// Of the CPUs this process may use.
    pub(super) topology: Reading<Topology>,
    pub(super) drivers: Vec<DriverInfo>,
    /// What this machine's hypervisor gave to others, as a share of the busy time.
    pub(super) steal_share: Option<f64>,
    /// What other programs used, as a share of all CPU time.
    pub(super) foreign_share: Option<f64>,
    /// The share of time in which a thread waited for a CPU.
    pub(super) pressure_share: Option<f64>,
    pub(super) load_1m: Option<f64>,
    /// Held back by a quota while it was watched.
    pub(super) throttled: Option<Throttling>,
    pub(super) clock: Duration,
    /// Whether system calls can be counted, or why not.
    pub(super) calls: Result<(), String>,
    pub(super) udp_granted: Option<Buffers>,
    pub(super) loopback: Result<RoundTrips, String>,
}

/// The median time there and back, one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoundTrips {
    pub(super) tcp: Duration,
    pub(super) udp: Duration,
}

impl Facts {
    /// Asks the machine.
    pub(crate) fn gather() -> Self {
        let allowed = Allowed::read();
        let ours = [CpuClock::this_process()];
        let before = Snapshot::read(&ours);
        std::thread::sleep(WATCHED);
        let noise = Snapshot::read(&ours).since(&before);
        let waited = noise.pressure.map(|pressure| pressure.some);
        Facts {
            debug_build: provenance::is_debug_build(),
            host: Host::describe(),
            topology: Topology::read().map(|topology| topology.among(&allowed.cpus)),
            allowed,
            drivers: host::drivers(),
            steal_share: noise.steal_share(),
            foreign_share: noise.foreign_share(),
            pressure_share: waited.map(|waited| waited.div_duration_f64(noise.elapsed)),
            load_1m: noise.load.map(|[minute, ..]| minute),
            throttled: noise.throttling,
            clock: clock_overhead(),
            calls: CallCounter::open()
                .map(drop)
                .map_err(|reason| reason.reason),
            udp_granted: granted_beside((Ipv4Addr::LOCALHOST, 0).into(), REQUESTED),
            loopback: loopback::round_trips().map_err(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use shardloop_platform::NotExposed;

    /// A machine that works, with one engine, and tells nothing.
    pub(crate) fn silent() -> Facts {
        fn hidden<T>() -> Reading<T> {
            Err(NotExposed::new("it", "there is no /proc"))
        }
        let host = Host {
            os: hidden(),
            kernel_release: hidden(),
            arch: hidden(),
            cpu_model: hidden(),
            logical_cpus: hidden(),
            physical_cores: hidden(),
            memory_bytes: hidden(),
            virtualised: hidden(),
            governor: hidden(),
            turbo: hidden(),
            smt: hidden(),
            numa_nodes: hidden(),
            mitigations: hidden(),
            clocksource: hidden(),
            boot_id: hidden(),
            hostname: hidden(),
            tcp_congestion_control: hidden(),
            rmem_max_bytes: hidden(),
            wmem_max_bytes: hidden(),
            somaxconn: hidden(),
            port_range: hidden(),
            io_uring_disabled: hidden(),
            perf_event_paranoid: hidden(),
            descriptor_limit: hidden(),
            memlock_limit_bytes: hidden(),
            transparent_hugepages: hidden(),
        };
        let some = Duration::from_micros(30);
        Facts {
            debug_build: false,
            host,
            allowed: Allowed {
                cpus: (0..8).collect(),
                affinity: hidden(),
                cpuset: hidden(),
                quota_cpus: hidden(),
            },
            topology: hidden(),
            drivers: vec![DriverInfo {
                name: "one",
                engine: "one",
                available: Ok("epoll".to_owned()),
            }],
            steal_share: None,
            foreign_share: None,
            pressure_share: None,
            load_1m: None,
            throttled: None,
            clock: Duration::from_nanos(30),
            calls: Err("there is no tracefs".to_owned()),
            udp_granted: None,
            loopback: Ok(RoundTrips {
                tcp: some,
                udp: some,
            }),
        }
    }
}
