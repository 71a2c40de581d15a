//! From factors to a plan: which cells, in which order, for how long. Equal factors and an equal seed give an equal plan.

use crate::case::{Cell, Factors, Family, POOL_DRIVER};
use crate::contract::{Model, Protocol};
use crate::exit::Refusal;
use crate::floor;
use crate::repetition::{LossRule, Timing, Verify, whole_ns};
use crate::serve::shards::{accepts, default_accept};
use serde::{Deserialize, Serialize};
use shardloop::Accept;
use std::time::Duration;

/// Bytes in flight (clients × window × payload) are bounded by this.
pub(crate) const IN_FLIGHT_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Cells of one plan.
const CELLS_MAX: usize = 10_000;
/// No window is fitted shorter than this.
pub(crate) const WINDOW_MIN: Duration = Duration::from_millis(120);
/// System calls per round trip settle quickly, so their pass needs no longer window.
const COUNTED_WINDOW_MAX: Duration = Duration::from_millis(300);
/// What starting and ending two processes is taken to cost until a rehearsal has told.
pub(crate) const OVERHEAD_ASSUMED: Duration = Duration::from_millis(60);
/// A run with a budget starts no round that would end later than this after the budget.
const PAST_BUDGET_MAX: Duration = Duration::from_secs(6);

/// The values of every factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    /// What is spoken.
    pub(crate) protocols: Vec<Protocol>,
    /// Numbers of shards; may be empty.
    pub(crate) shards: Vec<usize>,
    /// Numbers of pool threads; may be empty.
    pub(crate) pools: Vec<usize>,
    /// Drivers of the shards.
    pub(crate) drivers: Vec<String>,
    /// How connections or datagrams are spread over shards; empty: as each protocol does by default. A strategy that a protocol does
    /// not have is left out there.
    pub(crate) accepts: Vec<Accept>,
    /// How long shards without work look for more, in microseconds.
    pub(crate) spins_us: Vec<u64>,
    /// Bytes per message.
    pub(crate) payloads: Vec<usize>,
    /// Connections.
    pub(crate) clients: Vec<usize>,
    /// Outstanding requests per connection.
    pub(crate) windows: Vec<usize>,
    /// Iterations of handler work.
    pub(crate) works: Vec<u64>,
    /// Loopback address family.
    pub(crate) family: Family,
    /// Which protocols have an A/A control.
    pub(crate) controls: Controls,
}

/// Which protocols have a control of their own. Each has a noise of its own, but a control costs as much as a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controls {
    /// None: no noise floor is known.
    None,
    /// Every protocol.
    Each,
    /// The first over streams and the first over datagrams, whose noise stands for that of the others.
    EachTransport,
}

impl Controls {
    fn wanted(self, protocols: &[Protocol]) -> Vec<Protocol> {
        match self {
            Self::None => Vec::new(),
            Self::Each => protocols.to_vec(),
            Self::EachTransport => [false, true]
                .into_iter()
                .filter_map(|datagram| {
                    let mut protocols = protocols.iter().copied();
                    protocols.find(|protocol| protocol.is_datagram() == datagram)
                })
                .collect(),
        }
    }
}

impl Matrix {
    /// Every combination, loads outermost; the control follows its twin.
    pub(crate) fn cells(&self) -> Result<Vec<Cell>, Refusal> {
        let loads = self.loads();
        let settings = self.drivers.len() * self.accepts.len().max(1) * self.spins_us.len();
        let per_load = self.pools.len() + self.shards.len() * settings;
        if per_load == 0 {
            return Err(Refusal::usage(
                "E-EMPTY",
                "neither --shards nor --pool names anything to measure.",
                "name at least one of them.",
            ));
        }
        if loads.len() * per_load > CELLS_MAX {
            let text = format!(
                "{} cells are more than {CELLS_MAX}.",
                loads.len() * per_load
            );
            return Err(Refusal::usage(
                "E-CELLS",
                text,
                "shorten some lists, or make several runs.",
            ));
        }
        loads.iter().try_for_each(check_payload)?;
        loads.iter().try_for_each(check_in_flight)?;
        self.protocols
            .iter()
            .try_for_each(|protocol| self.check_accepts(*protocol))?;
        let mut cells: Vec<Cell> = loads.iter().flat_map(|load| self.servers(load)).collect();
        for protocol in self.controls.wanted(&self.protocols) {
            let twin = control_twin(&cells, protocol);
            cells.insert(twin + 1, Cell::control_of(&cells[twin]));
        }
        Ok(cells)
    }

