//! monoio as an engine: its io_uring driver, and its mio driver (epoll on Linux, kqueue on macOS).
//!
//! Both are the same code but for the set-up of the engine and whether sockets block: io_uring waits for a blocking socket in the
//! kernel and answers `EAGAIN` at once for a nonblocking one; on a readiness engine a blocking socket would freeze the shard.
//!
//! What of monoio 0.2.4 is avoided, and how: its tasks (one future only, `executor`), its accept (a cancelled one loses the
//! connection it got: `listener` waits for readiness and calls accept4 itself), its `into_raw_fd` (panics while a receive is in
//! flight: connections change shards before they are adopted), its connect (resolves names on the shard, one address only), its probe
//! (ignores the real flags).

mod datagram;
mod listener;
mod park;
mod stream;
#[cfg_attr(not(target_os = "linux"), path = "no_uring.rs")]
mod uring;

use super::{
    Backend, Bound, Capabilities, ConnectOptions, Ended, Unavailable, bound::kernel_sockets, dial,
};
use crate::{
    address::Address,
    context,
    executor::{self, Core, Turn},
    options::{EngineOptions, StreamOptions},
};
use datagram::MonoioDatagram;
use listener::MonoioListener;
use park::Park;
use std::{future::Future, io, net::UdpSocket, os::fd::OwnedFd, time::Instant};
use stream::MonoioStream;

/// monoio on io_uring (Linux 5.6; COOP_TASKRUN from 5.19 and SINGLE_ISSUER from 6.0, left out where the kernel refuses them).
#[derive(Debug)]
pub enum MonoioUring {}

/// monoio on mio: epoll on Linux, kqueue on macOS.
#[derive(Debug)]
pub enum MonoioLegacy {}

/// The parts of [`Backend`] that both have in common.
macro_rules! sockets {
    ($blocking:literal) => {
        kernel_sockets!();
        type Listener = MonoioListener;
        type Stream = MonoioStream;
        type Datagram = MonoioDatagram;

        fn adopt_listener(bound: Bound) -> io::Result<MonoioListener> {
            MonoioListener::adopt(bound)
        }

        fn adopt_stream(socket: OwnedFd, options: &StreamOptions) -> io::Result<MonoioStream> {
            MonoioStream::adopt(socket, options, $blocking)
        }

        fn adopt_datagram(bound: UdpSocket) -> io::Result<MonoioDatagram> {
            MonoioDatagram::adopt(bound)
        }

        async fn connect(
            addresses: &[Address],
            options: &ConnectOptions,
        ) -> io::Result<MonoioStream> {
            dial::first(addresses, options, async |address, options| {
                MonoioStream::connect(address, options, $blocking).await
            })
            .await
        }
    };
}

impl Backend for MonoioUring {
    const NAME: &'static str = "monoio-uring";
    sockets!(true);

    fn probe(options: &EngineOptions) -> Result<Capabilities, Unavailable> {
        uring::probe(options)
    }

    fn run<F>(options: &EngineOptions, main: impl FnOnce() -> F) -> io::Result<Ended<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        uring::run(options, main)
    }
}

impl Backend for MonoioLegacy {
    const NAME: &'static str = "monoio-legacy";
    sockets!(false);

    fn probe(_options: &EngineOptions) -> Result<Capabilities, Unavailable> {
        let facility = if cfg!(target_os = "linux") {
            "epoll"
        } else {
            "kqueue"
        };
        Ok(Capabilities {
            facility,
            ..Capabilities::default()
        })
    }

    fn run<F>(options: &EngineOptions, main: impl FnOnce() -> F) -> io::Result<Ended<F::Output>>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        context::must_be_free()?;
        let runtime = monoio::RuntimeBuilder::<monoio::LegacyDriver>::new()
            .with_entries(options.ring_entries.clamp(256, 32_768))
            .enable_timer()
            .build()?;
        run_on(runtime, false, options, main)
    }
}

/// Runs a shard on a built engine. monoio polls the future it blocks on without a real waker, so the turn is its one spawned task, and
/// what it blocks on is that task's handle.
fn run_on<D, F>(
    mut runtime: monoio::Runtime<D>,
    blocking: bool,
    options: &EngineOptions,
    main: impl FnOnce() -> F,
) -> io::Result<Ended<F::Output>>
where
    D: monoio::Driver,
    F: Future + 'static,
    F::Output: 'static,
{
    let (core, wakes) = Core::new(Instant::now, options)?;
    executor::enter(&core, || {
        runtime.block_on(async {
            let parker = Park::new(wakes, blocking)?;
            Ok(monoio::spawn(Turn::new(core.clone(), parker, main)).await)
        })
    })
}
