//! What the reader must know before believing a figure. Each says what was seen, why it matters, and what to do.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A remark of the tool about the run as a whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Warning {
    /// Server and load share the CPUs.
    SharedCpu {
        /// CPUs usable here.
        cpus: usize,
    },
    /// One CPU only.
    OneCpu,
    /// Other programs were at work just before the run.
    Foreign {
        /// Their share of all CPU time.
        share: f64,
    },
    /// Other programs were at work during the rounds.
    ForeignDuring {
        /// Median share of all CPU time, over rounds.
        median: f64,
        /// Worst round.
        worst: f64,
        /// Rounds looked at.
        rounds: usize,
    },
    /// The hypervisor gave time to others.
    Steal {
        /// Median share of the busy time, over rounds.
        median: f64,
        /// Worst round.
        worst: f64,
        /// Rounds looked at.
        rounds: usize,
    },
    /// The generator was the limit.
    ClientBound {
        /// Cells in which it was.
        cells: usize,
        /// Cells in all.
        of: usize,
        /// Its largest share of its CPU.
        share: f64,
    },
    /// Cells came near what the generator reaches at all.
    NearFloor {
        /// Cells that did.
        cells: usize,
        /// Cells under the load of the floor.
        of: usize,
        /// The largest share of it.
        share: f64,
    },
    /// Cells were faster than the server that does nothing.
    FloorUnreliable {
        /// Cells that were.
        cells: usize,
        /// Cells under the load of the floor.
        of: usize,
    },
    /// The generator's floor, or a part of it, could not be measured.
    FloorUnknown {
        /// Why.
        reason: String,
    },
    /// The generator did not keep its window full.
    WindowNotFull {
        /// Cells in which Little's law does not hold within 5 %.
        cells: usize,
        /// Cells in all.
        of: usize,
    },
    /// The intervals are weak.
    FewRounds {
        /// Rounds that count.
        rounds: usize,
        /// Their coverage.
        coverage: f64,
    },
    /// Whole rounds were left out to stay within the budget.
    RoundsDropped {
        /// Rounds that were run.
        ran: u32,
        /// Rounds planned.
        planned: u32,
    },
    /// More shards or pool threads than CPUs.
    Oversubscribed {
        /// Largest number of server threads.
        threads: usize,
        /// CPUs usable here.
        cpus: usize,
    },
    /// No A/A control, or one that failed.
    NoControl {
        /// It was run and failed.
        failed: bool,
    },
    /// A build without optimisation.
    DebugBuild,
    /// A server told something about its driver.
    Driver {
        /// In its words.
        remark: String,
    },
    /// System calls could not be counted.
    CallsUnknown {
        /// Why.
        reason: String,
    },
    /// `echo` cells are among those measured.
    Unframed,
    /// UDP sockets got smaller receive buffers than asked for.
    SmallBuffers {
        /// The smallest, as the kernel reports it.
        granted: usize,
        /// Asked for.
        requested: usize,
    },
    /// A sensor this machine does not have.
    Unknown {
        /// What could not be read.
        what: String,
    },
}

/// How much a warning weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Read the figures with it in mind.
    Warning,
    /// Good to know.
    Note,
}

impl Warning {
    /// Stable name for scripts.
    pub(crate) fn id(&self) -> &'static str {
        match self {
            Warning::SharedCpu { .. } => "W-SHARED-CPU",
            Warning::OneCpu => "W-ONE-CPU",
            Warning::Foreign { .. } => "W-FOREIGN",
            Warning::ForeignDuring { .. } => "W-FOREIGN-DURING",
            Warning::Steal { .. } => "W-STEAL",
            Warning::ClientBound { .. } => "W-CLIENT-BOUND",
            Warning::NearFloor { .. } => "W-NEAR-FLOOR",
            Warning::FloorUnreliable { .. } => "W-FLOOR-UNRELIABLE",
            Warning::FloorUnknown { .. } => "W-FLOOR",
            Warning::WindowNotFull { .. } => "W-WINDOW",
            Warning::FewRounds { .. } => "W-FEW-ROUNDS",
            Warning::RoundsDropped { .. } => "W-ROUNDS-DROPPED",
            Warning::Oversubscribed { .. } => "W-OVERSUBSCRIBED",
            Warning::NoControl { .. } => "W-NO-CONTROL",
            Warning::DebugBuild => "W-DEBUG",
            Warning::Driver { .. } => "N-DRIVER",
            Warning::CallsUnknown { .. } => "N-CALLS",
            Warning::Unframed => "N-UNFRAMED",
            Warning::SmallBuffers { .. } => "N-UDP-BUFFERS",
            Warning::Unknown { .. } => "N-UNKNOWN",
        }
    }

    /// How much it weighs.
    pub(crate) fn level(&self) -> Level {
        if self.id().starts_with('W') {
            Level::Warning
        } else {
            Level::Note
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: &f64| share * 100.0;
        match self {
            Warning::SharedCpu { cpus } => write!(
                f,
                "server and load generator share {cpus} CPUs. round trips/s describes the pair; compare server CPU us/RT instead."
            ),
            Warning::OneCpu => f.write_str(
                "one CPU: sharding cannot be judged here. use a machine with two or more.",
            ),
            Warning::Foreign { share } => write!(
                f,
                "other programs used {:.0} % of the CPUs just before the run. they disturb some rounds more than others; \
                 stop builds and the like, and run again.",
                percent(share)
            ),
            Warning::ForeignDuring {
                median,
                worst,
                rounds,
            } => write!(
                f,
                "other programs used {:.0} % of the CPUs during the run (median of {rounds} rounds, worst {:.0} %). \
                 they take CPUs from server and load and widen every interval; stop builds and the like, and run again.",
                percent(median),
                percent(worst)
            ),
            Warning::Steal {
                median,
                worst,
                rounds,
            } => write!(
                f,
                "this virtual machine lost {:.1} % of its busy time to other guests (median of {rounds} rounds, worst {:.1} %). \
                 absolute numbers are lower than on an idle host; ratios are paired within rounds. try a quieter minute.",
                percent(median),
                percent(worst)
            ),
            Warning::ClientBound { cells, of, share } => write!(
                f,
                "the load generator used up to {:.0} % of its CPU in {cells} of {of} cells. \
                 their throughput is a lower bound for the server; compare server CPU us/RT instead, or add CPUs.",
                percent(share)
            ),
            Warning::NearFloor { cells, of, share } => write!(
                f,
                "{cells} of {of} cells reached up to {:.0} % of the rate that the load generator has with a server that does nothing. \
                 the generator compresses their differences in round trips/s; compare server CPU us/RT instead.",
                percent(share)
            ),
            Warning::FloorUnreliable { cells, of } => write!(
                f,
                "{cells} of {of} cells were faster than a server that does nothing: the floor is not reliable in this run. \
                 how near the cells came to the generator's limit is not known; compare server CPU us/RT instead, or run again."
            ),
            Warning::FloorUnknown { reason } => write!(
                f,
                "the generator's floor was not measured: {reason}. how near the cells came to its limit is not known; run again."
            ),
            _ => self.about_the_run(f),
        }
    }
}

