//! The final print: from `run.json` to lines of text. Measures nothing and decides nothing; it only words what was analysed.

mod conclusion;
mod load;
mod overview;
pub(crate) mod table;

use crate::analysis::{ProtocolFloor, Status};
use crate::contract::Protocol;
use crate::measure::verdict::Control;
use crate::measure::warning::{Check, Level};
use crate::result::{CellFile, RunFile};
use std::fmt::Write as _;
use table::{WIDTH, flow, wrap};

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

/// How much is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breadth {
    /// Every table of every load.
    Full,
    /// Of many loads only how they compare.
    AtAGlance,
}

/// The print.
pub(crate) fn render(file: &RunFile, folder: &str, look: Look, breadth: Breadth) -> String {
    let mut text = String::from("\n");
    text.push_str(&heading(file));
    text.push_str(&checks(file));
    if file.design.rounds_ran == 0 {
        text.push_str("\nno round was completed; there is nothing to compare.\n");
    } else {
        text.push_str(&noise_headline(file));
        text.push_str(&all_tables(file, folder, look == Look::Coloured, breadth));
        text.push_str(&conclusion::reading_aid(file));
    }
    text.push_str(&failures(file, folder));
    text.push_str(&closing(file, folder));
    text
}

fn all_tables(file: &RunFile, folder: &str, colours: bool, breadth: Breadth) -> String {
    let loads = groups(file);
    let of_each = || loads.iter().map(|load| load::tables(file, load, colours));
    if loads.len() <= overview::FEW {
        return of_each().collect();
    }
    let overview = overview::tables(file, conclusion::metrics(file), colours);
    match breadth {
        Breadth::Full => overview + &of_each().collect::<String>(),
        Breadth::AtAGlance => {
            let line = format!("intervals, costs and times of each load: {folder}/report.txt");
            format!("{overview}\n{}", wrap("", &line))
        }
    }
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
    flow(&about, "   ") + &wrap("", &format!("{how}{}", loss_rule(file)))
}

