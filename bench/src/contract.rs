//! What the processes of one repetition tell each other: one JSON object a line, on standard output.
//!
//! `bench serve` prints [`Ready`], then [`Done`]; with `--control` it also answers each line `mark` on standard input with a
//! [`Mark`]. `bench load` prints one [`LoadReport`]; with `--announce` it first prints a [`Window`] at the start and at the end of
//! the measured window. Scripts read the same lines, so a field may be added but never change its meaning.
//! An unknown figure is `null`, never 0.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Version of the objects below; a change of meaning raises it.
pub(crate) const CONTRACT_VERSION: u32 = 1;

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
pub(crate) enum Protocol {
    /// u32 big-endian length, then the payload.
    Tcp,
    /// Plain bytes (RFC 862), no framing.
    Echo,
    /// One datagram is one message (RFC 768).
    Udp,
    /// As `tcp`, in TLS (RFC 8446).
    #[value(alias = "tcps")]
    Tls,
    /// One binary message each (RFC 6455).
    #[value(alias = "websocket")]
    Ws,
    /// As `ws`, in TLS.
    Wss,
    /// `POST /echo`, whose answer has the same body (RFC 9112).
    Http,
    /// As `http`, in TLS.
    Https,
}

/// How the server's threads share the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Model {
    /// One engine per thread; a connection stays on its shard.
    Shards,
    /// tokio's multi-thread runtime over one listener.
    Pool,
    /// One thread that sends bytes back as they come: not under test, it shows the load generator's own limit.
    Null,
}

/// The server serves: its first line.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    /// Always true.
    pub(crate) ready: bool,
    /// Where it listens, port resolved.
    pub(crate) address: SocketAddr,
    /// Its process.
    pub(crate) pid: u32,
    /// What it speaks.
    pub(crate) protocol: Protocol,
    /// Shards, pool or null.
    pub(crate) model: Model,
    /// Server threads that do I/O.
    pub(crate) threads: usize,
    /// Engine that really serves, for example `monoio-uring`, `tokio`, or `null`.
    pub(crate) driver: String,
    /// Iterations of handler work per message.
    pub(crate) work: u64,
    /// Why `auto` chose this engine, and which flags it got; one line per remark.
    #[serde(default)]
    pub(crate) remarks: Vec<String>,
    /// CPU of each thread, read back after pinning; `null` where it is not pinned.
    #[serde(default)]
    pub(crate) placement: Vec<Option<usize>>,
    /// How connections or datagrams are spread over shards; `null` without shards.
    #[serde(default)]
    pub(crate) accept: Option<String>,
    /// How long a shard without work looks for more before it parks, in microseconds.
    #[serde(default)]
    pub(crate) spin_us: u64,
    /// The authority whose certificate a client has to trust, in PEM; `null` for what is not encrypted.
    #[serde(default)]
    pub(crate) ca_pem: Option<String>,
    /// Buffers of a server of datagrams; `null` for streams, which have the kernel's own.
    #[serde(default)]
    pub(crate) udp_buffers: Option<UdpBuffers>,
}

/// Sizes of a socket's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Buffers {
    /// SO_SNDBUF.
    pub(crate) send_bytes: usize,
    /// SO_RCVBUF. What finds no room in it is dropped.
    pub(crate) receive_bytes: usize,
}

/// What was asked for, and what the kernel says it is. Linux doubles what it grants, and cuts it to twice `rmem_max` and `wmem_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UdpBuffers {
    /// Asked for.
    pub(crate) requested: Buffers,
    /// Granted; of several sockets the smallest.
    pub(crate) granted_min: Option<Buffers>,
    /// Granted; of several sockets the largest.
    pub(crate) granted_max: Option<Buffers>,
}

/// Counters of one server thread. A pool cannot tell its threads apart and reports one entry for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ShardCount {
    /// Connections served here.
    pub(crate) accepted: u64,
    /// Messages answered here (`echo`, and the null server: receives).
    pub(crate) messages: u64,
}

/// An answer to `mark`: the server's own counters at this moment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// Count of marks so far, from 1.
    pub(crate) mark: u64,
    /// Messages answered since the start (`echo`, and the null server: receives).
    pub(crate) messages: u64,
    /// System calls of the whole process since the start; `null` unless `--count-calls` could count them.
    pub(crate) system_calls: Option<u64>,
    /// CPU time of the whole process since its start.
    pub(crate) cpu_ns: u64,
}

