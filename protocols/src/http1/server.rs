//! The server's end of an HTTP/1.1 connection (RFC 9112).
//!
//! A head stays with the caller until it is whole. If its body, with a Content-Length, has come with it, the request is shown where it
//! lies. Otherwise head and body are moved into a buffer of the machine's as they come, chunks decoded on the way, and shown from
//! there. The buffer is the machine's alone and is empty between requests.

use super::{
    body::{Body, Framing},
    fault::Http1Error,
    fields::Expectation,
    head::{self, RequestHead, Version},
    headers::Headers,
    limits::{Limits, REQUEST_LINE_EXTRA_BYTES},
    outgoing,
    progress::{Progress, Seen},
    reply::{Owed, Reply, Standing},
    request::Request,
    scan::{Bounds, Scan},
    state::{ServerEvent as Event, ServerState as State},
    status::Status,
    target::Target,
};
use crate::machine::{App, Flow, Step, StreamMachine, TURN_MESSAGES, TURN_OUTPUT_BYTES};
use std::time::{Duration, Instant};

/// What a server allows its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerOptions {
    /// Bounds of one request.
    pub limits: Limits,
    /// Bytes that may wait behind a request whose answer is deferred; beyond, the connection is closed.
    pub deferred_input_bytes: usize,
    /// From the first byte of a request to the end of its head; then 408.
    pub head_deadline: Duration,
    /// From the end of a head to the end of its body; then 408.
    pub body_deadline: Duration,
    /// From a request to its answer, if that is deferred; then 503.
    pub answer_deadline: Duration,
    /// Between requests, and before the first; then the connection is closed without a word.
    pub idle_deadline: Duration,
}

impl ServerOptions {
    /// What [`Default`] gives.
    pub const DEFAULT: Self = Self {
        limits: Limits::DEFAULT,
        deferred_input_bytes: 64 * 1024,
        head_deadline: Duration::from_secs(10),
        body_deadline: Duration::from_secs(60),
        answer_deadline: Duration::from_secs(60),
        idle_deadline: Duration::from_secs(75),
    };
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The largest buffer that is kept from one request to the next, in bytes; an idle connection holds no more.
const KEPT_BYTES: usize = 4096;

/// A server's connection.
///
/// # Deferred answers
///
/// A service that has to wait calls [`Reply::defer`] and returns. The request's bytes are gone then, so it copies what it needs. Nothing
/// more is taken until the answer is written with [`send`](StreamMachine::send). On a `drive::Connection` that is: `work_off`, which
/// returns with the answer owed ([`is_ready`](StreamMachine::is_ready) says so); whatever has to be awaited; `send`; and
/// `work_off_rest`, as further requests may have come meanwhile, or the answer may have been the last.
#[derive(Debug)]
pub struct Server {
    options: ServerOptions,
    state: State,
    deadline: Option<Instant>,
    scan: Scan,
    /// An empty line has come where a request line was due; one is allowed (RFC 9112 section 2.2).
    blank: bool,
    /// In `Body`: the head, then what has come of the body.
    held: Vec<u8>,
    head_bytes: usize,
    body: Body,
    owed: Owed,
}

impl Server {
    /// A connection on which nothing has happened yet.
    ///
    /// # Panics
    /// The limits allow more header fields than [`MOST_HEADERS`](super::MOST_HEADERS).
    #[must_use]
    pub fn new(options: ServerOptions) -> Self {
        options.limits.assert();
        Self {
            options,
            state: State::Idle,
            deadline: None,
            scan: Scan::default(),
            blank: false,
            held: Vec::new(),
            head_bytes: 0,
            body: Body::new(Framing::Length(0)),
            owed: Owed {
                head_only: false,
                version: Version::Http11,
                keep: false,
                standing: Standing::Missing,
                broken: false,
            },
        }
    }

    /// Whether the connection is to be closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Follows the table, and sets the deadline of the state it leads to.
    fn enter(&mut self, event: Event, now: Instant) -> Result<(), Http1Error> {
        let before = self.state;
        let after = before.after(event);
        self.state = after.unwrap_or(State::Closed);
        if self.state != before {
            self.deadline = match self.state {
                State::Idle => Some(now + self.options.idle_deadline),
                State::Head => Some(now + self.options.head_deadline),
                State::Body => Some(now + self.options.body_deadline),
                State::Answer | State::LastAnswer => Some(now + self.options.answer_deadline),
                State::Closed => None,
            };
        }
        after.map(|_| ())
    }

