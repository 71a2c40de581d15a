//! `bench list`: what this build and this machine offer, and the cells that `run` would measure with the same flags.

use crate::cli::ListArgs;
use crate::contract::Protocol;
use crate::exit::Exit;
use crate::host::{self, DriverInfo};
use crate::matrix::{OVERHEAD_ASSUMED, Plan};
use crate::report::table::wrap;
use crate::{checks, stdout};
use shardloop::Accept;
use std::fmt::Write as _;

/// Prints it.
pub(crate) fn run(args: &ListArgs) -> anyhow::Result<Exit> {
    let plan = Plan::new(args.matrix.matrix()?.cells()?, args.design.design());
    stdout::put(&describe(&plan, &host::drivers()));
    stdout::put(&checks::foreseen(&plan));
    Ok(Exit::Success)
}

fn describe(plan: &Plan, drivers: &[DriverInfo]) -> String {
    let mut text = format!(
        "protocols   {}\n",
        Protocol::ALL.map(Protocol::name).join(", ")
    );
    text.push_str("drivers     auto\n");
    for driver in drivers {
        let state = match &driver.available {
            Ok(facility) => format!("available: {facility}"),
            Err(reason) => format!("not available here: {reason}"),
        };
        let mark = format!("            {:<14}  {:<8}  ", driver.name, driver.engine);
        text.push_str(&wrap(&mark, &state));
    }
    let _ = writeln!(
        text,
        "accept      {}",
        Accept::ALL.map(Accept::name).join(", ")
    );
    let _ = writeln!(text, "cells       {}", plan.cells.len());
    for cell in &plan.cells {
        let _ = writeln!(text, "            {}", cell.id);
    }
    let _ = writeln!(text, "floor       {}", plan.floor_label());
    let _ = writeln!(
        text,
        "run         {} rounds, about {} s",
        plan.rounds,
        plan.estimate(OVERHEAD_ASSUMED).as_secs() + 1
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Order;
    use crate::matrix::tests::{design, small};
    use crate::report::table::WIDTH;

    #[test]
    fn availability_comes_with_its_reason() {
        let drivers = [
            DriverInfo {
                name: "monoio-uring",
                engine: "monoio",
                available: Err("not permitted".to_owned()),
            },
            DriverInfo {
                name: "compio",
                engine: "compio",
                available: Err("io_uring is not offered here ".repeat(6)),
            },
            DriverInfo {
                name: "monoio-legacy",
                engine: "monoio",
                available: Ok("epoll".to_owned()),
            },
        ];
        let text = describe(
            &Plan::new(small().cells().unwrap(), design(6, Order::Random, 1)),
            &drivers,
        );
        assert!(
            text.contains("monoio-uring    monoio    not available here: not permitted\n"),
            "{text}"
        );
        assert!(
            text.contains("monoio-legacy   monoio    available: epoll\n"),
            "{text}"
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        assert!(text.contains("cells       4\n"), "{text}");
        assert!(
            text.contains("tcp, echo, udp, tls, ws, wss, http, https\n")
                && text.contains("accept      reuseport, "),
            "{text}"
        );
        assert!(text.contains("floor       not measured\n"), "{text}");
    }
}
