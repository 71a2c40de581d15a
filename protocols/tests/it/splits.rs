//! Any stream machine, fed the same bytes whole, in two pieces cut at every place, and byte by byte: it must not make a difference.

use crate::random::Random;
use shardloop_protocols::{
    App, Flow, Next, StreamMachine,
    echo::{self, Echo},
    length::{self, Length},
    machine::{TURN_MESSAGES, TURN_OUTPUT_BYTES},
};
use std::time::Instant;

/// Sends a test's answer through a machine's reply, and knows what of a message does not depend on how the input was cut.
pub(crate) trait Answer {
    fn answer(self, bytes: &[u8]);
    fn note(message: &[u8], notes: &mut Vec<u8>);
}

impl Answer for length::Reply<'_> {
    fn answer(mut self, bytes: &[u8]) {
        self.send(bytes).expect("the test stays within the limit");
    }

    fn note(message: &[u8], notes: &mut Vec<u8>) {
        notes.extend_from_slice(&frame(message));
    }
}

impl Answer for echo::Reply<'_> {
    fn answer(mut self, bytes: &[u8]) {
        self.send(bytes);
    }

    /// Where one message ends and the next begins is as the input was cut.
    fn note(message: &[u8], notes: &mut Vec<u8>) {
        notes.extend_from_slice(message);
    }
}

/// Answers each message with itself, each byte increased by one in place, and some padding.
#[derive(Clone, Default)]
pub(crate) struct Answering {
    pub(crate) padding_bytes: usize,
    /// Pauses after every message with a number divisible by it; 0 for never.
    pub(crate) pause_every: usize,
    pub(crate) notes: Vec<u8>,
    pub(crate) messages: usize,
}

impl<M> App<M> for Answering
where
    M: for<'m> StreamMachine<Message<'m> = &'m mut [u8]>,
    for<'r> M::Reply<'r>: Answer,
{
    fn message(&mut self, message: &mut [u8], reply: M::Reply<'_>) -> Flow {
        <M::Reply<'_>>::note(message, &mut self.notes);
        message
            .iter_mut()
            .for_each(|byte| *byte = byte.wrapping_add(1));
        match self.padding_bytes {
            0 => reply.answer(message),
            padding => reply.answer(&[message, &vec![7; padding][..]].concat()),
        }
        self.messages += 1;
        match self.pause_every {
            0 => Flow::Continue,
            every if self.messages.is_multiple_of(every) => Flow::Pause,
            _ => Flow::Continue,
        }
    }
}

/// An application whose view of a connection can be compared.
pub(crate) trait Witness: Clone {
    /// Messages it was shown.
    fn messages(&self) -> usize;
    /// The longest reply it gives to so many bytes of input.
    fn longest_reply_bytes(&self, input_bytes: usize) -> usize;
    /// What it was shown, as far as it does not depend on how the input was cut.
    fn into_notes(self) -> Vec<u8>;
}

impl Witness for Answering {
    fn messages(&self) -> usize {
        self.messages
    }

    fn longest_reply_bytes(&self, input_bytes: usize) -> usize {
        self.padding_bytes + input_bytes + 4
    }

