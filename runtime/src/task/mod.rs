//! Tasks: futures that run on their shard by themselves.
//!
//! A [`Task`] that is dropped detaches: its future runs on. [`Task::cancel`] ends it. A panic inside ends that task alone and is its
//! result. Whatever still lives when the shard ends is cancelled: its future is dropped on the shard's own thread.

mod frame;
pub(crate) mod shield;
mod table;
mod waker;

pub(crate) use frame::Boxed;
pub(crate) use table::Table;
pub(crate) use waker::TaskId;

use crate::context;
use frame::{End, Run};
use std::{
    any::Any,
    error::Error,
    fmt,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

/// Runs `future` on the current shard.
///
/// # Panics
/// Outside a shard's thread: there is nobody to run it.
#[track_caller]
pub fn spawn<F>(future: F) -> Task<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    context::current().spawn(future)
}

/// A future as its shard runs it, and what whoever waits for it needs, once the shard has named it.
pub(crate) fn frame<F>(future: F) -> (Boxed, impl FnOnce(TaskId) -> Task<F::Output>)
where
    F: Future + 'static,
    F::Output: 'static,
{
    let end = Arc::new(End::new());
    let run = Run::new(future, end.clone());
    let task = |id: TaskId| Task {
        end,
        waker: id.waker(),
    };
    (Box::pin(run), task)
}

/// A running task. Await it for its result; drop it to let it run on by itself.
///
/// The task stays on its shard; where its result may move between threads, so may this.
#[must_use = "a dropped task runs on by itself; call detach() to say that this is meant"]
pub struct Task<T> {
    end: Arc<End<T>>,
    waker: Waker,
}

impl<T> Task<T> {
    /// Lets it run on by itself, as dropping does.
    pub fn detach(self) {}

    /// Ends it: its future is dropped, if it has not finished by then. Returns when that is done, with the result it may have had.
    pub async fn cancel(self) -> Option<Result<T, Panic>> {
        self.end.cancel();
        self.waker.wake_by_ref();
        poll_fn(|cx| self.end.poll(cx)).await
    }

    /// Whether it has ended, by itself or otherwise.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.end.is_reached()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.end.poll(cx).map(|ended| match ended {
            Some(Ok(value)) => Ok(value),
            Some(Err(panic)) => Err(TaskError::Panic(panic)),
            None => Err(TaskError::Cancelled),
        })
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("is_finished", &self.is_finished())
            .finish_non_exhaustive()
    }
}

/// Why a task has no result.
#[derive(Debug)]
pub enum TaskError {
    /// It panicked.
    Panic(Panic),
    /// It was cancelled, or its shard ended first.
    Cancelled,
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic(panic) => panic.fmt(f),
            Self::Cancelled => f.write_str("the task was cancelled before it finished"),
        }
    }
}

impl Error for TaskError {}

/// A caught panic.
pub struct Panic {
    message: String,
    /// Behind a lock that nobody takes: it only makes this `Sync`, so that `?` turns it into any error type.
    payload: Mutex<Box<dyn Any + Send>>,
}

impl Panic {
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> Self {
        let message = if let Some(text) = payload.downcast_ref::<&'static str>() {
            (*text).to_owned()
        } else if let Some(text) = payload.downcast_ref::<String>() {
            text.clone()
        } else {
            "a panic whose payload is not text".to_owned()
        };
        Self {
            message,
            payload: Mutex::new(payload),
        }
    }

    /// The message, if it was text.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What was thrown, for `std::panic::resume_unwind`.
    #[must_use]
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.payload
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl fmt::Debug for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Panic").field(&self.message()).finish()
    }
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the task panicked: {}", self.message())
    }
}

impl Error for Panic {}
