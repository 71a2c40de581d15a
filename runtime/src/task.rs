//! Tasks: futures that run on their shard by themselves.
//!
//! A [`Task`] that is dropped detaches: its future runs on. [`Task::cancel`] ends it. A panic inside ends that task alone and is its
//! result. Whatever still lives when the shard ends is cancelled: its future is dropped on the shard's own thread.

use crate::{context, executor::Core};
use pin_project_lite::pin_project;
use std::{
    any::Any,
    error::Error,
    fmt,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    rc::Rc,
    sync::{Mutex, PoisonError},
    task::{Context, Poll},
};

/// Runs `future` on the current shard.
///
/// # Panics
/// Outside a shard's thread: there is nobody to run it.
pub fn spawn<F>(future: F) -> Task<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    context::current().spawn(future)
}

/// A running task. Await it for its result; drop it to let it run on by itself.
#[derive(Debug)]
#[must_use = "a dropped task runs on by itself; call detach() to say that this is meant"]
pub struct Task<T>(Option<async_task::FallibleTask<Outcome<T>>>);

impl<T> Task<T> {
    pub(crate) fn new(task: async_task::Task<Outcome<T>>) -> Self {
        Self(Some(task.fallible()))
    }

    /// Lets it run on by itself, as dropping does.
    pub fn detach(self) {}

    /// Ends it: its future is dropped, if it has not finished by then. Returns when that is done, with the result it may have had.
    pub async fn cancel(mut self) -> Option<Result<T, Panic>> {
        self.0.take()?.cancel().await?.take()
    }

    /// Whether it has ended, by itself or otherwise.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0
            .as_ref()
            .is_none_or(async_task::FallibleTask::is_finished)
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, TaskError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(task) = &mut self.0 else {
            return Poll::Ready(Err(TaskError::Cancelled));
        };
        Pin::new(task)
            .poll(cx)
            .map(|ended| match ended.and_then(Outcome::take) {
                Some(Ok(value)) => Ok(value),
                Some(Err(panic)) => Err(TaskError::Panic(panic)),
                None => Err(TaskError::Cancelled),
            })
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.detach();
        }
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
            .unwrap_or_else(PoisonError::into_inner)
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

pin_project! {
    /// A task's future with what the shard needs around it: panics are caught, and its end is noted.
    pub(crate) struct Tracked<F> {
        // Always there, until it is dropped in place.
        #[pin]
        future: Option<F>,
        live: Live,
    }

    impl<F> PinnedDrop for Tracked<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            // Here and not by the compiler: async-task aborts the process when the destructor of a future panics.
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| this.future.set(None))) {
                this.live.core.note_panic(Panic::new(payload).message());
            }
        }
    }
}

impl<F> Tracked<F> {
    pub(crate) fn new(future: F, core: Rc<Core>, key: usize) -> Self {
        Self {
            future: Some(future),
            live: Live { core, key },
        }
    }
}

impl<F: Future> Future for Tracked<F> {
    type Output = Outcome<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let future = this
            .future
            .as_pin_mut()
            .expect("only the destructor takes the future out");
        // A future that panicked is never polled again, so nobody sees what it left half done.
        match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(poll) => poll.map(|value| Outcome(Some(Ok(value)))),
            Err(payload) => {
                let panic = Panic::new(payload);
                this.live.core.note_panic(panic.message());
                Poll::Ready(Outcome(Some(Err(panic))))
            }
        }
    }
}

/// What became of a task, until somebody takes it. If nobody does, a panic of its destructor is one more panic on the shard, where
/// async-task would abort the process.
#[derive(Debug)]
pub(crate) struct Outcome<T>(Option<Result<T, Panic>>);

impl<T> Outcome<T> {
    fn take(mut self) -> Option<Result<T, Panic>> {
        self.0.take()
    }
}

impl<T> Drop for Outcome<T> {
    fn drop(&mut self) {
        let untaken = self.0.take();
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| drop(untaken))) {
            context::note_panic(Panic::new(payload).message());
        }
    }
}

/// A task's entry in its shard's registry, for as long as its future exists.
struct Live {
    core: Rc<Core>,
    key: usize,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.core.forget_task(self.key);
    }
}
