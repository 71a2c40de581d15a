//! The benchmark.

mod cmd;
mod contract;
mod serve;

use clap::{Parser, Subcommand};

#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(cmd::serve::ServeArgs),
}

fn main() -> std::process::ExitCode {
    match Cli::parse().command {
        Command::Serve(args) => cmd::serve::run(&args),
    }
}
