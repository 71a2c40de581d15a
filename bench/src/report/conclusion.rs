//! What may be concluded: how to read the verdicts, what they show, and what they do not.

use super::table::{Unit, three_digits, wrap};
use super::{floors, groups, protocol_mark};
use crate::analysis::{ProtocolFloor, Relation, Versus};
use crate::contract::Protocol;
use crate::floor::{GeneratorFloor, is_unreliable};
use crate::measure::verdict::{Control, Floor, Metric, Verdict};
use crate::result::{CellFile, RunFile};

/// What the signs mean and how far the verdicts can be trusted.
pub(super) fn reading_aid(file: &RunFile) -> String {
    let comparisons = &file.comparisons;
    let verdicts: Vec<Verdict> = all_versus(file).map(|versus| versus.verdict).collect();
    let mut text = String::from("\n");
    let floors = floors(file);
    let own = || floors.iter().filter(|floor| floor.borrowed_from.is_none());
    for floor in own() {
        text.push_str(&control_line(
            floor,
            own().count() > 1,
            &borrowers(&floors, floor),
        ));
    }
    if verdicts.contains(&Verdict::NoDifference) {
        text.push_str(&wrap("=?         ", &format!("no difference detected; the smallest difference these rounds could have shown: {}.", could_have_seen(file))));
    }
    if verdicts.contains(&Verdict::Equal) {
        text.push_str("equal      the whole interval lies within t.\n");
    }
    if verdicts.contains(&Verdict::TooNoisy) {
        let line = format!("too noisy: {}.", noisy_words(file));
        text.push_str(&wrap("noisy      ", &line));
    }
    if comparisons.count > 0 {
        let line = format!(
            "{} comparisons: about {:.1} false verdicts expected by chance if nothing differed.",
            comparisons.count, comparisons.chance_verdicts
        );
        text.push_str(&wrap("", &line));
    }
    if let Some(missed) = comparisons.usually_missed_below {
        let line = format!(
            "with the noise seen here, differences in round trips/s below {:.1} % would usually be missed.",
            missed * 100.0
        );
        text.push_str(&wrap("", &line));
    }
    text
}

/// The protocols for whose noise this control stands, besides its own.
pub(super) fn borrowers(floors: &[ProtocolFloor], lender: &ProtocolFloor) -> Vec<&'static str> {
    floors
        .iter()
        .filter(|floor| floor.borrowed_from == Some(lender.protocol))
        .map(|floor| floor.protocol.name())
        .collect()
}

fn control_line(floor: &ProtocolFloor, several: bool, borrowers: &[&str]) -> String {
    let (rate, cpu) = (floor.rate_floor, floor.cpu_floor);
    let whose = protocol_mark(floor, several);
    if rate.control == Control::LeftOut {
        let line = format!(
            "{whose}{}; without A/A no noise floor is known.",
            floor_words(&rate)
        );
        return wrap("t          ", &line);
    }
    let words = if rate.control == Control::Good && cpu.control == Control::Good {
        format!(
            "{} (round trips/s) and {:.1} % (CPU).",
            floor_words(&rate),
            cpu.threshold * 100.0
        )
    } else if rate.control == cpu.control {
        format!("{}.", floor_words(&rate))
    } else {
        format!(
            "round trips/s: {}. CPU: {}.",
            floor_words(&rate),
            floor_words(&cpu)
        )
    };
    let stands = match borrowers {
        [] => String::new(),
        names => format!(" It stands for {} too.", names.join(", ")),
    };
    let line = format!("{whose}the same cell twice under two labels. {words}{stands}");
    wrap("A/A        ", &line)
}

/// Why nothing could be said, as [`Floor::judge`] decides it.
fn noisy_words(file: &RunFile) -> &'static str {
    let failed: Vec<bool> = floors(file)
        .iter()
        .flat_map(|floor| {
            [
                floor.rate_floor.control_failed,
                floor.cpu_floor.control_failed,
            ]
        })
        .collect();
    if failed.iter().all(|failed| *failed) {
        "the A/A control failed, so verdicts are withheld"
    } else if failed.contains(&true) {
        "the A/A control failed; or neither faster nor slower (less nor more, equal) could be said, and the interval or t is \
         wider than 10 % on a side"
    } else {
        "neither faster nor slower (less nor more, equal) could be said, and the interval or t is wider than 10 % on a side"
    }
}

