//! The shared pool: tokio's multi-thread runtime over one listener or one socket, the baseline that shards are compared with.
//!
//! It serves through the same functions, over sockets with the same options, and is asked to end in the same way.

use super::{
    datagrams::serve_socket,
    handler::{Job, serve_connection},
    lanes::take_lane,
    pool_datagrams::{self, PoolDatagrams},
    pool_stream,
};
use crate::{
    contract::Buffers,
    udp_socket::{self, options},
};
use atomic_waker::AtomicWaker;
use shardloop::options::StreamOptions;
use shardloop_platform::{
    affinity::pin_current_thread,
    socket::{BindError, ListenOptions, bind_datagram, listen},
};
use shardloop_protocols::drive::Host;
use std::{
    collections::HashMap,
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};
use tokio::{
    net::{TcpListener, UdpSocket},
    runtime::{Builder, Runtime},
};

/// How long connections may take to finish what they have; the same as a plan's.
const DRAIN: Duration = Duration::from_secs(10);

/// A running pool.
#[derive(Debug)]
pub(crate) struct Pool {
    runtime: Runtime,
    job: Arc<Job>,
    door: Door,
    pub(crate) address: SocketAddr,
    /// Of the socket of datagrams.
    pub(crate) granted: Option<Buffers>,
    end: Arc<End>,
}

/// Where clients come in.
#[derive(Debug)]
enum Door {
    Acceptor(tokio::task::JoinHandle<()>),
    Datagrams(Arc<UdpSocket>),
}

/// Why a pool could not be started.
#[derive(Debug)]
pub(crate) enum PoolError {
    Bind(BindError),
    Runtime(io::Error),
}

impl Pool {
    /// Starts `threads` workers that do `job`; worker `i` is pinned to the `i`-th of `cpus`, if there are any.
    pub(crate) fn start(
        job: Arc<Job>,
        threads: usize,
        cpus: Vec<usize>,
        address: SocketAddr,
        buffers: Buffers,
    ) -> Result<Self, PoolError> {
        if job.speech.protocol.is_datagram() {
            return Self::start_datagrams(job, threads, cpus, address, buffers);
        }
        // The same as an endpoint of a plan has.
        let options = ListenOptions {
            address,
            backlog: 1024,
            reuse_port: false,
            only_v6: true,
        };
        let listener = listen(&options).map_err(PoolError::Bind)?;
        let address = listener.local_addr().map_err(PoolError::Runtime)?;
        let runtime = runtime(threads, cpus).map_err(PoolError::Runtime)?;
        let end = Arc::<End>::default();
        let listener = runtime.block_on(async { TcpListener::from_std(listener) });
        let listener = listener.map_err(PoolError::Runtime)?;
        let acceptor = runtime.spawn(accept(listener, job.clone(), end.clone()));
        Ok(Self {
            runtime,
            job,
            door: Door::Acceptor(acceptor),
            address,
            granted: None,
            end,
        })
    }

    /// One socket and a task per worker; [`pool_datagrams`] says why.
    fn start_datagrams(
        job: Arc<Job>,
        threads: usize,
        cpus: Vec<usize>,
        address: SocketAddr,
        buffers: Buffers,
    ) -> Result<Self, PoolError> {
        let socket = bind_datagram(&options(address, buffers)).map_err(PoolError::Bind)?;
        let address = socket.local_addr().map_err(PoolError::Runtime)?;
        let granted = udp_socket::granted(&socket);
        let runtime = runtime(threads, cpus).map_err(PoolError::Runtime)?;
        let socket = runtime.block_on(async { UdpSocket::from_std(socket) });
        let socket = Arc::new(socket.map_err(PoolError::Runtime)?);
        let end = Arc::<End>::default();
        for _ in 0..threads {
            let (job, host) = (job.clone(), end.enter());
            let socket = PoolDatagrams::new(socket.clone());
            runtime.spawn(async move { serve_socket(&job, socket, host).await });
        }
        Ok(Self {
            runtime,
            job,
            door: Door::Datagrams(socket),
            address,
            granted,
            end,
        })
    }

    pub(crate) fn stopper(&self) -> PoolStopper {
        PoolStopper(self.end.clone())
    }

