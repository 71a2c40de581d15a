//! Carries out a plan: the generator's floor, then rounds outermost, every cell once in each, then the pass that counts system calls.
//!
//! Knows no process and no file: a [`Runner`] does the work and a [`Keeper`] keeps the results, so all of this is tested with
//! invented ones.

use crate::case::Cell;
use crate::floor;
use crate::host::{Interrupt, Reading, Signal, Surroundings};
use crate::matrix::{OVERHEAD_ASSUMED, Plan};
use crate::progress::{Progress, Standing};
use crate::repetition::{Job, Pass, Repetition, Runner, Timing, whole_ns};
use std::time::Duration;

/// Keeps what must not be lost.
pub(crate) trait Keeper {
    /// The plan is final.
    fn plan(&mut self, plan: &Plan) -> anyhow::Result<()>;
    /// A repetition has ended.
    fn repetition(&mut self, repetition: &Repetition) -> anyhow::Result<()>;
    /// A round has ended.
    fn round(&mut self, plan: &Plan, record: &Record) -> anyhow::Result<()>;
}

/// What has been done so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// Every repetition, in the order of execution.
    pub(crate) repetitions: Vec<Repetition>,
    /// Measurements of the generator's floor. They belong to no cell, and a failure among them fails nothing.
    pub(crate) floor: Vec<Repetition>,
    /// Rounds that are complete; only these count.
    pub(crate) rounds_ran: u32,
    /// What else the machine did in each of them.
    pub(crate) surroundings: Vec<Surroundings>,
    /// The signal that ended it early.
    pub(crate) interrupted: Option<Signal>,
    /// Why system calls were not counted although nothing failed.
    pub(crate) calls_skipped: Option<String>,
}

/// A plan on its way.
pub(crate) struct Campaign<'a> {
    /// The plan.
    pub(crate) plan: Plan,
    /// Does the work.
    pub(crate) runner: &'a mut dyn Runner,
    /// Keeps the results.
    pub(crate) keeper: &'a mut dyn Keeper,
    /// Tells of a signal.
    pub(crate) interrupt: &'a Interrupt,
    /// Shows where it stands.
    pub(crate) progress: &'a Progress,
    /// Time since the start.
    pub(crate) clock: &'a dyn Fn() -> Duration,
}

