//! The suites in which other implementations talk to ours: WebSocket, HTTP and TLS, against each server, with a line for each peer.
//!
//! Our side is the benchmark's own server and load generator, in the debug build. A peer is a program that somebody else wrote, or a
//! short script of ours (`ci/conformance/`) around a library that somebody else wrote. What it found is read from its report or its
//! output: that it ended well alone says nothing. What is not installed did not run, which is told and counted;
//! `ci/conformance/install` gets it.

mod autobahn;
mod browser;
mod certificates;
mod companion;
mod http;
mod ledger;
mod loads;
mod peer;
mod server;
mod sslyze;
mod tls;
mod tools;
mod websocket;

use crate::command::CommandLine;
use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use ledger::{Ledger, Summary};
use peer::Peer;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tools::Tools;

/// If this variable is `require`, what did not run is a failure.
const REQUIRE: &str = "SHARDLOOP_CONFORMANCE";

/// Which suites somebody asked for, and where the logs go.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Choice {
    /// Run this suite and no other (may be repeated).
    #[arg(long, value_name = "SUITE")]
    only: Vec<Suite>,
    /// Keep reports and logs in this folder, which must be new or empty [default: target/conformance/last, which is replaced].
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    Websocket,
    Http,
    Tls,
}

impl Suite {
    fn name(self) -> &'static str {
        match self {
            Self::Websocket => "websocket",
            Self::Http => "http",
            Self::Tls => "tls",
        }
    }
}

/// What every check needs: where things are.
pub(crate) struct Ground {
    /// The workspace.
    pub(crate) root: PathBuf,
    /// For reports, logs, keys: empty at the start.
    pub(crate) folder: PathBuf,
    /// Our own server and load generator.
    pub(crate) bench: PathBuf,
    /// Programs of others.
    pub(crate) tools: Tools,
}

impl Ground {
    /// Builds ours, finds the others' and makes the folder.
    fn prepare(root: &Path, keep: Option<&Path>) -> Result<Self> {
        // As the tests are built, so that after them next to nothing is left to do.
        CommandLine::new("cargo build --quiet --workspace --locked --bins --examples").run(root)?;
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root.join("target"), |folder| root.join(folder));
        let last = target.join("conformance/last");
        if keep.is_none() && last.exists() {
            fs::remove_dir_all(&last)
                .with_context(|| format!("cannot empty {}", last.display()))?;
        }
        let folder = keep.map_or(last, |keep| root.join(keep));
        fs::create_dir_all(&folder)?;
        let is_empty = fs::read_dir(&folder)?.next().is_none();
        ensure!(
            is_empty,
            "{} is not empty: name a new folder",
            folder.display()
        );
        Ok(Self {
            root: root.to_owned(),
            folder,
            bench: target.join("debug/bench"),
            tools: Tools::find(&target.join("conformance")),
        })
    }

    /// A script of ours.
    pub(crate) fn script(&self, name: &str) -> PathBuf {
        self.root.join("ci/conformance").join(name)
    }

    /// An example of the protocols.
    pub(crate) fn example(&self, name: &str) -> PathBuf {
        self.bench.with_file_name("examples").join(name)
    }

    /// A program that is run for at most `limit`, its output logged.
    pub(crate) fn peer(&self, program: &Path, limit: Duration) -> Peer {
        Peer::new(program, limit, &self.folder.join("peers.log"))
    }
}

/// As the task of its own. False if something failed.
pub(crate) fn run(root: &Path, choice: &Choice) -> Result<bool> {
    let summary = suites(root, choice)?;
    println!("{summary}");
    Ok(summary.failed == 0)
}

/// As a step of the gate, which prints the summary.
///
/// # Errors
/// Something failed.
pub(crate) fn gate(root: &Path) -> Result<String> {
    let summary = suites(root, &Choice::default())?;
    ensure!(
        summary.failed == 0,
        "{summary}; logs are in target/conformance/last"
    );
    Ok(summary.to_string())
}

fn suites(root: &Path, choice: &Choice) -> Result<Summary> {
    let ground = Ground::prepare(root, choice.keep.as_deref())?;
    let required = std::env::var(REQUIRE).is_ok_and(|value| value == "require");
    let mut ledger = Ledger::new(required);
    for suite in Suite::value_variants() {
        if !choice.only.is_empty() && !choice.only.contains(suite) {
            continue;
        }
        ledger.begin(suite.name());
        match suite {
            Suite::Websocket => websocket::run(&ground, &mut ledger)?,
            Suite::Http => http::run(&ground, &mut ledger)?,
            Suite::Tls => tls::run(&ground, &mut ledger)?,
        }
    }
    Ok(ledger.close())
}
