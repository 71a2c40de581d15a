//! Rules about where something may stand: `unsafe`, and what differs from platform to platform.

use super::finding::Finding;
use super::source::{Source, leading_word, words};

/// Where `unsafe` may stand: the invariant of ARCHITECTURE.md. A file by its name, or everything that begins so.
const UNSAFE_PLACES: &[&str] = &[
    "platform/src/sys.rs",
    "platform/src/sys/",
    "runtime/src/backend.rs",
    "runtime/src/backend/",
    "runtime/src/task",
    "runtime/src/mesh/spsc.rs",
    "protocols/src/rudp/gf256.rs",
];

/// Where platforms may be told apart: the twin folders, and the one place that selects an engine by its name.
const PLATFORM_PLACES: &[&str] = &[
    "platform/src/sys.rs",
    "platform/src/sys/",
    "runtime/src/backend.rs",
    "runtime/src/backend/",
    "runtime/src/kind.rs",
];

const PLATFORM_WORDS: &[&str] = &[
    "target_os",
    "target_family",
    "target_vendor",
    "unix",
    "windows",
];

/// `unsafe` outside the listed places.
pub(crate) fn unsafe_place(source: &Source, findings: &mut Vec<Finding>) {
    if is_listed(UNSAFE_PLACES, &source.path) {
        return;
    }
    for (at, _) in source
        .words()
        .into_iter()
        .filter(|&(_, word)| word == "unsafe")
    {
        let advice = "move it to one of the places ARCHITECTURE.md names, or do without";
        findings.push(Finding::new(
            &source.path,
            source.line(at),
            "unsafe-place",
            advice,
        ));
    }
}

/// An unsafe block or impl without its reason.
pub(crate) fn unsafe_reason(source: &Source, findings: &mut Vec<Finding>) {
    for (at, word) in source.words() {
        let rest = source.after(at + word.len());
        let stated = rest.starts_with('{') || leading_word(rest) == Some("impl");
        if word == "unsafe" && stated && !has_reason(source, source.line(at)) {
            let advice = "say in a `SAFETY:` comment directly above why this is sound";
            findings.push(Finding::new(
                &source.path,
                source.line(at),
                "unsafe-reason",
                advice,
            ));
        }
    }
}

/// Conditional compilation by platform outside the listed places. Tests have no exception.
pub(crate) fn platform_place(source: &Source, findings: &mut Vec<Finding>) {
    if is_listed(PLATFORM_PLACES, &source.path) {
        return;
    }
    for (at, word) in source.words() {
        let rest = source.after(at + word.len());
        let rest = rest.strip_prefix('!').map_or(rest, str::trim_start);
        if !matches!(word, "cfg" | "cfg_attr") || !rest.starts_with('(') {
            continue;
        }
        let open = source.code.len() - rest.len();
        let condition = &source.code[open..source.closing(open)];
        if let Some((_, platform)) = words(condition)
            .into_iter()
            .find(|(_, word)| PLATFORM_WORDS.contains(word))
        {
            let advice = format!(
                "`{platform}`: let `platform` or a backend tell the platforms apart, with one interface for all"
            );
            findings.push(Finding::new(
                &source.path,
                source.line(at),
                "platform-place",
                advice,
            ));
        }
    }
}

fn is_listed(places: &[&str], path: &str) -> bool {
    places.iter().any(|place| {
        if place.ends_with(".rs") {
            path == *place
        } else {
            path.starts_with(place)
        }
    })
}

