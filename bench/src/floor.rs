//! The generator's floor: what the load generator reaches against a server that only sends bytes back ([`crate::serve::null`]).
//!
//! It is measured before the rounds, with the same processes and the same checks, several times, and the best rate is taken: what
//! disturbs a measurement makes it lower, never higher. A cell that comes near it is limited by
//! the generator as much as by its server, so differences between such cells look smaller than they are. On a machine where
//! generator and server share CPUs the null server takes its share too; the floor is that of the pair.

use crate::analysis::{CellResult, Status};
use crate::campaign::Record;
use crate::case::{Cell, Factors, Family};
use crate::contract::{LoadReport, Protocol};
use crate::matrix::Plan;
use crate::repetition::{Repetition, Timing, whole_ns};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Times of its measurements: short, for it is no cell.
pub(crate) const TIMING: Timing = Timing {
    warmup: Duration::from_millis(80),
    window: Duration::from_millis(150),
};

/// How often each is measured.
pub(crate) const TIMES: u32 = 3;

/// Above this share of the floor a cell is near it.
const NEAR: f64 = 0.70;

/// The null servers of a plan: for streams and for datagrams, which the generator makes in different ways, under the first load of
/// each, and under one request at a time. A protocol that wants more of an answer than what was asked has none.
pub(crate) fn cells(planned: &[Cell]) -> Vec<Cell> {
    let first = |datagrams: bool| {
        planned
            .iter()
            .filter(|cell| cell.factors.protocol.is_mirrored())
            .find(|cell| cell.factors.protocol.is_datagram() == datagrams)
    };
    let both = [false, true].into_iter().filter_map(first);
    both.flat_map(|cell| cells_of(&cell.factors)).collect()
}

fn cells_of(first: &Factors) -> Vec<Cell> {
    let single = Cell::null(&Factors {
        clients: 1,
        window: 1,
        ..first.clone()
    });
    let main = Cell::null(first);
    if single == main {
        vec![main]
    } else {
        vec![single, main]
    }
}

/// What was measured; `null` is not known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct GeneratorFloor {
    /// Round trips per second under `load`, the best of [`TIMES`] measurements.
    pub(crate) null_rt_per_s: Option<f64>,
    /// Median round trip of one connection with one request at a time.
    pub(crate) null_rtt_p50_ns: Option<u64>,
    /// The first load of the plan.
    pub(crate) load: FloorLoad,
    /// CPU share of the generator under `load`; 1.0 is one CPU.
    pub(crate) client_cpu_share: Option<f64>,
    /// CPU share of the null server under `load`.
    pub(crate) server_cpu_share: Option<f64>,
    /// Warm-up of each measurement.
    pub(crate) warmup_ns: u64,
    /// Window of each measurement.
    pub(crate) window_ns: u64,
}

/// The load a floor is that of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FloorLoad {
    /// What the generator spoke.
    pub(crate) protocol: Protocol,
    /// Bytes per message.
    pub(crate) payload: usize,
    /// Connections.
    pub(crate) clients: usize,
    /// Outstanding requests per connection.
    pub(crate) window: usize,
    /// Loopback address family.
    pub(crate) family: Family,
}

impl GeneratorFloor {
    /// From what was measured before the rounds: one for streams and one for datagrams, as far as they were measured and not all of it
    /// failed.
    pub(crate) fn all(plan: &Plan, record: &Record) -> Vec<Self> {
        let mains = [false, true].into_iter().filter_map(|datagrams| {
            let mut cells = plan.floor.iter().rev();
            cells.find(|cell| cell.factors.protocol.is_datagram() == datagrams)
        });
        mains
            .filter_map(|main| Self::of(main, plan, record))
            .collect()
    }

    fn of(main: &Cell, plan: &Plan, record: &Record) -> Option<Self> {
        let main = &main.factors;
        let good = |wanted: &dyn Fn(&Factors) -> bool| {
            let cell = plan.floor.iter().find(|cell| wanted(&cell.factors))?;
            let mine = record.floor.iter().filter(|r| r.cell == cell.id && r.ok());
            let rate = |load: &LoadReport| load.round_trips_per_s;
            mine.filter_map(|r| r.outcome.load.as_ref())
                .max_by(|a, b| rate(a).total_cmp(&rate(b)))
        };
        let single: Option<&LoadReport> =
            good(&|f| (f.protocol, f.clients, f.window) == (main.protocol, 1, 1));
        let loaded: Option<&LoadReport> = good(&|f| f == main);
        if single.is_none() && loaded.is_none() {
            return None;
        }
        Some(GeneratorFloor {
            null_rt_per_s: loaded.map(|load| load.round_trips_per_s),
            null_rtt_p50_ns: single.and_then(|load| load.rtt_service_ns.p50),
            load: FloorLoad::of(main),
            client_cpu_share: loaded.and_then(|load| load.client.cpu_share),
            server_cpu_share: loaded.and_then(|load| load.server.as_ref()?.cpu_share),
            warmup_ns: whole_ns(TIMING.warmup),
            window_ns: whole_ns(TIMING.window),
        })
    }

