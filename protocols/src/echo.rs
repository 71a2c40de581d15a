//! `echo`: plain bytes, no framing (RFC 862). Whatever came is one message.
//!
//! As a machine it can be layered like any other. On a bare stream [`drive::echo`](crate::drive::echo) is better: it sends the
//! received buffer itself, without a copy.

use crate::machine::{App, Flow, Next, Step, StreamMachine, TURN_OUTPUT_BYTES};
use std::{convert::Infallible, time::Instant};

/// Either end of an `echo` connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

/// Appends plain bytes to the output.
#[derive(Debug)]
pub struct Reply<'r> {
    out: &'r mut Vec<u8>,
}

impl Reply<'_> {
    /// Appends `bytes`.
    pub fn send(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }
}

impl StreamMachine for Echo {
    type Message<'m> = &'m mut [u8];
    type Reply<'r> = Reply<'r>;
    type Error = Infallible;

    fn handle(
        &mut self,
        _now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, Infallible> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        let consumed = input.len().min(TURN_OUTPUT_BYTES);
        if consumed == 0 {
            return Ok(Step::need_input(consumed));
        }
        let flow = app.message(&mut input[..consumed], Reply { out });
        let next = if flow == Flow::Pause || consumed < input.len() {
            Next::Again
        } else {
            Next::NeedInput
        };
        Ok(Step { consumed, next })
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
        None
    }

    fn handle_timeout(&mut self, _now: Instant, _out: &mut Vec<u8>) -> Result<Step, Infallible> {
        Ok(Step::need_input(0))
    }

    fn send<R>(
        &mut self,
        _now: Instant,
        out: &mut Vec<u8>,
        f: impl FnOnce(Reply<'_>) -> R,
    ) -> Result<R, Infallible> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        Ok(f(Reply { out }))
    }
}
