//! Rules about how Rust is written here: CONTRIBUTING.md as far as a machine can check it.

use super::finding::Finding;
use super::source::{Source, words};

/// Lines of the longest function outside tests, from `fn` to its closing brace.
const FUNCTION_LINES: usize = 70;

const LEFTOVER_MACROS: &[&str] = &["todo", "dbg", "unimplemented"];
const VAGUE_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc"];

/// Every file says first what it is for.
pub(crate) fn opening(source: &Source, findings: &mut Vec<Finding>) {
    if !source.first_line().starts_with("//!") {
        findings.push(Finding::new(
            &source.path,
            1,
            "opening",
            "open the file with `//!` and its job in a sentence",
        ));
    }
}

/// Macros that mark unfinished work, and tests that are switched off.
pub(crate) fn leftovers(source: &Source, findings: &mut Vec<Finding>) {
    for (at, word) in source.words() {
        if LEFTOVER_MACROS.contains(&word) && source.after(at + word.len()).starts_with('!') {
            let advice = format!("`{word}!`: finish it, or take it out");
            findings.push(Finding::new(
                &source.path,
                source.line(at),
                "leftover",
                advice,
            ));
        }
    }
    for range in source.attributes() {
        if words(&source.code[range.clone()])
            .iter()
            .any(|&(_, word)| word == "ignore")
        {
            let advice = "a test that is ignored tests nothing: make it run, or take it out";
            findings.push(Finding::new(
                &source.path,
                source.line(range.start),
                "leftover",
                advice,
            ));
        }
    }
}

/// Names that say nothing about what is inside.
pub(crate) fn names(source: &Source, findings: &mut Vec<Finding>) {
    let advice = |name: &str| format!("`{name}` could hold anything: name the noun that is inside");
    let parts = source.path.trim_end_matches(".rs").split('/');
    for part in parts.filter(|part| VAGUE_NAMES.contains(part)) {
        findings.push(Finding::new(&source.path, 1, "name", advice(part)));
    }
    let words = source.words();
    for pair in words.windows(2) {
        let [(at, keyword), (_, name)] = pair else {
            continue;
        };
        // `mod utils;` belongs to a file, which is reported by its path.
        let inline = source
            .after(at + keyword.len())
            .trim_start_matches(*name)
            .trim_start()
            .starts_with('{');
        if *keyword == "mod" && inline && VAGUE_NAMES.contains(name) {
            findings.push(Finding::new(
                &source.path,
                source.line(*at),
                "name",
                advice(name),
            ));
        }
    }
}

/// `allow` stays silent when its reason is gone; `expect` does not.
pub(crate) fn expectations(source: &Source, findings: &mut Vec<Finding>) {
    for range in source.attributes() {
        let attribute = &source.code[range.clone()];
        let allows = words(attribute).into_iter().any(|(at, word)| {
            word == "allow" && attribute[at + word.len()..].trim_start().starts_with('(')
        });
        if allows {
            let advice = "write `#[expect(lint, reason = \"…\")]`";
            findings.push(Finding::new(
                &source.path,
                source.line(range.start),
                "allow",
                advice,
            ));
        }
    }
}

/// A sleep in a test hopes that something happens meanwhile.
pub(crate) fn sleeps(source: &Source, findings: &mut Vec<Finding>) {
    for (at, _) in source
        .words()
        .into_iter()
        .filter(|&(_, word)| word == "sleep")
    {
        let before = source.code[..at].trim_end();
        let called = source.after(at + "sleep".len()).starts_with('(');
        // An import of `thread::sleep` is caught too: its calls would not show where they come from.
        let sleeps = before.ends_with("thread::") || before.ends_with("time::") && called;
        let line = source.line(at);
        let excused = [line, line.saturating_sub(1)].into_iter().any(|line| {
            let reason = source.comment(line).split_once("tidy: sleep");
            // On the line above only a comment that stands alone speaks for this line.
            let speaks = line == source.line(at) || source.code_line(line).is_empty();
            speaks && reason.is_some_and(|(_, reason)| reason.contains(char::is_alphanumeric))
        });
        if sleeps && source.is_test(at) && !excused {
            let advice =
                "wait for the event itself, or say `// tidy: sleep` and why nothing else works";
            findings.push(Finding::new(&source.path, line, "sleep", advice));
        }
    }
}

