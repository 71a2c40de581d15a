//! A server of the built program, for as long as a test needs it.

use crate::program::start;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout};

/// A server that serves.
pub(crate) struct Server {
    process: Child,
    stdout: BufReader<ChildStdout>,
    /// Its first line.
    pub(crate) ready: Value,
}

impl Server {
    /// `bench serve` with these arguments.
    pub(crate) fn start(folder: &Path, args: &str) -> Self {
        let mut process = start(folder, &format!("serve {args}"));
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let ready = next_line(&mut stdout);
        Self {
            process,
            stdout,
            ready,
        }
    }

    pub(crate) fn address(&self) -> &str {
        self.ready["address"].as_str().unwrap()
    }

    /// SIGTERM: its last line, and the exit code.
    pub(crate) fn end(mut self) -> (Value, Option<i32>) {
        let pid = Pid::from_raw(i32::try_from(self.process.id()).unwrap());
        kill(pid, Signal::SIGTERM).unwrap();
        let done = next_line(&mut self.stdout);
        (done, self.process.wait().unwrap().code())
    }
}

impl Drop for Server {
    /// A failed test leaves none behind.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn next_line(from: &mut impl BufRead) -> Value {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}