    fn step(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Progress, Http1Error> {
        match self.state {
            State::Idle | State::Head => self.head(now, input, app, out),
            State::Body => self.body(now, input, app, out),
            State::Answer | State::LastAnswer => self.wait(input),
            State::Closed => Ok(Progress::NOTHING),
        }
    }

    fn head(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Progress, Http1Error> {
        if self.state == State::Idle && !self.blank && input.starts_with(b"\r\n") {
            self.blank = true;
            let seen = Seen::Part;
            return Ok(Progress { taken: 2, seen });
        }
        // A CR alone may become an empty line, and then no request has begun.
        if input.is_empty() || self.state == State::Idle && !self.blank && *input == *b"\r" {
            return Ok(Progress::NOTHING);
        }
        if self.state == State::Idle {
            self.enter(Event::Begun, now)?;
        }
        let bounds = Bounds {
            first_line_bytes: self.options.limits.target_bytes + REQUEST_LINE_EXTRA_BYTES,
            first_line_fault: Http1Error::TargetTooLong,
            head_bytes: self.options.limits.head_bytes,
        };
        let Some(end) = self.scan.find(input, &bounds)? else {
            return Ok(Progress::NOTHING);
        };
        let line_bytes = self.scan.first_line_bytes();
        (self.scan, self.blank) = (Scan::default(), false);
        head::read_as_http11(input[..line_bytes].last_chunk_mut());
        let (head, rest) = input.split_at_mut(end);
        self.whole_head(now, head, rest, app, out)
    }

    fn whole_head(
        &mut self,
        now: Instant,
        head: &[u8],
        rest: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Progress, Http1Error> {
        let mut slots = head::slots();
        let parsed = RequestHead::parse(head, &mut slots, &self.options.limits)?;
        let plan = Plan::new(&parsed, &self.options.limits)?;
        if let Framing::Length(bytes) = plan.framing
            && let Some(body) = rest.get_mut(..bytes)
        {
            let flow = self.show(now, plan.request(&parsed, body), plan.owed, app, out)?;
            return Ok(Progress {
                taken: head.len() + bytes,
                seen: Seen::Message(flow),
            });
        }
        self.held.extend_from_slice(head);
        (self.head_bytes, self.body) = (head.len(), Body::new(plan.framing));
        self.enter(Event::BodyAwaited, now)?;
        if plan.awaits_continue && rest.is_empty() {
            outgoing::status_line(out, Status::CONTINUE);
            out.extend_from_slice(b"\r\n");
        }
        Ok(Progress {
            taken: head.len(),
            seen: Seen::Part,
        })
    }

    fn body(
        &mut self,
        now: Instant,
        input: &[u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Progress, Http1Error> {
        let limits = &self.options.limits;
        let taken = self.body.take(input, &mut self.held, limits)?;
        let mut seen = Seen::Nothing;
        if self.body.is_done() {
            let mut held = std::mem::take(&mut self.held);
            seen = Seen::Message(self.show_held(now, &mut held, app, out)?);
            if held.capacity() <= KEPT_BYTES {
                held.clear();
                self.held = held;
            }
        }
        Ok(Progress { taken, seen })
    }

    fn show_held(
        &mut self,
        now: Instant,
        held: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Flow, Http1Error> {
        let (head, body) = held.split_at_mut(self.head_bytes);
        let mut slots = head::slots();
        let parsed = RequestHead::parse(head, &mut slots, &self.options.limits)?;
        let plan = Plan::new(&parsed, &self.options.limits)?;
        self.show(now, plan.request(&parsed, body), plan.owed, app, out)
    }

    fn show(
        &mut self,
        now: Instant,
        request: Request<'_>,
        owed: Owed,
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Flow, Http1Error> {
        self.enter(Event::Shown, now)?;
        self.owed = owed;
        let owed = &mut self.owed;
        let flow = app.message(
            request,
            Reply {
                out: &mut *out,
                owed,
            },
        );
        if self.owed.standing == Standing::Missing {
            let owed = &mut self.owed;
            Reply { out, owed }
                .empty(Status::INTERNAL_SERVER_ERROR)
                .expect("it has nothing that could be malformed");
        }
        self.answered(now)?;
        Ok(flow)
    }

    /// Goes on if an answer was given.
    fn answered(&mut self, now: Instant) -> Result<(), Http1Error> {
        match self.owed {
            Owed {
                standing: Standing::Given,
                keep: true,
                broken: false,
                ..
            } => self.enter(Event::Kept, now),
            Owed {
                standing: Standing::Given,
                ..
            } => self.enter(Event::Last, now),
            _ => Ok(()),
        }
    }

    fn wait(&self, input: &[u8]) -> Result<Progress, Http1Error> {
        if input.len() > self.options.deferred_input_bytes {
            return Err(Http1Error::InputWhileDeferred);
        }
        Ok(Progress::NOTHING)
    }

    /// Says why, and that it was the last word.
    #[cold]
    fn refuse(&mut self, fault: Http1Error, now: Instant, out: &mut Vec<u8>) -> Http1Error {
        if let Some(status) = fault.status() {
            outgoing::status_line(out, status);
            out.extend_from_slice(b"Content-Length: 0\r\nConnection: close\r\n\r\n");
        }
        // Whatever the table says of it, it ends there.
        let _ = self.enter(Event::Refused, now);
        self.held = Vec::new();
        fault
    }
}

/// What is to be done with a request, as its head says.
struct Plan<'h> {
    target: Target<'h>,
    framing: Framing,
    owed: Owed,
    awaits_continue: bool,
}

impl<'h> Plan<'h> {
    fn new(head: &RequestHead<'h>, limits: &Limits) -> Result<Self, Http1Error> {
        if head.method == "CONNECT" {
            return Err(Http1Error::Connect);
        }
        let target = Target::parse(head.method, head.target)?;
        let fields = head.fields()?;
        let framing = match fields.length {
            _ if fields.chunked => Framing::Chunked,
            length => Framing::length(length.unwrap_or(0), limits)?,
        };
        // HTTP/1.0 knows no expectations (RFC 9110 section 10.1.1).
        let expects = fields.expects.filter(|_| head.version == Version::Http11);
        if expects == Some(Expectation::Unknown) {
            return Err(Http1Error::UnknownExpectation);
        }
        let asked_to_keep = match head.version {
            Version::Http10 => fields.keep_alive,
            Version::Http11 => true,
        };
        Ok(Self {
            target,
            framing,
            owed: Owed {
                head_only: head.method == "HEAD",
                version: head.version,
                keep: asked_to_keep && !fields.close,
                standing: Standing::Missing,
                broken: false,
            },
            awaits_continue: expects == Some(Expectation::Continue),
        })
    }

    fn request<'m>(&self, head: &RequestHead<'m>, body: &'m mut [u8]) -> Request<'m>
    where
        'h: 'm,
    {
        Request {
            method: head.method,
            target: self.target,
            version: head.version,
            headers: Headers(head.headers),
            body,
        }
    }
}

impl StreamMachine for Server {
    type Message<'m> = Request<'m>;
    type Reply<'r> = Reply<'r>;
    type Error = Http1Error;

    fn start(&mut self, now: Instant, _out: &mut Vec<u8>) -> Result<Step, Http1Error> {
        self.deadline = Some(now + self.options.idle_deadline);
        Ok(Step::need_input(0))
    }

    /// Whether a deferred answer is owed.
    fn is_ready(&self) -> bool {
        matches!(self.state, State::Answer | State::LastAnswer)
    }

    fn held_bytes(&self) -> usize {
        self.held.len()
    }

    fn handle(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, Http1Error> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        let (mut consumed, mut messages) = (0, 0);
        while self.state != State::Closed {
            let progress = self
                .step(now, &mut input[consumed..], app, out)
                .map_err(|fault| self.refuse(fault, now, out))?;
            consumed += progress.taken;
            match progress.seen {
                Seen::Nothing => return Ok(Step::need_input(consumed)),
                Seen::Part => {}
                Seen::Message(_) if self.state == State::Closed => {}
                Seen::Message(flow) => {
                    messages += 1;
                    let full = messages >= TURN_MESSAGES || out.len() >= TURN_OUTPUT_BYTES;
                    if full || flow == Flow::Pause {
                        return Ok(Step::again(consumed));
                    }
                }
            }
        }
        Ok(Step::close(consumed))
    }

    fn end_of_input(
        &mut self,
        now: Instant,
        unread: usize,
        _out: &mut Vec<u8>,
    ) -> Result<Step, Http1Error> {
        if self.state == State::Idle && unread > 0 {
            // A CR that became no empty line.
            self.enter(Event::Begun, now)?;
        }
        self.enter(Event::Ended, now)?;
        self.owed.keep = false;
        Ok(match self.state {
            State::Closed => Step::close(0),
            _ => Step::need_input(0),
        })
    }

    fn timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, Http1Error> {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return Ok(Step::need_input(0));
        }
        self.enter(Event::TimedOut, now)
            .map_err(|fault| self.refuse(fault, now, out))?;
        Ok(Step::close(0))
    }

    /// Writes the answer to the request whose answer was deferred. If `f` writes none, it is still owed.
    fn send<R>(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        f: impl FnOnce(Reply<'_>) -> R,
    ) -> Result<R, Http1Error> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        if !self.is_ready() {
            // An error leaves the connection as it was.
            self.state.after(Event::Kept)?;
            return Err(Http1Error::OutOfTurn);
        }
        let owed = &mut self.owed;
        let value = f(Reply { out, owed });
        self.answered(now)?;
        Ok(value)
    }

    /// HTTP/1.1 has no goodbye: the connection is to be closed, an answer that is owed will not be given.
    fn close(&mut self, now: Instant, _out: &mut Vec<u8>) -> Result<Step, Http1Error> {
        self.held = Vec::new();
        self.enter(Event::Goodbye, now)?;
        Ok(Step::close(0))
    }
}
