//! Checks of the invariants of ARCHITECTURE.md and the habits of CONTRIBUTING.md, on the text of the repository.
//!
//! Every rule is a function from a text to findings, with a bad and a good text in its tests. All findings are reported at once.

mod finding;
mod habits;
mod lexer;
mod manifests;
mod places;
mod source;
mod texts;

use anyhow::{Context, Result, bail};
use finding::Finding;
use source::Source;
use std::path::Path;
use std::process::Command;

const SOURCE_RULES: &[fn(&Source, &mut Vec<Finding>)] = &[
    places::unsafe_place,
    places::unsafe_reason,
    places::platform_place,
    habits::opening,
    habits::leftovers,
    habits::names,
    habits::expectations,
    habits::sleeps,
    habits::function_length,
];

/// Checks the workspace at `root`; findings are printed, and are an error.
pub(crate) fn run(root: &Path) -> Result<()> {
    let mut findings = Vec::new();
    let files = tracked_files(root)?;
    for path in &files {
        // What is not text (an image, a compressed result) holds nothing these rules speak about.
        let Ok(text) = std::fs::read_to_string(root.join(path)) else {
            continue;
        };
        check_file(path, &text, root, &mut findings);
    }
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => println!("{} files, nothing found", files.len()),
        count => bail!("{count} findings in {} files", files.len()),
    }
    Ok(())
}

fn check_file(path: &str, text: &str, root: &Path, findings: &mut Vec<Finding>) {
    let name = path.rsplit('/').next().unwrap_or(path);
    if path.ends_with(".rs") {
        let source = Source::new(path, text);
        for rule in SOURCE_RULES {
            rule(&source, findings);
        }
    }
    match name {
        "Cargo.toml" => manifests::manifest(path, text, findings),
        "Cargo.lock" => manifests::lock(path, text, findings),
        _ => {}
    }
    if path.ends_with(".md") {
        texts::links(path, text, |file| root.join(file).exists(), findings);
    }
    texts::machine_paths(path, text, &root.to_string_lossy(), findings);
    texts::registries(path, text, findings);
    texts::notes(path, text, findings);
}

/// What git tracks or would track, relative to `root`. What it ignores is nobody's text.
fn tracked_files(root: &Path) -> Result<Vec<String>> {
    // A checkout may belong to another user, as in containers; reading its file names is safe then, too.
    let arguments = [
        "-c",
        "safe.directory=*",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let output = Command::new("git")
        .args(arguments)
        .current_dir(root)
        .output();
    let output =
        output.context("tidy asks git for the files to check, and git cannot be started")?;
    if !output.status.success() {
        bail!(
            "tidy asks git for the files to check: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let mut files: Vec<_> = names.split_terminator('\0').map(str::to_owned).collect();
    files.retain(|file| root.join(file).is_file());
    files.sort();
    files.dedup();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules_found(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check_file(path, text, Path::new("/srv/checkouts/loop"), &mut findings);
        findings.sort();
        findings
            .iter()
            .map(|finding| finding.to_string().split(": ").nth(1).unwrap().to_owned())
            .collect()
    }

    #[test]
    fn every_rule_is_applied() {
        let bad = format!(
            "#![allow(x)] // {mark}\n#[cfg(unix)]\nmod misc {{}}\n#[test]\nfn t() {{ thread::sleep(x) }}\nfn f() {{ unsafe {{ todo!() }} }}\nfn g() {{\n{long}}}\n// /srv/checkouts/loop\n// https:{slashes}crates.io/x\n",
            mark = concat!("FIX", "ME"),
            slashes = "//",
            long = "x();\n".repeat(80),
        );
        let mut expected = vec![
            "allow",
            "leftover",
            "leftover",
            "opening",
            "platform-place",
            "name",
            "sleep",
            "unsafe-place",
            "unsafe-reason",
            "function-length",
            "machine-path",
            "registry",
        ];
        let mut found = rules_found("bench/src/a.rs", &bad);
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(
            rules_found("platform/Cargo.toml", "[dependencies]\nshardloop = \"1\"\n"),
            ["direction"]
        );
        assert_eq!(
            rules_found("Cargo.lock", "[[package]]\nname = \"a\"\nsource = \"b\"\n"),
            ["source"]
        );
        assert_eq!(rules_found("README.md", "[a](no-such-file)"), ["link"]);
    }

    #[test]
    fn a_finding_says_where_and_what() {
        let mut findings = Vec::new();
        check_file(
            "a/b.rs",
            "//! x\n\nfn f() { dbg!(1) }\n",
            Path::new("/"),
            &mut findings,
        );
        let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
        assert_eq!(
            lines,
            ["a/b.rs:3: leftover: `dbg!`: finish it, or take it out"]
        );
    }
}
