//! Prints what this crate finds out about the host, with the reason for everything it does not.

use std::error::Error;
use std::fmt::{Debug, Display};

use shardloop_platform::affinity::Allowed;
use shardloop_platform::calls::CallCounter;
use shardloop_platform::cpu_set::CpuSet;
use shardloop_platform::host::{Host, clock_overhead};
use shardloop_platform::network::{BacklogCounters, TcpCounters, UdpCounters};
use shardloop_platform::noise::{self, CpuTimes};
use shardloop_platform::topology::Topology;
use shardloop_platform::uring::{RingOptions, probe};
use shardloop_platform::{affinity, socket, usage};

fn main() -> Result<(), Box<dyn Error>> {
    for (name, reading) in Host::describe().rows() {
        row(name, reading.as_ref());
    }
    row::<_, String>("clock_overhead", Ok(&format!("{:?}", clock_overhead())));
    cpus();
    this_process();
    machine();
    ring();
    Ok(())
}

fn cpus() {
    let allowed = Allowed::read();
    row::<_, String>(
        "cpus",
        Ok(&format!("{} (usable: {})", allowed.cpus, allowed.usable())),
    );
    row("cpus by affinity", allowed.affinity.as_ref());
    row("cpus by control group", allowed.cpuset.as_ref());
    row(
        "quota",
        allowed
            .quota_cpus
            .map(|quota| format!("{quota:?}"))
            .as_ref(),
    );
    let topology = Topology::read().map(|topology| topology.among(&allowed.cpus));
    match &topology {
        Ok(topology) => relations(topology),
        Err(absent) => row::<String, _>("cpu topology", Err(absent)),
    }
    let order = topology.map(|topology| topology.placement_order(&allowed.cpus));
    debug_row("placement order", order);
    let pinned = allowed.cpus.first().map(affinity::pin_current_thread);
    row("pinned to", pinned.unwrap_or(Ok(0)).as_ref());
}

fn relations(topology: &Topology) {
    let lists = |sets: Vec<CpuSet>| {
        let texts: Vec<String> = sets.iter().map(|set| format!("[{set}]")).collect();
        texts.join(" ")
    };
    let groups = [
        ("cores", topology.cores()),
        ("packages", topology.packages().into_values().collect()),
        ("nodes", topology.nodes().into_values().collect()),
        ("classes", topology.classes().into_values().collect()),
    ];
    for (name, sets) in groups {
        row::<_, String>(name, Ok(&lists(sets)));
    }
}

fn this_process() {
    debug_row("memory", usage::memory(None));
    debug_row("switches", usage::switches(None));
    debug_row("run-queue wait", noise::run_queue_wait(None));
    debug_row("cpu time", usage::CpuClock::this_process().read());
    row("open descriptors", socket::open_descriptors().as_ref());
    row(
        "raised descriptor limit",
        socket::raise_descriptor_limit().as_ref(),
    );
    debug_row(
        "system calls counted",
        CallCounter::open().map(|counter| counter.read()),
    );
}

fn machine() {
    debug_row("cpu times", CpuTimes::read());
    debug_row("load average", noise::load_average());
    debug_row("cpu pressure", noise::pressure());
    debug_row("cpu pressure of group", noise::group_pressure());
    debug_row("context switches", noise::context_switches());
    debug_row("frequency", noise::frequency());
    debug_row("throttling", noise::throttling());
    debug_row("thermal throttling", noise::thermal_throttles());
    debug_row("tcp", TcpCounters::read());
    debug_row("udp", UdpCounters::read());
    debug_row("udp6", UdpCounters::read_v6());
    debug_row("network backlog", BacklogCounters::read());
}

fn ring() {
    let options = RingOptions {
        entries: 256,
        coop_taskrun: true,
        single_issuer: true,
        defer_taskrun: true,
    };
    debug_row("io_uring", probe(&options));
}

fn debug_row<T: Debug, E: Display>(name: &str, reading: Result<T, E>) {
    row(name, reading.map(|value| format!("{value:?}")).as_ref());
}

fn row<T: Display, E: Display>(name: &str, reading: Result<&T, &E>) {
    match reading {
        Ok(value) => println!("{name:<26}{value}"),
        Err(reason) => println!("{name:<26}- ({reason})"),
    }
}
