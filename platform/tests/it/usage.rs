//! CPU clocks, memory and switches of this process and of a child.

use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use shardloop_platform::memory::Block;
use shardloop_platform::noise::run_queue_wait;
use shardloop_platform::usage::{CpuClock, memory, switches};

/// Works until the clock has advanced by this much.
fn burn(clock: &CpuClock, time: Duration) {
    let start = clock.read().unwrap();
    while clock.read().unwrap() < start + time {
        std::hint::black_box((0..1_000).fold(0u64, |sum, n| std::hint::black_box(sum ^ n)));
    }
}

#[test]
fn the_process_clock_contains_that_of_its_threads() {
    const WORK: Duration = Duration::from_millis(20);
    let process = CpuClock::this_process();
    let by_number = CpuClock::of_process(std::process::id()).unwrap();
    let before = by_number.read().unwrap();
    thread::spawn(|| burn(&CpuClock::this_thread().unwrap(), WORK))
        .join()
        .unwrap();
    assert!(by_number.read().unwrap() >= before + WORK);
    assert!(process.read().unwrap() >= before + WORK);
}

#[test]
fn a_thread_clock_is_read_from_another_thread() {
    let (send_clock, clock) = mpsc::channel();
    let (done, wait) = mpsc::channel::<()>();
    let worker = thread::spawn(move || {
        let own = CpuClock::this_thread().unwrap();
        burn(&own, Duration::from_millis(5));
        send_clock.send((own.read().unwrap(), own)).unwrap();
        wait.recv().unwrap_err();
    });
    let (own_reading, clock) = clock.recv().unwrap();
    assert!(clock.read().unwrap() >= own_reading);
    drop(done);
    worker.join().unwrap();
}

#[test]
fn a_child_is_measured_while_it_lives() {
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let clock = CpuClock::of_process(child.id()).unwrap();
    clock.read().unwrap();
    assert!(memory(Some(child.id())).unwrap().resident_bytes > 0);
    if let Err(absent) = switches(Some(child.id())) {
        assert!(!absent.reason.is_empty());
    }
    child.stdin.take();
    child.wait().unwrap();
    clock.read().unwrap_err();
    assert!(memory(Some(child.id())).is_err());
    assert!(CpuClock::of_process(child.id()).is_err());
}

#[test]
fn touched_memory_is_resident() {
    const BYTES: usize = 64 << 20;
    let before = memory(None).unwrap();
    let mut block = Block::new(BYTES).unwrap();
    block.fill(1);
    let after = memory(None).unwrap();
    // The other tests take and give back memory meanwhile, but not that much.
    assert!(after.resident_bytes >= before.resident_bytes + BYTES as u64 / 2);
    assert!(after.peak_bytes.is_none_or(|peak| peak >= BYTES as u64 / 2));
    block.release_pages().unwrap();
    assert!(memory(None).unwrap().resident_bytes < after.resident_bytes);
}

#[test]
fn this_process_has_waited_for_something() {
    assert!(switches(None).unwrap().voluntary > 0);
    if let Err(absent) = run_queue_wait(None) {
        assert!(!absent.reason.is_empty());
    }
}