/// A function one cannot see at once.
pub(crate) fn function_length(source: &Source, findings: &mut Vec<Finding>) {
    for (at, name, lines) in source.functions() {
        if lines > FUNCTION_LINES && !source.is_test(at) {
            let advice = format!(
                "`{name}` has {lines} lines, the bound is {FUNCTION_LINES}: name its parts"
            );
            findings.push(Finding::new(
                &source.path,
                source.line(at),
                "function-length",
                advice,
            ));
        }
    }
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
    fn a_file_opens_with_its_job() {
        assert_eq!(check(opening, "a.rs", "//! Counts.\nfn f() {}"), [""; 0]);
        for bad in ["fn f() {}", "\n//! Late.", "// Not for the docs.", ""] {
            assert_eq!(check(opening, "a.rs", bad), ["1: opening"], "{bad:?}");
        }
    }

    #[test]
    fn nothing_unfinished_stays() {
        let bad = "fn f() {\n    todo!()\n}\nfn g() { std::dbg! (1); unimplemented!(); }\n#[test]\n#[ignore = \"slow\"]\nfn h() {}\n#[cfg_attr(miri, ignore)]\nfn i() {}\n";
        assert_eq!(
            check(leftovers, "a.rs", bad),
            [
                "2: leftover",
                "4: leftover",
                "4: leftover",
                "6: leftover",
                "8: leftover"
            ]
        );
        let good = "fn f(todo: u8) { g(todo, \"todo!()\") } // dbg!(x)\nfn ignore() { ignore() }\n";
        assert_eq!(check(leftovers, "a.rs", good), [""; 0]);
    }

    #[test]
    fn names_are_nouns_with_a_meaning() {
        assert_eq!(check(names, "bench/src/utils.rs", ""), ["1: name"]);
        assert_eq!(check(names, "bench/tests/common/mod.rs", ""), ["1: name"]);
        assert_eq!(
            check(names, "bench/src/a.rs", "\nmod helpers { }"),
            ["2: name"]
        );
        assert_eq!(
            check(
                names,
                "bench/src/commons.rs",
                "mod utilities { } mod utils; // mod misc {}"
            ),
            [""; 0]
        );
    }

    #[test]
    fn lints_are_expected_and_not_allowed() {
        let bad = "#![allow(dead_code)]\n#[ allow (x)]\nfn f() {}\n#[cfg_attr(test, allow(y))]\nfn g() {}\n";
        assert_eq!(
            check(expectations, "a.rs", bad),
            ["1: allow", "2: allow", "4: allow"]
        );
        let good = "#[expect(x, reason = \"#[allow(x)]\")]\nfn allow(allow: u8) { allow(1) } // #[allow(x)]\n#[serde(allow)]\nfn g() {}\n";
        assert_eq!(check(expectations, "a.rs", good), [""; 0]);
    }

    #[test]
    fn tests_do_not_sleep() {
        let bad = "fn f() {\n    std::thread::sleep(x);\n    time::sleep(x).await; // a pause\n    thread::sleep(x); // tidy: sleep\n}\n";
        assert_eq!(
            check(sleeps, "runtime/tests/it/a.rs", bad),
            ["2: sleep", "3: sleep", "4: sleep"]
        );
        assert_eq!(check(sleeps, "runtime/src/a.rs", bad), [""; 0]);
        let unit = "fn f() { thread::sleep(x) }\n#[cfg(test)]\nmod tests {\n    fn g() { thread::sleep(x) }\n}\n";
        assert_eq!(check(sleeps, "runtime/src/a.rs", unit), ["4: sleep"]);
        assert_eq!(
            check(sleeps, "runtime/tests/it/a.rs", "use std::thread::sleep;"),
            ["1: sleep"]
        );
        let good = "use shardloop::time::sleep;\nfn f() {\n    // tidy: sleep, the kernel gives no sign\n    thread::sleep(x);\n    thread::sleep(x); // tidy: sleep, as above\n    my::sleep(x); \"thread::sleep\";\n}\n";
        assert_eq!(check(sleeps, "runtime/tests/it/a.rs", good), [""; 0]);
    }

    #[test]
    fn functions_are_short() {
        let of = |lines: usize| format!("//! x\nfn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2));
        assert_eq!(
            check(function_length, "a/src/a.rs", &of(FUNCTION_LINES)),
            [""; 0]
        );
        assert_eq!(
            check(function_length, "a/src/a.rs", &of(FUNCTION_LINES + 1)),
            ["2: function-length"]
        );
        assert_eq!(
            check(function_length, "a/tests/a.rs", &of(FUNCTION_LINES + 1)),
            [""; 0]
        );
        let unit = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", of(200));
        assert_eq!(check(function_length, "a/src/a.rs", &unit), [""; 0]);
    }
}
