//! One machine, driven as its contract says, and held to it: what it consumes was there, what it does not consume it leaves as it was,
//! a call's messages and output are bounded, `Again` goes on, nothing is held beyond the limits, and nothing happens after the end.

use super::{Meter, source::Cuts};
use shardloop_protocols::{
    App, Next, StreamMachine,
    machine::{TURN_MESSAGES, TURN_OUTPUT_BYTES},
};
use std::time::{Duration, Instant};

/// An application whose view of a connection can be compared.
pub(crate) trait Witness {
    /// What it was shown, as far as that does not depend on cuts.
    fn notes(&mut self) -> &mut Vec<u8>;
    /// Messages it was shown.
    fn messages(&self) -> usize;
    /// The longest answer it gave to a message, with all of its framing.
    fn longest_answer_bytes(&self) -> usize;
}

/// What a machine may cost.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) meter: Meter,
    /// Layers around the machine with the messages.
    pub(crate) layers: usize,
    /// Bytes of the peer's that its limits let it hold.
    pub(crate) limit_bytes: usize,
    /// Whatever it holds besides.
    pub(crate) fixed_bytes: usize,
}

impl Terms {
    /// What a machine may hold that was sent so much: it grows with what has arrived, up to the limits. Vectors double.
    fn most_bytes(&self, fed_bytes: usize) -> usize {
        2 * fed_bytes.min(self.limit_bytes) + self.fixed_bytes
    }
}

/// What a machine made of a byte string.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) notes: Vec<u8>,
    pub(crate) output: Vec<u8>,
    /// How it ended: what `end_of_input` or an earlier call returned.
    pub(crate) end: Result<Next, String>,
}

pub(crate) struct Feed<M: StreamMachine, A> {
    pub(crate) machine: M,
    pub(crate) app: A,
    /// What was not taken yet.
    pub(crate) output: Vec<u8>,
    pub(crate) now: Instant,
    terms: Terms,
    pending: Vec<u8>,
    fed_bytes: usize,
    /// Allocated by calls of the machine and not freed, without output and notes.
    held_bytes: isize,
    end: Option<Result<Next, M::Error>>,
}

impl<M: StreamMachine, A: App<M> + Witness> Feed<M, A> {
    pub(crate) fn new(machine: M, app: A, terms: Terms) -> Self {
        Self {
            machine,
            app,
            output: Vec::new(),
            now: Instant::now(),
            terms,
            pending: Vec::new(),
            fed_bytes: 0,
            held_bytes: 0,
            end: None,
        }
    }

    pub(crate) fn start(&mut self) {
        let _ = self.act(|machine, _, now, out| machine.start(now, out));
    }

    /// How it ended, if it did.
    pub(crate) fn end(&self) -> Option<&Result<Next, M::Error>> {
        self.end.as_ref()
    }

    /// Shows `piece`, behind what was not consumed, as long as the machine wants to see it.
    pub(crate) fn piece(&mut self, piece: &[u8]) {
        self.fed_bytes += piece.len();
        self.pending.extend_from_slice(piece);
        let mut idle = 0;
        while self.end.is_none() {
            let before = (self.pending.len(), self.app.messages());
            if !self.call() {
                break;
            }
            let progress = before != (self.pending.len(), self.app.messages());
            idle = if progress { 0 } else { idle + 1 };
            assert!(idle < 3, "the machine asks for the same call for ever");
        }
    }

    /// One call of `handle`; whether it wants another.
    fn call(&mut self) -> bool {
        let (before, told) = (self.pending.clone(), self.app.messages());
        let mut pending = std::mem::take(&mut self.pending);
        let step = self.act(|machine, app, now, out| machine.handle(now, &mut pending, app, out));
        self.pending = pending;
        let messages = self.app.messages() - told;
        assert!(messages <= TURN_MESSAGES, "{messages} messages in one call");
        let Some(step) = step else {
            return false;
        };
        assert!(step.consumed <= before.len(), "it took what was not there");
        assert!(
            self.pending[step.consumed..] == before[step.consumed..],
            "unconsumed bytes changed"
        );
        self.pending.drain(..step.consumed);
        step.next == Next::Again
    }

