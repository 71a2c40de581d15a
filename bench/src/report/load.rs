//! The tables of one load: rates and CPU against the baseline, what a round trip costs, how long it takes.

use super::table::{Align, Field, Table, Tone, Unit, VERDICT, WIDTH, three_digits, wrap};
use crate::analysis::{CellSummary, Relation, Status, Versus};
use crate::contract::{Model, Percentiles};
use crate::loss::Loss;
use crate::measure::stats::Summary;
use crate::measure::verdict::{Control, Metric, Verdict};
use crate::result::{CellFile, RunFile};
use std::fmt::Write as _;

/// All of them.
pub(super) fn tables(file: &RunFile, group: &[&CellFile], colours: bool) -> String {
    let driver = match shared_driver(group) {
        None | Some("auto") => String::new(),
        Some(driver) => format!(", shards on {driver}"),
    };
    let load = group[0].result.cell.factors.load_label();
    let mut text = format!("\n{load}{driver}\n");
    let (rates, cpu) = (rate_table(file, group), cpu_ratio_table(file, group));
    let both = rates.beside(&cpu);
    if both.width() <= WIDTH {
        text.push_str(&both.render(colours));
    } else {
        text.push_str(&format!(
            "{}\n{}",
            rates.render(colours),
            cpu.render(colours)
        ));
    }
    text.push_str(&further_comparisons(group, colours));
    let _ = write!(
        text,
        "\n{}\n{}",
        cost_table(group).render(colours),
        time_table(group).render(colours)
    );
    text.push_str(&losses(group));
    text
}

/// Where datagrams were lost, cell by cell, failed ones among them; nothing if none was.
fn losses(group: &[&CellFile]) -> String {
    let told = group.iter().filter_map(|cell| {
        let of_cell = cell
            .repetitions
            .iter()
            .filter_map(|repetition| repetition.loss);
        let words = Loss::sum(of_cell)?.words()?;
        let label = name(group, &cell.result.cell.label());
        Some(wrap("           ", &format!("{label}: {words}.")))
    });
    let told: String = told.collect();
    if told.is_empty() {
        told
    } else {
        format!("\nlost       over all repetitions, warm-up and drain included\n{told}")
    }
}

/// The driver of every cell with shards, if it is one; it is named above the tables instead of in every row.
fn shared_driver<'a>(group: &[&'a CellFile]) -> Option<&'a str> {
    let mut drivers: Vec<&str> = group
        .iter()
        .map(|cell| &cell.result.cell.factors)
        .filter(|factors| factors.model == Model::Shards)
        .map(|factors| factors.driver.as_str())
        .collect();
    drivers.dedup();
    match drivers.as_slice() {
        [only] => Some(only),
        _ => None,
    }
}

/// A cell's label without the driver that all have in common.
fn name(group: &[&CellFile], label: &str) -> String {
    shared_driver(group).map_or(label.to_owned(), |driver| {
        label.replace(&format!(" {driver}"), "")
    })
}

fn rate_table(file: &RunFile, group: &[&CellFile]) -> Table {
    let summaries = || {
        group
            .iter()
            .filter_map(|cell| shown(cell).round_trips_per_s)
    };
    let unit = Unit::for_values(summaries().map(|summary| summary.hi));
    let mut table = Table::default()
        .column("", "cell", Align::Left)
        .column("round trips/s", "median [lo..hi]", Align::Right)
        .column(&ratio_header(group), "[lo, hi]", Align::Right)
        .column("", VERDICT, Align::Left);
    for cell in group {
        let rate = shown(cell).round_trips_per_s;
        let rate = shown_interval(cell, rate.as_ref(), &|value| unit.show(value));
        let [ratio, verdict] = ratio_fields(file, cell, Metric::RoundTripsPerS);
        table.row(vec![
            name(group, &cell.result.cell.label()).into(),
            rate.into(),
            ratio,
            verdict,
        ]);
    }
    table
}

