//! The description of this host, whatever it is, and its noise sensors.

use shardloop_platform::host::Host;
use shardloop_platform::noise::{CpuTimes, Snapshot, load_average, pressure_cpu};
use shardloop_platform::usage::CpuClock;

#[test]
fn every_row_is_a_value_or_a_reason() {
    for (name, reading) in Host::describe().rows() {
        match reading {
            Ok(value) => assert!(!value.is_empty(), "{name} is empty"),
            Err(absent) => assert!(!absent.reason.is_empty(), "{name} has no reason"),
        }
    }
}

#[test]
fn cpu_time_of_the_machine_only_grows() {
    let (Ok(earlier), Ok(later)) = (CpuTimes::read(), CpuTimes::read()) else {
        return;
    };
    assert!(later.user >= earlier.user);
    assert!(earlier.total() >= earlier.busy());
    assert!(later.since(&earlier).busy() <= later.busy());
}

#[test]
fn pressure_and_load_are_numbers_or_reasons() {
    if let (Ok(earlier), Ok(later)) = (pressure_cpu(), pressure_cpu()) {
        assert!(later >= earlier);
    }
    if let Ok(loads) = load_average() {
        assert!(loads.iter().all(|load| load.is_finite() && *load >= 0.0));
    }
}

#[test]
fn two_snapshots_make_a_difference() {
    let ours = [CpuClock::this_process()];
    let earlier = Snapshot::read(&ours);
    while ours[0].read().unwrap() < earlier.ours.unwrap() + std::time::Duration::from_millis(5) {
        std::hint::black_box(0);
    }
    let noise = Snapshot::read(&ours).since(&earlier);
    assert!(noise.ours.unwrap().as_millis() >= 5);
    assert!(!noise.elapsed.is_zero());
    for share in [noise.steal_share(), noise.foreign_share()]
        .into_iter()
        .flatten()
    {
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
    assert!(noise.udp.is_none_or(|udp| udp.received.is_some()));
}
