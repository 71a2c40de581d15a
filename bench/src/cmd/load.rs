//! `bench load`: drives a server with a closed loop and verifies every reply.

use crate::{
    case::Family,
    contract::{LoadReport, Protocol},
    factor,
    load::{self, Plan, Stop, Verify, report},
};
use shardloop_platform::socket;
use std::{
    fs::File,
    io::{self, Write},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

/// Most bytes in flight: clients × window × payload.
const IN_FLIGHT_LIMIT_BYTES: u64 = 256 * 1024 * 1024;

/// Longest drain.
const DRAIN_LIMIT: Duration = Duration::from_secs(5);

/// Longest time for `--messages` where `--duration` does not say.
const MESSAGES_LIMIT: Duration = Duration::from_secs(60);

/// The window where neither `--duration` nor `--messages` is given.
const DEFAULT_DURATION: Duration = Duration::from_secs(1);

/// Exit codes of this command.
const FAILED: u8 = 1;
const USAGE: u8 = 2;
const REFUSED: u8 = 4;

/// Drives an echo server with a closed loop and verifies every reply.
///
/// Exit code: 0 measured and valid, 1 something failed, 2 usage, 4 refused by the machine before anything ran.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct LoadArgs {
    /// What to speak: `tcp` is a u32 big-endian length and the payload, `echo` plain bytes, `udp` a datagram for each message, `ws` a
    /// binary message, `http` a POST whose answer has the same body; `tls`, `wss` and `https` are tcp, ws and http in TLS.
    #[arg(long, value_enum)]
    protocol: Protocol,
    /// The server.
    #[arg(long, value_name = "ADDRESS:PORT")]
    connect: SocketAddr,
    /// Connections, 1 to 60000.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    clients: u32,
    /// Outstanding requests per connection, 1 to 1024.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    window: u32,
    /// Payload bytes per message, 16 to 1M (udp: 65507, over IPv6 65527); K and M are accepted.
    #[arg(long, default_value = "1024", value_parser = parse_payload)]
    payload: usize,
    /// Length of the measured window: 500ms, 2s; a plain number is seconds. 1s by default; with --messages the longest time, 60s.
    #[arg(long, short, value_parser = parse_window)]
    duration: Option<Duration>,
    /// Ends the window after this many round trips per client; no warm-up.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    messages: Option<u64>,
    /// Traffic before the window.
    #[arg(long, default_value = "250ms", value_parser = parse_duration)]
    warmup: Duration,
    /// How replies are checked; length, header and order always are. `sampled` compares the body of every 16th.
    #[arg(long, value_enum, default_value_t = Verify::Full)]
    verify: Verify,
    /// The server's process, whose CPU time within the window is then told.
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// The authority that the server's certificate must come from, in PEM; for tls, wss and https, whose `serve` writes it.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The same as text.
    #[arg(long, value_name = "PEM", hide = true, conflicts_with = "ca")]
    ca_pem: Option<String>,
    /// Prints a JSON line when the measured window begins and another when it ends.
    #[arg(long)]
    announce: bool,
    /// One JSON object, as the last line of standard output (`-`) or into a file.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// For all connections together.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    connect_timeout: Duration,
    /// For replies outstanding at the end of the window, at most 5s.
    #[arg(long, default_value = "2s", value_parser = parse_drain)]
    drain_timeout: Duration,
    /// Over udp: a request without a reply for so long is lost, and another is sent in its place; 1ms to 5s.
    #[arg(long, default_value = "50ms", value_parser = parse_udp_timeout)]
    udp_timeout: Duration,
    /// Over udp: more than this percentage of requests lost fails the run.
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = factor::percent)]
    max_loss: f64,
}

/// Runs the command.
pub(crate) fn run(args: &LoadArgs) -> ExitCode {
    let mut plan = args.plan();
    let result = read_ca(args, &mut plan)
        .and_then(|()| check_payload(&plan))
        .and_then(|()| check_cap(&plan))
        .and_then(|()| check_descriptors(&plan))
        .and_then(|()| Output::open(args.json.as_deref()))
        .and_then(|output| measure(&plan, output, &mut io::stdout()));
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(refusal) => {
            eprintln!("{}", refusal.words);
            ExitCode::from(refusal.exit_code)
        }
    }
}

