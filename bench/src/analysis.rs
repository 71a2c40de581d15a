//! From the record of a run to what may be said about it: summaries per cell, comparisons, the noise floor.
//!
//! Only complete rounds count. A cell with a failed repetition is out of every comparison; its data stay.

use crate::campaign::Record;
use crate::case::{Cell, Factors};
use crate::contract::{LoadReport, Model, Protocol};
use crate::floor::{GeneratorFloor, is_near};
use crate::matrix::Plan;
use crate::measure::merged::RoundTripTimes;
use crate::measure::stats::{self, Summary};
use crate::measure::verdict::{self, Floor, Judged, Metric, Verdict};
use crate::repetition::{CallCount, Pass, Repetition};
use serde::{Deserialize, Serialize};

/// Everything that is said about a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Analysis {
    /// Cell by cell, in the order of the plan.
    pub(crate) cells: Vec<CellResult>,
    /// Noise floors, protocol by protocol.
    pub(crate) floors: Vec<ProtocolFloor>,
    /// Comparisons with a verdict, the control's not among them.
    pub(crate) comparisons: usize,
    /// Verdicts to expect by chance if nothing differed.
    pub(crate) chance_verdicts: f64,
    /// Differences in round trips per second below this would usually be missed.
    pub(crate) usually_missed_below: Option<f64>,
    /// What the generator reaches against servers that do nothing.
    pub(crate) generator_floors: Vec<GeneratorFloor>,
}

/// What the control of a protocol allows to say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProtocolFloor {
    /// The protocol.
    pub(crate) protocol: Protocol,
    /// Whose control it is, if it is another protocol's.
    #[serde(default)]
    pub(crate) borrowed_from: Option<Protocol>,
    /// Noise floor of round trips per second.
    pub(crate) rate_floor: Floor,
    /// Noise floor of server CPU per round trip.
    pub(crate) cpu_floor: Floor,
}

impl ProtocolFloor {
    /// The floor of one metric.
    pub(crate) fn of(&self, metric: Metric) -> &Floor {
        match metric {
            Metric::RoundTripsPerS => &self.rate_floor,
            Metric::ServerCpuNsPerRt => &self.cpu_floor,
        }
    }
}

/// What is said about a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CellResult {
    /// The cell.
    #[serde(flatten)]
    pub(crate) cell: Cell,
    /// Whether it counts.
    pub(crate) status: Status,
    /// Why not.
    pub(crate) reason: Option<String>,
    /// Its timed repetitions that failed.
    pub(crate) failed_repetitions: usize,
    /// What to know before believing its figures.
    #[serde(default)]
    pub(crate) flags: Vec<Flag>,
    /// Its median rate as a share of the generator's floor, where both had the same load.
    #[serde(default)]
    pub(crate) floor_share: Option<f64>,
    /// Its figures over the complete rounds.
    pub(crate) summary: CellSummary,
    /// Its comparisons.
    pub(crate) versus: Vec<Versus>,
}

/// Whether a cell counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// Every repetition was good.
    Ok,
    /// At least one was not.
    Failed,
    /// None was run to its end.
    Skipped,
}

/// What to know about a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Flag {
    /// Near the generator's floor: differences are compressed by the generator.
    NearFloor,
}

/// Figures of a cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct CellSummary {
    /// Round trips per second.
    pub(crate) round_trips_per_s: Option<Summary>,
    /// Payload of both directions.
    pub(crate) payload_mib_per_s: Option<Summary>,
    /// CPU time of the server per round trip.
    pub(crate) server_cpu_ns_per_rt: Option<Summary>,
    /// CPU time of the load per round trip.
    pub(crate) client_cpu_ns_per_rt: Option<Summary>,
    /// CPU share of the load, median.
    pub(crate) client_cpu_share: Option<f64>,
    /// Context switches of the server per round trip, median.
    pub(crate) server_switches_per_rt: Option<f64>,
    /// Peak resident set of the server, the largest seen.
    pub(crate) server_rss_peak_bytes: Option<u64>,
    /// Little's law, median.
    pub(crate) little_ratio: Option<f64>,
    /// Time of a round trip.
    pub(crate) rtt_service_ns: RoundTripTimes,
    /// System calls, from their own pass.
    pub(crate) system_calls: Option<CallCount>,
    /// Engine that really served.
    pub(crate) driver: Option<String>,
}

