//! `bench stress`: the scenarios that hurt, at full length, once per engine. Not a measurement of speed, so it runs in any build.

use crate::exit::{Exit, Refusal};
use crate::factor;
use crate::host::Interrupt;
use crate::report::table::wrap;
use crate::stdout;
use crate::stress;
use crate::stress::catalogue::{self, ALL, Scenario};
use crate::stress::process::{self, Run, Verdict};
use crate::stress::trial::{Shown, Terms, Trial, say};
use anyhow::Context;
use clap::Args;
use shardloop::{EngineOptions, Kind};
use std::fmt::Write as _;
use std::time::Duration;

/// Flags of `stress`.
#[derive(Clone, Debug, Args)]
pub(crate) struct StressArgs {
    /// Names or numbers of scenarios [default: all but soak]
    #[arg(value_name = "SCENARIO")]
    scenarios: Vec<String>,
    /// Show the scenarios, run nothing
    #[arg(long)]
    list: bool,
    /// Engines: all, auto for the best, or names as `bench list` shows them
    #[arg(long, value_name = "LIST", default_value = "all")]
    driver: String,
    /// Length of each scenario instead of its full one; the lines say so
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    seconds: Option<Duration>,
    /// Judge what must hold at any speed; times are told and not judged
    #[arg(long)]
    any_speed: bool,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
    /// Run the scenario in this process
    #[arg(long, hide = true)]
    inside: bool,
    /// Run a part of it
    #[arg(long, hide = true, requires = "inside")]
    part: Option<String>,
}

/// Runs it.
pub(crate) fn run(args: &StressArgs) -> anyhow::Result<Exit> {
    let scenarios = catalogue::chosen(&args.scenarios)?;
    let kinds = kinds(&args.driver, args.inside)?;
    let terms = Terms {
        shortened: args.seconds,
        any_speed: args.any_speed,
    };
    if args.inside {
        return inside(args, &scenarios, &kinds, terms);
    }
    if args.list {
        stdout::put(&describe(
            &scenarios_listed(args, &scenarios),
            &kinds,
            args.json,
        )?);
        return Ok(Exit::Success);
    }
    let interrupt = Interrupt::install().context("signals could not be taken over")?;
    let (mut failed, mut skipped, mut passed) = (0, 0, 0);
    for scenario in &scenarios {
        for &kind in &kinds {
            let run = process::run(scenario, kind, terms, &interrupt)?;
            if let Some(signal) = interrupt.caught() {
                return Ok(Exit::Interrupted(signal));
            }
            match run.verdict {
                Verdict::Ok => passed += 1,
                Verdict::Failed => failed += 1,
                Verdict::Skip => skipped += 1,
            }
            stdout::put(&line(&run, args.json)?);
        }
    }
    if !args.json {
        stdout::put(&format!(
            "{passed} ok, {failed} failed, {skipped} skipped\n"
        ));
    }
    Ok(if failed > 0 {
        Exit::Failed
    } else {
        Exit::Success
    })
}

/// One scenario on one engine, in this process: the last line is what it came to.
fn inside(
    args: &StressArgs,
    scenarios: &[Scenario],
    kinds: &[Kind],
    terms: Terms,
) -> anyhow::Result<Exit> {
    let ([scenario], [kind]) = (scenarios, kinds) else {
        anyhow::bail!("--inside runs one scenario on one engine");
    };
    let mut trial = Trial::new(*kind, scenario.name, terms);
    let result = stress::perform(scenario.name, args.part.as_deref(), &mut trial);
    if args.part.is_some() {
        return result.map(|()| Exit::Success);
    }
    say(&serde_json::to_string(&trial.end(result))?);
    Ok(Exit::Success)
}

