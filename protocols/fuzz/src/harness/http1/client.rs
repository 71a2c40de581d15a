//! A client and whatever a server may send it.

use super::{
    super::{
        Meter,
        feed::{Feed, Outcome, Witness, check_cuts},
        source::Source,
    },
    LIMITS, server,
};
use shardloop_protocols::{
    App, Flow, StreamMachine,
    http1::{Answer, Ask, Client, ClientOptions, Limits},
};

/// Notes every answer.
#[derive(Default)]
pub(super) struct Listener {
    pub(super) notes: Vec<u8>,
    pub(super) answers: usize,
    pause_every: usize,
}

impl App<Client> for Listener {
    fn message(&mut self, answer: Answer<'_>, _: Ask<'_>) -> Flow {
        self.answers += 1;
        note(&mut self.notes, &answer);
        match self.pause_every {
            0 => Flow::Continue,
            every if self.answers.is_multiple_of(every) => Flow::Pause,
            _ => Flow::Continue,
        }
    }
}

fn note(notes: &mut Vec<u8>, answer: &Answer<'_>) {
    notes.extend_from_slice(&answer.status.code().to_be_bytes());
    notes.extend_from_slice(answer.reason.as_bytes());
    for (name, value) in answer.headers.iter() {
        notes.extend_from_slice(b"\n");
        notes.extend_from_slice(name.as_bytes());
        notes.extend_from_slice(b"=");
        notes.extend_from_slice(value);
    }
    notes.extend_from_slice(b"\n");
    notes.extend_from_slice(answer.body);
    notes.extend_from_slice(b"\n.\n");
}

impl Witness for Listener {
    fn notes(&mut self) -> &mut Vec<u8> {
        &mut self.notes
    }

    fn messages(&self) -> usize {
        self.answers
    }

    fn longest_answer_bytes(&self) -> usize {
        0
    }
}

/// Bytes of a server to a client that has asked up to four times, by GET and HEAD. It sees no more answers than it asked for.
pub(crate) fn client(data: &[u8], meter: Meter) {
    let mut source = Source::new(data);
    let limits = LIMITS[source.below(2)];
    let asks = Asks {
        count: source.below(5),
        heads: source.byte(),
        pause_every: source.below(3),
    };
    let seed = source.byte();
    check_cuts(source.rest(), seed, |pieces| {
        run(limits, asks, meter, pieces)
    });
}

#[derive(Clone, Copy)]
struct Asks {
    count: usize,
    /// A bit for each.
    heads: u8,
    pause_every: usize,
}

fn run(limits: Limits, asks: Asks, meter: Meter, pieces: &[&[u8]]) -> Outcome {
    let options = ClientOptions {
        limits,
        outstanding: 4,
        ..ClientOptions::DEFAULT
    };
    let client = Client::new("example.com", options).expect("it is a host");
    let app = Listener {
        pause_every: asks.pause_every,
        ..Listener::default()
    };
    let mut feed = Feed::new(client, app, server::terms(limits, meter));
    feed.start();
    for number in 0..asks.count {
        let head = asks.heads >> number & 1 == 1;
        let method = if head { "HEAD" } else { "GET" };
        let asked = feed.measured(|machine, _, now, out| {
            machine.send(now, out, |mut ask| ask.write(method, "/", &[], b""))
        });
        asked
            .expect("the window has room")
            .expect("it is well-formed");
    }
    pieces.iter().for_each(|piece| feed.piece(piece));
    feed.end_of_input();
    let mut last = Vec::new();
    let there = feed
        .machine
        .last_response(|answer| note(&mut last, &answer));
    let answers = feed.app.answers + usize::from(there.is_some());
    assert!(answers <= asks.count, "more answers than questions");
    feed.app.notes.extend_from_slice(&last);
    feed.finish()
}
