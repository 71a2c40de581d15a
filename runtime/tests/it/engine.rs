//! Engines under test: the macro that instantiates a behaviour for each, skips, and the usual ways to start shards.

use crate::watchdog;
use shardloop::{
    Accept, Address, Backend, Endpoint, EngineOptions, MonoioLegacy, MonoioUring, Plan, RecvHalf,
    Report, Running, SendHalf, Shard, Sim, Stopper, launch, sim,
};
use shardloop_platform::usage;
use std::{
    cell::{Cell, RefCell},
    io::{BufRead, BufReader, Lines, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::{ChildStdout, Command, Stdio},
    rc::Rc,
    sync::atomic::{AtomicUsize, Ordering},
};

/// Makes one test per engine of each named `fn name<B: Engine>()` of the module it stands in: `monoio_uring::name` and so on. Those
/// behind `kernel "reason":` are of engines whose sockets are the kernel's, for that reason; on others they are skipped.
macro_rules! on_every_engine {
    ($($name:ident),* $(,)? $(; kernel $($reason:literal: $kernel:ident),+ $(,)?)?) => {
        crate::engine::on_every_engine!(@ monoio_uring MonoioUring: $($name)* $($($kernel)+)?);
        crate::engine::on_every_engine!(@ monoio_legacy MonoioLegacy: $($name)* $($($kernel)+)?);
        #[cfg(feature = "glommio")]
        crate::engine::on_every_engine!(@ glommio Glommio: $($name)* $($($kernel)+)?);
        crate::engine::on_every_engine!(@ sim Sim: $($name)* $(; $($reason $kernel)+)?);
    };
    (@ $module:ident $engine:ident: $($name:ident)* $(; $($reason:literal $skipped:ident)+)?) => {
        mod $module {
            $(
                #[test]
                fn $name() {
                    let test = concat!(module_path!(), "::", stringify!($name));
                    crate::engine::test::<shardloop::$engine>(test, super::$name::<shardloop::$engine>);
                }
            )*
            $($(
                #[test]
                fn $skipped() {
                    crate::engine::skip(<shardloop::$engine as shardloop::Backend>::NAME, $reason);
                }
            )+)?
        }
    };
}
pub(crate) use on_every_engine;

/// Says that an engine cannot have a behaviour, and counts it.
pub(crate) fn skip(engine: &str, reason: &str) {
    static SKIPPED: AtomicUsize = AtomicUsize::new(0);
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    eprintln!("skip({engine}, {reason:?}), number {count} of this process");
}

/// Descriptors that `engines` engines leave open for ever, once they ran: what an engine documents of itself, and nothing more.
pub(crate) fn leaked_descriptors<B: Backend>(engines: usize) -> usize {
    engines * B::LEAKED_DESCRIPTORS
}

/// Whether a receive that waits has a buffer, of the size that was last needed.
pub(crate) fn waits_with_a_buffer<B: Backend>() -> bool {
    B::NAME != "glommio" && B::NAME != Sim::NAME
}

/// Bytes of memory this process has. Nothing under a sanitizer, which keeps what was freed.
pub(crate) fn resident_bytes() -> u64 {
    if std::env::var_os("SHARDLOOP_SANITIZED").is_some() {
        return 0;
    }
    let memory = usage::memory(None).expect("this process has memory");
    memory.resident_bytes
}

/// Runs a behaviour on an engine, watched; skips it where the engine is not available.
pub(crate) fn test<B: Backend>(name: &'static str, behaviour: fn()) {
    match B::probe(&EngineOptions::default()) {
        Ok(_) if is_simulated::<B>() => watchdog::watch(name, move || twice(behaviour)),
        Ok(_) => watchdog::watch(name, behaviour),
        Err(unavailable) => skip(B::NAME, &unavailable.reason),
    }
}

/// Runs the calling test in a process of its own, so that what it counts (descriptors, memory) is not somebody else's. The process
/// may have `descriptors` descriptors, if that is given.
pub(crate) fn alone(descriptors: Option<u32>, behaviour: impl FnOnce()) {
    let Some(mut command) = again(descriptors) else {
        return behaviour();
    };
    let output = command
        .output()
        .expect("the test binary can be started again");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        text.contains("1 passed"),
        "in a process of its own, {}:\n{text}",
        output.status
    );
    eprintln!("{text}");
}

