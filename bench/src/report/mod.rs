//! The final print: from `run.json` to lines of text. Measures nothing and decides nothing; it only words what was analysed.

pub(crate) mod table;

use crate::analysis::{Relation, Status, Versus};
use crate::contract::Percentiles;
use crate::measure::stats::Summary;
use crate::measure::verdict::{Metric, Verdict};
use crate::measure::warning::{Check, Level};
use crate::result::{CellFile, RunFile};
use std::fmt::Write as _;
use table::{Align, Field, Table, Tone, Unit, WIDTH, flow, three_digits, wrap};

/// Whether colours may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Text only.
    Plain,
    /// Colours for verdicts.
    Coloured,
}

impl Look {
    /// Colours only on a terminal whose user has not declined them.
    pub(crate) fn fitting(no_color: bool, terminal: bool) -> Self {
        let declined =
            no_color || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        if declined || !terminal {
            Look::Plain
        } else {
            Look::Coloured
        }
    }
}

/// The whole print.
pub(crate) fn render(file: &RunFile, folder: &str, look: Look) -> String {
    let mut text = String::from("\n");
    text.push_str(&heading(file));
    text.push_str(&checks(file));
    if file.design.rounds_ran == 0 {
        text.push_str("\nno round was completed; there is nothing to compare.\n");
    } else {
        text.push_str(&noise_headline(file));
        for group in groups(file) {
            text.push_str(&group_tables(file, &group, look == Look::Coloured));
        }
        text.push_str(&reading_aid(file));
    }
    text.push_str(&failures(file, folder));
    text.push_str(&closing(file, folder));
    text
}

fn heading(file: &RunFile) -> String {
    let (host, design) = (&file.host, &file.design);
    let rustc = file
        .tool
        .rustc
        .as_deref()
        .and_then(|rustc| rustc.split(' ').next())
        .unwrap_or("unknown");
    let kernel = host.kernel.as_deref().unwrap_or("");
    let machine = host
        .virtualised
        .as_deref()
        .map_or(String::new(), |kind| format!(", virtual machine ({kind})"));
    let about = [
        format!("bench {}", design.name),
        file.source.label(),
        format!("rustc {rustc}"),
        format!("{} {kernel} {}", host.os, host.arch),
        format!("{} CPUs{machine}", host.cpus),
        format!("seed {}", design.seed),
    ];
    let ran = if design.rounds_ran == design.rounds {
        String::new()
    } else {
        format!("{} of ", design.rounds_ran)
    };
    let how = format!(
        "closed loop, loopback, replies checked: {}. {ran}{} rounds x {} ms after {} ms warm-up, {} order.{}",
        design.verify.name(),
        design.rounds,
        design.window_ns / 1_000_000,
        design.warmup_ns / 1_000_000,
        format!("{:?}", design.order).to_lowercase(),
        design
            .interval_coverage
            .map_or(String::new(), |coverage| format!(
                " [lo..hi]: {:.1} % interval of the median.",
                coverage * 100.0
            )),
    );
    flow(&about, "   ") + &wrap("", &how)
}

fn checks(file: &RunFile) -> String {
    let mut checks: Vec<&Check> = file.checks.iter().collect();
    checks.sort_by_key(|check| check.level);
    checks.into_iter().map(warning_line).collect()
}

/// A check as it is shown: what was seen, why it matters, what to do, and its id.
pub(crate) fn warning_line(check: &Check) -> String {
    let mark = if check.level == Level::Warning {
        "! "
    } else {
        "i "
    };
    wrap(mark, &format!("{} [{}]", check.text, check.id))
}

fn noise_headline(file: &RunFile) -> String {
    let floors = &file.comparisons;
    let what = match (
        floors.rate_floor.control_failed,
        floors.cpu_floor.control_failed,
    ) {
        (true, true) => "This run is too noisy to rank anything",
        (true, false) => "This run is too noisy to rank anything by round trips/s",
        (false, true) => "This run is too noisy to rank anything by server CPU",
        (false, false) => return String::new(),
    };
    format!(
        "\n{}",
        wrap(
            "",
            &format!(
                "{what}: the A/A control, the same cell twice, differs or scatters by more than 10 %. Ratios are listed, verdicts withheld."
            )
        )
    )
}

