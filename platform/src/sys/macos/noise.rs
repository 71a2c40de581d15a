//! Noise sensors of macOS: Mach's CPU load of the host, and getloadavg.

use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::time::Duration;

use crate::noise::{CpuTimes, Frequency, Pressure, ThermalThrottles, Throttling};
use crate::{NotExposed, Reading};

pub(crate) fn cpu_times() -> Reading<CpuTimes> {
    let ticks = cpu_load().map_err(|code| {
        NotExposed::new("CPU times", format!("host_statistics: Mach error {code}"))
    })?;
    let time = |state: libc::c_int| {
        let index = usize::try_from(state).expect("the states are numbered from 0");
        duration(ticks[index])
    };
    Ok(CpuTimes {
        user: time(libc::CPU_STATE_USER),
        nice: time(libc::CPU_STATE_NICE),
        system: time(libc::CPU_STATE_SYSTEM),
        idle: time(libc::CPU_STATE_IDLE),
        iowait: None,
        irq: None,
        softirq: None,
        steal: None,
    })
}

type Ticks = [libc::natural_t; 4];

fn cpu_load() -> Result<Ticks, libc::kern_return_t> {
    let mut info = MaybeUninit::<libc::host_cpu_load_info>::uninit();
    let mut count = libc::HOST_CPU_LOAD_INFO_COUNT;
    let host = this_host();
    // SAFETY: the flavour says that the buffer is a `host_cpu_load_info`, and `count` how large that is.
    let code = unsafe {
        libc::host_statistics64(
            host,
            libc::HOST_CPU_LOAD_INFO,
            info.as_mut_ptr().cast(),
            &raw mut count,
        )
    };
    if code != libc::KERN_SUCCESS {
        return Err(code);
    }
    // SAFETY: the call succeeded and has filled it.
    Ok(unsafe { info.assume_init() }.cpu_ticks)
}

/// The port is looked up once: every look-up adds a reference that nobody gives back.
fn this_host() -> libc::mach_port_t {
    static HOST: OnceLock<libc::mach_port_t> = OnceLock::new();
    *HOST.get_or_init(|| {
        // SAFETY: the call has no arguments and no conditions.
        unsafe { mach_host_self() }
    })
}

unsafe extern "C" {
    /// `mach/mach_init.h`. libc's declaration is deprecated in favour of a crate of its own.
    fn mach_host_self() -> libc::mach_port_t;
}

/// Mach counts these in hundredths of a second, in 32 bits: they wrap after 497 days of one CPU's time.
fn duration(ticks: libc::natural_t) -> Duration {
    Duration::from_millis(u64::from(ticks) * 10)
}

pub(crate) fn pressure() -> Reading<Pressure> {
    Err(NotExposed::new("CPU pressure", "only Linux keeps it"))
}

pub(crate) fn group_pressure() -> Reading<Pressure> {
    Err(NotExposed::new(
        "CPU pressure of the control group",
        "macOS has no control groups",
    ))
}

pub(crate) fn context_switches() -> Reading<u64> {
    Err(NotExposed::new(
        "context switches of the machine",
        "macOS does not tell",
    ))
}

pub(crate) fn frequency() -> Reading<Frequency> {
    Err(NotExposed::new(
        "CPU frequency",
        "macOS tells it to the administrator only (powermetrics)",
    ))
}

pub(crate) fn throttling() -> Reading<Throttling> {
    Err(NotExposed::new(
        "throttling by CPU quotas",
        "macOS has no control groups",
    ))
}

pub(crate) fn thermal_throttles() -> Reading<ThermalThrottles> {
    Err(NotExposed::new(
        "thermal throttling",
        "macOS counts no events; pmset -g therm prints whether it slows down now",
    ))
}

pub(crate) fn run_queue_wait(_pid: Option<u32>) -> Reading<Duration> {
    Err(NotExposed::new(
        "run-queue wait",
        "macOS does not keep it per process",
    ))
}

pub(crate) fn load_average() -> Reading<[f64; 3]> {
    let mut loads = [0.0; 3];
    // SAFETY: the array has room for the three numbers asked for.
    match unsafe { libc::getloadavg(loads.as_mut_ptr(), 3) } {
        3 => Ok(loads),
        _ => Err(NotExposed::new(
            "load average",
            "getloadavg gave fewer than three numbers",
        )),
    }
}
