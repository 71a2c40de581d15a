//! 5: shards that end with everything in flight leave nothing behind, a thousand times in one process.

use super::{
    Engine, client,
    oracle::{descriptors, resident, ticker::Times},
    service::{self, CONNECT},
    trial::Trial,
};
use anyhow::Context;
use shardloop::{
    Accept, ConnectOptions, Endpoint, LaunchError, Plan, RecvHalf, Running, SendHalf, Shard,
    launch, time,
};
use socket2::{Domain, Socket, Type};
use std::{
    future::{Future, pending},
    net::{SocketAddr, TcpStream},
    pin::Pin,
    thread,
    time::{Duration, Instant},
};

const ROUNDS: u32 = 1_000;
/// Until the allocator and the thread library have what they keep.
const WARM_UP: u32 = 50;
/// Bytes that resident memory may grow by after that.
const GROWTH_MOST: u64 = 8 << 20;
/// What panics on purpose says.
const EXPECTED: &str = "a panic that is part of the scenario";
/// Within which shards whose handle was dropped have ended.
const SETTLED_WITHIN: Duration = Duration::from_secs(2);
/// A round longer than this hangs.
const ROUND_LONGEST: Duration = Duration::from_secs(5);

pub(crate) fn run<B: Engine>(trial: &mut Trial) -> anyhow::Result<()> {
    std::panic::set_hook(Box::new(|panic| {
        if !panic.to_string().contains(EXPECTED) {
            eprintln!("{panic}");
        }
    }));
    let deaf = Deaf::new()?;
    // A handle that was dropped leaves shards that end by themselves, a moment later.
    let none = descriptors::count()?;
    // Without what an engine is known to leave behind.
    let settled = |rounds: u32| -> anyhow::Result<_> {
        let leaked = rounds as usize * B::LEAKED_DESCRIPTORS;
        let open = descriptors::settled(none + leaked, SETTLED_WITHIN)?;
        Ok((open.saturating_sub(leaked), resident::bytes()?))
    };
    let mut address = client::anywhere();
    let (mut base, took, mut rounds) = (None, Times::new()?, 0);
    while rounds < ROUNDS && !(trial.is_over(1.0) && base.is_some()) {
        let begun = Instant::now();
        address = round::<B>(trial, rounds, address, deaf.address)
            .with_context(|| format!("round {rounds}"))?;
        took.record(begun.elapsed());
        rounds += 1;
        if base.is_none() && (rounds == WARM_UP || trial.is_over(0.3)) {
            base = Some(settled(rounds)?);
        }
        if rounds % 100 == 0 {
            trial.say(&format!("round {rounds}"));
        }
    }
    let (descriptors_before, resident_before) = base.context("the warm-up was not reached")?;
    let (descriptors_after, resident_after) = settled(rounds)?;
    trial.note("rounds", rounds);
    trial.note_rounded("round_ms_max", took.ms_max());
    trial.note("descriptors_before", descriptors_before);
    trial.note("descriptors_after", descriptors_after);
    trial.note_rounded("rss_before_mib", resident::mib(resident_before));
    trial.note_rounded("rss_after_mib", resident::mib(resident_after));
    trial.require(descriptors_after == descriptors_before, || {
        format!("{descriptors_before} descriptors became {descriptors_after}")
    });
    let grown = resident_after.saturating_sub(resident_before);
    trial.require(grown < GROWTH_MOST, || {
        format!(
            "memory grew by {:.1} MiB in {rounds} rounds",
            resident::mib(grown)
        )
    });
    trial.require_in_time(took.ms_max() < ROUND_LONGEST.as_secs_f64() * 1e3, || {
        format!("a round took {:.0} ms", took.ms_max())
    });
    Ok(())
}

