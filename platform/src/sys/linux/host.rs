//! Describing a Linux host from procfs and sysfs.

use std::collections::BTreeMap;

use super::files::{Files, HostFiles};
use super::topology;
use crate::host::Host;
use crate::sys::unix::{descriptor_limit, memlock_limit};
use crate::{NotExposed, Reading};

pub(super) const IO_URING_DISABLED: &str = "/proc/sys/kernel/io_uring_disabled";

pub(crate) fn describe() -> Host {
    describe_from(&HostFiles)
}

pub(super) fn describe_from(files: &impl Files) -> Host {
    let topology = topology::read_from(files);
    Host {
        os: os_name(files),
        kernel_release: files.reading("kernel release", "/proc/sys/kernel/osrelease"),
        arch: Ok(std::env::consts::ARCH.to_owned()),
        cpu_model: cpu_model(files),
        logical_cpus: topology
            .as_ref()
            .map(|topology| topology.cpus.len())
            .map_err(Clone::clone),
        physical_cores: topology
            .as_ref()
            .map(crate::topology::Topology::physical_cores)
            .map_err(Clone::clone),
        memory_bytes: memory_bytes(files),
        virtualised: virtualised(files),
        governor: governor_from(files),
        turbo: turbo(files),
        smt: files
            .number::<u8>("SMT", "/sys/devices/system/cpu/smt/active")
            .map(|active| active != 0),
        numa_nodes: topology::nodes(files).map(|nodes| nodes.len()),
        mitigations: mitigations(files),
        clocksource: files.reading(
            "clock source",
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        boot_id: files.reading("boot id", "/proc/sys/kernel/random/boot_id"),
        hostname: files.reading("host name", "/proc/sys/kernel/hostname"),
        tcp_congestion_control: files.reading(
            "congestion control",
            "/proc/sys/net/ipv4/tcp_congestion_control",
        ),
        rmem_max_bytes: files.number("largest receive buffer", "/proc/sys/net/core/rmem_max"),
        wmem_max_bytes: files.number("largest send buffer", "/proc/sys/net/core/wmem_max"),
        somaxconn: files.number("largest backlog", "/proc/sys/net/core/somaxconn"),
        port_range: port_range(files),
        io_uring_disabled: files.number("io_uring sysctl", IO_URING_DISABLED),
        perf_event_paranoid: files.number("perf sysctl", "/proc/sys/kernel/perf_event_paranoid"),
        descriptor_limit: descriptor_limit(),
        memlock_limit_bytes: memlock_limit(),
        transparent_hugepages: transparent_hugepages(files),
    }
}

fn os_name(files: &impl Files) -> Reading<String> {
    let release = files.reading("system name", "/etc/os-release")?;
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let name = name.map(|name| name.trim_matches(['"', '\'']).to_owned());
    name.ok_or_else(|| NotExposed::new("system name", "/etc/os-release has no PRETTY_NAME"))
}

const CPUINFO: &str = "/proc/cpuinfo";

fn cpu_model(files: &impl Files) -> Reading<String> {
    let cpuinfo = files.reading("CPU model", CPUINFO)?;
    parse_cpu_model(&cpuinfo).ok_or_else(|| {
        NotExposed::new(
            "CPU model",
            format!("{CPUINFO} names neither a model nor a part"),
        )
    })
}

/// x86 writes "model name"; ARM has numbers only, and those of the first core.
fn parse_cpu_model(cpuinfo: &str) -> Option<String> {
    if let Some(name) = cpuinfo_field(cpuinfo, "model name") {
        return Some(name.to_owned());
    }
    let implementer = cpuinfo_field(cpuinfo, "CPU implementer")?;
    let part = cpuinfo_field(cpuinfo, "CPU part")?;
    Some(format!("ARM implementer {implementer}, part {part}"))
}

fn cpuinfo_field<'t>(cpuinfo: &'t str, key: &str) -> Option<&'t str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

fn memory_bytes(files: &impl Files) -> Reading<u64> {
    let meminfo = files.reading("memory size", "/proc/meminfo")?;
    parse_memory_total(&meminfo)
        .ok_or_else(|| NotExposed::new("memory size", "/proc/meminfo has no MemTotal"))
}