/// When a datagram was called lost, where there were any.
fn loss_rule(file: &RunFile) -> String {
    let datagrams = |cell: &CellFile| cell.result.cell.factors.protocol.is_datagram();
    if !file.cells.iter().any(datagrams) {
        return String::new();
    }
    let rule = file.design.losses;
    format!(
        " udp: lost after {} ms, at most {} % may be.",
        rule.timeout.as_millis(),
        rule.max_loss * 100.0
    )
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

/// Said once above the tables where the control withholds verdicts, for each protocol that it concerns.
fn noise_headline(file: &RunFile) -> String {
    let floors = floors(file);
    let headline = |floor: &ProtocolFloor| -> String {
        let whose = concerned_mark(floor, &floors);
        let withheld = |control: Control, what: &str, why: &str| {
            let by = concerned(floor, control)?;
            let line = format!(
                "{whose}{what}{by}: the A/A control{why}. Ratios are listed, verdicts withheld."
            );
            Some(format!("\n{}", wrap("", &line)))
        };
        let differs = withheld(
            Control::Differs,
            "This run is too noisy to rank anything",
            ", the same cell twice, differs or scatters by more than 10 %",
        );
        let missing = withheld(
            Control::Missing,
            "Nothing can be ranked",
            " failed or has too few figures, so no noise floor is known",
        );
        [differs, missing].into_iter().flatten().collect()
    };
    let own = floors.iter().filter(|floor| floor.borrowed_from.is_none());
    own.map(headline).collect()
}

/// Says whose floor it is, and for which others it stands, where there are several.
fn concerned_mark(floor: &ProtocolFloor, floors: &[ProtocolFloor]) -> String {
    if floors.len() == 1 {
        return String::new();
    }
    let mut names = vec![floor.protocol.name()];
    names.extend(conclusion::borrowers(floors, floor));
    format!("{}: ", names.join(", "))
}

/// The noise floors of the protocols that were measured, in the order of the tables.
fn floors(file: &RunFile) -> Vec<ProtocolFloor> {
    let mut protocols: Vec<Protocol> = Vec::new();
    for cell in &file.cells {
        let protocol = cell.result.cell.factors.protocol;
        if !protocols.contains(&protocol) {
            protocols.push(protocol);
        }
    }
    let floor = |protocol| file.comparisons.floor(protocol);
    protocols.into_iter().map(floor).collect()
}

/// Says whose floor it is, where there are several.
fn protocol_mark(floor: &ProtocolFloor, several: bool) -> String {
    if several {
        format!("{}: ", floor.protocol.name())
    } else {
        String::new()
    }
}

/// The metrics in which the control came to this; `None` if it did in none.
fn concerned(floor: &ProtocolFloor, control: Control) -> Option<&'static str> {
    match (
        floor.rate_floor.control == control,
        floor.cpu_floor.control == control,
    ) {
        (true, true) => Some(""),
        (true, false) => Some(" by round trips/s"),
        (false, true) => Some(" by server CPU"),
        (false, false) => None,
    }
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

/// What to do with the first table in hand, in commands that work in a checkout.
const NEXT: &str = "\
next       the same for longer, and surer; then other loads; then what else there is:
           cargo run --release -p bench -- run --protocols tcp --rounds 20 --duration 1s
           cargo run --release -p bench -- run --protocols tcp --payload 64,1K,16K --window 1,8
           cargo run --release -p bench -- list
           cargo run --release -p bench -- doctor
";

fn closing(file: &RunFile, folder: &str) -> String {
    let mut text = String::from("\n");
    if file.interrupted {
        text.push_str("interrupted: only complete rounds are shown; the files are valid.\n");
    }
    text.push_str(&conclusion::generator_lines(file));
    if file.design.rounds_ran > 0 {
        text.push_str(&conclusion::shows(file));
        text.push_str(&wrap("does not   ", &conclusion::does_not_show(file)));
    }
    let written = format!("{folder}/run.json (+ report.txt, plan.json, samples.jsonl)");
    text.push_str(&wrap("written    ", &written));
    if file.design.name == "quick" {
        text.push_str(NEXT);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::tests::good;
    use crate::floor;
    use crate::loss::{Loss, tests::report as loss_report};
    use crate::matrix::tests::small;
    use crate::matrix::{Controls, Matrix};
    use crate::repetition::{Failure, Outcome};
    use crate::result::tests::{believed, invented, invented_of};

    fn plain(file: &RunFile) -> String {
        let text = render(file, "target/bench/x", Look::Plain, Breadth::Full);
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
            "generator  floor 31",
            "k RT/s at 16 x 8, 1 x 1 p50 900 us; busiest cell reached 3",
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
    fn datagrams_that_were_lost_are_told_with_where_they_went() {
        let matrix = Matrix {
            protocols: vec![Protocol::Tcp, Protocol::Udp],
            ..small()
        };
        let lossy = |lost: u64| {
            invented_of(&matrix, 6, move |job, _| {
                let mut outcome = good(job, 1e5, 7e3);
                if job.cell.factors.protocol == Protocol::Udp && job.cell.label() == "shards 2" {
                    outcome.loss = Some(Loss::of(&loss_report(lost, 0), None));
                }
                outcome
            })
        };
        let text = words(&plain(&lossy(9)));
        for part in [
            "shards 2: lost 54 of 6000 requests (0.900 %), of which late 0. dropped: server socket not told, client sockets 6, whole machine 54; unexplained 0, by the count of the whole machine.",
            "A/A tcp: the same cell twice",
            "A/A udp: the same cell twice",
            "udp: lost after 50 ms, at most 0 % may be.",
            "generator tcp: floor",
            "generator udp: floor",
            "udp: by round trips/s:",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
        assert!(!plain(&lossy(0)).contains("lost  "));
    }

    #[test]
    fn many_loads_are_told_at_a_glance_and_in_full_in_the_file() {
        let matrix = Matrix {
            protocols: Protocol::ALL.to_vec(),
            controls: Controls::EachTransport,
            ..small()
        };
        let file = invented_of(&matrix, 6, |job, _| {
            good(job, 1e5 * job.cell.factors.threads as f64, 7e3)
        });
        let brief = render(&file, "x", Look::Plain, Breadth::AtAGlance);
        let rows = |name: &str| {
            let begins = format!("{name} ");
            brief
                .lines()
                .filter(|line| line.starts_with(&begins))
                .count()
        };
        for protocol in Protocol::ALL {
            assert_eq!(rows(protocol.name()), 2, "by rate and by CPU:\n{brief}");
        }
        for part in [
            "protocol",
            "shards 2 to pool",
            "of each load: x/report.txt",
            "tcp: the same cell twice under two labels.",
            "It stands for echo, tls, ws, wss, http, https too.",
            "tcp, echo, udp, tls, ws, wss, http, https: by round trips/s: shards 1 is slower",
        ] {
            assert!(words(&brief).contains(&words(part)), "{part}:\n{brief}");
        }
        assert!(
            brief.lines().all(|line| line.chars().count() <= WIDTH),
            "{brief}"
        );
        assert!(!brief.contains("RTT us"), "{brief}");
        let full = plain(&file);
        assert_eq!(
            full.matches("RTT us inside the window").count(),
            Protocol::ALL.len()
        );
        assert!(full.contains("protocol "));
    }

    #[test]
    fn colours_are_for_verdicts_only() {
        let text = render(&believed(6), "x", Look::Coloured, Breadth::Full);
        assert!(
            text.contains("\u{1b}[32mfaster\u{1b}[0m")
                && text.contains("\u{1b}[31mslower\u{1b}[0m")
        );
    }

    #[test]
    fn long_labels_stay_within_the_width() {
        let of = |drivers: &[&str]| {
            let matrix = Matrix {
                drivers: drivers.iter().map(|driver| (*driver).to_owned()).collect(),
                shards: vec![1, 2, 128],
                pools: vec![2, 128],
                payloads: vec![64, 1_048_576],
                clients: vec![1, 16],
                windows: vec![1, 8],
                works: vec![10_000_000],
                ..small()
            };
            plain(&invented_of(&matrix, 6, |job, _| {
                good(job, 987_654.0, 1_234_567.0)
            }))
        };
        let two = of(&["monoio-uring", "monoio-legacy"]);
        assert!(two.contains("shards 128 monoio-legacy to shards 1 monoio-legacy"));
        let one = of(&["monoio-legacy"]);
        assert!(one.contains(", shards on monoio-legacy\n"), "{one}");
        assert!(one.contains("\nshards 128  "), "{one}");
        assert!(one.contains("shards 128 to shards 1 "), "{one}");
    }

    #[test]
    fn a_failure_cannot_be_missed() {
        let text = plain(&invented(6, |job, seen| {
            if seen == 2 * floor::TIMES + 1 {
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
        for part in [
            "round trips/s: bad, that is it differs or scatters by more than 10 %",
            "CPU: differences count only beyond t = 2.0 %",
            "noisy too noisy: the A/A control failed; or neither faster nor slower",
        ] {
            assert!(words(&text).contains(part), "{part}: {text}");
        }
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
    fn a_failed_control_withholds_verdicts() {
        let file = invented(6, |job, _| {
            if job.cell.control {
                return Outcome {
                    failure: Some(Failure::new("E-LOAD-FAILED", "order_errors 3")),
                    ..Outcome::default()
                };
            }
            let rate = 1e5 * job.cell.factors.threads as f64;
            good(job, rate, 7e3)
        });
        let text = plain(&file);
        for part in [
            "Nothing can be ranked: the A/A control failed or has too few figures",
            "withheld. see the failure below, then run again. [W-NO-CONTROL]",
            "A/A        the same cell twice under two labels. it failed",
            "by round trips/s: nothing, the A/A control failed.",
        ] {
            assert!(words(&text).contains(&words(part)), "{part}: {text}");
        }
        let row = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap();
        assert!(row("pool 2 A/A").contains("FAILED"), "{text}");
        assert!(row("shards 1").contains("noisy"), "{text}");
        assert!(
            !text.contains("slower") && !text.contains("false verdicts"),
            "{text}"
        );
        let json = serde_json::to_value(&file).unwrap();
        assert_eq!(json["comparisons"]["rate_floor"]["control_failed"], true);
        assert_eq!(json["comparisons"]["rate_floor"]["control"], "missing");
    }

    #[test]
    fn without_a_control_the_threshold_decides() {
        let matrix = Matrix {
            controls: Controls::None,
            ..small()
        };
        let text = plain(&invented_of(&matrix, 6, |job, _| {
            good(job, 1e5 * job.cell.factors.threads as f64, 7e3)
        }));
        assert!(
            text.contains("[W-NO-CONTROL]") && text.contains("slower"),
            "{text}"
        );
        assert!(
            text.contains("t          differences count only beyond t = 2.0 %"),
            "{text}"
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
