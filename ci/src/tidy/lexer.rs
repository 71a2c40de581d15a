//! Separates a Rust source text into code and comments; literals belong to neither.
//!
//! Both results have exactly the lines of the source, blanks stand where the other part was. So a rule that looks for a word in
//! the code cannot be fooled by a string or a comment, and line numbers stay true.

/// A source text in two layers, line by line the shape of the original.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Layers {
    /// What the compiler sees, without the insides of literals.
    pub(crate) code: String,
    /// Comments with their markers.
    pub(crate) comments: String,
}

/// Splits `source`. An unterminated literal or comment reaches to the end of the text.
pub(crate) fn layers(source: &str) -> Layers {
    let mut lexer = Lexer {
        source: source.chars().collect(),
        at: 0,
        layers: Layers {
            code: String::new(),
            comments: String::new(),
        },
    };
    while lexer.peek(0).is_some() {
        lexer.token();
    }
    lexer.layers
}

/// True for characters an identifier or a number is made of.
pub(crate) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

#[derive(Clone, Copy)]
enum Part {
    Code,
    Comment,
    Literal,
}

struct Lexer {
    source: Vec<char>,
    at: usize,
    layers: Layers,
}

impl Lexer {
    fn token(&mut self) {
        match (self.peek(0), self.peek(1)) {
            (Some('/'), Some('/')) => self.line_comment(),
            (Some('/'), Some('*')) => self.block_comment(),
            (Some('"'), _) => self.string(),
            (Some('\''), _) => self.quote(),
            (Some(c), _) if is_word(c) => self.word(),
            _ => self.take(1, Part::Code),
        }
    }

    fn line_comment(&mut self) {
        while self.peek(0).is_some_and(|c| c != '\n') {
            self.take(1, Part::Comment);
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some('/'), Some('*')) => {
                    depth += 1;
                    self.take(2, Part::Comment);
                }
                (Some('*'), Some('/')) => {
                    depth -= 1;
                    self.take(2, Part::Comment);
                }
                (Some(_), _) => self.take(1, Part::Comment),
                (None, _) => return,
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.take(1, Part::Literal);
        while let Some(c) = self.peek(0) {
            self.take(if c == '\\' { 2 } else { 1 }, Part::Literal);
            if c == '"' {
                return;
            }
        }
    }

    /// `hashes` of the opening are already behind; the cursor is on the quote.
    fn raw_string(&mut self, hashes: usize) {
        self.take(1, Part::Literal);
        while let Some(c) = self.peek(0) {
            self.take(1, Part::Literal);
            if c == '"' && (0..hashes).all(|n| self.peek(n) == Some('#')) {
                self.take(hashes, Part::Literal);
                return;
            }
        }
    }

    /// A character literal, or else a lifetime or label, which is code.
    fn quote(&mut self) {
        match (self.peek(1), self.peek(2)) {
            (Some('\\'), _) => {
                // The quote, the backslash and what it escapes, which may itself be a quote.
                self.take(3, Part::Literal);
                while self.peek(0).is_some_and(|c| c != '\'') {
                    self.take(1, Part::Literal);
                }
                self.take(1, Part::Literal);
            }
            (Some(_), Some('\'')) => self.take(3, Part::Literal),
            _ => self.take(1, Part::Code),
        }
    }

    /// An identifier or number, unless it is the prefix of a literal.
    fn word(&mut self) {
        let mut length = 0;
        while self.peek(length).is_some_and(is_word) {
            length += 1;
        }
        let word: String = self.source[self.at..self.at + length].iter().collect();
        let mut hashes = 0;
        while self.peek(length + hashes) == Some('#') {
            hashes += 1;
        }
        match (word.as_str(), self.peek(length), self.peek(length + hashes)) {
            ("r" | "br" | "cr", _, Some('"')) => {
                self.take(length + hashes, Part::Literal);
                self.raw_string(hashes);
            }
            ("b" | "c", Some('"'), _) => {
                self.take(length, Part::Literal);
                self.string();
            }
            ("b", Some('\''), _) => {
                self.take(length, Part::Literal);
                self.quote();
            }
            _ => self.take(length, Part::Code),
        }
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.source.get(self.at + ahead).copied()
    }

    fn take(&mut self, count: usize, part: Part) {
        let end = (self.at + count).min(self.source.len());
        for &c in &self.source[self.at..end] {
            let (code, comment) = match (c, part) {
                ('\n', _) => ('\n', '\n'),
                (_, Part::Code) => (c, ' '),
                (_, Part::Comment) => (' ', c),
                (_, Part::Literal) => (' ', ' '),
            };
            self.layers.code.push(code);
            self.layers.comments.push(comment);
        }
        self.at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(source: &str) -> String {
        let layers = layers(source);
        let shape = |text: &str| {
            text.chars()
                .map(|c| if c == '\n' { c } else { '.' })
                .collect::<String>()
        };
        assert_eq!(
            shape(source),
            shape(&layers.code),
            "code keeps the shape of {source:?}"
        );
        assert_eq!(
            shape(source),
            shape(&layers.comments),
            "comments keep the shape of {source:?}"
        );
        layers.code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn code_stays() {
        assert_eq!(
            code("fn f<'a>(x: &'a u8) -> u8 { *x / 2 }"),
            "fn f<'a>(x: &'a u8) -> u8 { *x / 2 }"
        );
        assert_eq!(
            code("'outer: loop { break 'outer; }"),
            "'outer: loop { break 'outer; }"
        );
        assert_eq!(
            code("let r#fn = r; let br = b + c;"),
            "let r#fn = r; let br = b + c;"
        );
    }

    #[test]
    fn comments_go() {
        assert_eq!(code("a // unsafe\nb"), "a b");
        assert_eq!(code("a /* unsafe /* nested */ still */ b"), "a b");
        assert_eq!(code("a /* \" */ b // '\"' \n c"), "a b c");
        assert_eq!(code("/// unsafe\n//! unsafe\nx"), "x");
        assert_eq!(code("a /* never closed"), "a");
        assert_eq!(layers("a // b\nc").comments, "  // b\n ");
    }

    #[test]
    fn strings_go() {
        assert_eq!(code(r#"f("unsafe", 1)"#), "f( , 1)");
        assert_eq!(code(r#"f("a \" unsafe", 1)"#), "f( , 1)");
        assert_eq!(code(r#"f("a \\", x)"#), "f( , x)");
        assert_eq!(code("f(\"// no comment\nunsafe\", y)"), "f( , y)");
        assert_eq!(code(r#"f(b"unsafe", c"unsafe")"#), "f( , )");
        assert_eq!(code("f(\"never closed"), "f(");
    }

    #[test]
    fn raw_strings_go() {
        assert_eq!(code(r##"f(r"unsafe\", x)"##), "f( , x)");
        assert_eq!(code(r###"f(r#"a "unsafe" b"#, x)"###), "f( , x)");
        assert_eq!(
            code(r####"f(br##"a "# unsafe"##, cr#"unsafe"#, x)"####),
            "f( , , x)"
        );
    }

    #[test]
    fn characters_go_and_lifetimes_stay() {
        assert_eq!(code(r#"f('"', x, "unsafe")"#), "f( , x, )");
        assert_eq!(
            code(r"f('\'', x, '\\', y, '\u{1F600}', z)"),
            "f( , x, , y, , z)"
        );
        assert_eq!(code(r#"f(b'"', b'\'', x)"#), "f( , , x)");
        assert_eq!(code("f::<'a, 'b>('é', x)"), "f::<'a, 'b>( , x)");
    }
}
