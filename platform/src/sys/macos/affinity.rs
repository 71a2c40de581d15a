//! macOS does not tie threads to CPUs. A quality-of-service class is what comes closest.

use super::sysctl;
use crate::affinity::{Allowed, NotPinned};
use crate::cpu_set::CpuSet;
use crate::{NotExposed, Reading};

pub(crate) fn allowed() -> Allowed {
    let cpuset = NotExposed::new(
        "CPU set of the control group",
        "macOS has no control groups",
    );
    let quota = NotExposed::new("CPU quota", "macOS has no control groups");
    Allowed::from_sources(current_thread_cpus(), Err(cpuset), Err(quota), active_cpus)
}

fn active_cpus() -> usize {
    sysctl::count("CPUs", "hw.activecpu")
        .or_else(|_| sysctl::count("CPUs", "hw.logicalcpu"))
        .unwrap_or(1)
}

pub(crate) fn current_thread_cpus() -> Reading<CpuSet> {
    Err(NotExposed::new("affinity", "macOS has no thread affinity"))
}

pub(crate) fn pin_current_thread(cpu: usize) -> Result<usize, NotPinned> {
    let outcome = match prefer_fast_cores() {
        Ok(()) => {
            "it has the quality-of-service class \"user interactive\" instead, which favours fast cores"
        }
        Err(()) => "nor could it get the quality-of-service class \"user interactive\"",
    };
    Err(NotPinned {
        cpu,
        reason: format!("macOS has no thread affinity ({outcome})"),
    })
}

/// From `sys/qos.h`.
const QOS_CLASS_USER_INTERACTIVE: libc::c_uint = 0x21;

unsafe extern "C" {
    /// `pthread/qos.h`, macOS 10.10. 0 or an error number.
    fn pthread_set_qos_class_self_np(
        class: libc::c_uint,
        relative_priority: libc::c_int,
    ) -> libc::c_int;
}

fn prefer_fast_cores() -> Result<(), ()> {
    // SAFETY: the call takes two numbers and concerns the calling thread only.
    match unsafe { pthread_set_qos_class_self_np(QOS_CLASS_USER_INTERACTIVE, 0) } {
        0 => Ok(()),
        _ => Err(()),
    }
}
