//! How shards ended.

use super::life::Served;
use crate::{
    backend::{Capabilities, Ended},
    executor::Core,
    metrics::Metrics,
    placement::Seat,
    task::TaskError,
};

/// How the shards of a plan ended.
#[derive(Debug)]
pub struct Report<T> {
    /// The engine they ran on.
    pub engine: &'static str,
    /// What it offered, and why it was chosen.
    pub capabilities: Capabilities,
    /// In their order.
    pub shards: Vec<ShardReport<T>>,
}

impl<T> Report<T> {
    /// The first panic of any task on any shard.
    #[must_use]
    pub fn first_panic(&self) -> Option<&str> {
        self.shards
            .iter()
            .find_map(|shard| shard.first_panic.as_deref())
    }

    /// Tasks that had not finished when the drain deadline passed, on all shards.
    #[must_use]
    pub fn tasks_cut_off(&self) -> usize {
        self.shards.iter().map(|shard| shard.tasks_cut_off).sum()
    }
}

impl<E> Report<Result<(), E>> {
    /// The first error that a service returned, on whatever shard.
    #[must_use]
    pub fn first_error(&self) -> Option<&E> {
        let results = self.shards.iter().map(|shard| &shard.result);
        results
            .filter_map(|result| result.as_ref().ok()?.as_ref().err())
            .next()
    }
}

/// How one shard ended.
#[derive(Debug)]
pub struct ShardReport<T> {
    /// Its number.
    pub index: usize,
    /// Where it ran.
    pub seat: Seat,
    /// What its service returned; `Err` if it panicked, or was cut off by the drain deadline or by force.
    pub result: Result<T, TaskError>,
    /// Its counters at the end.
    pub metrics: Metrics,
    /// The message of the first task that panicked.
    pub first_panic: Option<String>,
    /// Tasks that had not finished when the drain deadline passed, or when it was ended by force.
    pub tasks_cut_off: usize,
    /// Tasks whose future could not be dropped in time, because destructors started new ones again and again; they are leaked.
    pub tasks_left: usize,
    /// Operations that still held memory when the engine was closed; that memory is leaked.
    pub operations_left: usize,
}

/// What a shard that has ended reports.
pub(crate) fn report<T>(
    index: usize,
    seat: Seat,
    ended: Ended<Option<Served<T>>>,
    core: Option<&Core>,
) -> ShardReport<T> {
    let (result, tasks_cut_off) = match ended.main {
        Ok(Some(served)) => (
            served.result.ok_or(TaskError::Cancelled),
            served.tasks_cut_off,
        ),
        Ok(None) => (Err(TaskError::Cancelled), 0),
        Err(error) => (Err(error), ended.tasks_cut_off),
    };
    ShardReport {
        index,
        seat,
        result,
        metrics: core.map(Core::metrics).unwrap_or_default(),
        first_panic: core.and_then(Core::first_panic),
        tasks_cut_off,
        tasks_left: ended.tasks_left,
        operations_left: ended.operations_left,
    }
}
