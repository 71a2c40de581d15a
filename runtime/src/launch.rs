//! Starting the shards of a plan, and what becomes of them.
//!
//! Everything that can fail fails in [`launch`]: endpoints are bound in the calling thread before any shard starts, and no service
//! runs before every shard has its engine.

use crate::{
    accept::{Accept, Endpoint, Inbox, accept_for},
    backend::{Backend, Capabilities, Ended, Unavailable},
    context,
    kind::{Choice, Kind},
    metrics::Metrics,
    options::EngineOptions,
    placement::{Placement, Seat},
    race::{Either, race},
    shard::{Door, Facts, Shard, World},
    shutdown::{Stopper, stopping},
    task::{Task, TaskError},
    time::{now, sleep},
    wake::Remote,
};
use shardloop_platform::{
    signal::Signals,
    socket::{self, BindError},
};
use std::{
    error::Error as StdError,
    fmt,
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, mpsc},
    task::Poll,
    thread::JoinHandle,
    time::Duration,
};

/// What is to be started.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How many shards, 1 to [`Plan::MAX_SHARDS`].
    pub shards: usize,
    /// Where they run.
    pub placement: Placement,
    /// What they serve together; a shard reaches them by their position here.
    pub endpoints: Vec<Endpoint>,
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

    fn check(&self) -> Result<(), LaunchError> {
        if self.shards == 0 || self.shards > Self::MAX_SHARDS {
            return Err(LaunchError::Shards(self.shards));
        }
        let spread = socket::REUSE_PORT_SPREADS;
        match self
            .endpoints
            .iter()
            .find(|e| e.accept == Accept::ReusePort && self.shards > 1 && !spread)
        {
            Some(endpoint) => Err(LaunchError::NoReusePort(endpoint.address)),
            None => Ok(()),
        }
    }
}

/// What shards do, when the engine is to be chosen by name: the same for every engine.
pub trait Service: Clone + Send + 'static {
    /// Serves on one shard until it is asked to end. [`Incoming::next`](crate::Incoming::next) gives `None` then, while the tasks of
    /// connections go on until they are done or the drain deadline comes: what they do after that, count in something they share with
    /// you (an `Arc` in the service), and read it once [`run`] has returned.
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
    let capabilities = B::probe(&plan.engine).map_err(LaunchError::Unavailable)?;
    B::launch(plan, capabilities, service)
}

/// Starts a plan on the engine that `kind` names, or on the best one that works here.
///
/// # Errors
/// As [`launch`].
pub fn start(
    kind: Kind,
    plan: Plan,
    service: impl Service,
) -> Result<Running<Result<(), Error>>, LaunchError> {
    let Choice { kind, capabilities } = kind
        .choose(&plan.engine)
        .map_err(LaunchError::Unavailable)?;
    crate::with_backend!(
        kind,
        B => B::launch(plan, capabilities, async move |shard| service.clone().run::<B>(shard).await),
        auto => unreachable!("a choice is an engine")
    )
}

/// Runs a plan until its services have ended, or SIGINT or SIGTERM comes: the first drains, a second ends it at once. Call it before
/// any other thread is started, because the signals are blocked for those that come after.
///
/// # Errors
/// As [`launch`]; also if the signals cannot be blocked.
pub fn run(
    kind: Kind,
    plan: Plan,
    service: impl Service,
) -> Result<Report<Result<(), Error>>, LaunchError> {
    let signals = Signals::block().map_err(LaunchError::Signals)?;
    let running = start(kind, plan, service)?;
    let stopper = running.stopper();
    let wait = move || {
        if signals.wait().is_ok() {
            stopper.drain();
        }
        if signals.wait().is_ok() {
            stopper.force();
        }
    };
    // It waits for as long as the process lives; nothing is lost when that ends.
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)
        .map_err(LaunchError::Thread)?;
    Ok(running.wait())
}