impl LoadArgs {
    fn plan(&self) -> Plan {
        let stop = match self.messages {
            Some(per_client) => Stop::Messages {
                per_client,
                longest: self.duration.unwrap_or(MESSAGES_LIMIT),
            },
            None => Stop::After(self.duration.unwrap_or(DEFAULT_DURATION)),
        };
        let counted = self.messages.is_some();
        Plan {
            protocol: self.protocol,
            connect: self.connect,
            clients: self.clients as usize,
            window_per_client: self.window as usize,
            payload_bytes: self.payload,
            stop,
            warmup: if counted { Duration::ZERO } else { self.warmup },
            verify: self.verify,
            server_pid: self.server_pid,
            ca_pem: self.ca_pem.clone(),
            connect_timeout: self.connect_timeout,
            drain_timeout: self.drain_timeout,
            udp_timeout: self.udp_timeout,
            max_loss: self.max_loss / 100.0,
            announce: self.announce,
        }
    }
}

/// Runs the plan and tells the result: whether it was valid.
fn measure(plan: &Plan, output: Output, out: &mut dyn Write) -> Result<bool, Refusal> {
    let report = load::run(plan).map_err(|error| {
        Refusal::new(
            FAILED,
            "LOAD",
            &format!("the load could not run: {error}."),
            "this is the machine's or this tool's fault, not the server's.",
        )
    })?;
    // A reader that is gone gets no result; the exit code still tells it.
    let told = output.tell(&report, out);
    Ok(report.ok && told.is_ok())
}

/// Where the result goes.
enum Output {
    Summary,
    Json,
    File(File),
}

impl Output {
    /// Opens it before anything runs.
    fn open(json: Option<&Path>) -> Result<Self, Refusal> {
        match json {
            None => Ok(Self::Summary),
            Some(path) if path == "-" => Ok(Self::Json),
            Some(path) => File::create(path).map(Self::File).map_err(|error| {
                Refusal::new(
                    REFUSED,
                    "OUTPUT",
                    &format!("{} cannot be written: {error}.", path.display()),
                    "give --json another file, or - for standard output.",
                )
            }),
        }
    }

    fn tell(self, report: &LoadReport, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Summary => report::write_line(out, &report::summary(report)),
            Self::Json => report::write_line(out, &serde_json::to_string(report)?),
            Self::File(mut file) => {
                writeln!(file, "{}", serde_json::to_string(report)?)?;
                report::write_line(out, &report::summary(report))
            }
        }
    }
}

/// Why nothing ran.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Refusal {
    exit_code: u8,
    words: String,
}

impl Refusal {
    fn new(exit_code: u8, id: &str, happened: &str, what_to_do: &str) -> Self {
        Self {
            exit_code,
            words: format!("error[E-{id}]: {happened}\n  {what_to_do}"),
        }
    }
}

/// Whom to trust: a file, unless it was given as text.
fn read_ca(args: &LoadArgs, plan: &mut Plan) -> Result<(), Refusal> {
    let wanted = plan.protocol.is_encrypted();
    match &args.ca {
        Some(path) if wanted => {
            let pem = std::fs::read_to_string(path).map_err(|error| {
                let happened = format!("{} cannot be read: {error}", path.display());
                Refusal::new(REFUSED, "E-CA", &happened, "name a file in PEM.")
            })?;
            plan.ca_pem = Some(pem);
        }
        None if wanted && plan.ca_pem.is_none() => {
            let happened = format!(
                "{} needs somebody to trust, or the server could be anybody.",
                plan.protocol.name()
            );
            let what = "give --ca FILE, which `bench serve --write-ca FILE` writes.";
            return Err(Refusal::new(USAGE, "E-CA", &happened, what));
        }
        Some(_) => {
            let happened = format!("{} has no certificate to check.", plan.protocol.name());
            return Err(Refusal::new(USAGE, "E-CA", &happened, "leave out --ca."));
        }
        None => {}
    }
    Ok(())
}

