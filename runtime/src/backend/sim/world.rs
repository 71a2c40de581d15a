//! A world that runs to its end on the calling thread: hosts, what lies between them, and what came of it.

use super::{
    Sim,
    clock::nanoseconds,
    launch::{Settled, bind, capabilities, collect, settle},
    link::Link,
    log::Log,
    net::{Change, Event, Net},
    random::Random,
    turns::{Reported, Step, Turns},
};
use crate::{
    address::Address,
    backend::Backend,
    launch::{Addresses, LaunchError, Plan, Report},
    shard::Shard,
    shutdown::Stopper,
    wake::Bell,
};
use std::{
    any::Any,
    error::Error,
    fmt,
    marker::PhantomData,
    net::{IpAddr, SocketAddr},
    ops::Range,
    sync::Arc,
    time::Duration,
};

/// Hosts and the links between them, with a seed that decides everything that could be one way or another: the order in which shards
/// run, how received bytes are cut, what is lost and how long it takes.
///
/// ```
/// use shardloop::{
///     Accept, Backend, ConnectOptions, Endpoint, Plan, RecvHalf, SendHalf, Sim, StreamOptions,
///     sim::{Link, World},
/// };
/// use std::time::Duration;
///
/// let mut world = World::new(7, Link::perfect(Duration::from_millis(20)));
/// let endpoint = Endpoint::tcp("10.0.0.1:80".parse()?, Accept::Handoff);
/// let server = world.server("10.0.0.1".parse()?, Plan::new(2).endpoint(endpoint), async |shard| {
///     while let Some((mut stream, _peer)) = shard.incoming(0).next().await {
///         let lease = stream.recv().await.expect("the client sends");
///         stream.send_all(lease).await.0.expect("the client receives");
///     }
/// })?;
/// let address = server.addresses()[0].clone();
/// let client = world.client("10.0.0.2".parse()?, Plan::new(1), async move |_| {
///     let stream = StreamOptions { nodelay: true, send_buffer_bytes: None, receive_buffer_bytes: None };
///     let options = ConnectOptions { stream, deadline: Duration::from_secs(5) };
///     let mut stream = Sim::connect(&[address.clone()], &options).await.expect("it listens");
///     stream.send_all(b"hello".to_vec()).await.0.expect("it receives");
///     stream.recv().await.expect("it answers").len()
/// })?;
/// let mut outcome = world.run();
/// outcome.verdict()?;
/// assert!(outcome.report(&client).shards[0].result.as_ref().is_ok_and(|bytes| *bytes > 0));
/// // There and back for the connection, and again for the bytes; it took no time to run.
/// assert!(outcome.elapsed >= Duration::from_millis(80));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Services must not wait for other threads, or ask the system for the time or for random numbers: nothing here could wait for the
/// first, and the others are not those of the seed.
pub struct World {
    turns: Turns,
    hosts: Vec<IpAddr>,
    plans: Vec<Started>,
    limit: Duration,
}

/// A plan that was added to a world.
struct Started {
    is_client: bool,
    stopper: Stopper,
    /// To be asked once all its shards have ended.
    report: Box<dyn FnOnce() -> Untyped>,
}

/// A report of whatever the services returned, and the message of its first panic.
struct Untyped {
    report: Box<dyn Any>,
    panic: Option<String>,
}

/// A plan on a host of a world; its services return `T`.
#[derive(Debug)]
pub struct Host<T> {
    number: usize,
    addresses: Addresses,
    stopper: Stopper,
    returns: PhantomData<fn() -> T>,
}

impl<T> Host<T> {
    /// Where the endpoints are bound, ports resolved, in the plan's order.
    #[must_use]
    pub fn addresses(&self) -> &[Address] {
        &self.addresses.streams
    }

    /// Where the datagram endpoints are bound, ports resolved, in the plan's order.
    #[must_use]
    pub fn datagram_addresses(&self) -> &[SocketAddr] {
        &self.addresses.datagrams
    }

    /// A handle to end it with, for the services of other hosts.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }
}

impl World {
    /// The time after which a world is ended that has not come to an end by itself.
    pub const LIMIT: Duration = Duration::from_secs(24 * 3600);