    /// One call, on drained output; `None` if it was an error, which is the end.
    pub(crate) fn act(
        &mut self,
        call: impl FnOnce(
            &mut M,
            &mut A,
            Instant,
            &mut Vec<u8>,
        ) -> Result<shardloop_protocols::Step, M::Error>,
    ) -> Option<shardloop_protocols::Step> {
        let result = self.measured(call);
        match result {
            Ok(step) => {
                if step.next == Next::Close {
                    self.end = Some(Ok(Next::Close));
                }
                Some(step)
            }
            Err(fault) => {
                self.end = Some(Err(fault));
                None
            }
        }
    }

    /// A call that does not end anything by itself: `send`.
    pub(crate) fn measured<R>(
        &mut self,
        call: impl FnOnce(&mut M, &mut A, Instant, &mut Vec<u8>) -> R,
    ) -> R {
        let meter = self.terms.meter;
        let most = self.terms.most_bytes(self.fed_bytes);
        let mut out = Vec::new();
        let noted = self.app.notes().capacity();
        let before = (meter.allocated_bytes)();
        // While it works: the old and the new place of what grows, output and notes.
        let messages = 16 * self.fed_bytes + 4 * self.app.longest_answer_bytes();
        (meter.limit)(
            (before + 3 * most + 8 * TURN_OUTPUT_BYTES).saturating_add(messages.max(1 << 16)),
        );
        let result = call(&mut self.machine, &mut self.app, self.now, &mut out);
        (meter.limit)(usize::MAX);
        let after = (meter.allocated_bytes)();
        let ours = out.capacity() + self.app.notes().capacity();
        self.held_bytes += signed(after) - signed(before) - signed(ours) + signed(noted);
        assert!(
            self.held_bytes <= signed(most),
            "the machine holds {} bytes after {} that were sent to it",
            self.held_bytes,
            self.fed_bytes
        );
        assert!(
            self.machine.held_bytes() <= self.fed_bytes,
            "it says that it holds more than has come"
        );
        self.take(&out);
        result
    }

    /// Takes the output of one call.
    fn take(&mut self, out: &[u8]) {
        let layers = self.terms.layers;
        let bound = (layers + 1) * TURN_OUTPUT_BYTES + self.app.longest_answer_bytes() + 1024;
        let bound = bound + layers * (bound / 64 + 16 * 1024);
        assert!(
            out.len() <= bound,
            "{} bytes of output in one call",
            out.len()
        );
        self.output.extend_from_slice(out);
    }

    /// Time passes; the machine is told if it wanted to be.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        for _ in 0..4 {
            let due = self.machine.timeout().is_some_and(|at| at <= self.now);
            if !due || self.end.is_some() {
                return;
            }
            let _ = self.act(|machine, _, now, out| machine.handle_timeout(now, out));
        }
        panic!("a deadline that has passed is set again and again");
    }

    /// The peer sends nothing more.
    pub(crate) fn end_of_input(&mut self) {
        if self.end.is_none() {
            let unread = self.pending.len();
            let _ = self.act(|machine, _, now, out| machine.end_of_input(now, unread, out));
        }
    }

    pub(crate) fn finish(mut self) -> Outcome {
        self.end_of_input();
        let end = match self.end.take() {
            Some(Ok(next)) => Ok(next),
            Some(Err(fault)) => Err(format!("{fault:?}")),
            None => Ok(Next::NeedInput),
        };
        Outcome {
            notes: std::mem::take(self.app.notes()),
            output: self.output,
            end,
        }
    }
}

fn signed(bytes: usize) -> isize {
    isize::try_from(bytes).expect("no object is larger")
}

/// Runs `input` cut in several ways: all must come to the same.
pub(crate) fn check_cuts(input: &[u8], seed: u8, run: impl Fn(&[&[u8]]) -> Outcome) -> Outcome {
    let whole = run(&Cuts::Whole.pieces(input));
    for cuts in Cuts::all(seed, input.len()) {
        let other = run(&cuts.pieces(input));
        assert_eq!(other.end, whole.end, "{cuts:?}: another end");
        assert!(
            other.notes == whole.notes,
            "{cuts:?}: other messages: {} and whole {}",
            other.notes.escape_ascii(),
            whole.notes.escape_ascii()
        );
        assert!(
            other.output == whole.output,
            "{cuts:?}: other output: {} and whole {}",
            other.output.escape_ascii(),
            whole.output.escape_ascii()
        );
    }
    whole
}
