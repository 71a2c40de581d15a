//! Shards: one engine per thread, a connection stays on the shard that it was handed to.

use super::{
    datagrams::{Watched, serve_socket},
    handler::{Job, serve_connection},
    lanes::take_lane,
};
use crate::contract::{Buffers, Protocol};
use shardloop::{
    Accept, Backend, DatagramEndpoint, Endpoint, EngineOptions, Error, Kind, LaunchError,
    Placement, Plan, Running, Service, Shard,
};
use shardloop_protocols::drive::OnShard;
use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

/// How shards are set up.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) driver: Kind,
    pub(crate) shards: usize,
    pub(crate) placement: Placement,
    pub(crate) accept: Accept,
    pub(crate) spin: Duration,
    pub(crate) listen: SocketAddr,
    /// Of the sockets of datagrams; streams have the kernel's own.
    pub(crate) buffers: Buffers,
}

/// The strategy where none is asked for. Connections go round robin, so that 16 of them on 2 shards are 8 and 8 in every repetition;
/// datagrams are spread by the kernel where it does so.
pub(crate) fn default_accept(protocol: Protocol) -> Accept {
    if protocol.is_datagram() {
        DatagramEndpoint::udp((Ipv4Addr::LOCALHOST, 0).into()).accept
    } else {
        Accept::Handoff
    }
}

/// The strategies that differ: datagrams belong to no connection, so there is none to count, and none to be taken by whoever is awake.
pub(crate) fn accepts(protocol: Protocol) -> &'static [Accept] {
    if protocol.is_datagram() {
        &[Accept::ReusePort, Accept::Handoff]
    } else {
        &Accept::ALL
    }
}

/// Starts shards that do `job`.
pub(crate) fn start(
    job: Arc<Job>,
    setup: Setup,
) -> Result<Running<Result<(), Error>>, LaunchError> {
    let plan = Plan {
        placement: setup.placement,
        engine: EngineOptions {
            spin: setup.spin,
            ..EngineOptions::default()
        },
        ..Plan::new(setup.shards)
    };
    let plan = if job.speech.protocol.is_datagram() {
        plan.datagrams(DatagramEndpoint {
            accept: setup.accept,
            send_buffer_bytes: Some(setup.buffers.send_bytes),
            receive_buffer_bytes: Some(setup.buffers.receive_bytes),
            ..DatagramEndpoint::udp(setup.listen)
        })
    } else {
        plan.endpoint(Endpoint::tcp(setup.listen, setup.accept))
    };
    shardloop::start(setup.driver, plan, Echo { job })
}

#[derive(Clone)]
struct Echo {
    job: Arc<Job>,
}

impl Service for Echo {
    async fn run<B: Backend>(self, shard: Shard<B>) -> Result<(), Error> {
        take_lane(shard.index());
        if self.job.speech.protocol.is_datagram() {
            let socket = shard.datagrams(0).expect("it is taken once");
            let socket = Watched::new(socket, self.job.clone());
            serve_socket(&self.job, socket, OnShard).await;
            return Ok(());
        }
        let mut incoming = shard.incoming(0);
        while let Some((stream, _)) = incoming.next().await {
            let job = self.job.clone();
            shard
                .spawn(async move { serve_connection(&job, stream, OnShard).await })
                .detach();
        }
        Ok(())
    }
}
