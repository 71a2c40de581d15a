//! The parent-death signal of Linux.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, getppid};

pub(crate) fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = Pid::this();
    // SAFETY: between fork and exec only async-signal-safe calls are allowed. The hook makes two system calls and allocates nothing: an error of kind only is a plain value.
    unsafe { command.pre_exec(move || ask_to_die_with(parent)) }
}

fn ask_to_die_with(parent: Pid) -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    // A parent that ended before the line above sends no signal any more; the child then has another one.
    if getppid() == parent {
        Ok(())
    } else {
        Err(io::ErrorKind::NotConnected.into())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_child_ends_with_the_thread_that_spawned_it() {
        // `cat` waits for its standard input, whose other end stays open here: only a signal ends it.
        let spawn = || {
            die_with_parent(Command::new("cat").stdin(Stdio::piped()))
                .spawn()
                .unwrap()
        };
        let mut child = std::thread::spawn(spawn).join().unwrap();
        let input = child.stdin.take();
        assert_eq!(child.wait().unwrap().signal(), Some(Signal::SIGKILL as i32));
        drop(input);
    }
}