    /// The strategies asked for that this protocol has; `None` is its default.
    fn accepts_of(&self, protocol: Protocol) -> Vec<Option<String>> {
        let default = default_accept(protocol);
        let name = |accept: &Accept| (*accept != default).then(|| accept.name().to_owned());
        let known = accepts(protocol);
        match self.accepts.as_slice() {
            [] => vec![None],
            asked => asked
                .iter()
                .filter(|accept| known.contains(accept))
                .map(name)
                .collect(),
        }
    }

    fn check_accepts(&self, protocol: Protocol) -> Result<(), Refusal> {
        if self.shards.is_empty() || !self.accepts_of(protocol).is_empty() {
            return Ok(());
        }
        let known: Vec<&str> = accepts(protocol).iter().map(|a| a.name()).collect();
        Err(Refusal::usage(
            "E-ACCEPT",
            format!(
                "{} has none of these accept strategies, so its shards would not be measured.",
                protocol.name()
            ),
            format!(
                "add one of {}, or leave {} out of --protocols.",
                known.join(", "),
                protocol.name()
            ),
        ))
    }

    /// Every load, with a placeholder for the server.
    fn loads(&self) -> Vec<Factors> {
        let mut loads = vec![Factors {
            protocol: Protocol::Tcp,
            model: Model::Pool,
            threads: 1,
            driver: POOL_DRIVER.to_owned(),
            payload: 0,
            clients: 0,
            window: 0,
            work: 0,
            family: self.family,
            accept: None,
            spin_us: 0,
        }];
        vary(&mut loads, &self.protocols, |load, protocol| {
            load.protocol = protocol
        });
        vary(&mut loads, &self.works, |load, work| load.work = work);
        vary(&mut loads, &self.payloads, |load, payload| {
            load.payload = payload
        });
        vary(&mut loads, &self.clients, |load, clients| {
            load.clients = clients
        });
        vary(&mut loads, &self.windows, |load, window| {
            load.window = window
        });
        loads
    }

    /// The servers that meet this load: pools first, then shards by driver, accept strategy and spinning.
    fn servers(&self, load: &Factors) -> Vec<Cell> {
        let pools = self.pools.iter().map(|threads| Factors {
            model: Model::Pool,
            threads: *threads,
            driver: POOL_DRIVER.to_owned(),
            ..load.clone()
        });
        let mut shards = vec![Factors {
            model: Model::Shards,
            ..load.clone()
        }];
        let accepts = self.accepts_of(load.protocol);
        vary(&mut shards, &self.drivers, |shard, driver| {
            shard.driver = driver
        });
        vary(&mut shards, &accepts, |shard, accept| shard.accept = accept);
        vary(&mut shards, &self.spins_us, |shard, spin_us| {
            shard.spin_us = spin_us
        });
        vary(&mut shards, &self.shards, |shard, threads| {
            shard.threads = threads
        });
        pools.chain(shards).map(Cell::new).collect()
    }
}

/// Index of the cell that is measured twice: the largest pool of the protocol's first load, or that load's first cell.
fn control_twin(cells: &[Cell], protocol: Protocol) -> usize {
    let of_protocol = |cell: &Cell| cell.factors.protocol == protocol;
    let at = cells.iter().position(of_protocol).unwrap_or(0);
    let first = &cells[at].factors;
    let pools = cells
        .iter()
        .enumerate()
        .filter(|(_, cell)| cell.factors.model == Model::Pool && cell.factors.same_load(first));
    pools
        .max_by_key(|(_, cell)| cell.factors.threads)
        .map_or(at, |(at, _)| at)
}

