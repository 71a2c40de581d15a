//! A plan in a world: as in [`launch`](crate::launch()), everything that can fail does so before any service runs.

use super::{
    Sim,
    link::Link,
    net::{Net, Place},
    random::Random,
    turns::{Newcomer, Reported, Step, Turns, leave_report},
};
use crate::{
    backend::{Backend, Capabilities},
    context,
    executor::{Core, Now},
    launch::{Bound, LaunchError, Plan, Running, ShardReport, live},
    placement::Seat,
    shard::{Shard, World},
    shutdown::Stopper,
    wake::{Bell, Remote},
};
use shardloop_platform::wake::WakeReader;
use std::{
    io::Read,
    net::{IpAddr, Ipv4Addr},
    os::unix::net::UnixStream,
    rc::Rc,
    sync::{Arc, mpsc},
};

/// Binds the endpoints of a plan on a host.
pub(super) fn bind(net: &Net, host: usize, plan: &Plan) -> Result<Bound<Sim>, LaunchError> {
    let place = Place {
        net: net.clone(),
        host,
        shard: usize::MAX,
    };
    // A shard that runs nothing: endpoints are bound where the current shard is.
    let remote = Remote::with_bell(Arc::new(Bell::None)).map_err(LaunchError::Thread)?;
    let now = Now::World(net.clock().clone());
    let binding = Core::of(remote, now, &plan.engine, Some(Rc::new(place)));
    context::enter(&binding, || Bound::new(plan))
}

/// A plan whose shards have moved into a world.
pub(super) struct Settled<T> {
    pub(super) stopper: Stopper,
    pub(super) reported: Reported<T>,
}

/// What this engine offers.
pub(super) fn capabilities() -> Capabilities {
    Capabilities {
        facility: "simulation",
        ..Capabilities::default()
    }
}

/// Has the shards of a plan, which is the `number`th of the world, live on a host.
pub(super) fn settle<T: 'static>(
    turns: &mut Turns,
    (host, number): (usize, usize),
    plan: &Plan,
    bound: Bound<Sim>,
    service: impl AsyncFn(Shard<Sim>) -> T + Clone + 'static,
) -> Result<Settled<T>, LaunchError> {
    let failed = |shard: usize| {
        move |error| LaunchError::Engine {
            engine: Sim::NAME,
            shard,
            error,
        }
    };
    let mut newcomers = Vec::new();
    let addresses = bound.addresses.clone();
    for (index, portion) in bound.portions().enumerate() {
        let newcomer = turns
            .arrive(host, turns.len() + index, &plan.engine)
            .map_err(failed(index))?;
        let adopted = context::enter(&newcomer.core, || portion.adopt()).map_err(failed(index))?;
        newcomers.push((newcomer, adopted));
    }
    let remote = |(newcomer, _): &(Newcomer, _)| newcomer.core.remote().clone();
    let remotes: Vec<_> = newcomers.iter().map(remote).collect();
    let world = Arc::new(World::new(plan, capabilities(), &addresses, &remotes));
    let reported = Reported::<T>::default();
    reported.borrow_mut().resize_with(plan.shards, || None);
    for (index, (newcomer, adopted)) in newcomers.into_iter().enumerate() {
        let (world, service, drain) = (world.clone(), service.clone(), plan.drain);
        let main =
            || async move { Some(live(index, seat(), world, adopted, service, drain).await) };
        turns.settle(
            newcomer,
            (number, index),
            main,
            leave_report(&reported, index, seat()),
        );
    }
    Ok(Settled {
        stopper: world.stopper.clone(),
        reported,
    })
}

/// Where the shards of a world run.
pub(super) fn seat() -> Seat {
    Seat::NotPinned("simulated: all shards of a world run on one thread".to_owned())
}

/// The reports of shards that have all ended.
pub(super) fn collect<T>(reported: &Reported<T>) -> Vec<ShardReport<T>> {
    let reports = reported.take().into_iter();
    reports
        .map(|report| report.expect("a shard that has ended has left its report"))
        .collect()
}

/// Runs a plan in a world of its own, on a thread of its own, for whoever has the handle.
pub(super) fn launch<T: Send + 'static>(
    seed: u64,
    plan: Plan,
    capabilities: Capabilities,
    service: impl AsyncFn(Shard<Sim>) -> T + Clone + Send + 'static,
) -> Result<Running<T>, LaunchError> {
    let mut random = Random::new(seed);
    let link = Link::loopback();
    let net = Net::new(&mut random, link, link, false);
    let host = net.with(|state| state.add_host(IpAddr::V4(Ipv4Addr::LOCALHOST)));
    let bound = bind(&net, host, &plan)?;
    let addresses = bound.addresses.clone();
    let (bell, reader) = Bell::shared().map_err(LaunchError::Thread)?;
    let (started, wait) = mpsc::channel();
    let shards = plan.shards;
    let thread = std::thread::Builder::new()
        .name("sim-world".to_owned())
        .spawn(move || {
            let mut turns = Turns::new(net, bell, random);
            let settled = settle(&mut turns, (host, 0), &plan, bound, service);
            let (result, reported) = match settled {
                Ok(settled) => (Ok(settled.stopper), settled.reported),
                Err(error) => (Err(error), Reported::default()),
            };
            // Nobody waits if nothing was started.
            let _ = started.send(result);
            run(&mut turns, reader);
            collect(&reported)
        })
        .map_err(LaunchError::Thread)?;
    let stopper = wait.recv().expect("a world says whether it has begun")?;
    let seats = vec![seat(); shards];
    Ok(Running::new(
        vec![thread],
        addresses,
        seats,
        stopper,
        (Sim::NAME, capabilities),
    ))
}

/// Runs a world until all its shards have ended; while nothing happens in there, it sleeps until somebody outside wants something.
fn run(turns: &mut Turns, reader: WakeReader) {
    let mut sleeper = UnixStream::from(reader);
    let blocking = sleeper.set_nonblocking(false);
    loop {
        match turns.step() {
            Step::Turn | Step::Time => {}
            Step::Ended => return,
            Step::Still => turns.sleep(|| {
                // An error, or a descriptor that would not block, only makes it look more often.
                let _ = blocking.is_ok() && sleeper.read(&mut [0; 64]).is_ok();
            }),
        }
    }
}
