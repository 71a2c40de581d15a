//! `run.json`: the whole run in one file. Every table can be made from it without measuring again.
//!
//! Integers for nanoseconds and bytes, `null` for what is not known, never NaN. A field may be added; a change of meaning raises
//! [`SCHEMA_VERSION`].

use crate::analysis::{Analysis, CellResult, ProtocolFloor};
use crate::campaign::Record;
use crate::contract::{
    Counters, DatagramReport, LoadReport, Percentiles, ProcessUse, Protocol, ShardCount, UdpBuffers,
};
use crate::floor::GeneratorFloor;
use crate::host::{HostDescription, Surroundings};
use crate::loss::Loss;
use crate::matrix::{Order, Plan};
use crate::measure::verdict::Floor;
use crate::measure::warning::Check;
use crate::provenance::{Source, Tool};
use crate::repetition::{Failure, LossRule, Pass, Repetition, Verify, whole_ns};
use serde::{Deserialize, Serialize};

/// Version of the file's shape.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// The file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunFile {
    /// [`SCHEMA_VERSION`].
    pub(crate) schema_version: u32,
    /// The program that measured.
    pub(crate) tool: Tool,
    /// Its sources.
    pub(crate) source: Source,
    /// When it began, RFC 3339.
    pub(crate) started_utc: String,
    /// When it ended; `null` while it runs.
    pub(crate) finished_utc: Option<String>,
    /// Every planned round was run.
    pub(crate) complete: bool,
    /// A signal ended it.
    pub(crate) interrupted: bool,
    /// Cells that are out of every comparison.
    pub(crate) failed_cells: usize,
    /// The command line.
    pub(crate) command: Vec<String>,
    /// How it was measured.
    pub(crate) design: RunDesign,
    /// Where.
    pub(crate) host: HostDescription,
    /// What the reader must know.
    pub(crate) checks: Vec<Check>,
    /// What the generator reaches against a server that does nothing; `null` if it was not measured.
    #[serde(default)]
    pub(crate) floor: Option<GeneratorFloor>,
    /// The same for streams and for datagrams, as far as they are in the plan; `floor` is the first of them.
    #[serde(default)]
    pub(crate) floors: Vec<GeneratorFloor>,
    /// Rounds as the machine saw them.
    pub(crate) rounds: Vec<Surroundings>,
    /// What was compared.
    pub(crate) comparisons: Comparisons,
    /// Cell by cell.
    pub(crate) cells: Vec<CellFile>,
}

/// How it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunDesign {
    /// `quick` or `run`.
    pub(crate) name: String,
    /// Rounds planned.
    pub(crate) rounds: u32,
    /// Rounds that count.
    pub(crate) rounds_ran: u32,
    /// Rule for the order within a round.
    pub(crate) order: Order,
    /// Its seed.
    pub(crate) seed: u64,
    /// Warm-up.
    pub(crate) warmup_ns: u64,
    /// Measured window.
    pub(crate) window_ns: u64,
    /// Window of the pass that counts system calls.
    pub(crate) counted_window_ns: u64,
    /// How replies are checked.
    pub(crate) verify: Verify,
    /// When datagrams are lost, and how many may be.
    #[serde(default)]
    pub(crate) losses: LossRule,
    /// Always `order-statistics`.
    pub(crate) interval_rule: String,
    /// Coverage of the intervals.
    pub(crate) interval_coverage: Option<f64>,
    /// Smallest relative difference that may be called one.
    pub(crate) noise_threshold: f64,
}

/// What was compared, and how far it can be trusted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Comparisons {
    /// Comparisons with a verdict, the control's not among them.
    pub(crate) count: usize,
    /// Verdicts to expect by chance if nothing differed.
    pub(crate) chance_verdicts: f64,
    /// Differences in round trips per second below this would usually be missed.
    pub(crate) usually_missed_below: Option<f64>,
    /// Noise floor of round trips per second, of the first protocol.
    pub(crate) rate_floor: Floor,
    /// Noise floor of server CPU per round trip, of the first protocol.
    pub(crate) cpu_floor: Floor,
    /// Both, protocol by protocol: of its own control, or of another's over the same transport.
    #[serde(default)]
    pub(crate) by_protocol: Vec<ProtocolFloor>,
}

impl Comparisons {
    /// What the control of this protocol allows to say.
    pub(crate) fn floor(&self, protocol: Protocol) -> ProtocolFloor {
        let known = self
            .by_protocol
            .iter()
            .find(|floor| floor.protocol == protocol);
        known.copied().unwrap_or(ProtocolFloor {
            protocol,
            borrowed_from: None,
            rate_floor: self.rate_floor,
            cpu_floor: self.cpu_floor,
        })
    }
}

/// A cell with all its repetitions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CellFile {
    /// What is said about it.
    #[serde(flatten)]
    pub(crate) result: CellResult,
    /// Where its server's threads ran and how they shared the work, in its last repetition.
    pub(crate) placement: Placement,
    /// Every timed repetition, good or bad.
    pub(crate) repetitions: Vec<RepetitionFile>,
}

