//! The same test with many seeds, and which of them failed.

use std::{
    any::Any,
    env,
    fmt::Display,
    panic::{AssertUnwindSafe, catch_unwind},
};

/// The environment variable that has [`check`] run one seed only.
pub const SEED_VARIABLE: &str = "SHARDLOOP_SEED";

/// What the body of a [`check`] returns: nothing, or a result whose error is a failure.
pub trait Verdict {
    /// The failure, in words.
    fn failure(self) -> Option<String>;
}

impl Verdict for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: Display> Verdict for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

/// Runs `body` with each of `seeds`, in order, until one fails by an error or a panic. With the environment variable
/// `SHARDLOOP_SEED` set to a number, it runs that seed alone.
///
/// ```
/// use shardloop::sim;
///
/// sim::check(0..100, |seed| {
///     let outcome = sim::World::new(seed, sim::Link::loopback()).run();
///     outcome.verdict()
/// });
/// ```
///
/// # Panics
/// At the first seed that fails; the message names it and how to run it again. Also if the variable is no number.
pub fn check<V: Verdict>(seeds: impl IntoIterator<Item = u64>, body: impl FnMut(u64) -> V) {
    match env::var(SEED_VARIABLE) {
        Ok(text) => {
            let only = text.parse::<u64>();
            let seed = only.unwrap_or_else(|_| panic!("{SEED_VARIABLE}={text} is no number"));
            check_all([seed], body);
        }
        Err(_) => check_all(seeds, body),
    }
}

fn check_all<V: Verdict>(seeds: impl IntoIterator<Item = u64>, mut body: impl FnMut(u64) -> V) {
    for seed in seeds {
        // What the body left half done nobody sees: nothing is run after a failure.
        let failure = match catch_unwind(AssertUnwindSafe(|| body(seed))) {
            Ok(verdict) => verdict.failure(),
            Err(payload) => Some(text(&*payload)),
        };
        if let Some(failure) = failure {
            panic!(
                "seed {seed} fails: {failure}\nto run it alone: {SEED_VARIABLE}={seed} cargo test …"
            );
        }
    }
}

fn text(payload: &(dyn Any + Send)) -> String {
    let known = payload.downcast_ref::<String>().cloned();
    known
        .or_else(|| payload.downcast_ref::<&str>().map(ToString::to_string))
        .unwrap_or_else(|| "a panic whose payload is not text".to_owned())
}

#[cfg(test)]
mod tests {
    use super::{check_all, text};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn message(f: impl FnOnce()) -> String {
        text(&*catch_unwind(AssertUnwindSafe(f)).unwrap_err())
    }

    #[test]
    fn the_seed_that_fails_is_named_and_the_last_to_run() {
        let mut ran = Vec::new();
        let failed = message(|| {
            check_all(0..100, |seed| {
                ran.push(seed);
                if seed == 7 {
                    Err("a byte is missing")
                } else {
                    Ok(())
                }
            });
        });
        assert!(
            failed.contains("seed 7 fails: a byte is missing"),
            "{failed}"
        );
        assert!(failed.contains("SHARDLOOP_SEED=7"), "{failed}");
        assert_eq!(ran, (0..=7).collect::<Vec<_>>());
        let failed = message(|| check_all([3], |seed| assert_ne!(seed, 3)));
        assert!(failed.contains("seed 3 fails"), "{failed}");
        check_all(0..3, |_| ());
    }
}