impl Campaign<'_> {
    /// Runs everything, or as much as a signal or the budget allows.
    pub(crate) fn run(mut self) -> anyhow::Result<(Plan, Record)> {
        let mut record = Record::default();
        self.measure_floor(&mut record)?;
        self.rehearse(&mut record)?;
        self.keeper.plan(&self.plan)?;
        for round in 1..=self.plan.rounds {
            if record.interrupted.is_some() || !self.has_time_for_a_round(&record) {
                break;
            }
            if !self.round(round, &mut record)? {
                break;
            }
        }
        self.count_calls(&mut record)?;
        self.progress.clear();
        Ok((self.plan, record))
    }

    /// The null server, before anything else; what it takes is taken from the budget.
    fn measure_floor(&mut self, record: &mut Record) -> anyhow::Result<()> {
        let cells = self.plan.floor.clone();
        let often = cells
            .iter()
            .flat_map(|cell| (1..=floor::TIMES).map(move |time| (cell, time)));
        for (cell, time) in often {
            if record.interrupted.is_some() {
                break;
            }
            self.progress
                .repetition(&self.standing(0, &cell.label(), record));
            let place = Place {
                pass: Pass::Floor,
                round: 0,
                position: time,
                timing: floor::TIMING,
            };
            let measured = self.carry_out(cell, &place, record)?;
            record.floor.push(measured);
        }
        Ok(())
    }

    /// With a budget, one repetition that does not count tells what starting and ending costs, and the window is fitted to that.
    fn rehearse(&mut self, record: &mut Record) -> anyhow::Result<()> {
        if self.plan.budget_ns.is_none() || record.interrupted.is_some() {
            return Ok(());
        }
        let timing = self.plan.counted;
        let place = Place {
            pass: Pass::Rehearsal,
            round: 0,
            position: 0,
            timing,
        };
        self.repetition(0, &place, record)?;
        let wall = record
            .repetitions
            .last()
            .map_or(OVERHEAD_ASSUMED, |last| Duration::from_nanos(last.wall_ns));
        let spent = (self.clock)();
        self.plan.fit(wall.saturating_sub(timing.total()), spent);
        Ok(())
    }

    /// One round. False if it was given up half-way; then it does not count.
    fn round(&mut self, round: u32, record: &mut Record) -> anyhow::Result<bool> {
        let before = Reading::now();
        let order = self.plan.orders[round as usize - 1].clone();
        for (position, cell) in (1_u32..).zip(order) {
            self.show(round, cell, record);
            let place = Place {
                pass: Pass::Timed,
                round,
                position,
                timing: self.plan.timing,
            };
            self.repetition(cell, &place, record)?;
            if record.interrupted.is_some() || self.is_past_hard_stop() {
                let complete =
                    position as usize == self.plan.cells.len() && record.interrupted.is_none();
                return if complete {
                    self.complete(round, &before, record)
                } else {
                    Ok(false)
                };
            }
        }
        self.complete(round, &before, record)
    }

    fn complete(
        &mut self,
        round: u32,
        before: &Reading,
        record: &mut Record,
    ) -> anyhow::Result<bool> {
        record.rounds_ran = round;
        record.surroundings.push(Reading::now().since(before));
        self.progress.round(&self.standing(round, "done", record));
        self.keeper.round(&self.plan, record)?;
        Ok(true)
    }

    /// Every cell once more with its system calls counted; a control is its twin and failed cells are out.
    fn count_calls(&mut self, record: &mut Record) -> anyhow::Result<()> {
        if record.interrupted.is_some() || record.rounds_ran == 0 {
            return Ok(());
        }
        let late = self.plan.hard_stop().is_some_and(|stop| {
            (self.clock)() + self.plan.counted_estimate(OVERHEAD_ASSUMED) > stop
        });
        if late {
            record.calls_skipped = Some("the budget ran out before".to_owned());
            return Ok(());
        }
        for cell in 0..self.plan.cells.len() {
            let id = &self.plan.cells[cell].id;
            let failed = record
                .repetitions
                .iter()
                .any(|r| r.cell == *id && r.outcome.failure.is_some());
            if failed || self.plan.cells[cell].control || record.interrupted.is_some() {
                continue;
            }
            self.show(self.plan.rounds, cell, record);
            let place = Place {
                pass: Pass::Counted,
                round: 0,
                position: 0,
                timing: self.plan.counted,
            };
            self.repetition(cell, &place, record)?;
        }
        Ok(())
    }

    /// A repetition of the plan's cell of this index.
    fn repetition(
        &mut self,
        cell: usize,
        place: &Place,
        record: &mut Record,
    ) -> anyhow::Result<()> {
        let cell = self.plan.cells[cell].clone();
        let repetition = self.carry_out(&cell, place, record)?;
        record.repetitions.push(repetition);
        Ok(())
    }

    /// Runs it, tells of a failure or a signal, and sees it kept.
    fn carry_out(
        &mut self,
        cell: &Cell,
        place: &Place,
        record: &mut Record,
    ) -> anyhow::Result<Repetition> {
        let started = (self.clock)();
        let job = Job {
            cell,
            timing: place.timing,
            verify: self.plan.verify,
            losses: self.plan.losses,
            pass: place.pass,
        };
        let outcome = self.runner.run(&job);
        let wall = (self.clock)().saturating_sub(started);
        let repetition = Repetition {
            cell: cell.id.clone(),
            pass: place.pass,
            round: place.round,
            position: place.position,
            started_ns: whole_ns(started),
            wall_ns: whole_ns(wall),
            outcome,
        };
        if let Some(failure) = &repetition.outcome.failure {
            self.progress.say(&format!(
                "failed: {}, round {}: {}",
                cell.label(),
                place.round,
                failure.text
            ));
        }
        record.interrupted = self.interrupt.caught();
        self.keeper.repetition(&repetition)?;
        Ok(repetition)
    }

    /// A round is begun only if it and the counted pass would end in time; the first one always is.
    fn has_time_for_a_round(&self, record: &Record) -> bool {
        let Some(stop) = self.plan.hard_stop() else {
            return true;
        };
        let overhead = self.overhead(record);
        let needed = self.plan.round_estimate(overhead) + self.plan.counted_estimate(overhead);
        record.rounds_ran == 0 || (self.clock)() + needed <= stop
    }

    fn is_past_hard_stop(&self) -> bool {
        self.plan
            .hard_stop()
            .is_some_and(|stop| (self.clock)() > stop)
    }

    fn overhead(&self, record: &Record) -> Duration {
        let timed: Vec<u64> = record
            .repetitions
            .iter()
            .filter(|r| r.pass == Pass::Timed)
            .map(|r| r.wall_ns)
            .collect();
        let Some(mean) = timed.iter().sum::<u64>().checked_div(timed.len() as u64) else {
            return OVERHEAD_ASSUMED;
        };
        Duration::from_nanos(mean).saturating_sub(self.plan.timing.total())
    }

    fn show(&self, round: u32, cell: usize, record: &Record) {
        let label = self.plan.cells[cell].label();
        self.progress
            .repetition(&self.standing(round, &label, record));
    }

    fn standing<'a>(&self, round: u32, label: &'a str, record: &Record) -> Standing<'a> {
        let count = |wanted: &dyn Fn(&Repetition) -> bool| {
            u32::try_from(record.repetitions.iter().filter(|r| wanted(r)).count())
                .unwrap_or(u32::MAX)
        };
        let finished = count(&|r| r.pass == Pass::Timed);
        let overhead = self.overhead(record);
        let left = self.plan.repetitions().saturating_sub(finished);
        Standing {
            round,
            rounds: self.plan.rounds,
            finished,
            planned: self.plan.repetitions(),
            label,
            left: (self.plan.timing.total() + overhead) * left
                + self.plan.counted_estimate(overhead),
            steal: record.surroundings.last().and_then(|last| last.steal_share),
            failed: count(&|r| r.outcome.failure.is_some()),
        }
    }
}

