//! A simulated engine: virtual time, a network that misbehaves as it is told, and one seed that decides all.
//!
//! All shards of a world run on one thread, and everything else of them is what it is on other engines: tasks, timers, wakes, leases,
//! accepting, draining. What is simulated is time and sockets, and whose turn it is. So a service that was written for real engines
//! runs here as it is, and a fault that needs one order of events among millions is found by trying seeds, and found again by the
//! same seed.
//!
//! * [`World`] runs hosts to their end on the calling thread: the same seed, the same [`Log`].
//! * [`check`] runs a test with many seeds and names the one that fails.
//! * [`launch`](crate::launch()) and [`run`](crate::run()) work as on other engines, with loopback alone: the world runs on one thread
//!   of its own, and while nothing happens in it, it sleeps until another thread wakes one of its shards. Its seed is that in the
//!   environment variable `SHARDLOOP_SEED`, or 0; one that is no number is refused. Time passes as fast as it can: a service that waits
//!   with a deadline for another *thread* sees the deadline first.
//!
//! # What differs from a kernel
//! Addresses are those of the world, Unix paths are names within a host, and no process outside can connect. There are no descriptors
//! to run out of. A wake that comes from another shard is counted as one from another thread. What a receiver makes room for, its sender knows at once. A connection that fails by a reset may or may not still
//! give what had arrived before.

mod check;
mod clock;
mod connection;
mod datagram;
mod launch;
mod link;
mod listener;
mod log;
mod names;
mod net;
mod random;
mod stream;
mod turns;
mod world;

pub use check::{SEED_VARIABLE, Verdict, check};
pub(crate) use clock::Clock;
pub use datagram::{SimBoundDatagram, SimDatagram};
pub use link::{Link, Loss};
pub use listener::{SimBound, SimListener};
pub use log::Log;
pub use stream::{SimRecv, SimSend, SimSocket, SimStream};
pub use world::{Fault, Host, Outcome, World};

use crate::{
    accept::Endpoint,
    address::Address,
    backend::{Backend, Capabilities, ConnectOptions, Ended, Unavailable, dial},
    bind_error::BindError,
    context,
    launch::{LaunchError, Plan, Running},
    options::{DatagramEndpoint, EngineOptions, StreamOptions},
    shard::Shard,
    wake::Bell,
};
use link::Link as Between;
use net::Net;
use random::Random;
use std::{
    cell::RefCell,
    future::Future,
    io::{self, ErrorKind},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    rc::Rc,
    sync::Arc,
    time::Instant,
};
use turns::{Step, Turns};

/// Virtual time and a simulated network.
#[derive(Debug)]
pub enum Sim {}

impl Backend for Sim {
    const NAME: &'static str = "sim";
    type Bound = SimBound;
    type Socket = SimSocket;
    type Listener = SimListener;
    type Stream = SimStream;
    type BoundDatagram = SimBoundDatagram;
    type Datagram = SimDatagram;

    fn probe(_options: &EngineOptions) -> Result<Capabilities, Unavailable> {
        match seed() {
            Ok(_) => Ok(launch::capabilities()),
            Err(reason) => Err(Unavailable {
                engine: Self::NAME,
                reason,
            }),
        }
    }

    /// Runs one shard in a world of its own, on the calling thread. If nothing more can happen before it has ended, it is ended by
    /// force.
    fn run<F>(options: &EngineOptions, main: impl FnOnce() -> F) -> io::Result<Ended<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        context::must_be_free()?;
        let seed = seed().map_err(|reason| io::Error::new(ErrorKind::InvalidInput, reason))?;
        let mut random = Random::new(seed);
        let net = Net::new(&mut random, Between::loopback(), Between::loopback(), false);
        let host = net.with(|state| state.add_host(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        let mut turns = Turns::new(net, Arc::new(Bell::None), random);
        let shard = turns.arrive(host, 0, options)?;
        let remote = shard.core.remote().clone();
        let end = Rc::new(RefCell::new(None));
        let left = end.clone();
        turns.settle(shard, (0, 0), main, move |ended, _| {
            left.replace(Some(ended));
        });
        loop {
            match turns.step() {
                Step::Turn | Step::Time => {}
                Step::Still => remote.advance(crate::wake::Phase::Forced),
                Step::Ended => break,
            }
        }
        Ok(end.take().expect("a shard that has ended says how"))
    }

    /// The time of the current shard's world.
    ///
    /// # Panics
    /// Outside a shard.
    fn now() -> Instant {
        context::current().now()
    }

    fn bind(endpoint: &Endpoint, count: usize) -> Result<Vec<SimBound>, BindError> {
        SimBound::bind(endpoint, count)
    }

    fn address(bound: &SimBound) -> io::Result<Address> {
        Ok(bound.address())
    }

    fn adopt_listener(bound: SimBound) -> io::Result<SimListener> {
        SimListener::adopt(bound)
    }

    fn adopt_stream(socket: SimSocket, options: &StreamOptions) -> io::Result<SimStream> {
        SimStream::adopt(socket, options)
    }

    async fn connect(addresses: &[Address], options: &ConnectOptions) -> io::Result<SimStream> {
        dial::first(addresses, options, SimStream::connect).await
    }

    fn bind_datagram(
        endpoint: &DatagramEndpoint,
        count: usize,
    ) -> Result<Vec<SimBoundDatagram>, BindError> {
        SimBoundDatagram::bind(endpoint, count)
    }

    fn clone_datagram(bound: &SimBoundDatagram) -> io::Result<SimBoundDatagram> {
        Ok(bound.again())
    }

    fn datagram_address(bound: &SimBoundDatagram) -> io::Result<SocketAddr> {
        Ok(bound.address())
    }

    fn adopt_datagram(bound: SimBoundDatagram) -> io::Result<SimDatagram> {
        SimDatagram::adopt(bound)
    }

    fn launch<T: Send + 'static>(
        plan: Plan,
        capabilities: Capabilities,
        service: impl AsyncFn(Shard<Self>) -> T + Clone + Send + 'static,
    ) -> Result<Running<T>, LaunchError> {
        // It was read before, when the engine was probed.
        let seed = seed().map_err(|reason| {
            LaunchError::Unavailable(Unavailable {
                engine: Self::NAME,
                reason,
            })
        })?;
        launch::launch(seed, plan, capabilities, service)
    }
}

/// The seed of a world that was not given one, or why what the environment gives is none.
fn seed() -> Result<u64, String> {
    match std::env::var_os(SEED_VARIABLE) {
        None => Ok(0),
        Some(text) => {
            let seed = text.to_str().and_then(|text| text.parse().ok());
            seed.ok_or_else(|| {
                format!(
                    "{SEED_VARIABLE}={} is no number from 0 to 2^64 - 1",
                    text.display()
                )
            })
        }
    }
}
