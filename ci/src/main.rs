//! Automation, run as `cargo ci <task>`.

mod check;
mod command;
mod conformance;
mod cross;
mod fuzz;
mod libfuzzer;
mod purity;
mod readme;
mod sanitize;
mod smoke;
mod targets;
mod tidy;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo ci", about = "Automation of this workspace")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the gate: every step, or those chosen. Exit code 1 if one fails.
    Check(check::Choice),
    /// Print the steps of the gate and what each runs on this machine.
    List,
    /// Run the suites in which other implementations talk to ours. Exit code 1 if one finds something.
    Conformance(conformance::Choice),
    /// Run the tests of the runtime under the address sanitizer. Needs a nightly compiler.
    Sanitize,
    /// Run the fuzz targets of the protocols. Needs cargo-fuzz and a nightly compiler; exit code 1 if something is found.
    Fuzz(fuzz::Choice),
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> Result<bool> {
    let root = workspace()?;
    match &arguments.task {
        Task::Check(choice) => check::run(&root, choice),
        Task::List => check::list(&root).map(|()| true),
        Task::Conformance(choice) => conformance::run(&root, choice),
        Task::Sanitize => sanitize::run(&root),
        Task::Fuzz(choice) => fuzz::run(&root, choice),
    }
}

/// The nearest folder upwards whose manifest has a workspace.
fn workspace() -> Result<PathBuf> {
    let here = std::env::current_dir().context("cannot tell the current folder")?;
    let is_root = |folder: &&std::path::Path| {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml"));
        manifest.is_ok_and(|text| text.lines().any(|line| line.trim() == "[workspace]"))
    };
    let root = here
        .ancestors()
        .find(is_root)
        .context("no workspace in this folder or above it")?;
    Ok(root.to_owned())
}