fn check_payload(plan: &Plan) -> Result<(), Refusal> {
    let family = Family::of(plan.connect);
    match plan.protocol.payload_fault(family, plan.payload_bytes) {
        None => Ok(()),
        Some(fault) => Err(Refusal::new(
            USAGE,
            "PAYLOAD",
            &fault,
            "a message is one datagram. lower --payload, or use another protocol.",
        )),
    }
}

fn check_cap(plan: &Plan) -> Result<(), Refusal> {
    let Plan {
        clients,
        window_per_client,
        payload_bytes,
        ..
    } = *plan;
    let bytes = clients as u64 * window_per_client as u64 * payload_bytes as u64;
    if bytes <= IN_FLIGHT_LIMIT_BYTES {
        return Ok(());
    }
    let happened = format!(
        "{clients} clients x {window_per_client} window x {payload_bytes} B = {} MiB in flight, limit {} MiB.",
        bytes.div_ceil(1024 * 1024),
        IN_FLIGHT_LIMIT_BYTES / (1024 * 1024),
    );
    Err(Refusal::new(
        USAGE,
        "CAP",
        &happened,
        "beyond it the memory of the machine is measured, not the server. lower --clients, --window or --payload.",
    ))
}

/// Raises the soft limit to the hard one and sees whether that is enough. A limit that is not known is not checked.
fn check_descriptors(plan: &Plan) -> Result<(), Refusal> {
    let needed = load::descriptors_needed(plan.clients);
    match socket::raise_descriptor_limit() {
        Ok(limit) if limit < needed => Err(Refusal::new(
            REFUSED,
            "FILES",
            &format!(
                "{} clients need {needed} file descriptors, this process may have {limit}.",
                plan.clients
            ),
            "connections beyond it would fail. raise the hard limit (ulimit -Hn) or lower --clients.",
        )),
        _ => Ok(()),
    }
}

