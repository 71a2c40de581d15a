//! The benchmark.
#![cfg_attr(not(test), expect(dead_code, reason = "reports are not here yet"))]

mod cmd;
#[cfg_attr(test, expect(dead_code, reason = "serve is not here yet"))]
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
