//! A client and a server over a pair of ways, in pieces of every size: every request is answered, in order, within the window.

use super::Service;
use crate::random::Random;
use shardloop_protocols::{
    Flow, Next, StreamMachine,
    http1::{Answer, Ask, Client, ClientOptions, Server, ServerOptions},
};
use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

const LATENCY: Duration = Duration::from_millis(20);

/// What is on its way.
type Way = VecDeque<(Instant, Vec<u8>)>;

struct Pair {
    client: Client,
    server: Server,
    service: Service,
    unread: [Vec<u8>; 2],
    ways: [Way; 2],
    now: Instant,
    piece_bytes: usize,
    to_ask: VecDeque<Vec<u8>>,
    outstanding: VecDeque<Vec<u8>>,
    most_outstanding: usize,
    random: Random,
}

impl Pair {
    fn new(requests: usize, window: usize, piece_bytes: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let body = |random: &mut Random| {
            let most = [1, 100, 70_000][random.below(3)];
            let bytes = random.below(most);
            random.bytes(bytes)
        };
        let options = ClientOptions {
            outstanding: window,
            ..ClientOptions::DEFAULT
        };
        Self {
            client: Client::new("h", options).expect("the test keeps to the rules"),
            server: Server::new(ServerOptions::DEFAULT),
            service: Service::default(),
            unread: Default::default(),
            ways: Default::default(),
            now: Instant::now(),
            piece_bytes,
            to_ask: (0..requests).map(|_| body(&mut random)).collect(),
            outstanding: VecDeque::new(),
            most_outstanding: 0,
            random,
        }
    }

    /// Until nothing is under way and nothing is left to ask; the virtual time it took.
    fn drive(&mut self) -> Duration {
        let start = self.now;
        loop {
            self.ask();
            let fronts = self.ways.iter().filter_map(|way| way.front());
            let Some(arrival) = fronts.map(|(at, _)| *at).min() else {
                return self.now - start;
            };
            self.now = arrival;
            self.deliver();
        }
    }

    fn ask(&mut self) {
        while self.client.is_ready()
            && let Some(body) = self.to_ask.pop_front()
        {
            let mut out = Vec::new();
            let how = self.random.below(3);
            let sent = self
                .client
                .send(self.now, &mut out, |ask| write(ask, how, &body));
            assert_eq!(sent, Ok(()));
            self.outstanding.push_back(body);
            self.carry(1, &out);
        }
        self.most_outstanding = self.most_outstanding.max(self.outstanding.len());
        assert_eq!(self.client.outstanding(), self.outstanding.len());
    }

    fn carry(&mut self, to: usize, bytes: &[u8]) {
        let arrival = self.now + LATENCY;
        let pieces = bytes.chunks(self.piece_bytes);
        self.ways[to].extend(pieces.map(|piece| (arrival, piece.to_vec())));
    }

    fn deliver(&mut self) {
        for to in [0, 1] {
            while self.ways[to].front().is_some_and(|(at, _)| *at <= self.now)
                && let Some((_, piece)) = self.ways[to].pop_front()
            {
                self.unread[to].extend_from_slice(&piece);
                while self.show(to) == Next::Again {}
            }
        }
    }

    fn show(&mut self, to: usize) -> Next {
        let mut out = Vec::new();
        let unread = &mut self.unread[to];
        let step = if to == 0 {
            let outstanding = &mut self.outstanding;
            let mut app = |answer: Answer<'_>, _: Ask<'_>| {
                let asked = outstanding.pop_front().expect("a request was unanswered");
                assert!(answer.body == asked, "in order and unchanged");
                Flow::Continue
            };
            self.client.handle(self.now, unread, &mut app, &mut out)
        } else {
            self.server
                .handle(self.now, unread, &mut self.service, &mut out)
        };
        let step = step.expect("both keep to the protocol");
        unread.drain(..step.consumed);
        self.carry(1 - to, &out);
        step.next
    }
}

/// Writes a request in one of three ways.
fn write(mut ask: Ask<'_>, how: usize, body: &[u8]) {
    match how {
        0 => ask
            .write("POST", "/", &[], body)
            .expect("the test keeps to the rules"),
        1 => ask
            .write("POST", "/chunked", &[], body)
            .expect("the test keeps to the rules"),
        _ => {
            let mut writer = ask
                .chunked("PUT", "/", &[])
                .expect("the test keeps to the rules");
            body.chunks(1000).for_each(|piece| writer.chunk(piece));
            writer.finish();
        }
    }
}

fn check(requests: usize, window: usize, piece_bytes: usize, seed: u64) -> Duration {
    let mut pair = Pair::new(requests, window, piece_bytes, seed);
    let took = pair.drive();
    let what = format!("pieces of {piece_bytes}, seed {seed}");
    assert_eq!(pair.service.requests, requests, "{what}");
    assert_eq!(pair.outstanding.len(), 0, "{what}");
    assert_eq!(pair.most_outstanding, requests.min(window), "{what}");
    let end = pair.server.end_of_input(pair.now, 0, &mut Vec::new());
    assert_eq!(end.map(|step| step.next), Ok(Next::Close), "{what}");
    let end = pair.client.end_of_input(pair.now, 0, &mut Vec::new());
    assert_eq!(end.map(|step| step.next), Ok(Next::Close), "{what}");
    took
}

#[test]
fn every_request_is_answered_in_order() {
    for piece_bytes in [7, 1448, 65_536, usize::MAX] {
        for window in [1, 8] {
            check(20, window, piece_bytes, 1);
        }
    }
    for seed in 0..5 {
        check(100, 16, 1448, seed);
    }
}

#[test]
fn one_window_takes_one_round_trip() {
    assert_eq!(check(8, 8, usize::MAX, 2), 2 * LATENCY);
    assert_eq!(check(9, 8, usize::MAX, 2), 4 * LATENCY);
    assert_eq!(check(3, 1, usize::MAX, 2), 6 * LATENCY);
}

#[test]
fn nothing_to_say_takes_no_time() {
    assert_eq!(check(0, 1, 1, 3), Duration::ZERO);
}
