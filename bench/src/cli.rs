//! The command line: every flag, its default, and how flags become a matrix and a design.

use crate::case::Family;
use crate::cmd::{
    load::LoadArgs,
    serve::{MAX_SPIN_US, ServeArgs},
    stress::StressArgs,
};
use crate::contract::Protocol;
use crate::exit::Refusal;
use crate::factor;
use crate::host::{self, DriverInfo};
use crate::matrix::{Controls, Design, Matrix, Order};
use crate::repetition::{LossRule, Timing, Verify};
use crate::study::{JsonTarget, Output};
use clap::{Args, Parser, Subcommand, ValueEnum};
use shardloop::Accept;
use std::path::PathBuf;
use std::time::Duration;

const EXIT_CODES: &str = "\
Exit codes:
  0  everything asked for was measured and is valid
  1  at least one cell failed; the others are valid
  2  wrong usage, debug build, or a driver that is not available here; nothing ran
  4  the surroundings refused (folder not writable, port in use, nothing measurable); nothing ran
  6  the tool's check on itself failed; please report
  130, 143  interrupted by SIGINT, SIGTERM; the partial result is valid";

/// Thread-per-core shards against a shared pool, measured honestly.
///
/// Without a subcommand: `quick`, a comparison in under a minute.
#[derive(Debug, Parser)]
#[command(name = "bench", version, args_conflicts_with_subcommands = true, after_help = EXIT_CODES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) quick: QuickArgs,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Pool N, shards 1 and shards N of every protocol, in under a minute (the default)
    Quick(QuickArgs),
    /// Measure a matrix of your own
    Run(RunArgs),
    /// Show protocols, drivers, and the cells that `run` would measure with the same flags
    List(ListArgs),
    /// Run every server once for a moment and check every reply
    Test(TestArgs),
    /// What hurts users of such runtimes, at full length, on every engine
    Stress(StressArgs),
    /// Say whether this machine can measure honestly, and what to do about it; changes nothing
    Doctor(DoctorArgs),
    /// Serve until SIGINT or SIGTERM
    ///
    /// The first signal ends it gently: what is under way is finished, for at most 10 s. The second ends it at once.
    Serve(ServeArgs),
    /// Put load on a server and report
    Load(LoadArgs),
}

/// Flags of `quick`.
#[derive(Clone, Debug, Args)]
pub(crate) struct QuickArgs {
    /// Wall time to stay within; the window is fitted to it, between 120 ms and 1 s
    #[arg(long, value_name = "TIME", default_value = "54s", value_parser = factor::duration)]
    pub(crate) budget: Duration,
    /// Rounds; 6 is the fewest with a 95 % interval, 10 survive a disturbed one on each side
    #[arg(short = 'n', long, alias = "repetitions", default_value_t = 6, value_parser = clap::value_parser!(u32).range(3..=1000))]
    pub(crate) rounds: u32,
    /// Seed of the order; printed with the result
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Leave out the generator's floor: the load against a server that does nothing
    #[arg(long)]
    pub(crate) no_floor: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Flags of `run`.
#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) matrix: MatrixArgs,
    #[command(flatten)]
    pub(crate) design: DesignArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Show the plan, run nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Flags of `list`.
#[derive(Clone, Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) matrix: MatrixArgs,
    #[command(flatten)]
    pub(crate) design: DesignArgs,
}

/// Flags of `test`.
#[derive(Clone, Debug, Args)]
pub(crate) struct TestArgs {
    /// Use ::1 instead of 127.0.0.1
    #[arg(long)]
    pub(crate) ipv6: bool,
}