/// Why a plan could not be started.
#[derive(Debug)]
pub enum LaunchError {
    /// Zero shards, or more than [`Plan::MAX_SHARDS`].
    Shards(usize),
    /// The engine cannot be used here.
    Unavailable(Unavailable),
    /// An endpoint could not be bound.
    Bind(BindError),
    /// `ReusePort` does not spread connections on this system.
    NoReusePort(SocketAddr),
    /// A bound endpoint would not tell its address.
    Address(io::Error),
    /// The signals that end a plan could not be taken over.
    Signals(io::Error),
    /// A thread could not be started.
    Thread(io::Error),
    /// An engine could not be built on one of the shards.
    Engine {
        /// The engine's name.
        engine: &'static str,
        /// Which shard.
        shard: usize,
        /// Why.
        error: io::Error,
    },
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shards(shards) => {
                write!(
                    f,
                    "a plan has 1 to {} shards; {shards} were asked for",
                    Plan::MAX_SHARDS
                )
            }
            Self::Unavailable(unavailable) => unavailable.fmt(f),
            Self::Bind(error) => error.fmt(f),
            Self::NoReusePort(address) => write!(
                f,
                "{address}: SO_REUSEPORT does not spread connections on this system, so one shard would get them all; use Accept::Handoff"
            ),
            Self::Address(error) => {
                write!(f, "a bound endpoint would not tell its address: {error}")
            }
            Self::Signals(error) => write!(
                f,
                "SIGINT and SIGTERM could not be taken over, so nothing could end the shards in order: {error}"
            ),
            Self::Thread(error) => write!(f, "a thread could not be started: {error}"),
            Self::Engine {
                engine,
                shard,
                error,
            } => write!(
                f,
                "{engine} could not be started on shard {shard}, so no shard was: {error}"
            ),
        }
    }
}

impl StdError for LaunchError {}

/// A started plan. Dropping it ends its shards at once; [`wait`](Self::wait) lets them finish.
#[derive(Debug)]
pub struct Running<T> {
    threads: Vec<JoinHandle<ShardReport<T>>>,
    addresses: Vec<SocketAddr>,
    seats: Vec<Seat>,
    stopper: Stopper,
    engine: &'static str,
    capabilities: Capabilities,
}

impl<T> Running<T> {
    /// Where the endpoints are bound, ports resolved, in the plan's order.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where each shard runs.
    #[must_use]
    pub fn seats(&self) -> &[Seat] {
        &self.seats
    }

    /// The engine's name.
    #[must_use]
    pub fn engine(&self) -> &'static str {
        self.engine
    }

    /// What the engine offers, and why it was chosen.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// A handle to end it with, from anywhere.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits until all shards have ended.
    ///
    /// # Panics
    /// If a shard's thread panicked outside its tasks, which is a fault of this crate.
    pub fn wait(mut self) -> Report<T> {
        let threads = std::mem::take(&mut self.threads);
        let join = |thread: JoinHandle<_>| {
            thread
                .join()
                .expect("every panic of a task is caught, so a shard's thread returns")
        };
        Report {
            engine: self.engine,
            capabilities: std::mem::take(&mut self.capabilities),
            shards: threads.into_iter().map(join).collect(),
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.stopper.force();
        }
    }
}

/// How the shards of a plan ended.
#[derive(Debug)]
pub struct Report<T> {
    /// The engine they ran on.
    pub engine: &'static str,
    /// What it offered, and why it was chosen.
    pub capabilities: Capabilities,
    /// In their order.
    pub shards: Vec<ShardReport<T>>,
}

impl<T> Report<T> {
    /// The first panic of any task on any shard.
    #[must_use]
    pub fn first_panic(&self) -> Option<&str> {
        self.shards
            .iter()
            .find_map(|shard| shard.first_panic.as_deref())
    }

    /// Tasks that had not finished when the drain deadline passed, on all shards.
    #[must_use]
    pub fn tasks_cut_off(&self) -> usize {
        self.shards.iter().map(|shard| shard.tasks_cut_off).sum()
    }
}

/// How one shard ended.
#[derive(Debug)]
pub struct ShardReport<T> {
    /// Its number.
    pub index: usize,
    /// Where it ran.
    pub seat: Seat,
    /// What its service returned; `Err` if it panicked, or was cut off by the drain deadline or by force.
    pub result: Result<T, TaskError>,
    /// Its counters at the end.
    pub metrics: Metrics,
    /// The message of the first task that panicked.
    pub first_panic: Option<String>,
    /// Tasks that had not finished when the drain deadline passed, or when it was ended by force.
    pub tasks_cut_off: usize,
    /// Tasks whose future could not be dropped in time, because destructors started new ones again and again; they are leaked.
    pub tasks_left: usize,
    /// Operations that still held memory when the engine was closed; that memory is leaked.
    pub operations_left: usize,
}

