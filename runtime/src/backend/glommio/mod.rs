//! glommio as an engine: three rings per shard, and readiness. Linux only.
//!
//! # What of glommio 0.9 is avoided, and how
//! * Its tasks: one future only (`executor`), the one that its `run` makes a task of by itself. A task that wakes itself would run in
//!   a loop without a look at completions until the preemption timer fires (`park` has such a wake go round by the reactor); one that
//!   panics ends the run; a task counts its wakers in 16 bits and panics beyond.
//! * Its accept: a dropped one loses the connection it got. `listener` waits for readiness and calls accept4 itself.
//! * Its UDP sockets: what they send when the socket's buffer is full has a length of one byte, and a dropped receive loses what it
//!   got. `datagram` waits for readiness, too.
//! * Its connect: one address only.
//! * Its send on a stream, which may raise SIGPIPE: it is asked after our own send only, when the socket's buffer was full.
//! * Its receive and send operations in the ring: they copy through a buffer of their own. What is left of its streams is the
//!   nonblocking receive and the wait for readiness after it (`poll_read`), which hold neither bytes nor a buffer while they wait.
//! * Its own thread for blocking calls: there are none here, so each shard has no such thread.
//! * Its start, where it panics or exits the process: where io_uring is refused, or an operation is missing. Everything that it asks
//!   for is asked for here before.
//!
//! # What an executor costs and leaves behind
//! While it runs, an executor has 4 descriptors of its own: three rings and an eventfd. **After it, 1 is left** for as long as the
//! process lives, the eventfd, and 0.6 to 1 KiB of memory with it: the header of glommio's task holds a reference to both, and glommio
//! frees that header without dropping it. Nothing else is left, with whatever work in flight it ends (measured over 2,000 of them);
//! but a process that starts and ends shards on this engine without end runs out of descriptors, one for each. A probe leaves nothing.
//!
//! That holds because every waker of glommio's task is dropped while its executor runs (the end of `executor::Turn`). One dropped
//! later is queued for an executor that is gone, and keeps the memory of the task, about 8 KiB.
//!
//! # Options
//! Memory for files is at the 64 KiB that glommio insists on (its default is 10 MiB): sockets use none of it. No spinning of its own
//! before it parks: [`EngineOptions::spin`] is ours. The preemption timer only has a meaning between several of its tasks, and here is one.

mod datagram;
mod listener;
mod park;
mod readiness;
mod stream;

use super::{
    Backend, Bound, Capabilities, ConnectOptions, Ended, Unavailable,
    apart::{apart, no_ring},
    bound::kernel_sockets,
    dial,
};
use crate::{
    address::Address,
    context,
    executor::{self, Core, Turn},
    options::{EngineOptions, StreamOptions},
};
use datagram::GlommioDatagram;
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement, PoolPlacement};
use listener::GlommioListener;
use park::{Look, Park};
use shardloop_platform::{
    socket::is_descriptor_limit,
    uring::{self, RefusalCause, RingOptions, RingRefused},
    wake,
};
use std::{
    future::Future,
    io,
    net::UdpSocket,
    os::fd::OwnedFd,
    panic::{AssertUnwindSafe, catch_unwind},
    time::{Duration, Instant},
};
use stream::GlommioStream;

/// glommio on io_uring (Linux 5.8).
#[derive(Debug)]
pub enum Glommio {}

/// Operations that glommio ends the process for if the kernel lacks one.
const OPERATIONS: &[&str] = &[
    "NOP",
    "READV",
    "WRITEV",
    "FSYNC",
    "READ_FIXED",
    "WRITE_FIXED",
    "POLL_ADD",
    "POLL_REMOVE",
    "SENDMSG",
    "RECVMSG",
    "TIMEOUT",
    "TIMEOUT_REMOVE",
    "ACCEPT",
    "LINK_TIMEOUT",
    "CONNECT",
    "FALLOCATE",
    "OPENAT",
    "CLOSE",
    "STATX",
    "READ",
    "WRITE",
    "SEND",
    "RECV",
];

/// The least that glommio reserves for files, in bytes.
const FILE_MEMORY_BYTES: usize = 64 << 10;

/// How long its only task may run before its reactor wants a turn. The task comes back by itself, so this is never waited for.
const PREEMPT_EVERY: Duration = Duration::from_millis(100);

