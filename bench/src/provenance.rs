//! Which program measured, and from which sources.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::Command;

/// This program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tool {
    /// Always `bench`.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: String,
    /// SHA-256 of the executable file.
    pub(crate) executable_sha256: Option<String>,
    /// `release`, or `debug` if assertions are on.
    pub(crate) profile: String,
    /// Compiler.
    pub(crate) rustc: Option<String>,
    /// Target triple.
    pub(crate) target: Option<String>,
    /// Compiler flags beyond the profile's.
    pub(crate) rustflags: String,
}

/// The checkout the executable lies in, at the time of the run; all `null` outside of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// Commit.
    pub(crate) git_commit: Option<String>,
    /// Whether files differ from it.
    pub(crate) git_dirty: Option<bool>,
    /// SHA-256 of `Cargo.lock`.
    pub(crate) lockfile_sha256: Option<String>,
}

impl Tool {
    /// Describes the running program.
    pub(crate) fn read() -> Self {
        let file = std::env::current_exe().ok();
        let built = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Tool {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            executable_sha256: file.and_then(|file| sha256_of(&file)),
            profile: if is_debug_build() { "debug" } else { "release" }.to_owned(),
            rustc: built(env!("BENCH_RUSTC")),
            target: built(env!("BENCH_TARGET")),
            rustflags: env!("BENCH_RUSTFLAGS").to_owned(),
        }
    }
}

impl Source {
    /// Describes the checkout around the running program.
    pub(crate) fn read() -> Self {
        let file = std::env::current_exe().ok();
        file.as_deref()
            .and_then(Path::parent)
            .map_or_else(Source::default, Source::around)
    }

    /// Commit in eight digits with its state, for people: `1a2b3c4d (clean)`.
    pub(crate) fn label(&self) -> String {
        let state = match self.git_dirty {
            Some(true) => " (modified)",
            Some(false) => " (clean)",
            None => "",
        };
        format!("{}{state}", self.short_commit())
    }

    /// Commit in eight digits, `nogit` outside of a checkout.
    pub(crate) fn short_commit(&self) -> String {
        self.git_commit
            .as_deref()
            .map_or("nogit".to_owned(), |commit| {
                commit.chars().take(8).collect()
            })
    }

    fn around(folder: &Path) -> Self {
        let top = git(folder, &["rev-parse", "--show-toplevel"]);
        Source {
            git_commit: git(folder, &["rev-parse", "HEAD"]),
            git_dirty: git(folder, &["status", "--porcelain"]).map(|changes| !changes.is_empty()),
            lockfile_sha256: top.and_then(|top| sha256_of(&Path::new(&top).join("Cargo.lock"))),
        }
    }
}

/// Built without optimisation, as far as a program can know.
pub(crate) fn is_debug_build() -> bool {
    cfg!(debug_assertions)
}

fn git(folder: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(args)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn sha256_of(file: &Path) -> Option<String> {
    let digest = Sha256::digest(std::fs::read(file).ok()?);
    Some(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outside_of_a_checkout_nothing_is_claimed() {
        let folder = tempfile::tempdir().unwrap();
        let source = Source::around(folder.path());
        assert_eq!(source, Source::default());
        assert_eq!(source.label(), "nogit");
    }

    #[test]
    fn hash_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("abc");
        std::fs::write(&file, "abc").unwrap();
        assert_eq!(
            sha256_of(&file).as_deref(),
            Some("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
        );
        assert_eq!(sha256_of(&folder.path().join("missing")), None);
    }
}
