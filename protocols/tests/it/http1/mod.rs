//! HTTP/1.1: the application that the tests of the server share, and what they compare.

mod client;
#[cfg(feature = "drive")]
mod drive;
mod limits;
mod mutations;
mod pair;
mod refusals;
mod router;
mod server;
mod smuggling;
mod timing;

use crate::splits::{Case, Outcome, Witness};
use shardloop_protocols::{
    App, Flow,
    http1::{Http1Error, Reply, Request, Response, Server, ServerOptions, Status},
};

/// Notes every request, and answers as its path says; mostly with its body.
#[derive(Clone, Debug, Default)]
pub(crate) struct Service {
    pub(crate) notes: Vec<u8>,
    pub(crate) requests: usize,
    /// Bodies that came over several calls are answered in one.
    pub(crate) longest_body_bytes: usize,
}

impl App<Server> for Service {
    fn message(&mut self, request: Request<'_>, reply: Reply<'_>) -> Flow {
        self.requests += 1;
        let line = format!(
            "{} {} {:?}\n",
            request.method, request.target.raw, request.version
        );
        self.notes.extend_from_slice(line.as_bytes());
        for (name, value) in request.headers.iter() {
            self.notes.extend_from_slice(name.as_bytes());
            self.notes.extend_from_slice(b"=");
            self.notes.extend_from_slice(value);
            self.notes.extend_from_slice(b"\n");
        }
        self.notes.extend_from_slice(request.body);
        self.notes.extend_from_slice(b"\n.\n");
        answer(&request, reply)
    }
}

fn answer(request: &Request<'_>, reply: Reply<'_>) -> Flow {
    match request.target.path {
        "/nothing" => {}
        "/defer" => reply.defer(),
        "/close" => reply
            .closing()
            .empty(Status::NO_CONTENT)
            .expect("the test keeps to the rules"),
        "/invalid" => {
            let headers = [("X", &b"a\r\nb"[..])];
            let response = Response {
                status: Status::OK,
                headers: &headers,
                body: b"",
            };
            assert!(reply.respond(&response).is_err());
        }
        "/chunked" => {
            let mut body = reply
                .chunked(Status::OK, &[("X", b"y")])
                .expect("the test keeps to the rules");
            request.body.chunks(3).for_each(|piece| body.chunk(piece));
            body.chunk(b"");
            body.finish();
        }
        "/unfinished" => {
            let mut body = reply
                .chunked(Status::OK, &[])
                .expect("the test keeps to the rules");
            body.chunk(b"half");
        }
        "/pause" => {
            reply
                .empty(Status::OK)
                .expect("the test keeps to the rules");
            return Flow::Pause;
        }
        _ => {
            let response = Response {
                status: Status::OK,
                headers: &[],
                body: request.body,
            };
            reply
                .respond(&response)
                .expect("the test keeps to the rules");
        }
    }
    Flow::Continue
}

impl Witness for Service {
    fn messages(&self) -> usize {
        self.requests
    }

    fn longest_reply_bytes(&self, input_bytes: usize) -> usize {
        input_bytes + self.longest_body_bytes + 1000
    }

    fn into_notes(self) -> Vec<u8> {
        self.notes
    }
}

/// A server of which each limit is near.
pub(crate) const SMALL: ServerOptions = {
    let mut options = ServerOptions::DEFAULT;
    options.limits.head_bytes = 400;
    options.limits.headers = 8;
    options.limits.target_bytes = 100;
    options.limits.body_bytes = 200;
    options.limits.extension_bytes = 50;
    options.limits.trailer_bytes = 80;
    options.limits.trailers = 4;
    options.deferred_input_bytes = 100;
    options
};

pub(crate) fn case() -> Case<Server, Service> {
    Case::with(|| Server::new(SMALL), Service::default())
}

/// Feeds `input` in every way.
pub(crate) fn check(input: &[u8]) -> Outcome {
    case().check(input)
}

/// Feeds `input` in every way; as text, what came out.
pub(crate) fn output(input: &str) -> String {
    String::from_utf8(check(input.as_bytes()).output).expect("the test keeps to the rules")
}

/// What a refused request is answered with.
pub(crate) fn refusal(status: Status) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}

/// What a refusal looks like: no request seen, its answer, its fault.
pub(crate) fn assert_refused(outcome: &Outcome, fault: Http1Error, what: &str) {
    let status = fault.status().expect("a refusal has a status");
    assert_eq!(outcome.end, Err(format!("{fault:?}")), "{what}");
    assert_eq!(
        outcome.output.escape_ascii().to_string(),
        refusal(status).as_bytes().escape_ascii().to_string(),
        "{what}"
    );
    assert_eq!(outcome.notes.escape_ascii().to_string(), "", "{what}");
}