fn vary<T: Clone>(loads: &mut Vec<Factors>, values: &[T], set: impl Fn(&mut Factors, T)) {
    let varied = loads.iter().flat_map(|load| {
        values.iter().map(|value| {
            let mut load = load.clone();
            set(&mut load, value.clone());
            load
        })
    });
    *loads = varied.collect();
}

fn check_payload(load: &Factors) -> Result<(), Refusal> {
    match load.protocol.payload_fault(load.family, load.payload) {
        None => Ok(()),
        Some(fault) => Err(Refusal::usage(
            "E-PAYLOAD",
            fault,
            "a message is one datagram. lower --payload, or name other --protocols.",
        )),
    }
}

fn check_in_flight(load: &Factors) -> Result<(), Refusal> {
    let bytes = load.in_flight_bytes();
    if bytes <= IN_FLIGHT_BYTES_MAX {
        return Ok(());
    }
    let mib = bytes as f64 / (1024.0 * 1024.0);
    let text = format!(
        "{} clients x {} window x {} B = {mib:.0} MiB in flight, limit 256 MiB.",
        load.clients, load.window, load.payload
    );
    Err(Refusal::usage(
        "E-CAP",
        text,
        "lower --clients, --window or --payload.",
    ))
}

/// Order of the cells within a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Order {
    /// Shuffled anew in every round, by the seed.
    Random,
    /// Forwards and backwards in turn.
    Abba,
    /// As planned, always.
    Fixed,
}

/// Everything that is decided before the first process starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// `quick` or `run`.
    pub(crate) name: String,
    /// What is measured.
    pub(crate) cells: Vec<Cell>,
    /// How often.
    pub(crate) rounds: u32,
    /// Rule for the order within a round.
    pub(crate) order: Order,
    /// Seed of the order.
    pub(crate) seed: u64,
    /// Indices into `cells`, round by round.
    pub(crate) orders: Vec<Vec<usize>>,
    /// Times of the timed repetitions.
    pub(crate) timing: Timing,
    /// Times of the pass that counts system calls.
    pub(crate) counted: Timing,
    /// How replies are checked.
    pub(crate) verify: Verify,
    /// When datagrams are lost, and how many may be.
    #[serde(default)]
    pub(crate) losses: LossRule,
    /// Smallest relative difference that may be called one.
    pub(crate) noise_threshold: f64,
    /// Wall time to stay within, if one was given.
    pub(crate) budget_ns: Option<u64>,
    /// What the generator's floor is measured with, before the rounds; empty if it is left out.
    #[serde(default)]
    pub(crate) floor: Vec<Cell>,
}

/// What a plan needs beyond its cells.
#[derive(Clone, Debug)]
pub(crate) struct Design {
    /// `quick` or `run`.
    pub(crate) name: &'static str,
    /// Rounds.
    pub(crate) rounds: u32,
    /// Rule for the order.
    pub(crate) order: Order,
    /// Its seed.
    pub(crate) seed: u64,
    /// Times asked for; with a budget the window is only the largest allowed.
    pub(crate) timing: Timing,
    /// How replies are checked.
    pub(crate) verify: Verify,
    /// When datagrams are lost, and how many may be.
    pub(crate) losses: LossRule,
    /// Smallest relative difference that may be called one.
    pub(crate) noise_threshold: f64,
    /// Wall time to stay within.
    pub(crate) budget: Option<Duration>,
    /// With the generator's floor.
    pub(crate) floor: bool,
}

impl Plan {
    /// The plan for these cells.
    pub(crate) fn new(cells: Vec<Cell>, design: Design) -> Self {
        let orders = orders(cells.len(), design.rounds, design.order, design.seed);
        let mut plan = Plan {
            floor: if design.floor {
                floor::cells(&cells)
            } else {
                Vec::new()
            },
            name: design.name.to_owned(),
            cells,
            rounds: design.rounds,
            order: design.order,
            seed: design.seed,
            orders,
            timing: design.timing,
            counted: design.timing,
            verify: design.verify,
            losses: design.losses,
            noise_threshold: design.noise_threshold,
            budget_ns: design.budget.map(whole_ns),
        };
        plan.fit(OVERHEAD_ASSUMED, plan.floor_estimate(OVERHEAD_ASSUMED));
        plan
    }

