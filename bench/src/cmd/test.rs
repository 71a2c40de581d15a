//! `bench test`: every protocol, driver and model once, and the null servers, for a hundred messages a client, with every reply checked. Not a
//! measurement, so it runs in any build.

use crate::case::Cell;
use crate::cli::{self, TestArgs};
use crate::contract::Protocol;
use crate::exit::Exit;
use crate::host::{self, Interrupt};
use crate::matrix::{Controls, Matrix};
use crate::process::{Limits, ProcessRunner};
use crate::repetition::{Job, LossRule, Outcome, Pass, Runner, Timing, Verify};
use crate::stdout;
use anyhow::Context;
use shardloop::Accept;
use shardloop_platform::socket::REUSE_PORT_SPREADS;
use std::io::{self, Write};
use std::time::Duration;

/// The longest a cell may take.
const TIMING: Timing = Timing {
    warmup: Duration::ZERO,
    window: Duration::from_secs(10),
};

/// Runs it.
pub(crate) fn run(args: &TestArgs) -> anyhow::Result<Exit> {
    let interrupt = Interrupt::install().context("signals could not be taken over")?;
    let limits = Limits::with_extra(Duration::from_secs(5));
    let mut runner = ProcessRunner::of_this_program(limits, interrupt.clone())
        .context("this program's own file could not be found")?;
    let mut cells = matrix(args).cells()?;
    cells.extend(null_servers(&cells));
    let (passed, failed) = check_all(&cells, &mut runner, &interrupt, &mut io::stdout());
    stdout::put(&format!("{passed} passed, {failed} failed\n"));
    Ok(match interrupt.caught() {
        Some(signal) => Exit::Interrupted(signal),
        None if failed > 0 || passed == 0 => Exit::Failed,
        None => Exit::Success,
    })
}

/// Every protocol, every driver that works here, every accept strategy, one shard, N shards and the pool.
fn matrix(args: &TestArgs) -> Matrix {
    let cpus = host::usable_cpus().clamp(1, cli::THREADS_MAX);
    Matrix {
        protocols: Protocol::ALL.to_vec(),
        shards: cli::one_and(cpus),
        pools: vec![cpus],
        drivers: working_drivers(),
        accepts: accepts(),
        spins_us: vec![0],
        payloads: vec![1024],
        clients: vec![4],
        windows: vec![4],
        works: vec![0],
        family: cli::family(args.ipv6),
        controls: Controls::None,
    }
}

/// One for streams, one for datagrams.
fn null_servers(cells: &[Cell]) -> Vec<Cell> {
    let first = |datagrams: bool| {
        let mut all = cells.iter();
        all.find(|cell| cell.factors.protocol.is_datagram() == datagrams)
    };
    let both = [false, true].into_iter().filter_map(first);
    both.map(|cell| Cell::null(&cell.factors)).collect()
}

/// Every accept strategy that this system has.
fn accepts() -> Vec<Accept> {
    let works = |accept: &Accept| *accept != Accept::ReusePort || REUSE_PORT_SPREADS;
    Accept::ALL.into_iter().filter(works).collect()
}

fn working_drivers() -> Vec<String> {
    let mut working = Vec::new();
    for driver in host::drivers() {
        match driver.available {
            Ok(_) => working.push(driver.name.to_owned()),
            Err(reason) => stdout::put(&format!("skip  {}: {reason}\n", driver.name)),
        }
    }
    working
}

fn check_all(
    cells: &[Cell],
    runner: &mut dyn Runner,
    interrupt: &Interrupt,
    out: &mut dyn Write,
) -> (usize, usize) {
    let (mut passed, mut failed) = (0, 0);
    for cell in cells {
        let outcome = runner.run(&Job {
            cell,
            timing: TIMING,
            verify: Verify::Full,
            losses: LossRule::default(),
            pass: Pass::Check,
        });
        if interrupt.caught().is_some() {
            break;
        }
        stdout::put_to(out, &format!("{}\n", verdict_line(cell, &outcome)));
        match outcome.failure {
            None => passed += 1,
            Some(_) => failed += 1,
        }
    }
    (passed, failed)
}

fn verdict_line(cell: &Cell, outcome: &Outcome) -> String {
    let name = format!("{:<5} {:<36}", cell.factors.protocol.name(), cell.label());
    match &outcome.failure {
        None => {
            let replies = outcome
                .load
                .as_ref()
                .map_or(0, |load| load.counters.received);
            format!("PASS  {name} {replies} replies verified")
        }
        Some(failure) => {
            let tail: String = failure
                .stderr_tail
                .iter()
                .map(|line| format!("\n      | {line}"))
                .collect();
            format!("FAIL  {name} {}: {}{tail}", failure.id, failure.text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::tests::good;
    use crate::repetition::Failure;

    struct EverySecond(u32);

    impl Runner for EverySecond {
        fn run(&mut self, job: &Job<'_>) -> Outcome {
            self.0 += 1;
            if self.0.is_multiple_of(2) {
                return Outcome {
                    failure: Some(Failure::new("E-LOAD-FAILED", "content_errors 1")),
                    ..Outcome::default()
                };
            }
            good(job, 1e5, 7e3)
        }
    }

    #[test]
    fn passes_and_failures_are_counted_and_told() {
        let mut out = Vec::new();
        let cells = matrix(&TestArgs { ipv6: false }).cells().unwrap();
        let (passed, failed) = {
            let quiet = Interrupt::pretend(None);
            check_all(&cells, &mut EverySecond(0), &quiet, &mut out)
        };
        let told = String::from_utf8(out).unwrap();
        assert_eq!(told.matches("FAIL  ").count(), failed, "{told}");
        assert_eq!(passed + failed, cells.len());
        assert_eq!(failed, cells.len() / 2);
        let failure = Outcome {
            failure: Some(Failure::new("E-X", "bad luck")),
            ..Outcome::default()
        };
        assert!(verdict_line(&cells[0], &failure).starts_with("FAIL  tcp   pool"));
        let fine = good(
            &Job {
                cell: &cells[0],
                timing: TIMING,
                verify: Verify::Full,
                losses: LossRule::default(),
                pass: Pass::Timed,
            },
            1.0,
            1.0,
        );
        assert!(verdict_line(&cells[0], &fine).ends_with("1000 replies verified"));
    }
}
