//! All loads of a run at a glance: a row for each, its cells side by side, and what was said of them.

use super::load::{ratio, shown, verdict_field};
use super::table::{Align, Field, Table, Unit, VERDICT, three_digits};
use super::{Group, groups};
use crate::analysis::{Relation, Status};
use crate::measure::verdict::Metric;
use crate::result::{CellFile, RunFile};

/// Loads up to which their own tables are short enough to be looked through.
pub(super) const FEW: usize = 3;

/// Both metrics, the one that describes the server alone first where the other does not.
pub(super) fn tables(file: &RunFile, metrics: [Metric; 2], colours: bool) -> String {
    let loads = groups(file);
    let told = metrics.map(|metric| format!("\n{}", table(&loads, metric).render(colours)));
    told.concat()
}

fn table(loads: &[Group<'_>], metric: Metric) -> Table {
    let labels = labels(loads, |_| true);
    let compared = labels_compared(loads, metric);
    let unit = match metric {
        Metric::RoundTripsPerS => "round trips/s",
        Metric::ServerCpuNsPerRt => "CPU us/RT",
    };
    let mut table = Table::default().column("", name_header(loads), Align::Left);
    for (at, label) in labels.iter().enumerate() {
        table = table.column(if at == 0 { unit } else { "" }, label, Align::Right);
    }
    for label in &compared {
        let above = format!("{label} to pool");
        table = table
            .column(&above, "[lo, hi]", Align::Right)
            .column("", VERDICT, Align::Left);
    }
    for load in loads {
        let mut row = vec![Field::from(load_name(loads, load))];
        row.extend(labels.iter().map(|label| median(load, label, metric)));
        row.extend(
            compared
                .iter()
                .flat_map(|label| versus(load, label, metric)),
        );
        table.row(row);
    }
    table
}

/// The protocol, or all of the load where a protocol has several.
fn load_name(loads: &[Group<'_>], load: &Group<'_>) -> String {
    let factors = &load[0].result.cell.factors;
    match name_header(loads) {
        "protocol" => factors.protocol.name().to_owned(),
        _ => factors.load_label(),
    }
}

fn name_header(loads: &[Group<'_>]) -> &'static str {
    let protocol = |load: &Group<'_>| load[0].result.cell.factors.protocol;
    let mut seen = Vec::new();
    for load in loads {
        if seen.contains(&protocol(load)) {
            return "load";
        }
        seen.push(protocol(load));
    }
    "protocol"
}

/// What cells of these loads are called, the controls left out, in the order in which they come.
fn labels(loads: &[Group<'_>], wanted: impl Fn(&CellFile) -> bool) -> Vec<String> {
    let mut labels = Vec::new();
    for cell in loads.iter().flatten() {
        let label = cell.result.cell.label();
        if !cell.result.cell.control && !labels.contains(&label) && wanted(cell) {
            labels.push(label);
        }
    }
    labels
}

fn labels_compared(loads: &[Group<'_>], metric: Metric) -> Vec<String> {
    labels(loads, |cell| {
        cell.result.versus(Relation::Pool, metric).is_some()
    })
}

fn find<'a>(load: &Group<'a>, label: &str) -> Option<&'a CellFile> {
    let named = |cell: &&&CellFile| cell.result.cell.label() == label;
    load.iter().find(named).copied()
}

fn median(load: &Group<'_>, label: &str, metric: Metric) -> Field {
    let Some(cell) = find(load, label) else {
        return "".into();
    };
    if cell.result.status == Status::Failed {
        return "FAILED".into();
    }
    let summary = shown(cell);
    let text = match metric {
        Metric::RoundTripsPerS => summary
            .round_trips_per_s
            .map(|rate| rate_unit(load).show(rate.median)),
        Metric::ServerCpuNsPerRt => summary
            .server_cpu_ns_per_rt
            .map(|cpu| three_digits(cpu.median / 1000.0)),
    };
    text.unwrap_or_else(|| "—".to_owned()).into()
}

/// One for a row, so that its figures can be compared at a look.
fn rate_unit(load: &Group<'_>) -> Unit {
    let rates = load.iter().filter_map(|cell| shown(cell).round_trips_per_s);
    Unit::for_values(rates.map(|rate| rate.median))
}

fn versus(load: &Group<'_>, label: &str, metric: Metric) -> [Field; 2] {
    let versus = find(load, label).and_then(|cell| cell.result.versus(Relation::Pool, metric));
    match versus {
        Some(versus) => [ratio(versus).into(), verdict_field(versus.verdict)],
        None => ["—".into(), "".into()],
    }
}
