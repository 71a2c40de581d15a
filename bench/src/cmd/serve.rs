//! `bench serve`: one server, for as long as it is wanted.

use crate::{
    case::{NULL_DRIVER, POOL_DRIVER},
    contract::{Buffers, Done, Mark, Model, Protocol, Ready, ShardCount, UdpBuffers},
    serve::{
        handler::Job,
        null::{NullError, NullServer, NullStopper},
        pool::{Pool, PoolError, PoolStopper},
        shards::{self, Setup, accepts, default_accept},
        speech::Speech,
    },
    udp_socket::{self, REQUESTED},
};
use clap::Args;
use serde::Serialize;
use shardloop::{Accept, Error, Kind, LaunchError, Placement, Running, Stopper, UnknownKind};
use shardloop_platform::{
    affinity::{Allowed, pin_current_thread},
    calls::CallCounter,
    signal::Signals,
    socket::raise_descriptor_limit,
    usage::{CpuClock, memory},
};
use std::{
    fs,
    io::{self, BufRead, Read, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    thread,
    time::Duration,
};

/// Most server threads.
pub(crate) const MAX_THREADS: usize = 64;
/// Longest spinning.
pub(crate) const MAX_SPIN_US: u64 = 1_000_000;
/// Most rounds of handler work per message.
pub(crate) const MAX_WORK: u64 = 10_000_000;

/// Serve one protocol until SIGINT or SIGTERM.
///
/// The first signal ends it gently: what is under way is finished, for at most 10 s. The second ends it at once.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServeArgs {
    /// What to speak.
    #[arg(short, long, value_enum)]
    pub(crate) protocol: Protocol,
    /// Serve on as many shards: one engine per thread.
    #[arg(long, value_name = "N", conflicts_with = "pool")]
    pub(crate) shards: Option<usize>,
    /// Serve on a shared pool of as many threads (tokio).
    #[arg(long, value_name = "N")]
    pub(crate) pool: Option<usize>,
    /// Send bytes back as they come, on one thread and without the library: the server of the floor, which shows the load
    /// generator's own limit. Its `messages` are receives.
    #[arg(long, conflicts_with_all = ["shards", "pool"])]
    pub(crate) null: bool,
    /// Engine of the shards: auto, or a name as `bench list` shows it. A pool has its own.
    #[arg(long, default_value = "auto", value_name = "NAME")]
    pub(crate) driver: String,
    /// How connections or datagrams are spread over shards: reuseport, handoff, handoff-least, shared [default: handoff; reuseport for
    /// udp, where the kernel spreads datagrams].
    #[arg(long, value_name = "NAME")]
    pub(crate) accept: Option<Accept>,
    /// How long a shard without work looks for more before it parks, in microseconds, at most 1000000.
    #[arg(long, default_value_t = 0, value_name = "US", value_parser = clap::value_parser!(u64).range(..=MAX_SPIN_US))]
    pub(crate) spin_us: u64,
    /// SO_SNDBUF to ask for, in bytes (udp).
    #[arg(long, default_value_t = REQUESTED.send_bytes, value_name = "BYTES")]
    pub(crate) sndbuf: usize,
    /// SO_RCVBUF to ask for, in bytes (udp).
    #[arg(long, default_value_t = REQUESTED.receive_bytes, value_name = "BYTES")]
    pub(crate) rcvbuf: usize,
    /// A folder with ca.pem, cert.pem and key.pem, for what is encrypted; without it certificates for this machine's loopback
    /// addresses are made, in memory.
    #[arg(long, value_name = "DIR")]
    pub(crate) certs: Option<PathBuf>,
    /// Write the certificate that a client has to trust, in PEM, for `bench load --ca` and others.
    #[arg(long, value_name = "FILE")]
    pub(crate) write_ca: Option<PathBuf>,
    /// Where to listen; port 0 lets the kernel pick one.
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    pub(crate) listen: SocketAddr,
    /// Rounds of handler work per message.
    #[arg(long, default_value_t = 0, value_name = "ROUNDS")]
    pub(crate) work: u64,
    /// Whether threads are pinned to CPUs; auto pins where there are four or more.
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) pin: Pin,
    /// Count system calls (needs permission to trace them).
    #[arg(long)]
    pub(crate) count_calls: bool,
    /// Answer each line `mark` on standard input with the counters of that moment; its end ends the server.
    #[arg(long)]
    pub(crate) control: bool,
}

