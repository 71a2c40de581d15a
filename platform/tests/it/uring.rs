//! The ring probe, with what engines ask for.

use shardloop_platform::uring::{RefusalCause, RingOptions, probe};

const PLAIN: RingOptions = RingOptions {
    entries: 256,
    coop_taskrun: false,
    single_issuer: false,
    defer_taskrun: false,
};

#[test]
fn a_ring_works_or_says_why_not() {
    let coop = RingOptions {
        coop_taskrun: true,
        single_issuer: true,
        ..PLAIN
    };
    let defer = RingOptions {
        defer_taskrun: true,
        ..coop
    };
    for options in [PLAIN, coop, defer] {
        match probe(&options) {
            Ok(facts) => {
                assert!(facts.opcodes.contains(&"ACCEPT"));
                assert!(facts.features.contains(&"NODROP"));
                assert!(!facts.kernel.is_empty());
            }
            Err(refused) => assert!(
                refused.to_string().contains("io_uring") || refused.to_string().contains("ring")
            ),
        }
    }
}

#[test]
fn impossible_sizes_are_refused_with_the_number() {
    let refused = probe(&RingOptions {
        entries: 0,
        ..PLAIN
    })
    .unwrap_err();
    if probe(&PLAIN).is_ok() {
        assert!(matches!(refused.cause, RefusalCause::Other(_)), "{refused}");
    }
}

#[test]
fn probing_leaves_no_descriptor_behind() {
    // Other tests open and close descriptors meanwhile, fewer than this many.
    const PROBES: usize = 500;
    let (Ok(before), Ok(_)) = (
        shardloop_platform::socket::open_descriptors(),
        probe(&PLAIN),
    ) else {
        return;
    };
    for _ in 0..PROBES {
        probe(&RingOptions {
            entries: 4,
            ..PLAIN
        })
        .unwrap();
    }
    assert!(shardloop_platform::socket::open_descriptors().unwrap() < before + PROBES / 2);
}
