//! What machine this is, for the record that stands beside every measurement.

use std::fmt;
use std::time::{Duration, Instant};

use crate::Reading;
use crate::sys::os;

/// A description of the host. Reading it changes nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Name and version of the system: "Debian GNU/Linux 12 (bookworm)", "macOS 15.1".
    pub os: Reading<String>,
    /// Release of the kernel, as uname(2) says it.
    pub kernel_release: Reading<String>,
    /// Architecture this program is built for: "x86_64", "aarch64".
    pub arch: Reading<String>,
    /// Model of the CPU.
    pub cpu_model: Reading<String>,
    /// Logical CPUs online.
    pub logical_cpus: Reading<usize>,
    /// Physical cores online.
    pub physical_cores: Reading<usize>,
    /// Physical memory, in bytes.
    pub memory_bytes: Reading<u64>,
    /// The virtual machine this is, as far as it shows itself: its product name, or "unnamed hypervisor".
    /// `Ok(None)`: nothing suggests one.
    pub virtualised: Reading<Option<String>>,
    /// Frequency governor of the CPUs; several, joined by commas, when they differ.
    pub governor: Reading<String>,
    /// Whether clocks may exceed their nominal frequency.
    pub turbo: Reading<bool>,
    /// Whether cores run more than one hardware thread.
    pub smt: Reading<bool>,
    /// Number of NUMA nodes.
    pub numa_nodes: Reading<usize>,
    /// What the kernel does about flaws of the CPU, by verdict:
    /// "mitigated: meltdown, spectre_v1; vulnerable: retbleed; not affected: 12".
    pub mitigations: Reading<String>,
    /// The clock behind `Instant`: "tsc", "kvm-clock", "arch_sys_counter".
    pub clocksource: Reading<String>,
    /// Identifies this boot of this machine.
    pub boot_id: Reading<String>,
    /// Name of the host.
    pub hostname: Reading<String>,
    /// Congestion control new TCP sockets get.
    pub tcp_congestion_control: Reading<String>,
    /// Largest receive buffer a socket may ask for, in bytes.
    pub rmem_max_bytes: Reading<u64>,
    /// Largest send buffer a socket may ask for, in bytes.
    pub wmem_max_bytes: Reading<u64>,
    /// Cap on the backlog of a listener.
    pub somaxconn: Reading<u64>,
    /// First and last port the kernel picks for outgoing connections.
    pub port_range: Reading<(u16, u16)>,
    /// sysctl `kernel.io_uring_disabled`: 0 allowed, 1 for a group only, 2 for nobody. Linux 6.6.
    pub io_uring_disabled: Reading<u32>,
    /// sysctl `kernel.perf_event_paranoid`: the higher, the less an ordinary user may measure.
    pub perf_event_paranoid: Reading<i32>,
    /// RLIMIT_NOFILE: descriptors per process.
    pub descriptor_limit: Reading<Limit>,
    /// RLIMIT_MEMLOCK: bytes a process may lock into memory.
    pub memlock_limit_bytes: Reading<Limit>,
    /// Transparent huge pages: "always", "madvise" or "never".
    pub transparent_hugepages: Reading<String>,
}

impl Host {
    /// Asks the host everything. Takes some milliseconds on machines with many CPUs.
    #[must_use]
    pub fn describe() -> Self {
        os::host::describe()
    }

    /// Every fact as a name and a text, in the order of the fields, for listings.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, Reading<String>)> {
        let virtualised = self
            .virtualised
            .as_ref()
            .map(|name| name.as_deref().unwrap_or("no"));
        let port_range = self
            .port_range
            .as_ref()
            .map(|(first, last)| format!("{first}-{last}"));
        vec![
            ("os", text(&self.os)),
            ("kernel_release", text(&self.kernel_release)),
            ("arch", text(&self.arch)),
            ("cpu_model", text(&self.cpu_model)),
            ("logical_cpus", text(&self.logical_cpus)),
            ("physical_cores", text(&self.physical_cores)),
            ("memory_bytes", text(&self.memory_bytes)),
            (
                "virtualised",
                virtualised.map(str::to_owned).map_err(Clone::clone),
            ),
            ("governor", text(&self.governor)),
            ("turbo", text(&self.turbo)),
            ("smt", text(&self.smt)),
            ("numa_nodes", text(&self.numa_nodes)),
            ("mitigations", text(&self.mitigations)),
            ("clocksource", text(&self.clocksource)),
            ("boot_id", text(&self.boot_id)),
            ("hostname", text(&self.hostname)),
            ("tcp_congestion_control", text(&self.tcp_congestion_control)),
            ("rmem_max_bytes", text(&self.rmem_max_bytes)),
            ("wmem_max_bytes", text(&self.wmem_max_bytes)),
            ("somaxconn", text(&self.somaxconn)),
            ("port_range", port_range.map_err(Clone::clone)),
            ("io_uring_disabled", text(&self.io_uring_disabled)),
            ("perf_event_paranoid", text(&self.perf_event_paranoid)),
            ("descriptor_limit", text(&self.descriptor_limit)),
            ("memlock_limit_bytes", text(&self.memlock_limit_bytes)),
            ("transparent_hugepages", text(&self.transparent_hugepages)),
        ]
    }
}

fn text<T: fmt::Display>(reading: &Reading<T>) -> Reading<String> {
    reading.as_ref().map(T::to_string).map_err(Clone::clone)
}

/// A limit on a resource of a process (getrlimit(2)). `None` means unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What is in force.
    pub soft: Option<u64>,
    /// How far the process may raise it by itself.
    pub hard: Option<u64>,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text =
            |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
        write!(f, "{} (at most {})", text(self.soft), text(self.hard))
    }
}

/// What one reading of the clock behind `Instant` costs: the cheapest of several batches, so that being
/// interrupted does not count. Takes well below a millisecond with a clock that needs no system call.
#[must_use]
pub fn clock_overhead() -> Duration {
    const BATCHES: u32 = 16;
    const READINGS: u32 = 500;
    let batch = || {
        let start = Instant::now();
        for _ in 0..READINGS {
            std::hint::black_box(Instant::now());
        }
        start.elapsed() / READINGS
    };
    (0..BATCHES).map(|_| batch()).min().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_say_what_is_unlimited() {
        let limit = Limit {
            soft: Some(1_024),
            hard: None,
        };
        assert_eq!(limit.to_string(), "1024 (at most unlimited)");
    }

    #[test]
    fn reading_the_clock_costs_something_small() {
        assert!(clock_overhead() < Duration::from_millis(1));
    }
}