    /// A good cell's median rate as a share of the floor; `None` where the generator had another load to make.
    pub(crate) fn share(&self, cell: &CellResult) -> Option<f64> {
        if cell.status != Status::Ok {
            return None;
        }
        let rate = cell.summary.round_trips_per_s?.median;
        let floor = self.null_rt_per_s.filter(|floor| *floor > 0.0)?;
        self.load.is_of(&cell.cell.factors).then(|| rate / floor)
    }
}

impl FloorLoad {
    fn of(factors: &Factors) -> Self {
        FloorLoad {
            protocol: factors.protocol,
            payload: factors.payload,
            clients: factors.clients,
            window: factors.window,
            family: factors.family,
        }
    }

    /// The generator does the same: of streams, four bytes of framing and the server's work are none of its concern.
    fn is_of(&self, factors: &Factors) -> bool {
        if !factors.protocol.is_mirrored() {
            return false;
        }
        let mine = (
            self.protocol.is_datagram(),
            self.payload,
            self.clients,
            self.window,
            self.family,
        );
        mine == (
            factors.protocol.is_datagram(),
            factors.payload,
            factors.clients,
            factors.window,
            factors.family,
        )
    }
}

/// Whether a cell with this share of the floor is near it.
pub(crate) fn is_near(share: f64) -> bool {
    share > NEAR
}

/// Whether a cell with this share shows that the floor was disturbed: no server is faster than the one that does nothing.
pub(crate) fn is_unreliable(share: f64) -> bool {
    share > 1.0
}

/// Why a part of it is missing: the first failure of a cell that was never measured.
pub(crate) fn failure(record: &Record) -> Option<String> {
    let measured = |cell: &str| record.floor.iter().any(|r| r.cell == cell && r.ok());
    let mut missing = record.floor.iter().filter(|r| !measured(&r.cell));
    missing.find_map(reason)
}