/// The server's last line, after its drain.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Done {
    /// Always true.
    pub(crate) done: bool,
    /// Connections accepted.
    pub(crate) accepted: u64,
    /// Messages answered (`echo`, and the null server: receives).
    pub(crate) messages: u64,
    /// The same per server thread.
    pub(crate) per_shard: Vec<ShardCount>,
    /// CPU time of the whole process.
    pub(crate) cpu_ns: u64,
    /// Peak resident set; `null` where the system does not tell.
    pub(crate) rss_peak_bytes: Option<u64>,
    /// System calls since the start; `null` unless `--count-calls` could count them.
    pub(crate) system_calls: Option<u64>,
    /// Why system calls could not be counted, if they were asked for.
    #[serde(default)]
    pub(crate) system_calls_not_counted: Option<String>,
    /// Connections ended by a fault, by kind, for example `"frame length 4294967295 over the bound": 1`.
    #[serde(default)]
    pub(crate) faults: std::collections::BTreeMap<String, u64>,
    /// Connections or tasks that were still open when the drain deadline passed.
    #[serde(default)]
    pub(crate) left_open: u64,
    /// Datagrams, from the start to the end; `null` for streams.
    #[serde(default)]
    pub(crate) udp: Option<ServedDatagrams>,
}

/// What went over a server's UDP sockets. `accepted` is 0 there: nothing is accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServedDatagrams {
    /// Datagrams received.
    pub(crate) received: u64,
    /// Datagrams sent.
    pub(crate) sent: u64,
    /// Datagrams that could not be sent.
    pub(crate) refused: u64,
    /// Datagrams the kernel dropped because a socket had no room; `null` where it does not tell.
    pub(crate) dropped: Option<u64>,
    /// Datagrams dropped between the shard that receives for all and the others; `null` where nothing is handed out.
    pub(crate) dropped_between_shards: Option<u64>,
}

/// The load's measured window begins or ends now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "window")]
pub(crate) enum Window {
    /// t0.
    Begin,
    /// t1.
    End,
}

/// What was counted in the load process. Any of the faults above zero makes the run fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counters {
    /// Requests sent in the window.
    pub(crate) sent: u64,
    /// Replies received and verified in the window.
    pub(crate) received: u64,
    /// Requests unanswered at the end of the window (they are awaited and verified afterwards, not counted).
    pub(crate) in_flight_end: u64,
    /// Requests still unanswered when the drain deadline passed.
    pub(crate) unfinished: u64,
    /// Replies whose body or header differed from the request.
    pub(crate) content_errors: u64,
    /// Replies in another order than the requests.
    pub(crate) order_errors: u64,
    /// Replies of another length than the request.
    pub(crate) length_errors: u64,
    /// Replies nobody asked for.
    pub(crate) unexpected: u64,
    /// Connections that ended before the run did.
    pub(crate) disconnects: u64,
    /// Connections that could not be made.
    pub(crate) connect_errors: u64,
    /// Send or receive calls that failed.
    pub(crate) io_errors: u64,
    /// Connections ended because what came is against the protocol: a frame, a status, an alert.
    pub(crate) protocol_errors: u64,
    /// 1 if the drain after the window did not finish in time.
    pub(crate) drain_timeouts: u64,
    /// Faults, of any kind above, seen during the warm-up.
    pub(crate) warmup_errors: u64,
}

/// Percentiles of one histogram. Those with fewer than ten observations beyond them are `null`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    /// Number of observations.
    pub(crate) count: u64,
    /// Mean.
    pub(crate) mean: Option<f64>,
    /// 50th percentile.
    pub(crate) p50: Option<u64>,
    /// 90th percentile.
    pub(crate) p90: Option<u64>,
    /// 99th percentile.
    pub(crate) p99: Option<u64>,
    /// 99.9th percentile.
    #[serde(rename = "p99.9")]
    pub(crate) p99_9: Option<u64>,
    /// 99.99th percentile.
    #[serde(rename = "p99.99")]
    pub(crate) p99_99: Option<u64>,
    /// Largest observation, always told when there is one.
    pub(crate) max: Option<u64>,
}

/// What one process used within the measured window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProcessUse {
    /// CPU time, user and system of all threads, from the process CPU clock.
    pub(crate) cpu_ns: Option<u64>,
    /// The same per round trip.
    pub(crate) cpu_ns_per_rt: Option<f64>,
    /// Peak resident set by the end of the window.
    pub(crate) rss_peak_bytes: Option<u64>,
    /// Voluntary context switches within the window, all threads.
    pub(crate) switches_voluntary: Option<u64>,
    /// Involuntary context switches within the window, all threads.
    pub(crate) switches_involuntary: Option<u64>,
    /// CPU time as a share of the window; 1.0 is one CPU.
    pub(crate) cpu_share: Option<f64>,
}