    /// Fits the window to what is left of the budget, once and for all cells; without a budget it stays as asked for.
    pub(crate) fn fit(&mut self, overhead: Duration, spent: Duration) {
        if let Some(budget) = self.budget() {
            let around = self.timing.warmup + overhead;
            let left = budget
                .saturating_sub(spent)
                .saturating_sub(around * (self.repetitions() + self.cell_count()));
            // The counted pass has the same window, up to its bound.
            let repetitions = self.repetitions().max(1);
            let mut window = left / (repetitions + self.cell_count());
            if window > COUNTED_WINDOW_MAX {
                window = left.saturating_sub(COUNTED_WINDOW_MAX * self.cell_count()) / repetitions;
            }
            let whole_ms =
                Duration::from_millis(u64::try_from(window.as_millis()).unwrap_or(u64::MAX));
            self.timing.window = whole_ms
                .max(WINDOW_MIN)
                .min(self.timing.window.max(WINDOW_MIN));
        }
        self.counted = Timing {
            window: self.timing.window.min(COUNTED_WINDOW_MAX),
            ..self.timing
        };
    }

    /// Wall time the floor, the rounds and the counted pass need.
    pub(crate) fn estimate(&self, overhead: Duration) -> Duration {
        self.floor_estimate(overhead)
            + self.round_estimate(overhead) * self.rounds
            + self.counted_estimate(overhead)
    }

    /// Wall time of the generator's floor.
    pub(crate) fn floor_estimate(&self, overhead: Duration) -> Duration {
        let cells = u32::try_from(self.floor.len()).unwrap_or(u32::MAX);
        (floor::TIMING.total() + overhead) * cells.saturating_mul(floor::TIMES)
    }

    /// The floor in words, for whoever asks what would be run.
    pub(crate) fn floor_label(&self) -> String {
        let protocol = |cell: &Cell| cell.factors.protocol;
        let several = self
            .floor
            .iter()
            .any(|cell| protocol(cell) != protocol(&self.floor[0]));
        let load = |cell: &Cell| {
            let f = &cell.factors;
            let spoken = if several {
                format!("{} ", f.protocol.name())
            } else {
                String::new()
            };
            format!("{spoken}{} x {} x {} B", f.clients, f.window, f.payload)
        };
        let loads: Vec<String> = self.floor.iter().map(load).collect();
        if loads.is_empty() {
            return "not measured".to_owned();
        }
        let loads = loads.join(" and at ");
        format!(
            "the null server at {loads}, {} x {} ms each",
            floor::TIMES,
            floor::TIMING.total().as_millis()
        )
    }

    /// Wall time of one round.
    pub(crate) fn round_estimate(&self, overhead: Duration) -> Duration {
        (self.timing.total() + overhead) * self.cell_count()
    }

    /// Wall time of the pass that counts system calls.
    pub(crate) fn counted_estimate(&self, overhead: Duration) -> Duration {
        (self.counted.total() + overhead) * self.cell_count()
    }

    /// The moment after which no further round may end, counted from the start.
    pub(crate) fn hard_stop(&self) -> Option<Duration> {
        self.budget().map(|budget| budget + PAST_BUDGET_MAX)
    }

    /// Timed repetitions of the whole plan.
    pub(crate) fn repetitions(&self) -> u32 {
        self.rounds * self.cell_count()
    }

    fn cell_count(&self) -> u32 {
        u32::try_from(self.cells.len()).unwrap_or(u32::MAX)
    }

    fn budget(&self) -> Option<Duration> {
        self.budget_ns.map(Duration::from_nanos)
    }
}

