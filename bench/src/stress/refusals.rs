//! 6: io_uring refused or starved. An engine asked for by name serves or says in one line why not; `auto` serves, and names what it passed
//! over. `kernel.io_uring_disabled` of the machine is never touched.

use super::{
    Engine,
    service::{self, CONNECT},
    trial::{Trial, say},
};
use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use shardloop::{
    Accept, Backend, EngineOptions, Error, Kind, RecvHalf, SendHalf, Service, Shard, start,
};
use shardloop_platform::uring::{Refusal, refuse};
use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

/// Compiled and loaded before the program: from some call of io_uring_setup(2) on there is no memory.
const SHIM: &str = include_str!("../../../runtime/tests/it/refused_setups.c");
/// Shards of the plan; the process that may lock 64 KiB starts more.
const SHARDS: usize = 8;
const SHARDS_OF_16: usize = 16;

/// What became of an engine under a refusal.
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    /// The engine that served, when this one was asked for by name; or why none did.
    named: Result<String, String>,
    /// The same with `auto`, and its remarks.
    auto: Result<(String, String), String>,
    /// Why nothing could be refused here, if that is so; then all must serve.
    untried: Option<String>,
    /// Exit code and standard error of `bench serve --driver NAME`; none where it served.
    serve: Option<(i32, String)>,
}

pub(crate) fn run<B: Engine>(trial: &mut Trial) -> anyhow::Result<()> {
    let facility = B::probe(&EngineOptions::default())?.facility;
    let needs_ring = facility == "io_uring";
    trial.note("facility", facility);
    for what in ["setup", "enter"] {
        let found = ask(trial, what, &[])?;
        judge(trial, what, &found, needs_ring, "seccomp");
    }
    let memlock = [
        "sh",
        "-c",
        "ulimit -l 64; ulimit -n 4096; exec \"$0\" \"$@\"",
    ];
    let found = ask(trial, "memlock", &memlock)?;
    // Since Linux 5.12 a ring need not be locked memory, so it may serve.
    judge(
        trial,
        "memlock",
        &found,
        needs_ring && found.named.is_err(),
        "RLIMIT_MEMLOCK",
    );
    match preload() {
        Ok(library) => {
            let load = format!("LD_PRELOAD={}", library.display());
            // The probe makes a ring, and each shard two; so there is none for the last of them.
            for what in ["last-shard", "last-shard-of-auto"] {
                let found = ask(trial, what, &["env", &load, "FAIL_FROM=15"]);
                let found = found.inspect_err(|_| drop(std::fs::remove_file(&library)))?;
                judge(trial, what, &found, needs_ring, "RLIMIT_MEMLOCK");
            }
            std::fs::remove_file(library)?;
        }
        Err(reason) => trial.note("last-shard", format!("not tried: {reason:#}")),
    }
    Ok(())
}

fn judge(trial: &mut Trial, what: &str, found: &Found, refused: bool, cause: &str) {
    let name = trial.kind.name();
    if let Some(reason) = &found.untried {
        trial.note(what, format!("not tried: {reason}"));
    }
    let refused = refused && found.untried.is_none();
    match &found.auto {
        Ok((engine, remarks)) => {
            trial.note(&format!("{what}_auto"), engine.clone());
            // What it does not try it has nothing to say about.
            let told = !refused
                || !Kind::AUTO.contains(&trial.kind)
                || (engine != name && remarks.contains(name));
            trial.require(told, || {
                format!("{what}: auto took {engine} and did not say why not {name}: {remarks}")
            });
        }
        Err(error) => trial.require(false, || format!("{what}: auto did not serve: {error}")),
    }
    match &found.named {
        Ok(engine) => {
            trial.note(&format!("{what}_named"), format!("served by {engine}"));
            trial.require(engine == name && !refused, || {
                format!("{what}: {name} was asked for and {engine} served")
            });
        }
        Err(error) => {
            trial.note(&format!("{what}_named"), format!("refused: {error}"));
            let known = error.contains(name) && error.contains(cause) && !error.contains('\n');
            trial.require(refused && known, || {
                format!("{what}: the refusal does not name engine and cause in a line: {error}")
            });
        }
    }
    if let Some((code, stderr)) = &found.serve {
        let lines = stderr.lines().count();
        trial.note(&format!("{what}_serve_exit"), *code);
        trial.require(*code == 2 && lines == 1 && stderr.contains(name), || {
            format!("{what}: bench serve ended with {code} and {lines} lines: {stderr}")
        });
    }
}

