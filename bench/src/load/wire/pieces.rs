//! `echo` as its client sees it: plain bytes cut into messages of one length.

use super::{Setup, Wire};
use crate::load::fault::Wrong;
use shardloop_protocols::{
    App, Flow, Next, Step, StreamMachine,
    machine::{TURN_MESSAGES, TURN_OUTPUT_BYTES},
};
use std::{convert::Infallible, io, time::Instant};

/// A client of `echo`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pieces {
    piece_bytes: usize,
}

/// Appends plain bytes.
pub(crate) struct Plain<'r>(&'r mut Vec<u8>);

impl StreamMachine for Pieces {
    type Message<'m> = &'m mut [u8];
    type Reply<'r> = Plain<'r>;
    type Error = Infallible;

    fn handle(
        &mut self,
        _now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, Infallible> {
        let mut consumed = 0;
        for piece in input.chunks_exact_mut(self.piece_bytes).take(TURN_MESSAGES) {
            consumed += piece.len();
            let flow = app.message(piece, Plain(&mut *out));
            if flow == Flow::Pause || out.len() >= TURN_OUTPUT_BYTES {
                break;
            }
        }
        let whole_left = input.len() - consumed >= self.piece_bytes;
        let next = if whole_left {
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
        Ok(Step {
            consumed: 0,
            next: Next::Close,
        })
    }

    fn timeout(&self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _now: Instant, _out: &mut Vec<u8>) -> Result<Step, Infallible> {
        Ok(Step {
            consumed: 0,
            next: Next::NeedInput,
        })
    }

    fn send<R>(
        &mut self,
        _now: Instant,
        out: &mut Vec<u8>,
        f: impl FnOnce(Plain<'_>) -> R,
    ) -> Result<R, Infallible> {
        Ok(f(Plain(out)))
    }
}

impl Wire for Pieces {
    fn client(setup: &Setup) -> io::Result<Self> {
        Ok(Self {
            piece_bytes: setup.payload_bytes,
        })
    }

    fn frame_bytes(payload_bytes: usize) -> Option<usize> {
        Some(payload_bytes)
    }

    fn payload<'m>(message: Self::Message<'m>) -> Result<&'m [u8], Wrong> {
        Ok(message)
    }

    fn request(reply: Plain<'_>, payload: &[u8]) {
        reply.0.extend_from_slice(payload);
    }

    fn wrong(error: Infallible) -> Wrong {
        match error {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces_of(parts: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut machine = Pieces { piece_bytes: 4 };
        let (mut input, mut seen) = (Vec::new(), Vec::new());
        for part in parts {
            input.extend_from_slice(part);
            loop {
                let mut app = |message: &mut [u8], _: Plain<'_>| {
                    seen.push(message.to_vec());
                    Flow::Continue
                };
                let Ok(step) =
                    machine.handle(Instant::now(), &mut input, &mut app, &mut Vec::new());
                input.drain(..step.consumed);
                if step.next == Next::NeedInput {
                    break;
                }
            }
        }
        seen
    }

    #[test]
    fn pieces_are_the_same_however_they_come() {
        let stream = b"abcdefghijklmn";
        let expected = [b"abcd".to_vec(), b"efgh".to_vec(), b"ijkl".to_vec()];
        for split in 0..=stream.len() {
            let (a, b) = stream.split_at(split);
            assert_eq!(pieces_of(&[a, b]), expected);
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(pieces_of(&bytes), expected);
        assert_eq!(
            pieces_of(&[&[0; 4 * 3 * TURN_MESSAGES]]).len(),
            3 * TURN_MESSAGES
        );
    }
}
