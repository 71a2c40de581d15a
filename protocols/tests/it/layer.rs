//! A layer over any stream machine, as TLS will be one: proof that the trait layers, and the same tests through it.
//!
//! A record is `M`, a u16 big-endian length of up to 1,000, and as many bytes, each XORed with a rolling key. What the inner machine
//! does not consume of a decoded record is the layer's to keep: the caller has seen the record consumed.

use crate::{
    random::Random,
    splits::{Answering, Case, Feed, answers, frame, frames, random_frames},
};
use shardloop_protocols::{
    App, Fault, Flow, Next, Side, Step, StreamMachine,
    echo::Echo,
    length::{Length, LengthError},
    machine::{TURN_MESSAGES, TURN_OUTPUT_BYTES},
};
use std::{fmt, marker::PhantomData, time::Instant};

const HEADER_BYTES: usize = 3;
const RECORD_BYTES: usize = 1000;

/// The layer.
#[derive(Debug, Default)]
pub(crate) struct Mask<M> {
    inner: M,
    received: Key,
    sent: Key,
    /// Decoded and not yet consumed by the inner machine.
    plain: Vec<u8>,
    /// The inner machine wants to be called again before it gets more.
    again: bool,
    /// The inner machine's output on its way into records; empty between calls.
    inner_out: Vec<u8>,
}

impl<M: StreamMachine> Mask<M> {
    pub(crate) fn new(inner: M) -> Self {
        let (received, sent) = (Key::default(), Key::default());
        Self {
            inner,
            received,
            sent,
            plain: Vec::new(),
            again: false,
            inner_out: Vec::new(),
        }
    }

    /// Shows the inner machine what was kept, or `record` if nothing was, and keeps what it leaves.
    fn show(
        &mut self,
        now: Instant,
        record: &mut [u8],
        app: &mut impl App<M>,
        out: &mut Vec<u8>,
    ) -> Result<Next, MaskError<M::Error>> {
        let step = if self.plain.is_empty() {
            let step = self.inner.handle(now, record, app, &mut self.inner_out);
            let left = step.as_ref().map_or(record.len(), |step| step.consumed);
            self.plain.extend_from_slice(&record[left..]);
            step
        } else {
            self.plain.extend_from_slice(record);
            let step = self
                .inner
                .handle(now, &mut self.plain, app, &mut self.inner_out);
            let consumed = step.as_ref().map_or(0, |step| step.consumed);
            self.plain.drain(..consumed);
            step
        };
        self.sent.seal(&mut self.inner_out, out);
        let next = step.map_err(MaskError::Inner)?.next;
        self.again = next == Next::Again;
        Ok(next)
    }

    fn conclude(
        &mut self,
        step: Result<Step, M::Error>,
        out: &mut Vec<u8>,
    ) -> Result<Step, MaskError<M::Error>> {
        self.sent.seal(&mut self.inner_out, out);
        step.map_err(MaskError::Inner)
    }
}

impl<M: StreamMachine> StreamMachine for Mask<M> {
    type Message<'m> = M::Message<'m>;
    type Reply<'r> = M::Reply<'r>;
    type Error = MaskError<M::Error>;

    fn handle(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, Self::Error> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        let mut app = Through {
            app,
            messages: 0,
            layer: PhantomData,
        };
        let mut consumed = 0;
        let mut next = if self.again {
            self.show(now, &mut [], &mut app, out)?
        } else {
            Next::NeedInput
        };
        while next == Next::NeedInput {
            if app.messages >= TURN_MESSAGES || out.len() >= TURN_OUTPUT_BYTES {
                return Ok(Step {
                    consumed,
                    next: Next::Again,
                });
            }
            let Some(end) = record_end(&input[consumed..])? else {
                break;
            };
            let record = &mut input[consumed + HEADER_BYTES..consumed + end];
            consumed += end;
            self.received.apply(record);
            next = self.show(now, record, &mut app, out)?;
        }
        Ok(Step { consumed, next })
    }

    fn end_of_input(
        &mut self,
        now: Instant,
        unread: usize,
        out: &mut Vec<u8>,
    ) -> Result<Step, Self::Error> {
        if unread > 0 {
            return Err(MaskError::Truncated);
        }
        let step = self
            .inner
            .end_of_input(now, self.plain.len(), &mut self.inner_out);
        self.conclude(step, out)
    }

