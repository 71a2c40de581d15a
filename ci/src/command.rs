//! A command line as data: it can be printed for somebody to repeat, and run.

use anyhow::{Context, Result, bail};
use std::fmt;
use std::path::Path;
use std::process::Command;

/// A program with its arguments and what it needs in the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    environment: Vec<(String, String)>,
    words: Vec<String>,
}

impl CommandLine {
    /// A command from words separated by blanks. No shell is involved, so quotes mean nothing.
    pub(crate) fn new(line: &str) -> Self {
        Self {
            environment: Vec::new(),
            words: line.split_whitespace().map(str::to_owned).collect(),
        }
    }

    /// Puts a program in front, which may contain blanks.
    pub(crate) fn program(mut self, program: &str) -> Self {
        self.words.insert(0, program.to_owned());
        self
    }

    /// Sets a variable for the command.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs it in `root` with our standard streams; anything but exit code 0 is an error.
    pub(crate) fn run(&self, root: &Path) -> Result<()> {
        let (program, arguments) = self.words.split_first().context("an empty command")?;
        let mut command = Command::new(program);
        command.args(arguments).current_dir(root);
        // `cargo run` describes the package `ci` to us; build scripts of others would take that for a change and run again.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if ["CARGO_PKG_", "CARGO_MANIFEST_"]
                .iter()
                .any(|prefix| text.starts_with(prefix))
                || text == "CARGO"
            {
                command.env_remove(&name);
            }
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let status = command
            .status()
            .with_context(|| format!("cannot start `{program}`"))?;
        if !status.success() {
            bail!("`{self}` ended with {status}");
        }
        Ok(())
    }
}

impl fmt::Display for CommandLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |word: &str| {
            let plain = !word.is_empty()
                && !word.contains(|c: char| c.is_whitespace() || "'\"$&|;<>*?".contains(c));
            if plain {
                word.to_owned()
            } else {
                format!("'{word}'")
            }
        };
        let variables = self
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={}", quoted(value)));
        let words = self.words.iter().map(|word| quoted(word));
        f.write_str(&variables.chain(words).collect::<Vec<_>>().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_what_can_be_pasted() {
        let command = CommandLine::new("cargo doc --locked").with("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(
            command.to_string(),
            "RUSTDOCFLAGS='-D warnings' cargo doc --locked"
        );
        assert_eq!(
            CommandLine::new("check").program("a b/c").to_string(),
            "'a b/c' check"
        );
    }

    #[test]
    fn an_exit_code_is_an_error() {
        let here = Path::new(".");
        CommandLine::new("true").run(here).unwrap();
        let error = CommandLine::new("false").run(here).unwrap_err().to_string();
        assert!(
            error.starts_with("`false` ended with exit status"),
            "{error}"
        );
        let error = CommandLine::new("no-such-program-here")
            .run(here)
            .unwrap_err()
            .to_string();
        assert_eq!(error, "cannot start `no-such-program-here`");
    }
}
