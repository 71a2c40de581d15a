//! A program that stands beside a check: it says where it listens, and is there until nobody wants it any more.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

/// One that runs. Dropped, it is killed.
pub(crate) struct Companion {
    /// The last word of its first line.
    pub(crate) address: String,
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Companion {
    /// Starts it and waits for its first line.
    pub(crate) fn start(mut command: Command, log: &Path) -> Result<Self> {
        let program = command.get_program().to_owned();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(log)?)
            .spawn()
            .with_context(|| format!("cannot start {program:?}"))?;
        let out = child.stdout.take().context("its output is ours")?;
        let mut companion = Self {
            address: String::new(),
            child,
            out: BufReader::new(out),
        };
        let line = companion.line()?;
        let address = line.split_whitespace().last();
        let nothing = || format!("{program:?} did not start: see {}", log.display());
        address
            .with_context(nothing)?
            .clone_into(&mut companion.address);
        Ok(companion)
    }

    /// Ends its input, and reads what it says then.
    pub(crate) fn end(mut self) -> Result<String> {
        drop(self.child.stdin.take());
        self.line()
    }

    /// Its next line; it writes one or ends.
    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.out.read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }
}

impl Drop for Companion {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
