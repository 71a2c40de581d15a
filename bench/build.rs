//! Tells the program which compiler and flags it was built with; `run.json` records them.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CARGO_ENCODED_RUSTFLAGS");
    println!(
        "cargo::rustc-env=BENCH_RUSTC={}",
        rustc_version().unwrap_or_default()
    );
    println!("cargo::rustc-env=BENCH_TARGET={}", variable("TARGET"));
    println!(
        "cargo::rustc-env=BENCH_RUSTFLAGS={}",
        variable("CARGO_ENCODED_RUSTFLAGS").replace('\u{1f}', " ")
    );
}

fn rustc_version() -> Option<String> {
    let output = Command::new(std::env::var_os("RUSTC")?)
        .arg("-V")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().trim_start_matches("rustc ").to_owned())
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}
