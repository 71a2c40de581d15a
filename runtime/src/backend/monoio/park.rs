//! What monoio does while a shard has nothing to run: watch the wake descriptor, and know the next deadline.

use super::stream::{Filling, receive_into};
use crate::{context, executor::Parker, lease::Class};
use monoio::time::{Instant as EngineInstant, Sleep, sleep_until};
use shardloop_platform::wake::WakeReader;
use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

/// monoio's wheel has a bound, and a deadline that far off may as well be set anew once in a while.
const FARTHEST: Duration = Duration::from_secs(3600);

pub(super) struct Park {
    wakes: Pin<Box<dyn Future<Output = Infallible>>>,
    sleep: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Park {
    pub(super) fn new(wakes: WakeReader, blocking: bool) -> io::Result<Self> {
        let stream = std::os::unix::net::UnixStream::from(wakes);
        stream.set_nonblocking(!blocking)?;
        let stream = monoio::net::UnixStream::from_std(stream)?;
        Ok(Self {
            wakes: Box::pin(swallow(stream)),
            sleep: None,
        })
    }

    /// Has the engine wake `cx` at `deadline`. An earlier alarm is left as it is: it costs one idle turn, where setting a timer
    /// anew each time that a deadline moves on would cost each turn.
    fn alarm(&mut self, deadline: Instant, cx: &mut Context<'_>) {
        let now = Instant::now();
        let at = deadline.min(now + FARTHEST);
        let armed = self
            .sleep
            .as_ref()
            .is_some_and(|(armed, _)| (now..=at).contains(armed));
        if !armed {
            self.sleep = Some((at, Box::pin(sleep_until(EngineInstant::from_std(at)))));
        }
        if let Some((_, sleep)) = &mut self.sleep
            && sleep.as_mut().poll(cx).is_ready()
        {
            self.sleep = None;
            cx.waker().wake_by_ref();
        }
    }
}

impl Parker for Park {
    fn prepare(&mut self, deadline: Option<Instant>, cx: &mut Context<'_>) {
        let Poll::Pending = self.wakes.as_mut().poll(cx);
        match deadline {
            Some(deadline) => self.alarm(deadline, cx),
            None => self.sleep = None,
        }
    }
}

/// Reads wakes for ever. What they mean stands in the wake word; here they only end the parking.
async fn swallow(mut stream: monoio::net::UnixStream) -> Infallible {
    let pool = context::current().pool().clone();
    loop {
        let buffer = Filling(pool.take(Class::SMALLEST));
        if receive_into(&mut stream, buffer).await.0.is_err() {
            // The other end lives in this shard's own remote, so it cannot be closed: an error here is the engine's, and waiting is
            // all that is left; the next turn of the engine polls this again.
            crate::time::yield_now().await;
        }
    }
}