fn parse_memory_total(meminfo: &str) -> Option<u64> {
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    total
        .trim()
        .strip_suffix("kB")?
        .trim_end()
        .parse::<u64>()
        .ok()?
        .checked_mul(1_024)
}

/// On x86 a hypervisor announces itself by a CPU flag. Elsewhere the firmware's names are all there is.
fn virtualised(files: &impl Files) -> Reading<Option<String>> {
    let cpuinfo = files.reading("virtualisation", CPUINFO)?;
    let name = machine_name(files);
    let is_virtual = match cpuinfo_field(&cpuinfo, "flags") {
        Some(flags) => flags.split_whitespace().any(|flag| flag == "hypervisor"),
        None => name.as_deref().is_some_and(sounds_virtual),
    };
    Ok(is_virtual.then(|| name.unwrap_or_else(|| "unnamed hypervisor".to_owned())))
}

fn machine_name(files: &impl Files) -> Option<String> {
    let dmi = |name: &str| files.read(&format!("/sys/class/dmi/id/{name}")).ok();
    let words: Vec<String> = [dmi("sys_vendor"), dmi("product_name")]
        .into_iter()
        .flatten()
        .collect();
    let name = words.join(" ").trim().to_owned();
    (!name.is_empty()).then_some(name)
}

fn sounds_virtual(name: &str) -> bool {
    const HINTS: [&str; 9] = [
        "QEMU",
        "KVM",
        "Virtual",
        "VMware",
        "Xen",
        "Google Compute",
        "OpenStack",
        "Parallels",
        "Amazon EC2",
    ];
    HINTS.iter().any(|hint| name.contains(hint)) && !name.contains("metal")
}

pub(crate) fn governor() -> Reading<String> {
    governor_from(&HostFiles)
}

fn governor_from(files: &impl Files) -> Reading<String> {
    const POLICIES: &str = "/sys/devices/system/cpu/cpufreq";
    let policies = files.names(POLICIES).unwrap_or_default();
    let mut governors: Vec<String> = policies
        .iter()
        .filter_map(|policy| {
            files
                .read(&format!("{POLICIES}/{policy}/scaling_governor"))
                .ok()
        })
        .collect();
    governors.sort_unstable();
    governors.dedup();
    if governors.is_empty() {
        return Err(NotExposed::new(
            "frequency governor",
            "no driver of this kernel sets CPU frequencies here",
        ));
    }
    Ok(governors.join(","))
}

fn turbo(files: &impl Files) -> Reading<bool> {
    let flag = |path: &str| files.number::<u8>("turbo", path).map(|value| value != 0);
    flag("/sys/devices/system/cpu/intel_pstate/no_turbo")
        .map(|off| !off)
        .or_else(|_| flag("/sys/devices/system/cpu/cpufreq/boost"))
        .map_err(|_| {
            NotExposed::new(
                "turbo",
                "neither intel_pstate/no_turbo nor cpufreq/boost exists here",
            )
        })
}

fn mitigations(files: &impl Files) -> Reading<String> {
    const FLAWS: &str = "/sys/devices/system/cpu/vulnerabilities";
    let flaws = files
        .names(FLAWS)
        .map_err(|error| super::files::absent("mitigations", FLAWS, &error))?;
    let verdicts = flaws.into_iter().filter_map(|flaw| {
        let text = files.read(&format!("{FLAWS}/{flaw}")).ok()?;
        Some((flaw, text))
    });
    Ok(summarise_mitigations(verdicts))
}

fn summarise_mitigations(verdicts: impl Iterator<Item = (String, String)>) -> String {
    let mut by_verdict = BTreeMap::<&str, Vec<String>>::new();
    for (flaw, text) in verdicts {
        by_verdict.entry(verdict(&text)).or_default().push(flaw);
    }
    let parts = by_verdict.iter().map(|(&verdict, flaws)| match verdict {
        "not affected" => format!("{verdict}: {}", flaws.len()),
        _ => format!("{verdict}: {}", flaws.join(", ")),
    });
    parts.collect::<Vec<_>>().join("; ")
}

/// The kernel's sentences begin with the verdict; one flaw (itlb_multihit) has "KVM: " before it.
fn verdict(text: &str) -> &'static str {
    let text = text.strip_prefix("KVM: ").unwrap_or(text);
    if text.starts_with("Not affected") {
        "not affected"
    } else if text.starts_with("Mitigation") {
        "mitigated"
    } else if text.starts_with("Unknown") {
        "unknown"
    } else {
        "vulnerable"
    }
}