/// Starts the calling test again, in a process that may have `descriptors` descriptors, and there runs `body`, after which it returns
/// `None`. Here it returns that process.
pub(crate) fn child(descriptors: u32, body: impl FnOnce()) -> Option<Child> {
    let Some(mut command) = again(Some(descriptors)) else {
        body();
        return None;
    };
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command
        .spawn()
        .expect("the test binary can be started again");
    let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
    Some(Child { process, lines })
}

/// A process started by [`child`].
pub(crate) struct Child {
    process: std::process::Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Child {
    /// Writes a line to its standard input.
    pub(crate) fn ask(&mut self) {
        let input = self
            .process
            .stdin
            .as_mut()
            .expect("piped, and closed only at the end");
        input.write_all(b"\n").expect("it reads");
    }

    /// What follows `word` on the next line that has it.
    pub(crate) fn expect(&mut self, word: &str) -> String {
        for line in self.lines.by_ref() {
            let line = line.expect("text");
            if let Some((_, rest)) = line.split_once(&format!("{word} ")) {
                return rest.to_owned();
            }
        }
        panic!("the process ended without a word of {word}");
    }

    /// Closes its standard input, waits for its end, and fails if that was no good one.
    pub(crate) fn end(mut self) {
        drop(self.process.stdin.take());
        let rest: Vec<_> = self.lines.by_ref().map_while(Result::ok).collect();
        let status = self.process.wait().expect("it ends");
        assert!(status.success(), "{status}\n{}", rest.join("\n"));
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // Errors when it has ended already, as it should have.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

thread_local! {
    /// Digests of the logs of the worlds that ran on this thread.
    static DIGESTS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Runs a behaviour two times: its worlds must come to the same, event by event.
fn twice(behaviour: fn()) {
    let digests = || {
        behaviour();
        DIGESTS.take()
    };
    let first = digests();
    assert_eq!(digests(), first, "the same seed, and another log");
}

/// The command that runs the calling test alone; `None` if this is such a process.
pub(crate) fn again(descriptors: Option<u32>) -> Option<Command> {
    const INSIDE: &str = "SHARDLOOP_TEST_ALONE";
    let name = watchdog::current_test();
    // The first part of a module's path is the crate, which test names leave out.
    let name = name.split_once("::").expect("a test is in a module").1;
    if std::env::var(INSIDE).as_deref() == Ok(name) {
        return None;
    }
    let binary = std::env::current_exe().expect("a test knows its own file");
    let mut command = match descriptors {
        None => Command::new(binary),
        Some(limit) => {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", "ulimit -n $0 && exec \"$@\""])
                .arg(limit.to_string())
                .arg(binary);
            shell
        }
    };
    command
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(INSIDE, name);
    Some(command)
}

/// An engine under test: how a server and a client come together on it.
pub(crate) trait Engine: Backend {
    /// Serves a plan, and runs `client` as the service of another, whom it tells where the server is. When the client has returned,
    /// the server is asked to end. Nothing may be left of either. Here they are two plans, each on threads of its own.
    fn serve<S: Send + 'static, T: Send + 'static>(
        plan: Plan,
        service: impl AsyncFn(Shard<Self>) -> S + Clone + Send + 'static,
        client: impl AsyncFn(Shard<Self>, Server) -> T + Clone + Send + 'static,
    ) -> (Report<S>, T) {
        let running = launch::<Self, S>(plan, service).expect("starts");
        let server = Server {
            addresses: running.addresses().to_vec(),
            stopper: running.stopper(),
        };
        let asked = on_shard::<Self, T>(async move |shard| client(shard, server.clone()).await);
        let report = finish(running);
        assert_nobody_panicked(&report);
        (report, asked)
    }
}

impl Engine for MonoioUring {}
impl Engine for MonoioLegacy {}
#[cfg(feature = "glommio")]
impl Engine for shardloop::Glommio {}

impl Engine for Sim {
    /// Both on one host of one world.
    fn serve<S: Send + 'static, T: Send + 'static>(
        plan: Plan,
        service: impl AsyncFn(Shard<Self>) -> S + Clone + Send + 'static,
        client: impl AsyncFn(Shard<Self>, Server) -> T + Clone + Send + 'static,
    ) -> (Report<S>, T) {
        let host = IpAddr::from([10, 0, 0, 1]);
        let mut world = sim::World::new(seed(), sim::Link::loopback());
        let serving = world.server(host, plan, service).expect("starts");
        let server = Server {
            addresses: serving.addresses().to_vec(),
            stopper: serving.stopper(),
        };
        let client = async move |shard| client(shard, server.clone()).await;
        let asking = world.client(host, Plan::new(1), client).expect("starts");
        let mut outcome = world.run();
        DIGESTS.with_borrow_mut(|digests| digests.push(outcome.log.digest()));
        let (served, asked) = (outcome.report(&serving), outcome.report(&asking));
        assert_clean(&served);
        assert_clean(&asked);
        assert_nobody_panicked(&served);
        assert_ne!(outcome.verdict(), Err(sim::Fault::Stalled));
        let asked = asked.shards.into_iter().next().expect("one shard").result;
        (served, asked.expect("the client is content"))
    }
}

/// The seed of a test that has but one world: that of the environment, or 0.
pub(crate) fn seed() -> u64 {
    let text = std::env::var(sim::SEED_VARIABLE).unwrap_or_default();
    text.parse().unwrap_or_default()
}

/// Whether an engine's sockets are not the kernel's, so that the system's own cannot reach them.
pub(crate) fn is_simulated<B: Backend>() -> bool {
    B::NAME == Sim::NAME
}

/// A server, as its client knows it.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) addresses: Vec<Address>,
    pub(crate) stopper: Stopper,
}

impl Server {
    /// Its first endpoint.
    pub(crate) fn address(&self) -> Address {
        self.addresses[0].clone()
    }
}

pub(crate) fn v4() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

pub(crate) fn v6() -> SocketAddr {
    (Ipv6Addr::LOCALHOST, 0).into()
}

/// `shards` shards that share one endpoint on 127.0.0.1.
pub(crate) fn plan(shards: usize, accept: Accept) -> Plan {
    Plan::new(shards).endpoint(Endpoint::tcp(v4(), accept))
}

/// Runs `body` on one shard without endpoints and returns what it returns. The shard must end without leaving anything.
pub(crate) fn on_shard<B: Backend, T: Send + 'static>(
    body: impl AsyncFn(Shard<B>) -> T + Clone + Send + 'static,
) -> T {
    let report = launch::<B, T>(Plan::new(1), body)
        .expect("one shard starts")
        .wait();
    assert_clean(&report);
    report
        .shards
        .into_iter()
        .next()
        .expect("one shard")
        .result
        .expect("the body neither panics nor is cut off")
}