/// The cells of one load, the control among them.
type Group<'a> = Vec<&'a CellFile>;

fn groups(file: &RunFile) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for cell in &file.cells {
        let same = |group: &Group<'_>| {
            group[0]
                .result
                .cell
                .factors
                .same_load(&cell.result.cell.factors)
        };
        match groups.iter_mut().find(|group| same(group)) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    groups
}

fn group_tables(file: &RunFile, group: &[&CellFile], colours: bool) -> String {
    let mut text = format!("\n{}\n", group[0].result.cell.factors.load_label());
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
    text
}

fn rate_table(file: &RunFile, group: &[&CellFile]) -> Table {
    let summaries = || {
        group
            .iter()
            .filter_map(|cell| cell.result.summary.round_trips_per_s)
    };
    let unit = Unit::for_values(summaries().map(|summary| summary.hi));
    let mut table = Table::default()
        .column("", "cell", Align::Left)
        .column("round trips/s", "median [lo..hi]", Align::Right)
        .column(&ratio_header(group), "[lo, hi]", Align::Right)
        .column("", "verdict", Align::Left);
    for cell in group {
        let rate = shown_interval(cell.result.summary.round_trips_per_s.as_ref(), &|value| {
            unit.show(value)
        });
        let [ratio, verdict] = ratio_fields(file, cell, Metric::RoundTripsPerS);
        table.row(vec![
            cell.result.cell.label().into(),
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
        .column("", "verdict", Align::Left);
    for cell in group {
        let cpu = cell
            .result
            .summary
            .server_cpu_ns_per_rt
            .map_or("—".to_owned(), |summary| {
                three_digits(summary.median / 1000.0)
            });
        let [ratio, verdict] = ratio_fields(file, cell, Metric::ServerCpuNsPerRt);
        table.row(vec![
            cell.result.cell.label().into(),
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
        [only] => format!("ratio to {only}"),
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
            let floor = if metric == Metric::RoundTripsPerS {
                file.comparisons.rate_floor
            } else {
                file.comparisons.cpu_floor
            };
            [
                ratio(versus).into(),
                if floor.control_failed { "bad" } else { "" }.into(),
            ]
        }
        Some(versus) => [ratio(versus).into(), verdict_field(versus.verdict)],
    }
}

fn verdict_field(verdict: Verdict) -> Field {
    let tone = match verdict.favourable() {
        Some(true) => Tone::Good,
        Some(false) => Tone::Bad,
        None => Tone::Plain,
    };
    Field::toned(verdict.short(), tone)
}

fn ratio(versus: &Versus) -> String {
    match (versus.median, versus.lo, versus.hi) {
        (Some(median), Some(lo), Some(hi)) => format!("{median:.2} [{lo:.2}, {hi:.2}]"),
        _ => "—".to_owned(),
    }
}

fn shown_interval(summary: Option<&Summary>, show: &dyn Fn(f64) -> String) -> String {
    summary.map_or("—".to_owned(), |summary| {
        format!(
            "{} [{}..{}]",
            show(summary.median),
            show(summary.lo),
            show(summary.hi)
        )
    })
}

/// Comparisons that have no column: scaling against one shard, and drivers against each other.
fn further_comparisons(group: &[&CellFile], colours: bool) -> String {
    let mut table = Table::default()
        .column("", "further", Align::Left)
        .column("round trips/s", "ratio [lo, hi]", Align::Right)
        .column("", "verdict", Align::Left)
        .column("server CPU/RT", "ratio [lo, hi]", Align::Right)
        .column("", "verdict", Align::Left);
    let mut any = false;
    for cell in group {
        for relation in [Relation::OneShard, Relation::Driver] {
            let pair = cell
                .result
                .versus(relation, Metric::RoundTripsPerS)
                .zip(cell.result.versus(relation, Metric::ServerCpuNsPerRt));
            let Some((rate, cpu)) = pair else { continue };
            let names = format!("{} to {}", cell.result.cell.label(), rate.baseline_label);
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
        let summary = &cell.result.summary;
        let number = |value: Option<f64>| Field::from(value.map_or("—".to_owned(), three_digits));
        let share = summary
            .client_cpu_share
            .map_or("—".to_owned(), |share| format!("{:.0} %", share * 100.0));
        table.row(vec![
            cell.result.cell.label().into(),
            shown_interval(summary.server_cpu_ns_per_rt.as_ref(), &|ns| {
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
        let times = &cell.result.summary.rtt_service_ns;
        let merged = times.merged.clone().unwrap_or_default();
        let [p50, p99, p99_9, max] = main_percentiles(&merged);
        let [run_p50, run_p99, run_p99_9, _] = main_percentiles(&times.median_of_runs);
        table.row(vec![
            cell.result.cell.label().into(),
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

/// What the signs mean and how far the verdicts can be trusted.
fn reading_aid(file: &RunFile) -> String {
    let comparisons = &file.comparisons;
    let verdicts: Vec<Verdict> = all_versus(file).map(|versus| versus.verdict).collect();
    let mut text = String::from("\n");
    text.push_str(&control_line(file));
    if verdicts.contains(&Verdict::NoDifference) {
        text.push_str(&wrap("=?         ", &format!("no difference detected; the smallest difference these rounds could have shown: {}.", could_have_seen(file))));
    }
    if verdicts.contains(&Verdict::Equal) {
        text.push_str("equal      the whole interval lies within t.\n");
    }
    if verdicts.contains(&Verdict::TooNoisy) {
        text.push_str(
            "noisy      too noisy: the interval is wider than 10 % on each side, or the A/A control failed.\n",
        );
    }
    text.push_str(&wrap(
        "",
        &format!(
            "{} comparisons: about {:.1} false verdicts expected by chance if nothing differed.",
            comparisons.count, comparisons.chance_verdicts
        ),
    ));
    if let Some(missed) = comparisons.usually_missed_below {
        let line = format!(
            "with the noise seen here, differences in round trips/s below {:.1} % would usually be missed.",
            missed * 100.0
        );
        text.push_str(&wrap("", &line));
    }
    text
}

fn control_line(file: &RunFile) -> String {
    if !file.cells.iter().any(|cell| cell.result.cell.control) {
        return String::new();
    }
    let percent = |threshold: f64| format!("{:.1} %", threshold * 100.0);
    let (rate, cpu) = (file.comparisons.rate_floor, file.comparisons.cpu_floor);
    wrap(
        "A/A        ",
        &format!(
            "the same cell twice under two labels. differences count only beyond t = {} (round trips/s) and {} (CPU).",
            percent(rate.threshold),
            percent(cpu.threshold)
        ),
    )
}

fn could_have_seen(file: &RunFile) -> String {
    let seen = all_versus(file)
        .filter(|versus| versus.verdict == Verdict::NoDifference)
        .filter_map(|versus| versus.could_have_seen);
    let (low, high) = seen.fold((f64::MAX, 0.0_f64), |(low, high), seen| {
        (low.min(seen), high.max(seen))
    });
    let (low, high) = (
        format!("{:.0}", low * 100.0),
        format!("{:.0}", high * 100.0),
    );
    if low == high {
        format!("{low} %")
    } else {
        format!("{low} to {high} %")
    }
}

fn all_versus(file: &RunFile) -> impl Iterator<Item = &Versus> {
    file.cells
        .iter()
        .flat_map(|cell| &cell.result.versus)
        .filter(|versus| versus.relation != Relation::Control)
}

fn failures(file: &RunFile, folder: &str) -> String {
    if file.failed_cells == 0 {
        return String::new();
    }
    let (failed, cells) = (file.failed_cells, file.cells.len());
    let mut text = format!(
        "\n!!! {failed} of {cells} cells FAILED and are excluded from every comparison. Logs: {folder}/logs\n"
    );
    for cell in file
        .cells
        .iter()
        .filter(|cell| cell.result.status == Status::Failed)
    {
        let result = &cell.result;
        let reason = result.reason.as_deref().unwrap_or("unknown");
        let label = format!(
            "{}: {} failed. first: {reason}",
            result.cell.id, result.failed_repetitions
        );
        text.push_str(&wrap("    ", &label));
        let tail = cell
            .repetitions
            .iter()
            .find_map(|repetition| repetition.failure.as_ref())
            .map(|failure| failure.stderr_tail.as_slice());
        for line in tail.unwrap_or_default() {
            let _ = writeln!(
                text,
                "      | {}",
                line.chars().take(WIDTH - 8).collect::<String>()
            );
        }
    }
    text
}

fn closing(file: &RunFile, folder: &str) -> String {
    let mut text = String::from("\n");
    if file.interrupted {
        text.push_str("interrupted: only complete rounds are shown; the files are valid.\n");
    }
    if file.design.rounds_ran > 0 {
        text.push_str(&shows(file));
        text.push_str(&wrap("does not   ", &does_not_show(file)));
    }
    let _ = writeln!(
        text,
        "written    {folder}/run.json (+ report.txt, plan.json, samples.jsonl)"
    );
    if file.design.name == "quick" {
        text.push_str("next       bench run --rounds 10 --duration 1s      bench run --payload 64,1K,16K      bench list\n");
    }
    text
}

/// More comparisons than this are counted instead of told one by one.
const TOLD_MAX: usize = 6;

/// What the pool comparisons say, CPU first where the rate does not describe the server alone.
fn shows(file: &RunFile) -> String {
    let has = |id: &str| file.checks.iter().any(|check| check.id == id);
    let (floors, rate, cpu) = (
        &file.comparisons,
        Metric::RoundTripsPerS,
        Metric::ServerCpuNsPerRt,
    );
    let mut metrics = [
        (rate, "by round trips/s", floors.rate_floor.control_failed),
        (
            cpu,
            "by server CPU per round trip",
            floors.cpu_floor.control_failed,
        ),
    ];
    if has("W-SHARED-CPU") || has("W-CLIENT-BOUND") {
        metrics.reverse();
    }
    let mut text = String::from("shows      on this machine and load:\n");
    for (metric, by, withheld) in metrics {
        let found = if withheld {
            "nothing, it is too noisy".to_owned()
        } else {
            findings(file, metric)
        };
        text.push_str(&wrap("           ", &format!("{by}: {found}.")));
    }
    text
}

fn findings(file: &RunFile, metric: Metric) -> String {
    let versus: Vec<&Versus> = file
        .cells
        .iter()
        .filter_map(|cell| cell.result.versus(Relation::Pool, metric))
        .collect();
    match versus.len() {
        0 => "nothing was compared with a pool".to_owned(),
        1..=TOLD_MAX => {
            let told: Vec<String> = file
                .cells
                .iter()
                .filter_map(|cell| statement(file, cell, metric))
                .collect();
            told.join("; ")
        }
        all => format!("of {all} comparisons with the pool, {}", counted(&versus)),
    }
}

/// How often each verdict was given.
fn counted(versus: &[&Versus]) -> String {
    let mut counts: Vec<(Verdict, usize)> = Vec::new();
    for verdict in versus.iter().map(|versus| versus.verdict) {
        match counts.iter_mut().find(|(known, _)| *known == verdict) {
            Some((_, count)) => *count += 1,
            None => counts.push((verdict, 1)),
        }
    }
    let parts: Vec<String> = counts
        .iter()
        .map(|(verdict, count)| format!("{count} {verdict}"))
        .collect();
    parts.join(", ")
}

fn statement(file: &RunFile, cell: &CellFile, metric: Metric) -> Option<String> {
    let versus = cell.result.versus(Relation::Pool, metric)?;
    let load = if groups(file).len() > 1 {
        format!("{}, ", cell.result.cell.factors.load_label())
    } else {
        String::new()
    };
    let (cell, base) = (cell.result.cell.label(), &versus.baseline_label);
    let by = versus
        .median
        .map_or(String::new(), |median| format!(" (x {median:.2})"));
    Some(match versus.verdict {
        Verdict::Faster | Verdict::Slower => {
            format!("{load}{cell} is {} than {base}{by}", versus.verdict)
        }
        Verdict::LessCpu | Verdict::MoreCpu => {
            format!("{load}{cell} needs {} than {base}{by}", versus.verdict)
        }
        Verdict::Equal => format!("{load}{cell} and {base} are equal within t"),
        other => format!("{load}{cell} against {base}: {other}"),
    })
}

fn does_not_show(file: &RunFile) -> String {
    let shared = file.checks.iter().any(|check| check.id == "W-SHARED-CPU");
    let capacity = if shared {
        "capacity of the server alone (shared CPUs), "
    } else {
        ""
    };
    format!(
        "{capacity}other machines, real networks, lateness at a fixed rate, other payloads or connection counts."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::tests::good;
    use crate::repetition::{Failure, Outcome};
    use crate::result::tests::{believed, invented};

    fn plain(file: &RunFile) -> String {
        let text = render(file, "target/bench/x", Look::Plain);
        for line in text.lines() {
            assert!(
                line.chars().count() <= WIDTH,
                "{} columns: {line}",
                line.chars().count()
            );
        }
        assert!(!text.contains('\u{1b}'));
        text
    }

    /// The same words wherever the lines break.
    fn words(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_believable_run() {
        let text = plain(&believed(6));
        for part in [
            "bench run   1a2b3c4d (clean)   rustc 1.95.0   linux 6.18.0 x86_64   2 CPUs   seed 42",
            "96.9 % interval",
            "[W-SHARED-CPU]",
            "ratio to pool 2",
            "faster",
            "A/A",
            "6 comparisons: about 0.2 false verdicts",
            "would usually be missed",
            "by server CPU per round trip: shards 1 needs less CPU than pool 2",
            "shards 2 is faster than pool 2 (x 1.1",
            "written    target/bench/x/run.json",
        ] {
            assert!(
                words(&text).contains(&words(part)),
                "{part} is missing in:\n{text}"
            );
        }
        assert!(!text.contains("FAILED"));
    }

    #[test]
    fn colours_are_for_verdicts_only() {
        let text = render(&believed(6), "x", Look::Coloured);
        assert!(
            text.contains("\u{1b}[32mfaster\u{1b}[0m")
                && text.contains("\u{1b}[31mslower\u{1b}[0m")
        );
    }

    #[test]
    fn a_failure_cannot_be_missed() {
        let text = plain(&invented(6, |job, seen| {
            if seen == 3 {
                let failure = Failure {
                    stderr_tail: vec!["last words".to_owned()],
                    ..Failure::new("E-LOAD-FAILED", "order_errors 3")
                };
                return Outcome {
                    failure: Some(failure),
                    ..Outcome::default()
                };
            }
            good(job, 1e5, 7e3)
        }));
        assert!(text.contains("!!! 1 of 4 cells FAILED and are excluded from every comparison."));
        assert!(
            text.contains("E-LOAD-FAILED: order_errors 3") && text.contains("| last words"),
            "{text}"
        );
    }

    #[test]
    fn noise_withholds_verdicts() {
        let text = plain(&invented(6, |job, _| {
            good(job, if job.cell.control { 1.5e5 } else { 1e5 }, 7e3)
        }));
        assert!(
            text.contains("This run is too noisy to rank anything by round trips/s"),
            "{text}"
        );
        let both = plain(&invented(6, |job, _| {
            good(
                job,
                if job.cell.control { 1.5e5 } else { 1e5 },
                if job.cell.control { 9e3 } else { 7e3 },
            )
        }));
        assert!(
            both.contains("This run is too noisy to rank anything: the A/A"),
            "{both}"
        );
    }

    #[test]
    fn three_rounds_are_called_few() {
        let text = plain(&believed(3));
        assert!(
            text.contains("3 rounds give a 75.0 % interval") && text.contains("[W-FEW-ROUNDS]"),
            "{text}"
        );
    }

    #[test]
    fn nothing_measured_is_said_plainly() {
        let text = plain(&invented(6, |_, _| Outcome {
            interrupted: true,
            ..Outcome::default()
        }));
        assert!(
            text.contains('—') || text.contains("nothing to compare"),
            "{text}"
        );
    }
}
