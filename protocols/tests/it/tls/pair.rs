//! A client and a server with a stream in memory between them, which cuts what it carries; time is virtual.

use crate::{
    random::Random,
    splits::{Answer, Answering},
};
use shardloop_protocols::{App, Flow, Next, StreamMachine};
use std::{
    marker::PhantomData,
    time::{Duration, Instant},
};

/// How a stream cuts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    Whole,
    Bytes,
    /// What is short byte by byte, and a server's part of the handshake whole.
    ShortBytes,
    Random(u64),
}

pub(crate) const CUTS: [Cut; 6] = [
    Cut::Whole,
    Cut::Bytes,
    Cut::ShortBytes,
    Cut::Random(1),
    Cut::Random(2),
    Cut::Random(3),
];

impl Cut {
    pub(crate) fn pieces(self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut random = match self {
            Self::Whole => return vec![bytes.to_vec()],
            Self::ShortBytes if bytes.len() > 300 => return vec![bytes.to_vec()],
            Self::Bytes | Self::ShortBytes => return bytes.chunks(1).map(<[u8]>::to_vec).collect(),
            Self::Random(seed) => Random::new(seed.wrapping_add(bytes.len() as u64)),
        };
        let (mut rest, mut pieces) = (bytes, Vec::new());
        while !rest.is_empty() {
            let most = [3, 100, 20_000][random.below(3)].min(rest.len());
            let (piece, left) = rest.split_at(1 + random.below(most));
            pieces.push(piece.to_vec());
            rest = left;
        }
        pieces
    }
}

/// Remembers what it is told.
#[derive(Clone, Default)]
pub(crate) struct Listening {
    pub(crate) notes: Vec<u8>,
}

impl<M> App<M> for Listening
where
    M: for<'m> StreamMachine<Message<'m> = &'m mut [u8]>,
    for<'r> M::Reply<'r>: Answer,
{
    fn message(&mut self, message: &mut [u8], _: M::Reply<'_>) -> Flow {
        <M::Reply<'_>>::note(message, &mut self.notes);
        Flow::Continue
    }
}

/// One end, driven as the contract of the machines says.
pub(crate) struct End<M: StreamMachine, A> {
    pub(crate) machine: M,
    pub(crate) app: A,
    /// Put out and not carried to the other end yet.
    pub(crate) sent: Vec<u8>,
    /// How it ended.
    pub(crate) end: Option<Result<(), M::Error>>,
    unread: Vec<u8>,
}

impl<M: StreamMachine, A: App<M>> End<M, A> {
    pub(crate) fn new(machine: M, app: A) -> Self {
        Self {
            machine,
            app,
            sent: Vec::new(),
            end: None,
            unread: Vec::new(),
        }
    }

    pub(crate) fn start(&mut self, now: Instant) {
        let mut out = Vec::new();
        let step = self.machine.start(now, &mut out).map(|step| step.next);
        self.conclude(step, out);
    }

    /// Works off a piece.
    pub(crate) fn hear(&mut self, now: Instant, piece: &[u8]) {
        self.unread.extend_from_slice(piece);
        let mut idle = 0;
        while self.end.is_none() {
            let mut out = Vec::new();
            let before = self.unread.clone();
            let step = self
                .machine
                .handle(now, &mut self.unread, &mut self.app, &mut out);
            let consumed = step.as_ref().map_or(before.len(), |step| step.consumed);
            assert_eq!(self.unread[consumed..], before[consumed..]);
            self.unread.drain(..consumed);
            idle = if consumed == 0 && out.is_empty() {
                idle + 1
            } else {
                0
            };
            // A pause without an answer is no progress that can be seen from here.
            assert!(idle < 10_000, "the same call again and again");
            let next = step.map(|step| step.next);
            let is_done = !matches!(next, Ok(Next::Again));
            self.conclude(next, out);
            if is_done {
                break;
            }
        }
    }

