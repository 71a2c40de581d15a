//! The runtime's tests under the address sanitizer, which sees what a safe interface over `unsafe` may have got wrong: memory that an
//! engine still used, buffers given back twice, reads past an end.
//!
//! It needs a nightly compiler, so it is a task of its own and no step of the gate.

use crate::command::CommandLine;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// Runs them. False if one fails.
pub(crate) fn run(root: &Path) -> Result<bool> {
    let command = command(&host()?);
    println!("{command}");
    match command.run(root) {
        Ok(()) => {
            println!("1 passed, 0 failed");
            Ok(true)
        }
        Err(error) => {
            println!("{error:#}\n0 passed, 1 failed");
            Ok(false)
        }
    }
}

fn command(host: &str) -> CommandLine {
    // A target, even though it is this machine's: otherwise build scripts would be instrumented, too. Its own folder, because
    // everything is compiled anew.
    let line = format!(
        "cargo +nightly test --locked -p shardloop --features glommio --lib --test it --target {host} --target-dir target/sanitize -- \
         --skip example::"
    );
    CommandLine::new(&line)
        .with("RUSTFLAGS", "-Zsanitizer=address")
        // What engines leak at their end is counted by tests of the runtime; here it would hide everything else.
        .with("ASAN_OPTIONS", "detect_leaks=0")
        // Tests that bound memory leave that out, because a sanitizer keeps freed memory for a while; and they may take longer. Those of
        // the examples are left out: what is built for them is not instrumented.
        .with("SHARDLOOP_SANITIZED", "1")
}

/// The target triple of this machine.
fn host() -> Result<String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("cannot start `rustc`, which knows this machine's target")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(line.context("`rustc -vV` names no host")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{command, host};

    #[test]
    fn the_command_can_be_pasted() {
        let text = command(&host().unwrap()).to_string();
        assert!(text.starts_with("RUSTFLAGS=-Zsanitizer=address "), "{text}");
        assert!(text.contains("cargo +nightly test"), "{text}");
    }
}
