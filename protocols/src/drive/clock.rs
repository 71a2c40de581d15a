//! A connection's clock: the host's time, and one alarm that is set again only when it has to be.
//!
//! Deadlines move on with every message. An alarm of its own for each of them would cost every message a timer, so the alarm stays
//! where it was set as long as no deadline is before it; when it rings too early, it is set to the deadline of that time. A
//! connection pays for one timer per timeout that passes, however many messages it has in between.

use super::Host;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

/// What a connection needs of time.
pub(super) trait Clock {
    /// The host's time.
    fn now(&self) -> Instant;

    /// How long a send may take.
    fn send_timeout(&self) -> Duration;

    /// Ready once `deadline` has come. The latest call decides which deadline is waited for.
    fn poll_until(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()>;
}

/// The clock of a [`Host`].
pub(super) struct HostClock<'a, H, S, F> {
    host: &'a H,
    sleep_until: S,
    alarm: Pin<&'a mut Option<F>>,
    /// What the alarm is set to.
    at: Option<Instant>,
}

impl<'a, H: Host, S: Fn(Instant) -> F, F: Future<Output = ()>> HostClock<'a, H, S, F> {
    /// `sleep_until` is the host's, as a closure, so that its future has a type that can be kept in `alarm`.
    pub(super) fn new(host: &'a H, sleep_until: S, alarm: Pin<&'a mut Option<F>>) -> Self {
        Self {
            host,
            sleep_until,
            alarm,
            at: None,
        }
    }
}

impl<H: Host, S: Fn(Instant) -> F, F: Future<Output = ()>> Clock for HostClock<'_, H, S, F> {
    fn now(&self) -> Instant {
        self.host.now()
    }

    fn send_timeout(&self) -> Duration {
        self.host.send_timeout()
    }

    fn poll_until(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        loop {
            let alarm = self.alarm.as_mut().as_pin_mut();
            let (Some(at), Some(alarm)) = (self.at.filter(|at| *at <= deadline), alarm) else {
                self.at = Some(deadline);
                self.alarm.set(Some((self.sleep_until)(deadline)));
                continue;
            };
            ready!(alarm.poll(cx));
            self.at = None;
            if at == deadline {
                return Poll::Ready(());
            }
        }
    }
}
