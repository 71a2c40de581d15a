//! The machine as this tool needs to know it for a run; [`crate::doctor`] looks closer. No other place in `bench` asks
//! `shardloop-platform` for facts about it.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use serde::{Deserialize, Serialize};
use shardloop::{EngineOptions, Kind};
use shardloop_platform::affinity::Allowed;
use shardloop_platform::host::Host;
use shardloop_platform::noise::{self, CpuTimes};
use shardloop_platform::signal::{self, Signals};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) use shardloop_platform::signal::Signal;

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
    pub(crate) sysctl: BTreeMap<String, Option<Setting>>,
    /// Resource limits of this process; `null` is unlimited or not exposed.
    pub(crate) limits: BTreeMap<String, Option<u64>>,
    /// Share of all CPU time that other programs used just before the run.
    pub(crate) busy_share_before: Option<f64>,
    /// Why a fact above is `null`, by its name.
    pub(crate) not_exposed: BTreeMap<String, String>,
}

/// The value of a kernel setting: bytes as a number, everything else in the kernel's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Setting {
    /// Bytes.
    Bytes(u64),
    /// As the kernel writes it.
    Text(String),
}

impl Setting {
    fn new(name: &str, text: String) -> Self {
        match text.parse() {
            Ok(bytes) if name.ends_with("_bytes") => Setting::Bytes(bytes),
            _ => Setting::Text(text),
        }
    }
}

/// Describes this machine.
pub(crate) fn describe() -> HostDescription {
    let host = Host::describe();
    let rows: Vec<_> = host.rows();
    let row = |name: &str| {
        rows.iter()
            .find(|(known, _)| *known == name)
            .and_then(|(_, text)| text.clone().ok())
    };
    let names = |names: &[&str]| {
        names
            .iter()
            .map(|name| {
                let setting = row(name).map(|text| Setting::new(name, text));
                ((*name).to_owned(), setting)
            })
            .collect()
    };
    let not_exposed = rows
        .iter()
        .filter_map(|(name, text)| Some(((*name).to_owned(), text.as_ref().err()?.reason.clone())));
    let on_off = |state: bool| if state { "on" } else { "off" }.to_owned();
    HostDescription {
        name: row("hostname"),
        os: std::env::consts::OS.to_owned(),
        system: row("os"),
        kernel: row("kernel_release"),
        arch: std::env::consts::ARCH.to_owned(),
        cpu_model: row("cpu_model"),
        cpus: usable_cpus(),
        cpus_online: host.logical_cpus.clone().ok(),
        smt: host.smt.clone().ok().map(on_off),
        numa: host.numa_nodes.clone().ok(),
        mem_bytes: host.memory_bytes.clone().ok(),
        virtualised: host.virtualised.clone().ok().flatten(),
        governor: row("governor"),
        turbo: host.turbo.clone().ok().map(on_off),
        mitigations: row("mitigations"),
        clocksource: row("clocksource"),
        boot_id: row("boot_id"),
        sysctl: names(&[
            "tcp_congestion_control",
            "rmem_max_bytes",
            "wmem_max_bytes",
            "somaxconn",
            "port_range",
            "io_uring_disabled",
            "perf_event_paranoid",
            "transparent_hugepages",
        ]),
        limits: [
            ("nofile", &host.descriptor_limit),
            ("memlock_bytes", &host.memlock_limit_bytes),
        ]
        .map(|(name, limit)| {
            (
                name.to_owned(),
                limit.as_ref().ok().and_then(|limit| limit.soft),
            )
        })
        .into(),
        busy_share_before: None,
        not_exposed: not_exposed.collect(),
    }
}

/// CPUs this process may use: affinity mask, cpuset and quota.
pub(crate) fn usable_cpus() -> usize {
    Allowed::read().usable()
}

/// Has a child start with default signals, although this process blocks them, and end when this process ends in whatever way.
pub(crate) fn prepare_child(command: &mut Command) -> &mut Command {
    signal::die_with_parent(signal::with_default_signals(command))
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

/// Every driver of this build, probed.
pub(crate) fn drivers() -> Vec<DriverInfo> {
    let options = EngineOptions::default();
    let probe = |kind: Kind| DriverInfo {
        name: kind.name(),
        engine: kind.name().split('-').next().unwrap_or_default(),
        available: match kind.probe(&options) {
            Ok(found) => Ok(std::iter::once(found.facility)
                .chain(found.flags)
                .collect::<Vec<_>>()
                .join(" ")),
            Err(unavailable) => Err(unavailable.reason),
        },
    };
    Kind::ENGINES.iter().copied().map(probe).collect()
}

/// Counters of the whole machine at one moment; two of them bracket a round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reading {
    times: Option<CpuTimes>,
    /// CPU time of this program and of its children that have ended.
    own: Option<Duration>,
    load_1m: Option<f64>,
}

/// What the machine did between two readings, apart from what was asked of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Surroundings {
    /// Time other guests took, as a share of the busy time including it; `null` where it is not exposed.
    pub(crate) steal_share: Option<f64>,
    /// CPU time of the whole machine, stolen time not included.
    pub(crate) busy_ns: Option<u64>,
    /// CPU time of other programs: `busy_ns` without interrupts, this program, and its servers and loads with their starts.
    #[serde(default)]
    pub(crate) foreign_ns: Option<u64>,
    /// The same as a share of all CPU time there was.
    #[serde(default)]
    pub(crate) foreign_share: Option<f64>,
    /// Load average over one minute at the end.
    pub(crate) load_1m: Option<f64>,
}

impl Reading {
    /// Reads the machine's counters now.
    pub(crate) fn now() -> Self {
        Reading {
            times: CpuTimes::read().ok(),
            own: own_cpu(),
            load_1m: noise::load_average().ok().map(|[minute, ..]| minute),
        }
    }

