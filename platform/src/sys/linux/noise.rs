//! Noise sensors of Linux: `/proc/stat`, `/proc/pressure`, `/proc/loadavg`, schedstat, cpufreq, thermal_throttle.

use std::time::Duration;

use super::files::{Files, HostFiles};
use super::usage::for_each_thread;
use super::{cgroup, topology};
use crate::noise::{CpuTimes, Frequency, Pressure, ThermalThrottles, Throttling};
use crate::{NotExposed, Reading};

pub(crate) fn cpu_times() -> Reading<CpuTimes> {
    cpu_times_from(&HostFiles, ticks_per_second())
}

pub(super) fn cpu_times_from(files: &impl Files, ticks_per_second: u64) -> Reading<CpuTimes> {
    let stat = files.reading("CPU times", "/proc/stat")?;
    parse_stat(&stat, ticks_per_second).ok_or_else(|| {
        NotExposed::new(
            "CPU times",
            "the first line of /proc/stat is not understood",
        )
    })
}

/// "cpu  user nice system idle iowait irq softirq steal guest guest_nice", in ticks. The two last are contained
/// in the two first. Old kernels end the line earlier (steal came with 2.6.11).
fn parse_stat(stat: &str, ticks_per_second: u64) -> Option<CpuTimes> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let ticks: Vec<u64> = line
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let time = |index: usize| Some(duration(*ticks.get(index)?, ticks_per_second));
    Some(CpuTimes {
        user: time(0)?,
        nice: time(1)?,
        system: time(2)?,
        idle: time(3)?,
        iowait: time(4),
        irq: time(5),
        softirq: time(6),
        steal: time(7),
    })
}

fn duration(ticks: u64, per_second: u64) -> Duration {
    Duration::from_secs(ticks / per_second)
        + Duration::from_nanos((ticks % per_second) * (1_000_000_000 / per_second))
}

fn ticks_per_second() -> u64 {
    // SAFETY: sysconf reads a number and touches no memory of ours.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    // 100 is part of the kernel's interface on every architecture that is left.
    u64::try_from(ticks)
        .ok()
        .filter(|&ticks| ticks > 0)
        .unwrap_or(100)
}

pub(crate) fn pressure() -> Reading<Pressure> {
    pressure_from(&HostFiles)
}

const PRESSURE: &str = "/proc/pressure/cpu";

pub(super) fn pressure_from(files: &impl Files) -> Reading<Pressure> {
    let absent = |reason: &str| NotExposed::new("CPU pressure", reason);
    let text = files.read(PRESSURE).map_err(|error| match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => absent("the kernel was booted with it switched off; boot with psi=1"),
        _ => absent(&format!("{PRESSURE} cannot be read ({error}): the kernel is older than 4.20 or built without it")),
    })?;
    let pressure =
        parse_pressure(&text).ok_or_else(|| absent(&format!("{PRESSURE} is not understood")))?;
    Ok(Pressure {
        // For the whole machine this is not defined; kernels since 5.13 have the line all the same and write zero.
        full: pressure.full.filter(|full| !full.is_zero()),
        ..pressure
    })
}

pub(crate) fn group_pressure() -> Reading<Pressure> {
    group_pressure_from(&HostFiles)
}

pub(super) fn group_pressure_from(files: &impl Files) -> Reading<Pressure> {
    const WHAT: &str = "CPU pressure of the control group";
    let path = format!("{}/cpu.pressure", cgroup::version_2_group(files, WHAT)?);
    let text = files.reading(WHAT, &path)?;
    parse_pressure(&text).ok_or_else(|| NotExposed::new(WHAT, format!("{path} is not understood")))
}

/// "some avg10=0.00 avg60=0.00 avg300=0.00 total=123", the total in microseconds, and the same with "full"
/// (Linux 5.13).
fn parse_pressure(text: &str) -> Option<Pressure> {
    let total = |prefix: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(prefix))?;
        let total = line
            .split_whitespace()
            .find_map(|word| word.strip_prefix("total="))?;
        total.parse().ok().map(Duration::from_micros)
    };
    Some(Pressure {
        some: total("some ")?,
        full: total("full "),
    })
}

pub(crate) fn context_switches() -> Reading<u64> {
    context_switches_from(&HostFiles)
}

pub(super) fn context_switches_from(files: &impl Files) -> Reading<u64> {
    const WHAT: &str = "context switches of the machine";
    let stat = files.reading(WHAT, "/proc/stat")?;
    let count = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    count
        .and_then(|count| count.trim().parse().ok())
        .ok_or_else(|| NotExposed::new(WHAT, "/proc/stat has no line ctxt"))
}

