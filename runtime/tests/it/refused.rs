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
use std::{
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicUsize, Ordering},
};

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

fn run(kind: Kind, shards: usize) -> Result<Report<Result<(), Error>>, LaunchError> {
    let report = start(kind, plan(shards, Accept::Handoff), Echo)?.wait();
    assert_clean(&report);
    for shard in &report.shards {
        let result = shard.result.as_ref().expect("no panic");
        assert!(result.is_ok(), "{result:?}");
    }
    Ok(report)
}

/// `auto` serves on the other engine and says why; the engine's name leads to an error of one line. Both give this reason.
fn falls_back(reason: &str) {
    let report = run(Kind::Auto, 3).expect("another engine does");
    assert_eq!(report.engine, MonoioLegacy::NAME);
    let remarks = report.capabilities.remarks.join("; ");
    assert!(
        remarks.contains(MonoioUring::NAME) && remarks.contains(reason),
        "{remarks}"
    );
    let error = run(Kind::MonoioUring, 3)
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
    // One for each test, which removes it.
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let name = format!("shardloop-refused-{}-{number}.so", std::process::id());
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

/// glommio panics or exits the process in places where io_uring is refused; here it is an error.
#[cfg(feature = "glommio")]
mod glommio {
    use super::{Refusal, again, engine, preload, refuse, run, skip, watchdog};
    use shardloop::{Backend, EngineOptions, Glommio, Kind};

    /// Rings that are made for one shard: by the probe one of ours, one of glommio's and three of its executor; then one of ours and
    /// three of the executor.
    const RINGS: u32 = 9;
    const FAIL_FROM: &str = "FAIL_FROM";

    fn test(name: &'static str, body: fn()) {
        // A process that counts rings must make none before.
        if std::env::var(FAIL_FROM).is_ok() {
            return watchdog::watch(name, body);
        }
        match Glommio::probe(&EngineOptions::default()) {
            Ok(_) => watchdog::watch(name, body),
            Err(unavailable) => skip(Glommio::NAME, &unavailable.reason),
        }
    }

    fn is_an_error(shards: usize, reason: &str) {
        let error = run(Kind::Glommio, shards).expect_err("it is refused");
        let error = error.to_string();
        let names = error.contains(Glommio::NAME) && error.contains(reason);
        assert!(names && !error.contains('\n'), "{error}");
    }

    fn refused(refusal: Refusal, reason: &str) {
        engine::alone(None, || match refuse(refusal) {
            Ok(()) => is_an_error(3, reason),
            Err(cause) => skip(Glommio::NAME, &cause.to_string()),
        });
    }

    #[test]
    fn at_set_up() {
        test(concat!(module_path!(), "::at_set_up"), || {
            refused(Refusal::Setup, "seccomp");
        });
    }

    #[test]
    fn at_submission() {
        test(concat!(module_path!(), "::at_submission"), || {
            refused(Refusal::Enter, "io_uring_enter");
        });
    }

    #[test]
    fn at_each_of_its_rings() {
        test(concat!(module_path!(), "::at_each_of_its_rings"), || {
            let Some(mut command) = again(None) else {
                return match std::env::var(FAIL_FROM).as_deref() {
                    Ok("10") => drop(run(Kind::Glommio, 1).expect("no ring is refused")),
                    _ => is_an_error(1, "RLIMIT_MEMLOCK"),
                };
            };
            let shim = preload();
            command.env("LD_PRELOAD", &shim);
            for from in 1..=RINGS + 1 {
                let from = from.to_string();
                let output = command.env(FAIL_FROM, &from).output();
                let output = output.expect("the test binary can be started again");
                let text = String::from_utf8_lossy(&output.stdout);
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(text.contains("1 passed"), "{from}: {text}{errors}");
            }
            // Errors only if the system has cleaned up already.
            let _ = std::fs::remove_file(shim);
        });
    }
}
