//! What the shards of the scenarios do: plans, an echo, and the server that runs in a process of its own.

use super::{
    Engine,
    catalogue::Name,
    client,
    trial::{Trial, say},
};
use serde::{Deserialize, Serialize};
use shardloop::{
    Accept, ConnectOptions, Endpoint, Plan, RecvHalf, Report, Running, SendHalf, Shard,
    StreamOptions, launch, time,
};
use std::{
    io::BufRead,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// What connections are set to.
pub(crate) const STREAM: StreamOptions = StreamOptions {
    nodelay: true,
    send_buffer_bytes: None,
    receive_buffer_bytes: None,
};

/// How shards connect.
pub(crate) const CONNECT: ConnectOptions = ConnectOptions {
    stream: STREAM,
    deadline: Duration::from_secs(30),
};

/// `shards` shards that share one endpoint on loopback.
pub(crate) fn plan(shards: usize, accept: Accept) -> Plan {
    Plan::new(shards).endpoint(Endpoint::tcp(client::anywhere(), accept))
}

/// Where the first endpoint is.
pub(crate) fn address<T>(running: &Running<T>) -> anyhow::Result<SocketAddr> {
    let address = running.addresses().first().and_then(|first| first.inet());
    address.ok_or_else(|| anyhow::anyhow!("the plan has no TCP endpoint"))
}

/// Ends a plan and waits for it; nothing may be left, and no task may have panicked.
pub(crate) fn finish<T>(trial: &mut Trial, running: Running<T>, force: bool) -> Report<T> {
    let stopper = running.stopper();
    if force {
        stopper.force();
    } else {
        stopper.drain();
    }
    finish_by_itself(trial, running)
}

/// Waits for a plan that ends by itself; nothing may be left, and no task may have panicked.
pub(crate) fn finish_by_itself<T>(trial: &mut Trial, running: Running<T>) -> Report<T> {
    let report = running.wait();
    require_clean(trial, &report);
    if let Some(panic) = report.first_panic() {
        trial.require(false, || format!("a task panicked: {panic}"));
    }
    report
}

/// Nothing may be left.
pub(crate) fn require_clean<T>(trial: &mut Trial, report: &Report<T>) {
    for shard in &report.shards {
        let left = (shard.tasks_left, shard.operations_left);
        trial.require(left == (0, 0), || {
            format!(
                "shard {} ended and left {} tasks and {} operations",
                shard.index, left.0, left.1
            )
        });
    }
}

/// Serves every connection of the first endpoint with an echo, until the shard is asked to end.
pub(crate) async fn echo<B: Engine>(shard: Shard<B>) {
    let mut incoming = shard.incoming(0);
    while let Some((stream, _peer)) = incoming.next().await {
        shard.spawn(echo_stream(stream)).detach();
    }
}

/// Echoes until the peer closes its side. The plainest service there is, and not a driver of the protocols: those give way by
/// themselves, and here the runtime is to show that it does not depend on that.
pub(crate) async fn echo_stream(mut stream: impl RecvHalf + SendHalf) {
    while let Ok(lease) = stream.recv().await {
        if lease.is_empty() || stream.send_all(lease).await.0.is_err() {
            break;
        }
    }
}

/// What the server in a process of its own says of itself, whenever it is asked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) accepted: u64,
    pub(crate) open: u64,
    pub(crate) accept_errors: u64,
    pub(crate) turns: u64,
    /// `null` where the engine does not tell.
    pub(crate) kernel_entries: Option<u64>,
}

/// Serves with one shard: its address on the first line, then its counters for every line of standard input, whose end is its end.
pub(crate) fn serve<B: Engine>(name: Name) -> anyhow::Result<()> {
    #[derive(Default)]
    struct Shared {
        accepted: AtomicU64,
        open: AtomicU64,
        errors: AtomicU64,
        turns: AtomicU64,
        entries: AtomicU64,
    }
    const NOT_TOLD: u64 = u64::MAX;
    let mut plan = plan(1, Accept::Handoff);
    plan.drain = Duration::from_millis(500);
    if name == Name::SmallRing {
        plan.engine.ring_entries = 256;
        plan.endpoints[0].backlog = 8_192;
    }
    let shared = Arc::new(Shared::default());
    let service = {
        let shared = shared.clone();
        async move |shard: Shard<B>| {
            let (observed, shared) = (shard.clone(), shared.clone());
            let observer = shard.spawn(async move {
                loop {
                    let metrics = observed.metrics();
                    let entries = metrics.kernel_entries.unwrap_or(NOT_TOLD);
                    shared.accepted.store(metrics.accepted, Ordering::Relaxed);
                    shared.open.store(metrics.open(), Ordering::Relaxed);
                    shared
                        .errors
                        .store(metrics.accept_errors, Ordering::Relaxed);
                    shared.turns.store(metrics.turns, Ordering::Relaxed);
                    shared.entries.store(entries, Ordering::Relaxed);
                    time::sleep(Duration::from_millis(10)).await;
                }
            });
            echo(shard).await;
            observer.cancel().await;
        }
    };
    let running = launch::<B, _>(plan, service)?;
    say(&address(&running)?.to_string());
    for _question in std::io::stdin().lock().lines().map_while(Result::ok) {
        let entries = shared.entries.load(Ordering::Relaxed);
        say(&serde_json::to_string(&Count {
            accepted: shared.accepted.load(Ordering::Relaxed),
            open: shared.open.load(Ordering::Relaxed),
            accept_errors: shared.errors.load(Ordering::Relaxed),
            turns: shared.turns.load(Ordering::Relaxed),
            kernel_entries: (entries != NOT_TOLD).then_some(entries),
        })?);
    }
    running.stopper().drain();
    running.wait();
    Ok(())
}

/// The server of [`serve`], as its scenario sees it.
#[derive(Debug)]
pub(crate) struct Server {
    child: crate::child::Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    const PATIENCE: Duration = Duration::from_secs(20);

    /// Starts it, with these words before the program.
    pub(crate) fn start(trial: &Trial, before: &[&str]) -> anyhow::Result<Self> {
        let mut child = trial.part("server", before)?;
        let first = line(&mut child, Self::PATIENCE)?;
        let address = first.parse()?;
        Ok(Self { child, address })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.pid()
    }

    pub(crate) fn count(&mut self) -> anyhow::Result<Count> {
        self.child.tell("count")?;
        Ok(serde_json::from_str(&line(
            &mut self.child,
            Self::PATIENCE,
        )?)?)
    }

    /// Ends it; the lines it wrote to standard error.
    pub(crate) fn end(mut self) -> usize {
        self.child.end(Duration::from_secs(5));
        self.child.stderr().len()
    }
}

/// The next line of a child.
pub(crate) fn line(child: &mut crate::child::Child, patience: Duration) -> anyhow::Result<String> {
    let next = child.next_line(std::time::Instant::now() + patience, &mut || None);
    match next {
        Ok(Some(line)) => Ok(line),
        Ok(None) => anyhow::bail!(
            "a process ended without a word: {}",
            child.stderr().join("; ")
        ),
        Err(_) => anyhow::bail!("a process said nothing for {patience:?}"),
    }
}
