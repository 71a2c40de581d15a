//! The fuzz targets of `protocols/fuzz`, each for some minutes, and what became of them in a table.
//!
//! It needs cargo-fuzz and a nightly compiler, and it takes long, so it is a task of its own and no step of the gate. What the fuzzer
//! learns stays in `protocols/fuzz/corpus`, which git ignores; the next run goes on from there.

use crate::libfuzzer::Statistics;
use anyhow::{Context, Result, bail};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

const FOLDER: &str = "protocols/fuzz";
/// Longest input. Limits of the machines are set so that shorter ones reach them.
const INPUT_BYTES_MOST: usize = 4096;
/// A single input that takes longer is a finding.
const INPUT_SECONDS_MOST: usize = 10;
/// Memory of a target at which it is a finding. The sanitizer keeps what was freed for a while.
const RSS_MIB_MOST: usize = 2048;

/// What is run, and for how long.
#[derive(clap::Args)]
pub(crate) struct Choice {
    /// Minutes for each target
    #[arg(long, default_value_t = 1)]
    minutes: u32,
    /// Run only these targets
    #[arg(long, value_name = "TARGET", value_delimiter = ',')]
    only: Vec<String>,
    /// Targets at a time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
}

/// Runs the targets. False if one has found something.
pub(crate) fn run(root: &Path, choice: &Choice) -> Result<bool> {
    if let Some(missing) = missing() {
        bail!("nothing was fuzzed: {missing}");
    }
    let folder = root.join(FOLDER);
    let targets = chosen(targets(&folder)?, &choice.only)?;
    build(&folder)?;
    let (waiting, done) = (Mutex::new(targets.into_iter()), Mutex::new(Vec::new()));
    let next = || waiting.lock().expect("no job panics").next();
    thread::scope(|scope| {
        for _ in 0..choice.jobs.max(1) {
            scope.spawn(|| {
                while let Some(target) = next() {
                    let row = fuzz(&folder, &target, choice.minutes);
                    println!("-- {target} ended");
                    done.lock().expect("no job panics").push((target, row));
                }
            });
        }
    });
    report(done.into_inner().expect("no job panics"))
}

/// What is not there, and how to get it.
fn missing() -> Option<&'static str> {
    let answers = |arguments: &[&str]| {
        let asked = Command::new("cargo").args(arguments).output();
        asked.is_ok_and(|output| output.status.success())
    };
    if !answers(&["+nightly", "--version"]) {
        return Some("there is no nightly compiler (`rustup toolchain install nightly`)");
    }
    (!answers(&["fuzz", "--version"]))
        .then_some("there is no cargo-fuzz (`cargo install --locked cargo-fuzz`)")
}

/// The targets there are, by the names of their files.
fn targets(folder: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(folder.join("fuzz_targets")).context("there are no fuzz targets")?;
    let name = |entry: fs::DirEntry| {
        let path = entry.path();
        let name = path.file_stem()?.to_str()?;
        (path.extension()? == "rs").then(|| name.to_owned())
    };
    let mut names: Vec<_> = entries.filter_map(|entry| name(entry.ok()?)).collect();
    names.sort();
    Ok(names)
}

fn chosen(targets: Vec<String>, only: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = only.iter().find(|name| !targets.contains(name)) {
        bail!(
            "no fuzz target is called {unknown}: choose from {}",
            targets.join(", ")
        );
    }
    let is_chosen = |name: &String| only.is_empty() || only.contains(name);
    Ok(targets.into_iter().filter(is_chosen).collect())
}

fn cargo_fuzz(folder: &Path, subcommand: &str) -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz", subcommand, "--fuzz-dir", "."]);
    command.current_dir(folder);
    command
}

fn build(folder: &Path) -> Result<()> {
    let status = cargo_fuzz(folder, "build").status();
    match status.context("cannot start cargo")?.success() {
        true => Ok(()),
        false => bail!("the fuzz targets do not build"),
    }
}

/// How a target ended.
struct Row {
    statistics: Statistics,
    corpus: usize,
    findings: Vec<PathBuf>,
    /// It ended by itself and in order.
    passed: bool,
    /// The end of what it said.
    last_lines: Vec<String>,
}

