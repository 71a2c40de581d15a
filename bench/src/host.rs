//! The machine as this tool needs to know it. The only place in `bench` that asks the operating system for facts.
//!
//! STAND-IN: until `shardloop-platform` has landed, every function marked so answers with what `std` and a few plain files tell,
//! and `null` for the rest. The signatures are the final ones.

use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What `run.json` records about the machine; `null` is "not exposed here".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HostDescription {
    /// Network name.
    pub(crate) name: Option<String>,
    /// Operating system.
    pub(crate) os: String,
    /// The system as it names itself.
    pub(crate) system: Option<String>,
    /// Its kernel release.
    pub(crate) kernel: Option<String>,
    /// Instruction set.
    pub(crate) arch: String,
    /// CPU as it names itself.
    pub(crate) cpu_model: Option<String>,
    /// CPUs this process may use: affinity mask and cgroup quota.
    pub(crate) cpus: usize,
    /// CPUs that are online.
    pub(crate) cpus_online: Option<usize>,
    /// Hyper-threading, in words.
    pub(crate) smt: Option<String>,
    /// NUMA nodes.
    pub(crate) numa: Option<usize>,
    /// Main memory.
    pub(crate) mem_bytes: Option<u64>,
    /// Hypervisor, if one shows itself.
    pub(crate) virtualised: Option<String>,
    /// Frequency governor.
    pub(crate) governor: Option<String>,
    /// Turbo, in words.
    pub(crate) turbo: Option<String>,
    /// CPU vulnerability mitigations, in words.
    pub(crate) mitigations: Option<String>,
    /// Clock source of the kernel.
    pub(crate) clocksource: Option<String>,
    /// Identity of this boot.
    pub(crate) boot_id: Option<String>,
    /// Kernel settings that matter here.
    pub(crate) sysctl: BTreeMap<String, Option<String>>,
    /// Resource limits of this process; `null` is unlimited or not exposed.
    pub(crate) limits: BTreeMap<String, Option<u64>>,
    /// Share of all CPU time that other programs used just before the run.
    pub(crate) busy_share_before: Option<f64>,
    /// Why a fact above is `null`, by its name.
    pub(crate) not_exposed: BTreeMap<String, String>,
}

/// STAND-IN: describes this machine.
pub(crate) fn describe() -> HostDescription {
    HostDescription {
        name: first_line("/proc/sys/kernel/hostname"),
        os: std::env::consts::OS.to_owned(),
        kernel: first_line("/proc/sys/kernel/osrelease"),
        arch: std::env::consts::ARCH.to_owned(),
        cpus: usable_cpus(),
        boot_id: first_line("/proc/sys/kernel/random/boot_id"),
        ..HostDescription::default()
    }
}

/// STAND-IN: CPUs this process may use (`Allowed::read().usable()`).
pub(crate) fn usable_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// STAND-IN: has a child start with default signals, and end when this process ends in whatever way.
pub(crate) fn prepare_child(command: &mut std::process::Command) -> &mut std::process::Command {
    command
}

/// One of the drivers `--driver` can name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DriverInfo {
    /// As written on the command line.
    pub(crate) name: &'static str,
    /// What it is.
    pub(crate) engine: &'static str,
    /// Its facility here, or why it does not work here.
    pub(crate) available: Result<String, String>,
}

/// STAND-IN: every driver of this build; nothing is probed yet.
pub(crate) fn drivers() -> Vec<DriverInfo> {
    let uring = match std::env::consts::OS {
        "linux" => Ok("io_uring, not probed".to_owned()),
        other => Err(format!("io_uring exists on Linux only, this is {other}")),
    };
    vec![
        DriverInfo {
            name: "monoio-uring",
            engine: "monoio",
            available: uring,
        },
        DriverInfo {
            name: "monoio-legacy",
            engine: "monoio",
            available: Ok("epoll or kqueue".to_owned()),
        },
    ]
}

/// Counters of the whole machine at one moment; two of them bracket a round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    busy: Option<Duration>,
    stolen: Option<Duration>,
    load_1m: Option<f64>,
}

/// What the machine did between two readings, apart from what was asked of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Surroundings {
    /// Time other guests took, as a share of the busy time including it.
    pub(crate) steal_share: Option<f64>,
    /// CPU time of the whole machine, stolen time not included.
    pub(crate) busy_ns: Option<u64>,
    /// Load average over one minute at the end.
    pub(crate) load_1m: Option<f64>,
}