pub(crate) fn frequency() -> Reading<Frequency> {
    frequency_from(&HostFiles)
}

pub(super) fn frequency_from(files: &impl Files) -> Reading<Frequency> {
    const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";
    let policies = files.names(POLICIES).unwrap_or_default();
    // A driver that cannot tell writes "<unsupported>" or 0.
    let khz = policies.iter().filter_map(|policy| {
        let path = format!("{POLICIES}/{policy}/scaling_cur_freq");
        files.read(&path).ok()?.trim().parse().ok()
    });
    let khz: Vec<u64> = khz.filter(|&khz| khz > 0).collect();
    summarise(&khz).ok_or_else(|| {
        NotExposed::new(
            "CPU frequency",
            "no driver of this kernel sets CPU frequencies here",
        )
    })
}

fn summarise(khz: &[u64]) -> Option<Frequency> {
    let sum: u128 = khz.iter().copied().map(u128::from).sum();
    let mean = sum.checked_div(u128::try_from(khz.len()).ok()?)?;
    Some(Frequency {
        lowest_khz: khz.iter().copied().min()?,
        mean_khz: u64::try_from(mean).ok()?,
        highest_khz: khz.iter().copied().max()?,
    })
}

pub(crate) fn throttling() -> Reading<Throttling> {
    cgroup::throttling(&HostFiles)
}

pub(crate) fn thermal_throttles() -> Reading<ThermalThrottles> {
    thermal_throttles_from(&HostFiles)
}

pub(super) fn thermal_throttles_from(files: &impl Files) -> Reading<ThermalThrottles> {
    const WHAT: &str = "thermal throttling";
    let mut throttles = ThermalThrottles::default();
    let mut seen = false;
    for cpu in topology::online(files)?.iter() {
        let count = |name: &str| {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{name}");
            files.number::<u64>(WHAT, &path).ok()
        };
        let core = count("core_throttle_count");
        let package = count("package_throttle_count");
        seen |= core.or(package).is_some();
        throttles.core_events = throttles.core_events.saturating_add(core.unwrap_or(0));
        throttles.package_events = throttles.package_events.max(package.unwrap_or(0));
    }
    if seen {
        Ok(throttles)
    } else {
        Err(NotExposed::new(
            WHAT,
            "no CPU has a directory thermal_throttle: only Intel's count, and hypervisors seldom pass it on",
        ))
    }
}

pub(crate) fn run_queue_wait(pid: Option<u32>) -> Reading<Duration> {
    run_queue_wait_from(&HostFiles, pid)
}

pub(super) fn run_queue_wait_from(files: &impl Files, pid: Option<u32>) -> Reading<Duration> {
    let mut total = Duration::ZERO;
    for_each_thread(files, "run-queue wait", pid, "schedstat", |schedstat| {
        total = total.saturating_add(parse_schedstat(schedstat)?);
        Some(())
    })?;
    Ok(total)
}

/// "nanoseconds running, nanoseconds waiting to run, times run"
fn parse_schedstat(schedstat: &str) -> Option<Duration> {
    schedstat
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
        .map(Duration::from_nanos)
}

pub(crate) fn load_average() -> Reading<[f64; 3]> {
    let text = HostFiles.reading("load average", "/proc/loadavg")?;
    parse_load(&text)
        .ok_or_else(|| NotExposed::new("load average", format!("/proc/loadavg says \"{text}\"")))
}

