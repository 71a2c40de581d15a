//! A machine with everything a layer has to pass on: a greeting, a deadline, a goodbye that waits for the peer's.

use crate::splits::Answer;
use shardloop_protocols::{App, Flow, Next, Step, StreamMachine};
use std::{
    convert::Infallible,
    time::{Duration, Instant},
};

pub(crate) const GREETING: u8 = b'g';
pub(crate) const GOODBYE: u8 = b'b';
pub(crate) const REMINDER: u8 = b'r';
pub(crate) const PATIENCE: Duration = Duration::from_secs(1);

/// Every byte is a message. It greets, reminds once after [`PATIENCE`], and closes when both ends have said goodbye.
#[derive(Debug, Default)]
pub(crate) struct Polite {
    pub(crate) greeted: bool,
    deadline: Option<Instant>,
    has_said_goodbye: bool,
}

pub(crate) struct Reply<'r>(&'r mut Vec<u8>);

impl Answer for Reply<'_> {
    fn answer(self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn note(message: &[u8], notes: &mut Vec<u8>) {
        notes.extend_from_slice(message);
    }
}

impl StreamMachine for Polite {
    type Message<'m> = &'m mut [u8];
    type Reply<'r> = Reply<'r>;
    type Error = Infallible;

    fn start(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, Infallible> {
        assert!(!self.greeted, "a machine is started once");
        self.greeted = true;
        self.deadline = Some(now + PATIENCE);
        out.push(GREETING);
        Ok(Step::need_input(0))
    }

    fn is_ready(&self) -> bool {
        self.greeted && !self.has_said_goodbye
    }

    fn handle(
        &mut self,
        _now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, Infallible> {
        assert!(self.greeted, "a machine is started before anything else");
        assert!(out.is_empty(), "the output was not drained");
        for at in 0..input.len() {
            match input[at] {
                GOODBYE => {
                    if !self.has_said_goodbye {
                        out.push(GOODBYE);
                    }
                    return Ok(Step::close(at + 1));
                }
                GREETING | REMINDER => {}
                _ if self.has_said_goodbye => {}
                _ => {
                    if app.message(&mut input[at..=at], Reply(out)) == Flow::Pause {
                        return Ok(Step::again(at + 1));
                    }
                }
            }
        }
        Ok(Step::need_input(input.len()))
    }

    fn end_of_input(
        &mut self,
        _now: Instant,
        _unread: usize,
        _out: &mut Vec<u8>,
    ) -> Result<Step, Infallible> {
        Ok(Step::close(0))
    }

    fn timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, Infallible> {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.deadline = None;
            out.push(REMINDER);
        }
        Ok(Step::need_input(0))
    }

    fn send<R>(
        &mut self,
        _now: Instant,
        out: &mut Vec<u8>,
        f: impl FnOnce(Reply<'_>) -> R,
    ) -> Result<R, Infallible> {
        Ok(f(Reply(out)))
    }

    fn close(&mut self, _now: Instant, out: &mut Vec<u8>) -> Result<Step, Infallible> {
        if !self.has_said_goodbye {
            self.has_said_goodbye = true;
            out.push(GOODBYE);
        }
        Ok(Step {
            consumed: 0,
            next: Next::NeedInput,
        })
    }
}
