//! `bench` without arguments: the comparison this tool is for, in under a minute.

use crate::cli::{self, QuickArgs};
use crate::contract::Protocol;
use crate::exit::Exit;
use crate::host;
use crate::matrix::{Controls, Design, Matrix, Order, Plan};
use crate::repetition::{LossRule, Timing, Verify};
use crate::study;
use std::time::Duration;

/// What it measures. `echo` is left out: no comparison with anything but itself would be fair.
const PROTOCOLS: [Protocol; 7] = [
    Protocol::Tcp,
    Protocol::Udp,
    Protocol::Tls,
    Protocol::Ws,
    Protocol::Wss,
    Protocol::Http,
    Protocol::Https,
];

/// Runs it.
pub(crate) fn run(args: &QuickArgs) -> anyhow::Result<Exit> {
    study::refuse_debug_build(args.output.allow_debug)?;
    let plan = Plan::new(matrix(host::usable_cpus()).cells()?, design(args));
    study::conduct(plan, &args.output.output(Duration::from_secs(10)))
}

/// Pool N, shards 1 and shards N of every protocol, and a control over streams and one over datagrams.
fn matrix(cpus: usize) -> Matrix {
    let cpus = cpus.clamp(1, cli::THREADS_MAX);
    Matrix {
        protocols: PROTOCOLS.to_vec(),
        shards: cli::one_and(cpus),
        pools: vec![cpus],
        drivers: vec!["auto".to_owned()],
        accepts: Vec::new(),
        spins_us: vec![0],
        payloads: vec![1024],
        clients: vec![16],
        windows: vec![8],
        works: vec![0],
        family: cli::family(false),
        controls: Controls::EachTransport,
    }
}

fn design(args: &QuickArgs) -> Design {
    Design {
        name: "quick",
        rounds: args.rounds,
        order: Order::Random,
        seed: args.seed.unwrap_or_else(cli::some_seed),
        timing: Timing {
            warmup: Duration::from_millis(80),
            window: Duration::from_secs(1),
        },
        verify: Verify::Full,
        // No loss is allowed here, so a short wait would find none sooner; it would only call a machine that stood still lossy.
        losses: LossRule {
            timeout: Duration::from_secs(1),
            max_loss: 0.0,
        },
        noise_threshold: 0.02,
        budget: Some(args.budget),
        floor: !args.no_floor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Cell;
    use crate::matrix::OVERHEAD_ASSUMED;
    use clap::Parser;

    fn labels(cpus: usize) -> Vec<String> {
        let cells = matrix(cpus).cells().unwrap();
        let of = |protocol: Protocol| -> Vec<String> {
            let mine = cells
                .iter()
                .filter(|cell| cell.factors.protocol == protocol);
            mine.map(Cell::label).collect()
        };
        assert_eq!(of(Protocol::Tcp), of(Protocol::Udp), "the same cells");
        let without_control: Vec<String> = of(Protocol::Tcp)
            .into_iter()
            .filter(|label| !label.ends_with("A/A"))
            .collect();
        for protocol in &PROTOCOLS[2..] {
            assert_eq!(of(*protocol), without_control);
        }
        of(Protocol::Tcp)
    }

    #[test]
    fn two_cpus_stay_within_a_minute() {
        let args = cli::Cli::parse_from(["bench"]).quick;
        let plan = Plan::new(matrix(2).cells().unwrap(), design(&args));
        assert_eq!((plan.cells.len(), plan.rounds), (23, 6));
        assert!(
            plan.timing.window >= Duration::from_millis(150),
            "{:?}",
            plan.timing
        );
        assert!(plan.estimate(OVERHEAD_ASSUMED) <= args.budget);
    }

    #[test]
    fn cells_by_number_of_cpus() {
        assert_eq!(labels(1), ["pool 1", "pool 1 A/A", "shards 1"]);
        assert_eq!(labels(2), ["pool 2", "pool 2 A/A", "shards 1", "shards 2"]);
        assert_eq!(
            labels(96),
            ["pool 64", "pool 64 A/A", "shards 1", "shards 64"]
        );
    }
}