fn port_range(files: &impl Files) -> Reading<(u16, u16)> {
    const RANGE: &str = "/proc/sys/net/ipv4/ip_local_port_range";
    let text = files.reading("port range", RANGE)?;
    parse_port_range(&text)
        .ok_or_else(|| NotExposed::new("port range", format!("{RANGE} says \"{text}\"")))
}

fn parse_port_range(text: &str) -> Option<(u16, u16)> {
    let mut ports = text.split_whitespace().map(|port| port.parse().ok());
    Some((ports.next()??, ports.next()??))
}

fn transparent_hugepages(files: &impl Files) -> Reading<String> {
    const ENABLED: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let text = files.reading("transparent huge pages", ENABLED)?;
    chosen(&text).map(str::to_owned).ok_or_else(|| {
        NotExposed::new(
            "transparent huge pages",
            format!("{ENABLED} says \"{text}\""),
        )
    })
}

/// The word in brackets of "always [madvise] never".
fn chosen(text: &str) -> Option<&str> {
    text.split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

#[cfg(test)]
mod tests {
    use super::super::files::ListedFiles;
    use super::*;

    fn host(listing: &str) -> Host {
        describe_from(&ListedFiles::parse(listing))
    }

    #[test]
    fn a_small_virtual_machine() {
        let vm = host(include_str!("../../../tests/fixtures/small-vm/files.txt"));
        assert_eq!(vm.os.unwrap(), "Debian GNU/Linux 12 (bookworm)");
        assert_eq!(vm.cpu_model.unwrap(), "Intel(R) Xeon(R) Processor");
        assert_eq!(vm.memory_bytes, Ok(24_684_084 * 1_024));
        assert_eq!(vm.virtualised, Ok(Some("unnamed hypervisor".to_owned())));
        assert!(vm.governor.is_err() && vm.turbo.is_err());
        assert_eq!(vm.smt, Ok(false));
        assert_eq!(vm.port_range, Ok((32_768, 60_999)));
        assert_eq!(vm.transparent_hugepages.unwrap(), "madvise");
        let mitigations = vm.mitigations.unwrap();
        assert!(
            mitigations.starts_with("mitigated: indirect_target_selection, spectre_v1"),
            "{mitigations}"
        );
        assert!(
            mitigations.contains("vulnerable: retbleed, spec_store_bypass"),
            "{mitigations}"
        );
    }

    #[test]
    fn a_server_on_bare_metal() {
        let server = host(include_str!(
            "../../../tests/fixtures/numa-server/files.txt"
        ));
        assert_eq!(server.virtualised, Ok(None));
        assert_eq!(
            (server.logical_cpus, server.physical_cores),
            (Ok(16), Ok(8))
        );
        assert_eq!(server.numa_nodes, Ok(2));
        assert_eq!(server.governor.unwrap(), "performance");
        assert_eq!(server.turbo, Ok(true));
        assert_eq!(server.smt, Ok(true));
    }

    #[test]
    fn a_hybrid_laptop_with_turbo_off() {
        let laptop = host(include_str!(
            "../../../tests/fixtures/hybrid-laptop/files.txt"
        ));
        assert_eq!(laptop.turbo, Ok(false));
        assert_eq!(laptop.governor.unwrap(), "performance,powersave");
    }

    #[test]
    fn a_host_that_shows_nothing_has_a_reason_for_everything() {
        let known = ["arch", "descriptor_limit", "memlock_limit_bytes"];
        for (name, reading) in host("").rows() {
            assert_eq!(
                reading.is_ok(),
                known.contains(&name),
                "{name}: {reading:?}"
            );
        }
    }

    #[test]
    fn arm_processors_are_numbers() {
        let cpuinfo = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(
            parse_cpu_model(cpuinfo).unwrap(),
            "ARM implementer 0x41, part 0xd0c"
        );
        assert_eq!(parse_cpu_model("processor : 0\n"), None);
        assert!(sounds_virtual("QEMU KVM Virtual Machine"));
        assert!(!sounds_virtual("Amazon EC2 c7g.metal"));
    }
}