/// Flags of `doctor`.
#[derive(Clone, Debug, Args)]
pub(crate) struct DoctorArgs {
    /// One JSON object instead of lines
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is measured. Lists: 1,2,4 or 1..4 or 64..16384:x4; K is 1,024.
#[derive(Clone, Debug, Args)]
pub(crate) struct MatrixArgs {
    /// Protocols: tcp, echo, udp [default: all]
    #[arg(short, long, value_name = "LIST")]
    protocols: Option<String>,
    /// Numbers of shards, or none [default: 1,N with N = usable CPUs]
    #[arg(long, value_name = "LIST")]
    shards: Option<String>,
    /// Numbers of threads of the shared pool, or none [default: N]
    #[arg(long, value_name = "LIST")]
    pool: Option<String>,
    /// Drivers of the shards: auto, or names as `bench list` shows them
    #[arg(long, alias = "backend", value_name = "LIST", default_value = "auto")]
    driver: String,
    /// How connections or datagrams are spread over shards: reuseport, handoff, handoff-least, shared; udp has the first two
    /// [default: handoff; reuseport for udp]
    #[arg(long, value_name = "LIST")]
    accept: Option<String>,
    /// How long shards without work look for more before they park, in microseconds, 0..1000000
    #[arg(long, value_name = "LIST", default_value = "0")]
    spin_us: String,
    /// Bytes per message, 16..1M; udp 16..65507, over IPv6 65527
    #[arg(long, value_name = "LIST", default_value = "1024")]
    payload: String,
    /// Connections, 1..1024
    #[arg(
        short,
        long,
        alias = "connections",
        value_name = "LIST",
        default_value = "16"
    )]
    clients: String,
    /// Outstanding requests per connection, 1..1024
    #[arg(
        short,
        long,
        short_alias = 'm',
        value_name = "LIST",
        default_value = "8"
    )]
    window: String,
    /// Iterations of handler work per message, 0..10000000
    #[arg(long, value_name = "LIST", default_value = "0")]
    work: String,
    /// Use ::1 instead of 127.0.0.1
    #[arg(long)]
    ipv6: bool,
    /// The same in the older spelling
    #[arg(long, value_enum, hide = true, conflicts_with = "ipv6")]
    address_family: Option<AddressFamily>,
    /// Older spelling: `sharded` with --io-threads is --shards, `shared` is --pool
    #[arg(long, value_enum, hide = true, requires = "io_threads", conflicts_with_all = ["shards", "pool"])]
    io_model: Option<IoModel>,
    /// See --io-model
    #[arg(long, value_name = "LIST", hide = true, requires = "io_model")]
    io_threads: Option<String>,
    /// Measure the baseline twice to learn the noise floor (on unless --no-aa)
    #[arg(long, overrides_with = "no_aa")]
    aa: bool,
    /// Leave that control out
    #[arg(long)]
    no_aa: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum AddressFamily {
    Ipv4,
    Ipv6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IoModel {
    Shared,
    Sharded,
}

/// How it is measured.
#[derive(Clone, Debug, Args)]
pub(crate) struct DesignArgs {
    /// Measured window
    #[arg(short, long, alias = "seconds", value_name = "TIME", default_value = "1s", value_parser = window)]
    duration: Duration,
    /// Warm-up before it; not drained
    #[arg(long, value_name = "TIME", default_value = "250ms", value_parser = factor::duration)]
    warmup: Duration,
    /// Rounds, at least 3; 6, 10, 15 and 20 are the efficient choices
    #[arg(short = 'n', long, alias = "repetitions", default_value_t = 10, value_parser = clap::value_parser!(u32).range(3..=1000))]
    rounds: u32,
    /// Order of the cells within a round
    #[arg(long, value_enum, default_value_t = Order::Random)]
    order: Order,
    /// Seed of the order [default: from the time; printed with the result]
    #[arg(long)]
    seed: Option<u64>,
    /// How replies are checked
    #[arg(long, value_enum, default_value_t = Verify::Full)]
    verify: Verify,
    /// Over udp: a request without a reply for so long is lost; 1ms..5s
    #[arg(long, value_name = "TIME", default_value = "50ms", value_parser = factor::udp_timeout)]
    udp_timeout: Duration,
    /// Over udp: more than this percentage of requests lost fails the repetition
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, value_parser = factor::percent)]
    max_loss: f64,
    /// Smallest difference, in percent, that may be called one
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = factor::percent)]
    noise_threshold: f64,
    /// Wall time to stay within; shortens the window, and drops whole rounds at the end
    #[arg(long, value_name = "TIME", value_parser = factor::duration)]
    budget: Option<Duration>,
    /// Leave out the generator's floor: the load against a server that does nothing
    #[arg(long)]
    no_floor: bool,
}