/// A comparison: this cell over its baseline, paired by round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Versus {
    /// Id of the baseline cell.
    pub(crate) baseline: String,
    /// Short name of the baseline cell.
    pub(crate) baseline_label: String,
    /// Why these two.
    pub(crate) relation: Relation,
    /// What is compared.
    pub(crate) metric: Metric,
    /// Rounds in which both were measured.
    pub(crate) pairs: usize,
    /// Median ratio.
    pub(crate) median: Option<f64>,
    /// Lower end of its interval.
    pub(crate) lo: Option<f64>,
    /// Upper end of its interval.
    pub(crate) hi: Option<f64>,
    /// Coverage of the interval.
    pub(crate) coverage: Option<f64>,
    /// What may be said.
    pub(crate) verdict: Verdict,
    /// Smallest relative difference that these rounds could have shown.
    pub(crate) could_have_seen: Option<f64>,
}

/// Why two cells are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Relation {
    /// With the shared pool: of equal threads if there is one, else the largest.
    Pool,
    /// With one shard of the same driver: how it scales.
    OneShard,
    /// With the first driver at equal shards.
    Driver,
    /// With the first accept strategy and spinning at equal shards and driver.
    Setting,
    /// A/A: with itself.
    Control,
}

const METRICS: [Metric; 2] = [Metric::RoundTripsPerS, Metric::ServerCpuNsPerRt];

/// Analyses a record.
pub(crate) fn analyse(plan: &Plan, record: &Record) -> Analysis {
    let observed: Vec<Observed<'_>> = plan
        .cells
        .iter()
        .map(|cell| Observed::of(cell, record))
        .collect();
    let floors = floors(plan, &observed);
    let floor_of = |protocol: Protocol| {
        floors
            .iter()
            .find(|floor| floor.protocol == protocol)
            .unwrap_or_else(|| unreachable!("each protocol of the plan has one"))
    };
    let judge = |protocol, metric: Metric, ratios: &[f64]| {
        floor_of(protocol).of(metric).judge(metric, ratios)
    };
    let mut cells: Vec<CellResult> = observed
        .iter()
        .map(|cell| cell.result(record, compare(cell, &observed, &judge)))
        .collect();
    let generator_floors = GeneratorFloor::all(plan, record);
    for floor in &generator_floors {
        cells.iter_mut().for_each(|cell| cell.hold_against(floor));
    }
    let judged = cells.iter().flat_map(|cell| {
        let floor = floor_of(cell.cell.factors.protocol);
        let versus = cell.versus.iter();
        versus
            .filter(|versus| versus.relation != Relation::Control)
            .filter(|versus| !floor.of(versus.metric).control_failed)
    });
    let chances: Vec<f64> = judged
        .filter_map(|versus| versus.coverage)
        .map(|coverage| 1.0 - coverage)
        .collect();
    let groups = rate_ratios(&observed);
    Analysis {
        comparisons: chances.len(),
        chance_verdicts: chances.iter().fold(0.0, |sum, chance| sum + chance),
        usually_missed_below: verdict::usually_missed_below(&groups),
        generator_floors,
        floors,
        cells,
    }
}

