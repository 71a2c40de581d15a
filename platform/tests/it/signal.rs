//! Waiting for signals, and ending children with them.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use nix::sys::signal::{SigSet, Signal as OsSignal, raise};
use shardloop_platform::signal::{Held, Signal, Signals, kill, send, with_default_signals};

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

/// Runs the calling test, which is `name`, in a process of its own, where all threads but the one that goes on here have both signals
/// blocked, as is usual for a program, and not for tests. `None` there.
fn again(name: &str) -> Option<Output> {
    const INSIDE: &str = "SHARDLOOP_SIGNAL_TEST";
    if std::env::var(INSIDE).as_deref() == Ok(name) {
        let both: SigSet = [OsSignal::SIGINT, OsSignal::SIGTERM].into_iter().collect();
        both.thread_unblock().unwrap();
        return None;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("signal::{name}"), "--nocapture"])
        .env(INSIDE, name);
    // A blocked mask survives exec.
    Some(with_blocked_signals(move |_| command.output().unwrap()))
}

/// Whether SIGTERM is blocked in the calling thread.
fn is_blocked() -> bool {
    SigSet::thread_get_mask()
        .unwrap()
        .contains(OsSignal::SIGTERM)
}

#[test]
fn held_signals_are_told_and_the_mask_is_put_back() {
    thread::spawn(|| {
        for _ in 0..3 {
            assert!(!is_blocked());
            let held = Held::new().unwrap();
            assert!(is_blocked() && thread::spawn(is_blocked).join().unwrap());
            let (told, heard) = mpsc::channel();
            let watch = held
                .watch(move |signal| told.send(signal).unwrap())
                .unwrap();
            // It ends without any signal, too, and without telling of the one that ends it.
            drop(watch);
            assert!(heard.recv().is_err());
        }
        assert!(!is_blocked());
    })
    .join()
    .unwrap();
}

#[test]
fn what_was_blocked_before_stays_so() {
    with_blocked_signals(|_| {
        drop(Held::new().unwrap());
        assert!(is_blocked());
    });
}

/// Each is told, or waits for whoever comes next.
#[test]
fn a_signal_that_comes_while_watching_ends_is_not_lost() {
    let Some(output) = again("a_signal_that_comes_while_watching_ends_is_not_lost") else {
        return take_signals();
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("none was lost"), "{output:?}");
    // With nobody left to take it, it does what it does.
    assert_eq!(
        output.status.signal(),
        Some(OsSignal::SIGTERM as i32),
        "{output:?}"
    );
}

fn take_signals() {
    let held = Held::new().unwrap();
    let all = Signals::block().unwrap();
    for round in 0..2_000_u32 {
        let told = Arc::new(AtomicU32::new(0));
        let counter = told.clone();
        let tell = move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let watch = held.watch(tell).unwrap();
        let signal = if round % 2 == 0 {
            Signal::Terminate
        } else {
            Signal::Interrupt
        };
        let sending = thread::spawn(move || send(std::process::id(), signal).unwrap());
        for _ in 0..round % 64 {
            thread::yield_now();
        }
        drop(watch);
        sending.join().unwrap();
        if told.load(Ordering::Relaxed) == 0 {
            assert_eq!(all.wait().unwrap(), signal);
        }
        assert!(told.load(Ordering::Relaxed) <= 1);
    }
    println!("none was lost");
    send(std::process::id(), Signal::Terminate).unwrap();
    drop(held);
    unreachable!("it has ended this process");
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
