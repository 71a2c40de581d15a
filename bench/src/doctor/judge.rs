//! What each fact means for a measurement, one function each.

use super::{Finding, Verdict, facts::Facts};
use crate::udp_socket::REQUESTED;
use shardloop_platform::Reading;
use std::time::Duration;

/// Connections that `run` makes at most, and what else a process has open.
const DESCRIPTORS_WANTED: u64 = 1024 + 64;
/// Ephemeral ports that are enough for a run: those of earlier repetitions are in TIME_WAIT for a minute.
const PORTS_WANTED: u16 = 16_000;
/// A clock that takes longer is read by a system call.
const CLOCK_SLOW: Duration = Duration::from_nanos(200);
/// A loopback that takes longer is disturbed, or emulated.
const LOOPBACK_SLOW: Duration = Duration::from_micros(500);

/// Everything, what counts most first.
pub(super) fn all(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![build(facts)];
    findings.extend(engines(facts));
    findings.extend([
        io_uring(facts),
        cpus(facts),
        quota(facts),
        topology(facts),
        virtualised(facts),
        governor(facts),
        steal(facts),
        foreign(facts),
        pressure(facts),
        load(facts),
        clock(facts),
        descriptors(facts),
        ports(facts),
        udp_buffers(facts),
        counting(facts),
        loopback(facts),
    ]);
    findings
}

impl Finding {
    fn new(what: &'static str, verdict: Verdict, value: impl Into<String>) -> Self {
        Finding {
            what,
            value: Some(value.into()),
            verdict,
            advice: None,
            fatal: false,
        }
    }

    fn hidden(what: &'static str) -> Self {
        Finding {
            what,
            value: None,
            verdict: Verdict::Note,
            advice: Some("not checked".to_owned()),
            fatal: false,
        }
    }

    fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    /// With this advice unless it is as it should be.
    fn advise_unless_ok(self, advice: impl Into<String>) -> Self {
        if self.verdict == Verdict::Ok {
            self
        } else {
            self.advise(advice)
        }
    }

    fn fatal(mut self) -> Self {
        self.fatal = true;
        self
    }
}