/// Where a server's threads ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Placement {
    /// CPU of each thread; `null` where it is not pinned.
    pub(crate) server_cpus: Vec<Option<usize>>,
    /// Connections and messages of each thread.
    pub(crate) per_shard: Vec<ShardCount>,
    /// Buffers of its UDP sockets.
    #[serde(default)]
    pub(crate) udp_buffers: Option<UdpBuffers>,
}

/// A repetition; its histogram is in the journal.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RepetitionFile {
    /// Round, from 1.
    pub(crate) round: u32,
    /// Position within it.
    pub(crate) position: u32,
    /// Start, counted from the start of the run.
    pub(crate) started_ns: u64,
    /// Good.
    pub(crate) ok: bool,
    /// In a complete round, so that it counts if it is good.
    pub(crate) in_complete_round: bool,
    /// Why not.
    pub(crate) failure: Option<Failure>,
    /// Window measured.
    pub(crate) window_ns: Option<u64>,
    /// What the load counted.
    pub(crate) counters: Option<Counters>,
    /// Its rate.
    pub(crate) round_trips_per_s: Option<f64>,
    /// Payload of both directions.
    pub(crate) payload_mib_per_s: Option<f64>,
    /// Time of a round trip.
    pub(crate) rtt_service_ns: Option<Percentiles>,
    /// Little's law.
    pub(crate) little_ratio: Option<f64>,
    /// The server process.
    pub(crate) server: Option<ProcessUse>,
    /// The load process.
    pub(crate) client: Option<ProcessUse>,
    /// What became of the datagrams, as the load tells it.
    #[serde(default)]
    pub(crate) udp: Option<DatagramReport>,
    /// What was lost of them, and where.
    #[serde(default)]
    pub(crate) loss: Option<Loss>,
}

/// What is known before the first repetition.
#[derive(Clone, Debug)]
pub(crate) struct Circumstances {
    /// The program.
    pub(crate) tool: Tool,
    /// Its sources.
    pub(crate) source: Source,
    /// The machine.
    pub(crate) host: HostDescription,
    /// When it began, RFC 3339.
    pub(crate) started_utc: String,
    /// The command line.
    pub(crate) command: Vec<String>,
}

impl RunFile {
    /// Puts it together; `finished_utc` is `None` while the run goes on.
    pub(crate) fn new(
        about: &Circumstances,
        plan: &Plan,
        record: &Record,
        analysis: Analysis,
        checks: Vec<Check>,
        finished_utc: Option<String>,
    ) -> Self {
        let failed_cells = analysis
            .cells
            .iter()
            .filter(|cell| cell.status == crate::analysis::Status::Failed)
            .count();
        RunFile {
            schema_version: SCHEMA_VERSION,
            tool: about.tool.clone(),
            source: about.source.clone(),
            started_utc: about.started_utc.clone(),
            complete: finished_utc.is_some()
                && record.interrupted.is_none()
                && record.rounds_ran == plan.rounds,
            finished_utc,
            interrupted: record.interrupted.is_some(),
            failed_cells,
            command: about.command.clone(),
            design: RunDesign::new(plan, record, &analysis),
            host: about.host.clone(),
            checks,
            floor: analysis.generator_floors.first().cloned(),
            floors: analysis.generator_floors.clone(),
            rounds: record.surroundings.clone(),
            comparisons: Comparisons {
                count: analysis.comparisons,
                chance_verdicts: analysis.chance_verdicts,
                usually_missed_below: analysis.usually_missed_below,
                rate_floor: analysis.floors[0].rate_floor,
                cpu_floor: analysis.floors[0].cpu_floor,
                by_protocol: analysis.floors.clone(),
            },
            cells: analysis
                .cells
                .into_iter()
                .map(|result| CellFile::new(result, record))
                .collect(),
        }
    }
}

impl RunDesign {
    fn new(plan: &Plan, record: &Record, analysis: &Analysis) -> Self {
        let coverage = analysis
            .cells
            .iter()
            .find_map(|cell| cell.summary.round_trips_per_s)
            .map(|summary| summary.coverage);
        RunDesign {
            name: plan.name.clone(),
            rounds: plan.rounds,
            rounds_ran: record.rounds_ran,
            order: plan.order,
            seed: plan.seed,
            warmup_ns: whole_ns(plan.timing.warmup),
            window_ns: whole_ns(plan.timing.window),
            counted_window_ns: whole_ns(plan.counted.window),
            verify: plan.verify,
            losses: plan.losses,
            interval_rule: "order-statistics".to_owned(),
            interval_coverage: coverage,
            noise_threshold: plan.noise_threshold,
        }
    }
}

impl CellFile {
    fn new(result: CellResult, record: &Record) -> Self {
        let mine = || {
            record
                .repetitions
                .iter()
                .filter(|r| r.cell == result.cell.id && r.pass == Pass::Timed)
        };
        let last = mine().rev().find(|r| r.ok());
        let placement = Placement {
            server_cpus: last
                .and_then(|r| r.outcome.ready.as_ref())
                .map(|ready| ready.placement.clone())
                .unwrap_or_default(),
            per_shard: last
                .and_then(|r| r.outcome.done.as_ref())
                .map(|done| done.per_shard.clone())
                .unwrap_or_default(),
            udp_buffers: last
                .and_then(|r| r.outcome.ready.as_ref())
                .and_then(|ready| ready.udp_buffers),
        };
        let repetitions = mine()
            .map(|r| RepetitionFile::new(r, record.rounds_ran))
            .collect();
        CellFile {
            placement,
            repetitions,
            result,
        }
    }
}

