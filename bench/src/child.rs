//! A child process that talks in lines. Every wait has a deadline, every end is forced if need be.
//!
//! Two threads read the child's standard output (handed over line by line through a bounded channel, so that a child that prints
//! without end is held up instead of filling our memory) and standard error (its last part is kept). They end when the pipes do.
//! The child has a process group of its own: Ctrl-C in the terminal reaches this tool only, which then ends its children itself.

use crate::host;
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Longest line taken from a child.
const LINE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Lines waiting to be taken.
const LINES_WAITING_MAX: usize = 256;
/// Lines of standard error that are kept.
const STDERR_LINES_KEPT: usize = 200;
/// How often a wait looks up.
const TICK: Duration = Duration::from_millis(50);

/// A program and the arguments that come before all others.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Its file.
    pub(crate) file: std::path::PathBuf,
    /// Its first arguments.
    pub(crate) leading: Vec<String>,
}

/// Why waiting for a child was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WaitFault {
    /// It did not answer in time.
    TimedOut,
    /// The watch said so.
    Stopped(String),
}

/// How a child ended when it was told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// By itself.
    Own(ExitStatus),
    /// It ignored SIGTERM, or took too long about it.
    Killed,
}

/// A running or ended child.
#[derive(Debug)]
pub(crate) struct Child {
    name: &'static str,
    command: String,
    process: std::process::Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    stderr: Receiver<VecDeque<String>>,
    stderr_kept: Option<Vec<String>>,
    status: Option<ExitStatus>,
}

impl Child {
    /// Starts it.
    pub(crate) fn spawn(
        name: &'static str,
        program: &Program,
        args: &[String],
        with_stdin: bool,
    ) -> std::io::Result<Self> {
        let mut command = Command::new(&program.file);
        command.args(&program.leading).args(args).process_group(0);
        command.stdin(if with_stdin {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = host::prepare_child(&mut command).spawn()?;
        let (line_sender, lines) = sync_channel(LINES_WAITING_MAX);
        let (stderr_sender, stderr) = sync_channel(1);
        if let Some(pipe) = process.stdout.take() {
            std::thread::spawn(move || forward_lines(pipe, &line_sender));
        }
        if let Some(pipe) = process.stderr.take() {
            std::thread::spawn(move || keep_tail(pipe, &stderr_sender));
        }
        let command = format!("{} {}", program.file.display(), args.join(" "));
        Ok(Child {
            name,
            command,
            process,
            lines,
            seen: Vec::new(),
            stderr,
            stderr_kept: None,
            status: None,
        })
    }

    /// What it is called in messages.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Its next line; `None` once it has closed its standard output. `watch` is asked now and then and may end the wait.
    pub(crate) fn next_line(
        &mut self,
        deadline: Instant,
        watch: &mut dyn FnMut() -> Option<String>,
    ) -> Result<Option<String>, WaitFault> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left.min(TICK)) {
                Ok(line) => {
                    self.remember(&line);
                    return Ok(Some(line));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => check(deadline, watch)?,
            }
        }
    }

    /// Waits for its end.
    pub(crate) fn wait(
        &mut self,
        deadline: Instant,
        watch: &mut dyn FnMut() -> Option<String>,
    ) -> Result<ExitStatus, WaitFault> {
        let mut pause = Duration::from_micros(200);
        loop {
            if let Some(status) = self.status() {
                return Ok(status);
            }
            check(deadline, watch)?;
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }

    /// Whether it ends within this time; looks again and again.
    pub(crate) fn ends_within(&mut self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        while self.status().is_none() {
            if Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// How it ended, if it has.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.process.try_wait().ok().flatten();
        }
        self.status
    }

    /// Writes a line to its standard input.
    pub(crate) fn tell(&mut self, line: &str) -> std::io::Result<()> {
        let Some(stdin) = self.process.stdin.as_mut() else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        writeln!(stdin, "{line}")?;
        stdin.flush()
    }

    /// Asks it to end: SIGTERM.
    pub(crate) fn terminate(&mut self) {
        if self.status().is_none() {
            // It may have ended this very moment; then there is nobody to tell.
            let _ = signal::kill(self.group(), Signal::SIGTERM);
        }
    }

    /// Sees to its end: SIGTERM, and SIGKILL to its whole group after `grace`.
    pub(crate) fn end(&mut self, grace: Duration) -> Ending {
        self.terminate();
        if let Ok(status) = self.wait(Instant::now() + grace, &mut || None) {
            return Ending::Own(status);
        }
        self.kill();
        Ending::Killed
    }

    /// What it wrote to standard error, at least the last part of it; to be called after its end.
    pub(crate) fn stderr(&mut self) -> &[String] {
        if self.stderr_kept.is_none() {
            let kept = self
                .stderr
                .recv_timeout(Duration::from_millis(500))
                .map(Vec::from);
            self.stderr_kept = Some(kept.unwrap_or_else(|_| {
                vec!["(standard error is still open in a process it left behind)".to_owned()]
            }));
        }
        self.stderr_kept.as_deref().unwrap_or_default()
    }

    /// Command, end, output and errors, for the log of a failed repetition.
    pub(crate) fn evidence(&mut self) -> String {
        let status = self
            .status()
            .map_or("still running".to_owned(), |status| status.to_string());
        let (stderr, seen) = (self.stderr().join("\n"), self.seen.join("\n"));
        format!(
            "== {}\n$ {}\n{status}\n-- standard output\n{seen}\n-- standard error\n{stderr}\n",
            self.name, self.command
        )
    }

    fn kill(&mut self) {
        let _ = signal::killpg(self.group(), Signal::SIGKILL);
        self.status = self.process.wait().ok();
    }

    fn group(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.pid()).unwrap_or(i32::MAX))
    }

    fn remember(&mut self, line: &str) {
        if self.seen.len() < LINES_WAITING_MAX {
            self.seen.push(line.to_owned());
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.status().is_none() {
            self.kill();
        }
    }
}

