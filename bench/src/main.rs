//! The benchmark: thread-per-core shards against a shared pool, measured honestly.
//!
//! One program plays every part. The command that measures starts it again as `serve` and as `load`, a fresh pair of processes for
//! every repetition, and reads what they print ([`contract`]).

mod analysis;
mod archive;
mod campaign;
mod case;
mod certificates;
mod checks;
mod child;
mod cli;
mod cmd;
pub mod contract;
mod doctor;
mod exit;
mod factor;
mod floor;
mod host;
mod load;
mod loss;
mod matrix;
mod measure;
mod process;
mod progress;
mod provenance;
mod repetition;
mod report;
mod result;
mod serve;
mod stdout;
mod stress;
mod study;
mod udp_socket;

use clap::Parser;
use cli::{Cli, Command};
use exit::{Exit, Refusal};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let ended = match cli.command {
        None => cmd::quick::run(&cli.quick),
        Some(Command::Quick(args)) => cmd::quick::run(&args),
        Some(Command::Run(args)) => cmd::run::run(&args),
        Some(Command::List(args)) => cmd::list::run(&args),
        Some(Command::Test(args)) => cmd::test::run(&args),
        Some(Command::Stress(args)) => cmd::stress::run(&args),
        Some(Command::Doctor(args)) => cmd::doctor::run(&args),
        Some(Command::Serve(args)) => return cmd::serve::run(&args),
        Some(Command::Load(args)) => return cmd::load::run(&args),
    };
    let exit = ended.unwrap_or_else(|error| complain(&error));
    if stdout::lost() {
        eprintln!(
            "error[E-OUTPUT]: the output could not be written in full, so what was printed is incomplete.\n  \
             make room where it goes, or leave standard output open."
        );
        return Exit::gravest([exit, Exit::Surroundings]).into();
    }
    exit.into()
}

/// Says what went wrong; a refusal knows how the program ends.
fn complain(error: &anyhow::Error) -> Exit {
    if let Some(refusal) = error.downcast_ref::<Refusal>() {
        eprintln!("{refusal}");
        return refusal.exit;
    }
    eprintln!("error: {error:#}");
    Exit::Failed
}