fn reason(repetition: &Repetition) -> Option<String> {
    let failure = repetition.outcome.failure.as_ref()?;
    Some(format!("{}: {}", failure.id, failure.text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Flag, analyse};
    use crate::campaign::tests::{conduct_cells, good};
    use crate::contract::Model;
    use crate::host::Interrupt;
    use crate::matrix::tests::{design, small};
    use crate::matrix::{Controls, Design, Matrix, Order};
    use crate::repetition::{Failure, Job, Outcome};

    fn measured(matrix: &Matrix, script: impl FnMut(&Job<'_>, u32) -> Outcome) -> (Plan, Record) {
        let design = Design {
            floor: true,
            ..design(6, Order::Random, 1)
        };
        conduct_cells(
            matrix.cells().unwrap(),
            design,
            &Interrupt::pretend(None),
            script,
        )
    }

    /// The floor of a plan over streams.
    fn only(plan: &Plan, record: &Record) -> Option<GeneratorFloor> {
        let mut all = GeneratorFloor::all(plan, record);
        assert!(all.len() <= 1, "{all:?}");
        all.pop()
    }

    /// The null server at this rate, everything else at 100,000 round trips per second.
    fn null_at(rate: f64) -> impl FnMut(&Job<'_>, u32) -> Outcome {
        move |job, _| {
            let null = job.cell.factors.model == Model::Null;
            good(job, if null { rate } else { 1e5 }, 7e3)
        }
    }

    #[test]
    fn one_request_and_the_first_load_are_measured() {
        let matrix = Matrix {
            payloads: vec![64, 1024],
            works: vec![10_000],
            ..small()
        };
        let (_, record) = measured(&matrix, null_at(310_000.0));
        let mut ids: Vec<&str> = record.floor.iter().map(|r| r.cell.as_str()).collect();
        assert_eq!(ids.len(), 2 * TIMES as usize);
        ids.dedup();
        assert_eq!(
            ids,
            [
                "tcp.null1.null.64.c1.w1.work0.closed",
                "tcp.null1.null.64.c16.w8.work0.closed"
            ]
        );
        let single = Matrix {
            clients: vec![1],
            windows: vec![1],
            ..small()
        };
        let floor = measured(&single, null_at(1e5)).1.floor;
        assert_eq!(floor.len(), TIMES as usize);
    }

    #[test]
    fn its_figures_come_from_the_load_they_belong_to() {
        let (plan, record) = measured(&small(), |job, seen| {
            let mut outcome = null_at(310_000.0)(job, seen);
            let load = outcome.load.as_mut().unwrap();
            load.rtt_service_ns.p50 = Some(load.clients as u64 * 60_000);
            outcome
        });
        let floor = only(&plan, &record).unwrap();
        assert_eq!(
            (floor.null_rt_per_s, floor.null_rtt_p50_ns),
            (Some(310_000.0), Some(60_000))
        );
        assert_eq!(
            (floor.load.clients, floor.load.window, floor.load.payload),
            (16, 8, 1024)
        );
    }

    #[test]
    fn the_best_of_three_counts_and_one_failure_does_not() {
        let (plan, record) = measured(&small(), |job, seen| match seen {
            4 => Outcome {
                failure: Some(Failure::new("E-SERVER-START", "bad luck")),
                ..Outcome::default()
            },
            5 => null_at(310_000.0)(job, seen),
            _ => null_at(150_000.0)(job, seen),
        });
        let floor = only(&plan, &record).unwrap();
        assert_eq!(floor.null_rt_per_s, Some(310_000.0));
        assert_eq!(failure(&record), None);
        let stems: std::collections::BTreeSet<String> =
            record.floor.iter().map(Repetition::file_stem).collect();
        assert_eq!(stems.len(), record.floor.len(), "{stems:?}");
    }

    #[test]
    fn above_seventy_percent_is_near() {
        let near = |floor: f64| {
            let (plan, record) = measured(&small(), null_at(floor));
            let cells = analyse(&plan, &record).cells;
            let flagged: Vec<bool> = cells
                .iter()
                .map(|cell| cell.flags == [Flag::NearFloor])
                .collect();
            assert!(flagged.iter().all(|flag| *flag == flagged[0]));
            flagged[0]
        };
        assert!(near(1.42e5), "70.4 %");
        assert!(!near(1.44e5), "69.4 %");
        assert!(!near(1e5 / NEAR), "it must be above");
        assert!(near(9e4), "a cell may be faster than the null server");
    }

    #[test]
    fn another_load_is_not_compared_with_it() {
        let matrix = Matrix {
            protocols: vec![Protocol::Tcp, Protocol::Echo, Protocol::Udp, Protocol::Http],
            windows: vec![8, 1],
            works: vec![0, 10],
            controls: Controls::None,
            ..small()
        };
        let (plan, record) = measured(&matrix, null_at(1.1e5));
        for cell in analyse(&plan, &record).cells {
            let factors = &cell.cell.factors;
            let near = cell.flags.contains(&Flag::NearFloor);
            let mirrored = factors.protocol.is_mirrored();
            assert_eq!(near, mirrored && factors.window == 8, "{}", cell.cell.id);
            assert_eq!(cell.floor_share.is_some(), near, "{}", cell.cell.id);
        }
    }

    #[test]
    fn streams_and_datagrams_have_a_floor_each() {
        let matrix = Matrix {
            protocols: Protocol::ALL.to_vec(),
            controls: Controls::None,
            ..small()
        };
        let (plan, record) = measured(&matrix, |job, seen| {
            let datagrams = job.cell.factors.protocol.is_datagram();
            null_at(if datagrams { 2e5 } else { 4e5 })(job, seen)
        });
        let floors = GeneratorFloor::all(&plan, &record);
        let rates: Vec<_> = floors.iter().map(|floor| floor.null_rt_per_s).collect();
        assert_eq!(rates, [Some(4e5), Some(2e5)]);
        for cell in analyse(&plan, &record).cells {
            let protocol = cell.cell.factors.protocol;
            let expected = if protocol.is_datagram() { 0.5 } else { 0.25 };
            let close = cell
                .floor_share
                .map(|share| (share - expected).abs() < 1e-9);
            assert_eq!(close, protocol.is_mirrored().then_some(true));
        }
        assert_eq!(
            plan.floor_label(),
            "the null server at tcp 1 x 1 x 1024 B and at tcp 16 x 8 x 1024 B and at udp 1 x 1 x 1024 B and at udp 16 x 8 x 1024 B, 3 x 230 ms each"
        );
    }

    #[test]
    fn a_failure_leaves_the_rest_and_tells_why() {
        let fails = |clients: &'static [usize]| {
            move |job: &Job<'_>, seen| {
                let factors = &job.cell.factors;
                if factors.model != Model::Null || !clients.contains(&factors.clients) {
                    return null_at(1.1e5)(job, seen);
                }
                Outcome {
                    failure: Some(Failure::new("E-SERVER-START", "bad luck")),
                    ..Outcome::default()
                }
            }
        };
        let (plan, record) = measured(&small(), fails(&[16]));
        assert_eq!(record.rounds_ran, 6, "the run goes on");
        let floor = only(&plan, &record).unwrap();
        assert_eq!(
            (floor.null_rt_per_s, floor.null_rtt_p50_ns),
            (None, Some(900_000))
        );
        assert_eq!(
            failure(&record).as_deref(),
            Some("E-SERVER-START: bad luck")
        );
        let analysis = analyse(&plan, &record);
        assert!(analysis.cells.iter().all(|cell| cell.flags.is_empty()));
        let (plan, record) = measured(&small(), fails(&[1, 16]));
        assert_eq!(only(&plan, &record), None);
    }
}
