//! Automation, run as `cargo ci <task>`.
fn main() {}
