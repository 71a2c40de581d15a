//! A program that runs for a bounded time and is heard to its end.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// A program before it runs.
pub(crate) struct Peer {
    command: Command,
    limit: Duration,
    log: PathBuf,
    input: Vec<u8>,
    /// Its standard input stays open until it has said this.
    until: Option<String>,
}

/// What a program said.
#[derive(Debug)]
pub(crate) struct Heard {
    /// Its exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Heard {
    /// Its last words, for a finding.
    pub(crate) fn last_line(&self) -> &str {
        let mut lines = self.err.lines().chain(self.out.lines());
        lines
            .rfind(|line| !line.trim().is_empty())
            .unwrap_or("it said nothing")
    }

    /// # Errors
    /// Its exit code is not 0.
    pub(crate) fn success(self) -> Result<Self> {
        if self.code != Some(0) {
            let said: Vec<_> = [self.err.trim(), self.out.trim()]
                .into_iter()
                .filter(|text| !text.is_empty())
                .collect();
            bail!("exit code {:?}: {}", self.code, tail(&said.join(" | ")));
        }
        Ok(self)
    }
}

/// The end of a long text.
fn tail(text: &str) -> String {
    const CHARACTERS: usize = 600;
    let skipped = text.chars().count().saturating_sub(CHARACTERS);
    text.chars().skip(skipped).collect()
}

/// One of a program's outputs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Out,
    Err,
}

impl Peer {
    pub(super) fn new(program: &Path, limit: Duration, log: &Path) -> Self {
        Self {
            command: Command::new(program),
            limit,
            log: log.to_owned(),
            input: Vec::new(),
            until: None,
        }
    }

    pub(crate) fn arg(mut self, word: impl AsRef<OsStr>) -> Self {
        self.command.arg(word);
        self
    }

    pub(crate) fn args<S: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.command.args(words);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Gives it `input`, and the end of its input only after it has said `until`.
    pub(crate) fn say(mut self, input: &[u8], until: &str) -> Self {
        (self.input, self.until) = (input.to_vec(), Some(until.to_owned()));
        self
    }

    /// Runs it to its end, which comes at the limit at the latest.
    ///
    /// # Errors
    /// It cannot be started, or is still there at the limit.
    pub(crate) fn listen(mut self) -> Result<Heard> {
        let name = format!("{:?}", self.command);
        let mut child = self
            .command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {:?}", self.command.get_program()))?;
        let (sender, receiver) = channel();
        listen_to(Source::Out, child.stdout.take(), sender.clone());
        listen_to(Source::Err, child.stderr.take(), sender);
        let heard = self.follow(&mut child, &receiver);
        if heard.is_err() {
            let _ = child.kill();
        }
        let code = child.wait()?.code();
        let (out, err) = self.write_log(&name, heard)?;
        Ok(Heard { code, out, err })
    }

    /// What it says until it has closed its outputs, and whether it did so in time.
    fn follow(
        &self,
        child: &mut Child,
        receiver: &Receiver<(Source, Vec<u8>)>,
    ) -> Result<(String, String), (String, String)> {
        let deadline = Instant::now() + self.limit;
        let mut input = child.stdin.take();
        if let Some(input) = &mut input {
            // Whoever does not read has its reasons, and says so.
            let _ = input.write_all(&self.input);
        }
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let in_time = loop {
            let text = String::from_utf8_lossy(&out);
            if self.until.as_ref().is_none_or(|until| text.contains(until)) {
                input = None;
            }
            match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok((Source::Out, bytes)) => out.extend(bytes),
                Ok((Source::Err, bytes)) => err.extend(bytes),
                Err(RecvTimeoutError::Disconnected) => break true,
                Err(RecvTimeoutError::Timeout) => break false,
            }
        };
        drop(input);
        let texts = [out, err].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let [out, err] = texts;
        if in_time {
            Ok((out, err))
        } else {
            Err((out, err))
        }
    }

    fn write_log(
        &self,
        name: &str,
        heard: Result<(String, String), (String, String)>,
    ) -> Result<(String, String)> {
        let in_time = heard.is_ok();
        let (Ok((out, err)) | Err((out, err))) = heard;
        let mut log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.log)?;
        writeln!(log, "$ {name}\n{out}\n{err}")?;
        if !in_time {
            let limit = self.limit.as_secs();
            bail!("it had not ended after {limit} s: {}", tail(&(err + &out)));
        }
        Ok((out, err))
    }
}

fn listen_to(
    source: Source,
    stream: Option<impl Read + Send + 'static>,
    sender: Sender<(Source, Vec<u8>)>,
) {
    let Some(mut stream) = stream else { return };
    thread::spawn(move || {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(read @ 1..) = stream.read(&mut buffer) {
            if sender.send((source, buffer[..read].to_vec())).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(program: &str, limit: Duration) -> Peer {
        let log = std::env::temp_dir().join(format!("ci-peer-{}.log", std::process::id()));
        Peer::new(Path::new(program), limit, &log)
    }

    #[test]
    fn what_it_says_is_heard() {
        let long = Duration::from_secs(60);
        let heard = peer("sh", long).args(["-c", "echo out; echo err >&2; exit 3"]);
        let heard = heard.listen().unwrap();
        assert_eq!(
            (heard.code, &*heard.out, &*heard.err),
            (Some(3), "out\n", "err\n")
        );
        assert!(heard.success().is_err());
        // It ends when its input does, and that ends once it has said the word.
        let heard = peer("cat", long).say(b"a word\n", "word").listen().unwrap();
        assert_eq!((heard.code, &*heard.out), (Some(0), "a word\n"));
    }

    #[test]
    fn it_does_not_run_for_ever() {
        let error = peer("cat", Duration::from_millis(50)).say(b"x", "y");
        let error = error.listen().unwrap_err().to_string();
        assert!(error.contains("had not ended"), "{error}");
    }
}
