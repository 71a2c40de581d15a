//! Noise sensors of Linux: `/proc/stat`, `/proc/pressure`, `/proc/loadavg`, schedstat.

use std::time::Duration;

use super::files::{Files, HostFiles};
use super::usage::for_each_thread;
use crate::noise::CpuTimes;
use crate::{NotExposed, Reading};

pub(crate) fn cpu_times() -> Reading<CpuTimes> {
    cpu_times_from(&HostFiles, ticks_per_second())
}

fn cpu_times_from(files: &impl Files, ticks_per_second: u64) -> Reading<CpuTimes> {
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

pub(crate) fn pressure_cpu() -> Reading<Duration> {
    pressure_from(&HostFiles)
}

const PRESSURE: &str = "/proc/pressure/cpu";

fn pressure_from(files: &impl Files) -> Reading<Duration> {
    let absent = |reason: &str| NotExposed::new("CPU pressure", reason);
    let text = files.read(PRESSURE).map_err(|error| match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => absent("the kernel was booted with it switched off; boot with psi=1"),
        _ => absent(&format!("{PRESSURE} cannot be read ({error}): the kernel is older than 4.20 or built without it")),
    })?;
    parse_pressure(&text).ok_or_else(|| absent(&format!("{PRESSURE} is not understood")))
}

/// "some avg10=0.00 avg60=0.00 avg300=0.00 total=123", the total in microseconds.
fn parse_pressure(text: &str) -> Option<Duration> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some
        .split_whitespace()
        .find_map(|word| word.strip_prefix("total="))?;
    total.parse().ok().map(Duration::from_micros)
}

pub(crate) fn run_queue_wait(pid: Option<u32>) -> Reading<Duration> {
    run_queue_wait_from(&HostFiles, pid)
}

fn run_queue_wait_from(files: &impl Files, pid: Option<u32>) -> Reading<Duration> {
    let mut total = Duration::ZERO;
    for_each_thread(files, "run-queue wait", pid, "schedstat", |schedstat| {
        total += parse_schedstat(schedstat)?;
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
        assert_eq!(
            pressure_from(&ListedFiles::parse(VM)),
            Ok(Duration::from_micros(3_907_496))
        );
        let absent = pressure_from(&ListedFiles::parse(WITHOUT_PSI)).unwrap_err();
        assert!(absent.reason.contains("4.20"));
        assert_eq!(parse_pressure("full avg10=0.00 total=1"), None);
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
