//! Starting the shards of a plan, and what becomes of them.
//!
//! Everything that can fail fails in [`launch`]: endpoints are bound in the calling thread before any shard starts, and no service
//! runs before every shard has its engine.

mod endpoints;
mod error;
mod life;
mod report;
mod running;
mod threads;

pub(crate) use endpoints::{Addresses, Bound, doors, posts};
pub use error::LaunchError;
pub(crate) use life::{Served, live};
pub(crate) use report::report;
pub use report::{Report, ShardReport};
pub use running::Running;
pub(crate) use threads::launch_threads;

use crate::{
    accept::{Accept, Endpoint},
    address::Address,
    backend::{Backend, Unavailable},
    kind::Kind,
    options::{DatagramEndpoint, EngineOptions},
    placement::Placement,
    shard::Shard,
};
use shardloop_platform::{signal::Held, socket};
use std::{error::Error as StdError, future::Future, time::Duration};

/// What is to be started.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many shards, 1 to [`Plan::MAX_SHARDS`].
    pub shards: usize,
    /// Where they run.
    pub placement: Placement,
    /// What they serve together; a shard reaches them by their position here.
    pub endpoints: Vec<Endpoint>,
    /// Where they take datagrams together; a shard reaches them by their position here.
    pub datagram_endpoints: Vec<DatagramEndpoint>,
    /// How their engines are built.
    pub engine: EngineOptions,
    /// How long a shard that is asked to end may take to finish what it has.
    pub drain: Duration,
}

impl Plan {
    /// The most shards of a plan.
    pub const MAX_SHARDS: usize = 1024;

    /// `shards` shards spread over the allowed CPUs, without endpoints, 10 s to drain.
    #[must_use]
    pub fn new(shards: usize) -> Self {
        Self {
            shards,
            placement: Placement::default(),
            endpoints: Vec::new(),
            datagram_endpoints: Vec::new(),
            engine: EngineOptions::default(),
            drain: Duration::from_secs(10),
        }
    }

    /// Adds an endpoint.
    #[must_use]
    pub fn endpoint(mut self, endpoint: Endpoint) -> Self {
        self.endpoints.push(endpoint);
        self
    }

    /// Adds an endpoint for datagrams.
    #[must_use]
    pub fn datagrams(mut self, endpoint: DatagramEndpoint) -> Self {
        self.datagram_endpoints.push(endpoint);
        self
    }

    pub(crate) fn check(&self) -> Result<(), LaunchError> {
        if self.shards == 0 || self.shards > Self::MAX_SHARDS {
            return Err(LaunchError::Shards(self.shards));
        }
        let streams = self.endpoints.iter().map(|e| (&e.address, e.accept));
        let datagrams = self.datagram_endpoints.iter();
        let datagrams = datagrams.map(|e| (Address::from(e.address), e.accept));
        let refused = |(address, accept): (&Address, Accept)| {
            let spread = socket::REUSE_PORT_SPREADS && address.inet().is_some();
            (accept == Accept::ReusePort && self.shards > 1 && !spread).then(|| address.clone())
        };
        let refused = streams
            .filter_map(refused)
            .chain(datagrams.filter_map(|(address, accept)| refused((&address, accept))))
            .next();
        refused.map_or(Ok(()), |address| Err(LaunchError::NoReusePort(address)))
    }
}

/// What shards do, when the engine is to be chosen by name: the same for every engine.
pub trait Service: Clone + Send + 'static {
    /// Serves on one shard until it is asked to end. [`Incoming::next`](crate::Incoming::next) gives `None` then, while the tasks of
    /// connections go on until they are done or the drain deadline comes: what they do after that, count in something they share with
    /// you (an `Arc` in the service), and read it once [`run`] has returned.
    ///
    /// # Errors
    /// Its own; all shards of the plan are asked to end then.
    fn run<B: Backend>(self, shard: Shard<B>) -> impl Future<Output = Result<(), Error>>;
}

/// Whatever a service failed with.
pub type Error = Box<dyn StdError + Send + Sync>;