/// Drains and waits; nothing may be left.
pub(crate) fn finish<T>(running: Running<T>) -> Report<T> {
    running.stopper().drain();
    let report = running.wait();
    assert_clean(&report);
    report
}

/// Ends at once and waits; nothing may be left.
pub(crate) fn cut_off<T>(running: Running<T>) -> Report<T> {
    running.stopper().force();
    let report = running.wait();
    assert_clean(&report);
    report
}

/// What fails on a shard fails the test: a panic there is no panic here.
pub(crate) fn assert_nobody_panicked<T>(report: &Report<T>) {
    assert_eq!(report.first_panic(), None);
}

pub(crate) fn assert_clean<T>(report: &Report<T>) {
    for shard in &report.shards {
        let left = (shard.tasks_left, shard.operations_left);
        assert_eq!(
            left,
            (0, 0),
            "tasks and operations left on shard {}",
            shard.index
        );
    }
}

/// Counts how often others may run, in a task of its own that ends once nobody wants to know any more.
pub(crate) fn count_turns<B: Backend>(shard: &Shard<B>) -> Rc<Cell<u32>> {
    let turns = Rc::new(Cell::new(0));
    let counter = turns.clone();
    let counting = async move {
        while Rc::strong_count(&counter) > 1 {
            shardloop::time::yield_now().await;
            counter.set(counter.get() + 1);
        }
    };
    shard.spawn(counting).detach();
    turns
}

/// Serves every connection of the first endpoint with an echo, until the shard is asked to end.
pub(crate) async fn echo<B: Backend>(shard: Shard<B>) {
    let mut incoming = shard.incoming(0);
    while let Some((stream, _peer)) = incoming.next().await {
        shard.spawn(echo_stream(stream)).detach();
    }
}

/// Echoes until the peer closes its side; returns how many bytes that were.
pub(crate) async fn echo_stream(mut stream: impl RecvHalf + SendHalf) -> u64 {
    let mut bytes = 0;
    while let Ok(lease) = stream.recv().await {
        bytes += lease.len() as u64;
        if lease.is_empty() || stream.send_all(lease).await.0.is_err() {
            break;
        }
    }
    bytes
}