/// What each protocol's control allows to say.
fn floors(plan: &Plan, observed: &[Observed<'_>]) -> Vec<ProtocolFloor> {
    let mut protocols: Vec<Protocol> = Vec::new();
    for cell in &plan.cells {
        if !protocols.contains(&cell.factors.protocol) {
            protocols.push(cell.factors.protocol);
        }
    }
    let of = |protocol| {
        let lender = controlled(plan, protocol);
        let [rate_floor, cpu_floor] = METRICS.map(|metric| floor(plan, observed, lender, metric));
        ProtocolFloor {
            protocol,
            borrowed_from: (lender != protocol).then_some(lender),
            rate_floor,
            cpu_floor,
        }
    };
    protocols.into_iter().map(of).collect()
}

/// Whose control shows the noise of this protocol: its own, else that of the first over the same transport that has one.
fn controlled(plan: &Plan, protocol: Protocol) -> Protocol {
    let controls = || plan.cells.iter().filter(|cell| cell.control);
    let of = |cell: &Cell| cell.factors.protocol;
    let own = controls().map(of).find(|other| *other == protocol);
    own.or_else(|| {
        let like = |other: &Protocol| other.is_datagram() == protocol.is_datagram();
        controls().map(of).find(like)
    })
    .unwrap_or(protocol)
}

/// The cells a cell is compared with, and why.
pub(crate) fn baselines(cell: &Cell, cells: &[Cell]) -> Vec<(usize, Relation)> {
    let group = || {
        cells
            .iter()
            .enumerate()
            .filter(|(_, other)| !other.control && other.factors.same_load(&cell.factors))
    };
    let find =
        |wanted: &dyn Fn(&Cell) -> bool| group().find(|(_, other)| wanted(other)).map(|(at, _)| at);
    let me = &cell.factors;
    if cell.control {
        return find(&|other| other.factors == *me)
            .map(|twin| (twin, Relation::Control))
            .into_iter()
            .collect();
    }
    let pools = || group().filter(|(_, other)| other.factors.model == Model::Pool);
    let largest = pools()
        .max_by_key(|(_, other)| other.factors.threads)
        .map(|(at, _)| at);
    if me.model == Model::Pool {
        let larger = largest.filter(|at| cells[*at].id != cell.id);
        return larger.map(|at| (at, Relation::Pool)).into_iter().collect();
    }
    let equal = pools()
        .find(|(_, other)| other.factors.threads == me.threads)
        .map(|(at, _)| at);
    let sibling = |wanted: &dyn Fn(&Cell) -> bool| {
        find(&|other| other.factors.model == Model::Shards && other.id != cell.id && wanted(other))
    };
    let one_shard = sibling(&|other| {
        let its = &other.factors;
        me.threads > 1 && its.threads == 1 && its.driver == me.driver && its.same_settings(me)
    });
    let first = |wanted: &dyn Fn(&Factors) -> bool| {
        find(&|other| {
            let its = &other.factors;
            its.model == Model::Shards && its.threads == me.threads && wanted(its)
        })
    };
    let other_driver =
        first(&|its| its.same_settings(me)).filter(|at| cells[*at].factors.driver != me.driver);
    let other_setting =
        first(&|its| its.driver == me.driver).filter(|at| !cells[*at].factors.same_settings(me));
    let pairs = [
        (equal.or(largest), Relation::Pool),
        (one_shard, Relation::OneShard),
        (other_driver, Relation::Driver),
        (other_setting, Relation::Setting),
    ];
    pairs
        .into_iter()
        .filter_map(|(at, relation)| at.map(|at| (at, relation)))
        .collect()
}

/// A cell and those of its repetitions that count.
struct Observed<'a> {
    cell: &'a Cell,
    failed: bool,
    counted: Vec<&'a Repetition>,
}

impl<'a> Observed<'a> {
    fn of(cell: &'a Cell, record: &'a Record) -> Self {
        let mine = || {
            record
                .repetitions
                .iter()
                .filter(|repetition| repetition.cell == cell.id)
        };
        let counted =
            mine().filter(|r| r.pass == Pass::Timed && r.round <= record.rounds_ran && r.ok());
        Observed {
            cell,
            failed: mine().any(|r| r.outcome.failure.is_some()),
            counted: counted.collect(),
        }
    }