    /// Waits until it was asked to end and all connections have, or the deadline for that has passed. Returns how many were left.
    pub(crate) fn wait(self) -> u64 {
        let Self {
            runtime,
            job,
            door,
            end,
            ..
        } = self;
        runtime.block_on(async {
            end.asked().await;
            if let Door::Acceptor(acceptor) = &door {
                acceptor.abort();
            }
            let gone = async {
                while !end.connections().is_empty() && !end.forced.load(Ordering::Acquire) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let _ = tokio::time::timeout(DRAIN, gone).await;
        });
        let left = end.connections().len() as u64;
        if let Door::Datagrams(socket) = &door {
            job.datagrams.dropped(pool_datagrams::dropped(socket));
        }
        runtime.shutdown_background();
        left
    }
}

fn runtime(threads: usize, cpus: Vec<usize>) -> io::Result<Runtime> {
    let next = AtomicUsize::new(0);
    let start = move || {
        let worker = next.fetch_add(1, Ordering::Relaxed);
        // Only workers count messages; a thread beyond them would be one for blocking work, and there is none.
        take_lane(worker % threads);
        if let Some(cpu) = cpus.get(worker % cpus.len().max(1)) {
            // The ready line tells where threads were put; a pool has no way to say that one was refused.
            let _ = pin_current_thread(*cpu);
        }
    };
    Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .on_thread_start(start)
        .build()
}

async fn accept(listener: TcpListener, job: Arc<Job>, end: Arc<End>) {
    const BACK_OFF: Duration = Duration::from_millis(100);
    let options = StreamOptions {
        nodelay: true,
        send_buffer_bytes: None,
        receive_buffer_bytes: None,
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                if options.apply(&stream).is_ok() {
                    let host = end.enter();
                    let job = job.clone();
                    tokio::spawn(async move {
                        serve_connection(&job, pool_stream::adopt(stream), host).await
                    });
                }
            }
            Err(_) => tokio::time::sleep(BACK_OFF).await,
        }
    }
}

/// Asks a pool to end, from any thread.
#[derive(Clone, Debug)]
pub(crate) struct PoolStopper(Arc<End>);

impl PoolStopper {
    pub(crate) fn drain(&self) {
        self.0.asked.store(true, Ordering::Release);
        self.0.notify.notify_waiters();
        self.0.connections().values().for_each(|stop| stop.set());
    }

    pub(crate) fn force(&self) {
        self.0.forced.store(true, Ordering::Release);
        self.drain();
    }
}

/// The end of a pool, and the connections that are to hear of it.
#[derive(Debug, Default)]
struct End {
    asked: AtomicBool,
    forced: AtomicBool,
    notify: tokio::sync::Notify,
    next: AtomicUsize,
    connections: Mutex<HashMap<usize, Arc<Stop>>>,
}

impl End {
    fn enter(self: &Arc<Self>) -> OnPool {
        let key = self.next.fetch_add(1, Ordering::Relaxed);
        let stop = Arc::<Stop>::default();
        self.connections().insert(key, stop.clone());
        if self.asked.load(Ordering::Acquire) {
            stop.set();
        }
        OnPool {
            end: self.clone(),
            key,
            stop,
        }
    }

    async fn asked(&self) {
        let notified = self.notify.notified();
        if !self.asked.load(Ordering::Acquire) {
            notified.await;
        }
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<usize, Arc<Stop>>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection's wish-to-end flag: its own, so that connections do not meet at a lock on every receive.
#[derive(Debug, Default)]
struct Stop {
    wanted: AtomicBool,
    waker: AtomicWaker,
}

impl Stop {
    fn set(&self) {
        self.wanted.store(true, Ordering::Release);
        self.waker.wake();
    }
}

/// The pool as a driver's host, for one connection.
#[derive(Debug)]
struct OnPool {
    end: Arc<End>,
    key: usize,
    stop: Arc<Stop>,
}

impl Host for OnPool {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, deadline: Instant) -> impl Future<Output = ()> {
        tokio::time::sleep_until(deadline.into())
    }

    fn stopping(&self) -> impl Future<Output = ()> {
        poll_fn(|cx| {
            if self.stop.wanted.load(Ordering::Acquire) {
                return Poll::Ready(());
            }
            self.stop.waker.register(cx.waker());
            // Set between the look and the registration?
            if self.stop.wanted.load(Ordering::Acquire) {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
    }
}

impl Drop for OnPool {
    fn drop(&mut self) {
        self.end.connections().remove(&self.key);
    }
}
