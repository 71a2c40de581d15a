//! What the fuzz targets share: the harness, which the tests of `shardloop-protocols` replay corpora through as well, and an allocator
//! that knows what was allocated.

mod harness;

use cap::Cap;
use harness::Meter;
use std::alloc::System;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

const METER: Meter = Meter {
    allocated_bytes: || ALLOCATOR.allocated(),
    limit: |bytes| {
        // It fails only where more is allocated already, and then the next allocation tells.
        let _ = ALLOCATOR.set_limit(bytes);
    },
};

/// Runs one input through a target.
pub fn run(target: &str, data: &[u8]) {
    harness::run(target, data, METER);
}