/// Which repetition of a cell it is.
struct Place {
    pass: Pass,
    round: u32,
    position: u32,
    timing: Timing,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contract::{Counters, LoadReport, Percentiles, ProcessUse};
    use crate::exit::Exit;
    use crate::matrix::tests::{design, small};
    use crate::matrix::{Design, Order};
    use crate::repetition::{CallCount, Failure, Outcome};
    use std::cell::Cell as Shared;

    /// What the invented runner says.
    pub(crate) type Script<'a> = dyn FnMut(&Job<'_>, u32) -> Outcome + 'a;

    /// Invents results; each takes the virtual time a real one would.
    pub(crate) struct Invented<'a> {
        script: Box<Script<'a>>,
        now: &'a Shared<Duration>,
        seen: u32,
    }

    impl Runner for Invented<'_> {
        fn run(&mut self, job: &Job<'_>) -> Outcome {
            self.now
                .set(self.now.get() + job.timing.total() + Duration::from_millis(50));
            self.seen += 1;
            (self.script)(job, self.seen)
        }
    }

    /// Keeps what it is given.
    #[derive(Default)]
    struct Kept {
        plans: u32,
        repetitions: Vec<String>,
        rounds: u32,
    }

    impl Keeper for Kept {
        fn plan(&mut self, _: &Plan) -> anyhow::Result<()> {
            self.plans += 1;
            Ok(())
        }

        fn repetition(&mut self, repetition: &Repetition) -> anyhow::Result<()> {
            self.repetitions.push(repetition.file_stem());
            Ok(())
        }

        fn round(&mut self, _: &Plan, _: &Record) -> anyhow::Result<()> {
            self.rounds += 1;
            Ok(())
        }
    }

    /// A good outcome with this rate and this CPU per round trip.
    pub(crate) fn good(job: &Job<'_>, rate: f64, cpu_ns: f64) -> Outcome {
        let factors = &job.cell.factors;
        let report = LoadReport {
            contract_version: 1,
            ok: true,
            first_failure: None,
            protocol: factors.protocol,
            connect: ([127, 0, 0, 1], 9).into(),
            clients: factors.clients,
            window_per_client: factors.window,
            payload_bytes: factors.payload,
            warmup_ns: 0,
            duration_ns: whole_ns(job.timing.window),
            window_ns: whole_ns(job.timing.window),
            drain_ns: 0,
            verify: "full".to_owned(),
            counters: Counters {
                received: 1000,
                ..Counters::default()
            },
            round_trips_per_s: rate,
            payload_mib_per_s: rate / 512.0,
            rtt_service_ns: Percentiles {
                count: 1000,
                p50: Some(900_000),
                p99: Some(2_100_000),
                max: Some(5_000_000),
                ..Percentiles::default()
            },
            histogram_v2: None,
            little_ratio: Some(1.0),
            client: ProcessUse {
                cpu_share: Some(0.7),
                ..ProcessUse::default()
            },
            server: Some(ProcessUse {
                cpu_ns_per_rt: Some(cpu_ns),
                rss_peak_bytes: Some(9_000_000),
                ..ProcessUse::default()
            }),
            udp: None,
            tls: None,
        };
        let calls = CallCount {
            per_round_trip: Some(1.9),
            system_calls: Some(1900),
            round_trips: Some(1000),
            reason: None,
        };
        Outcome {
            load: Some(report),
            calls: (job.pass == Pass::Counted).then_some(calls),
            ..Outcome::default()
        }
    }

    /// Runs a design with invented results.
    pub(crate) fn conduct(
        design: Design,
        interrupt: &Interrupt,
        script: impl FnMut(&Job<'_>, u32) -> Outcome,
    ) -> (Plan, Record) {
        conduct_and_keep(design, interrupt, script).0
    }

    /// The same with cells of one's own.
    pub(crate) fn conduct_cells(
        cells: Vec<Cell>,
        design: Design,
        interrupt: &Interrupt,
        script: impl FnMut(&Job<'_>, u32) -> Outcome,
    ) -> (Plan, Record) {
        keep(cells, design, interrupt, script).0
    }

    fn conduct_and_keep(
        design: Design,
        interrupt: &Interrupt,
        script: impl FnMut(&Job<'_>, u32) -> Outcome,
    ) -> ((Plan, Record), Kept) {
        keep(small().cells().unwrap(), design, interrupt, script)
    }

    fn keep(
        cells: Vec<Cell>,
        design: Design,
        interrupt: &Interrupt,
        script: impl FnMut(&Job<'_>, u32) -> Outcome,
    ) -> ((Plan, Record), Kept) {
        let now = Shared::new(Duration::ZERO);
        let mut kept = Kept::default();
        let mut runner = Invented {
            script: Box::new(script),
            now: &now,
            seen: 0,
        };
        let campaign = Campaign {
            plan: Plan::new(cells, design),
            runner: &mut runner,
            keeper: &mut kept,
            interrupt,
            progress: &Progress::Silent,
            clock: &|| now.get(),
        };
        let done = campaign.run().unwrap();
        (done, kept)
    }

    fn quiet() -> Interrupt {
        Interrupt::pretend(None)
    }

    #[test]
    fn rounds_follow_the_plan_and_calls_are_counted_last() {
        let ((plan, record), kept) =
            conduct_and_keep(design(3, Order::Random, 5), &quiet(), |job, _| {
                good(job, 1e5, 7e3)
            });
        assert_eq!((kept.plans, kept.rounds, record.rounds_ran), (1, 3, 3));
        let timed: Vec<&str> = record
            .repetitions
            .iter()
            .filter(|r| r.pass == Pass::Timed)
            .map(|r| r.cell.as_str())
            .collect();
        let planned: Vec<&str> = plan
            .orders
            .iter()
            .flatten()
            .map(|at| plan.cells[*at].id.as_str())
            .collect();
        assert_eq!(timed, planned);
        let counted: Vec<&Repetition> = record
            .repetitions
            .iter()
            .filter(|r| r.pass == Pass::Counted)
            .collect();
        assert_eq!(counted.len(), 3, "not the control");
        assert!(counted.iter().all(|r| r.outcome.calls.is_some()));
        assert_eq!(kept.repetitions.len(), record.repetitions.len());
    }

    #[test]
    fn a_failure_does_not_end_the_run() {
        let (_, record) = conduct(design(6, Order::Random, 5), &quiet(), |job, seen| {
            if seen == 3 {
                Outcome {
                    failure: Some(Failure::new("E-X", "bad luck")),
                    ..Outcome::default()
                }
            } else {
                good(job, 1e5, 7e3)
            }
        });
        assert_eq!(record.rounds_ran, 6);
        assert_eq!(record.repetitions.iter().filter(|r| !r.ok()).count(), 1);
    }

    #[test]
    fn an_interruption_ends_it_and_the_open_round_does_not_count() {
        let interrupt = quiet();
        let ((_, record), kept) =
            conduct_and_keep(design(6, Order::Random, 5), &interrupt, |job, seen| {
                if seen == 10 {
                    interrupt.raise();
                    return Outcome {
                        interrupted: true,
                        ..Outcome::default()
                    };
                }
                good(job, 1e5, 7e3)
            });
        assert_eq!(
            (
                record.rounds_ran,
                record.repetitions.len(),
                kept.repetitions.len()
            ),
            (2, 10, 10)
        );
        assert_eq!(
            record
                .interrupted
                .map(|signal| Exit::Interrupted(signal).code()),
            Some(130)
        );
    }

    #[test]
    fn the_budget_drops_whole_rounds() {
        let budget = Design {
            budget: Some(Duration::from_secs(3)),
            ..design(10, Order::Random, 5)
        };
        let (plan, record) = conduct(budget, &quiet(), |job, _| good(job, 1e5, 7e3));
        assert_eq!(
            plan.timing.window,
            Duration::from_millis(120),
            "the shortest window"
        );
        assert!(
            (1..10).contains(&record.rounds_ran),
            "{}",
            record.rounds_ran
        );
        let timed = record
            .repetitions
            .iter()
            .filter(|r| r.pass == Pass::Timed)
            .count();
        assert_eq!(timed, 4 * record.rounds_ran as usize, "no round half done");
        assert_eq!(
            record
                .repetitions
                .iter()
                .filter(|r| r.pass == Pass::Rehearsal)
                .count(),
            1
        );
        assert_eq!(
            record
                .repetitions
                .iter()
                .filter(|r| r.pass == Pass::Counted)
                .count(),
            3
        );
    }

    #[test]
    fn the_floor_is_measured_first_and_kept_but_is_no_cell() {
        let with_floor = |rounds| Design {
            floor: true,
            budget: Some(Duration::from_secs(20)),
            ..design(rounds, Order::Random, 5)
        };
        let mut passes = Vec::new();
        let ((plan, record), kept) = conduct_and_keep(with_floor(3), &quiet(), |job, _| {
            passes.push(job.pass);
            if job.pass == Pass::Floor {
                assert_eq!(job.timing, floor::TIMING);
                return Outcome {
                    failure: Some(Failure::new("E-X", "bad luck")),
                    ..Outcome::default()
                };
            }
            good(job, 1e5, 7e3)
        });
        let measured = 2 * floor::TIMES as usize;
        assert!(passes[..measured].iter().all(|pass| *pass == Pass::Floor));
        assert_eq!(passes[measured], Pass::Rehearsal);
        assert_eq!((record.rounds_ran, record.floor.len()), (3, measured));
        assert!(record.repetitions.iter().all(Repetition::ok));
        assert_eq!(
            kept.repetitions[..measured],
            plan.floor
                .iter()
                .flat_map(|cell| (1..=floor::TIMES).map(|time| format!("{}-floor{time}", cell.id)))
                .collect::<Vec<_>>()
        );
        assert_eq!(kept.repetitions.len(), record.repetitions.len() + measured);
    }

    #[test]
    fn a_signal_during_the_floor_ends_it_there() {
        let design = Design {
            floor: true,
            budget: Some(Duration::from_secs(20)),
            ..design(6, Order::Random, 5)
        };
        let interrupt = quiet();
        let (_, record) = conduct(design, &interrupt, |_, _| {
            interrupt.raise();
            Outcome {
                interrupted: true,
                ..Outcome::default()
            }
        });
        assert_eq!((record.floor.len(), record.repetitions.len()), (1, 0));
        assert!(record.interrupted.is_some());
    }

    #[test]
    fn an_ample_budget_runs_all_with_the_longest_window() {
        let budget = Design {
            budget: Some(Duration::from_secs(50)),
            ..design(6, Order::Random, 5)
        };
        let (plan, record) = conduct(budget, &quiet(), |job, _| good(job, 1e5, 7e3));
        assert_eq!(
            (plan.timing.window, record.rounds_ran),
            (Duration::from_secs(1), 6)
        );
    }
}