/// Starts each shard on a thread of its own.
pub(crate) fn launch_threads<B: Backend, T: Send + 'static>(
    plan: Plan,
    capabilities: Capabilities,
    service: impl AsyncFn(Shard<B>) -> T + Clone + Send + 'static,
) -> Result<Running<T>, LaunchError> {
    plan.check()?;
    let Bound {
        mut listeners,
        addresses,
    } = bind::<B>(&plan)?;
    let mut starting = Starting::<B, T>::default();
    for (index, cpu) in plan.placement.cpus(plan.shards).into_iter().enumerate() {
        let recruit = Recruit {
            index,
            cpu,
            plan: plan.clone(),
            listeners: listeners.iter_mut().map(|group| group.pop()).collect(),
        };
        starting.add(recruit, service.clone())?;
    }
    let (remotes, seats) = starting.wait_for_all()?;
    let stopper = Stopper::new(remotes.clone());
    let world = Arc::new(World {
        shards: plan.shards,
        stopper: stopper.clone(),
        capabilities: capabilities.clone(),
        doors: doors::<B>(&plan, &addresses, &remotes),
    });
    // The barrier: no shard's service has run before this.
    starting.go(&world);
    Ok(Running {
        threads: std::mem::take(&mut starting.threads),
        addresses,
        seats,
        stopper,
        engine: B::NAME,
        capabilities,
    })
}

struct Bound<B: Backend> {
    /// For each endpoint, the listeners its shards take from the end.
    listeners: Vec<Vec<B::Bound>>,
    addresses: Vec<SocketAddr>,
}

fn bind<B: Backend>(plan: &Plan) -> Result<Bound<B>, LaunchError> {
    let mut bound = Bound {
        listeners: Vec::new(),
        addresses: Vec::new(),
    };
    for endpoint in &plan.endpoints {
        let count = endpoint.listeners(plan.shards);
        let group = B::bind(&endpoint.listen_options(), count).map_err(LaunchError::Bind)?;
        bound
            .addresses
            .push(B::address(&group[0]).map_err(LaunchError::Address)?);
        bound.listeners.push(group);
    }
    Ok(bound)
}

fn doors<B: Backend>(
    plan: &Plan,
    addresses: &[SocketAddr],
    remotes: &[Arc<Remote>],
) -> Vec<Door<B>> {
    let inbox = |remote: &Arc<Remote>| Arc::new(Inbox::new(remote.clone()));
    let door = |(endpoint, address): (&Endpoint, &SocketAddr)| Door {
        address: *address,
        accept: endpoint.accept,
        stream: endpoint.stream,
        inboxes: remotes.iter().map(inbox).collect(),
    };
    plan.endpoints.iter().zip(addresses).map(door).collect()
}

/// One shard before it runs.
struct Recruit<B: Backend> {
    index: usize,
    cpu: Option<usize>,
    plan: Plan,
    /// This shard's listener of each endpoint, if it has one.
    listeners: Vec<Option<B::Bound>>,
}

/// What a shard's thread tells the launching one.
struct Arrived {
    index: usize,
    result: io::Result<(Arc<Remote>, Seat)>,
}