    /// An empty world, any two hosts of which have `link` between them in either direction.
    #[must_use]
    pub fn new(seed: u64, link: Link) -> Self {
        let mut random = Random::new(seed);
        let net = Net::new(&mut random, link, Link::loopback(), true);
        Self {
            turns: Turns::new(net, Arc::new(Bell::None), random),
            hosts: Vec::new(),
            plans: Vec::new(),
            limit: Self::LIMIT,
        }
    }

    /// Ends the world after that time of its own, in place of [`World::LIMIT`].
    pub fn limit(&mut self, limit: Duration) {
        self.limit = limit;
    }

    /// Sets the link between two hosts, in both directions; with a host and itself, its loopback.
    pub fn link(&mut self, a: IpAddr, b: IpAddr, link: Link) {
        self.one_way(a, b, link);
        self.one_way(b, a, link);
    }

    /// Sets the link from one host to another, in this direction only.
    pub fn one_way(&mut self, from: IpAddr, to: IpAddr, link: Link) {
        let way = (self.number(from), self.number(to));
        self.turns.net.with(|state| state.links.set(way, link));
    }

    /// Lets nothing through between two hosts during a part of the world's time. Partitions may overlap.
    pub fn part(&mut self, a: IpAddr, b: IpAddr, during: Range<Duration>) {
        let (a, b) = (self.number(a), self.number(b));
        self.plan_for(during.start, Change::Part(a, b));
        self.plan_for(during.end, Change::Heal(a, b));
    }

    /// Resets all connections between two hosts at a moment of the world's time.
    pub fn sever(&mut self, a: IpAddr, b: IpAddr, at: Duration) {
        let (a, b) = (self.number(a), self.number(b));
        self.plan_for(at, Change::Sever(a, b));
    }

    /// Adds a plan that serves: it is asked to end once all clients have.
    ///
    /// Its endpoints are bound at once, on the host's address or on loopback, which is each host's own. A host may have several plans.
    ///
    /// # Errors
    /// As [`launch`](crate::launch()): nothing of it runs then.
    pub fn server<T: 'static>(
        &mut self,
        ip: IpAddr,
        plan: Plan,
        service: impl AsyncFn(Shard<Sim>) -> T + Clone + 'static,
    ) -> Result<Host<T>, LaunchError> {
        self.add(ip, plan, service, false)
    }

    /// Adds a plan that the world runs for: when the services of all such have returned, it comes to its end.
    ///
    /// # Errors
    /// As [`World::server`].
    pub fn client<T: 'static>(
        &mut self,
        ip: IpAddr,
        plan: Plan,
        service: impl AsyncFn(Shard<Sim>) -> T + Clone + 'static,
    ) -> Result<Host<T>, LaunchError> {
        self.add(ip, plan, service, true)
    }

    fn add<T: 'static>(
        &mut self,
        ip: IpAddr,
        plan: Plan,
        service: impl AsyncFn(Shard<Sim>) -> T + Clone + 'static,
        is_client: bool,
    ) -> Result<Host<T>, LaunchError> {
        plan.check()?;
        let (host, number) = (self.number(ip), self.plans.len());
        let bound = bind(&self.turns.net, host, &plan)?;
        let addresses = bound.addresses.clone();
        let settled = settle(&mut self.turns, (host, number), &plan, bound, service)?;
        let Settled { stopper, reported } = settled;
        self.plans.push(Started {
            is_client,
            stopper: stopper.clone(),
            report: Box::new(move || final_report(&reported)),
        });
        Ok(Host {
            number,
            addresses,
            stopper,
            returns: PhantomData,
        })
    }

    /// Runs it to its end: until all clients have ended and then all servers, or until nothing more can happen, or until its time is
    /// over.
    #[must_use]
    pub fn run(mut self) -> Outcome {
        let limit = nanoseconds(self.limit);
        let (mut is_draining, mut is_forced) = (false, false);
        let mut fault = None;
        loop {
            let step = self.turns.step();
            if step == Step::Ended {
                break;
            }
            let still = step == Step::Still;
            let over = self.turns.net.clock().elapsed_ns() > limit;
            if !is_draining && (still || self.clients_have_ended()) {
                is_draining = true;
                if !self.clients_have_ended() {
                    fault = Some(Fault::Stalled);
                }
                self.plans.iter().for_each(|plan| plan.stopper.drain());
            } else if !is_forced && (still || over) {
                is_forced = true;
                fault = fault.or(over.then_some(Fault::OutOfTime));
                self.plans.iter().for_each(|plan| plan.stopper.force());
            } else {
                assert!(!still, "shards that were ended by force come to their end");
            }
        }
        self.outcome(fault)
    }

    fn clients_have_ended(&self) -> bool {
        let mut plans = self.plans.iter().enumerate();
        plans.all(|(number, plan)| !plan.is_client || self.turns.has_ended(number))
    }

    fn outcome(self, fault: Option<Fault>) -> Outcome {
        let mut fault = fault;
        let mut reports = Vec::new();
        for plan in self.plans {
            let Untyped { report, panic } = (plan.report)();
            // A panic explains more than what it led to.
            fault = match (panic, fault) {
                (_, panic @ Some(Fault::Panic(_))) => panic,
                (Some(message), _) => Some(Fault::Panic(message)),
                (None, other) => other,
            };
            reports.push(Some(report));
        }
        let net = &self.turns.net;
        Outcome {
            elapsed: Duration::from_nanos(net.clock().elapsed_ns()),
            log: net.take_log().unwrap_or_else(Log::new),
            fault,
            reports,
        }
    }

    fn number(&mut self, ip: IpAddr) -> usize {
        if let Some(known) = self.hosts.iter().position(|known| *known == ip) {
            return known;
        }
        self.hosts.push(ip);
        self.turns.net.with(|state| state.add_host(ip))
    }

    fn plan_for(&self, at: Duration, change: Change) {
        let net = &self.turns.net;
        net.with(|state| state.schedule(nanoseconds(at), Event::Change(change)));
    }
}

