//! One repetition of one cell: what is asked for, who carries it out, and the record that is kept of it.

use crate::case::Cell;
use crate::contract::{Done, LoadReport, Ready};
use crate::loss::Loss;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Carries out repetitions. The real one starts processes; the tests' one invents results.
pub(crate) trait Runner {
    /// Runs the job to its end, good or bad. Never hangs.
    fn run(&mut self, job: &Job<'_>) -> Outcome;
}

/// What one repetition shall do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    /// What is measured.
    pub(crate) cell: &'a Cell,
    /// For how long.
    pub(crate) timing: Timing,
    /// How replies are checked.
    pub(crate) verify: Verify,
    /// When datagrams are lost, and how many may be.
    pub(crate) losses: LossRule,
    /// Why it is run.
    pub(crate) pass: Pass,
}

/// Length of the warm-up and of the measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Timing {
    /// Warm-up; runs into the window without a drain.
    #[serde(rename = "warmup_ns", with = "nanoseconds")]
    pub(crate) warmup: Duration,
    /// Measured window.
    #[serde(rename = "window_ns", with = "nanoseconds")]
    pub(crate) window: Duration,
}

impl Timing {
    /// Both together.
    pub(crate) fn total(self) -> Duration {
        self.warmup + self.window
    }
}

/// When a request over datagrams counts as lost, and how many may be. Streams lose nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct LossRule {
    /// How long a reply is waited for.
    #[serde(rename = "udp_timeout_ns", with = "nanoseconds")]
    pub(crate) timeout: Duration,
    /// The share of requests that may be lost.
    pub(crate) max_loss: f64,
}

impl Default for LossRule {
    /// 50 ms, and none: on the loopback a reply takes a thousandth of that, and nothing is lost that had room.
    fn default() -> Self {
        LossRule {
            timeout: Duration::from_millis(50),
            max_loss: 0.0,
        }
    }
}

/// How replies are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verify {
    /// Every byte of every reply.
    Full,
    /// Every header, some bodies.
    Sampled,
    /// Every header.
    Header,
}

impl Verify {
    /// As written on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Verify::Full => "full",
            Verify::Sampled => "sampled",
            Verify::Header => "header",
        }
    }
}

/// Why a repetition is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Pass {
    /// Before the rounds, to learn what starting and ending costs; not part of any figure.
    Rehearsal,
    /// Before the rounds, against the null server: the generator's floor, no cell of the plan.
    Floor,
    /// Part of a round.
    Timed,
    /// After the rounds: system calls are counted, time is not used.
    Counted,
    /// A number of messages instead of a time, so that it passes on a machine of any speed; not part of any figure.
    Check,
}

/// What came of a job.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// Why it does not count; `null` if it does.
    pub(crate) failure: Option<Failure>,
    /// Stopped by a signal to this tool: neither good nor bad.
    pub(crate) interrupted: bool,
    /// The server's first line.
    pub(crate) ready: Option<Ready>,
    /// The load's result.
    pub(crate) load: Option<LoadReport>,
    /// The server's last line.
    pub(crate) done: Option<Done>,
    /// System calls per round trip, where they were asked for.
    pub(crate) calls: Option<CallCount>,
    /// Over datagrams: what was lost, and where.
    #[serde(default)]
    pub(crate) loss: Option<Loss>,
    /// What the children were and said; kept in files if it failed.
    #[serde(skip)]
    pub(crate) evidence: String,
}

/// Why a repetition does not count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// Stable name, for example `E-SERVER-DIED`.
    pub(crate) id: String,
    /// What happened, in words.
    pub(crate) text: String,
    /// Last lines the guilty child wrote to standard error.
    pub(crate) stderr_tail: Vec<String>,
    /// The tool's own check failed, not the server: exit 6.
    pub(crate) own_fault: bool,
}

impl Failure {
    /// A failure without standard error.
    pub(crate) fn new(id: &str, text: impl Into<String>) -> Self {
        Failure {
            id: id.to_owned(),
            text: text.into(),
            stderr_tail: Vec::new(),
            own_fault: false,
        }
    }

    /// The children disagree with what they were told.
    pub(crate) fn own(id: &str, text: impl Into<String>) -> Self {
        Failure {
            own_fault: true,
            ..Failure::new(id, text)
        }
    }
}

/// System calls of the server within the window of the counted pass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CallCount {
    /// Per round trip; `null` if they could not be counted.
    pub(crate) per_round_trip: Option<f64>,
    /// All of them.
    pub(crate) system_calls: Option<u64>,
    /// Round trips they are divided by.
    pub(crate) round_trips: Option<u64>,
    /// Why they could not be counted.
    pub(crate) reason: Option<String>,
}

/// A repetition as the journal keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Repetition {
    /// Cell it belongs to.
    pub(crate) cell: String,
    /// Why it was run.
    pub(crate) pass: Pass,
    /// Round, from 1; 0 outside the rounds.
    pub(crate) round: u32,
    /// Position within the round, from 1; 0 outside the rounds.
    pub(crate) position: u32,
    /// Start, counted from the start of the run.
    pub(crate) started_ns: u64,
    /// Wall time of the repetition with everything around the window.
    pub(crate) wall_ns: u64,
    /// What came of it.
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

impl Repetition {
    /// It counts.
    pub(crate) fn ok(&self) -> bool {
        self.outcome.failure.is_none() && !self.outcome.interrupted
    }

    /// Its name in files: `<cell>-r<round>`.
    pub(crate) fn file_stem(&self) -> String {
        match self.pass {
            Pass::Rehearsal => format!("{}-rehearsal", self.cell),
            Pass::Floor => format!("{}-floor{}", self.cell, self.position),
            Pass::Timed => format!("{}-r{}", self.cell, self.round),
            Pass::Counted => format!("{}-counted", self.cell),
            Pass::Check => format!("{}-check", self.cell),
        }
    }
}

/// Whole nanoseconds, as every file of this tool writes a time.
pub(crate) fn whole_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

mod nanoseconds {
    //! A [`Duration`] as an integer of nanoseconds.

    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(
        time: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(super::whole_ns(*time))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_nanos)
    }
}
