//! The benchmark.

mod cmd;
mod contract;
mod load;
mod measure;
mod serve;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Load(cmd::load::LoadArgs),
    Serve(cmd::serve::ServeArgs),
}

fn main() -> std::process::ExitCode {
    match Cli::parse().command {
        Command::Load(args) => cmd::load::run(&args),
        Command::Serve(args) => cmd::serve::run(&args),
    }
}