impl Reading {
    /// STAND-IN: reads the machine's counters now.
    pub(crate) fn now() -> Self {
        let ticks = first_line("/proc/stat").unwrap_or_default();
        let ticks: Vec<u64> = ticks
            .split_whitespace()
            .skip(1)
            .filter_map(|field| field.parse().ok())
            .collect();
        let time = |columns: &[usize]| {
            let sum: Option<u64> = columns
                .iter()
                .map(|column| ticks.get(*column).copied())
                .sum();
            sum.map(|ticks| Duration::from_millis(ticks * 10))
        };
        let load = first_line("/proc/loadavg");
        Reading {
            busy: time(&[0, 1, 2, 5, 6]),
            stolen: time(&[7]),
            load_1m: load.and_then(|line| line.split_whitespace().next()?.parse().ok()),
        }
    }

    /// What happened since an earlier reading.
    pub(crate) fn since(&self, earlier: &Reading) -> Surroundings {
        let passed =
            |later: Option<Duration>, earlier: Option<Duration>| later?.checked_sub(earlier?);
        let (busy, stolen) = (
            passed(self.busy, earlier.busy),
            passed(self.stolen, earlier.stolen),
        );
        let share = busy
            .zip(stolen)
            .map(|(busy, stolen)| (stolen, busy + stolen));
        Surroundings {
            steal_share: share
                .filter(|(_, all)| !all.is_zero())
                .map(|(stolen, all)| stolen.as_secs_f64() / all.as_secs_f64()),
            busy_ns: busy.and_then(|busy| u64::try_from(busy.as_nanos()).ok()),
            load_1m: self.load_1m,
        }
    }
}

/// Share of all CPU time that was in use while this program slept for a moment.
pub(crate) fn busy_share(moment: Duration) -> Option<f64> {
    let before = Reading::now();
    std::thread::sleep(moment);
    let busy_ns = Reading::now().since(&before).busy_ns?;
    let all = moment.as_secs_f64() * usable_cpus() as f64;
    Some((busy_ns as f64 / 1e9 / all).min(1.0))
}

/// A signal that ends the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

impl Signal {
    /// 128 + the signal's number, as a shell reports it.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Signal::Interrupt => 130,
            Signal::Terminate => 143,
        }
    }
}

/// Remembers the first SIGINT or SIGTERM instead of dying from it.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    caught: Arc<AtomicUsize>,
}

impl Interrupt {
    /// STAND-IN: takes over both signals for the rest of the process.
    pub(crate) fn install() -> std::io::Result<Self> {
        let caught = Arc::new(AtomicUsize::new(0));
        signal_hook::flag::register_usize(SIGINT, Arc::clone(&caught), 1)?;
        signal_hook::flag::register_usize(SIGTERM, Arc::clone(&caught), 2)?;
        Ok(Interrupt { caught })
    }

    /// For tests: caught or not, as told.
    #[cfg(test)]
    pub(crate) fn pretend(signal: Option<Signal>) -> Self {
        let code = match signal {
            None => 0,
            Some(Signal::Interrupt) => 1,
            Some(Signal::Terminate) => 2,
        };
        Interrupt {
            caught: Arc::new(AtomicUsize::new(code)),
        }
    }

    /// For tests: as if the signal had come now.
    #[cfg(test)]
    pub(crate) fn raise(&self) {
        self.caught.store(1, Ordering::Relaxed);
    }

    /// What came, if something came.
    pub(crate) fn caught(&self) -> Option<Signal> {
        match self.caught.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(Signal::Interrupt),
            _ => Some(Signal::Terminate),
        }
    }
}

fn first_line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_a_share_of_what_was_wanted() {
        let at = |busy, stolen| Reading {
            busy: Some(Duration::from_millis(busy)),
            stolen: Some(Duration::from_millis(stolen)),
            load_1m: None,
        };
        let between = at(1900, 100).since(&at(1000, 0));
        assert_eq!(between.steal_share, Some(0.1));
        assert_eq!(between.busy_ns, Some(900_000_000));
        assert_eq!(at(1000, 0).since(&at(1000, 0)).steal_share, None);
        assert_eq!(Reading::default().since(&at(1, 1)), Surroundings::default());
    }
}
