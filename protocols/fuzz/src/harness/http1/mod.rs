//! HTTP/1.1: the service that the targets share.

pub(super) mod client;
pub(super) mod operations;
pub(super) mod server;

use super::feed::Witness;
use shardloop_protocols::{
    App, Flow,
    http1::{Limits, Reply, Request, Response, Server, Status, Version},
};

/// A response's head without what a service adds.
const HEAD_BYTES: usize = 512;

/// Limits that a short input reaches.
const SMALL: Limits = Limits {
    head_bytes: 400,
    headers: 8,
    target_bytes: 100,
    body_bytes: 200,
    extension_bytes: 50,
    trailer_bytes: 80,
    trailers: 4,
};

const LIMITS: [Limits; 2] = [SMALL, Limits::DEFAULT];

/// Notes every request, and answers as its path says; mostly with its body.
#[derive(Default)]
pub(super) struct Service {
    notes: Vec<u8>,
    requests: usize,
    longest_bytes: usize,
    /// Whether each request was HEAD.
    heads: Vec<bool>,
    /// Where in the notes each begins.
    starts: Vec<usize>,
    /// A body was begun on purpose and not ended.
    unfinished: bool,
}

impl App<Server> for Service {
    fn message(&mut self, request: Request<'_>, reply: Reply<'_>) -> Flow {
        self.requests += 1;
        self.heads.push(request.method == "HEAD");
        self.starts.push(self.notes.len());
        let chunks_bytes = 16 * request.body.len();
        self.longest_bytes = self.longest_bytes.max(chunks_bytes + HEAD_BYTES);
        note(&mut self.notes, &request);
        self.unfinished |= request.target.path == "/unfinished";
        answer(&request, reply)
    }
}

fn note(notes: &mut Vec<u8>, request: &Request<'_>) {
    let version = match request.version {
        Version::Http10 => "1.0",
        Version::Http11 => "1.1",
    };
    let line = [request.method, " ", request.target.raw, " ", version, "\n"];
    line.iter()
        .for_each(|part| notes.extend_from_slice(part.as_bytes()));
    for (name, value) in request.headers.iter() {
        notes.extend_from_slice(name.as_bytes());
        notes.extend_from_slice(b"=");
        notes.extend_from_slice(value);
        notes.extend_from_slice(b"\n");
    }
    notes.extend_from_slice(request.body);
    notes.extend_from_slice(b"\n.\n");
}

fn answer(request: &Request<'_>, reply: Reply<'_>) -> Flow {
    let well_formed = "the answer is well-formed";
    match request.target.path {
        "/nothing" => {}
        "/defer" => reply.defer(),
        "/close" => reply
            .closing()
            .empty(Status::NO_CONTENT)
            .expect(well_formed),
        "/invalid" => {
            let response = Response {
                status: Status::OK,
                headers: &[("X", b"a\r\nb")],
                body: b"",
            };
            assert!(reply.respond(&response).is_err(), "a header in a header");
        }
        "/chunked" => {
            let mut body = reply
                .chunked(Status::OK, &[("X", b"y")])
                .expect(well_formed);
            request.body.chunks(3).for_each(|piece| body.chunk(piece));
            body.chunk(b"");
            body.finish();
        }
        "/unfinished" => {
            let mut body = reply.chunked(Status::OK, &[]).expect(well_formed);
            body.chunk(b"half");
        }
        "/pause" => {
            reply.empty(Status::OK).expect(well_formed);
            return Flow::Pause;
        }
        _ => {
            let response = Response {
                status: Status::OK,
                headers: &[],
                body: request.body,
            };
            reply.respond(&response).expect(well_formed);
        }
    }
    Flow::Continue
}

impl Witness for Service {
    fn notes(&mut self) -> &mut Vec<u8> {
        &mut self.notes
    }

    fn messages(&self) -> usize {
        self.requests
    }

    fn longest_answer_bytes(&self) -> usize {
        self.longest_bytes + HEAD_BYTES
    }
}