fn check(deadline: Instant, watch: &mut dyn FnMut() -> Option<String>) -> Result<(), WaitFault> {
    if let Some(reason) = watch() {
        return Err(WaitFault::Stopped(reason));
    }
    if Instant::now() >= deadline {
        Err(WaitFault::TimedOut)
    } else {
        Ok(())
    }
}

fn forward_lines(pipe: impl Read, lines: &SyncSender<String>) {
    let mut reader = BufReader::new(pipe);
    while let Some(line) = read_line(&mut reader) {
        if lines.send(line).is_err() {
            return;
        }
    }
}

fn keep_tail(pipe: impl Read, kept: &SyncSender<VecDeque<String>>) {
    let mut tail = VecDeque::new();
    let mut reader = BufReader::new(pipe);
    while let Some(line) = read_line(&mut reader) {
        if tail.len() == STDERR_LINES_KEPT {
            tail.pop_front();
        }
        tail.push_back(line);
    }
    // Nobody may be left to read it.
    let _ = kept.send(tail);
}

/// A line without its end, cut where it is too long; `None` at the end of the pipe.
fn read_line(reader: &mut impl BufRead) -> Option<String> {
    let mut bytes = Vec::new();
    let count = reader
        .by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut bytes)
        .ok()?;
    (count > 0).then(|| {
        String::from_utf8_lossy(&bytes)
            .trim_end_matches(['\n', '\r'])
            .to_owned()
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A child that runs this shell script; what would be arguments are its `$1`, `$2`, ….
    pub(crate) fn script(text: &str) -> Program {
        Program {
            file: "sh".into(),
            leading: vec!["-c".to_owned(), text.to_owned(), "sh".to_owned()],
        }
    }

    fn start(text: &str) -> Child {
        Child::spawn("child", &script(text), &[], true).unwrap()
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    fn at_once() -> Instant {
        Instant::now() + Duration::from_millis(100)
    }

    #[test]
    fn lines_then_the_end() {
        let mut child = start("echo one; echo two; echo bad >&2; exit 3");
        let mut idle = || None;
        assert_eq!(
            child.next_line(soon(), &mut idle).unwrap().as_deref(),
            Some("one")
        );
        assert_eq!(
            child.next_line(soon(), &mut idle).unwrap().as_deref(),
            Some("two")
        );
        assert_eq!(child.next_line(soon(), &mut idle).unwrap(), None);
        assert_eq!(child.wait(soon(), &mut idle).unwrap().code(), Some(3));
        assert_eq!(child.stderr(), ["bad"]);
        let evidence = child.evidence();
        assert!(
            evidence.contains("one\ntwo")
                && evidence.contains("exit status: 3")
                && evidence.contains("bad"),
            "{evidence}"
        );
    }

    #[test]
    fn a_silent_child_times_out_and_is_ended() {
        let mut child = start("sleep 100");
        assert_eq!(
            child.next_line(at_once(), &mut || None),
            Err(WaitFault::TimedOut)
        );
        assert_eq!(
            child.wait(at_once(), &mut || None),
            Err(WaitFault::TimedOut)
        );
        assert!(
            matches!(child.end(Duration::from_secs(5)), Ending::Own(_)),
            "SIGTERM is enough"
        );
    }

    #[test]
    fn a_child_that_ignores_sigterm_is_killed() {
        let mut child = start("trap '' TERM; echo up; while :; do sleep 0.02; done");
        assert!(child.next_line(soon(), &mut || None).unwrap().is_some());
        assert_eq!(child.end(Duration::from_millis(200)), Ending::Killed);
    }

    #[test]
    fn a_watch_ends_the_wait() {
        let mut child = start("sleep 100");
        let fault = child.next_line(soon(), &mut || Some("enough".to_owned()));
        assert_eq!(fault, Err(WaitFault::Stopped("enough".to_owned())));
    }

    #[test]
    fn an_endless_talker_is_held_up_and_ended() {
        let mut child = start("while :; do echo y; done");
        for _ in 0..1000 {
            assert!(child.next_line(soon(), &mut || None).unwrap().is_some());
        }
        child.end(Duration::from_secs(5));
        assert!(child.seen.len() <= LINES_WAITING_MAX);
    }

    #[test]
    fn it_can_be_told_something() {
        let mut child = start("read line; echo \"got $line\"");
        child.tell("mark").unwrap();
        assert_eq!(
            child.next_line(soon(), &mut || None).unwrap().as_deref(),
            Some("got mark")
        );
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let nothing = Program {
            file: "/nonexistent/program".into(),
            leading: Vec::new(),
        };
        assert!(Child::spawn("child", &nothing, &[], false).is_err());
    }
}
