//! The client's end of an HTTP/1.1 connection: requests go out in a window, responses come back in order.
//!
//! Bytes are owned as by the server: a head stays with the caller until it is whole, a response that has come whole is shown where it
//! lies, any other is gathered in a buffer of the machine's. A response that ends with the connection stays there for
//! [`Client::last_response`].

use super::{
    ask::{Ask, Asked},
    body::{Body, Framing},
    fault::Http1Error,
    fields::Fields,
    head::{self, ResponseHead, Version},
    headers::Headers,
    limits::Limits,
    outgoing::WriteError,
    progress::{Progress, Seen},
    scan::{Bounds, Scan},
    state::{ClientEvent as Event, ClientState as State},
    status::Status,
    target::is_host,
};
use crate::machine::{App, Flow, Step, StreamMachine, TURN_MESSAGES, TURN_OUTPUT_BYTES};
use std::time::{Duration, Instant};

/// What a client allows itself and its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Bounds of one response; of a target there is none in it.
    pub limits: Limits,
    /// Requests unanswered at a time, at least one. More than one is pipelining (RFC 9112 section 9.3.2).
    pub outstanding: usize,
    /// From a request, or from the end of the response before, to the end of its response.
    pub response_deadline: Duration,
}

impl ClientOptions {
    /// What [`Default`] gives.
    pub const DEFAULT: Self = Self {
        limits: Limits::DEFAULT,
        outstanding: 1,
        response_deadline: Duration::from_secs(60),
    };
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// One whole response. Its bytes are the connection's: what is to outlive the call is to be copied.
#[derive(Debug)]
pub struct Answer<'m> {
    /// The final status; interim ones are passed over.
    pub status: Status,
    /// The reason phrase; empty if it was, or was not ASCII.
    pub reason: &'m str,
    /// Its version.
    pub version: Version,
    /// Its fields, without the trailers of a chunked body.
    pub headers: Headers<'m>,
    /// Without its framing.
    pub body: &'m [u8],
}

/// A client's connection.
///
/// ```
/// use shardloop_protocols::{Flow, StreamMachine, http1::{Answer, Ask, Client, ClientOptions, Status}};
/// use std::time::Instant;
///
/// let mut client = Client::new("example.com", ClientOptions::DEFAULT)?;
/// let (now, mut out) = (Instant::now(), Vec::new());
/// client.send(now, &mut out, |mut ask| ask.write("GET", "/a", &[("Accept", b"*/*")], b""))??;
/// assert_eq!(out, b"GET /a HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\n\r\n");
///
/// let mut input = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi".to_vec();
/// let mut app = |answer: Answer<'_>, _: Ask<'_>| {
///     assert_eq!((answer.status, answer.body), (Status::OK, &b"hi"[..]));
///     Flow::Continue
/// };
/// out.clear();
/// let step = client.handle(now, &mut input, &mut app, &mut out)?;
/// assert_eq!((step.consumed, client.outstanding()), (input.len(), 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Client {
    options: ClientOptions,
    host: String,
    state: State,
    deadline: Option<Instant>,
    scan: Scan,
    /// In `Body` and `BodyToEnd`: the head, then what has come of the body.
    held: Vec<u8>,
    head_bytes: usize,
    body: Body,
    /// Another response may follow the one in hand.
    keep: bool,
    asked: Asked,
}

impl Client {
    /// A connection to `host` (and port, unless it is the scheme's), on which nothing has happened yet.
    ///
    /// # Errors
    /// `host` is no host and port.
    ///
    /// # Panics
    /// The options allow no request, or more header fields than [`MOST_HEADERS`](super::MOST_HEADERS).
    pub fn new(host: &str, options: ClientOptions) -> Result<Self, WriteError> {
        options.limits.assert();
        if !is_host(host.as_bytes()) {
            return Err(WriteError::InvalidHost);
        }
        Ok(Self {
            options,
            host: host.to_owned(),
            state: State::Idle,
            deadline: None,
            scan: Scan::default(),
            held: Vec::new(),
            head_bytes: 0,
            body: Body::new(Framing::Length(0)),
            keep: true,
            asked: Asked::new(options.outstanding),
        })
    }

