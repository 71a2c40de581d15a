//! A client and a server of ours, and whatever may happen between them.

use super::{
    super::{
        Meter,
        feed::Feed,
        length::{Echo, framed},
        source::Source,
    },
    configs, terms,
};
use shardloop_protocols::{
    Step, StreamMachine,
    length::Length,
    tls::{Tls, TlsError, TlsFault},
};
use std::time::Duration;

/// More without data in between is refused by the TLS library.
const KEY_CHANGES_MOST: usize = 8;

/// Messages of both ends, new keys, bytes that arrive in pieces, time, goodbyes and ends, in any order. As nobody lies, each sees a
/// prefix of what the other has sent, nothing after its own goodbye, and nobody calls the other malformed.
pub(crate) fn operations(data: &[u8], meter: Meter) {
    let mut source = Source::new(data);
    let mut pair = Pair::new(&mut source, meter);
    // A bound for the fuzzer: more says nothing new.
    for _ in 0..200 {
        if source.is_empty() {
            break;
        }
        pair.operate(&mut source);
        pair.check();
    }
    (0..4).for_each(|_| {
        pair.carry(0, usize::MAX);
        pair.carry(1, usize::MAX);
        pair.collect();
    });
    pair.check();
    pair.ends.iter_mut().for_each(|end| end.feed.end_of_input());
    pair.check();
}

struct End {
    feed: Feed<Tls<Length>, Echo>,
    /// On its way to this end.
    way: Vec<u8>,
    /// Messages that the other end has sent.
    sent: Vec<u8>,
    /// What it had seen when it said its goodbye.
    closed_at: Option<usize>,
    key_changes: usize,
}

struct Pair {
    ends: [End; 2],
}

impl Pair {
    fn new(source: &mut Source<'_>, meter: Meter) -> Self {
        let configs = configs(source.below(3));
        let ends = [configs.client(), configs.server()].map(|machine| {
            let app = Echo {
                silent: true,
                ..Echo::default()
            };
            let mut feed = Feed::new(machine, app, terms(meter));
            feed.start();
            End {
                feed,
                way: Vec::new(),
                sent: Vec::new(),
                closed_at: None,
                key_changes: 0,
            }
        });
        let mut pair = Self { ends };
        pair.collect();
        pair
    }

    fn operate(&mut self, source: &mut Source<'_>) {
        let (side, what) = (source.below(2), source.below(12));
        match what {
            0..=2 => self.send(side, source),
            3..=5 => self.carry(side, 1 + source.below(2000)),
            6 | 7 => self.carry(side, usize::MAX),
            8 => {
                let time = Duration::from_secs(source.below(4) as u64);
                self.ends.iter_mut().for_each(|end| end.feed.pass(time));
            }
            9 => self.refresh_keys(side),
            10 if source.below(4) == 0 => self.close(side),
            11 if source.below(16) == 0 => {
                self.carry(side, usize::MAX);
                self.ends[side].feed.end_of_input();
                self.ends[side].way.clear();
            }
            _ => {}
        }
        self.collect();
    }

    fn send(&mut self, side: usize, source: &mut Source<'_>) {
        let bytes = source.bytes(5000);
        let ready = self.ends[side].feed.machine.is_ready();
        let told = self.ends[side]
            .feed
            .measured(|machine, _, now, out| machine.send(now, out, |mut reply| reply.send(bytes)));
        if self.ends[side].feed.end().is_none() {
            assert_eq!(told.is_ok(), ready, "is_ready says otherwise");
        }
        if let Ok(Ok(())) = told {
            self.ends[1 - side].sent.extend_from_slice(&framed(bytes));
        }
    }

    fn refresh_keys(&mut self, side: usize) {
        let end = &mut self.ends[side];
        if end.key_changes < KEY_CHANGES_MOST && end.feed.machine.is_ready() {
            end.key_changes += 1;
            let told = end
                .feed
                .measured(|machine, _, _, out| machine.refresh_keys(out));
            let modern = end.feed.machine.version() == Some("TLS 1.3");
            assert!(told.is_ok() || !modern, "{told:?}");
        }
    }

    fn close(&mut self, side: usize) {
        let end = &mut self.ends[side];
        if end.feed.end().is_some() {
            return;
        }
        let step: Option<Step> = end.feed.act(|machine, _, now, out| machine.close(now, out));
        assert!(step.is_some(), "a goodbye is always possible");
        end.closed_at.get_or_insert(end.feed.app.messages);
    }

    fn collect(&mut self) {
        for side in [0, 1] {
            let mut said = std::mem::take(&mut self.ends[side].feed.output);
            self.ends[1 - side].way.append(&mut said);
        }
    }

    fn carry(&mut self, to: usize, most: usize) {
        let End { feed, way, .. } = &mut self.ends[to];
        if feed.end().is_none() {
            let bytes = way.drain(..most.min(way.len()));
            feed.piece(bytes.as_slice());
        }
    }

    fn check(&mut self) {
        let gone = self.ends.iter().any(|end| end.feed.end().is_some());
        for end in &mut self.ends {
            assert!(
                end.sent.starts_with(&end.feed.app.notes),
                "other messages than were sent"
            );
            if let Some(messages) = end.closed_at {
                assert_eq!(end.feed.app.messages, messages, "a message after the end");
            }
            match end.feed.end() {
                None | Some(Ok(_)) => {}
                Some(Err(TlsError::Tls(
                    TlsFault::TooSlow { .. } | TlsFault::Truncated | TlsFault::HandshakeTruncated,
                ))) => {}
                // Half a message before the end; or the other end has given up, and said so.
                Some(Err(TlsError::Inner(_) | TlsError::Tls(TlsFault::Alert(_)))) if gone => {}
                Some(Err(fault)) => panic!("nobody lied: {fault:?}"),
            }
        }
    }
}