    fn into_notes(self) -> Vec<u8> {
        self.notes
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

/// One connection, driven as the contract of the machines says.
pub(crate) struct Feed<M, A = Answering> {
    pub(crate) machine: M,
    pub(crate) app: A,
    pub(crate) output: Vec<u8>,
    layers: usize,
    pending: Vec<u8>,
    now: Instant,
    end: Option<Result<Next, String>>,
}

impl<M: StreamMachine, A: App<M> + Witness> Feed<M, A> {
    pub(crate) fn new(machine: M, app: A, layers: usize) -> Self {
        let now = Instant::now();
        Self {
            machine,
            app,
            output: Vec::new(),
            layers,
            pending: Vec::new(),
            now,
            end: None,
        }
    }

    /// Shows `piece`, behind what was not consumed, as long as the machine wants to see it.
    pub(crate) fn piece(&mut self, piece: &[u8]) {
        self.pending.extend_from_slice(piece);
        let mut idle = 0;
        while self.end.is_none() {
            let before = (self.pending.len(), self.app.messages());
            if !self.call() {
                break;
            }
            let progress = before != (self.pending.len(), self.app.messages());
            idle = if progress { 0 } else { idle + 1 };
            assert!(
                idle < 3,
                "the machine asks for the same call again and again"
            );
        }
    }

    /// One call of `handle`; whether it wants another.
    fn call(&mut self) -> bool {
        let (mut out, before, told) = (Vec::new(), self.pending.clone(), self.app.messages());
        let step = self
            .machine
            .handle(self.now, &mut self.pending, &mut self.app, &mut out);
        assert!(
            self.app.messages() - told <= TURN_MESSAGES,
            "more messages than one call may bring"
        );
        let reply_bytes = self.app.longest_reply_bytes(before.len());
        // A layer stops at the bound, but cannot cut short the inner call that crosses it; and it adds headers.
        let bound = (self.layers + 1) * TURN_OUTPUT_BYTES + reply_bytes;
        let bound = bound + bound * self.layers / 100;
        assert!(
            out.len() <= bound,
            "{} bytes of output in one call",
            out.len()
        );
        self.output.append(&mut out);
        match step {
            Ok(step) => {
                assert_eq!(
                    self.pending[step.consumed..],
                    before[step.consumed..],
                    "unconsumed bytes changed"
                );
                self.pending.drain(..step.consumed);
                if step.next == Next::Close {
                    self.end = Some(Ok(Next::Close));
                }
                step.next == Next::Again
            }
            Err(fault) => {
                self.end = Some(Err(format!("{fault:?}")));
                false
            }
        }
    }

    pub(crate) fn finish(mut self) -> Outcome {
        let mut out = Vec::new();
        let end = self.end.take().unwrap_or_else(|| {
            let step = self
                .machine
                .end_of_input(self.now, self.pending.len(), &mut out);
            step.map(|step| step.next)
                .map_err(|fault| format!("{fault:?}"))
        });
        self.output.append(&mut out);
        Outcome {
            notes: self.app.into_notes(),
            output: self.output,
            end,
        }
    }
}

/// A byte string for a machine, and how its output is to be compared.
pub(crate) struct Case<M, A = Answering> {
    pub(crate) machine: fn() -> M,
    pub(crate) app: A,
    pub(crate) layers: usize,
    /// Undoes the framing of layers, which may cut the output differently.
    pub(crate) decode: fn(&[u8]) -> Vec<u8>,
}

impl<M: StreamMachine> Case<M>
where
    Answering: App<M>,
{
    pub(crate) fn plain(machine: fn() -> M) -> Self {
        Self::with(machine, Answering::default())
    }
}

impl<M: StreamMachine, A: App<M> + Witness> Case<M, A> {
    pub(crate) fn with(machine: fn() -> M, app: A) -> Self {
        Self {
            machine,
            app,
            layers: 0,
            decode: <[u8]>::to_vec,
        }
    }

    pub(crate) fn run<'p>(&self, pieces: impl IntoIterator<Item = &'p [u8]>) -> Outcome {
        let mut feed = Feed::new((self.machine)(), self.app.clone(), self.layers);
        pieces.into_iter().for_each(|piece| feed.piece(piece));
        let mut outcome = feed.finish();
        outcome.output = (self.decode)(&outcome.output);
        outcome
    }

    /// Feeds `input` in every way; what all of them came to.
    pub(crate) fn check(&self, input: &[u8]) -> Outcome {
        let whole = self.run([input]);
        for at in 0..=input.len() {
            let (front, back) = input.split_at(at);
            assert_same(&self.run([front, back]), &whole, &format!("cut at {at}"));
        }
        assert_same(&self.run(input.chunks(1)), &whole, "byte by byte");
        whole
    }

    /// Feeds `input` cut at random.
    pub(crate) fn check_cuts(&self, input: &[u8], seed: u64) -> Outcome {
        let whole = self.run([input]);
        let cuts = random_cuts(input, &mut Random::new(seed));
        assert_same(
            &self.run(cuts),
            &whole,
            &format!("random cuts, seed {seed}"),
        );
        whole
    }
}

fn assert_same(one: &Outcome, whole: &Outcome, how: &str) {
    assert_eq!(one.end, whole.end, "{how}");
    assert!(one.notes == whole.notes, "{how}: other messages");
    assert!(one.output == whole.output, "{how}: other output");
}

fn random_cuts<'i>(mut input: &'i [u8], random: &mut Random) -> Vec<&'i [u8]> {
    let mut pieces = Vec::new();
    while !input.is_empty() {
        let most = [2, 20, 3000][random.below(3)];
        let (piece, rest) = input.split_at(1 + random.below(most.min(input.len())));
        pieces.push(piece);
        input = rest;
    }
    pieces
}

