//! The io_uring driver: which flags its ring gets, and why.
//!
//! COOP_TASKRUN and SINGLE_ISSUER: without them the kernel interrupts the shard for completions it will look at soon anyway, which on
//! many small messages makes io_uring slower than epoll. A kernel that does not know one of them gets the ring without it, and the
//! probe says so.

use super::{Backend, Capabilities, Ended, EngineOptions, MonoioUring, Unavailable, run_on};
use crate::{
    backend::apart::{apart, no_ring},
    context,
};
use shardloop_platform::uring::{RefusalCause, RingOptions, RingRefused};
use std::{future::Future, io};

/// Options in the order in which they are given up.
fn wishes(entries: u32) -> [RingOptions; 3] {
    let ring = |coop_taskrun, single_issuer| RingOptions {
        entries,
        coop_taskrun,
        single_issuer,
        defer_taskrun: false,
    };
    [ring(true, true), ring(true, false), ring(false, false)]
}

/// The best ring this kernel grants, and what it would not.
fn best(options: &EngineOptions) -> Result<(RingOptions, Option<RingRefused>), RingRefused> {
    let mut refused = None;
    for ring in wishes(entries(options)) {
        match shardloop_platform::uring::probe(&ring) {
            Ok(_) => return Ok((ring, refused)),
            Err(
                reason @ RingRefused {
                    cause: RefusalCause::FlagUnknown(_),
                },
            ) => {
                refused = refused.or(Some(reason));
            }
            Err(reason) => return Err(reason),
        }
    }
    Err(refused.unwrap_or(RingRefused {
        cause: RefusalCause::TooOld,
    }))
}

/// monoio makes no ring smaller than this, and the kernel none larger.
fn entries(options: &EngineOptions) -> u32 {
    options.ring_entries.clamp(256, 32_768)
}

pub(super) fn probe(options: &EngineOptions) -> Result<Capabilities, Unavailable> {
    let options = *options;
    let best = apart(MonoioUring::NAME, move || {
        best(&options).map_err(|reason| Unavailable {
            engine: MonoioUring::NAME,
            reason: reason.to_string(),
        })
    });
    let (ring, refused) = best?;
    let flags = [
        (ring.coop_taskrun, "COOP_TASKRUN"),
        (ring.single_issuer, "SINGLE_ISSUER"),
    ];
    Ok(Capabilities {
        facility: "io_uring",
        flags: flags
            .into_iter()
            .filter_map(|(on, name)| on.then_some(name))
            .collect(),
        remarks: refused
            .map(|reason| format!("the ring does without: {reason}; expect it to be slower"))
            .into_iter()
            .collect(),
    })
}

pub(super) fn run<F>(
    options: &EngineOptions,
    main: impl FnOnce() -> F,
) -> io::Result<Ended<F::Output>>
where
    F: Future + 'static,
    F::Output: 'static,
{
    context::must_be_free()?;
    let (ring, _) = best(options).map_err(no_ring)?;
    let mut flags = io_uring::IoUring::builder();
    if ring.coop_taskrun {
        flags.setup_coop_taskrun();
    }
    if ring.single_issuer {
        flags.setup_single_issuer();
    }
    let runtime = monoio::RuntimeBuilder::<monoio::IoUringDriver>::new()
        .with_entries(ring.entries)
        .uring_builder(flags)
        .enable_timer()
        .build()
        .map_err(|error| no_ring(shardloop_platform::uring::explain(&ring, &error)))?;
    run_on(runtime, true, options, main)
}
