//! An engine that the system refuses, at once or half-way: `auto` takes another and says why, a name never does.
//!
//! Each test runs in a process of its own, because what was refused to a process stays refused.

use crate::{
    client::{LONG, connecting},
    engine::{self, again, assert_clean, echo, plan, skip},
    watchdog,
};
use shardloop::{
    Accept, Backend, EngineOptions, Error, Kind, LaunchError, MonoioLegacy, MonoioUring, RecvHalf,
    Report, SendHalf, Service, Shard, start,
};
use shardloop_platform::uring::{Refusal, refuse};
use std::{path::PathBuf, process::Command};

/// Echoes, and proves by a connection to itself that it does.
#[derive(Clone)]
struct Echo;

impl Service for Echo {
    async fn run<B: Backend>(self, shard: Shard<B>) -> Result<(), Error> {
        if shard.index() > 0 {
            echo(shard).await;
            return Ok(());
        }
        let serving = shard.spawn(echo(shard.clone()));
        let address = shard.address(0).clone();
        let options = connecting(LONG);
        let mut stream = B::connect(&[address], &options).await?;
        stream.send_all(&b"?"[..]).await.0?;
        assert_eq!(&*stream.recv().await?, b"?");
        drop(stream);
        shard.stopper().drain();
        serving.await?;
        Ok(())
    }
}

fn run(kind: Kind) -> Result<Report<Result<(), Error>>, LaunchError> {
    let report = start(kind, plan(3, Accept::Handoff), Echo)?.wait();
    assert_clean(&report);
    for shard in &report.shards {
        let result = shard.result.as_ref().expect("no panic");
        assert!(result.is_ok(), "{result:?}");
    }
    Ok(report)
}

/// `auto` serves on the other engine and says why; the engine's name leads to an error of one line. Both give this reason.
fn falls_back(reason: &str) {
    let report = run(Kind::Auto).expect("another engine does");
    assert_eq!(report.engine, MonoioLegacy::NAME);
    let remarks = report.capabilities.remarks.join("; ");
    assert!(
        remarks.contains(MonoioUring::NAME) && remarks.contains(reason),
        "{remarks}"
    );
    let error = run(Kind::MonoioUring)
        .expect_err("it is refused")
        .to_string();
    assert!(
        error.contains(MonoioUring::NAME) && error.contains(reason) && !error.contains('\n'),
        "{error}"
    );
}

/// One test per body, watched; skipped where there is no io_uring anyway.
macro_rules! refused {
    ($($name:ident: $body:ident),+ $(,)?) => {$(
        #[test]
        fn $name() {
            let name = concat!(module_path!(), "::", stringify!($name));
            match MonoioUring::probe(&EngineOptions::default()) {
                Ok(_) => watchdog::watch(name, $body),
                Err(unavailable) => skip(MonoioUring::NAME, &unavailable.reason),
            }
        }
    )+};
}

refused!(
    at_set_up: set_up_is_refused,
    at_submission: submission_is_refused,
    on_the_last_shard: one_ring_too_many,
);

fn set_up_is_refused() {
    engine::alone(None, || match refuse(Refusal::Setup) {
        Ok(()) => falls_back("seccomp"),
        Err(reason) => skip(MonoioUring::NAME, &reason.to_string()),
    });
}

fn submission_is_refused() {
    engine::alone(None, || match refuse(Refusal::Enter) {
        Ok(()) => falls_back("io_uring_enter"),
        Err(reason) => skip(MonoioUring::NAME, &reason.to_string()),
    });
}

fn one_ring_too_many() {
    let Some(mut command) = again(None) else {
        return falls_back("RLIMIT_MEMLOCK");
    };
    let shim = preload();
    // The probe makes a ring, and each shard two; so there is none for the last of them.
    command.env("LD_PRELOAD", &shim).env("FAIL_FROM", "6");
    let output = command
        .output()
        .expect("the test binary can be started again");
    let _ = std::fs::remove_file(shim);
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("1 passed"), "{text}{errors}");
    assert!(!text.contains("skip("), "{text}");
}

/// The library that refuses rings, compiled.
fn preload() -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/refused_setups.c");
    let name = format!("shardloop-refused-{}.so", std::process::id());
    let library = std::env::temp_dir().join(name);
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(source)
        .status()
        .expect("there is a C compiler");
    assert!(compiled.success());
    library
}
