//! The benchmark.

mod cmd;
#[expect(unreachable_pub, reason = "written as an interface")]
mod contract;
mod load;
mod measure;

use clap::Parser;

/// Closed-loop load for the echo servers of this workspace.
#[derive(Parser)]
#[command(name = "bench")]
enum Cli {
    /// Drives an echo server and verifies every reply.
    Load(cmd::load::LoadArgs),
}

fn main() -> std::process::ExitCode {
    match Cli::parse() {
        Cli::Load(args) => cmd::load::run(&args),
    }
}
