//! A client and a server of ours, and whatever may happen between them.

use super::{
    super::{Meter, feed::Feed, source::Source},
    Service,
    client::Listener,
    server::{give_owed, terms},
};
use shardloop_protocols::{
    Next, StreamMachine,
    http1::{Client, ClientOptions, Http1Error, Limits, Server, ServerOptions, WriteError},
};
use std::time::Duration;

const PATHS: [&str; 8] = [
    "/",
    "/nothing",
    "/defer",
    "/close",
    "/invalid",
    "/chunked",
    "/unfinished",
    "/pause",
];
const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "DELETE", "X"];
const WINDOW: usize = 4;

/// Requests that are written, answers that are deferred and given later, bytes that arrive in pieces, time, goodbyes and ends, in any
/// order. As nobody lies, the server sees a prefix of what was asked, the client no more answers than that, and nobody calls the other
/// malformed.
pub(crate) fn operations(data: &[u8], meter: Meter) {
    let mut source = Source::new(data);
    let mut pair = Pair::new(meter);
    // A bound for the fuzzer: more says nothing new.
    for _ in 0..256 {
        if source.is_empty() {
            break;
        }
        pair.operate(&mut source);
        pair.check();
    }
    pair.settle();
    pair.check();
}

struct Pair {
    client: Feed<Client, Listener>,
    server: Feed<Server, Service>,
    /// Of each request that was written whole: its method and target.
    asked: Vec<String>,
    /// Nothing more is carried this way.
    up_ended: bool,
    down_ended: bool,
    /// A request's body was left without its end, on purpose.
    broken: bool,
    /// The client has said that it is done.
    closed: bool,
    answers_when_closed: usize,
    up: Vec<u8>,
    down: Vec<u8>,
}

impl Pair {
    fn new(meter: Meter) -> Self {
        let options = ClientOptions {
            outstanding: WINDOW,
            ..ClientOptions::DEFAULT
        };
        let client = Client::new("example.com", options).expect("it is a host");
        let server = Server::new(ServerOptions::DEFAULT);
        let terms = terms(Limits::DEFAULT, meter);
        let mut pair = Self {
            client: Feed::new(client, Listener::default(), terms),
            server: Feed::new(server, Service::default(), terms),
            asked: Vec::new(),
            up_ended: false,
            down_ended: false,
            broken: false,
            closed: false,
            answers_when_closed: 0,
            up: Vec::new(),
            down: Vec::new(),
        };
        pair.client.start();
        pair.server.start();
        pair
    }

    fn operate(&mut self, source: &mut Source<'_>) {
        match source.below(10) {
            0 | 1 => self.ask(source),
            2 => self.ask_in_chunks(source),
            3 | 4 => self.carry_up(1 + source.below(600)),
            5 | 6 => self.carry_down(1 + source.below(600)),
            7 => give_owed(&mut self.server),
            8 => {
                let time = Duration::from_secs(1 << source.below(7));
                self.client.pass(time);
                self.server.pass(time);
            }
            _ => self.end_something(source),
        }
        self.up.append(&mut self.client.output);
        self.down.append(&mut self.server.output);
    }

    fn end_something(&mut self, source: &mut Source<'_>) {
        match source.below(8) {
            0 => {
                self.carry_up(usize::MAX);
                self.server.end_of_input();
                self.up_ended = true;
            }
            1 => {
                self.carry_down(usize::MAX);
                self.client.end_of_input();
                self.down_ended = true;
            }
            2 if !self.closed => {
                self.answers_when_closed = self.client.app.answers;
                let step = self
                    .client
                    .act(|machine, _, now, out| machine.close(now, out));
                assert_eq!(step.map(|step| step.next), Some(Next::Close));
                self.closed = true;
            }
            3 => {
                let _ = self
                    .server
                    .act(|machine, _, now, out| machine.close(now, out));
            }
            _ => {}
        }
    }

    fn ask(&mut self, source: &mut Source<'_>) {
        let (method, path) = (METHODS[source.below(6)], PATHS[source.below(8)]);
        let value = source.bytes(20);
        let body = source.bytes(300);
        let told = self.client.measured(|machine, _, now, out| {
            machine.send(now, out, |mut ask| {
                let room = ask.room();
                let written = ask.write(method, path, &[("X", value)], body);
                let full = matches!(written, Err(WriteError::WindowFull | WriteError::Closing));
                assert_eq!(room == 0, full, "room {room}, and {written:?}");
                written
            })
        });
        if let Ok(Ok(())) = told {
            self.asked.push(format!("{method} {path} 1.1\n"));
        }
    }

    fn ask_in_chunks(&mut self, source: &mut Source<'_>) {
        let (method, path) = (METHODS[source.below(6)], PATHS[source.below(8)]);
        let (chunks, finish) = (source.below(4), source.below(16) != 0);
        let pieces: Vec<&[u8]> = (0..chunks).map(|_| source.bytes(40)).collect();
        let told = self.client.measured(|machine, _, now, out| {
            machine.send(now, out, |mut ask| {
                let mut body = ask.chunked(method, path, &[])?;
                pieces.iter().for_each(|piece| body.chunk(piece));
                if finish {
                    body.finish();
                }
                Ok::<_, WriteError>(())
            })
        });
        if let Ok(Ok(())) = told {
            self.broken |= !finish;
            if finish {
                self.asked.push(format!("{method} {path} 1.1\n"));
            }
        }
    }

    fn carry_up(&mut self, most: usize) {
        if !self.up_ended {
            let bytes = self.up.drain(..most.min(self.up.len()));
            self.server.piece(bytes.as_slice());
        }
    }

    fn carry_down(&mut self, most: usize) {
        if !self.down_ended {
            let bytes = self.down.drain(..most.min(self.down.len()));
            self.client.piece(bytes.as_slice());
        }
    }

    fn settle(&mut self) {
        for _ in 0..4 {
            self.carry_up(usize::MAX);
            give_owed(&mut self.server);
            self.down.append(&mut self.server.output);
            self.carry_down(usize::MAX);
        }
        self.server.end_of_input();
        self.down.append(&mut self.server.output);
        self.carry_down(usize::MAX);
        self.client.end_of_input();
    }

    fn check(&mut self) {
        let Service { notes, starts, .. } = &self.server.app;
        for (start, asked) in starts.iter().zip(&self.asked) {
            let seen = &notes[*start..];
            let text = seen.escape_ascii();
            assert!(seen.starts_with(asked.as_bytes()), "{text} and not {asked}");
        }
        assert!(self.server.app.requests <= self.asked.len());
        assert!(self.client.app.answers <= self.asked.len() + 1);
        if self.closed {
            assert_eq!(self.client.app.answers, self.answers_when_closed);
        }
        if let Some(Err(fault)) = self.server.end() {
            assert!(is_nobodys_lie(*fault), "the server says {fault:?}");
        }
        if let Some(Err(fault)) = self.client.end() {
            assert!(is_nobodys_lie(*fault), "the client says {fault:?}");
        }
    }
}

/// Faults of time and of ends, which need no malformed byte.
fn is_nobodys_lie(fault: Http1Error) -> bool {
    use Http1Error as Fault;
    // An answer that says why a connection ends, such as 408, may come before anything was asked.
    let of_ends = [
        Fault::TruncatedHead,
        Fault::TruncatedBody,
        Fault::Unanswered,
        Fault::Unrequested,
        Fault::InputWhileDeferred,
        Fault::OutOfTurn,
    ];
    let text = format!("{fault:?}");
    of_ends.contains(&fault) || text.ends_with("TimedOut")
}