/// Looks on the line itself and upwards through the same statement, its attributes and comments.
fn has_reason(source: &Source, line: usize) -> bool {
    let same_statement = |&above: &usize| {
        let code = source.code_line(above);
        !(code.ends_with([';', '{', '}', ',']) || code.ends_with("=>"))
    };
    let above = (1..line).rev().take_while(same_statement);
    std::iter::once(line)
        .chain(above)
        .any(|line| source.comment(line).contains("SAFETY:"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::brief;
    use super::*;

    fn check(rule: fn(&Source, &mut Vec<Finding>), path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        rule(&Source::new(path, text), &mut findings);
        brief(&findings)
    }

    #[test]
    fn unsafe_only_in_listed_places() {
        let text = "fn f() {\n    unsafe { g() }\n}\nunsafe impl Send for X {}\n";
        for bad in [
            "bench/src/a.rs",
            "runtime/src/mesh.rs",
            "runtime/src/wake.rs",
            "platform/src/system/a.rs",
            "platform/tests/it/a.rs",
        ] {
            assert_eq!(
                check(unsafe_place, bad, text),
                ["2: unsafe-place", "4: unsafe-place"],
                "{bad}"
            );
        }
        for good in [
            "platform/src/sys/linux.rs",
            "runtime/src/backend/monoio.rs",
            "runtime/src/task.rs",
            "runtime/src/task/raw.rs",
            "runtime/src/mesh/spsc.rs",
        ] {
            assert_eq!(check(unsafe_place, good, text), [""; 0], "{good}");
        }
    }

    #[test]
    fn the_document_names_the_same_places() {
        let document = include_str!("../../../ARCHITECTURE.md");
        for place in UNSAFE_PLACES.iter().chain(PLATFORM_PLACES) {
            let name = place.trim_end_matches('/').trim_end_matches(".rs");
            assert!(
                document.contains(&format!("`{name}")),
                "ARCHITECTURE.md does not name {place}"
            );
        }
    }

    #[test]
    fn the_word_unsafe_alone_is_no_breach() {
        let text = "#![forbid(unsafe_code)]\n// unsafe\n/* unsafe */\nconst A: &str = \"unsafe\"; const B: &str = r#\"unsafe\"#;\n";
        assert_eq!(check(unsafe_place, "bench/src/a.rs", text), [""; 0]);
    }

    #[test]
    fn unsafe_gives_its_reason() {
        let bad = "fn f() {\n    // SAFETY: of the other one\n    a();\n    unsafe { g() }\n    let x = \"SAFETY:\"; unsafe { g() }\n}\n\nunsafe impl Send for X {}\n";
        assert_eq!(
            check(unsafe_reason, "a.rs", bad),
            ["4: unsafe-reason", "5: unsafe-reason", "8: unsafe-reason"]
        );
        let good = "fn f() {\n    // SAFETY: g asks nothing.\n    #[expect(x)]\n    let a =\n        unsafe { g() };\n    unsafe { g() } // SAFETY: same.\n}\n// SAFETY: X is a number.\nunsafe impl Send for X {}\nunsafe fn g() {}\ntype T = unsafe fn();\n";
        assert_eq!(check(unsafe_reason, "a.rs", good), [""; 0]);
    }

    #[test]
    fn platforms_are_told_apart_in_listed_places() {
        let text = "#[cfg(target_os = \"linux\")]\nfn a() {}\n#[cfg(any(test,\n    not(unix)))]\nfn b() { if cfg!(windows) {} }\n#![cfg_attr(target_family = \"x\", y)]\n";
        let all = [
            "1: platform-place",
            "3: platform-place",
            "5: platform-place",
            "6: platform-place",
        ];
        for bad in [
            "bench/src/a.rs",
            "runtime/tests/it/main.rs",
            "platform/src/lib.rs",
        ] {
            assert_eq!(check(platform_place, bad, text), all, "{bad}");
        }
        for good in [
            "platform/src/sys/mod.rs",
            "runtime/src/backend/a.rs",
            "runtime/src/kind.rs",
        ] {
            assert_eq!(check(platform_place, good, text), [""; 0], "{good}");
        }
        let other = "#[cfg(test)]\nmod a { use std::os::unix::net; }\n#[cfg(feature = \"unix\")]\nfn b() {} // cfg(unix)\nfn c() { d(cfg, \"cfg(unix)\") }\n";
        assert_eq!(check(platform_place, "bench/src/a.rs", other), [""; 0]);
    }
}