/// Whether server threads are pinned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pin {
    /// If there are at least four CPUs: on fewer, the load generator needs room.
    Auto,
    /// Leave them to the scheduler.
    None,
    /// One CPU after the other, physical cores first.
    Spread,
}

/// Why there is no server.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The exit code.
    pub(crate) code: u8,
    /// What happened, why it matters, what to do.
    pub(crate) text: String,
}

impl Refused {
    fn usage(text: String) -> Self {
        Self { code: 2, text }
    }
}

/// Runs the server to its end.
pub(crate) fn run(args: &ServeArgs) -> ExitCode {
    match serve(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(refused) => {
            eprintln!("error: {}", refused.text);
            ExitCode::from(refused.code)
        }
    }
}

fn serve(args: &ServeArgs) -> Result<(), Refused> {
    let Shape {
        model,
        threads,
        driver,
        accept,
    } = Shape::of(args)?;
    warn_if_oversubscribed(threads);
    let environment = |error: io::Error| Refused {
        code: 4,
        text: format!("the process could not be set up: {error}"),
    };
    // Both before any thread starts: those that come after inherit them.
    let signals = Signals::block().map_err(environment)?;
    let calls = args
        .count_calls
        .then(|| CallCounter::open().map_err(|reason| reason.to_string()));
    // With the limit as it is there may be room for fewer connections; whoever meets it is told then.
    let _ = raise_descriptor_limit();
    let speech = Speech::new(args.protocol, args.certs.as_deref()).map_err(|mute| Refused {
        code: 4,
        text: mute.to_string(),
    })?;
    write_ca(args, &speech)?;
    let job = Arc::new(Job::new(speech, args.work, threads));
    let server = match model {
        Model::Shards => {
            let setup = setup(args, driver, threads, accept);
            Server::shards(&job, setup)?
        }
        Model::Pool => Server::pool(args, &job, threads)?,
        Model::Null => Server::null(args, &job)?,
    };
    let ca_pem = job.speech.ca_pem.clone();
    let meter = Arc::new(Meter { job, calls });
    print_line(&server.ready(args, model, threads, accept, ca_pem));
    watch(signals, server.stopper()).map_err(environment)?;
    if args.control {
        control(meter.clone(), server.stopper()).map_err(environment)?;
    }
    let left_open = server.wait();
    print_line(&meter.done(model, left_open));
    Ok(())
}

fn write_ca(args: &ServeArgs, speech: &Speech) -> Result<(), Refused> {
    let Some(path) = &args.write_ca else {
        return Ok(());
    };
    let Some(pem) = &speech.ca_pem else {
        let name = args.protocol.name();
        return Err(Refused::usage(format!(
            "--write-ca: {name} is not encrypted, so there is no certificate to trust: leave it out"
        )));
    };
    fs::write(path, pem).map_err(|error| Refused {
        code: 4,
        text: format!("{} cannot be written: {error}", path.display()),
    })
}

/// What kind of server was asked for.
struct Shape {
    model: Model,
    threads: usize,
    driver: Kind,
    accept: Accept,
}

impl Shape {
    fn of(args: &ServeArgs) -> Result<Self, Refused> {
        let driver = driver(&args.driver)?;
        let (model, threads, name) = match (args.shards, args.pool) {
            _ if args.null => (Model::Null, 1, "--null"),
            (Some(shards), _) => (Model::Shards, shards, "--shards"),
            (None, Some(pool)) => (Model::Pool, pool, "--pool"),
            (None, None) => {
                return Err(Refused::usage(
                    "neither --shards N nor --pool N was given, so it is not known what shall serve: give one of them"
                        .to_owned(),
                ));
            }
        };
        if model != Model::Shards {
            refuse_flags_of_shards(args, model, driver)?;
        }
        let accept = accept(args)?;
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(Refused::usage(format!(
                "{name} {threads} is out of range: a server has 1 to {MAX_THREADS} threads"
            )));
        }
        if args.work > MAX_WORK {
            let work = args.work;
            return Err(Refused::usage(format!(
                "--work {work} is out of range: at most {MAX_WORK} rounds per message"
            )));
        }
        if args.null && !args.protocol.is_mirrored() {
            let name = args.protocol.name();
            return Err(Refused::usage(format!(
                "--null sends bytes back as they come, which is no answer in {name}: take tcp, echo or udp"
            )));
        }
        if args.certs.is_some() && !args.protocol.is_encrypted() {
            let name = args.protocol.name();
            return Err(Refused::usage(format!(
                "--certs: {name} is not encrypted: leave it out, or take tls, wss or https"
            )));
        }
        if args.null && args.work > 0 {
            return Err(Refused::usage(
                "--null does no work for a message, it knows none: leave out --work".to_owned(),
            ));
        }
        Ok(Self {
            model,
            threads,
            driver,
            accept,
        })
    }
}