    fn value(&self, round: u32, metric: Metric) -> Option<f64> {
        let report = self
            .counted
            .iter()
            .find(|r| r.round == round)?
            .outcome
            .load
            .as_ref()?;
        match metric {
            Metric::RoundTripsPerS => Some(report.round_trips_per_s),
            Metric::ServerCpuNsPerRt => report.server.as_ref()?.cpu_ns_per_rt,
        }
    }

    /// Per-round ratios of this cell to a baseline; rounds in which one is missing are left out.
    fn ratios(&self, baseline: &Observed<'_>, metric: Metric) -> Vec<f64> {
        let rounds = self.counted.iter().map(|r| r.round);
        let ratio = |round| Some(self.value(round, metric)? / baseline.value(round, metric)?);
        rounds
            .filter_map(ratio)
            .filter(|ratio: &f64| ratio.is_finite() && *ratio > 0.0)
            .collect()
    }

    fn result(&self, record: &Record, versus: Vec<Versus>) -> CellResult {
        let mine = || record.repetitions.iter().filter(|r| r.cell == self.cell.id);
        let failure = mine().find_map(|r| r.outcome.failure.as_ref());
        let status = match (self.failed, self.counted.is_empty()) {
            (true, _) => Status::Failed,
            (false, true) => Status::Skipped,
            (false, false) => Status::Ok,
        };
        CellResult {
            cell: self.cell.clone(),
            status,
            reason: failure.map(|failure| format!("{}: {}", failure.id, failure.text)),
            failed_repetitions: mine().filter(|r| r.outcome.failure.is_some()).count(),
            flags: Vec::new(),
            floor_share: None,
            summary: self.summary(mine().find_map(|r| r.outcome.calls.clone())),
            versus,
        }
    }

    fn summary(&self, system_calls: Option<CallCount>) -> CellSummary {
        let reports: Vec<&LoadReport> = self
            .counted
            .iter()
            .filter_map(|r| r.outcome.load.as_ref())
            .collect();
        let values = |pick: &dyn Fn(&LoadReport) -> Option<f64>| -> Vec<f64> {
            reports.iter().filter_map(|report| pick(report)).collect()
        };
        let server = |report: &LoadReport| report.server.clone();
        let switches = |report: &LoadReport| {
            let server = server(report)?;
            let both = server.switches_voluntary? + server.switches_involuntary?;
            (report.counters.received > 0).then(|| both as f64 / report.counters.received as f64)
        };
        CellSummary {
            round_trips_per_s: Summary::of(&values(&|report| Some(report.round_trips_per_s))),
            payload_mib_per_s: Summary::of(&values(&|report| Some(report.payload_mib_per_s))),
            server_cpu_ns_per_rt: Summary::of(&values(&|report| server(report)?.cpu_ns_per_rt)),
            client_cpu_ns_per_rt: Summary::of(&values(&|report| report.client.cpu_ns_per_rt)),
            client_cpu_share: stats::median(&values(&|report| report.client.cpu_share)),
            server_switches_per_rt: stats::median(&values(&switches)),
            server_rss_peak_bytes: reports
                .iter()
                .filter_map(|report| server(report)?.rss_peak_bytes)
                .max(),
            little_ratio: stats::median(&values(&|report| report.little_ratio)),
            rtt_service_ns: RoundTripTimes::of(&reports),
            system_calls,
            driver: self
                .counted
                .iter()
                .find_map(|r| r.outcome.ready.as_ref().map(|ready| ready.driver.clone())),
        }
    }
}

