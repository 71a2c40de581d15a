//! Describing a Mac from sysctl(3).

use super::{sysctl, topology};
use crate::host::Host;
use crate::sys::unix::{descriptor_limit, memlock_limit};
use crate::{NotExposed, Reading};

pub(crate) fn describe() -> Host {
    let topology = topology::read();
    Host {
        os: sysctl::text("system name", "kern.osproductversion")
            .map(|version| format!("macOS {version}")),
        kernel_release: sysctl::text("kernel release", "kern.osrelease"),
        arch: Ok(std::env::consts::ARCH.to_owned()),
        cpu_model: sysctl::text("CPU model", "machdep.cpu.brand_string"),
        logical_cpus: sysctl::count("CPUs", "hw.logicalcpu"),
        physical_cores: sysctl::count("cores", "hw.physicalcpu"),
        memory_bytes: sysctl::number("memory size", "hw.memsize"),
        virtualised: virtualised(),
        governor: governor(),
        turbo: absent("turbo", "macOS does not tell"),
        smt: topology.map(|topology| topology.has_smt()),
        numa_nodes: absent("NUMA nodes", "macOS shows no nodes"),
        mitigations: absent("mitigations", "macOS does not list them"),
        clocksource: Ok("mach_absolute_time".to_owned()),
        boot_id: sysctl::text("boot id", "kern.bootsessionuuid"),
        hostname: sysctl::text("host name", "kern.hostname"),
        tcp_congestion_control: absent("congestion control", "macOS does not tell"),
        rmem_max_bytes: sysctl::number("largest receive buffer", "kern.ipc.maxsockbuf"),
        wmem_max_bytes: sysctl::number("largest send buffer", "kern.ipc.maxsockbuf"),
        somaxconn: sysctl::number("largest backlog", "kern.ipc.somaxconn"),
        port_range: port_range(),
        io_uring_disabled: absent("io_uring sysctl", "there is no io_uring on macOS"),
        perf_event_paranoid: absent("perf sysctl", "there is no perf_event on macOS"),
        descriptor_limit: descriptor_limit(),
        memlock_limit_bytes: memlock_limit(),
        transparent_hugepages: absent("transparent huge pages", "macOS has none"),
    }
}

pub(crate) fn governor() -> Reading<String> {
    absent(
        "frequency governor",
        "macOS decides about frequencies itself",
    )
}

fn absent<T>(what: &'static str, reason: &str) -> Reading<T> {
    Err(NotExposed::new(what, reason))
}

/// macOS 11 says whether it runs under a hypervisor, but not which; the model's name may ("VirtualMac2,1").
fn virtualised() -> Reading<Option<String>> {
    let is_virtual = sysctl::number("virtualisation", "kern.hv_vmm_present")? != 0;
    let model =
        sysctl::text("model", "hw.model").unwrap_or_else(|_| "unnamed hypervisor".to_owned());
    Ok(is_virtual.then_some(model))
}

fn port_range() -> Reading<(u16, u16)> {
    let port = |name: &str| {
        let number = sysctl::number("port range", name)?;
        u16::try_from(number)
            .map_err(|_| NotExposed::new("port range", format!("sysctl {name} says {number}")))
    };
    Ok((
        port("net.inet.ip.portrange.first")?,
        port("net.inet.ip.portrange.last")?,
    ))
}