/// Starts a plan on the engine `B`: `service` runs once on every shard. Returns when all shards run.
///
/// A service that returns ends its shard: its detached tasks get the drain deadline, and other shards go on. If it panics, or if it ran
/// on the shard that accepts for the others ([`Accept::Handoff`]), all shards are asked to end.
///
/// # Errors
/// Nothing runs then: [`LaunchError`].
pub fn launch<B: Backend, T: Send + 'static>(
    plan: Plan,
    service: impl AsyncFn(Shard<B>) -> T + Clone + Send + 'static,
) -> Result<Running<T>, LaunchError> {
    plan.check()?;
    let capabilities = B::probe(&plan.engine).map_err(LaunchError::Unavailable)?;
    B::launch(plan, capabilities, service)
}

/// Starts a plan on the engine that `kind` names, or on the best one that works here: one that was found to work and then fails on one
/// of the shards is passed over, too, as long as no service has run. What was passed over, and why, stands in the remarks of
/// [`Running::capabilities`].
///
/// A service that returns an error ends its shard, and asks all others to end, as one that panics does: a service of which a part has
/// failed is better restarted than left running. The error is that shard's result in the [`Report`].
///
/// # Errors
/// As [`launch`].
pub fn start(
    kind: Kind,
    plan: Plan,
    service: impl Service,
) -> Result<Running<Result<(), Error>>, LaunchError> {
    plan.check()?;
    let mut passed_over = Vec::new();
    for candidate in kind.candidates() {
        match start_on(*candidate, plan.clone(), service.clone(), &passed_over) {
            Err(error) if kind == Kind::Auto && error.is_of_the_engine() => {
                passed_over.push(error.to_string());
            }
            started => return started,
        }
    }
    Err(LaunchError::Unavailable(Unavailable {
        engine: Kind::Auto.name(),
        reason: passed_over.join("; "),
    }))
}

/// Starts a plan on one engine, and notes what was passed over for it.
fn start_on(
    engine: Kind,
    plan: Plan,
    service: impl Service,
    passed_over: &[String],
) -> Result<Running<Result<(), Error>>, LaunchError> {
    let mut capabilities = engine
        .probe(&plan.engine)
        .map_err(LaunchError::Unavailable)?;
    let remarks = passed_over.iter().cloned();
    capabilities.remarks.splice(0..0, remarks);
    crate::with_backend!(
        engine,
        B => B::launch(plan, capabilities, async move |shard| serve::<B>(service.clone(), shard).await),
        auto => unreachable!("a candidate is an engine")
    )
}

/// A service that fails takes the plan along.
async fn serve<B: Backend>(service: impl Service, shard: Shard<B>) -> Result<(), Error> {
    let stopper = shard.stopper();
    let result = service.run::<B>(shard).await;
    if result.is_err() {
        stopper.drain();
    }
    result
}

/// Runs a plan until its services have ended, or SIGINT or SIGTERM comes: the first drains, a second ends it at once.
///
/// Call it before any other thread is started: both signals are blocked in the calling thread and in those that start meanwhile, and
/// would end the process as ever if they reached another. When this returns, however it does, the calling thread's mask is what it was
/// before, and signals do what they did.
///
/// A service that fails asks the whole plan to end, as one that panics does: see [`start`], and [`Report::first_error`].
///
/// # Errors
/// As [`launch`]; also if the signals cannot be blocked.
pub fn run(
    kind: Kind,
    plan: Plan,
    service: impl Service,
) -> Result<Report<Result<(), Error>>, LaunchError> {
    let held = Held::new().map_err(LaunchError::Signals)?;
    let running = start(kind, plan, service)?;
    let stopper = running.stopper();
    let mut is_draining = false;
    let stop = move |_| match std::mem::replace(&mut is_draining, true) {
        false => stopper.drain(),
        true => stopper.force(),
    };
    let watch = held.watch(stop).map_err(LaunchError::Thread)?;
    let report = running.wait();
    drop(watch);
    Ok(report)
}
