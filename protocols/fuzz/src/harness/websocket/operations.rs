//! A client and a server of ours, and whatever may happen between them.

use super::{
    super::{Meter, feed::Feed, source::Source},
    Echo, SMALL, client_options, note, server_options, terms,
};
use shardloop_protocols::{
    Step, StreamMachine,
    websocket::{Deadlines, KeepAlive, Limits, WebSocket, WebSocketError},
};
use std::{sync::Arc, time::Duration};

const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Messages, Pings and Closes from both ends, bytes that arrive in pieces, time, goodbyes and ends, in any order. As nobody lies, each
/// sees a prefix of what the other has sent, nothing after its own Close, and nobody calls the other malformed.
pub(crate) fn operations(data: &[u8], meter: Meter) {
    let mut source = Source::new(data);
    let mut pair = Pair::new(&mut source, meter);
    // A bound for the fuzzer: more says nothing new.
    for _ in 0..256 {
        if source.is_empty() {
            break;
        }
        pair.operate(&mut source);
        pair.check();
    }
    (0..4).for_each(|_| {
        pair.carry(CLIENT, usize::MAX);
        pair.carry(SERVER, usize::MAX);
        pair.collect();
    });
    pair.check();
    for end in &mut pair.ends {
        end.feed.end_of_input();
    }
    pair.check();
}

struct End {
    feed: Feed<WebSocket, Echo>,
    /// On its way to this end.
    way: Vec<u8>,
    /// Messages that the other end has sent.
    sent: Vec<u8>,
    /// What it had seen when it said Close.
    closed_at: Option<usize>,
}

struct Pair {
    ends: [End; 2],
}

impl Pair {
    fn new(source: &mut Source<'_>, meter: Meter) -> Self {
        let limits = Limits {
            head_bytes: 16 * 1024,
            headers: 64,
            ..[SMALL, Limits::default()][source.below(2)]
        };
        let deadlines = Deadlines {
            keep_alive: (source.below(2) == 1).then_some(KeepAlive {
                idle: Duration::from_secs(20),
                answer: Duration::from_secs(3),
            }),
            ..Deadlines::default()
        };
        let (mut server, mut client) = (server_options(limits), client_options(limits));
        (server.deadlines, client.deadlines) = (deadlines, deadlines);
        let machines = [
            WebSocket::client(client),
            WebSocket::server(Arc::new(server)),
        ];
        let ends = machines.map(|machine| {
            let app = Echo {
                silent: true,
                ..Echo::default()
            };
            let mut feed = Feed::new(machine, app, terms(limits, meter));
            feed.start();
            End {
                feed,
                way: Vec::new(),
                sent: Vec::new(),
                closed_at: None,
            }
        });
        let mut pair = Self { ends };
        pair.collect();
        pair
    }

    fn operate(&mut self, source: &mut Source<'_>) {
        let (side, what) = (source.below(2), source.below(10));
        match what {
            0 | 1 => self.send(side, source),
            2..=5 => self.carry(side, 1 + source.below(400)),
            6 => self.carry(side, usize::MAX),
            7 => {
                let time = Duration::from_secs(1 << source.below(5));
                self.ends.iter_mut().for_each(|end| end.feed.pass(time));
            }
            8 => self.say_close(side, source),
            _ => {
                if source.below(8) == 0 {
                    self.carry(side, usize::MAX);
                    self.ends[side].feed.end_of_input();
                    self.ends[side].way.clear();
                }
            }
        }
        self.collect();
    }

    fn send(&mut self, side: usize, source: &mut Source<'_>) {
        let (kind, bytes) = (source.below(3), source.bytes(600));
        let text = String::from_utf8_lossy(bytes);
        let told = self.ends[side].feed.measured(|machine, _, now, out| {
            machine.send(now, out, |mut reply| match kind {
                0 => reply.text(&text),
                1 => reply.binary(bytes),
                _ => reply.ping(bytes),
            })
        });
        if let Ok(Ok(())) = told {
            let sent = &mut self.ends[1 - side].sent;
            match kind {
                0 => note(sent, b't', text.as_bytes()),
                1 => note(sent, b'b', bytes),
                _ => {}
            }
        }
    }

    fn say_close(&mut self, side: usize, source: &mut Source<'_>) {
        let end = &mut self.ends[side];
        if end.feed.end().is_some() {
            return;
        }
        if source.below(2) == 0 {
            let step = end.feed.act(|machine, _, now, out| machine.close(now, out));
            assert!(step.is_some(), "a goodbye is always possible");
        } else {
            let code = 1000 + u16::from(source.byte()) * 16;
            let reason = "a".repeat(source.below(140));
            let said = end.feed.measured(|machine, _, now, out| {
                machine.send(now, out, |mut reply| reply.close(code, &reason))
            });
            if !matches!(said, Ok(Ok(()))) {
                return;
            }
            let _ = end.feed.act(|_, _, _, _| Ok(Step::need_input(0)));
        }
        end.closed_at.get_or_insert(end.feed.app.messages);
    }

    fn collect(&mut self) {
        for side in [CLIENT, SERVER] {
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
        for end in &mut self.ends {
            let seen = end.feed.app.notes.as_slice();
            assert!(end.sent.starts_with(seen), "other messages than were sent");
            if let Some(messages) = end.closed_at {
                assert_eq!(end.feed.app.messages, messages, "a message after Close");
            }
            if let Some(Err(fault)) = end.feed.end() {
                let of_ends = matches!(
                    fault,
                    WebSocketError::EndedWithoutClose | WebSocketError::EndedInHandshake
                );
                let of_time = format!("{fault:?}").contains("TimedOut");
                // A server that gives a handshake up says so with a status.
                let of_status = format!("{fault:?}") == "Response(Status(408))";
                assert!(of_ends || of_time || of_status, "{fault:?}");
            }
        }
    }
}