fn cpu_ratio_table(file: &RunFile, group: &[&CellFile]) -> Table {
    let mut table = Table::default()
        .column("", "cell", Align::Left)
        .column("server", "CPU us/RT", Align::Right)
        .column(&ratio_header(group), "[lo, hi]", Align::Right)
        .column("", VERDICT, Align::Left);
    for cell in group {
        let cpu = shown(cell)
            .server_cpu_ns_per_rt
            .map_or(absent(cell), |summary| {
                three_digits(summary.median / 1000.0)
            });
        let [ratio, verdict] = ratio_fields(file, cell, Metric::ServerCpuNsPerRt);
        table.row(vec![
            name(group, &cell.result.cell.label()).into(),
            cpu.into(),
            ratio,
            verdict,
        ]);
    }
    table
}

/// Names the baseline if there is only one.
fn ratio_header(group: &[&CellFile]) -> String {
    let mut labels: Vec<&str> = group
        .iter()
        .filter_map(|cell| main_versus(cell, Metric::RoundTripsPerS))
        .map(|versus| versus.baseline_label.as_str())
        .collect();
    labels.dedup();
    match labels.as_slice() {
        [] => "ratio".to_owned(),
        [only] => format!("ratio to {}", name(group, only)),
        _ => "ratio to pool".to_owned(),
    }
}

/// The comparison the main table shows.
fn main_versus(cell: &CellFile, metric: Metric) -> Option<&Versus> {
    cell.result
        .versus(Relation::Pool, metric)
        .or_else(|| cell.result.versus(Relation::Control, metric))
}

fn ratio_fields(file: &RunFile, cell: &CellFile, metric: Metric) -> [Field; 2] {
    match main_versus(cell, metric) {
        None => ["—".into(), "".into()],
        Some(versus) if versus.relation == Relation::Control => {
            let floor = file.comparisons.floor(cell.result.cell.factors.protocol);
            let word = match floor.of(metric).control {
                Control::Differs => "bad",
                Control::Missing => "failed",
                Control::Good | Control::LeftOut => "",
            };
            [ratio(versus).into(), word.into()]
        }
        Some(versus) => [ratio(versus).into(), verdict_field(versus.verdict)],
    }
}

pub(super) fn verdict_field(verdict: Verdict) -> Field {
    let tone = match verdict.favourable() {
        Some(true) => Tone::Good,
        Some(false) => Tone::Bad,
        None => Tone::Plain,
    };
    Field::toned(verdict.short(), tone)
}

pub(super) fn ratio(versus: &Versus) -> String {
    match (versus.median, versus.lo, versus.hi) {
        (Some(median), Some(lo), Some(hi)) => {
            format!("{median:.2} [{}, {}]", interval_end(lo), interval_end(hi))
        }
        _ => "—".to_owned(),
    }
}

/// Whether an interval contains 1 decides its verdict, so an end near 1 shows on which side it lies.
fn interval_end(value: f64) -> String {
    let short = format!("{value:.2}");
    if short == "1.00" && value != 1.0 {
        format!("{value:.3}")
    } else {
        short
    }
}

/// The figures to show: none of a cell that failed, for they are out of every comparison.
pub(super) fn shown(cell: &CellFile) -> CellSummary {
    if cell.result.status == Status::Failed {
        CellSummary::default()
    } else {
        cell.result.summary.clone()
    }
}

/// What stands where a cell has no median.
fn absent(cell: &CellFile) -> String {
    if cell.result.status == Status::Failed {
        "FAILED"
    } else {
        "—"
    }
    .to_owned()
}

fn shown_interval(
    cell: &CellFile,
    summary: Option<&Summary>,
    show: &dyn Fn(f64) -> String,
) -> String {
    summary.map_or(absent(cell), |summary| {
        format!(
            "{} [{}..{}]",
            show(summary.median),
            show(summary.lo),
            show(summary.hi)
        )
    })
}