/// The engine of that name, unless no measurement can be made on it.
fn driver(name: &str) -> Result<Kind, Refused> {
    let kind: Kind = name
        .parse()
        .map_err(|unknown: UnknownKind| Refused::usage(unknown.to_string()))?;
    if kind == Kind::Sim {
        return Err(Refused::usage(format!(
            "--driver {name} simulates time and network, so no client reaches it and nothing is to be measured: take another"
        )));
    }
    Ok(kind)
}

/// Flags that only shards have. One that is ignored would make a figure say something it does not.
fn refuse_flags_of_shards(args: &ServeArgs, model: Model, driver: Kind) -> Result<(), Refused> {
    let whose = if model == Model::Pool {
        "a pool"
    } else {
        "the null server"
    };
    let refused = |has: &str, flag: String| {
        Err(Refused::usage(format!(
            "{whose} has {has}, {flag} would change nothing: leave it out, or use --shards"
        )))
    };
    if driver != Kind::Auto {
        return refused("its own engine", format!("--driver {driver}"));
    }
    if let Some(accept) = args.accept {
        return refused(
            "one listener or socket for all",
            format!("--accept {accept}"),
        );
    }
    if args.spin_us > 0 {
        let spin = args.spin_us;
        return refused("its own way of waiting", format!("--spin-us {spin}"));
    }
    Ok(())
}

/// The strategy asked for, if the protocol has it.
fn accept(args: &ServeArgs) -> Result<Accept, Refused> {
    let accept = args.accept.unwrap_or_else(|| default_accept(args.protocol));
    let known = accepts(args.protocol);
    if known.contains(&accept) {
        return Ok(accept);
    }
    let names: Vec<&str> = known.iter().map(|accept| accept.name()).collect();
    Err(Refused::usage(format!(
        "{} has no connections, so --accept {accept} would be another name for handoff: choose from {}",
        args.protocol.name(),
        names.join(", ")
    )))
}

fn setup(args: &ServeArgs, driver: Kind, shards: usize, accept: Accept) -> Setup {
    Setup {
        driver,
        shards,
        placement: placement(args.pin),
        accept,
        spin: Duration::from_micros(args.spin_us),
        listen: args.listen,
        buffers: args.buffers(),
    }
}

impl ServeArgs {
    fn buffers(&self) -> Buffers {
        Buffers {
            send_bytes: self.sndbuf,
            receive_bytes: self.rcvbuf,
        }
    }
}

fn warn_if_oversubscribed(threads: usize) {
    let usable = Allowed::read().usable();
    if threads > usable {
        eprintln!(
            "warning: {threads} server threads on {usable} usable CPUs: they take turns, so this measures the scheduler too; use at most {usable}"
        );
    }
}

/// The server that runs.
enum Server {
    Shards(Running<Result<(), Error>>),
    Pool {
        pool: Pool,
        cpus: Vec<usize>,
    },
    Null {
        server: NullServer,
        cpu: Option<usize>,
    },
}

impl Server {
    fn shards(job: &Arc<Job>, setup: Setup) -> Result<Self, Refused> {
        let running = shards::start(job.clone(), setup);
        running.map(Self::Shards).map_err(|error| Refused {
            code: match error {
                LaunchError::Unavailable(_) | LaunchError::Shards(_) => 2,
                _ => 4,
            },
            text: error.to_string(),
        })
    }

