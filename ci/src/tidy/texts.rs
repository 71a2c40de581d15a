//! Rules for every text of the repository: no trace of the machine it was written on, and documents whose links lead somewhere.

use super::finding::Finding;
use super::lexer::{is_word, layers};
use std::path::Path;

/// First folders of paths that exist on one machine only.
const MACHINE_FOLDERS: &[&str] = &["home", "root", "Users", "work", "workspace", "builds"];

/// Hosts from which package managers download. A URL of one belongs into a lock file and nowhere else.
const REGISTRY_HOSTS: &[&str] = &[
    "crates.io",
    "pypi.org",
    "pythonhosted.org",
    "npmjs.org",
    "npmjs.com",
    "rubygems.org",
];

/// First labels of the hosts on which companies keep copies of registries.
const MIRROR_LABELS: &[&str] = &["artifactory", "nexus", "registry", "mirror"];

/// Absolute paths of a build machine: those of any, and of this one, whose checkout is at `root`.
pub(crate) fn machine_paths(path: &str, text: &str, root: &str, findings: &mut Vec<Finding>) {
    for (index, line) in text.lines().enumerate() {
        let folder = MACHINE_FOLDERS
            .iter()
            .find(|folder| names_folder(line, folder));
        let checkout = root.matches('/').count() > 1 && line.contains(root);
        if folder.is_some() || checkout {
            let advice = "a path of one machine: make it relative, or ask the environment for it";
            findings.push(Finding::new(path, index + 1, "machine-path", advice));
        }
    }
}

/// URLs of package registries and settings that replace the public one. The lock file has a rule of its own.
pub(crate) fn registries(path: &str, text: &str, findings: &mut Vec<Finding>) {
    if path.ends_with(".lock") {
        return;
    }
    // Written in two parts, so that this file does not contain what it looks for.
    let settings = [
        concat!("registry", "+http"),
        concat!("sparse", "+http"),
        concat!("replace-", "with ="),
    ];
    for (index, line) in text.lines().enumerate() {
        let named = hosts(line).any(|host| {
            let below = |name: &str| {
                host.strip_suffix(name)
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            let label = host.split('.').next().unwrap_or_default();
            REGISTRY_HOSTS.iter().any(|name| below(name)) || MIRROR_LABELS.contains(&label)
        });
        if named || settings.iter().any(|setting| line.contains(setting)) {
            let advice = "name the package and not the host it is downloaded from";
            findings.push(Finding::new(path, index + 1, "registry", advice));
        }
    }
}

/// Notes of unfinished work, in any text; in Rust only in comments.
pub(crate) fn notes(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let marks = [concat!("FIX", "ME"), concat!("XX", "X")];
    let comments = if path.ends_with(".rs") {
        layers(text).comments
    } else {
        text.to_owned()
    };
    for (index, line) in comments.lines().enumerate() {
        if let Some(mark) = line
            .split(|c| !is_word(c))
            .find(|word| marks.contains(word))
        {
            findings.push(Finding::new(
                path,
                index + 1,
                "leftover",
                format!("`{mark}`: do it, or file it"),
            ));
        }
    }
}

/// Links of a Markdown document to files. `exists` is asked with a path relative to the workspace.
pub(crate) fn links(
    path: &str,
    text: &str,
    exists: impl Fn(&Path) -> bool,
    findings: &mut Vec<Finding>,
) {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        fenced ^= line.trim_start().starts_with("```");
        let targets = link_targets(line).into_iter().filter(|_| !fenced);
        for target in targets {
            let file = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:");
            if !elsewhere && !file.is_empty() && !exists(&folder.join(file)) {
                let advice = format!(
                    "`{target}` leads nowhere: correct the link, or write what it promises"
                );
                findings.push(Finding::new(path, index + 1, "link", advice));
            }
        }
    }
}

/// Whether the line holds `/folder/` as the beginning of a path, and not as a part of a longer one.
fn names_folder(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + folder.len()..]);
        let Some(before) = before.strip_suffix(['/', '\\']) else {
            return false;
        };
        // A drive letter may stand in front.
        let begins =
            before.ends_with(':') || !before.ends_with(|c| is_word(c) || "/.-)}>*~".contains(c));
        begins && after.starts_with(['/', '\\'])
    })
}

fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.split("://").skip(1).map(|rest| {
        let end = rest
            .find(|c: char| !(c.is_alphanumeric() || "-.@".contains(c)))
            .unwrap_or(rest.len());
        rest[..end].rsplit('@').next().unwrap_or_default()
    })
}

