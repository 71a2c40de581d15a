//! `bench run`: a matrix of one's own.

use crate::cli::RunArgs;
use crate::exit::Exit;
use crate::matrix::{OVERHEAD_ASSUMED, Plan};
use crate::{checks, stdout, study};
use std::fmt::Write as _;
use std::time::Duration;

/// Runs it, or shows what would be run.
pub(crate) fn run(args: &RunArgs) -> anyhow::Result<Exit> {
    let plan = Plan::new(args.matrix.matrix()?.cells()?, args.design.design());
    if args.dry_run {
        stdout::put(&describe(&plan));
        stdout::put(&checks::foreseen(&plan));
        return Ok(Exit::Success);
    }
    study::refuse_debug_build(args.output.allow_debug)?;
    study::conduct(plan, &args.output.output(Duration::from_secs(45)))
}

/// The plan in words: cells, order, times.
fn describe(plan: &Plan) -> String {
    let mut text = format!("{} cells:\n", plan.cells.len());
    for (number, cell) in (1..).zip(&plan.cells) {
        let _ = writeln!(text, "  {number:>3}  {}", cell.id);
    }
    let _ = writeln!(text, "order, seed {}:", plan.seed);
    for (round, order) in (1..).zip(&plan.orders) {
        let numbers: Vec<String> = order.iter().map(|at| (at + 1).to_string()).collect();
        let _ = writeln!(text, "  round {round:>3}  {}", numbers.join(" "));
    }
    let _ = writeln!(text, "the generator's floor first: {}.", plan.floor_label());
    let fitted = if plan.budget_ns.is_some() {
        ", fitted again after a rehearsal"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "{} repetitions of {} ms warm-up and {} ms window{fitted}; then each cell once with its system calls counted.",
        plan.repetitions(),
        plan.timing.warmup.as_millis(),
        plan.timing.window.as_millis()
    );
    let _ = writeln!(
        text,
        "about {} s. nothing was run.",
        plan.estimate(OVERHEAD_ASSUMED).as_secs() + 1
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Order;
    use crate::matrix::tests::{design, small};

    #[test]
    fn a_dry_run_tells_everything() {
        let text = describe(&Plan::new(
            small().cells().unwrap(),
            design(3, Order::Abba, 42),
        ));
        assert!(
            text.starts_with("4 cells:\n    1  tcp.pool2.tokio.1024.c16.w8.work0.closed\n"),
            "{text}"
        );
        assert!(
            text.contains("order, seed 42:\n  round   1  1 2 3 4\n  round   2  4 3 2 1\n"),
            "{text}"
        );
        assert!(
            text.contains("12 repetitions of 80 ms warm-up and 1000 ms window;"),
            "{text}"
        );
        assert!(text.contains("floor first: not measured.\n"), "{text}");
        assert!(text.ends_with("about 16 s. nothing was run.\n"), "{text}");
    }
}
