//! Rules about `Cargo.toml` and `Cargo.lock`: which crate may depend on which, and what monoio must never bring along.
//!
//! Reads the part of TOML that manifests use: sections, dotted keys, values over several lines. It does not judge the syntax;
//! cargo does that.

use super::finding::Finding;

/// Folder, package, and which of our packages it may depend on: the table of ARCHITECTURE.md.
const CRATES: &[(&str, &str, &[&str])] = &[
    ("platform", "shardloop-platform", &[]),
    ("runtime", "shardloop", &["shardloop-platform"]),
    ("protocols", "shardloop-protocols", &["shardloop"]),
    (
        "bench",
        "bench",
        &["shardloop-platform", "shardloop", "shardloop-protocols"],
    ),
    ("ci", "ci", &[]),
];

/// The one feature through which `protocols` may reach the runtime.
const DRIVE: &str = "drive";

/// Optional dependencies of monoio that only its feature `sync` turns on.
const SYNC_DEPENDENCIES: &[&str] = &["flume", "threadpool"];

/// Where packages of the lock file come from, and nowhere else. In two parts: only lock files name it whole.
const INDEX: &str = concat!("registry", "+https://github.com/rust-lang/crates.io-index");

/// All rules for a manifest.
pub(crate) fn manifest(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let entries = entries(text);
    monoio_without_sync(path, &entries, findings);
    let folder = path.strip_suffix("/Cargo.toml");
    if path == "Cargo.toml" {
        known_members(path, &entries, findings);
    } else if let Some((_, package, allowed)) =
        CRATES.iter().find(|(name, ..)| Some(*name) == folder)
    {
        directions(path, package, allowed, &entries, findings);
        if *package == "shardloop-protocols" {
            runtime_behind_drive(path, &entries, findings);
        }
    }
}

/// All rules for the lock file.
pub(crate) fn lock(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let mut package = String::new();
    for entry in entries(text) {
        if entry.key == "name" {
            package = entry.value.trim_matches('"').to_owned();
        }
        if entry.key == "source" && entry.value.trim_matches('"') != INDEX {
            let advice = format!(
                "`{package}` comes from elsewhere than the public index: take a published version"
            );
            findings.push(Finding::new(path, entry.line, "source", advice));
        }
        let syncs = SYNC_DEPENDENCIES
            .iter()
            .any(|name| strings(&entry.value).any(|dependency| dependency == *name));
        if package == "monoio" && entry.key == "dependencies" && syncs {
            findings.push(Finding::new(path, entry.line, "monoio-sync", MONOIO_ADVICE));
        }
    }
}

const MONOIO_ADVICE: &str = "monoio never gets the feature `sync` (nor `signal`, which implies it): wakes from other threads are ours";

fn monoio_without_sync(path: &str, entries: &[Entry], findings: &mut Vec<Finding>) {
    for entry in entries {
        let declares = dependency(entry).is_some_and(|found| found.name == "monoio");
        let declares = declares || entry.section == ["workspace", "dependencies", "monoio"];
        let asked = strings(&entry.value).any(|text| {
            let feature = text
                .strip_prefix("monoio/")
                .or_else(|| text.strip_prefix("monoio?/"));
            let feature = feature.or(declares.then_some(text));
            feature
                .is_some_and(|feature| matches!(feature, "sync" | "signal" | "signal-termination"))
        });
        if asked {
            findings.push(Finding::new(path, entry.line, "monoio-sync", MONOIO_ADVICE));
        }
    }
}

fn known_members(path: &str, entries: &[Entry], findings: &mut Vec<Finding>) {
    let members = entries
        .iter()
        .filter(|entry| entry.section == ["workspace"] && entry.key == "members");
    for entry in members {
        for member in strings(&entry.value)
            .filter(|member| CRATES.iter().all(|(folder, ..)| folder != member))
        {
            let advice = format!(
                "`{member}` has no row in the table of crates: say there what it may depend on"
            );
            findings.push(Finding::new(path, entry.line, "direction", advice));
        }
    }
}