    fn pool(args: &ServeArgs, job: &Arc<Job>, threads: usize) -> Result<Self, Refused> {
        let cpus = pinned_cpus(args.pin, threads);
        let pool = Pool::start(
            job.clone(),
            threads,
            cpus.clone(),
            args.listen,
            args.buffers(),
        )
        .map_err(|error| Refused {
            code: 4,
            text: match error {
                PoolError::Bind(error) => error.to_string(),
                PoolError::Runtime(error) => {
                    format!("the pool could not be started: {error}")
                }
            },
        })?;
        Ok(Self::Pool { pool, cpus })
    }

    /// It serves on this thread, which is the one to be pinned.
    fn null(args: &ServeArgs, job: &Arc<Job>) -> Result<Self, Refused> {
        let server =
            NullServer::start(job.clone(), args.listen, args.buffers()).map_err(|error| {
                Refused {
                    code: 4,
                    text: match error {
                        NullError::Bind(error) => error.to_string(),
                        NullError::Poll(error) => {
                            format!("the null server could not be started: {error}")
                        }
                    },
                }
            })?;
        let first = pinned_cpus(args.pin, 1).first().copied();
        let cpu = first.and_then(|cpu| pin_current_thread(cpu).ok());
        Ok(Self::Null { server, cpu })
    }

    fn ready(
        &self,
        args: &ServeArgs,
        model: Model,
        threads: usize,
        accept: Accept,
        ca_pem: Option<String>,
    ) -> Ready {
        let (driver, remarks) = match self {
            Self::Shards(running) => (running.engine(), running.capabilities().remarks.clone()),
            Self::Pool { .. } => (POOL_DRIVER, Vec::new()),
            Self::Null { .. } => (NULL_DRIVER, Vec::new()),
        };
        Ready {
            ready: true,
            address: self.address(),
            pid: std::process::id(),
            protocol: args.protocol,
            model,
            threads,
            driver: driver.to_owned(),
            work: args.work,
            remarks,
            placement: self.placement(threads),
            accept: (model == Model::Shards).then(|| accept.name().to_owned()),
            spin_us: args.spin_us,
            ca_pem,
            udp_buffers: args.protocol.is_datagram().then(|| self.buffers(args)),
        }
    }

    fn buffers(&self, args: &ServeArgs) -> UdpBuffers {
        let requested = args.buffers();
        let mut buffers = UdpBuffers::requested(requested);
        buffers.add(match self {
            Self::Shards(_) => udp_socket::granted_beside(args.listen, requested),
            Self::Pool { pool, .. } => pool.granted,
            Self::Null { server, .. } => server.granted,
        });
        buffers
    }

    fn address(&self) -> SocketAddr {
        match self {
            Self::Shards(running) => match running.datagram_addresses() {
                [address, ..] => *address,
                [] => running.addresses()[0]
                    .inet()
                    .unwrap_or_else(|| unreachable!("it was asked to listen there")),
            },
            Self::Pool { pool, .. } => pool.address,
            Self::Null { server, .. } => server.address,
        }
    }

    /// CPU of each thread.
    fn placement(&self, threads: usize) -> Vec<Option<usize>> {
        match self {
            Self::Shards(running) => running.seats().iter().map(shardloop::Seat::cpu).collect(),
            Self::Pool { cpus, .. } => {
                let of = |worker: usize| cpus.get(worker % cpus.len().max(1)).copied();
                (0..threads).map(of).collect()
            }
            Self::Null { cpu, .. } => vec![*cpu],
        }
    }

    fn stopper(&self) -> AnyStopper {
        match self {
            Self::Shards(running) => AnyStopper::Shards(running.stopper()),
            Self::Pool { pool, .. } => AnyStopper::Pool(pool.stopper()),
            Self::Null { server, .. } => AnyStopper::Null(server.stopper()),
        }
    }

    /// Waits for its end; how much was still open then.
    fn wait(self) -> u64 {
        match self {
            Self::Shards(running) => running.wait().tasks_cut_off() as u64,
            Self::Pool { pool, .. } => pool.wait(),
            Self::Null { server, .. } => server.wait(),
        }
    }
}

fn placement(pin: Pin) -> Placement {
    match pin {
        Pin::Auto if Allowed::read().usable() < 4 => Placement::Unpinned,
        Pin::None => Placement::Unpinned,
        Pin::Auto | Pin::Spread => Placement::Spread,
    }
}

