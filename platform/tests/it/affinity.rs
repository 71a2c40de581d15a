//! Pinning: what is asked for is in force, or the answer says why not.

use std::thread;

use shardloop_platform::affinity::{Allowed, current_thread_cpus, pin_current_thread};
use shardloop_platform::topology::Topology;

#[test]
fn a_pinned_thread_runs_where_it_says() {
    let allowed = Allowed::read();
    for cpu in allowed.cpus.iter() {
        let pinned = thread::spawn(move || (pin_current_thread(cpu), current_thread_cpus()))
            .join()
            .unwrap();
        match pinned {
            (Ok(got), in_force) => {
                assert_eq!(got, cpu);
                assert_eq!(in_force.unwrap().to_string(), cpu.to_string());
            }
            (Err(refused), _) => {
                assert!(refused.to_string().starts_with("not pinned: "), "{refused}")
            }
        }
    }
}

#[test]
fn pinning_one_thread_leaves_the_others_alone() {
    let before = current_thread_cpus();
    thread::spawn(|| pin_current_thread(0).ok()).join().unwrap();
    assert_eq!(current_thread_cpus(), before);
}

#[test]
fn there_is_a_cpu_to_run_on() {
    let allowed = Allowed::read();
    assert!((1..=allowed.cpus.len()).contains(&allowed.usable()));
}

#[test]
fn placement_uses_every_allowed_cpu_once() {
    let allowed = Allowed::read().cpus;
    let Ok(topology) = Topology::read() else {
        return;
    };
    let mut order = topology.placement_order(&allowed);
    order.sort_unstable();
    assert!(order.into_iter().eq(allowed.iter()));
    assert!((1..=topology.cpus.len()).contains(&topology.physical_cores()));
}
