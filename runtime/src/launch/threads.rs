//! Shards on threads of their own, and the barrier before their services run.

use super::{
    LaunchError, Plan, Running, ShardReport,
    endpoints::{Bound, Portion},
    error::with_advice,
    life::live,
    report::report,
};
use crate::{
    backend::{Backend, Capabilities, Ended},
    context,
    placement::Seat,
    shard::{Shard, World},
    wake::Remote,
};
use std::{
    io,
    sync::{Arc, mpsc},
    thread::JoinHandle,
};

/// Starts each shard on a thread of its own.
pub(crate) fn launch_threads<B: Backend, T: Send + 'static>(
    plan: Plan,
    capabilities: Capabilities,
    service: impl AsyncFn(Shard<B>) -> T + Clone + Send + 'static,
) -> Result<Running<T>, LaunchError> {
    let bound = Bound::<B>::new(&plan)?;
    let addresses = bound.addresses.clone();
    let mut starting = Starting::<B, T>::default();
    let cpus = plan.placement.cpus(plan.shards).into_iter();
    for (index, (cpu, portion)) in cpus.zip(bound.portions()).enumerate() {
        let recruit = Recruit {
            index,
            cpu,
            plan: plan.clone(),
            portion,
        };
        starting.add(recruit, service.clone())?;
    }
    let (remotes, seats) = starting.wait_for_all(&plan)?;
    let world = Arc::new(World::new(&plan, capabilities, &addresses, &remotes));
    // The barrier: no shard's service has run before this.
    starting.go(&world);
    Ok(Running::new(
        std::mem::take(&mut starting.threads),
        addresses,
        seats,
        world.stopper.clone(),
        (B::NAME, world.capabilities.clone()),
    ))
}

/// One shard before it runs.
struct Recruit<B: Backend> {
    index: usize,
    cpu: Option<usize>,
    plan: Plan,
    portion: Portion<B>,
}

/// What a shard's thread tells the launching one.
struct Arrived {
    index: usize,
    result: io::Result<(Arc<Remote>, Seat)>,
}

/// Shards that are being started.
struct Starting<B: Backend, T> {
    threads: Vec<JoinHandle<Vec<ShardReport<T>>>>,
    go: Vec<mpsc::Sender<Arc<World<B>>>>,
    arrivals: (mpsc::Sender<Arrived>, mpsc::Receiver<Arrived>),
}

/// Shards that were started in vain go away again, their channel closed, and with them what they have opened.
impl<B: Backend, T> Drop for Starting<B, T> {
    fn drop(&mut self) {
        self.go.clear();
        for thread in self.threads.drain(..) {
            // A panic there has been printed, and why nothing runs is known already.
            let _ = thread.join();
        }
    }
}

impl<B: Backend, T> Default for Starting<B, T> {
    fn default() -> Self {
        Self {
            threads: Vec::new(),
            go: Vec::new(),
            arrivals: mpsc::channel(),
        }
    }
}

impl<B: Backend, T: Send + 'static> Starting<B, T> {
    fn add(
        &mut self,
        recruit: Recruit<B>,
        service: impl AsyncFn(Shard<B>) -> T + Clone + Send + 'static,
    ) -> Result<(), LaunchError> {
        let (go, started) = mpsc::channel();
        let arrivals = self.arrivals.0.clone();
        let thread = std::thread::Builder::new()
            .name(format!("shard-{}", recruit.index))
            .spawn(move || vec![shard_thread(recruit, service, &arrivals, &started)])
            .map_err(LaunchError::Thread)?;
        self.threads.push(thread);
        self.go.push(go);
        Ok(())
    }

    /// Waits until every shard has its engine, or one has not.
    fn wait_for_all(&self, plan: &Plan) -> Result<(Vec<Arc<Remote>>, Vec<Seat>), LaunchError> {
        let mut arrived: Vec<_> = self.arrivals.1.iter().take(self.threads.len()).collect();
        arrived.sort_by_key(|arrived| arrived.index);
        let engine = B::NAME;
        let each = |Arrived { index, result }: Arrived| {
            result.map_err(|error| LaunchError::Engine {
                engine,
                shard: index,
                error: with_advice(error, plan),
            })
        };
        let all: Result<Vec<_>, _> = arrived.into_iter().map(each).collect();
        Ok(all?.into_iter().unzip())
    }

    fn go(&self, world: &Arc<World<B>>) {
        for go in &self.go {
            // A thread that is gone by now has panicked before its service: `wait` tells.
            let _ = go.send(world.clone());
        }
    }
}

/// One shard's thread, from the first to the last instruction.
fn shard_thread<B: Backend, T: Send + 'static>(
    recruit: Recruit<B>,
    service: impl AsyncFn(Shard<B>) -> T + Clone + Send + 'static,
    arrivals: &mpsc::Sender<Arrived>,
    started: &mpsc::Receiver<Arc<World<B>>>,
) -> ShardReport<T> {
    let Recruit {
        index,
        cpu,
        plan,
        portion,
    } = recruit;
    let seat = Seat::take(cpu);
    let mut core = None;
    let ended = B::run(&plan.engine, || {
        let current = context::current();
        // Within the engine, and before the barrier: a socket that cannot be had is an error of the launch.
        let (result, adopted) = match portion.adopt() {
            Ok(adopted) => (Ok((current.remote().clone(), seat.clone())), Some(adopted)),
            Err(error) => (Err(error), None),
        };
        core = Some(current);
        let _ = arrivals.send(Arrived { index, result });
        let world = started.recv().ok();
        let seat = seat.clone();
        async move { Some(live(index, seat, world?, adopted?, service, plan.drain).await) }
    });
    let ended = ended.unwrap_or_else(|error| {
        let _ = arrivals.send(Arrived {
            index,
            result: Err(error),
        });
        Ended::before_it_began()
    });
    report(index, seat, ended, core.as_deref())
}