/// What the control allows to say.
fn floor_words(floor: &Floor) -> String {
    match floor.control {
        Control::LeftOut | Control::Good => format!(
            "differences count only beyond t = {:.1} %",
            floor.threshold * 100.0
        ),
        Control::Differs => {
            "bad, that is it differs or scatters by more than 10 %, so verdicts are withheld"
                .to_owned()
        }
        Control::Missing => {
            "it failed or has too few figures, so no noise floor is known and verdicts are withheld"
                .to_owned()
        }
    }
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

/// What the generator can do at all, and how near to it the cells came: over streams, and over datagrams.
pub(super) fn generator_lines(file: &RunFile) -> String {
    let all: Vec<&GeneratorFloor> = if file.floors.is_empty() {
        file.floor.iter().collect()
    } else {
        file.floors.iter().collect()
    };
    let line = |floor: &&GeneratorFloor| generator_line(file, floor, all.len() > 1);
    all.iter().map(line).collect()
}

fn generator_line(file: &RunFile, floor: &GeneratorFloor, several: bool) -> String {
    let load = format!("{} x {}", floor.load.clients, floor.load.window);
    let mut line = match floor.null_rt_per_s {
        Some(rate) => {
            let shown = Unit::for_values(std::iter::once(rate)).show(rate);
            format!("floor {shown} RT/s at {load}")
        }
        None => format!("floor at {load} not known"),
    };
    if several {
        line = format!("{}: {line}", floor.load.protocol.name());
    }
    if groups(file).len() > 1 {
        line.push_str(&format!(" x {} B", floor.load.payload));
    }
    if let Some(p50) = floor.null_rtt_p50_ns {
        line.push_str(&format!(
            ", 1 x 1 p50 {} us",
            three_digits(p50 as f64 / 1000.0)
        ));
    }
    let datagrams = floor.load.protocol.is_datagram();
    let shares = file
        .cells
        .iter()
        .filter(|cell| cell.result.cell.factors.protocol.is_datagram() == datagrams)
        .filter_map(|cell| cell.result.floor_share);
    match shares.reduce(f64::max) {
        Some(most) if is_unreliable(most) => {
            line.push_str("; a cell was faster: the floor is not reliable in this run");
        }
        Some(most) => {
            let percent = most * 100.0;
            line.push_str(&format!("; busiest cell reached {percent:.0} % of it"));
        }
        None => {}
    }
    wrap("generator  ", &line)
}

/// More comparisons than this are counted instead of told one by one.
const TOLD_MAX: usize = 6;

/// Both metrics, CPU first where the rate does not describe the server alone.
pub(super) fn metrics(file: &RunFile) -> [Metric; 2] {
    let has = |id: &str| file.checks.iter().any(|check| check.id == id);
    let mut metrics = [Metric::RoundTripsPerS, Metric::ServerCpuNsPerRt];
    let doubtful = [
        "W-SHARED-CPU",
        "W-CLIENT-BOUND",
        "W-NEAR-FLOOR",
        "W-FLOOR-UNRELIABLE",
    ];
    if doubtful.into_iter().any(has) {
        metrics.reverse();
    }
    metrics
}

/// What the pool comparisons say; protocols of which the same is said share a line.
pub(super) fn shows(file: &RunFile) -> String {
    let floors = floors(file);
    let mut text = String::from("shows      on this machine and load:\n");
    for metric in metrics(file) {
        let by = match metric {
            Metric::RoundTripsPerS => "by round trips/s",
            Metric::ServerCpuNsPerRt => "by server CPU per round trip",
        };
        let mut said: Vec<(String, Vec<&str>)> = Vec::new();
        for floor in &floors {
            let found = found(file, floor, metric);
            match said.iter_mut().find(|(same, _)| *same == found) {
                Some((_, names)) => names.push(floor.protocol.name()),
                None => said.push((found, vec![floor.protocol.name()])),
            }
        }
        for (found, names) in said {
            let whose = match floors.len() {
                1 => String::new(),
                _ => format!("{}: ", names.join(", ")),
            };
            text.push_str(&wrap("           ", &format!("{whose}{by}: {found}.")));
        }
    }
    text
}

fn found(file: &RunFile, floor: &ProtocolFloor, metric: Metric) -> String {
    match floor.of(metric).control {
        Control::Differs => "nothing, it is too noisy".to_owned(),
        Control::Missing => "nothing, the A/A control failed".to_owned(),
        Control::Good | Control::LeftOut => findings(file, floor.protocol, metric),
    }
}

fn findings(file: &RunFile, protocol: Protocol, metric: Metric) -> String {
    let cells = || {
        file.cells
            .iter()
            .filter(|cell| cell.result.cell.factors.protocol == protocol)
    };
    let versus: Vec<&Versus> = cells()
        .filter_map(|cell| cell.result.versus(Relation::Pool, metric))
        .collect();
    match versus.len() {
        0 => "nothing was compared with a pool".to_owned(),
        1..=TOLD_MAX => {
            let told: Vec<String> = cells()
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
    let protocol = cell.result.cell.factors.protocol;
    let loads = groups(file);
    let mine = |group: &&super::Group<'_>| group[0].result.cell.factors.protocol == protocol;
    let load = if loads.iter().filter(mine).count() > 1 {
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

/// What nobody should conclude.
pub(super) fn does_not_show(file: &RunFile) -> String {
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