/// `500ms`, `2s`, `1.5m`, `250us`; a plain number is seconds.
/// A window in which something can happen.
fn parse_window(text: &str) -> Result<Duration, String> {
    const SHORTEST: Duration = Duration::from_millis(1);
    match parse_duration(text)? {
        window if window < SHORTEST => Err("a rate needs a window of at least 1ms".to_owned()),
        window => Ok(window),
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let seconds_per_unit = match &text[digits.len()..] {
        "us" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        unit => {
            return Err(format!(
                "unknown unit {unit:?}; us, ms, s, m and h are known"
            ));
        }
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| "expected a number and a unit, like 500ms or 2s".to_owned())?;
    let seconds = number * seconds_per_unit;
    if !(0.0..=3600.0).contains(&seconds) {
        return Err("expected 0 to 3600 s".to_owned());
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn parse_udp_timeout(text: &str) -> Result<Duration, String> {
    factor::udp_timeout(text)
}

fn parse_drain(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text)?;
    if duration > DRAIN_LIMIT {
        return Err(format!("expected at most {DRAIN_LIMIT:?}"));
    }
    Ok(duration)
}

/// `16` to `1M`; K, KiB, M and MiB are multiples of 1,024.
fn parse_payload(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: usize = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1024,
        "m" | "mib" => 1024 * 1024,
        unit => return Err(format!("unknown unit {unit:?}; K and M are known")),
    };
    digits
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .filter(|bytes| (16..=1024 * 1024).contains(bytes))
        .ok_or_else(|| "expected 16 to 1048576 bytes, like 1024 or 64K".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: LoadArgs,
    }

    fn parse(flags: &str) -> Result<Plan, clap::Error> {
        let nobody = if flags.contains("--connect ") {
            ""
        } else {
            "--connect 127.0.0.1:9"
        };
        let words = ["load --protocol tcp", nobody, flags];
        let words = words.iter().flat_map(|words| words.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args.plan())
    }

    #[test]
    fn the_defaults_are_the_documented_ones() {
        let plan = parse("").unwrap();
        assert_eq!(plan.stop, Stop::After(Duration::from_secs(1)));
        assert_eq!(plan.warmup, Duration::from_millis(250));
        assert_eq!(plan.verify, Verify::Full);
        assert_eq!(
            (plan.clients, plan.window_per_client, plan.payload_bytes),
            (1, 1, 1_024)
        );
    }

    #[test]
    fn counting_messages_replaces_the_warm_up() {
        let plan = parse("--messages 7").unwrap();
        assert_eq!(plan.warmup, Duration::ZERO);
        let longest = MESSAGES_LIMIT;
        assert_eq!(
            plan.stop,
            Stop::Messages {
                per_client: 7,
                longest
            }
        );
    }

    #[test]
    fn what_is_out_of_bounds_is_a_usage_error() {
        for flags in [
            "--clients 0",
            "--clients 60001",
            "--window 0",
            "--window 1025",
            "--payload 15",
            "--payload 1025K",
            "--payload 1G",
            "--duration -1s",
            "--duration 0",
            "--duration 250us",
            "--duration 2h",
            "--duration x",
            "--drain-timeout 6s",
            "--messages 0",
            "--udp-timeout 0",
            "--udp-timeout 6s",
            "--max-loss 101",
            "--verify none",
            "--connect nowhere",
        ] {
            let error = parse(flags).expect_err(flags);
            assert_eq!(error.exit_code(), i32::from(USAGE), "{flags}");
        }
    }

    #[test]
    fn units_are_understood() {
        assert_eq!(parse_duration("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse_duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_payload("64K"), Ok(65_536));
        assert_eq!(parse_payload("1MiB"), Ok(1_048_576));
    }

    #[test]
    fn too_much_in_flight_is_refused_before_anything_runs() {
        let plan = parse("--clients 1024 --window 1024 --payload 65507").unwrap();
        let refusal = check_cap(&plan).unwrap_err();
        assert_eq!(refusal.exit_code, USAGE);
        assert!(refusal.words.starts_with("error[E-CAP]: 1024 clients"));
        assert_eq!(
            check_cap(&parse("--clients 256 --window 1 --payload 1M").unwrap()),
            Ok(())
        );
    }

    #[test]
    fn a_datagram_has_its_bounds() {
        let fault = |to: &str, payload: usize| {
            let mut plan = parse(&format!("--connect {to}")).unwrap();
            (plan.protocol, plan.payload_bytes) = (Protocol::Udp, payload);
            check_payload(&plan).err().map(|refusal| refusal.words)
        };
        assert_eq!(fault("127.0.0.1:9", 65_507), None);
        assert_eq!(fault("[::1]:9", 65_527), None);
        let words = fault("127.0.0.1:9", 65_508).unwrap();
        assert!(
            words.starts_with(
                "error[E-PAYLOAD]: udp/ipv4 payload 65508 exceeds 65507 (65535 - 20 IP - 8 UDP).\n"
            ),
            "{words}"
        );
        assert!(fault("[::1]:9", 65_528).unwrap().contains("exceeds 65527"));
    }

    #[test]
    fn an_output_that_cannot_be_written_is_refused() {
        let refusal = Output::open(Some(Path::new("/nowhere/at/all.json")));
        assert_eq!(
            refusal.err().map(|refusal| refusal.exit_code),
            Some(REFUSED)
        );
    }

    #[test]
    fn a_failed_run_still_writes_one_object_and_is_not_a_success() {
        let name = format!("bench-load-{}.json", std::process::id());
        let path = std::env::temp_dir().join(name);
        let plan = parse("--messages 1 --connect-timeout 1s");
        let output = Output::open(Some(&path));
        let mut out = Vec::new();
        let told = output.and_then(|output| measure(&plan.expect("right flags"), output, &mut out));
        let text = std::fs::read_to_string(&path).expect("the report");
        std::fs::remove_file(&path).expect("it was there");
        assert_eq!(told, Ok(false));
        let shown = String::from_utf8(out).expect("text");
        assert!(shown.contains("FAILED: client 0"), "{shown}");
        let report: LoadReport = serde_json::from_str(text.trim_end()).expect("one object");
        assert!(!report.ok && report.counters.connect_errors == 1);
    }
}