fn directions(
    path: &str,
    package: &str,
    allowed: &[&str],
    entries: &[Entry],
    findings: &mut Vec<Finding>,
) {
    let mut last = "";
    for (entry, found) in entries
        .iter()
        .filter_map(|entry| Some((entry, dependency(entry)?)))
    {
        let ours = CRATES.iter().any(|(_, name, _)| *name == found.name);
        // A dependency written as a table has an entry per key.
        if ours && !allowed.contains(&found.name) && last != found.name {
            let name = found.name;
            let advice = format!(
                "`{package}` must not depend on `{name}`: move what both need to the lower of the two"
            );
            findings.push(Finding::new(path, entry.line, "direction", advice));
        }
        last = found.name;
    }
}

/// `protocols` reaches the runtime only as an optional dependency that only `drive` turns on.
fn runtime_behind_drive(path: &str, entries: &[Entry], findings: &mut Vec<Finding>) {
    let runtime = |entry: &&Entry| {
        dependency(entry)
            .is_some_and(|found| found.name == "shardloop" && found.kind == "dependencies")
    };
    let declared: Vec<_> = entries.iter().filter(runtime).collect();
    let compact = |entry: &Entry| entry.value.replace(char::is_whitespace, "");
    let optional = declared.iter().any(|entry| {
        compact(entry).contains("optional=true")
            || entry.key.ends_with("optional") && entry.value == "true"
    });
    if let (Some(entry), false) = (declared.first(), optional) {
        let advice =
            format!("`shardloop` is `optional = true` here, and only `{DRIVE}` turns it on");
        findings.push(Finding::new(path, entry.line, "drive", advice));
    }
    for entry in entries
        .iter()
        .filter(|entry| entry.section == ["features"] && entry.key != DRIVE)
    {
        let turns_on = |text: &str| {
            matches!(text, "dep:shardloop" | "shardloop") || text.starts_with("shardloop/")
        };
        if strings(&entry.value).any(turns_on) {
            let advice = format!(
                "feature `{}` turns the runtime on: only `{DRIVE}` may",
                entry.key
            );
            findings.push(Finding::new(path, entry.line, "drive", advice));
        }
    }
}

/// One `key = value`.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    line: usize,
    section: Vec<String>,
    key: String,
    value: String,
}

struct Dependency<'a> {
    kind: &'a str,
    name: &'a str,
}

/// What dependency an entry of a package's manifest speaks about, if any.
fn dependency(entry: &Entry) -> Option<Dependency<'_>> {
    let is_kind = |part: &str| {
        matches!(
            part,
            "dependencies" | "dev-dependencies" | "build-dependencies"
        )
    };
    let at = entry.section.iter().position(|part| is_kind(part))?;
    let key = entry
        .key
        .split('.')
        .next()
        .unwrap_or_default()
        .trim_matches('"');
    let alias = entry.section.get(at + 1).map_or(key, String::as_str);
    let renamed = entry.value.split_once("package").and_then(|(_, rest)| {
        rest.trim_start()
            .strip_prefix('=')
            .and_then(|rest| rest.split('"').nth(1))
    });
    let as_table = (entry.key == "package").then(|| entry.value.trim_matches('"'));
    Some(Dependency {
        kind: &entry.section[at],
        name: as_table.or(renamed).unwrap_or(alias),
    })
}

/// The quoted strings of a value.
fn strings(value: &str) -> impl Iterator<Item = &str> {
    value.split('"').skip(1).step_by(2)
}