fn fuzz(folder: &Path, target: &str, minutes: u32) -> Result<Row> {
    let artifacts = format!("artifacts/{target}");
    let (corpus, seeds) = (format!("corpus/{target}"), format!("seeds/{target}"));
    fs::create_dir_all(folder.join(&corpus))?;
    let before = files(&folder.join(&artifacts));
    let family = target.split('_').next().unwrap_or(target);
    let output = cargo_fuzz(folder, "run")
        .args([target, &corpus, &seeds, "--"])
        .arg(format!("-max_total_time={}", minutes * 60))
        .arg(format!("-max_len={INPUT_BYTES_MOST}"))
        .arg(format!("-timeout={INPUT_SECONDS_MOST}"))
        .arg(format!("-rss_limit_mb={RSS_MIB_MOST}"))
        .arg(format!("-dict=dictionaries/{family}.dict"))
        .arg("-print_final_stats=1")
        .stdout(Stdio::null())
        .output()
        .context("cannot start cargo")?;
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = said.lines().map(str::to_owned).collect();
    let findings = files(&folder.join(&artifacts)).into_iter();
    Ok(Row {
        statistics: Statistics::read(&said),
        corpus: files(&folder.join(&corpus)).len(),
        findings: findings.filter(|file| !before.contains(file)).collect(),
        passed: output.status.success(),
        last_lines: lines[lines.len().saturating_sub(20)..].to_vec(),
    })
}

/// The files of a folder; none if there is no folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn report(mut done: Vec<(String, Result<Row>)>) -> Result<bool> {
    done.sort_by(|(one, _), (other, _)| one.cmp(other));
    println!("{}", Line::HEADING);
    let mut failed = 0;
    for (target, row) in &done {
        let row = row
            .as_ref()
            .map_err(|error| anyhow::anyhow!("{target}: {error:#}"))?;
        println!("{}", Line::of(target, row));
        failed += usize::from(!row.passed);
    }
    for (target, row) in &done {
        let Ok(row) = row else { continue };
        for finding in &row.findings {
            println!("{target} found {}", finding.display());
            println!(
                "  again: cd {FOLDER} && cargo +nightly fuzz run --fuzz-dir . {target} {}",
                finding.display()
            );
        }
        if !row.passed {
            println!("{target} ended with:\n  {}", row.last_lines.join("\n  "));
        }
    }
    println!("{} passed, {failed} failed", done.len() - failed);
    Ok(failed == 0)
}

/// A line of the table.
struct Line<'a>([&'a dyn fmt::Display; 7]);

impl<'a> Line<'a> {
    const HEADING: &'static str =
        "target                  executions   exec/s     cov       ft   corpus  findings";

    fn of(target: &'a dyn fmt::Display, row: &'a Row) -> String {
        let Statistics {
            executions,
            per_second,
            coverage,
            features,
        } = &row.statistics;
        let findings = row.findings.len();
        Line([
            target,
            executions,
            per_second,
            coverage,
            features,
            &row.corpus,
            &findings,
        ])
        .to_string()
    }
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [
            target,
            executions,
            per_second,
            coverage,
            features,
            corpus,
            findings,
        ] = self.0.map(ToString::to_string);
        write!(
            f,
            "{target:<22}  {executions:>10}  {per_second:>7}  {coverage:>6}  {features:>7}  {corpus:>7}  {findings:>8}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, Row, Statistics, chosen, targets};
    use std::path::Path;

    #[test]
    fn the_targets_are_those_of_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocols/fuzz");
        let all = targets(&folder).expect("the repository has targets");
        assert!(all.contains(&"http1_server".to_owned()), "{all:?}");
        for target in &all {
            let seeds = folder.join("seeds").join(target);
            assert!(seeds.is_dir(), "{target} has no seeds");
            let family = target.split('_').next().unwrap_or(target);
            let dictionary = folder.join(format!("dictionaries/{family}.dict"));
            assert!(dictionary.is_file(), "{target} has no dictionary");
        }
        let one = chosen(all.clone(), &["length".to_owned()]);
        assert_eq!(one.expect("it is there"), ["length"]);
        let unknown = chosen(all, &["smtp".to_owned()]).expect_err("nobody speaks it");
        assert!(unknown.to_string().contains("http1_client"));
    }

    #[test]
    fn a_line_stands_below_its_heading() {
        let row = Row {
            statistics: Statistics {
                executions: 468_368,
                per_second: 1357,
                coverage: 2138,
                features: 6217,
            },
            corpus: 1249,
            findings: Vec::new(),
            passed: true,
            last_lines: Vec::new(),
        };
        let line = Line::of(&"http1_server", &row);
        assert_eq!(line.len(), Line::HEADING.len());
        assert!(line.ends_with("       0"), "{line}");
    }
}