impl Warning {
    /// Those about the plan and what became of it; the ones about the machine and the generator are told by `fmt`.
    fn about_the_run(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::WindowNotFull { cells, of } => write!(
                f,
                "in {cells} of {of} cells clients x window is not rate x mean RTT within 5 %. \
                 the generator did not keep its window full; treat their rates as lower bounds."
            ),
            Warning::FewRounds { rounds, coverage } => {
                write!(f, "{rounds} rounds give a {:.1} % interval. use --rounds 6 (96.9 %) or more to publish.", coverage * 100.0)
            }
            Warning::RoundsDropped { ran, planned } => write!(
                f,
                "the budget ran out: {ran} of {planned} rounds were run, the others dropped whole. intervals are wider; use a larger --budget."
            ),
            Warning::Oversubscribed { threads, cpus } => write!(
                f,
                "{threads} server threads on {cpus} CPUs: they take turns, so this says nothing about {threads} cores. use at most {cpus}."
            ),
            Warning::NoControl { failed: true } => {
                f.write_str("the A/A control failed, so the noise floor is unknown and verdicts are withheld. see the failure below, then run again.")
            }
            Warning::NoControl { failed: false } => f.write_str(
                "no A/A control was run, so the noise floor is unknown; only --noise-threshold holds verdicts back. \
                 leave out --no-aa to measure it.",
            ),
            Warning::DebugBuild => f.write_str("this is a debug build; its numbers mean nothing. run: cargo run --release -p bench"),
            Warning::Driver { remark } => f.write_str(remark),
            Warning::CallsUnknown { reason } => write!(f, "system calls were not counted: {reason}."),
            Warning::Unframed => f.write_str(
                "echo has no messages: its system calls are divided by the round trips of the load. compare them with each other only.",
            ),
            Warning::SmallBuffers { granted, requested } => write!(
                f,
                "UDP sockets asked for receive buffers of {requested} bytes and got {granted}, bookkeeping included. \
                 a burst that does not fit is lost; allow more: sysctl net.core.rmem_max={requested}"
            ),
            Warning::Unknown { what } => write!(f, "{what}: not exposed by this machine. not checked."),
            _ => f.write_str(self.id()),
        }
    }
}

/// A warning as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Check {
    /// Stable name.
    pub(crate) id: String,
    /// How much it weighs.
    pub(crate) level: Level,
    /// What was seen, why it matters, what to do.
    pub(crate) text: String,
}

impl From<&Warning> for Check {
    fn from(warning: &Warning) -> Self {
        Check {
            id: warning.id().to_owned(),
            level: warning.level(),
            text: warning.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_says_what_to_do() {
        let steal = Warning::Steal {
            median: 0.079,
            worst: 0.21,
            rounds: 6,
        };
        assert_eq!(steal.level(), Level::Warning);
        assert!(steal.to_string().starts_with("this virtual machine lost 7.9 % of its busy time to other guests (median of 6 rounds, worst 21.0 %)"));
        let check = Check::from(&Warning::SharedCpu { cpus: 2 });
        assert_eq!(
            (check.id.as_str(), check.level),
            ("W-SHARED-CPU", Level::Warning)
        );
        assert_eq!(
            Warning::Unknown {
                what: "governor".to_owned()
            }
            .level(),
            Level::Note
        );
    }
}