impl RepetitionFile {
    fn new(repetition: &Repetition, rounds_ran: u32) -> Self {
        let load = repetition.outcome.load.as_ref();
        let of = |pick: fn(&LoadReport) -> f64| load.map(pick);
        RepetitionFile {
            round: repetition.round,
            position: repetition.position,
            started_ns: repetition.started_ns,
            ok: repetition.ok(),
            in_complete_round: repetition.round <= rounds_ran,
            failure: repetition.outcome.failure.clone(),
            window_ns: load.map(|load| load.window_ns),
            counters: load.map(|load| load.counters),
            round_trips_per_s: of(|load| load.round_trips_per_s),
            payload_mib_per_s: of(|load| load.payload_mib_per_s),
            rtt_service_ns: load.map(|load| load.rtt_service_ns.clone()),
            little_ratio: load.and_then(|load| load.little_ratio),
            server: load.and_then(|load| load.server.clone()),
            client: load.map(|load| load.client.clone()),
            udp: load.and_then(|load| load.udp.clone()),
            loss: repetition.outcome.loss,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::analysis::analyse;
    use crate::analysis::tests::believable;
    use crate::campaign::tests::conduct_cells;
    use crate::host::Interrupt;
    use crate::matrix::tests::{design, small};
    use crate::matrix::{Design, Matrix, Order};
    use crate::repetition::{Job, Outcome};

    /// A file of invented results.
    pub(crate) fn invented(rounds: u32, script: impl FnMut(&Job<'_>, u32) -> Outcome) -> RunFile {
        invented_of(&small(), rounds, script)
    }

    /// The same of another matrix.
    pub(crate) fn invented_of(
        matrix: &Matrix,
        rounds: u32,
        script: impl FnMut(&Job<'_>, u32) -> Outcome,
    ) -> RunFile {
        let design = Design {
            floor: true,
            ..design(rounds, Order::Random, 42)
        };
        let cells = matrix.cells().unwrap();
        let (plan, record) = conduct_cells(cells, design, &Interrupt::pretend(None), script);
        let analysis = analyse(&plan, &record);
        let host = HostDescription {
            os: "linux".to_owned(),
            arch: "x86_64".to_owned(),
            kernel: Some("6.18.0".to_owned()),
            cpus: 2,
            ..HostDescription::default()
        };
        let checks = crate::checks::warnings(&plan, &record, &analysis, &host, false);
        let about = Circumstances {
            tool: Tool {
                rustc: Some("1.95.0 (abc 2026-01-01)".to_owned()),
                profile: "release".to_owned(),
                ..Tool::default()
            },
            source: Source {
                git_commit: Some("1a2b3c4d5e6f".to_owned()),
                git_dirty: Some(false),
                lockfile_sha256: None,
            },
            host,
            started_utc: "2026-01-14T10:15:30Z".to_owned(),
            command: vec!["bench".to_owned()],
        };
        RunFile::new(
            &about,
            &plan,
            &record,
            analysis,
            checks,
            Some("2026-01-14T10:16:00Z".to_owned()),
        )
    }

    /// The same with results as a machine might show them.
    pub(crate) fn believed(rounds: u32) -> RunFile {
        let mut random = fastrand::Rng::with_seed(1);
        invented(rounds, |job, _| believable(&mut random, job))
    }

    #[test]
    fn the_file_has_the_agreed_shape() {
        let json = serde_json::to_value(believed(6)).unwrap();
        assert_eq!(json["schema_version"], 1);
        assert_eq!(
            (json["complete"].as_bool(), json["failed_cells"].as_u64()),
            (Some(true), Some(0))
        );
        assert!(json["floor"]["null_rt_per_s"].as_f64() > Some(3e5));
        assert_eq!(json["floor"]["null_rtt_p50_ns"], 900_000);
        assert_eq!(json["floor"]["load"]["window"], 8);
        let cell = &json["cells"][3];
        assert_eq!(cell["id"], "tcp.shards2.auto.1024.c16.w8.work0.closed");
        assert_eq!(cell["factors"]["model"], "shards");
        assert_eq!(cell["repetitions"].as_array().unwrap().len(), 6);
        assert_eq!(cell["repetitions"][0]["counters"]["received"], 1000);
        assert_eq!(cell["versus"][0]["verdict"], "faster");
        assert_eq!(cell["versus"][0]["metric"], "round_trips_per_s");
        assert!(cell["summary"]["round_trips_per_s"]["median"].is_f64());
    }

    #[test]
    fn the_file_is_read_back() {
        let text = serde_json::to_string(&believed(6)).unwrap();
        let again: RunFile = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&again).unwrap(), text);
    }
}
