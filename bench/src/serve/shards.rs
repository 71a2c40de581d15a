//! Shards: one engine per thread, a connection stays on the shard that it was handed to.

use super::{
    handler::{Job, serve_connection},
    lanes::take_lane,
};
use shardloop::{
    Accept, Backend, Endpoint, EngineOptions, Error, Kind, LaunchError, Placement, Plan, Running,
    Service, Shard,
};
use shardloop_protocols::drive::OnShard;
use std::{net::SocketAddr, sync::Arc};

/// Starts `shards` shards that do `job`.
pub(crate) fn start(
    job: Arc<Job>,
    driver: Kind,
    shards: usize,
    placement: Placement,
    listen: SocketAddr,
) -> Result<Running<Result<(), Error>>, LaunchError> {
    let plan = Plan {
        placement,
        engine: EngineOptions::default(),
        // Round robin, so that 16 connections on 2 shards are 8 and 8 in every repetition.
        ..Plan::new(shards).endpoint(Endpoint::tcp(listen, Accept::Handoff))
    };
    shardloop::start(driver, plan, Echo { job })
}

#[derive(Clone)]
struct Echo {
    job: Arc<Job>,
}

impl Service for Echo {
    async fn run<B: Backend>(self, shard: Shard<B>) -> Result<(), Error> {
        take_lane(shard.index());
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