impl Backend for Glommio {
    const NAME: &'static str = "glommio";
    // The eventfd of its executor, see above.
    const LEAKED_DESCRIPTORS: usize = 1;

    kernel_sockets!();
    type Listener = GlommioListener;
    type Stream = GlommioStream;
    type Datagram = GlommioDatagram;

    fn probe(options: &EngineOptions) -> Result<Capabilities, Unavailable> {
        let options = *options;
        apart(Self::NAME, move || {
            let unavailable = |reason| Unavailable {
                engine: Self::NAME,
                reason,
            };
            may_ask(&options).map_err(|refused| unavailable(refused.to_string()))?;
            // Dropped again without having run anything, which leaves nothing behind.
            build(&options).map_err(|error| unavailable(advice(&error)))?;
            Ok(())
        })?;
        Ok(Capabilities {
            facility: "io_uring",
            ..Capabilities::default()
        })
    }

    fn run<F>(options: &EngineOptions, main: impl FnOnce() -> F) -> io::Result<Ended<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        context::must_be_free()?;
        may_ask(options).map_err(no_ring)?;
        let engine = build(options).map_err(|error| match is_descriptor_limit(&error) {
            // Whoever started the plan knows more of it.
            true => error,
            false => io::Error::new(error.kind(), advice(&error)),
        })?;
        let (core, wakes) = Core::new(Instant::now, options)?;
        executor::enter(&core, || {
            engine.run(async {
                let turn = Turn::new(core.clone(), Park::new(wakes.into()), main);
                Ok(Look::between_turns(turn).await)
            })
        })
    }

    fn adopt_listener(bound: Bound) -> io::Result<GlommioListener> {
        GlommioListener::adopt(bound)
    }

    fn adopt_stream(socket: OwnedFd, options: &StreamOptions) -> io::Result<GlommioStream> {
        GlommioStream::adopt(socket, options)
    }

    async fn connect(addresses: &[Address], options: &ConnectOptions) -> io::Result<GlommioStream> {
        dial::first(addresses, options, GlommioStream::connect).await
    }

    fn adopt_datagram(bound: UdpSocket) -> io::Result<GlommioDatagram> {
        GlommioDatagram::adopt(bound)
    }
}

/// Entries of each ring. glommio hands on any number, and the kernel takes 32,768 at most.
fn entries(options: &EngineOptions) -> u32 {
    options.ring_entries.clamp(256, 32_768)
}

/// Tries what glommio panics or exits over: a ring without flags, its operations, and a submission.
fn may_ask(options: &EngineOptions) -> Result<(), RingRefused> {
    // Held meanwhile, because glommio panics if it finds one descriptor and no second.
    let _spare = wake::pair()
        .map_err(|error| RefusalCause::Other(error.raw_os_error().unwrap_or_default()))?;
    let facts = uring::probe(&RingOptions {
        entries: entries(options),
        coop_taskrun: false,
        single_issuer: false,
        defer_taskrun: false,
    })?;
    match OPERATIONS.iter().find(|name| !facts.opcodes.contains(name)) {
        Some(missing) => Err(RefusalCause::OpcodeMissing(missing).into()),
        None => Ok(()),
    }
}

fn build(options: &EngineOptions) -> io::Result<LocalExecutor> {
    let builder = LocalExecutorBuilder::new(Placement::Unbound)
        .ring_depth(entries(options) as usize)
        .io_memory(FILE_MEMORY_BYTES)
        .spin_before_park(Duration::ZERO)
        .preempt_timer(PREEMPT_EVERY)
        // No thread: nothing here is given to one.
        .blocking_thread_pool_placement(PoolPlacement::Custom(Vec::new()));
    // Another thread may have taken the last descriptors since these were tried. Nothing is left then that could be in disorder.
    match catch_unwind(AssertUnwindSafe(|| builder.make())) {
        Ok(made) => made.map_err(io::Error::from),
        Err(_) => Err(io::Error::other(
            "glommio panicked while it was built, and says why on standard error",
        )),
    }
}

/// Why three rings could not be had where one could, and what to do about it.
fn advice(error: &io::Error) -> String {
    format!(
        "{error}; it needs three rings, one of them polled (IORING_SETUP_IOPOLL), four descriptors, and RLIMIT_MEMLOCK of at least \
         512 KiB: raise these (`ulimit -l`, `ulimit -n`) or take monoio-uring"
    )
}
