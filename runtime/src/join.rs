//! Two futures, both.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

/// Runs both until both have finished.
pub async fn join<A: Future, B: Future>(left: A, right: B) -> (A::Output, B::Output) {
    let both = try_join(async { Ok::<_, Infallible>(left.await) }, async {
        Ok(right.await)
    });
    match both.await {
        Ok(both) => both,
        Err(never) => match never {},
    }
}

/// Runs both until both have succeeded, or one has failed; then the other is dropped.
///
/// # Errors
/// That of the one that failed.
pub async fn try_join<A, B, E>(
    left: impl Future<Output = Result<A, E>>,
    right: impl Future<Output = Result<B, E>>,
) -> Result<(A, B), E> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    let (mut from_left, mut from_right) = (None, None);
    poll_fn(|cx| {
        if from_left.is_none()
            && let Poll::Ready(result) = left.as_mut().poll(cx)
        {
            from_left = Some(result?);
        }
        if from_right.is_none()
            && let Poll::Ready(result) = right.as_mut().poll(cx)
        {
            from_right = Some(result?);
        }
        match (from_left.take(), from_right.take()) {
            (Some(left), Some(right)) => Poll::Ready(Ok((left, right))),
            one => {
                (from_left, from_right) = one;
                Poll::Pending
            }
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::{join, try_join};
    use std::{
        future::{Future, pending, poll_fn},
        pin::pin,
        task::{Context, Poll, Waker},
    };

    /// Ready at the `polls`th poll.
    fn after<T>(polls: u32, mut value: Option<T>) -> impl Future<Output = T> {
        let mut polled = 0;
        poll_fn(move |_| {
            polled += 1;
            assert!(polled <= polls, "polled after its end");
            match value.take_if(|_| polled == polls) {
                Some(value) => Poll::Ready(value),
                None => Poll::Pending,
            }
        })
    }

    /// The output, and after how many polls.
    fn run<T>(future: impl Future<Output = T>) -> (T, u32) {
        let mut future = pin!(future);
        for polls in 1..100 {
            let mut cx = Context::from_waker(Waker::noop());
            if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
                return (value, polls);
            }
        }
        panic!("it never ends");
    }

    #[test]
    fn both_run_at_once_and_each_to_its_own_end() {
        assert_eq!(
            run(join(after(3, Some('a')), after(1, Some(2)))),
            (('a', 2), 3)
        );
        assert_eq!(
            run(join(after(1, Some('a')), after(5, Some(2)))),
            (('a', 2), 5)
        );
    }

    #[test]
    fn the_first_failure_ends_both() {
        let failed = try_join(pending::<Result<(), u8>>(), after(2, Some(Err::<(), _>(7))));
        assert_eq!(run(failed), (Err(7), 2));
        let well = try_join(after(2, Some(Ok::<_, u8>(1))), after(1, Some(Ok(2))));
        assert_eq!(run(well), (Ok((1, 2)), 2));
    }
}