/// Starts a plan at `address`, leaves everything in flight, and ends it in one of five ways.
fn round<B: Engine>(
    trial: &mut Trial,
    round: u32,
    address: SocketAddr,
    nobody: SocketAddr,
) -> anyhow::Result<SocketAddr> {
    let service = async move |shard: Shard<B>| {
        let moment = round * 37 % 1_500;
        leave_everything_in_flight(shard, nobody, moment, round.is_multiple_of(3)).await;
        match round % 5 {
            0 | 4 => pending().await,
            1 => panic!("{EXPECTED}"),
            _ => {}
        }
    };
    let mut plan = Plan::new(1).endpoint(Endpoint::tcp(address, Accept::Handoff));
    plan.drain = Duration::ZERO;
    let running = bound_again(|| launch::<B, ()>(plan.clone(), service))?;
    let address = service::address(&running)?;
    match round % 5 {
        0 => {
            running.stopper().force();
            service::require_clean(trial, &running.wait());
        }
        4 => panicking(running),
        _ => service::require_clean(trial, &running.wait()),
    }
    Ok(address)
}

/// The same port every time. After a handle was dropped by a panic nobody waited for the shards, so the port may be taken for a moment.
fn bound_again<T>(
    mut launch: impl FnMut() -> Result<Running<T>, LaunchError>,
) -> Result<Running<T>, LaunchError> {
    let deadline = Instant::now() + ROUND_LONGEST;
    loop {
        match launch() {
            Err(LaunchError::Bind(_)) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(1));
            }
            ended => return ended,
        }
    }
}

/// The handle is dropped by the unwinding of a thread that panics.
fn panicking(running: Running<()>) {
    let thread = thread::spawn(move || {
        let _running = running;
        panic!("{EXPECTED}");
    });
    // It panicked: that is what it is for.
    let _ = thread.join();
}

/// One of everything: accepts, receives, a send, connects (`nobody` never answers), timers.
async fn leave_everything_in_flight<B: Engine>(
    shard: Shard<B>,
    nobody: SocketAddr,
    moment: u32,
    panics: bool,
) {
    let mut incoming = shard.incoming(0);
    let Some(address) = shard.address(0).inet() else {
        return;
    };
    let detach = |future: Pin<Box<dyn Future<Output = ()>>>| shard.spawn(future).detach();
    detach(Box::pin(async move {
        // Connects to itself: a receive and a send in flight on either side.
        let Ok(mut ours) = B::connect(&[address.into()], &CONNECT).await else {
            return;
        };
        let Some((mut theirs, _)) = incoming.next().await else {
            return;
        };
        let receiving = shardloop::spawn(async move {
            let _ = theirs.recv().await;
            let _ = theirs.recv().await;
        });
        let _ = ours.send_all(vec![1; 64 << 20]).await;
        let _ = receiving.await;
    }));
    detach(Box::pin(async move {
        if let Ok(mut stream) = B::connect(&[address.into()], &CONNECT).await {
            let _ = stream.recv().await;
        }
    }));
    detach(Box::pin(async move {
        let patient = ConnectOptions {
            deadline: Duration::MAX,
            ..CONNECT
        };
        let _ = B::connect(&[nobody.into()], &patient).await;
        pending::<()>().await;
    }));
    detach(Box::pin(time::sleep(Duration::from_secs(1_000))));
    detach(Box::pin(time::sleep(Duration::MAX)));
    // A different moment every time: a turn is 256 polls.
    for _ in 0..moment {
        time::yield_now().await;
    }
    if panics {
        detach(Box::pin(async { panic!("{EXPECTED}") }));
        time::yield_now().await;
    }
}

/// A listener with a full backlog: connecting to it takes for ever.
struct Deaf {
    address: SocketAddr,
    _listener: Socket,
    _filling: Vec<TcpStream>,
}

impl Deaf {
    /// Connections after which a backlog that does not fill is believed not to.
    const MOST: usize = 64;

    fn new() -> anyhow::Result<Self> {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        listener.bind(&client::anywhere().into())?;
        listener.listen(0)?;
        let address = listener.local_addr()?.as_socket();
        let address = address.context("an IPv4 listener has such an address")?;
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok();
        Ok(Self {
            address,
            _filling: (0..Self::MOST).map_while(connect).collect(),
            _listener: listener,
        })
    }
}