/// `payload` as a frame of [`Length`].
pub(crate) fn frame(payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a test's payload is short");
    [&length.to_be_bytes(), payload].concat()
}

pub(crate) fn frames<'p>(payloads: impl IntoIterator<Item = &'p [u8]>) -> Vec<u8> {
    payloads.into_iter().flat_map(frame).collect()
}

/// Frames with random payloads of up to `most` bytes.
pub(crate) fn random_frames(count: usize, most: usize, random: &mut Random) -> Vec<u8> {
    let frame_of = |random: &mut Random| {
        let bytes = random.below(most + 1);
        frame(&random.bytes(bytes))
    };
    (0..count).flat_map(|_| frame_of(random)).collect()
}

/// What [`Answering`] without padding answers to `input`, a row of whole frames.
pub(crate) fn answers(mut input: &[u8]) -> Vec<u8> {
    let mut answers = Vec::new();
    while let Some((header, rest)) = input.split_first_chunk::<4>() {
        let (payload, rest) = rest.split_at(u32::from_be_bytes(*header) as usize);
        answers.extend_from_slice(header);
        answers.extend(payload.iter().map(|byte| byte.wrapping_add(1)));
        input = rest;
    }
    answers
}

const LIMIT_BYTES: u32 = 300;

fn length() -> Length {
    Length::new(LIMIT_BYTES)
}

fn check_length(input: &[u8]) -> Outcome {
    Case::plain(length).check(input)
}

#[test]
fn length_takes_empty_short_and_longest_payloads() {
    for payload in [&[][..], b"x", &[9; LIMIT_BYTES as usize]] {
        let outcome = check_length(&frame(payload));
        assert_eq!(outcome.notes, frame(payload));
        assert_eq!(outcome.output, answers(&frame(payload)));
        assert_eq!(outcome.end, Ok(Next::Close));
    }
}

#[test]
fn length_takes_several_frames_in_order() {
    let input = frames([&b"one"[..], b"", b"three", b"4", &[200; 200]]);
    let outcome = check_length(&input);
    assert_eq!(
        (&outcome.notes, &outcome.output),
        (&input, &answers(&input))
    );
}

#[test]
fn length_takes_more_frames_than_one_turn_has() {
    let payloads: Vec<[u8; 1]> = (0..200).map(|n| [n]).collect();
    let input = frames(payloads.iter().map(|payload| &payload[..]));
    let outcome = check_length(&input);
    assert_eq!(
        (&outcome.notes, &outcome.output),
        (&input, &answers(&input))
    );
}

#[test]
fn length_puts_out_more_than_one_turn_may() {
    let app = Answering {
        padding_bytes: 20_000,
        ..Answering::default()
    };
    let case = Case {
        app,
        ..Case::plain(|| Length::new(30_000))
    };
    let input = frames([&b"abc"[..]; 16]);
    let outcome = case.check(&input);
    assert_eq!(outcome.notes, input);
    assert_eq!(outcome.output.len(), 16 * (4 + 3 + 20_000));
}