/// The CPUs of as many threads of a server without shards: those that as many shards would get. None where threads are not pinned.
fn pinned_cpus(pin: Pin, threads: usize) -> Vec<usize> {
    placement(pin).cpus(threads).into_iter().flatten().collect()
}

#[derive(Clone)]
enum AnyStopper {
    Shards(Stopper),
    Pool(PoolStopper),
    Null(NullStopper),
}

impl AnyStopper {
    fn drain(&self) {
        match self {
            Self::Shards(stopper) => stopper.drain(),
            Self::Pool(stopper) => stopper.drain(),
            Self::Null(stopper) => stopper.stop(),
        }
    }

    fn force(&self) {
        match self {
            Self::Shards(stopper) => stopper.force(),
            Self::Pool(stopper) => stopper.force(),
            Self::Null(stopper) => stopper.stop(),
        }
    }
}

/// The first signal drains, the second ends it at once.
fn watch(signals: Signals, stopper: AnyStopper) -> io::Result<()> {
    let wait = move || {
        if signals.wait().is_ok() {
            stopper.drain();
        }
        if signals.wait().is_ok() {
            stopper.force();
        }
    };
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)
        .map(drop)
}

/// Answers marks until standard input ends, which ends the server: whoever measured it is gone.
fn control(meter: Arc<Meter>, stopper: AnyStopper) -> io::Result<()> {
    let answer = move || {
        let mut input = io::stdin().lock();
        let mut marks = 0;
        while let Some(line) = next_line(&mut input) {
            if line == b"mark" {
                marks += 1;
                print_line(&meter.mark(marks));
            }
        }
        stopper.drain();
    };
    thread::Builder::new()
        .name("control".to_owned())
        .spawn(answer)
        .map(drop)
}

/// The next line, whatever bytes it is made of; of a long one only pieces, which are no marks. `None` at the end.
fn next_line(input: &mut impl BufRead) -> Option<Vec<u8>> {
    const LONGEST: u64 = 64;
    let mut line = Vec::new();
    let read = input.take(LONGEST).read_until(b'\n', &mut line).ok()?;
    line.pop_if(|last| *last == b'\n');
    (read > 0).then_some(line)
}

/// What is read off the process.
struct Meter {
    job: Arc<Job>,
    /// `None` unless counting was asked for; then the counter, or why there is none.
    calls: Option<Result<CallCounter, String>>,
}

impl Meter {
    fn mark(&self, mark: u64) -> Mark {
        let messages = self.job.lanes.messages();
        Mark {
            mark,
            messages,
            system_calls: self.system_calls(),
            cpu_ns: cpu_ns(),
        }
    }

    fn done(&self, model: Model, left_open: u64) -> Done {
        let lanes = self.job.lanes.per_lane();
        let total = lanes
            .iter()
            .fold(ShardCount::default(), |sum, lane| ShardCount {
                accepted: sum.accepted + lane.accepted,
                messages: sum.messages + lane.messages,
            });
        Done {
            done: true,
            accepted: total.accepted,
            messages: total.messages,
            per_shard: if model == Model::Shards {
                lanes
            } else {
                vec![total]
            },
            cpu_ns: cpu_ns(),
            rss_peak_bytes: memory(None).ok().and_then(|memory| memory.peak_bytes),
            system_calls: self.system_calls(),
            system_calls_not_counted: self
                .calls
                .as_ref()
                .and_then(|calls| calls.as_ref().err().cloned()),
            faults: self.job.faults(),
            left_open,
            udp: (self.job.speech.protocol.is_datagram()).then(|| self.job.datagrams.total()),
        }
    }

    fn system_calls(&self) -> Option<u64> {
        self.calls.as_ref()?.as_ref().ok()?.read().ok()
    }
}

fn cpu_ns() -> u64 {
    let used = CpuClock::this_process().read().unwrap_or_default();
    u64::try_from(used.as_nanos()).unwrap_or(u64::MAX)
}

/// One line, at once: a script waits for it. Nobody to read it is no reason to stop serving.
fn print_line(value: &impl Serialize) {
    let Ok(line) = serde_json::to_string(value) else {
        return;
    };
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
