//! What this process and the server used within the window, from the process clocks of the platform.

use crate::contract::ProcessUse;
use shardloop_platform::usage::{self, CpuClock, Switches};
use std::time::Duration;

/// This process and, if it is known and readable, the server.
#[derive(Debug)]
pub(crate) struct Watch {
    own: Watched,
    server: Option<Watched>,
}

/// What was used between two moments, by whom.
#[derive(Debug)]
pub(crate) struct Used {
    /// This process.
    pub(crate) own: ProcessUse,
    /// The server.
    pub(crate) server: Option<ProcessUse>,
}

impl Watch {
    /// Watches this process and the server, if its clock is ours to read.
    pub(crate) fn new(server_pid: Option<u32>) -> Self {
        let server = server_pid.and_then(|pid| {
            let clock = CpuClock::of_process(pid).ok()?;
            Some(Watched::new(clock, Some(pid)))
        });
        Self {
            own: Watched::new(CpuClock::this_process(), None),
            server,
        }
    }

    /// The window begins.
    pub(crate) fn begin(&mut self) {
        self.own.begin = Snapshot::of(&self.own);
        if let Some(server) = &mut self.server {
            server.begin = Snapshot::of(server);
        }
    }

    /// The window ends. The clocks are read first: what follows takes time.
    pub(crate) fn end(&mut self) {
        if let Some(server) = &mut self.server {
            server.end = Snapshot::of(server);
        }
        self.own.end = Snapshot::of(&self.own);
    }

    /// What was used in a window of this length with so many round trips.
    pub(crate) fn used(&self, window_ns: u64, round_trips: u64) -> Used {
        Used {
            own: self.own.used(window_ns, round_trips),
            server: self
                .server
                .as_ref()
                .map(|server| server.used(window_ns, round_trips)),
        }
    }
}

/// One process, looked at twice.
#[derive(Debug)]
struct Watched {
    clock: CpuClock,
    pid: Option<u32>,
    begin: Snapshot,
    end: Snapshot,
}

/// One look; `None` is what could not be read.
#[derive(Clone, Copy, Debug, Default)]
struct Snapshot {
    cpu: Option<Duration>,
    switches: Option<Switches>,
    peak_bytes: Option<u64>,
}

impl Snapshot {
    fn of(process: &Watched) -> Self {
        Self {
            cpu: process.clock.read().ok(),
            switches: usage::switches(process.pid).ok(),
            peak_bytes: usage::memory(process.pid)
                .ok()
                .and_then(|memory| memory.peak_bytes),
        }
    }
}

impl Watched {
    fn new(clock: CpuClock, pid: Option<u32>) -> Self {
        Self {
            clock,
            pid,
            begin: Snapshot::default(),
            end: Snapshot::default(),
        }
    }

    fn used(&self, window_ns: u64, round_trips: u64) -> ProcessUse {
        let cpu = self.between(|look| look.cpu?.as_nanos().try_into().ok());
        #[expect(
            clippy::cast_precision_loss,
            reason = "a share needs no more than 15 digits"
        )]
        let per = |parts: u64| Some(cpu? as f64 / parts as f64).filter(|share| share.is_finite());
        ProcessUse {
            cpu_ns: cpu,
            cpu_ns_per_rt: per(round_trips),
            rss_peak_bytes: self.end.peak_bytes,
            switches_voluntary: self.between(|look| Some(look.switches?.voluntary)),
            switches_involuntary: self.between(|look| Some(look.switches?.involuntary)),
            cpu_share: per(window_ns),
        }
    }

    /// The growth of one figure. A thread that ended takes its switches along; then the growth is not known.
    fn between(&self, figure: impl Fn(&Snapshot) -> Option<u64>) -> Option<u64> {
        figure(&self.end)?.checked_sub(figure(&self.begin)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_readable_as_itself_and_as_a_server() {
        let mut watch = Watch::new(Some(std::process::id()));
        watch.begin();
        watch.end();
        let used = watch.used(1_000_000, 10);
        assert!(used.own.cpu_ns.is_some() && used.own.cpu_share.is_some());
        assert!(used.server.is_some_and(|server| server.cpu_ns.is_some()));
    }

    #[test]
    fn nobody_has_no_figures_and_no_round_trips_no_cost() {
        let mut watch = Watch::new(Some(u32::MAX - 1));
        watch.begin();
        watch.end();
        let used = watch.used(1_000_000, 0);
        assert_eq!(used.server, None);
        assert_eq!(used.own.cpu_ns_per_rt, None);
    }
}