fn orders(cells: usize, rounds: u32, order: Order, seed: u64) -> Vec<Vec<usize>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let one = |round: u32| {
        let mut one: Vec<usize> = (0..cells).collect();
        match order {
            Order::Random => random.shuffle(&mut one),
            Order::Abba if round % 2 == 1 => one.reverse(),
            Order::Abba | Order::Fixed => {}
        }
        one
    };
    (0..rounds).map(one).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// pool 2, its control, shards 1, shards 2.
    pub(crate) fn small() -> Matrix {
        Matrix {
            protocols: vec![Protocol::Tcp],
            shards: vec![1, 2],
            pools: vec![2],
            drivers: vec!["auto".to_owned()],
            accepts: Vec::new(),
            spins_us: vec![0],
            payloads: vec![1024],
            clients: vec![16],
            windows: vec![8],
            works: vec![0],
            family: Family::Ipv4,
            controls: Controls::Each,
        }
    }

    /// A design for tests.
    pub(crate) fn design(rounds: u32, order: Order, seed: u64) -> Design {
        let timing = Timing {
            warmup: Duration::from_millis(80),
            window: Duration::from_secs(1),
        };
        Design {
            name: "run",
            rounds,
            order,
            seed,
            timing,
            verify: Verify::Full,
            losses: LossRule::default(),
            noise_threshold: 0.02,
            budget: None,
            floor: false,
        }
    }

    fn labels(matrix: &Matrix) -> Vec<String> {
        matrix.cells().unwrap().iter().map(Cell::label).collect()
    }

    #[test]
    fn the_control_follows_the_largest_pool() {
        assert_eq!(
            labels(&small()),
            ["pool 2", "pool 2 A/A", "shards 1", "shards 2"]
        );
        let two = Matrix {
            pools: vec![1, 4, 2],
            ..small()
        };
        assert_eq!(
            labels(&two),
            [
                "pool 1",
                "pool 4",
                "pool 4 A/A",
                "pool 2",
                "shards 1",
                "shards 2"
            ]
        );
        let none = Matrix {
            pools: vec![],
            ..small()
        };
        assert_eq!(labels(&none), ["shards 1", "shards 1 A/A", "shards 2"]);
    }

    #[test]
    fn every_combination_once() {
        let matrix = Matrix {
            protocols: Protocol::ALL.to_vec(),
            drivers: vec!["monoio-uring".to_owned(), "monoio-legacy".to_owned()],
            payloads: vec![64, 1024],
            windows: vec![1, 16],
            works: vec![0, 10_000],
            ..small()
        };
        let cells = matrix.cells().unwrap();
        let protocols = Protocol::ALL.len();
        assert_eq!(cells.len(), protocols * 2 * 2 * 2 * (1 + 2 * 2) + protocols);
        let ids: std::collections::BTreeSet<&str> =
            cells.iter().map(|cell| cell.id.as_str()).collect();
        assert_eq!(ids.len(), cells.len());
        let controls: Vec<Protocol> = cells
            .iter()
            .filter(|cell| cell.control)
            .map(|cell| cell.factors.protocol)
            .collect();
        assert_eq!(controls, Protocol::ALL, "one each");
    }

    #[test]
    fn settings_of_shards_are_factors_where_a_protocol_has_them() {
        let matrix = |protocol, accepts: &[Accept]| Matrix {
            protocols: vec![protocol],
            accepts: accepts.to_vec(),
            spins_us: vec![0, 50],
            shards: vec![2],
            controls: Controls::None,
            ..small()
        };
        assert_eq!(
            labels(&matrix(
                Protocol::Tcp,
                &[Accept::Handoff, Accept::HandoffLeast]
            )),
            [
                "pool 2",
                "shards 2",
                "shards 2 spin 50",
                "shards 2 handoff-least",
                "shards 2 handoff-least spin 50"
            ]
        );
        let default = default_accept(Protocol::Udp);
        let all = labels(&matrix(Protocol::Udp, &[default, Accept::Shared]));
        assert_eq!(all, ["pool 2", "shards 2", "shards 2 spin 50"]);
        let none = matrix(Protocol::Udp, &[Accept::Shared]).cells();
        assert_eq!(none.unwrap_err().id, "E-ACCEPT");
    }

    #[test]
    fn bounds_of_a_plan() {
        let id = |matrix: Matrix| matrix.cells().unwrap_err().id;
        assert_eq!(
            id(Matrix {
                payloads: vec![65_536],
                clients: vec![1024],
                windows: vec![1024],
                ..small()
            }),
            "E-CAP"
        );
        assert_eq!(
            id(Matrix {
                protocols: Protocol::ALL.to_vec(),
                payloads: vec![65_508],
                ..small()
            }),
            "E-PAYLOAD"
        );
        assert_eq!(
            id(Matrix {
                pools: vec![],
                shards: vec![],
                ..small()
            }),
            "E-EMPTY"
        );
        assert_eq!(
            id(Matrix {
                payloads: (16..200).collect(),
                clients: (1..100).collect(),
                ..small()
            }),
            "E-CELLS"
        );
    }

    #[test]
    fn a_seed_gives_one_plan() {
        let plan = |seed| Plan::new(small().cells().unwrap(), design(10, Order::Random, seed));
        assert_eq!(plan(42), plan(42));
        assert_ne!(plan(42).orders, plan(43).orders);
        for round in plan(42).orders {
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3], "every cell once in every round");
        }
    }

    #[test]
    fn abba_and_fixed() {
        let orders = |order| Plan::new(small().cells().unwrap(), design(3, order, 1)).orders;
        assert_eq!(
            orders(Order::Abba),
            [vec![0, 1, 2, 3], vec![3, 2, 1, 0], vec![0, 1, 2, 3]]
        );
        assert_eq!(
            orders(Order::Fixed),
            [vec![0, 1, 2, 3], vec![0, 1, 2, 3], vec![0, 1, 2, 3]]
        );
    }

    #[test]
    fn the_window_is_fitted_between_its_bounds() {
        let window = |seconds| {
            let design = Design {
                budget: Some(Duration::from_secs(seconds)),
                ..design(6, Order::Random, 1)
            };
            Plan::new(small().cells().unwrap(), design).timing.window
        };
        assert_eq!(window(1), WINDOW_MIN);
        assert_eq!(window(50), Duration::from_secs(1));
        let fitted = window(15);
        assert!(
            fitted > Duration::from_millis(300) && fitted < Duration::from_millis(600),
            "{fitted:?}"
        );
        let design = Design {
            budget: Some(Duration::from_secs(15)),
            ..design(6, Order::Random, 1)
        };
        let plan = Plan::new(small().cells().unwrap(), design);
        let estimate = plan.estimate(OVERHEAD_ASSUMED);
        assert!(
            estimate <= Duration::from_secs(15) && estimate > Duration::from_millis(14_500),
            "{estimate:?}"
        );
    }

    #[test]
    fn the_floor_is_paid_from_the_budget() {
        let plan = |floor| {
            let design = Design {
                budget: Some(Duration::from_secs(15)),
                floor,
                ..design(6, Order::Random, 1)
            };
            Plan::new(small().cells().unwrap(), design)
        };
        let (with, without) = (plan(true), plan(false));
        assert!(with.timing.window < without.timing.window);
        assert!(with.estimate(OVERHEAD_ASSUMED) <= Duration::from_secs(15));
        assert_eq!(
            with.floor_label(),
            "the null server at 1 x 1 x 1024 B and at 16 x 8 x 1024 B, 3 x 230 ms each"
        );
        assert_eq!(without.floor_label(), "not measured");
    }

    #[test]
    fn without_a_budget_the_window_stays() {
        let plan = Plan::new(small().cells().unwrap(), design(6, Order::Random, 1));
        assert_eq!(plan.timing.window, Duration::from_secs(1));
        assert_eq!(plan.counted.window, COUNTED_WINDOW_MAX);
        assert_eq!(plan.hard_stop(), None);
    }

    #[test]
    fn a_plan_survives_its_file() {
        let plan = Plan::new(small().cells().unwrap(), design(6, Order::Random, 1));
        let text = serde_json::to_string(&plan).unwrap();
        assert!(text.contains("\"window_ns\":1000000000"), "{text}");
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}
