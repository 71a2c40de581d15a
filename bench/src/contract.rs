//! What the processes of one repetition tell each other: one JSON object a line, on standard output.
//!
//! `bench serve` prints [`Ready`], then [`Done`]; with `--control` it also answers each line `mark` on standard input with a
//! [`Mark`]. `bench load` prints one [`LoadReport`]; with `--announce` it first prints a [`Window`] at the start and at the end of
//! the measured window. Scripts read the same lines, so a field may be added but never change its meaning.
//! An unknown figure is `null`, never 0.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Version of the objects below; a change of meaning raises it.
pub const CONTRACT_VERSION: u32 = 1;

/// The protocols of this tool.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// u32 big-endian length, then the payload.
    Tcp,
    /// Plain bytes (RFC 862), no framing.
    Echo,
}

/// How the server's threads share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Model {
    /// One engine per thread; a connection stays on its shard.
    Shards,
    /// tokio's multi-thread runtime over one listener.
    Pool,
}

/// The server serves: its first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ready {
    /// Always true.
    pub ready: bool,
    /// Where it listens, port resolved.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
    /// What it speaks.
    pub protocol: Protocol,
    /// Shards or pool.
    pub model: Model,
    /// Server threads that do I/O.
    pub threads: usize,
    /// Engine that really serves, for example `monoio-uring`, or `tokio`.
    pub driver: String,
    /// Iterations of handler work per message.
    pub work: u64,
    /// Why `auto` chose this engine, and which flags it got; one line per remark.
    #[serde(default)]
    pub remarks: Vec<String>,
    /// CPU of each thread, read back after pinning; `null` where it is not pinned.
    #[serde(default)]
    pub placement: Vec<Option<usize>>,
}

/// Counters of one server thread. A pool cannot tell its threads apart and reports one entry for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardCount {
    /// Connections served here.
    pub accepted: u64,
    /// Messages answered here (`echo`: receives).
    pub messages: u64,
}

/// An answer to `mark`: the server's own counters at this moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mark {
    /// Count of marks so far, from 1.
    pub mark: u64,
    /// Messages answered since the start.
    pub messages: u64,
    /// System calls of the whole process since the start; `null` unless `--count-calls` could count them.
    pub system_calls: Option<u64>,
    /// CPU time of the whole process since its start.
    pub cpu_ns: u64,
}

/// The server's last line, after its drain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// Always true.
    pub done: bool,
    /// Connections accepted.
    pub accepted: u64,
    /// Messages answered (`echo`: receives).
    pub messages: u64,
    /// The same per server thread.
    pub per_shard: Vec<ShardCount>,
    /// CPU time of the whole process.
    pub cpu_ns: u64,
    /// Peak resident set; `null` where the system does not tell.
    pub rss_peak_bytes: Option<u64>,
    /// System calls since the start; `null` unless `--count-calls` could count them.
    pub system_calls: Option<u64>,
    /// Why system calls could not be counted, if they were asked for.
    #[serde(default)]
    pub system_calls_not_counted: Option<String>,
    /// Connections ended by a fault, by kind, for example `"frame length 4294967295 over the bound": 1`.
    #[serde(default)]
    pub faults: std::collections::BTreeMap<String, u64>,
    /// Connections or tasks that were still open when the drain deadline passed.
    #[serde(default)]
    pub left_open: u64,
}

/// The load's measured window begins or ends now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "window")]
pub enum Window {
    /// t0.
    Begin,
    /// t1.
    End,
}

/// What was counted in the load process. Any of the faults above zero makes the run fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Requests sent in the window.
    pub sent: u64,
    /// Replies received and verified in the window.
    pub received: u64,
    /// Requests unanswered at the end of the window (they are awaited and verified afterwards, not counted).
    pub in_flight_end: u64,
    /// Requests still unanswered when the drain deadline passed.
    pub unfinished: u64,
    /// Replies whose body or header differed from the request.
    pub content_errors: u64,
    /// Replies in another order than the requests.
    pub order_errors: u64,
    /// Replies of another length than the request.
    pub length_errors: u64,
    /// Replies nobody asked for.
    pub unexpected: u64,
    /// Connections that ended before the run did.
    pub disconnects: u64,
    /// Connections that could not be made.
    pub connect_errors: u64,
    /// Send or receive calls that failed.
    pub io_errors: u64,
    /// 1 if the drain after the window did not finish in time.
    pub drain_timeouts: u64,
    /// Faults, of any kind above, seen during the warm-up.
    pub warmup_errors: u64,
}

/// Percentiles of one histogram. Those with fewer than ten observations beyond them are `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Number of observations.
    pub count: u64,
    /// Mean.
    pub mean: Option<f64>,
    /// 50th percentile.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub p99_9: Option<u64>,
    /// 99.99th percentile.
    #[serde(rename = "p99.99")]
    pub p99_99: Option<u64>,
    /// Largest observation, always told when there is one.
    pub max: Option<u64>,
}

/// What one process used within the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessUse {
    /// CPU time, user and system of all threads, from the process CPU clock.
    pub cpu_ns: Option<u64>,
    /// The same per round trip.
    pub cpu_ns_per_rt: Option<f64>,
    /// Peak resident set by the end of the window.
    pub rss_peak_bytes: Option<u64>,
    /// Voluntary context switches within the window, all threads.
    pub switches_voluntary: Option<u64>,
    /// Involuntary context switches within the window, all threads.
    pub switches_involuntary: Option<u64>,
    /// CPU time as a share of the window; 1.0 is one CPU.
    pub cpu_share: Option<f64>,
}

/// The load's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadReport {
    /// [`CONTRACT_VERSION`].
    pub contract_version: u32,
    /// No fault was counted, something was measured.
    pub ok: bool,
    /// The first fault in words.
    pub first_failure: Option<String>,
    /// What was spoken.
    pub protocol: Protocol,
    /// Whom it measured.
    pub connect: SocketAddr,
    /// Connections.
    pub clients: usize,
    /// Outstanding requests per connection.
    pub window_per_client: usize,
    /// Payload bytes per message.
    pub payload_bytes: usize,
    /// Warm-up asked for.
    pub warmup_ns: u64,
    /// Window asked for.
    pub duration_ns: u64,
    /// Window measured, t1 − t0; the denominator of every rate.
    pub window_ns: u64,
    /// Time the drain after the window took.
    pub drain_ns: u64,
    /// How replies were checked: `full`, `sampled` or `header`.
    pub verify: String,
    /// What was counted.
    pub counters: Counters,
    /// `received` over the window.
    pub round_trips_per_s: f64,
    /// Payload of both directions, without headers, in 1,048,576-byte units per second.
    pub payload_mib_per_s: f64,
    /// Time from submission to the verified reply, with all queueing inside the window.
    pub rtt_service_ns: Percentiles,
    /// The whole histogram: HdrHistogram V2, compressed where that is smaller, base64.
    pub histogram_v2: Option<String>,
    /// Little's law: clients × window / (rate × mean RTT); near 1 if the generator kept its window full.
    pub little_ratio: Option<f64>,
    /// This process.
    pub client: ProcessUse,
    /// The server process, measured from outside, if its pid was given and is ours to read.
    pub server: Option<ProcessUse>,
}