/// The load's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LoadReport {
    /// [`CONTRACT_VERSION`].
    pub(crate) contract_version: u32,
    /// No fault was counted, something was measured.
    pub(crate) ok: bool,
    /// The first fault in words.
    pub(crate) first_failure: Option<String>,
    /// What was spoken.
    pub(crate) protocol: Protocol,
    /// Whom it measured.
    pub(crate) connect: SocketAddr,
    /// Connections.
    pub(crate) clients: usize,
    /// Outstanding requests per connection.
    pub(crate) window_per_client: usize,
    /// Payload bytes per message.
    pub(crate) payload_bytes: usize,
    /// Warm-up asked for.
    pub(crate) warmup_ns: u64,
    /// Window asked for.
    pub(crate) duration_ns: u64,
    /// Window measured, t1 − t0; the denominator of every rate.
    pub(crate) window_ns: u64,
    /// Time the drain after the window took.
    pub(crate) drain_ns: u64,
    /// How replies were checked: `full`, `sampled` or `header`.
    pub(crate) verify: String,
    /// What was counted.
    pub(crate) counters: Counters,
    /// `received` over the window.
    pub(crate) round_trips_per_s: f64,
    /// Payload of both directions, without headers, in 1,048,576-byte units per second.
    pub(crate) payload_mib_per_s: f64,
    /// Time from submission to the verified reply, with all queueing inside the window.
    pub(crate) rtt_service_ns: Percentiles,
    /// The whole histogram: HdrHistogram V2, compressed where that is smaller, base64.
    pub(crate) histogram_v2: Option<String>,
    /// Little's law: clients × window / (rate × mean RTT); near 1 if the generator kept its window full.
    pub(crate) little_ratio: Option<f64>,
    /// This process.
    pub(crate) client: ProcessUse,
    /// The server process, measured from outside, if its pid was given and is ours to read.
    pub(crate) server: Option<ProcessUse>,
    /// What became of the datagrams; `null` for streams.
    #[serde(default)]
    pub(crate) udp: Option<DatagramReport>,
    /// What the first connection's handshake agreed on; `null` for what is not encrypted.
    #[serde(default)]
    pub(crate) tls: Option<TlsSession>,
}

/// What a TLS handshake agreed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TlsSession {
    /// `TLS 1.3` or `TLS 1.2`.
    pub(crate) version: String,
    /// By its name in the registry of IANA.
    pub(crate) cipher_suite: String,
}

/// What became of the datagrams of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DatagramReport {
    /// A request without a reply for so long is lost, and another is sent in its place.
    pub(crate) timeout_ns: u64,
    /// More than this share of requests lost makes the run fail.
    pub(crate) max_loss: f64,
    /// Requests lost, as a share of those whose end is known, without the warm-up.
    pub(crate) loss_share: f64,
    /// The measured window.
    pub(crate) window: Closure,
    /// From the first request to the end: warm-up, window and drain.
    pub(crate) whole: Closure,
    /// Requests outstanding on average in the window, by Little's law with the lost ones.
    pub(crate) mean_in_flight: Option<f64>,
    /// Buffers of the clients' sockets.
    pub(crate) buffers: UdpBuffers,
    /// Datagrams the kernel dropped because a client's socket had no room, whole run; `null` where it does not tell.
    pub(crate) client_dropped: Option<u64>,
    /// The same of all sockets of the machine (or its network namespace), whoever owns them.
    pub(crate) system_receive_buffer_full: Option<u64>,
}

/// Where requests went: `in_flight_begin + sent = echoed + lost + in_flight_end`, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Closure {
    /// Requests outstanding at its begin.
    pub(crate) in_flight_begin: u64,
    /// Requests sent.
    pub(crate) sent: u64,
    /// Replies received in time and verified.
    pub(crate) echoed: u64,
    /// Requests given up for want of a reply.
    pub(crate) lost: u64,
    /// Replies to requests that had been given up; of `lost`, whenever that was.
    pub(crate) late: u64,
    /// Replies beyond the first; in no other figure.
    pub(crate) duplicates: u64,
    /// Replies in time after a reply to a later request of the same client; part of `echoed`.
    pub(crate) reordered: u64,
    /// Requests outstanding at its end.
    pub(crate) in_flight_end: u64,
}

impl Closure {
    /// Whether every request is accounted for.
    pub(crate) fn holds(&self) -> bool {
        self.in_flight_begin + self.sent == self.echoed + self.lost + self.in_flight_end
    }
}