/// Where results go.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Folder of this run [default: one of its own under target/bench]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write run.json here besides; `-`, or nothing, is standard output, which then carries nothing else
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<String>,
    /// Only the final table
    #[arg(short, long)]
    quiet: bool,
    /// No colours (as NO_COLOR)
    #[arg(long)]
    no_color: bool,
    /// No updating line
    #[arg(long)]
    no_progress: bool,
    /// What a load may take beyond warm-up and window before it is ended [default: 10s in quick, 45s in run]
    #[arg(long, value_name = "TIME", value_parser = factor::duration)]
    timeout_extra: Option<Duration>,
    /// Measure even with a debug build
    #[arg(long)]
    pub(crate) allow_debug: bool,
}

impl MatrixArgs {
    /// The matrix these flags describe.
    pub(crate) fn matrix(&self) -> Result<Matrix, Refusal> {
        let (shards, pools) = self.servers()?;
        let accepts = self.accept.as_deref().map_or(Ok(Vec::new()), accepts)?;
        let spins_us = factor::numbers("--spin-us", &self.spin_us, 0..=MAX_SPIN_US)?;
        if shards.is_empty() {
            refuse_settings_of_shards(&accepts, &spins_us)?;
        }
        Ok(Matrix {
            protocols: self
                .protocols
                .as_deref()
                .map_or(Ok(Protocol::ALL.to_vec()), protocols)?,
            shards,
            pools,
            drivers: drivers(&self.driver, &host::drivers())?,
            accepts,
            spins_us,
            payloads: factor::counts("--payload", &self.payload, 16..=1024 * 1024)?,
            clients: factor::counts("--clients", &self.clients, 1..=1024)?,
            windows: factor::counts("--window", &self.window, 1..=1024)?,
            works: factor::numbers("--work", &self.work, 0..=10_000_000)?,
            family: family(self.ipv6 || self.address_family == Some(AddressFamily::Ipv6)),
            controls: if self.aa || !self.no_aa {
                Controls::Each
            } else {
                Controls::None
            },
        })
    }

    /// Numbers of shards and of pool threads.
    fn servers(&self) -> Result<(Vec<usize>, Vec<usize>), Refusal> {
        let given = |flag: &str, list: &str| threads(flag, list);
        if let (Some(model), Some(list)) = (self.io_model, &self.io_threads) {
            let list = given("--io-threads", list)?;
            return Ok(if model == IoModel::Sharded {
                (list, Vec::new())
            } else {
                (Vec::new(), list)
            });
        }
        let cpus = host::usable_cpus().min(THREADS_MAX);
        let shards = self
            .shards
            .as_deref()
            .map_or(Ok(one_and(cpus)), |list| given("--shards", list))?;
        let pools = self
            .pool
            .as_deref()
            .map_or(Ok(vec![cpus]), |list| given("--pool", list))?;
        Ok((shards, pools))
    }
}

impl DesignArgs {
    /// The design of `run`.
    pub(crate) fn design(&self) -> Design {
        Design {
            name: "run",
            rounds: self.rounds,
            order: self.order,
            seed: self.seed.unwrap_or_else(some_seed),
            timing: Timing {
                warmup: self.warmup,
                window: self.duration,
            },
            verify: self.verify,
            losses: LossRule {
                timeout: self.udp_timeout,
                max_loss: self.max_loss / 100.0,
            },
            noise_threshold: self.noise_threshold / 100.0,
            budget: self.budget,
            floor: !self.no_floor,
        }
    }
}

impl OutputArgs {
    /// The same in the words of a study.
    pub(crate) fn output(&self, timeout_extra: Duration) -> Output {
        let json = self.json.as_deref().map(|target| {
            if target == "-" {
                JsonTarget::Stdout
            } else {
                JsonTarget::File(target.into())
            }
        });
        Output {
            out: self.out.clone(),
            json,
            quiet: self.quiet,
            no_color: self.no_color,
            no_progress: self.no_progress,
            timeout_extra: self.timeout_extra.unwrap_or(timeout_extra),
        }
    }
}

/// Most shards or pool threads.
pub(crate) const THREADS_MAX: usize = 64;

/// One shard, and as many as there are CPUs.
pub(crate) fn one_and(cpus: usize) -> Vec<usize> {
    if cpus <= 1 { vec![1] } else { vec![1, cpus] }
}

/// A seed short enough to be typed again.
pub(crate) fn some_seed() -> u64 {
    u64::from(fastrand::u32(1..1_000_000))
}

