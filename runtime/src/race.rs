//! Two futures, whichever is first.

use pin_project_lite::pin_project;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};

/// Which of two was first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Either<A, B> {
    /// The first.
    Left(A),
    /// The second.
    Right(B),
}

/// Runs both until one has finished; the other is dropped. `left` is asked first, so it wins a tie.
///
/// Receives and accepts may be raced freely: one that is dropped loses nothing.
pub fn race<A: Future, B: Future>(left: A, right: B) -> Race<A, B> {
    Race { left, right }
}

pin_project! {
    /// The future of [`race`].
    #[derive(Debug)]
    #[must_use = "futures do nothing unless awaited"]
    pub struct Race<A, B> {
        #[pin]
        left: A,
        #[pin]
        right: B,
    }
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = Either<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(value) = this.left.poll(cx) {
            return Poll::Ready(Either::Left(value));
        }
        this.right.poll(cx).map(Either::Right)
    }
}
