//! A Rust source file as the rules see it: its layers, its words, attributes, functions, and which lines are test code.

use super::lexer::{is_word, layers};
use std::ops::Range;

/// One source file. Offsets count bytes of `code`.
pub(crate) struct Source {
    /// Relative to the workspace, with `/`.
    pub(crate) path: String,
    /// The text without comments and literals.
    pub(crate) code: String,
    comments: Vec<String>,
    code_lines: Vec<String>,
    line_starts: Vec<usize>,
    tests: Vec<Range<usize>>,
    first_line: String,
}

impl Source {
    /// Reads `text`, the content of `path`.
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let layers = layers(text);
        let lines = |text: &str| text.split('\n').map(str::to_owned).collect::<Vec<_>>();
        let newlines = layers.code.match_indices('\n').map(|(at, _)| at + 1);
        let mut source = Self {
            path: path.to_owned(),
            line_starts: std::iter::once(0).chain(newlines).collect(),
            comments: lines(&layers.comments),
            code_lines: lines(&layers.code),
            code: layers.code,
            tests: Vec::new(),
            first_line: text.lines().next().unwrap_or_default().to_owned(),
        };
        source.tests = source.test_items();
        source
    }

    /// The first line as written.
    pub(crate) fn first_line(&self) -> &str {
        &self.first_line
    }

    /// Line number, from 1, of a byte of the code.
    pub(crate) fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= offset)
    }

    /// Comments of a line (from 1); empty where there is no such line.
    pub(crate) fn comment(&self, line: usize) -> &str {
        line.checked_sub(1)
            .and_then(|index| self.comments.get(index))
            .map_or("", String::as_str)
    }

    /// Code of a line (from 1), trimmed; empty where there is no such line.
    pub(crate) fn code_line(&self, line: usize) -> &str {
        line.checked_sub(1)
            .and_then(|index| self.code_lines.get(index))
            .map_or("", |code| code.trim())
    }

    /// Whether the byte belongs to a test: a file of a `tests` folder, or an item only tests compile.
    pub(crate) fn is_test(&self, offset: usize) -> bool {
        self.path
            .split('/')
            .any(|part| part == "tests" || part == "tests.rs")
            || self.tests.iter().any(|range| range.contains(&offset))
    }

    /// Every identifier and number with its offset.
    pub(crate) fn words(&self) -> Vec<(usize, &str)> {
        words(&self.code)
    }

    /// The code from `offset` on, without leading blanks.
    pub(crate) fn after(&self, offset: usize) -> &str {
        self.code[offset..].trim_start()
    }

    /// Every attribute, `#[…]` and `#![…]`, as the range of its bytes.
    pub(crate) fn attributes(&self) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        for (at, _) in self.code.match_indices('#') {
            let rest = self.after(at + 1);
            let rest = rest.strip_prefix('!').map_or(rest, str::trim_start);
            if rest.starts_with('[') {
                let end = self.closing(self.code.len() - rest.len());
                found.push(at..end);
            }
        }
        found
    }

    /// Every function that has a body: the offset of `fn`, its name, and its lines from `fn` to the closing brace.
    pub(crate) fn functions(&self) -> Vec<(usize, &str, usize)> {
        let mut found = Vec::new();
        for (at, word) in self.words() {
            // `fn(` is a type and not a function.
            let (true, Some(name)) = (word == "fn", leading_word(self.after(at + word.len())))
            else {
                continue;
            };
            let end = self.item_end(at);
            if self.code[at..end].ends_with('}') {
                found.push((at, name, self.line(end - 1) - self.line(at) + 1));
            }
        }
        found
    }

    /// Offset behind the bracket that closes the one at `open`; the end of the code if none does.
    pub(crate) fn closing(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for (at, c) in self.code[open..].char_indices() {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            if depth == 0 {
                return open + at + c.len_utf8();
            }
        }
        self.code.len()
    }

    /// Offset behind the item that starts at `start`: behind its body, or behind its semicolon.
    fn item_end(&self, start: usize) -> usize {
        let mut at = start;
        while let Some(c) = self.code[at..].chars().next() {
            match c {
                '{' => return self.closing(at),
                ';' => return at + 1,
                // A field or statement without an end of its own ends with what encloses it.
                '}' => return at,
                '(' | '[' => at = self.closing(at),
                _ => at += c.len_utf8(),
            }
        }
        at
    }

    fn test_items(&self) -> Vec<Range<usize>> {
        let is_test = |range: &Range<usize>| {
            let words = words(&self.code[range.clone()]);
            let has = |wanted| words.iter().any(|&(_, word)| word == wanted);
            has("test") && !has("not") && !has("any")
        };
        let attributes = self.attributes().into_iter();
        attributes
            .filter(is_test)
            .map(|range| range.start..self.item_end(range.end))
            .collect()
    }
}

/// The word a text begins with.
pub(crate) fn leading_word(text: &str) -> Option<&str> {
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

/// The words of any text with their offsets.
pub(crate) fn words(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        match (start, is_word(c)) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                found.push((from, &text[from..at]));
                start = None;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_count_from_one() {
        let source = Source::new("a.rs", "//! é\nfn f() {}\nfn g() {}\n");
        let lines: Vec<_> = source
            .functions()
            .iter()
            .map(|&(at, name, _)| (name, source.line(at)))
            .collect();
        assert_eq!(lines, [("f", 2), ("g", 3)]);
        assert_eq!(source.comment(1), "//! é");
        assert_eq!(source.code_line(2), "fn f() {}");
        assert_eq!(source.code_line(0), "");
    }

    #[test]
    fn functions_end_at_their_brace() {
        let text = "trait T { fn declared(&self); }\ntype P = fn(u8);\nfn long(a: [u8; 2]) -> u8\n{\n  if x { }\n}\n";
        let functions = Source::new("a.rs", text)
            .functions()
            .iter()
            .map(|f| (f.1.to_owned(), f.2))
            .collect::<Vec<_>>();
        assert_eq!(functions, [("long".to_owned(), 4)]);
    }

    #[test]
    fn test_code_is_told_apart() {
        let text = "fn a() {}\n#[cfg(test)]\n#[expect(x)]\nmod tests { fn b() {} }\n#[cfg(not(test))]\nfn c() {}\n#[test]\nfn d() {}\nfn e() {}";
        let source = Source::new("x/src/a.rs", text);
        let tests: Vec<_> = source
            .functions()
            .iter()
            .filter(|f| source.is_test(f.0))
            .map(|f| f.1)
            .collect();
        assert_eq!(tests, ["b", "d"]);
        let source = Source::new("x/tests/it/a.rs", "fn a() {}");
        assert!(source.is_test(0));
    }

    #[test]
    fn attributes_reach_to_their_bracket() {
        let source = Source::new(
            "a.rs",
            "#![warn(x)]\n#[cfg(any(a,\n b))] fn f() { let x = [0]; }",
        );
        let found: Vec<_> = source
            .attributes()
            .into_iter()
            .map(|range| source.code[range].to_owned())
            .collect();
        assert_eq!(found, ["#![warn(x)]", "#[cfg(any(a,\n b))]"]);
    }
}