fn entries(text: &str) -> Vec<Entry> {
    let mut found: Vec<Entry> = Vec::new();
    let mut section = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        let line = without_comment(line).trim();
        match (open, found.last_mut()) {
            (true, Some(entry)) => {
                entry.value.push(' ');
                entry.value.push_str(line);
            }
            _ if line.starts_with('[') => section = section_parts(line.trim_matches(['[', ']'])),
            _ => {
                let Some((key, value)) = line.split_once('=') else {
                    continue;
                };
                let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
                found.push(Entry {
                    line: index + 1,
                    section: section.clone(),
                    key,
                    value,
                });
            }
        }
        open = found.last().is_some_and(|entry| is_open(&entry.value));
    }
    found
}

/// Splits at the dots that are not quoted: `target.'cfg(a.b)'.dependencies`.
fn section_parts(name: &str) -> Vec<String> {
    let mut quote = None;
    let separates = |c: char| {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
        quote.is_none() && c == '.'
    };
    name.split(separates)
        .map(|part| part.trim().trim_matches(['"', '\'']).to_owned())
        .collect()
}

fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let end = line.find(|c| {
        quoted ^= c == '"';
        c == '#' && !quoted
    });
    end.map_or(line, |end| &line[..end])
}

/// Whether a list or table of the value goes on in the next line.
fn is_open(value: &str) -> bool {
    let outside: String = value.split('"').step_by(2).collect();
    let count = |wanted: [char; 2]| outside.matches(wanted).count();
    count(['[', '{']) > count([']', '}'])
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    fn check(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        match path {
            "Cargo.lock" => lock(path, text, &mut findings),
            _ => manifest(path, text, &mut findings),
        }
        brief(&findings)
    }

    #[test]
    fn entries_know_section_and_line() {
        let text = "[a] # x\nb = [ # y\n  \"c#\", # z\n]\n\n[target.'cfg(target_os = \"l.x\")'.dependencies.d]\ne.f = 1\n";
        let entries = entries(text);
        let brief: Vec<_> = entries
            .iter()
            .map(|e| {
                (
                    e.line,
                    e.section.join("/"),
                    e.key.as_str(),
                    e.value.as_str(),
                )
            })
            .collect();
        let target = "target/cfg(target_os = \"l.x\")/dependencies/d".to_owned();
        assert_eq!(
            brief,
            [
                (2, "a".to_owned(), "b", "[ \"c#\", ]"),
                (7, target, "e.f", "1")
            ]
        );
    }

    #[test]
    fn dependencies_point_downwards() {
        assert_eq!(
            check(
                "platform/Cargo.toml",
                "[dependencies]\nlibc = \"1\"\nshardloop = { path = \"../runtime\" }\n"
            ),
            ["3: direction"]
        );
        assert_eq!(
            check(
                "runtime/Cargo.toml",
                "[dev-dependencies]\nshardloop-protocols.workspace = true\n"
            ),
            ["2: direction"]
        );
        assert_eq!(
            check(
                "runtime/Cargo.toml",
                "[target.'cfg(unix)'.dependencies.bench]\npath = \"x\"\noptional = true\n"
            ),
            ["2: direction"]
        );
        assert_eq!(
            check(
                "ci/Cargo.toml",
                "[build-dependencies]\nx = { package = \"shardloop-platform\", version = \"1\" }\n"
            ),
            ["2: direction"]
        );
        assert_eq!(
            check(
                "bench/Cargo.toml",
                "[dependencies]\nci = { path = \"../ci\" }\n"
            ),
            ["2: direction"]
        );
        assert_eq!(
            check(
                "Cargo.toml",
                "[workspace]\nmembers = [\"platform\", \"extra\"]\n"
            ),
            ["2: direction"]
        );
        let all = "[dependencies]\nshardloop = { workspace = true }\nshardloop-platform.workspace = true\nshardloop-protocols.workspace = true\n";
        assert_eq!(check("bench/Cargo.toml", all), [""; 0]);
        assert_eq!(
            check(
                "runtime/Cargo.toml",
                "[dependencies]\nshardloop-platform.workspace = true\n[package]\nname = \"bench\"\n"
            ),
            [""; 0]
        );
        assert_eq!(
            check(
                "Cargo.toml",
                "[workspace]\nmembers = [\"platform\", \"ci\"]\n[workspace.dependencies]\nci = { path = \"ci\" }\n"
            ),
            [""; 0]
        );
    }

    #[test]
    fn protocols_reach_the_runtime_through_drive() {
        let path = "protocols/Cargo.toml";
        let good = "[features]\ndefault = [\"drive\"]\ndrive = [\"dep:shardloop\"]\n[dependencies]\nshardloop = { workspace = true, optional = true }\n";
        assert_eq!(check(path, good), [""; 0]);
        assert_eq!(
            check(
                path,
                "[dependencies.shardloop]\nworkspace = true\noptional = true\n"
            ),
            [""; 0]
        );
        assert_eq!(
            check(
                path,
                "[dependencies]\nshardloop.workspace = true\nshardloop.optional = true\n"
            ),
            [""; 0]
        );
        assert_eq!(
            check(
                path,
                "[dependencies]\nshardloop = { workspace = true }\nbytes = { version = \"1\", optional = true }\n"
            ),
            ["2: drive"]
        );
        assert_eq!(
            check(path, "[features]\ntls = [\n  \"dep:shardloop\",\n]\n"),
            ["2: drive"]
        );
        assert_eq!(
            check(path, "[features]\ntls = [\"shardloop/tls\"]\n"),
            ["2: drive"]
        );
        assert_eq!(
            check(path, "[features]\ntls = [\"shardloop?/tls\"]\n"),
            [""; 0]
        );
        assert_eq!(
            check(
                path,
                "[dependencies]\nshardloop-platform = { workspace = true, optional = true }\n"
            ),
            ["2: direction"]
        );
    }

    #[test]
    fn monoio_never_syncs() {
        assert_eq!(
            check(
                "Cargo.toml",
                "[workspace.dependencies]\nmonoio = { version = \"1\", features = [\"legacy\",\n \"sync\"] }\n"
            ),
            ["2: monoio-sync"]
        );
        assert_eq!(
            check(
                "Cargo.toml",
                "[workspace.dependencies.monoio]\nversion = \"1\"\nfeatures = [\"sync\"]\n"
            ),
            ["3: monoio-sync"]
        );
        assert_eq!(
            check(
                "runtime/Cargo.toml",
                "[dependencies]\nmonoio = { workspace = true, features = [\"signal\"] }\n"
            ),
            ["2: monoio-sync"]
        );
        assert_eq!(
            check("runtime/Cargo.toml", "[features]\nx = [\"monoio?/sync\"]\n"),
            ["2: monoio-sync"]
        );
        let good = "[workspace.dependencies]\nmonoio = { version = \"1\", features = [\"legacy\", \"async-cancel\"] } # never \"sync\"\ntokio = { version = \"1\", features = [\"sync\"] }\n";
        assert_eq!(check("Cargo.toml", good), [""; 0]);
        let package = |name: &str, dependency: &str| {
            format!(
                "[[package]]\nname = \"{name}\"\ndependencies = [\n \"bytes\",\n \"{dependency}\",\n]\n"
            )
        };
        assert_eq!(
            check("Cargo.lock", &package("monoio", "flume")),
            ["3: monoio-sync"]
        );
        assert_eq!(
            check(
                "Cargo.lock",
                &(package("monoio", "mio") + &package("other", "flume"))
            ),
            [""; 0]
        );
    }

    #[test]
    fn packages_come_from_the_public_index() {
        let package = |source: &str| {
            format!("[[package]]\nname = \"a\"\nversion = \"1\"\nsource = \"{source}\"\n")
        };
        assert_eq!(check("Cargo.lock", &package(INDEX)), [""; 0]);
        assert_eq!(
            check("Cargo.lock", &package("git+https://example.org/a")),
            ["4: source"]
        );
        assert_eq!(
            check(
                "Cargo.lock",
                &package(concat!("registry", "+https://example.org/index"))
            ),
            ["4: source"]
        );
    }
}