    fn timeout(&self) -> Option<Instant> {
        self.inner.timeout()
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, Self::Error> {
        let step = self.inner.handle_timeout(now, &mut self.inner_out);
        self.conclude(step, out)
    }

    fn send<R>(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        f: impl FnOnce(Self::Reply<'_>) -> R,
    ) -> Result<R, Self::Error> {
        let value = self.inner.send(now, &mut self.inner_out, f);
        self.sent.seal(&mut self.inner_out, out);
        value.map_err(MaskError::Inner)
    }
}

/// An application of the layer, as the inner machine's; keeps the number of messages of one call within its bound.
struct Through<'a, A, M> {
    app: &'a mut A,
    messages: usize,
    layer: PhantomData<fn(M)>,
}

impl<M: StreamMachine, A: App<Mask<M>>> App<M> for Through<'_, A, M> {
    fn message(&mut self, message: M::Message<'_>, reply: M::Reply<'_>) -> Flow {
        self.messages += 1;
        match self.app.message(message, reply) {
            Flow::Continue if self.messages < TURN_MESSAGES => Flow::Continue,
            _ => Flow::Pause,
        }
    }
}

/// Splits the first whole record off: its end, or `None` if there is none yet.
fn record_end<E>(input: &[u8]) -> Result<Option<usize>, MaskError<E>> {
    let Some(&[mark, high, low]) = input.first_chunk() else {
        return Ok(None);
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if mark != b'M' || length > RECORD_BYTES {
        return Err(MaskError::NoRecord);
    }
    let end = HEADER_BYTES + length;
    Ok((input.len() >= end).then_some(end))
}

/// Changes with every byte it was applied to.
#[derive(Clone, Copy, Debug)]
struct Key(u8);

impl Default for Key {
    fn default() -> Self {
        Self(0x5a)
    }
}

impl Key {
    fn apply(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte ^= self.0;
            self.0 = self.0.wrapping_mul(5).wrapping_add(37);
        }
    }

    /// Moves `plain` into records at the end of `out`.
    fn seal(&mut self, plain: &mut Vec<u8>, out: &mut Vec<u8>) {
        plain
            .chunks(RECORD_BYTES)
            .for_each(|bytes| self.record(bytes, out));
        plain.clear();
    }

    fn record(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let length = u16::try_from(bytes.len()).expect("a record is short");
        out.push(b'M');
        out.extend_from_slice(&length.to_be_bytes());
        let at = out.len();
        out.extend_from_slice(bytes);
        self.apply(&mut out[at..]);
    }
}

/// Why a layered connection cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MaskError<E> {
    NoRecord,
    Truncated,
    Inner(E),
}

impl<E: fmt::Display> fmt::Display for MaskError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRecord => f.write_str("this is no record"),
            Self::Truncated => f.write_str("the peer closed in the middle of a record"),
            Self::Inner(fault) => fault.fmt(f),
        }
    }
}

impl<E: Fault> std::error::Error for MaskError<E> {}

impl<E: Fault> Fault for MaskError<E> {
    fn side(&self) -> Side {
        match self {
            Self::NoRecord | Self::Truncated => Side::Peer,
            Self::Inner(fault) => fault.side(),
        }
    }
}

/// `plain` in records of random sizes, empty ones among them.
pub(crate) fn mask(mut plain: &[u8], random: &mut Random) -> Vec<u8> {
    let (mut key, mut records) = (Key::default(), Vec::new());
    while !plain.is_empty() {
        let most = [4, 50, RECORD_BYTES][random.below(3)];
        let (record, rest) = plain.split_at(random.below(most + 1).min(plain.len()));
        key.record(record, &mut records);
        plain = rest;
    }
    records
}

/// Undoes [`mask`].
pub(crate) fn unmask(mut records: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    while let Some(end) = record_end::<LengthError>(records).expect("the layer wrote it") {
        plain.extend_from_slice(&records[HEADER_BYTES..end]);
        records = &records[end..];
    }
    assert_eq!(records, [0; 0], "no whole record");
    Key::default().apply(&mut plain);
    plain
}

const LIMIT_BYTES: u32 = 3000;

fn length() -> Length {
    Length::new(LIMIT_BYTES)
}

fn masked() -> Case<Mask<Length>> {
    Case {
        layers: 1,
        decode: unmask,
        ..Case::plain(|| Mask::new(length()))
    }
}

fn masked_twice() -> Case<Mask<Mask<Length>>> {
    let decode = |records: &[u8]| unmask(&unmask(records));
    Case {
        layers: 2,
        decode,
        ..Case::plain(|| Mask::new(Mask::new(length())))
    }
}

fn masked_echo() -> Case<Mask<Echo>> {
    Case {
        layers: 1,
        decode: unmask,
        ..Case::plain(|| Mask::new(Echo))
    }
}

fn some_frames() -> Vec<u8> {
    frames([&b"one"[..], b"", b"three", &[200; 1100], b"4"])
}

#[test]
fn frames_come_through_one_layer_and_through_two() {
    let (plain, mut random) = (some_frames(), Random::new(3));
    let once = mask(&plain, &mut random);
    let outcome = masked().check(&once);
    assert_eq!(
        (&outcome.notes, &outcome.output),
        (&plain, &answers(&plain))
    );
    assert_eq!(outcome.end, Ok(Next::Close));
    let outcome = masked_twice().check(&mask(&once, &mut random));
    assert_eq!(
        (&outcome.notes, &outcome.output),
        (&plain, &answers(&plain))
    );
    assert_eq!(outcome.end, Ok(Next::Close));
}

