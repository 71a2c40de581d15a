//! SIGINT and SIGTERM as values one thread waits for, and signals for child processes.

use std::io;
use std::process::Command;

use nix::sys::signal::{SigSet, Signal as OsSignal};
use nix::unistd::Pid;

use crate::sys::{os, unix};

/// A request to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C at the terminal.
    Interrupt,
    /// SIGTERM: a supervisor's polite request.
    Terminate,
}

impl Signal {
    /// The exit code of a program that ends because of it: 128 plus the signal's number, as shells report it.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }

    fn to_os(self) -> OsSignal {
        match self {
            Self::Interrupt => OsSignal::SIGINT,
            Self::Terminate => OsSignal::SIGTERM,
        }
    }
}

/// SIGINT and SIGTERM, blocked so that they can be waited for. They stay blocked when this is dropped.
#[derive(Debug)]
pub struct Signals {
    blocked: SigSet,
}

impl Signals {
    /// Blocks both in the calling thread. Threads started later inherit that, threads started earlier do not
    /// and would still be ended by a signal: call it before the first one.
    ///
    /// # Errors
    /// The operating system's (pthread_sigmask(3)); none is known for valid arguments.
    pub fn block() -> io::Result<Self> {
        let blocked = requests_to_end();
        blocked.thread_block()?;
        Ok(Self { blocked })
    }

    /// Waits until one of them arrives (sigwait(3)) and takes it. One thread at a time.
    ///
    /// # Errors
    /// The operating system's.
    pub fn wait(&self) -> io::Result<Signal> {
        loop {
            match self.blocked.wait() {
                Ok(OsSignal::SIGINT) => return Ok(Signal::Interrupt),
                Ok(OsSignal::SIGTERM) => return Ok(Signal::Terminate),
                // Not in the set, so it cannot come; some systems let sigwait end early.
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

fn requests_to_end() -> SigSet {
    [OsSignal::SIGINT, OsSignal::SIGTERM].into_iter().collect()
}

/// Has the child start with SIGINT and SIGTERM unblocked and with their default action, so that it can be
/// ended although [`Signals::block`] was called here. A blocked mask survives exec (execve(2)).
pub fn with_default_signals(command: &mut Command) -> &mut Command {
    unix::default_signals_in_child(command, requests_to_end())
}

/// Has the child killed (SIGKILL) when the *thread* that spawns it ends, however that happens: spawn it from a
/// thread that lives as long as the child should (the main thread).
///
/// Linux: prctl(2) PR_SET_PDEATHSIG. A parent that died before the child could say so is noticed. macOS and
/// others have nothing of the kind, so this changes nothing there; watch the child's standard input instead:
/// it reads end of file when the parent is gone.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    os::signal::die_with_parent(command)
}

/// Sends a request to end to process `pid`.
///
/// # Errors
/// Kind `InvalidInput` for numbers that are not one process (0 means a whole group to kill(2)); ESRCH when
/// there is no such process, EPERM when it is not ours.
pub fn send(pid: u32, signal: Signal) -> io::Result<()> {
    Ok(nix::sys::signal::kill(one_process(pid)?, signal.to_os())?)
}

/// Ends process `pid` at once (SIGKILL).
///
/// # Errors
/// As [`send`].
pub fn kill(pid: u32) -> io::Result<()> {
    Ok(nix::sys::signal::kill(
        one_process(pid)?,
        OsSignal::SIGKILL,
    )?)
}

fn one_process(pid: u32) -> io::Result<Pid> {
    match i32::try_from(pid) {
        Ok(pid) if pid > 0 => Ok(Pid::from_raw(pid)),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{pid} is not the number of a process"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_shells() {
        for signal in [Signal::Interrupt, Signal::Terminate] {
            assert_eq!(i32::from(signal.exit_code()), 128 + signal.to_os() as i32);
        }
    }

    #[test]
    fn numbers_that_mean_a_group_are_refused() {
        for pid in [0, u32::MAX, 1 << 31] {
            assert_eq!(
                send(pid, Signal::Terminate).unwrap_err().kind(),
                io::ErrorKind::InvalidInput
            );
            assert_eq!(kill(pid).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
    }
}
