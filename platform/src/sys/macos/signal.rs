//! macOS has no parent-death signal.

use std::process::Command;

pub(crate) fn die_with_parent(command: &mut Command) -> &mut Command {
    command
}