    /// What happened since an earlier reading.
    pub(crate) fn since(&self, earlier: &Reading) -> Surroundings {
        let passed = self
            .times
            .zip(earlier.times)
            .map(|(later, earlier)| later.since(&earlier));
        let busy = passed.map(|passed| passed.busy());
        let steal = passed.and_then(|passed| passed.steal().ok());
        let share = busy
            .zip(steal)
            .map(|(busy, steal)| (steal, busy + steal))
            .filter(|(_, all)| !all.is_zero());
        let own = self
            .own
            .zip(earlier.own)
            .map(|(later, earlier)| later.saturating_sub(earlier));
        let foreign = passed.zip(own).map(|(passed, own)| foreign(&passed, own));
        let all = passed
            .map(|passed| passed.total())
            .filter(|all| !all.is_zero());
        Surroundings {
            foreign_ns: foreign.and_then(|foreign| u64::try_from(foreign.as_nanos()).ok()),
            foreign_share: foreign
                .zip(all)
                .map(|(foreign, all)| foreign.as_secs_f64() / all.as_secs_f64()),
            steal_share: share.map(|(steal, all)| steal.as_secs_f64() / all.as_secs_f64()),
            busy_ns: busy.and_then(|busy| u64::try_from(busy.as_nanos()).ok()),
            load_1m: self.load_1m,
        }
    }
}

/// What was neither used by our own processes nor by interrupts, which are nobody's.
fn foreign(passed: &CpuTimes, own: Duration) -> Duration {
    let interrupts = passed.irq.unwrap_or_default() + passed.softirq.unwrap_or_default();
    passed.busy().saturating_sub(interrupts).saturating_sub(own)
}

fn own_cpu() -> Option<Duration> {
    let used = |who| {
        let usage = getrusage(who).ok()?;
        let micros = |time: TimeVal| u64::try_from(time.num_microseconds()).ok();
        let both = micros(usage.user_time())? + micros(usage.system_time())?;
        Some(Duration::from_micros(both))
    };
    Some(used(UsageWho::RUSAGE_SELF)? + used(UsageWho::RUSAGE_CHILDREN)?)
}

/// Share of all CPU time that was in use while this program slept for a moment.
pub(crate) fn busy_share(moment: Duration) -> Option<f64> {
    let before = Reading::now();
    std::thread::sleep(moment);
    let busy_ns = Reading::now().since(&before).busy_ns?;
    let all = moment.as_secs_f64() * usable_cpus() as f64;
    Some((busy_ns as f64 / 1e9 / all).min(1.0))
}

/// Remembers the last SIGINT or SIGTERM instead of dying from it.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    caught: Arc<AtomicUsize>,
}

const NOTHING: usize = 0;
const INTERRUPT: usize = 1;
const TERMINATE: usize = 2;

impl Interrupt {
    /// Takes over both signals for the rest of the process; to be called before the first thread is started.
    pub(crate) fn install() -> std::io::Result<Self> {
        let interrupt = Interrupt {
            caught: Arc::new(AtomicUsize::new(NOTHING)),
        };
        let (signals, there) = (Signals::block()?, interrupt.clone());
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                while let Ok(signal) = signals.wait() {
                    there.caught.store(code(signal), Ordering::Relaxed);
                }
            })?;
        Ok(interrupt)
    }

    /// For tests: caught or not, as told.
    #[cfg(test)]
    pub(crate) fn pretend(signal: Option<Signal>) -> Self {
        Interrupt {
            caught: Arc::new(AtomicUsize::new(signal.map_or(NOTHING, code))),
        }
    }

    /// For tests: as if the signal had come now.
    #[cfg(test)]
    pub(crate) fn raise(&self) {
        self.caught.store(INTERRUPT, Ordering::Relaxed);
    }

    /// What came, if something came.
    pub(crate) fn caught(&self) -> Option<Signal> {
        match self.caught.load(Ordering::Relaxed) {
            NOTHING => None,
            INTERRUPT => Some(Signal::Interrupt),
            _ => Some(Signal::Terminate),
        }
    }
}

fn code(signal: Signal) -> usize {
    match signal {
        Signal::Interrupt => INTERRUPT,
        Signal::Terminate => TERMINATE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_is_what_is_left_of_the_busy_time() {
        let passed = Reading::now().since(&Reading::now());
        assert!(passed.foreign_ns <= passed.busy_ns);
        let unknown = Reading {
            own: None,
            ..Reading::now()
        };
        assert_eq!(Reading::now().since(&unknown).foreign_ns, None);
        let before = own_cpu().unwrap();
        while own_cpu().unwrap() == before {}
    }

    #[test]
    fn bytes_are_numbers_and_the_rest_is_text() {
        let json = |name: &str, text: &str| {
            serde_json::to_string(&Setting::new(name, text.to_owned())).unwrap()
        };
        assert_eq!(json("rmem_max_bytes", "212992"), "212992");
        assert_eq!(json("somaxconn", "4096"), "\"4096\"");
        assert_eq!(json("port_range", "32768 60999"), "\"32768 60999\"");
        let again: Setting = serde_json::from_str("212992").unwrap();
        assert_eq!(again, Setting::Bytes(212_992));
    }

    #[test]
    fn this_machine_is_described() {
        let host = describe();
        assert!(host.cpus >= 1 && !host.os.is_empty() && !host.arch.is_empty());
        let names: Vec<&str> = drivers().iter().map(|driver| driver.name).collect();
        assert_eq!(names, ["monoio-uring", "monoio-legacy", "glommio"]);
        assert_eq!(
            Reading::default().since(&Reading::default()),
            Surroundings::default()
        );
    }
}