fn floor(plan: &Plan, observed: &[Observed<'_>], protocol: Protocol, metric: Metric) -> Floor {
    let control = observed
        .iter()
        .find(|cell| cell.cell.control && cell.cell.factors.protocol == protocol);
    let twin = control.and_then(|control| {
        baselines(control.cell, &plan.cells)
            .first()
            .map(|(at, _)| &observed[*at])
    });
    match control.zip(twin) {
        Some((control, twin)) if !control.failed && !twin.failed => {
            Floor::of_control(metric, &control.ratios(twin, metric), plan.noise_threshold)
        }
        Some(_) => Floor::of_failed_control(plan.noise_threshold),
        None => Floor::without_control(plan.noise_threshold),
    }
}

fn compare(
    cell: &Observed<'_>,
    observed: &[Observed<'_>],
    judge: &dyn Fn(Protocol, Metric, &[f64]) -> Judged,
) -> Vec<Versus> {
    let cells: Vec<Cell> = observed
        .iter()
        .map(|observed| observed.cell.clone())
        .collect();
    let pairs = baselines(cell.cell, &cells).into_iter();
    let both =
        pairs.flat_map(|(at, relation)| METRICS.map(|metric| (&observed[at], relation, metric)));
    both.map(|(baseline, relation, metric)| {
        let ratios = cell.ratios(baseline, metric);
        let judged = if cell.failed || baseline.failed {
            Judged::FAILED
        } else {
            judge(cell.cell.factors.protocol, metric, &ratios)
        };
        Versus {
            baseline: baseline.cell.id.clone(),
            baseline_label: baseline.cell.label(),
            relation,
            metric,
            pairs: ratios.len(),
            median: judged.ratio.map(|ratio| ratio.median),
            lo: judged.ratio.map(|ratio| ratio.lo),
            hi: judged.ratio.map(|ratio| ratio.hi),
            coverage: judged.ratio.map(|ratio| ratio.coverage),
            verdict: judged.verdict,
            could_have_seen: judged.could_have_seen,
        }
    })
    .collect()
}

/// The rate ratios of every pair of good cells that is compared.
fn rate_ratios(observed: &[Observed<'_>]) -> Vec<Vec<f64>> {
    let cells: Vec<Cell> = observed
        .iter()
        .map(|observed| observed.cell.clone())
        .collect();
    let of = |cell: &Observed<'_>| -> Vec<Vec<f64>> {
        let pairs = baselines(cell.cell, &cells)
            .into_iter()
            .map(|(at, _)| &observed[at]);
        pairs
            .filter(|baseline| !cell.failed && !baseline.failed)
            .map(|baseline| cell.ratios(baseline, Metric::RoundTripsPerS))
            .collect()
    };
    observed.iter().flat_map(of).collect()
}

impl CellResult {
    /// Says how near to the generator's floor it came.
    fn hold_against(&mut self, floor: &GeneratorFloor) {
        let Some(share) = floor.share(self) else {
            return;
        };
        self.floor_share = Some(share);
        if self.floor_share.is_some_and(is_near) {
            self.flags.push(Flag::NearFloor);
        }
    }

    /// Its comparison of this kind, if there is one.
    pub(crate) fn versus(&self, relation: Relation, metric: Metric) -> Option<&Versus> {
        self.versus
            .iter()
            .find(|versus| versus.relation == relation && versus.metric == metric)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::campaign::tests::{conduct, conduct_cells, good};
    use crate::host::Interrupt;
    use crate::matrix::tests::{design, small};
    use crate::matrix::{Controls, Matrix, Order};
    use crate::measure::stats::tests::noisy;
    use crate::measure::verdict::Control;
    use crate::repetition::{Failure, Job, Outcome};

    /// Rates and CPU as a machine might show them: shards 2 is 17 % faster, shards 1 slower.
    pub(crate) fn believable(random: &mut fastrand::Rng, job: &Job<'_>) -> Outcome {
        let (rate, cpu_ns) = match (job.cell.factors.model, job.cell.factors.threads) {
            (Model::Pool, _) => (101_000.0, 7_900.0),
            (Model::Shards, 1) => (74_000.0, 6_300.0),
            (Model::Shards, _) => (118_000.0, 6_400.0),
            (Model::Null, _) => (310_000.0, 2_000.0),
        };
        good(job, noisy(random, rate, 0.01), noisy(random, cpu_ns, 0.01))
    }

    fn believed(rounds: u32) -> Analysis {
        let mut random = fastrand::Rng::with_seed(1);
        let (plan, record) = conduct(
            design(rounds, Order::Random, 5),
            &Interrupt::pretend(None),
            |job, _| believable(&mut random, job),
        );
        analyse(&plan, &record)
    }

    fn word(analysis: &Analysis, label: &str, relation: Relation, metric: Metric) -> Verdict {
        analysis
            .cells
            .iter()
            .find(|cell| cell.cell.label() == label)
            .unwrap()
            .versus(relation, metric)
            .unwrap()
            .verdict
    }

    #[test]
    fn verdicts_of_a_believable_run() {
        let analysis = believed(6);
        let word = |label, relation, metric| word(&analysis, label, relation, metric);
        assert_eq!(
            word("shards 2", Relation::Pool, Metric::RoundTripsPerS),
            Verdict::Faster
        );
        assert_eq!(
            word("shards 2", Relation::Pool, Metric::ServerCpuNsPerRt),
            Verdict::LessCpu
        );
        assert_eq!(
            word("shards 1", Relation::Pool, Metric::RoundTripsPerS),
            Verdict::Slower
        );
        assert_eq!(
            word("shards 2", Relation::OneShard, Metric::RoundTripsPerS),
            Verdict::Faster
        );
        assert!(!analysis.floors[0].rate_floor.control_failed);
        assert_eq!(
            analysis.comparisons, 6,
            "three pairs, two metrics, the control not counted"
        );
        assert!((analysis.chance_verdicts - 6.0 * 0.03125).abs() < 1e-9);
        assert!(analysis.usually_missed_below.unwrap() < 0.06);
        let calls = analysis.cells[0].summary.system_calls.as_ref().unwrap();
        assert_eq!(calls.per_round_trip, Some(1.9));
    }

    #[test]
    fn one_failed_repetition_takes_its_cell_out() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut done = false;
        let (plan, record) = conduct(
            design(6, Order::Random, 5),
            &Interrupt::pretend(None),
            |job, _| {
                if !done && job.cell.factors.threads == 1 {
                    done = true;
                    return Outcome {
                        failure: Some(Failure::new("E-LOAD-FAILED", "order_errors 3")),
                        ..Outcome::default()
                    };
                }
                believable(&mut random, job)
            },
        );
        let analysis = analyse(&plan, &record);
        let shards_1 = &analysis.cells[2];
        assert_eq!(
            (shards_1.status, shards_1.failed_repetitions),
            (Status::Failed, 1)
        );
        assert_eq!(
            shards_1.reason.as_deref(),
            Some("E-LOAD-FAILED: order_errors 3")
        );
        assert_eq!(
            word(
                &analysis,
                "shards 1",
                Relation::Pool,
                Metric::RoundTripsPerS
            ),
            Verdict::Failed
        );
        assert_eq!(
            word(
                &analysis,
                "shards 2",
                Relation::OneShard,
                Metric::RoundTripsPerS
            ),
            Verdict::Failed
        );
        assert_eq!(
            word(
                &analysis,
                "shards 2",
                Relation::Pool,
                Metric::RoundTripsPerS
            ),
            Verdict::Faster
        );
        assert!(
            shards_1.summary.round_trips_per_s.is_some(),
            "its data stay"
        );
    }

    #[test]
    fn a_control_that_differs_ranks_nothing() {
        let (plan, record) = conduct(
            design(6, Order::Random, 5),
            &Interrupt::pretend(None),
            |job, _| {
                good(
                    job,
                    if job.cell.control {
                        150_000.0
                    } else {
                        100_000.0
                    },
                    7_000.0,
                )
            },
        );
        let analysis = analyse(&plan, &record);
        assert!(
            analysis.floors[0].rate_floor.control_failed
                && !analysis.floors[0].cpu_floor.control_failed
        );
        assert_eq!(
            word(
                &analysis,
                "shards 2",
                Relation::Pool,
                Metric::RoundTripsPerS
            ),
            Verdict::TooNoisy
        );
        assert_eq!(
            word(
                &analysis,
                "shards 2",
                Relation::Pool,
                Metric::ServerCpuNsPerRt
            ),
            Verdict::Equal
        );
    }

    #[test]
    fn a_control_that_failed_ranks_nothing() {
        let mut random = fastrand::Rng::with_seed(1);
        let (plan, record) = conduct(
            design(6, Order::Random, 5),
            &Interrupt::pretend(None),
            |job, _| {
                if job.cell.control {
                    return Outcome {
                        failure: Some(Failure::new("E-X", "bad luck")),
                        ..Outcome::default()
                    };
                }
                believable(&mut random, job)
            },
        );
        let analysis = analyse(&plan, &record);
        for floor in [analysis.floors[0].rate_floor, analysis.floors[0].cpu_floor] {
            assert!(floor.control_failed && floor.control == Control::Missing);
        }
        assert_eq!(analysis.comparisons, 0);
        assert!(analysis.chance_verdicts.is_sign_positive(), "not -0.0");
        for metric in METRICS {
            assert_eq!(
                word(&analysis, "shards 2", Relation::Pool, metric),
                Verdict::TooNoisy
            );
        }
    }

    #[test]
    fn a_control_left_out_on_purpose_leaves_the_threshold() {
        let mut random = fastrand::Rng::with_seed(1);
        let matrix = Matrix {
            controls: Controls::None,
            ..small()
        };
        let (plan, record) = conduct_cells(
            matrix.cells().unwrap(),
            design(6, Order::Random, 5),
            &Interrupt::pretend(None),
            |job, _| believable(&mut random, job),
        );
        let analysis = analyse(&plan, &record);
        assert!(!analysis.floors[0].rate_floor.control_failed);
        assert!((analysis.floors[0].rate_floor.threshold - plan.noise_threshold).abs() < 1e-12);
        assert_eq!(
            word(
                &analysis,
                "shards 2",
                Relation::Pool,
                Metric::RoundTripsPerS
            ),
            Verdict::Faster
        );
    }

    #[test]
    fn without_the_servers_cpu_it_is_not_compared() {
        let (plan, record) = conduct(
            design(6, Order::Random, 5),
            &Interrupt::pretend(None),
            |job, _| {
                let mut outcome = good(job, 100_000.0, 7_000.0);
                outcome.load.as_mut().unwrap().server = None;
                outcome
            },
        );
        let analysis = analyse(&plan, &record);
        assert_eq!(
            word(
                &analysis,
                "shards 2",
                Relation::Pool,
                Metric::ServerCpuNsPerRt
            ),
            Verdict::NotComparable
        );
    }

    #[test]
    fn baselines_are_equal_in_threads_where_they_can_be() {
        let two_drivers = vec!["monoio-uring".to_owned(), "monoio-legacy".to_owned()];
        let matrix = Matrix {
            pools: vec![1, 2],
            shards: vec![1, 2, 3],
            drivers: two_drivers,
            ..small()
        };
        let cells = matrix.cells().unwrap();
        let named = |label: &str| -> Vec<(String, Relation)> {
            let cell = cells.iter().find(|cell| cell.label() == label).unwrap();
            baselines(cell, &cells)
                .into_iter()
                .map(|(at, relation)| (cells[at].label(), relation))
                .collect()
        };
        let pair = |label: &str, relation| (label.to_owned(), relation);
        assert_eq!(named("pool 2"), []);
        assert_eq!(named("pool 1"), [pair("pool 2", Relation::Pool)]);
        assert_eq!(named("pool 2 A/A"), [pair("pool 2", Relation::Control)]);
        assert_eq!(
            named("shards 1 monoio-uring"),
            [pair("pool 1", Relation::Pool)]
        );
        assert_eq!(
            named("shards 3 monoio-uring"),
            [
                pair("pool 2", Relation::Pool),
                pair("shards 1 monoio-uring", Relation::OneShard)
            ]
        );
        assert_eq!(
            named("shards 2 monoio-legacy"),
            [
                pair("pool 2", Relation::Pool),
                pair("shards 1 monoio-legacy", Relation::OneShard),
                pair("shards 2 monoio-uring", Relation::Driver)
            ]
        );
    }
}
