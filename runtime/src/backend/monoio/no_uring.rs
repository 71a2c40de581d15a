//! io_uring where there is none.

use super::{Backend, Capabilities, Ended, EngineOptions, MonoioUring, Unavailable};
use std::{future::Future, io};

pub(super) fn probe(_options: &EngineOptions) -> Result<Capabilities, Unavailable> {
    let reason =
        "io_uring exists on Linux only; take monoio-legacy, which is kqueue here".to_owned();
    Err(Unavailable {
        engine: MonoioUring::NAME,
        reason,
    })
}

pub(super) fn run<F>(
    options: &EngineOptions,
    _main: impl FnOnce() -> F,
) -> io::Result<Ended<F::Output>>
where
    F: Future + 'static,
    F::Output: 'static,
{
    match probe(options) {
        Ok(_) => Err(io::ErrorKind::Unsupported.into()),
        Err(unavailable) => Err(io::Error::new(io::ErrorKind::Unsupported, unavailable)),
    }
}
