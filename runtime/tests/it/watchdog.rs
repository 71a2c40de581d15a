//! Fails a test that hangs, and says what the process looked like.

use shardloop_platform::{socket, usage};
use std::{
    cell::Cell,
    fmt::Write as _,
    fs,
    panic::resume_unwind,
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::{Duration, Instant},
};

/// Long, because the machine is shared and slow: it only ends what would never end.
const LIMIT: Duration = Duration::from_secs(120);

/// [`LIMIT`], and five times as long under a sanitizer, which slows everything down.
fn limit() -> Duration {
    match std::env::var_os("SHARDLOOP_SANITIZED") {
        Some(_) => 5 * LIMIT,
        None => LIMIT,
    }
}

thread_local! {
    static TEST: Cell<&'static str> = const { Cell::new("") };
}

/// The name of the test whose thread this is.
pub(crate) fn current_test() -> &'static str {
    TEST.get()
}

/// Runs a test in a thread of its own; panics with a dump if it has not ended after [`LIMIT`].
pub(crate) fn watch(name: &'static str, test: impl FnOnce() + Send + 'static) {
    let (ended, wait) = mpsc::channel::<()>();
    let body = move || {
        TEST.set(name);
        // Dropped however the test ends.
        let _ended = ended;
        test();
    };
    let thread = thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .expect("a thread for the test");
    match wait.recv_timeout(limit()) {
        Err(RecvTimeoutError::Timeout) => panic!("{name} hangs after {:?}\n{}", limit(), dump()),
        _ => {
            if let Err(panic) = thread.join() {
                resume_unwind(panic);
            }
        }
    }
}

/// Waits until `condition` holds, looking again and again; panics with a dump if it never does.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(
            begun.elapsed() < limit(),
            "{what}: not after {:?}\n{}",
            limit(),
            dump()
        );
        thread::sleep(Duration::from_millis(1)); // tidy: sleep between two looks at a condition that has a deadline
    }
}

/// What the process looks like: descriptors, memory, and where each thread waits, as far as the host tells.
fn dump() -> String {
    let mut text = format!(
        "descriptors: {:?}\nmemory: {:?}\n",
        socket::open_descriptors(),
        usage::memory(None)
    );
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return text;
    };
    for thread in threads.flatten() {
        let read = |file| fs::read_to_string(thread.path().join(file)).unwrap_or_default();
        let state = read("status")
            .lines()
            .find(|line| line.starts_with("State:"))
            .unwrap_or_default()
            .to_owned();
        let _ = writeln!(
            text,
            "thread {}: {state}, in {}",
            read("comm").trim(),
            read("wchan").trim()
        );
    }
    text
}