/// Tries it in a process of its own: what was refused to a process stays refused.
fn ask(trial: &Trial, what: &str, before: &[&str]) -> anyhow::Result<Found> {
    trial.say(what);
    let mut child = trial.part(what, before)?;
    let line = service::line(&mut child, Duration::from_secs(60))?;
    child.end(Duration::from_secs(5));
    serde_json::from_str(&line).with_context(|| format!("{what} said {line}"))
}

/// In that process: refuses, and finds out what becomes of it.
pub(crate) fn part(kind: Kind, what: &str) -> anyhow::Result<()> {
    let mut shards = SHARDS;
    let mut untried = None;
    match what {
        "setup" => untried = refuse(Refusal::Setup).err(),
        "enter" => untried = refuse(Refusal::Enter).err(),
        "memlock" => shards = SHARDS_OF_16,
        "last-shard" | "last-shard-of-auto" => {}
        _ => anyhow::bail!("nothing is refused under the name {what}"),
    }
    // Once a ring was refused all later ones are, so whoever comes first is refused half-way.
    let (named, auto) = if what == "last-shard-of-auto" {
        let auto = serve_once(Kind::Auto, shards);
        (serve_once(kind, shards), auto)
    } else {
        let named = serve_once(kind, shards);
        (named, serve_once(Kind::Auto, shards))
    };
    let named = named.map(|(engine, _)| engine);
    let serve = named.is_err().then(|| bench_serve(kind)).transpose()?;
    let untried = untried.map(|reason| reason.to_string());
    let found = Found {
        named,
        auto,
        untried,
        serve,
    };
    say(&serde_json::to_string(&found)?);
    Ok(())
}

/// Starts a plan and serves one connection: which engine did, and its remarks.
fn serve_once(kind: Kind, shards: usize) -> Result<(String, String), String> {
    let plan = service::plan(shards, Accept::Handoff);
    let report = start(kind, plan, Once)
        .map_err(|error| error.to_string())?
        .wait();
    let failed = |shard: &shardloop::ShardReport<Result<(), Error>>| match &shard.result {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.to_string()),
        Err(error) => Some(error.to_string()),
    };
    match report.shards.iter().find_map(failed) {
        Some(error) => Err(format!("it started and did not serve: {error}")),
        None => Ok((
            report.engine.to_owned(),
            report.capabilities.remarks.join("; "),
        )),
    }
}

/// The exit code and the complaint of a server that must have this engine.
fn bench_serve(kind: Kind) -> anyhow::Result<(i32, String)> {
    let arguments = [
        "serve",
        "--protocol",
        "tcp",
        "--shards",
        "1",
        "--control",
        "--driver",
    ];
    let mut command = Command::new(std::env::current_exe()?);
    // Its first ring fails: the one that is counted here is its probe.
    command
        .args(arguments)
        .arg(kind.name())
        .env("FAIL_FROM", "1");
    // If it serves all the same, the end of its input ends it.
    let output = command.stdin(Stdio::null()).output()?;
    let code = output.status.code().unwrap_or(-1);
    Ok((
        code,
        String::from_utf8_lossy(&output.stderr)
            .trim_end()
            .to_owned(),
    ))
}

/// Echoes, and proves by a connection to itself that it does.
#[derive(Clone)]
struct Once;

impl Service for Once {
    async fn run<B: Backend>(self, shard: Shard<B>) -> Result<(), Error> {
        let mut incoming = shard.incoming(0);
        if shard.index() > 0 {
            while let Some((stream, _)) = incoming.next().await {
                shard.spawn(service::echo_stream(stream)).detach();
            }
            return Ok(());
        }
        let accepting = shard.spawn(async move {
            while let Some((stream, _)) = incoming.next().await {
                shardloop::spawn(service::echo_stream(stream)).detach();
            }
        });
        for _ in 0..shard.count() {
            let mut stream = B::connect(&[shard.address(0).clone()], &CONNECT).await?;
            stream.send_all(&b"?"[..]).await.0?;
            if &*stream.recv().await? != b"?" {
                return Err("a wrong echo".into());
            }
        }
        shard.stopper().drain();
        accepting.await?;
        Ok(())
    }
}

/// The library that refuses rings, compiled.
fn preload() -> anyhow::Result<PathBuf> {
    let stem = format!("shardloop-stress-{}", std::process::id());
    let source = std::env::temp_dir().join(format!("{stem}.c"));
    let library = std::env::temp_dir().join(format!("{stem}.so"));
    std::fs::write(&source, SHIM)?;
    let mut command = Command::new("cc");
    command
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source);
    let compiled = command.stdin(Stdio::null()).output();
    std::fs::remove_file(&source)?;
    let compiled = compiled.context("there is no C compiler")?;
    ensure!(compiled.status.success(), "the C compiler refused");
    Ok(library)
}