/// The family the flag asks for.
pub(crate) fn family(ipv6: bool) -> Family {
    if ipv6 { Family::Ipv6 } else { Family::Ipv4 }
}

fn threads(flag: &str, list: &str) -> Result<Vec<usize>, Refusal> {
    if list == "none" {
        Ok(Vec::new())
    } else {
        factor::counts(flag, list, 1..=THREADS_MAX as u64)
    }
}

fn protocols(list: &str) -> Result<Vec<Protocol>, Refusal> {
    let one = |name: &&str| {
        Protocol::ALL
            .into_iter()
            .find(|protocol| protocol.name() == *name)
            .ok_or_else(|| {
                let known = Protocol::ALL.map(Protocol::name).join(", ");
                Refusal::usage(
                    "E-PROTOCOL",
                    format!("this build has no protocol {name:?}."),
                    format!("choose from: {known}."),
                )
            })
    };
    factor::words("--protocols", list)?
        .iter()
        .map(one)
        .collect()
}

/// Strategies by name.
fn accepts(list: &str) -> Result<Vec<Accept>, Refusal> {
    let one = |name: &&str| {
        name.parse::<Accept>().map_err(|unknown| {
            let known = Accept::ALL.map(Accept::name).join(", ");
            Refusal::usage(
                "E-ACCEPT",
                format!("there is no accept strategy {:?}.", unknown.name),
                format!("choose from: {known}."),
            )
        })
    };
    factor::words("--accept", list)?.iter().map(one).collect()
}

/// Flags that only shards have, where there are only pools.
fn refuse_settings_of_shards(accepts: &[Accept], spins_us: &[u64]) -> Result<(), Refusal> {
    let refused = |flag: &str, why: &str| {
        Err(Refusal::usage(
            "E-POOL",
            format!("{flag} is for shards, and only pools are to be measured: {why}."),
            format!("leave {flag} out, or name --shards."),
        ))
    };
    if !accepts.is_empty() {
        return refused(
            "--accept",
            "a pool has one listener or socket for all its threads",
        );
    }
    if spins_us.iter().any(|spin| *spin > 0) {
        return refused("--spin-us", "a pool has its own way of waiting");
    }
    Ok(())
}

/// Names of drivers that work here; `auto` always does.
fn drivers(list: &str, known: &[DriverInfo]) -> Result<Vec<String>, Refusal> {
    let one = |name: &&str| match known.iter().find(|driver| driver.name == *name) {
        _ if *name == "auto" => Ok("auto".to_owned()),
        Some(DriverInfo {
            available: Ok(_), ..
        }) => Ok((*name).to_owned()),
        Some(DriverInfo {
            available: Err(reason),
            ..
        }) => Err(Refusal::usage(
            "E-DRIVER",
            format!("driver {name} is not available here: {reason}."),
            "choose auto, or another one from: bench list",
        )),
        None => {
            let names: Vec<&str> = known.iter().map(|driver| driver.name).collect();
            let remedy = format!("choose auto, {}.", names.join(", "));
            Err(Refusal::usage(
                "E-DRIVER",
                format!("this build has no driver {name:?}."),
                remedy,
            ))
        }
    };
    factor::words("--driver", list)?.iter().map(one).collect()
}