/// The engines asked for. One asked for by name that is not available is refused; of `all`, those that work here.
///
/// `inside` a scenario nothing is refused: what was available before may be refused there on purpose.
fn kinds(list: &str, inside: bool) -> Result<Vec<Kind>, Refusal> {
    let refused = |what: String| {
        let names: Vec<_> = Kind::ENGINES.iter().map(|kind| kind.name()).collect();
        let names = names.join(", ");
        Refusal::usage("E-DRIVER", what, format!("choose all, auto, {names}."))
    };
    if list == "all" {
        let works = |kind: &&Kind| kind.probe(&EngineOptions::default()).is_ok();
        let working: Vec<Kind> = Kind::ENGINES.iter().filter(works).copied().collect();
        if working.is_empty() {
            return Err(refused("no engine works here.".to_owned()));
        }
        return Ok(working);
    }
    let one = |name: &&str| {
        let kind: Kind = name
            .parse()
            .map_err(|unknown: shardloop::UnknownKind| refused(format!("{unknown}.")))?;
        if kind == Kind::Sim {
            return Err(refused("sim runs in virtual time.".to_owned()));
        }
        if inside {
            return Ok(kind);
        }
        let choice = kind.choose(&EngineOptions::default());
        choice
            .map(|choice| choice.kind)
            .map_err(|unavailable| refused(format!("{unavailable}.")))
    };
    factor::words("--driver", list)?.iter().map(one).collect()
}

/// What the list shows: what was asked for, or all.
fn scenarios_listed(args: &StressArgs, chosen: &[Scenario]) -> Vec<Scenario> {
    if args.scenarios.is_empty() {
        ALL.to_vec()
    } else {
        chosen.to_vec()
    }
}

/// The list: what there is, and on which engines it runs.
fn describe(scenarios: &[Scenario], kinds: &[Kind], json: bool) -> anyhow::Result<String> {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let mut text = String::new();
    for scenario in scenarios {
        if json {
            let object = serde_json::json!({
                "number": scenario.number,
                "name": scenario.name.text(),
                "holds": scenario.holds,
                "length": scenario.length,
                "engines": names,
            });
            let _ = writeln!(text, "{object}");
            continue;
        }
        let mark = format!("{:>4}  {:<16}  ", scenario.number, scenario.name.text());
        let (holds, length) = (scenario.holds, scenario.length);
        text.push_str(&wrap(&mark, &format!("{holds} ({length})")));
    }
    if !json {
        let _ = writeln!(text, "each on  {}", names.join(", "));
    }
    Ok(text)
}

fn line(run: &Run, json: bool) -> anyhow::Result<String> {
    if json {
        return Ok(format!("{}\n", serde_json::to_string(run)?));
    }
    let verdict = match run.verdict {
        Verdict::Ok => "ok",
        Verdict::Failed => "FAILED",
        Verdict::Skip => "skip",
    };
    let mut text = format!(
        "{:>4}  {:<16}  {:<13}  {verdict:<6}",
        run.number, run.name, run.engine
    );
    if !run.reasons.is_empty() {
        let _ = write!(text, "  {}", run.reasons.join("; ").replace('\n', " "));
    }
    for (name, value) in &run.figures {
        let _ = write!(text, "  {name} {}", Shown(value));
    }
    let percent =
        |share: Option<f64>| share.map_or("?".to_owned(), |s| format!("{:.1}", s * 100.0));
    let around = &run.surroundings;
    let wait = run
        .run_queue_wait_s
        .map_or("?".to_owned(), |s| format!("{s:.2}"));
    let peak = run
        .rss_peak_bytes
        .map_or("?".to_owned(), |bytes| (bytes >> 20).to_string());
    let shortened = if run.shortened { " (shortened)" } else { "" };
    let build = if run.debug_build {
        " (debug build)"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "  [steal {} %, others {} %, run-queue wait {wait} s, RSS peak {peak} MiB]  {:.1} s{shortened}{build}",
        percent(around.steal_share),
        percent(around.foreign_share),
        run.seconds
    );
    Ok(text)
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write a number of seconds from 0.05 to 86400".to_owned()),
    }
}