    /// Requests that wait for their responses.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.asked.len()
    }

    /// Whether the connection is to be closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// The response that ended with the connection, if one did: to be asked for once
    /// [`end_of_input`](StreamMachine::end_of_input) was told, as no application was there to be shown it.
    pub fn last_response<R>(&self, f: impl FnOnce(Answer<'_>) -> R) -> Option<R> {
        if self.state != State::Closed || !matches!(self.body, Body::ToEnd { .. }) {
            return None;
        }
        let (head, body) = self.held.split_at_checked(self.head_bytes)?;
        let mut slots = head::slots();
        let parsed = ResponseHead::parse(head, &mut slots, &self.options.limits).ok()?;
        Some(f(answer(&parsed, body)))
    }

    /// Follows the table, and sets the deadline: a response's begins anew with each response that is owed.
    fn enter(&mut self, event: Event, now: Instant) -> Result<(), Http1Error> {
        let before = self.state;
        let after = before.after(event);
        self.state = after.unwrap_or(State::Closed);
        match (self.state, event) {
            (State::Idle | State::Closed, _) => self.deadline = None,
            (_, Event::AnsweredOne) => self.deadline = Some(now + self.options.response_deadline),
            (_, Event::Asked) if before == State::Idle => {
                self.deadline = Some(now + self.options.response_deadline);
            }
            _ => {}
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
            State::Idle | State::Await | State::Head if !input.is_empty() => {
                self.head(now, input, app, out)
            }
            State::Body | State::BodyToEnd => self.body(now, input, app, out),
            _ => Ok(Progress::NOTHING),
        }
    }

    fn head(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Progress, Http1Error> {
        if self.state != State::Head {
            self.enter(Event::Begun, now)?;
        }
        let bounds = Bounds {
            first_line_bytes: self.options.limits.head_bytes,
            first_line_fault: Http1Error::HeadTooLarge,
            head_bytes: self.options.limits.head_bytes,
        };
        let Some(end) = self.scan.find(input, &bounds)? else {
            return Ok(Progress::NOTHING);
        };
        self.scan = Scan::default();
        head::read_as_http11(input.first_chunk_mut());
        let (head, rest) = input.split_at(end);
        self.whole_head(now, head, rest, app, out)
    }

    fn whole_head(
        &mut self,
        now: Instant,
        head: &[u8],
        rest: &[u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Progress, Http1Error> {
        let limits = self.options.limits;
        let mut slots = head::slots();
        let parsed = ResponseHead::parse(head, &mut slots, &limits)?;
        let fields = parsed.fields()?;
        let part = Progress {
            taken: head.len(),
            seen: Seen::Part,
        };
        if parsed.status.code() == 101 {
            return Err(Http1Error::UnaskedUpgrade);
        }
        if parsed.status.is_interim() {
            self.enter(Event::Interim, now)?;
            return Ok(part);
        }
        let framing = self.framing(&parsed, &fields)?;
        self.keep = may_follow(&parsed, &fields) && framing != Framing::ToEnd;
        if let Framing::Length(bytes) = framing
            && let Some(body) = rest.get(..bytes)
        {
            let flow = self.show(now, answer(&parsed, body), app, out)?;
            return Ok(Progress {
                taken: head.len() + bytes,
                seen: Seen::Message(flow),
            });
        }
        self.held.extend_from_slice(head);
        (self.head_bytes, self.body) = (head.len(), Body::new(framing));
        let event = match framing {
            Framing::ToEnd => Event::EndAwaited,
            Framing::Length(_) | Framing::Chunked => Event::BodyAwaited,
        };
        self.enter(event, now)?;
        Ok(part)
    }

    /// RFC 9112 section 6.3, in its order.
    fn framing(&self, head: &ResponseHead<'_>, fields: &Fields) -> Result<Framing, Http1Error> {
        if self.asked.first_is_head() || head.status.is_bodiless() {
            return Ok(Framing::Length(0));
        }
        match fields.length {
            _ if fields.chunked => Ok(Framing::Chunked),
            Some(length) => Framing::length(length, &self.options.limits),
            None => Ok(Framing::ToEnd),
        }
    }

    fn body(
        &mut self,
        now: Instant,
        input: &[u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Progress, Http1Error> {
        let limits = self.options.limits;
        let taken = self.body.take(input, &mut self.held, &limits)?;
        let mut seen = Seen::Nothing;
        if self.body.is_done() {
            let held = std::mem::take(&mut self.held);
            let (head, body) = held.split_at(self.head_bytes);
            let mut slots = head::slots();
            let parsed = ResponseHead::parse(head, &mut slots, &limits)?;
            seen = Seen::Message(self.show(now, answer(&parsed, body), app, out)?);
        }
        Ok(Progress { taken, seen })
    }

    fn show(
        &mut self,
        now: Instant,
        message: Answer<'_>,
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Flow, Http1Error> {
        self.asked.answered();
        let left = self.asked.len();
        self.asked.closing = !self.keep;
        let (asked, host) = (&mut self.asked, &*self.host);
        let flow = app.message(message, Ask { out, asked, host });
        let event = match self.asked.len() {
            _ if !self.keep || self.asked.broken => Event::Last,
            0 => Event::AnsweredAll,
            _ => Event::AnsweredOne,
        };
        self.enter(event, now)?;
        match (self.state, left) {
            (State::Closed, 1..) => Err(Http1Error::Unanswered),
            _ => Ok(flow),
        }
    }

    /// Nothing more is heard or said.
    #[cold]
    fn refuse(&mut self, fault: Http1Error, now: Instant) -> Http1Error {
        // Whatever the table says of it, it ends there.
        let _ = self.enter(Event::Refused, now);
        self.held = Vec::new();
        fault
    }
}

/// Whether the connection goes on after this response (RFC 9112 section 9.3).
fn may_follow(head: &ResponseHead<'_>, fields: &Fields) -> bool {
    !fields.close && (head.version == Version::Http11 || fields.keep_alive)
}

fn answer<'m>(head: &ResponseHead<'m>, body: &'m [u8]) -> Answer<'m> {
    Answer {
        status: head.status,
        reason: head.reason,
        version: head.version,
        headers: Headers(head.headers),
        body,
    }
}

impl StreamMachine for Client {
    type Message<'m> = Answer<'m>;
    type Reply<'r> = Ask<'r>;
    type Error = Http1Error;

    /// Whether another request may be written: the window has room, and the connection is to go on.
    fn is_ready(&self) -> bool {
        let open = !matches!(self.state, State::Closed | State::BodyToEnd);
        open && !self.asked.is_full() && !self.asked.broken
    }

    fn held_bytes(&self) -> usize {
        match self.state {
            State::Closed => 0,
            _ => self.held.len(),
        }
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
                .map_err(|fault| self.refuse(fault, now))?;
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

    /// A response that ends here is whole: [`Client::last_response`] gives it.
    fn end_of_input(
        &mut self,
        now: Instant,
        _unread: usize,
        _out: &mut Vec<u8>,
    ) -> Result<Step, Http1Error> {
        if self.state == State::BodyToEnd {
            self.asked.answered();
        }
        self.enter(Event::Ended, now)?;
        match std::mem::replace(&mut self.asked.closing, true) {
            false if self.asked.len() > 0 => Err(Http1Error::Unanswered),
            _ => Ok(Step::close(0)),
        }
    }

    fn timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn handle_timeout(&mut self, now: Instant, _out: &mut Vec<u8>) -> Result<Step, Http1Error> {
        if self.deadline.is_none_or(|deadline| now < deadline) {
            return Ok(Step::need_input(0));
        }
        self.enter(Event::TimedOut, now)
            .map_err(|fault| self.refuse(fault, now))?;
        Ok(Step::close(0))
    }

    /// Writes requests.
    ///
    /// # Errors
    /// [`WindowFull`](Http1Error::WindowFull), or the connection is at its end. `f` was not called.
    fn send<R>(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
        f: impl FnOnce(Ask<'_>) -> R,
    ) -> Result<R, Http1Error> {
        debug_assert!(out.is_empty(), "drain the output before the next call");
        self.state.after(Event::Asked)?;
        if !self.is_ready() {
            return Err(match self.asked.is_full() {
                true => Http1Error::WindowFull,
                false => Http1Error::OutOfTurn,
            });
        }
        let before = self.asked.len();
        let (asked, host) = (&mut self.asked, &*self.host);
        let value = f(Ask { out, asked, host });
        if self.asked.len() > before {
            self.enter(Event::Asked, now)?;
        }
        Ok(value)
    }

    /// HTTP/1.1 has no goodbye: the connection is to be closed, and responses that are owed will not be seen.
    fn close(&mut self, now: Instant, _out: &mut Vec<u8>) -> Result<Step, Http1Error> {
        // Else what has come of a body without a length would pass for all of it.
        if self.state != State::Closed {
            self.held = Vec::new();
        }
        self.enter(Event::Goodbye, now)?;
        Ok(Step::close(0))
    }
}