#[test]
fn length_goes_on_after_a_pause() {
    let app = Answering {
        pause_every: 3,
        ..Answering::default()
    };
    let case = Case {
        app,
        ..Case::plain(length)
    };
    let input = frames([&b"abc"[..]; 20]);
    assert_eq!(case.check(&input).output, answers(&input));
}

#[test]
fn length_refuses_an_over_long_length_once_its_header_is_there() {
    let good = frames([&b"good"[..], b"as well"]);
    let input = [&good[..], &(LIMIT_BYTES + 1).to_be_bytes(), b"whatever"].concat();
    let outcome = check_length(&input);
    assert_eq!(outcome.output, answers(&good));
    let fault = "TooLong { length_bytes: 301, limit_bytes: 300 }";
    assert_eq!(outcome.end, Err(fault.to_owned()));
}

#[test]
fn length_says_where_it_was_truncated() {
    let input = frames([&b"whole"[..], b"truncated"]);
    for unread in 1..13 {
        let outcome = check_length(&input[..9 + unread]);
        assert_eq!(
            outcome.end,
            Err(format!("Truncated {{ unread_bytes: {unread} }}"))
        );
        assert_eq!(outcome.output, answers(&input[..9]));
    }
}

#[test]
fn the_largest_length_of_all_breaks_nothing() {
    let case = Case::plain(|| Length::new(u32::MAX));
    let outcome = case.check(&[255, 255, 255, 255, 1, 2]);
    assert_eq!(outcome.end, Err("Truncated { unread_bytes: 6 }".to_owned()));
}

#[test]
fn length_takes_its_default_limit() {
    let payload = vec![42; length::DEFAULT_LIMIT_BYTES as usize];
    let case = Case::plain(Length::default);
    let input = frame(&payload);
    let whole = case.run([&input[..]]);
    assert_eq!(whole.output, answers(&input));
    assert_same(&case.run(input.chunks(65_536)), &whole, "in pieces");
}

#[test]
fn echo_answers_every_byte() {
    let input = Random::new(1).bytes(500);
    let outcome = Case::plain(|| Echo).check(&input);
    let expected: Vec<u8> = input.iter().map(|byte| byte.wrapping_add(1)).collect();
    assert_eq!((outcome.notes, outcome.output), (input, expected));
    assert_eq!(outcome.end, Ok(Next::Close));
}

#[test]
fn echo_of_nothing_is_nothing() {
    let outcome = Case::plain(|| Echo).check(&[]);
    assert_eq!((outcome.notes, outcome.output), (vec![], vec![]));
}

#[test]
fn echo_of_more_than_a_turn_comes_in_turns() {
    let input = Random::new(2).bytes(3 * TURN_OUTPUT_BYTES + 17);
    let outcome = Case::plain(|| Echo).check_cuts(&input, 2);
    assert_eq!(outcome.notes, input);
}

#[test]
fn a_pause_after_all_the_input_gives_others_their_turn() {
    let mut app = Answering {
        pause_every: 1,
        ..Answering::default()
    };
    let step = Echo.handle(Instant::now(), &mut [1, 2], &mut app, &mut Vec::new());
    assert_eq!(step.unwrap().next, Next::Again);
    let step = length().handle(Instant::now(), &mut frame(b"x"), &mut app, &mut Vec::new());
    assert_eq!(step.unwrap().next, Next::Again);
}

#[test]
fn random_frames_cut_at_random() {
    for seed in 0..100 {
        let mut random = Random::new(seed);
        let input = random_frames(40, [3, 40, 2000][random.below(3)], &mut random);
        let cut = input.len() - random.below(10).min(input.len());
        let app = Answering {
            pause_every: random.below(4),
            ..Answering::default()
        };
        let case = Case {
            app,
            ..Case::plain(|| Length::new(2000))
        };
        case.check_cuts(&input[..cut], seed);
        let outcome = case.check_cuts(&input, seed);
        assert!(outcome.output == answers(&input), "seed {seed}");
        assert_eq!(outcome.end, Ok(Next::Close), "seed {seed}");
    }
}
