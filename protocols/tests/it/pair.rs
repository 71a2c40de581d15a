//! Two ends of `length`, connected in memory, with a virtual clock: both ask and both answer at once.

use crate::random::Random;
use shardloop_protocols::{
    App, Flow, Next, StreamMachine,
    length::{HEADER_BYTES, Length, Reply},
    machine::{TURN_MESSAGES, TURN_OUTPUT_BYTES},
};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Requests an end has outstanding at most.
const WINDOW: usize = 16;
const REQUEST: u8 = b'?';
const ANSWER: u8 = b'!';
const MOST_BYTES: usize = 9000;

/// Bytes under way to one end, each piece with the time of its arrival.
type Way = VecDeque<(Instant, Vec<u8>)>;

/// What an end asks and what it makes of what it is told.
#[derive(Default)]
struct Talk {
    to_ask: VecDeque<Vec<u8>>,
    outstanding: VecDeque<Vec<u8>>,
    outstanding_most: usize,
    answered: usize,
    /// Of the current call.
    messages: usize,
}

impl App<Length> for Talk {
    fn message(&mut self, message: &mut [u8], mut reply: Reply<'_>) -> Flow {
        self.messages += 1;
        let (kind, body) = message.split_first_mut().expect("every message has a kind");
        if *kind == REQUEST {
            *kind = ANSWER;
            body.reverse();
            reply.send(message).expect("it is as long as the request");
        } else {
            body.reverse();
            let asked = self
                .outstanding
                .pop_front()
                .expect("an answer belongs to a request");
            assert!(
                asked[1..] == *body,
                "the answers come in order and unchanged"
            );
            self.answered += 1;
        }
        Flow::Continue
    }
}

struct End {
    machine: Length,
    talk: Talk,
    unread: Vec<u8>,
}

impl End {
    fn new(requests: usize, random: &mut Random) -> Self {
        let request = |random: &mut Random| {
            let most = [10, 1000, MOST_BYTES][random.below(3)];
            let bytes = random.below(most);
            [&[REQUEST][..], &random.bytes(bytes)].concat()
        };
        let to_ask = (0..requests).map(|_| request(random)).collect();
        let talk = Talk {
            to_ask,
            ..Talk::default()
        };
        Self {
            machine: Length::default(),
            talk,
            unread: Vec::new(),
        }
    }

    /// Asks until the window is full; what it sends.
    fn ask(&mut self, now: Instant) -> Vec<u8> {
        let mut sent = Vec::new();
        while self.talk.outstanding.len() < WINDOW
            && let Some(request) = self.talk.to_ask.pop_front()
        {
            let mut out = Vec::new();
            let result = self
                .machine
                .send(now, &mut out, |mut reply| reply.send(&request));
            assert_eq!(result, Ok(Ok(())));
            assert_eq!(out.len(), HEADER_BYTES + request.len());
            sent.append(&mut out);
            self.talk.outstanding.push_back(request);
        }
        self.talk.outstanding_most = self.talk.outstanding_most.max(self.talk.outstanding.len());
        sent
    }

    /// Works off a piece; what it answers.
    fn hear(&mut self, now: Instant, piece: &[u8]) -> Vec<u8> {
        self.unread.extend_from_slice(piece);
        let mut sent = Vec::new();
        loop {
            let mut out = Vec::new();
            self.talk.messages = 0;
            let step = self
                .machine
                .handle(now, &mut self.unread, &mut self.talk, &mut out);
            let step = step.expect("the other end keeps to the protocol");
            assert!(self.talk.messages <= TURN_MESSAGES);
            assert!(out.len() < TURN_OUTPUT_BYTES + HEADER_BYTES + MOST_BYTES);
            sent.append(&mut out);
            self.unread.drain(..step.consumed);
            if step.next == Next::NeedInput {
                return sent;
            }
        }
    }
}

struct Pair {
    ends: [End; 2],
    /// `ways[i]` leads to `ends[i]`.
    ways: [Way; 2],
    now: Instant,
    latency: Duration,
    piece_bytes: usize,
}

impl Pair {
    fn new(requests: [usize; 2], piece_bytes: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let ends = requests.map(|count| End::new(count, &mut random));
        let latency = Duration::from_millis(20);
        Self {
            ends,
            ways: Default::default(),
            now: Instant::now(),
            latency,
            piece_bytes,
        }
    }

    /// Until nothing is under way and nobody has anything to say; the virtual time it took.
    fn drive(&mut self) -> Duration {
        let start = self.now;
        loop {
            for side in [0, 1] {
                let sent = self.ends[side].ask(self.now);
                self.carry(1 - side, &sent);
            }
            let Some(arrival) = self
                .ways
                .iter()
                .filter_map(|way| way.front())
                .map(|(at, _)| *at)
                .min()
            else {
                return self.now - start;
            };
            self.now = arrival;
            (0..2).for_each(|side| self.deliver(side));
        }
    }

    fn carry(&mut self, to: usize, bytes: &[u8]) {
        let arrival = self.now + self.latency;
        let pieces = bytes
            .chunks(self.piece_bytes)
            .map(|piece| (arrival, piece.to_vec()));
        self.ways[to].extend(pieces);
    }

    fn deliver(&mut self, to: usize) {
        while self.ways[to].front().is_some_and(|(at, _)| *at <= self.now)
            && let Some((_, piece)) = self.ways[to].pop_front()
        {
            let sent = self.ends[to].hear(self.now, &piece);
            self.carry(1 - to, &sent);
        }
    }
}

fn check(requests: [usize; 2], piece_bytes: usize, seed: u64) -> Duration {
    let mut pair = Pair::new(requests, piece_bytes, seed);
    let took = pair.drive();
    for (end, asked) in pair.ends.iter_mut().zip(requests) {
        let what = format!("pieces of {piece_bytes}, seed {seed}");
        assert_eq!(end.talk.answered, asked, "{what}");
        assert_eq!(end.talk.outstanding_most, asked.min(WINDOW), "{what}");
        let end = end
            .machine
            .end_of_input(pair.now, end.unread.len(), &mut Vec::new());
        assert_eq!(end.map(|step| step.next), Ok(Next::Close), "{what}");
    }
    took
}

#[test]
fn a_client_is_answered_in_order() {
    for piece_bytes in [1, 7, 1448, 65_536, usize::MAX] {
        check([40, 0], piece_bytes, 1);
    }
}

#[test]
fn both_ends_ask_and_answer_at_once() {
    for seed in 0..9 {
        check(
            [150, 90],
            [3, 1448, 65_536][usize::try_from(seed % 3).unwrap()],
            seed,
        );
    }
}

#[test]
fn one_window_takes_one_round_trip() {
    assert_eq!(check([WINDOW, 0], usize::MAX, 2), Duration::from_millis(40));
    assert_eq!(
        check([WINDOW + 1, 0], usize::MAX, 2),
        Duration::from_millis(80)
    );
}

#[test]
fn two_ends_with_nothing_to_say_are_idle() {
    assert_eq!(check([0, 0], 1, 3), Duration::ZERO);
}
