//! SIGINT and SIGTERM as values one thread waits for, and signals for child processes.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

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
        wait_for(&self.blocked)
    }
}

fn wait_for(signals: &SigSet) -> io::Result<Signal> {
    loop {
        match signals.wait() {
            Ok(OsSignal::SIGINT) => return Ok(Signal::Interrupt),
            Ok(OsSignal::SIGTERM) => return Ok(Signal::Terminate),
            // Not in the set, so it cannot come; some systems let sigwait end early.
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// SIGINT and SIGTERM, held back for a while: blocked in the calling thread, which does not let go of this, and in those that it
/// starts meanwhile. When this is dropped the thread's mask is what it was before, and a signal that came and was not
/// taken does what it does without us.
#[derive(Debug)]
pub struct Held {
    before: SigSet,
    /// A mask is one thread's.
    _here: PhantomData<*mut ()>,
}

impl Held {
    /// Blocks both in the calling thread. Threads started earlier do not have them blocked, and the process would still be ended by
    /// one: call it before the first one is started.
    ///
    /// # Errors
    /// The operating system's (pthread_sigmask(3)); none is known for valid arguments.
    pub fn new() -> io::Result<Self> {
        let before = SigSet::thread_get_mask()?;
        requests_to_end().thread_block()?;
        Ok(Self {
            before,
            _here: PhantomData,
        })
    }

    /// Takes what comes, and calls `tell` with it, on a thread of its own that ends when what this returns is dropped.
    ///
    /// # Errors
    /// The thread could not be started.
    pub fn watch(&self, mut tell: impl FnMut(Signal) + Send + 'static) -> io::Result<Watch<'_>> {
        let state = Arc::<Mutex<Stage>>::default();
        let seen = state.clone();
        let thread = thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || watch(&seen, &mut tell))?;
        Ok(Watch {
            state,
            thread: Some(thread),
            _held: PhantomData,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let restored = self.before.thread_set_mask();
        debug_assert!(restored.is_ok(), "a mask that the thread had");
    }
}

/// How far a thread that watches for signals has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Waits,
    /// It was asked to end, and a signal was sent to it so that it notices.
    Asked,
    /// It takes no signal any more.
    Ended,
}

/// A thread that takes signals, for as long as this lives.
///
/// # How it ends
/// The thread sleeps in sigwait(3), which nothing but a signal ends; so it is sent SIGTERM, to it alone (pthread_kill(3)). What is
/// sent to a thread waits apart from what is sent to the process, so a SIGTERM from outside that comes at that very moment is there
/// as well: of the two the thread has taken one, finds the other waiting, and sends it to the process, whose it is.
pub struct Watch<'a> {
    state: Arc<Mutex<Stage>>,
    thread: Option<JoinHandle<()>>,
    _held: PhantomData<&'a Held>,
}

impl fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else {
            return;
        };
        let mut stage = stage(&self.state);
        if *stage == Stage::Waits {
            // It fails only if the thread is gone, because `tell` panicked: then nothing is to be waited for.
            let _ = unix::signal_thread(&thread, OsSignal::SIGTERM);
            *stage = Stage::Asked;
        }
        drop(stage);
        // A panic of it has been printed.
        let _ = thread.join();
    }
}

fn watch(state: &Mutex<Stage>, tell: &mut impl FnMut(Signal)) {
    let signals = requests_to_end();
    loop {
        let came = wait_for(&signals);
        let mut stage = stage(state);
        match (came, *stage) {
            (Ok(signal), Stage::Waits) => {
                drop(stage);
                tell(signal);
            }
            (Err(_), Stage::Waits) => {
                // Nothing can be waited for here.
                *stage = Stage::Ended;
                return;
            }
            (came, _) => {
                *stage = Stage::Ended;
                return came.map_or((), give_back);
            }
        }
    }
}

/// `taken` is the signal that was to end this thread, or one of the process's while that is still waiting.
fn give_back(taken: Signal) {
    // Of two alike it does not matter which was taken: what is left of the one sent here ends with this thread, and what waits for the
    // process already is not doubled.
    if taken == Signal::Interrupt || unix::waiting_signals().contains(OsSignal::SIGTERM) {
        // To ourselves nothing can be refused. It is for whoever waits next, or has the default action.
        let _ = nix::sys::signal::kill(Pid::this(), taken.to_os());
    }
}

/// Nothing that is done while the lock is held can panic.
fn stage(state: &Mutex<Stage>) -> MutexGuard<'_, Stage> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
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