/// Comparisons that have no column: scaling against one shard, and drivers and settings against each other.
fn further_comparisons(group: &[&CellFile], colours: bool) -> String {
    let mut table = Table::default()
        .column("", "further", Align::Left)
        .column("round trips/s", "ratio [lo, hi]", Align::Right)
        .column("", VERDICT, Align::Left)
        .column("server CPU/RT", "ratio [lo, hi]", Align::Right)
        .column("", VERDICT, Align::Left);
    let mut any = false;
    for cell in group {
        for relation in [Relation::OneShard, Relation::Driver, Relation::Setting] {
            let pair = cell
                .result
                .versus(relation, Metric::RoundTripsPerS)
                .zip(cell.result.versus(relation, Metric::ServerCpuNsPerRt));
            let Some((rate, cpu)) = pair else { continue };
            let names = format!("{} to {}", cell.result.cell.label(), rate.baseline_label);
            let names = name(group, &names);
            table.row(vec![
                names.into(),
                ratio(rate).into(),
                verdict_field(rate.verdict),
                ratio(cpu).into(),
                verdict_field(cpu.verdict),
            ]);
            any = true;
        }
    }
    if any {
        format!("\n{}", table.render(colours))
    } else {
        String::new()
    }
}

fn cost_table(group: &[&CellFile]) -> Table {
    let mut table = Table::default()
        .column("", "cell", Align::Left)
        .column("server CPU us/RT", "median [lo..hi]", Align::Right)
        .column("client", "us/RT", Align::Right)
        .column("client", "CPU share", Align::Right)
        .column("system", "calls/RT", Align::Right)
        .column("switches", "/RT", Align::Right)
        .column("server RSS", "peak MiB", Align::Right)
        .column("payload", "MiB/s", Align::Right);
    for cell in group {
        let summary = shown(cell);
        let number = |value: Option<f64>| Field::from(value.map_or("—".to_owned(), three_digits));
        let share = summary
            .client_cpu_share
            .map_or("—".to_owned(), |share| format!("{:.0} %", share * 100.0));
        table.row(vec![
            name(group, &cell.result.cell.label()).into(),
            shown_interval(cell, summary.server_cpu_ns_per_rt.as_ref(), &|ns| {
                three_digits(ns / 1000.0)
            })
            .into(),
            number(summary.client_cpu_ns_per_rt.map(|cpu| cpu.median / 1000.0)),
            share.into(),
            number(
                summary
                    .system_calls
                    .as_ref()
                    .and_then(|calls| calls.per_round_trip),
            ),
            number(summary.server_switches_per_rt),
            number(
                summary
                    .server_rss_peak_bytes
                    .map(|bytes| bytes as f64 / (1024.0 * 1024.0)),
            ),
            number(summary.payload_mib_per_s.map(|rate| rate.median)),
        ]);
    }
    table
}

/// Closed loop: this is mostly queueing inside the window, and the header says so.
fn time_table(group: &[&CellFile]) -> Table {
    let mut table = Table::default().column("RTT us inside the window", "cell", Align::Left);
    for (above, header) in [
        ("all runs", "p50"),
        ("merged", "p99"),
        ("", "p99.9"),
        ("", "max"),
        ("median of", "p50"),
        ("runs", "p99"),
        ("", "p99.9"),
    ] {
        table = table.column(above, header, Align::Right);
    }
    for cell in group {
        let times = shown(cell).rtt_service_ns;
        let merged = times.merged.unwrap_or_default();
        let [mut p50, p99, p99_9, max] = main_percentiles(&merged);
        if cell.result.status == Status::Failed {
            p50 = absent(cell).into();
        }
        let [run_p50, run_p99, run_p99_9, _] = main_percentiles(&times.median_of_runs);
        table.row(vec![
            name(group, &cell.result.cell.label()).into(),
            p50,
            p99,
            p99_9,
            max,
            run_p50,
            run_p99,
            run_p99_9,
        ]);
    }
    table
}

fn main_percentiles(percentiles: &Percentiles) -> [Field; 4] {
    let shown = |ns: Option<u64>| {
        Field::from(ns.map_or("—".to_owned(), |ns| three_digits(ns as f64 / 1000.0)))
    };
    [
        shown(percentiles.p50),
        shown(percentiles.p99),
        shown(percentiles.p99_9),
        shown(percentiles.max),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_near_one_shows_its_side() {
        let shown = [1.0, 1.004, 0.996, 0.9949, 1.0051, 1.17].map(interval_end);
        assert_eq!(shown, ["1.00", "1.004", "0.996", "0.99", "1.01", "1.17"]);
    }
}