#[test]
fn plain_bytes_come_through_a_layer() {
    let plain = Random::new(4).bytes(1500);
    let outcome = masked_echo().check(&mask(&plain, &mut Random::new(5)));
    let expected: Vec<u8> = plain.iter().map(|byte| byte.wrapping_add(1)).collect();
    assert_eq!((outcome.notes, outcome.output), (plain, expected));
}

#[test]
fn the_bounds_of_a_turn_hold_through_layers() {
    let small = frames([&b"x"[..]; 200]);
    let outcome = masked().check(&mask(&small, &mut Random::new(6)));
    assert_eq!(outcome.notes, small);
    let app = Answering {
        padding_bytes: 2500,
        ..Answering::default()
    };
    let case = Case {
        app,
        ..masked_twice()
    };
    let mut random = Random::new(7);
    let once = mask(&small, &mut random);
    let outcome = case.check_cuts(&mask(&once, &mut random), 7);
    assert_eq!(outcome.notes, small);
}

#[test]
fn a_pause_of_the_application_comes_through_layers() {
    let app = Answering {
        pause_every: 2,
        ..Answering::default()
    };
    let case = Case { app, ..masked() };
    let plain = some_frames();
    let outcome = case.check(&mask(&plain, &mut Random::new(8)));
    assert_eq!(outcome.output, answers(&plain));
}

#[test]
fn an_error_of_the_inner_machine_comes_out_after_its_last_answers() {
    let good = frames([&b"good"[..], b"as well"]);
    let plain = [&good[..], &(LIMIT_BYTES + 1).to_be_bytes()].concat();
    let outcome = masked().check(&mask(&plain, &mut Random::new(9)));
    let fault = "Inner(TooLong { length_bytes: 3001, limit_bytes: 3000 })";
    assert_eq!(outcome.end, Err(fault.to_owned()));
    assert_eq!(outcome.output, answers(&good));
}

#[test]
fn an_error_of_the_layer_comes_out() {
    let mut records = mask(&some_frames(), &mut Random::new(10));
    records.extend_from_slice(b"not a record");
    let outcome = masked().check(&records);
    assert_eq!(outcome.end, Err("NoRecord".to_owned()));
    assert_eq!(outcome.output, answers(&some_frames()));
}

#[test]
fn the_end_of_input_reaches_the_inner_machine() {
    let half = &frame(b"half of this")[..9];
    let records = mask(half, &mut Random::new(11));
    let outcome = masked().check(&records);
    assert_eq!(
        outcome.end,
        Err("Inner(Truncated { unread_bytes: 9 })".to_owned())
    );
    let outcome = masked().check(&records[..records.len() - 1]);
    assert_eq!(outcome.end, Err("Truncated".to_owned()));
}

#[test]
fn unasked_output_goes_through_every_layer() {
    let mut machine = Mask::new(Mask::new(length()));
    let (now, mut sent) = (Instant::now(), Vec::new());
    for payload in [&b"push"[..], &[5; 2500]] {
        let mut out = Vec::new();
        let result = machine.send(now, &mut out, |mut reply| reply.send(payload));
        assert_eq!(result, Ok(Ok(())));
        sent.append(&mut out);
    }
    assert_eq!(unmask(&unmask(&sent)), frames([&b"push"[..], &[5; 2500]]));
}

#[test]
fn what_one_end_sends_the_other_understands() {
    let mut client = Mask::new(Mask::new(length()));
    let mut server = Feed::new(Mask::new(Mask::new(length())), Answering::default(), 2);
    for payload in [&b"ask"[..], b"", &[5; 3000]] {
        let mut out = Vec::new();
        let result = client.send(Instant::now(), &mut out, |mut reply| reply.send(payload));
        assert_eq!(result, Ok(Ok(())));
        out.chunks(7).for_each(|piece| server.piece(piece));
    }
    assert_eq!(
        server.finish().notes,
        frames([&b"ask"[..], b"", &[5; 3000]])
    );
}

#[test]
fn random_frames_cut_at_random_through_layers() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let plain = random_frames(30, [3, 40, 3000][random.below(3)], &mut random);
        let once = mask(&plain, &mut random);
        let app = Answering {
            pause_every: random.below(4),
            ..Answering::default()
        };
        let case = Case {
            app: app.clone(),
            ..masked()
        };
        assert!(
            case.check_cuts(&once, seed).output == answers(&plain),
            "seed {seed}"
        );
        let case = Case {
            app,
            ..masked_twice()
        };
        let outcome = case.check_cuts(&mask(&once, &mut random), seed);
        assert!(outcome.output == answers(&plain), "seed {seed}");
    }
}
