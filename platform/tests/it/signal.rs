//! Waiting for signals, and ending children with them.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread;

use nix::sys::signal::{Signal as OsSignal, raise};
use shardloop_platform::signal::{Signal, Signals, kill, send, with_default_signals};

/// In a thread of its own, because the mask stays: signals to the process must still reach the others.
fn with_blocked_signals<T: Send + 'static>(test: impl FnOnce(&Signals) -> T + Send + 'static) -> T {
    thread::spawn(|| test(&Signals::block().unwrap()))
        .join()
        .unwrap()
}

/// A child that lives until its standard input ends, which it does not while the child is held here.
fn waiting_child(command: &mut Command) -> Child {
    command.stdin(Stdio::piped()).spawn().unwrap()
}

fn ended_by(child: &mut Child) -> Option<i32> {
    let _input = child.stdin.take();
    child.wait().unwrap().signal()
}

#[test]
fn blocked_signals_are_waited_for_one_by_one() {
    let (first, second) = with_blocked_signals(|signals| {
        // To this thread only, and pending by the time raise returns.
        raise(OsSignal::SIGTERM).unwrap();
        let first = signals.wait().unwrap();
        raise(OsSignal::SIGINT).unwrap();
        (first, signals.wait().unwrap())
    });
    assert_eq!((first, second), (Signal::Terminate, Signal::Interrupt));
}

#[test]
fn a_child_of_a_blocked_thread_can_be_ended_politely() {
    for (signal, number) in [
        (Signal::Terminate, OsSignal::SIGTERM),
        (Signal::Interrupt, OsSignal::SIGINT),
    ] {
        let mut child =
            with_blocked_signals(|_| waiting_child(with_default_signals(&mut Command::new("cat"))));
        send(child.id(), signal).unwrap();
        assert_eq!(ended_by(&mut child), Some(number as i32));
    }
}

#[test]
fn a_child_is_killed() {
    let mut child = waiting_child(&mut Command::new("cat"));
    kill(child.id()).unwrap();
    assert_eq!(ended_by(&mut child), Some(OsSignal::SIGKILL as i32));
}