/// Shards that are being started.
struct Starting<B: Backend, T> {
    threads: Vec<JoinHandle<ShardReport<T>>>,
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
            .spawn(move || shard_thread(recruit, service, &arrivals, &started))
            .map_err(LaunchError::Thread)?;
        self.threads.push(thread);
        self.go.push(go);
        Ok(())
    }

    /// Waits until every shard has its engine, or one has not.
    fn wait_for_all(&self) -> Result<(Vec<Arc<Remote>>, Vec<Seat>), LaunchError> {
        let mut arrived: Vec<_> = self.arrivals.1.iter().take(self.threads.len()).collect();
        arrived.sort_by_key(|arrived| arrived.index);
        let engine = B::NAME;
        let each = |Arrived { index, result }: Arrived| {
            result.map_err(|error| LaunchError::Engine {
                engine,
                shard: index,
                error,
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
        listeners,
    } = recruit;
    let seat = Seat::take(cpu);
    let mut core = None;
    let ended = B::run(&plan.engine, || {
        let current = context::current();
        // Within the engine, and before the barrier: a listener that cannot be had is an error of the launch.
        let adopted = adopt::<B>(listeners);
        let (result, listeners) = match adopted {
            Ok(listeners) => (Ok((current.remote().clone(), seat.clone())), listeners),
            Err(error) => (Err(error), Vec::new()),
        };
        core = Some(current);
        let _ = arrivals.send(Arrived { index, result });
        let world = started.recv().ok();
        let seat = seat.clone();
        async move {
            let shard = Shard::new(Facts {
                index,
                seat,
                world: world?,
            });
            Some(serve(shard, listeners, service, plan.drain).await)
        }
    });
    let ended = ended.unwrap_or_else(|error| {
        let _ = arrivals.send(Arrived {
            index,
            result: Err(error),
        });
        Ended {
            main: Err(TaskError::Cancelled),
            tasks_cut_off: 0,
            tasks_left: 0,
            operations_left: 0,
        }
    });
    report(index, seat, ended, core.as_deref())
}

fn adopt<B: Backend>(bound: Vec<Option<B::Bound>>) -> io::Result<Vec<Option<B::Listener>>> {
    let each = |bound: Option<B::Bound>| bound.map(B::adopt_listener).transpose();
    bound.into_iter().map(each).collect()
}

fn report<T>(
    index: usize,
    seat: Seat,
    ended: Ended<Option<Served<T>>>,
    core: Option<&crate::executor::Core>,
) -> ShardReport<T> {
    let (result, tasks_cut_off) = match ended.main {
        Ok(Some(served)) => (
            served.result.ok_or(TaskError::Cancelled),
            served.tasks_cut_off,
        ),
        Ok(None) => (Err(TaskError::Cancelled), 0),
        Err(error) => (Err(error), ended.tasks_cut_off),
    };
    ShardReport {
        index,
        seat,
        result,
        metrics: core.map(crate::executor::Core::metrics).unwrap_or_default(),
        first_panic: core.and_then(crate::executor::Core::first_panic),
        tasks_cut_off,
        tasks_left: ended.tasks_left,
        operations_left: ended.operations_left,
    }
}

/// What came of a shard's service.
struct Served<T> {
    /// `None` if it was cut off.
    result: Option<T>,
    tasks_cut_off: usize,
}

/// A shard's main future: accepts, serves, drains.
async fn serve<B: Backend, T>(
    shard: Shard<B>,
    listeners: Vec<Option<B::Listener>>,
    service: impl AsyncFn(Shard<B>) -> T,
    drain: Duration,
) -> Served<T> {
    let mut closing = Closing::new(shard.clone());
    let acceptors = start_acceptors(&shard, listeners);
    let mut stopped_at = None;
    let deadline = async {
        stopping().await;
        stopped_at = Some(now());
        sleep(drain).await;
    };
    let result = match race(pin!(service(shard)), pin!(deadline)).await {
        Either::Left(value) => Some(value),
        Either::Right(()) => None,
    };
    for acceptor in acceptors {
        acceptor.cancel().await;
    }
    closing.returned();
    let drained = stopped_at.map_or(Duration::ZERO, |at| now().saturating_duration_since(at));
    Served {
        result,
        tasks_cut_off: wait_for_tasks(drain.saturating_sub(drained)).await,
    }
}

/// What the end of a shard's service means for the others, however it ended.
///
/// No connection waits for it: others serve what comes. If it panicked, or if it accepted for others, the plan as a whole is asked to
/// end: a service of which a part is missing, or that no connection reaches any more, is better restarted than left running.
struct Closing<B: Backend> {
    shard: Shard<B>,
    panicked: bool,
}

impl<B: Backend> Closing<B> {
    fn new(shard: Shard<B>) -> Self {
        // Taken back when the service returns; a panic does not come that far.
        Self {
            shard,
            panicked: true,
        }
    }

    /// The service has returned, or was cut off.
    fn returned(&mut self) {
        self.panicked = false;
        self.shard.inboxes().for_each(Inbox::close);
        if self.shard.accepts_for_others() {
            self.shard.world().stopper.drain();
        }
    }
}

impl<B: Backend> Drop for Closing<B> {
    fn drop(&mut self) {
        self.shard.inboxes().for_each(|inbox| {
            inbox.close();
            inbox.clear();
        });
        if self.panicked {
            self.shard.world().stopper.drain();
        }
    }
}

fn start_acceptors<B: Backend>(
    shard: &Shard<B>,
    listeners: Vec<Option<B::Listener>>,
) -> Vec<Task<()>> {
    let start = |(endpoint, listener): (usize, Option<B::Listener>)| {
        let targets = shard.world().doors[endpoint].targets(shard.index());
        listener.map(|listener| shard.spawn(accept_for::<B>(listener, targets)))
    };
    listeners
        .into_iter()
        .enumerate()
        .filter_map(start)
        .collect()
}

/// Waits until only the calling task is left. Returns how many others there are when `limit` is over first.
async fn wait_for_tasks(limit: Duration) -> usize {
    let core = context::current();
    let others_gone = poll_fn(|cx| {
        core.wake_at_task_end(cx.waker());
        if core.live_tasks() <= 1 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    });
    match race(others_gone, sleep(limit)).await {
        Either::Left(()) => 0,
        Either::Right(()) => core.live_tasks() - 1,
    }
}