    pub(crate) fn send<R>(
        &mut self,
        now: Instant,
        f: impl FnOnce(M::Reply<'_>) -> R,
    ) -> Result<R, M::Error> {
        let mut out = Vec::new();
        let value = self.machine.send(now, &mut out, f);
        self.sent.append(&mut out);
        value
    }

    pub(crate) fn close(&mut self, now: Instant) {
        let mut out = Vec::new();
        let step = self.machine.close(now, &mut out).map(|step| step.next);
        self.conclude(step, out);
    }

    pub(crate) fn time_out(&mut self, now: Instant) {
        let mut out = Vec::new();
        let step = self.machine.handle_timeout(now, &mut out);
        self.conclude(step.map(|step| step.next), out);
    }

    /// The other end has hung up.
    pub(crate) fn end_of_input(&mut self, now: Instant) {
        if self.end.is_none() {
            let (mut out, unread) = (Vec::new(), self.unread.len());
            let step = self.machine.end_of_input(now, unread, &mut out);
            self.conclude(step.map(|step| step.next), out);
        }
    }

    /// The fault it ended with.
    pub(crate) fn fault(&self) -> &M::Error {
        match &self.end {
            Some(Err(fault)) => fault,
            other => panic!("it ended with {other:?} and not with a fault"),
        }
    }

    fn conclude(&mut self, next: Result<Next, M::Error>, mut out: Vec<u8>) {
        self.sent.append(&mut out);
        match next {
            Ok(Next::Close) => self.end = Some(Ok(())),
            Ok(_) => {}
            Err(fault) => self.end = Some(Err(fault)),
        }
    }
}

/// Two ends of the same protocol.
pub(crate) struct Pair<M: StreamMachine> {
    pub(crate) client: End<M, Listening>,
    pub(crate) server: End<M, Answering>,
    pub(crate) now: Instant,
    pub(crate) cut: Cut,
    machine: PhantomData<M>,
}

impl<M> Pair<M>
where
    M: for<'m> StreamMachine<Message<'m> = &'m mut [u8]>,
    for<'r> M::Reply<'r>: Answer,
{
    pub(crate) fn new(client: M, server: M, cut: Cut) -> Self {
        Self {
            client: End::new(client, Listening::default()),
            server: End::new(server, Answering::default()),
            now: Instant::now(),
            cut,
            machine: PhantomData,
        }
    }

    /// As [`new`](Self::new), until nothing is under way.
    pub(crate) fn connected(client: M, server: M, cut: Cut) -> Self {
        let mut pair = Self::new(client, server, cut);
        pair.start();
        pair.run();
        pair
    }

    pub(crate) fn start(&mut self) {
        self.server.start(self.now);
        self.client.start(self.now);
    }

    /// Until nothing is under way.
    pub(crate) fn run(&mut self) {
        while !(self.client.sent.is_empty() && self.server.sent.is_empty()) {
            self.now += Duration::from_millis(1);
            for piece in self.cut.pieces(&std::mem::take(&mut self.client.sent)) {
                self.server.hear(self.now, &piece);
            }
            for piece in self.cut.pieces(&std::mem::take(&mut self.server.sent)) {
                self.client.hear(self.now, &piece);
            }
        }
    }

    /// Until nothing is under way; then whoever has ended hangs up.
    pub(crate) fn run_to_end(&mut self) {
        self.run();
        if self.client.end.is_some() {
            self.server.end_of_input(self.now);
        }
        if self.server.end.is_some() {
            self.client.end_of_input(self.now);
        }
    }

    /// The client sends, and nothing is carried yet.
    pub(crate) fn say(&mut self, payload: &[u8]) {
        let sent = self.client.send(self.now, |reply| reply.answer(payload));
        sent.expect("the connection is ready");
    }

    pub(crate) fn ask(&mut self, payload: &[u8]) {
        self.say(payload);
        self.run();
    }
}

/// Type and bytes of each record in `bytes`, headers left out.
pub(crate) fn records(mut bytes: &[u8]) -> Vec<(u8, usize)> {
    let mut records = Vec::new();
    while let Some((&[kind, _, _, high, low], rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low]));
        records.push((kind, length));
        bytes = &rest[length..];
    }
    assert!(bytes.is_empty(), "no whole record");
    records
}