fn final_report<T: 'static>(reported: &Reported<T>) -> Untyped {
    let report = Report {
        engine: Sim::NAME,
        capabilities: capabilities(),
        shards: collect(reported),
    };
    Untyped {
        panic: report.first_panic().map(ToOwned::to_owned),
        report: Box::new(report),
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("hosts", &self.hosts)
            .field("plans", &self.plans.len())
            .finish_non_exhaustive()
    }
}

/// What came of a world.
pub struct Outcome {
    /// What happened, in its order.
    pub log: Log,
    /// How long it took, in its own time.
    pub elapsed: Duration,
    fault: Option<Fault>,
    reports: Vec<Option<Box<dyn Any>>>,
}

impl Outcome {
    /// How the shards of a plan ended.
    ///
    /// # Panics
    /// If it was taken before, or is of another world.
    pub fn report<T: 'static>(&mut self, host: &Host<T>) -> Report<T> {
        let report = self.reports.get_mut(host.number).and_then(Option::take);
        let report = report.and_then(|report| report.downcast().ok());
        *report.expect("a report is there once, for whoever started the plan in this world")
    }

    /// Whether the world came to its end as it should.
    ///
    /// # Errors
    /// [`Fault`]. That a server's tasks were cut off by its drain deadline is none.
    pub fn verdict(&self) -> Result<(), Fault> {
        self.fault.clone().map_or(Ok(()), Err)
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("elapsed", &self.elapsed)
            .field("events", &self.log.len())
            .field("fault", &self.fault)
            .finish_non_exhaustive()
    }
}

/// What went wrong in a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A task panicked; this is its message.
    Panic(String),
    /// Clients had not ended, and nothing would ever have happened again: some wake was lost, or two wait for each other.
    Stalled,
    /// The world had not come to its end when its time was over.
    OutOfTime,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(message) => write!(f, "a task panicked: {message}"),
            Self::Stalled => f.write_str("clients wait for what will never happen"),
            Self::OutOfTime => f.write_str("the world did not end within its time"),
        }
    }
}

impl Error for Fault {}