fn parse_load(text: &str) -> Option<[f64; 3]> {
    let mut words = text.split_whitespace().map(|word| word.parse().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

#[cfg(test)]
mod tests {
    use super::super::files::ListedFiles;
    use super::*;

    const VM: &str = include_str!("../../../tests/fixtures/small-vm/files.txt");
    const SERVER: &str = include_str!("../../../tests/fixtures/numa-server/files.txt");
    const LARGE: &str = include_str!("../../../tests/fixtures/large-server/files.txt");
    const HYBRID: &str = include_str!("../../../tests/fixtures/hybrid-6p8e/files.txt");
    const ARM: &str = include_str!("../../../tests/fixtures/arm-server/files.txt");
    const CONTAINER_V1: &str = include_str!("../../../tests/fixtures/container-v1/files.txt");
    const CONTAINER_V2: &str = include_str!("../../../tests/fixtures/container-v2/files.txt");
    const WITHOUT_PSI: &str = include_str!("../../../tests/fixtures/without-psi/files.txt");

    #[test]
    fn ticks_become_durations() {
        let times = cpu_times_from(&ListedFiles::parse(VM), 100).unwrap();
        assert_eq!(times.user, Duration::from_millis(13_740));
        assert_eq!(times.steal(), Ok(Duration::from_millis(1_270)));
        assert_eq!(times.busy(), Duration::from_millis(13_740 + 12_990 + 260));
    }

    #[test]
    fn an_old_line_without_steal_is_not_zero_steal() {
        let times = parse_stat("cpu  10 0 5 100\n", 100).unwrap();
        assert_eq!(times.steal, None);
        assert!(parse_stat("cpu0 1 2 3 4\n", 100).is_none());
        assert!(parse_stat("cpu  1 2 x 4\n", 100).is_none());
    }

    #[test]
    fn other_tick_rates_keep_their_precision() {
        assert_eq!(duration(1_500, 1_000), Duration::from_millis(1_500));
        assert_eq!(duration(u64::MAX, 100).as_secs(), u64::MAX / 100);
    }

    #[test]
    fn pressure_is_a_total_or_a_reason() {
        let machine = pressure_from(&ListedFiles::parse(VM)).unwrap();
        assert_eq!(machine.some, Duration::from_micros(3_907_496));
        // The line is there and says zero, which means nothing for a whole machine.
        assert_eq!(machine.full, None);
        let absent = pressure_from(&ListedFiles::parse(WITHOUT_PSI)).unwrap_err();
        assert!(absent.reason.contains("4.20"));
        assert_eq!(parse_pressure("full avg10=0.00 total=1"), None);
        assert_eq!(parse_pressure("some avg10=0.00\n"), None);
    }

    #[test]
    fn a_control_group_has_pressure_of_its_own() {
        let group = group_pressure_from(&ListedFiles::parse(CONTAINER_V2)).unwrap();
        assert_eq!(group.some, Duration::from_millis(700));
        assert_eq!(group.full, Some(Duration::from_millis(300)));
        let version_1 = group_pressure_from(&ListedFiles::parse(CONTAINER_V1)).unwrap_err();
        assert!(version_1.reason.contains("version 2"), "{version_1}");
        let root = group_pressure_from(&ListedFiles::parse(VM)).unwrap_err();
        assert!(root.reason.contains("root of all groups"), "{root}");
    }

    #[test]
    fn switches_of_the_machine_are_a_line_of_their_own() {
        let of = |listing| context_switches_from(&ListedFiles::parse(listing));
        assert_eq!(of(VM), Ok(91_823));
        assert_eq!(of(LARGE), Ok(987_654_321_012));
        assert!(of("/proc/stat:cpu  1 2 3 4\n").is_err());
    }

    #[test]
    fn frequencies_are_summarised_or_not_known() {
        let laptop = frequency_from(&ListedFiles::parse(HYBRID)).unwrap();
        assert_eq!(
            (laptop.lowest_khz, laptop.highest_khz),
            (800_000, 4_800_000)
        );
        assert_eq!(laptop.mean_khz, 3_200_000);
        assert!(frequency_from(&ListedFiles::parse(VM)).is_err());
        let unsupported =
            "/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq:<unsupported>\n";
        assert!(frequency_from(&ListedFiles::parse(unsupported)).is_err());
        assert_eq!(summarise(&[u64::MAX, u64::MAX]).unwrap().mean_khz, u64::MAX);
    }

    #[test]
    fn heat_is_counted_on_some_machines_only() {
        let laptop = thermal_throttles_from(&ListedFiles::parse(HYBRID)).unwrap();
        assert_eq!((laptop.core_events, laptop.package_events), (14, 31));
        for listing in [VM, ARM, LARGE, ""] {
            assert!(thermal_throttles_from(&ListedFiles::parse(listing)).is_err());
        }
    }

    #[test]
    fn run_queue_wait_is_summed_over_threads() {
        let wait = run_queue_wait_from(&ListedFiles::parse(SERVER), Some(4_242)).unwrap();
        assert_eq!(wait, Duration::from_nanos(200 + 3_000));
        assert!(run_queue_wait_from(&ListedFiles::parse(SERVER), Some(1)).is_err());
    }

    #[test]
    fn three_loads_or_none() {
        assert_eq!(
            parse_load("0.50 1.25 2.00 1/234 5678"),
            Some([0.5, 1.25, 2.0])
        );
        assert_eq!(parse_load("0.50 1.25"), None);
    }
}