/// Targets of `[text](target)` and of `[label]: target`.
fn link_targets(line: &str) -> Vec<&str> {
    let mut found: Vec<_> = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', ' ']).next())
        .collect();
    if let Some((label, target)) = line.split_once("]: ")
        && label.starts_with('[')
        && !label.contains(']')
    {
        found.extend(target.split_whitespace().next());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    fn check(rule: impl Fn(&mut Vec<Finding>)) -> Vec<String> {
        let mut findings = Vec::new();
        rule(&mut findings);
        brief(&findings)
    }

    #[test]
    fn paths_of_a_machine_are_found() {
        let of = |text: &str| {
            check(|findings| machine_paths("a.md", text, "/srv/checkouts/loop", findings))
        };
        for folder in MACHINE_FOLDERS {
            assert_eq!(
                of(&format!("x\ncd \"/{folder}/me/src\"\n")),
                ["2: machine-path"],
                "{folder}"
            );
            assert_eq!(
                of(&format!("=C:\\{folder}\\me")),
                ["1: machine-path"],
                "{folder}"
            );
            assert_eq!(
                of(&format!(
                    "a/{folder}/b ../{folder}/ https://x.org/{folder}/c /{folder}s/ ~/{folder}/"
                )),
                [""; 0],
                "{folder}"
            );
        }
        assert_eq!(of("see /srv/checkouts/loop/a"), ["1: machine-path"]);
        assert_eq!(of("see /proc/self/stat, /usr/bin, $HOME/.cache"), [""; 0]);
    }

    #[test]
    fn a_root_without_folders_matches_nothing() {
        let findings =
            check(|findings| machine_paths("a.md", "a / b and /src/lib", "/src", findings));
        assert_eq!(findings, [""; 0]);
    }

    #[test]
    fn registries_are_found() {
        let of = |path: &str, text: &str| check(|findings| registries(path, text, findings));
        for host in REGISTRY_HOSTS {
            assert_eq!(
                of("a.md", &format!("https:{}files.{host}/x", "//")),
                ["1: registry"],
                "{host}"
            );
            assert_eq!(
                of("a.md", &format!("see\n[x](http:{}user@{host})", "//")),
                ["2: registry"],
                "{host}"
            );
        }
        for label in MIRROR_LABELS {
            assert_eq!(
                of(
                    "a.toml",
                    &format!("url = \"https:{}{label}.example.org:80/\"", "//")
                ),
                ["1: registry"],
                "{label}"
            );
        }
        assert_eq!(
            of(".cargo/config.toml", concat!("replace-", "with = \"x\"")),
            ["1: registry"]
        );
        assert_eq!(
            of(
                "Cargo.lock",
                concat!("source = \"registry", "+https://github.com/x\"")
            ),
            [""; 0]
        );
        assert_eq!(
            of(
                "a.md",
                "https://docs.rs/x and https://github.com/crates.io and crates.io"
            ),
            [""; 0]
        );
    }

    #[test]
    fn notes_are_found_in_comments() {
        let of = |path: &str, text: &str| check(|findings| notes(path, text, findings));
        let mark = concat!("FIX", "ME");
        assert_eq!(
            of("a.rs", &format!("f(\"{mark}\")\ng() // {mark}: later\n")),
            ["2: leftover"]
        );
        assert_eq!(of("a.sh", concat!("# XX", "X")), ["1: leftover"]);
        assert_eq!(of("a.sh", concat!("mktemp a.XX", "XXXX")), [""; 0]);
    }

    #[test]
    fn links_lead_somewhere() {
        let of = |path: &str, text: &str| {
            check(|findings| {
                links(
                    path,
                    text,
                    |file| [Path::new("A.md"), Path::new("docs/B.md")].contains(&file),
                    findings,
                )
            })
        };
        assert_eq!(
            of(
                "README.md",
                "[a](A.md) [b](docs/B.md#part) [c](#here) [d](https://x.org/y)\n[e]: A.md\n"
            ),
            [""; 0]
        );
        assert_eq!(of("docs/C.md", "[b](B.md)"), [""; 0]);
        assert_eq!(
            of(
                "README.md",
                "x [a](A.md) [z](Z.md \"title\")\n[e]: docs/Z.md\n"
            ),
            ["1: link", "2: link"]
        );
        assert_eq!(of("docs/C.md", "[a](A.md)"), ["1: link"]);
        assert_eq!(
            of("README.md", "```text\n[z](Z.md)\n```\n[z](Z.md)\n"),
            ["4: link"]
        );
    }
}