/// Below the first bound it is well, from the second on a problem.
fn by_share(share: f64, note: f64, problem: f64) -> Verdict {
    if share >= problem {
        Verdict::Problem
    } else if share >= note {
        Verdict::Note
    } else {
        Verdict::Ok
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn build(facts: &Facts) -> Finding {
    if facts.debug_build {
        Finding::new("build", Verdict::Note, "debug")
            .advise("refused where figures are made; use cargo run --release -p bench")
    } else {
        Finding::new("build", Verdict::Ok, "release")
    }
}

fn engines(facts: &Facts) -> Vec<Finding> {
    if facts.drivers.iter().all(|driver| driver.available.is_err()) {
        let none = Finding::new("engine", Verdict::Problem, "none works here");
        let reasons: Vec<String> = facts
            .drivers
            .iter()
            .filter_map(|driver| {
                Some(format!(
                    "{}: {}",
                    driver.name,
                    driver.available.as_ref().err()?
                ))
            })
            .collect();
        return vec![
            none.advise(format!("no shards can be measured. {}", reasons.join("; ")))
                .fatal(),
        ];
    }
    let engine = |driver: &crate::host::DriverInfo| match &driver.available {
        Ok(facility) => Finding::new(
            "engine",
            Verdict::Ok,
            format!("{} ({facility})", driver.name),
        ),
        Err(reason) => Finding::new(
            "engine",
            Verdict::Note,
            format!("{} not available", driver.name),
        )
        .advise(reason.clone()),
    };
    facts.drivers.iter().map(engine).collect()
}

/// What limits rings; whether they work is the engines' own probe, which meets a seccomp filter as well.
fn io_uring(facts: &Facts) -> Finding {
    let memlock = facts.host.memlock_limit_bytes.as_ref().ok();
    let locked = memlock.map_or("not exposed".to_owned(), |limit| match limit.soft {
        Some(bytes) => format!("{bytes} bytes"),
        None => "unlimited".to_owned(),
    });
    match facts.host.io_uring_disabled {
        Ok(0) => Finding::new("io_uring", Verdict::Ok, format!("allowed by kernel.io_uring_disabled = 0; RLIMIT_MEMLOCK {locked}")),
        Ok(value) => Finding::new("io_uring", Verdict::Note, format!("kernel.io_uring_disabled = {value}; RLIMIT_MEMLOCK {locked}"))
            .advise("engines on io_uring are refused, and shards run on readiness; sysctl kernel.io_uring_disabled=0 allows them"),
        Err(_) if memlock.is_some() => Finding::new("io_uring", Verdict::Note, format!("kernel.io_uring_disabled not exposed; RLIMIT_MEMLOCK {locked}"))
            .advise("kernels before 6.6 have no such switch; the engines above were tried"),
        Err(_) => Finding::hidden("io_uring"),
    }
}

fn cpus(facts: &Facts) -> Finding {
    let usable = facts.allowed.usable();
    let online = facts.host.logical_cpus.as_ref().ok();
    let of = online.map_or(String::new(), |online| format!(" of {online} online"));
    let verdict = match usable {
        1 => Verdict::Problem,
        2 | 3 => Verdict::Note,
        _ => Verdict::Ok,
    };
    Finding::new("CPUs", verdict, format!("{usable} usable{of}")).advise_unless_ok(match usable {
        1 => "server and load generator take turns on it, so shards cannot be judged; use a machine with four or more",
        _ => "server and load generator share them; compare server CPU per round trip rather than rates, or use four or more",
    })
}

fn quota(facts: &Facts) -> Finding {
    let throttled = facts.throttled.is_some_and(|by| by.throttled_periods > 0);
    match &facts.allowed.quota_cpus {
        Ok(None) => Finding::new("CPU quota", Verdict::Ok, "none"),
        Ok(Some(cpus)) => Finding::new(
            "CPU quota",
            if throttled { Verdict::Problem } else { Verdict::Note },
            format!("{cpus:.2} CPUs by control group"),
        )
        .advise("a process that has used it up stands still for the rest of the period, which shows as latency; measure without a quota (cpu.max = max)"),
        Err(_) => Finding::hidden("CPU quota"),
    }
}

fn topology(facts: &Facts) -> Finding {
    let Ok(topology) = &facts.topology else {
        return Finding::hidden("topology");
    };
    let (nodes, kinds) = (topology.nodes().len().max(1), topology.classes().len());
    let value = format!(
        "{} cores, SMT {}, NUMA nodes {nodes}, kinds of cores {kinds}",
        topology.physical_cores(),
        if topology.has_smt() { "on" } else { "off" },
    );
    let mut advice = Vec::new();
    if topology.has_smt() && facts.allowed.usable() > topology.physical_cores() {
        advice.push("two threads of a core share it: as many shards as there are CPUs do not scale as cores do");
    }
    if nodes > 1 {
        advice.push("threads on several nodes reach memory at different costs; keep a run on one (numactl --cpunodebind=0 --membind=0)");
    }
    if kinds > 1 {
        advice
            .push("slow cores set the latency of their shards; allow the fast ones only (taskset)");
    }
    if advice.is_empty() {
        Finding::new("topology", Verdict::Ok, value)
    } else {
        Finding::new("topology", Verdict::Note, value).advise(advice.join("; "))
    }
}

fn virtualised(facts: &Facts) -> Finding {
    match &facts.host.virtualised {
        Ok(None) => Finding::new("virtual", Verdict::Ok, "no"),
        Ok(Some(kind)) => Finding::new("virtual", Verdict::Note, format!("virtual machine ({kind})"))
            .advise("other guests disturb it unseen, except for steal; compare ratios, and measure at several times of the day"),
        Err(_) => Finding::hidden("virtual"),
    }
}

fn governor(facts: &Facts) -> Finding {
    match &facts.host.governor {
        Ok(name) if name == "performance" => Finding::new("governor", Verdict::Ok, name.clone()),
        Ok(name) => Finding::new("governor", Verdict::Note, name.clone())
            .advise("CPUs change their clock with the load, and a cell pays for the one before it; cpupower frequency-set -g performance"),
        Err(_) => Finding::hidden("governor"),
    }
}

fn steal(facts: &Facts) -> Finding {
    let Some(share) = facts.steal_share else {
        return Finding::hidden("steal");
    };
    Finding::new(
        "steal",
        by_share(share, 0.01, 0.10),
        format!("{} now", percent(share)),
    )
    .advise_unless_ok("the hypervisor gives time to other guests; measure in a quieter minute")
}

fn foreign(facts: &Facts) -> Finding {
    let Some(share) = facts.foreign_share else {
        return Finding::hidden("other programs");
    };
    Finding::new("other programs", by_share(share, 0.05, 0.25), format!("{} of the CPUs now", percent(share)))
        .advise_unless_ok("they take CPUs from server and load, in some rounds more than in others; stop builds and the like")
}

fn pressure(facts: &Facts) -> Finding {
    let Some(share) = facts.pressure_share else {
        return Finding::hidden("pressure");
    };
    let value = format!("threads waited for a CPU {} of the time", percent(share));
    Finding::new("pressure", by_share(share, 0.05, 0.30), value)
        .advise_unless_ok("there is more to run than CPUs; stop what need not run")
}

fn load(facts: &Facts) -> Finding {
    let Some(load) = facts.load_1m else {
        return Finding::hidden("load average");
    };
    #[expect(clippy::cast_precision_loss, reason = "there are few CPUs")]
    let per_cpu = load / facts.allowed.usable() as f64;
    Finding::new(
        "load average",
        by_share(per_cpu, 0.5, 1.0),
        format!("{load:.2} over a minute"),
    )
    .advise_unless_ok("the machine was busy just before; wait until it has calmed down")
}

fn clock(facts: &Facts) -> Finding {
    let source = facts.host.clocksource.as_ref();
    let value = format!(
        "{} ns per reading, source {}",
        facts.clock.as_nanos(),
        source.map_or("not exposed", String::as_str)
    );
    let verdict = if facts.clock > CLOCK_SLOW {
        Verdict::Problem
    } else {
        Verdict::Ok
    };
    Finding::new("clock", verdict, value)
        .advise_unless_ok("each reading is a system call, and the load generator reads it all the time; choose a faster source (clocksource=tsc)")
}

fn descriptors(facts: &Facts) -> Finding {
    let Ok(limit) = &facts.host.descriptor_limit else {
        return Finding::hidden("descriptors");
    };
    // The soft limit is raised to the hard one by each process.
    let enough = limit.hard.is_none_or(|hard| hard >= DESCRIPTORS_WANTED);
    let verdict = if enough { Verdict::Ok } else { Verdict::Note };
    Finding::new("descriptors", verdict, limit.to_string()).advise_unless_ok(format!(
        "1024 clients need {DESCRIPTORS_WANTED}; raise the hard limit (ulimit -Hn), or use fewer"
    ))
}

fn ports(facts: &Facts) -> Finding {
    let Ok((first, last)) = facts.host.port_range else {
        return Finding::hidden("ports");
    };
    let verdict = if last.saturating_sub(first) < PORTS_WANTED {
        Verdict::Note
    } else {
        Verdict::Ok
    };
    Finding::new("ports", verdict, format!("{first} to {last} for connections"))
        .advise_unless_ok("many clients in many rounds use them up for a minute each; sysctl net.ipv4.ip_local_port_range=\"32768 60999\"")
}

fn udp_buffers(facts: &Facts) -> Finding {
    let (rmem, wmem) = (&facts.host.rmem_max_bytes, &facts.host.wmem_max_bytes);
    let word = |limit: &Reading<u64>| {
        limit
            .as_ref()
            .map_or("not exposed".to_owned(), u64::to_string)
    };
    let granted = facts
        .udp_granted
        .map_or("not exposed".to_owned(), |granted| {
            format!("{} and {}", granted.receive_bytes, granted.send_bytes)
        });
    let value = format!(
        "asked for {} and {} bytes (receive, send), granted {granted}; rmem_max {}, wmem_max {}",
        REQUESTED.receive_bytes,
        REQUESTED.send_bytes,
        word(rmem),
        word(wmem)
    );
    let fits = |limit: &Reading<u64>, wanted: usize| {
        limit.as_ref().ok().map(|limit| *limit >= wanted as u64)
    };
    match (fits(rmem, REQUESTED.receive_bytes), fits(wmem, REQUESTED.send_bytes)) {
        (None, _) | (_, None) if facts.udp_granted.is_none() => Finding::hidden("UDP buffers"),
        (Some(false), _) | (_, Some(false)) => Finding::new("UDP buffers", Verdict::Note, value).advise(format!(
            "bursts beyond them are lost, and fail a repetition; sysctl net.core.rmem_max={} net.core.wmem_max={}",
            REQUESTED.receive_bytes, REQUESTED.send_bytes
        )),
        _ => Finding::new("UDP buffers", Verdict::Ok, value),
    }
}

fn counting(facts: &Facts) -> Finding {
    let paranoid = facts.host.perf_event_paranoid.as_ref();
    let setting = paranoid.map_or("not exposed".to_owned(), i32::to_string);
    match &facts.calls {
        Ok(()) => Finding::new(
            "system calls",
            Verdict::Ok,
            format!("can be counted; perf_event_paranoid {setting}"),
        ),
        Err(reason) => Finding::new(
            "system calls",
            Verdict::Note,
            format!("cannot be counted; perf_event_paranoid {setting}"),
        )
        .advise(format!("the column calls/RT stays empty: {reason}")),
    }
}

fn loopback(facts: &Facts) -> Finding {
    match &facts.loopback {
        Ok(times) => {
            let slow = times.tcp.max(times.udp) > LOOPBACK_SLOW;
            let verdict = if slow { Verdict::Note } else { Verdict::Ok };
            let micros = |time: Duration| format!("{:.1} us", time.as_secs_f64() * 1e6);
            let value = format!("round trip tcp {}, udp {} (median)", micros(times.tcp), micros(times.udp));
            Finding::new("loopback", verdict, value)
                .advise_unless_ok("waking a thread takes long here: a busy machine, deep sleep states, or an emulated one")
        }
        Err(error) => Finding::new("loopback", Verdict::Problem, error.clone())
            .advise("server and load talk over 127.0.0.1, so nothing can be measured; allow sockets there")
            .fatal(),
    }
}