fn window(text: &str) -> Result<Duration, String> {
    let time = factor::duration(text)?;
    if time < Duration::from_millis(1) {
        Err("a window needs at least 1 ms".to_owned())
    } else {
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn run_args(args: &str) -> RunArgs {
        let cli = Cli::try_parse_from(["bench", "run"].into_iter().chain(args.split_whitespace()))
            .unwrap();
        match cli.command {
            Some(Command::Run(args)) => args,
            other => panic!("{other:?}"),
        }
    }

    fn matrix(args: &str) -> Matrix {
        run_args(args).matrix.matrix().unwrap()
    }

    fn refused(args: &str) -> &'static str {
        run_args(args).matrix.matrix().unwrap_err().id
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_subcommand_is_quick() {
        let cli = Cli::try_parse_from(["bench", "--seed", "7", "--json"]).unwrap();
        assert!(cli.command.is_none());
        assert_eq!(
            (cli.quick.seed, cli.quick.rounds, cli.quick.budget),
            (Some(7), 6, Duration::from_secs(54))
        );
        assert_eq!(
            cli.quick.output.output(Duration::ZERO).json,
            Some(JsonTarget::Stdout)
        );
    }

    #[test]
    fn lists_and_aliases() {
        let wanted = matrix(
            "--shards 1..3 --pool 2 --payload 64,1K --connections 4 -m 1,16 --work 0,10000 -p echo --ipv6 --no-aa",
        );
        assert_eq!(
            (wanted.shards, wanted.pools, wanted.payloads),
            (vec![1, 2, 3], vec![2], vec![64, 1024])
        );
        assert_eq!(
            (wanted.clients, wanted.windows, wanted.works),
            (vec![4], vec![1, 16], vec![0, 10_000])
        );
        assert_eq!(
            (wanted.protocols, wanted.family, wanted.controls),
            (vec![Protocol::Echo], Family::Ipv6, Controls::None)
        );
        let older =
            matrix("--io-model sharded --io-threads 1,2 --address-family ipv6 --backend auto");
        assert_eq!(
            (older.shards, older.pools, older.family),
            (vec![1, 2], vec![], Family::Ipv6)
        );
        assert_eq!(matrix("--pool none").pools, Vec::<usize>::new());
        let set = matrix("--accept handoff-least,shared --spin-us 0,50");
        assert_eq!(set.accepts, [Accept::HandoffLeast, Accept::Shared]);
        assert_eq!(set.spins_us, [0, 50]);
        let lossy = run_args("--udp-timeout 20ms --max-loss 1.5%")
            .design
            .design();
        assert_eq!(lossy.losses.timeout, Duration::from_millis(20));
        assert!((lossy.losses.max_loss - 0.015).abs() < 1e-12);
        assert!(matrix("--no-aa --aa").controls == Controls::Each);
        let design =
            run_args("--seconds 0.5 --repetitions 3 --noise-threshold 5% --budget 1m --seed 9")
                .design
                .design();
        assert_eq!(
            (design.timing.window, design.rounds, design.seed),
            (Duration::from_millis(500), 3, 9)
        );
        assert!(design.floor && !run_args("--no-floor").design.design().floor);
        assert!((design.noise_threshold - 0.05).abs() < 1e-12);
    }

    #[test]
    fn bad_values_are_refused_by_name() {
        assert_eq!(refused("--shards 0"), "E-RANGE");
        assert_eq!(refused("--pool 65"), "E-RANGE");
        assert_eq!(refused("--shards 2,2"), "E-DUPLICATE");
        assert_eq!(refused("--payload 15"), "E-RANGE");
        assert_eq!(refused("--payload 2M"), "E-RANGE");
        assert_eq!(refused("--clients 1025"), "E-RANGE");
        assert_eq!(refused("--window 0"), "E-RANGE");
        assert_eq!(refused("--protocols smtp"), "E-PROTOCOL");
        assert_eq!(refused("--driver poll"), "E-DRIVER");
        assert_eq!(refused("--accept random"), "E-ACCEPT");
        assert_eq!(refused("--accept shared,shared"), "E-DUPLICATE");
        assert_eq!(refused("--spin-us 1000001"), "E-RANGE");
        assert_eq!(refused("--shards none --accept shared"), "E-POOL");
        assert_eq!(refused("--shards none --spin-us 9"), "E-POOL");
        for args in [
            "--rounds 2",
            "--duration 0",
            "--warmup -1",
            "--order sorted",
            "--noise-threshold x",
            "--udp-timeout 6s",
            "--max-loss 101",
            "--io-model shared",
        ] {
            assert!(
                Cli::try_parse_from(["bench", "run"].into_iter().chain(args.split(' '))).is_err(),
                "{args}"
            );
        }
    }

    #[test]
    fn a_driver_that_does_not_work_here_is_refused_with_the_reason() {
        let known = [DriverInfo {
            name: "monoio-uring",
            engine: "monoio",
            available: Err("io_uring_setup: not permitted".to_owned()),
        }];
        let refusal = drivers("monoio-uring", &known).unwrap_err();
        assert_eq!((refusal.id, refusal.exit.code()), ("E-DRIVER", 2));
        assert!(refusal.what.contains("io_uring_setup: not permitted"));
        assert_eq!(drivers("auto", &known).unwrap(), ["auto"]);
    }
}
