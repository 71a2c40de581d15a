//! Scenarios that hurt users of such runtimes, at full length: what the tests of the runtime try for a moment.
//!
//! Each scenario runs on each engine in a process of its own ([`process`]), so that descriptor limits, memory and crashes stay apart. In
//! there it fills a [`Trial`]: figures, and what did not hold.

mod back_pressure;
mod balance;
mod blocking_sockets;
pub(crate) mod catalogue;
mod client;
mod descriptors;
mod foreign_wakes;
mod greed;
mod honest_load;
mod hostile;
mod oracle;
pub(crate) mod process;
mod refusals;
mod service;
mod small_ring;
mod soak;
mod tear_down;
mod timed_out_reads;
pub(crate) mod trial;

use catalogue::Name;
use shardloop::{Backend, backend::Bound};
use std::{net::UdpSocket, os::fd::OwnedFd};
use trial::Trial;

/// An engine that takes sockets of the operating system.
pub(crate) trait Engine:
    Backend<Socket = OwnedFd, Bound = Bound, BoundDatagram = UdpSocket>
{
}

impl<B> Engine for B where B: Backend<Socket = OwnedFd, Bound = Bound, BoundDatagram = UdpSocket> {}

/// Runs a scenario, or a part of one, in this process.
pub(crate) fn perform(name: Name, part: Option<&str>, trial: &mut Trial) -> anyhow::Result<()> {
    shardloop::with_backend!(
        trial.kind,
        B => on::<B>(name, part, trial),
        sim => anyhow::bail!("in virtual time nothing is stressed"),
        auto => anyhow::bail!("a scenario runs on one engine, and auto is none")
    )
}

fn on<B: Engine>(name: Name, part: Option<&str>, trial: &mut Trial) -> anyhow::Result<()> {
    match (name, part) {
        (Name::TimedOutReads, None) => timed_out_reads::run::<B>(trial),
        (Name::ForeignWakes, None) => foreign_wakes::run::<B>(trial),
        (Name::BlockingSockets, None) => blocking_sockets::run::<B>(trial),
        (Name::Descriptors, None) => descriptors::run(trial),
        (Name::Descriptors | Name::SmallRing, Some("server")) => service::serve::<B>(name),
        (Name::TearDown, None) => tear_down::run::<B>(trial),
        (Name::Refusals, None) => refusals::run::<B>(trial),
        (Name::Refusals, Some(what)) => refusals::part(trial.kind, what),
        (Name::BackPressure, None) => back_pressure::run::<B>(trial),
        (Name::Balance, None) => balance::run::<B>(trial),
        (Name::Greed, None) => greed::run::<B>(trial),
        (Name::SmallRing, None) => small_ring::run(trial),
        (Name::HonestLoad, None) => honest_load::run(trial),
        (Name::Hostile, None) => hostile::run(trial),
        (Name::Soak, None) => soak::run::<B>(trial),
        (name, Some(part)) => anyhow::bail!("{} has no part {part}", name.text()),
    }
}
