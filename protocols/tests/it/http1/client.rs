//! What a client makes of responses, however they are cut.

use crate::splits::{Case, Outcome, Witness};
use shardloop_protocols::{
    App, Flow, Next, StreamMachine,
    http1::{Answer, Ask, Client, ClientOptions, Field, Http1Error as Fault, Limits, WriteError},
};
use std::time::{Duration, Instant};

/// Notes every response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listener {
    notes: Vec<u8>,
    answers: usize,
}

impl App<Client> for Listener {
    fn message(&mut self, answer: Answer<'_>, _: Ask<'_>) -> Flow {
        self.answers += 1;
        self.notes.extend_from_slice(&note(&answer));
        Flow::Continue
    }
}

fn note(answer: &Answer<'_>) -> Vec<u8> {
    let line = format!("{} {}|", answer.status.code(), answer.reason);
    [line.as_bytes(), answer.body, b"\n"].concat()
}

impl Witness for Listener {
    fn messages(&self) -> usize {
        self.answers
    }

    fn longest_reply_bytes(&self, _: usize) -> usize {
        0
    }

    fn into_notes(self) -> Vec<u8> {
        self.notes
    }
}

const SMALL: ClientOptions = ClientOptions {
    limits: Limits {
        head_bytes: 200,
        headers: 4,
        body_bytes: 50,
        ..Limits::DEFAULT
    },
    outstanding: 3,
    response_deadline: Duration::from_secs(5),
};

/// A client that has asked with these methods.
fn asked(methods: &[&str]) -> Client {
    let mut client = Client::new("h", SMALL).expect("the test keeps to the rules");
    for method in methods {
        let sent = client.send(Instant::now(), &mut Vec::new(), |mut ask| {
            ask.write(method, "/", &[], b"")
        });
        assert_eq!(sent, Ok(Ok(())));
    }
    client
}

type Machine = fn() -> Client;

fn check(machine: Machine, input: &str) -> Outcome {
    Case::with(machine, Listener::default()).check(input.as_bytes())
}

fn one() -> Client {
    asked(&["GET"])
}

fn two() -> Client {
    asked(&["GET", "GET"])
}

fn head() -> Client {
    asked(&["HEAD", "GET"])
}

const NO: &str = "HTTP/1.1 204 No Content\r\n\r\n";

#[test]
fn responses() {
    let table: &[(Machine, &str, &str)] = &[
        (
            one,
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
            "200 OK|abc\n",
        ),
        (
            one,
            "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            "200 OK|\n",
        ),
        (one, "HTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "200 |\n"),
        (
            one,
            "HTTP/1.3 404 Not Found at all\r\nContent-Length: 1\r\n\r\nx",
            "404 Not Found at all|x\n",
        ),
        (
            one,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n1\r\nd\r\n0\r\nX: y\r\n\r\n",
            "200 OK|abcd\n",
        ),
        (one, NO, "204 No Content|\n"),
        (
            two,
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            "304 Not Modified|\n204 No Content|\n",
        ),
        (
            head,
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            "200 OK|\n204 No Content|\n",
        ),
        (
            head,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            "200 OK|\n204 No Content|\n",
        ),
        (
            one,
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            "204 No Content|\n",
        ),
        (
            one,
            "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\nwhatever",
            "204 No Content|\n",
        ),
        (
            one,
            "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
            "200 OK|x\n",
        ),
        (
            two,
            "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 204 No Content\r\n\r\n",
            "200 OK|x\n204 No Content|\n",
        ),
        (
            one,
            "HTTP/1.1 200 OK\r\nHost: a\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
            "200 OK|\n",
        ),
    ];
    for (machine, input, notes) in table {
        let outcome = check(*machine, input);
        assert_eq!(String::from_utf8(outcome.notes).unwrap(), *notes, "{input}");
        assert_eq!(
            (outcome.output, outcome.end),
            (vec![], Ok(Next::Close)),
            "{input}"
        );
    }
}

#[test]
fn refused_responses() {
    let long = "x".repeat(200);
    let long_field = format!("HTTP/1.1 200 OK\r\nX: {long}");
    let five = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(5));
    let ok = "HTTP/1.1 200 OK\r\n";
    let table: &[(&str, &str, Fault)] = &[
        (
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "",
            Fault::UnaskedUpgrade,
        ),
        ("HTTP/2.0 200 OK\r\n\r\n", "", Fault::UnsupportedVersion),
        ("ICY 200 OK\r\n\r\n", "", Fault::UnsupportedVersion),
        ("\r\n\r\n", "", Fault::InvalidStatusLine),
        ("HTTP/1.1 20 OK\r\n\r\n", "", Fault::InvalidStatusLine),
        ("HTTP/1.1 099 OK\r\n\r\n", "", Fault::InvalidStatusLine),
        ("HTTP/1.1 600 OK\r\n\r\n", "", Fault::InvalidStatusLine),
        ("HTTP/1.1 2000 OK\r\n\r\n", "", Fault::InvalidStatusLine),
        ("HTTP/1.1  200 OK\r\n\r\n", "", Fault::InvalidStatusLine),
        ("HTTP/1.1 200 OK\nX: y\r\n\r\n", "", Fault::BareLineFeed),
        ("HTTP/1.1 200 O\rK\r\n\r\n", "", Fault::BareCarriageReturn),
        ("HTTP/1.1 200 \0\r\n\r\n", "", Fault::ControlCharacter),
        (ok, "X: y\r\n z\r\n\r\n", Fault::ObsoleteFold),
        (ok, "X : y\r\n\r\n", Fault::WhitespaceBeforeColon),
        (ok, ": y\r\n\r\n", Fault::EmptyHeaderName),
        (ok, "X\r\n\r\n", Fault::MissingColon),
        (ok, "X: \x7f\r\n\r\n", Fault::InvalidHeaderValue),
        (
            ok,
            "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
            Fault::SeveralContentLengths,
        ),
        (
            ok,
            "Content-Length: +1\r\n\r\nx",
            Fault::InvalidContentLength,
        ),
        (ok, "Content-Length: 51\r\n\r\n", Fault::BodyTooLarge),
        (
            ok,
            "Content-Length: 18446744073709551616\r\n\r\n",
            Fault::BodyTooLarge,
        ),
        (
            ok,
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            Fault::LengthAndCoding,
        ),
        (
            ok,
            "Transfer-Encoding: gzip\r\n\r\n",
            Fault::NotEndingInChunked,
        ),
        (
            ok,
            "Transfer-Encoding: gzip, chunked\r\n\r\n",
            Fault::UnknownCoding,
        ),
        (
            "HTTP/1.0 200 OK\r\n",
            "Transfer-Encoding: chunked\r\n\r\n",
            Fault::CodingInOldVersion,
        ),
        (
            ok,
            "Transfer-Encoding: chunked\r\n\r\n+1\r\n",
            Fault::InvalidChunkSize,
        ),
        (
            ok,
            "Transfer-Encoding: chunked\r\n\r\n33\r\n",
            Fault::BodyTooLarge,
        ),
        (
            ok,
            "Transfer-Encoding: chunked\r\n\r\n0\r\nHost: x\r\n\r\n",
            Fault::ForbiddenTrailer,
        ),
        (&long, "", Fault::HeadTooLarge),
        (&long_field, "", Fault::HeadTooLarge),
        (&five, "", Fault::TooManyHeaders),
    ];
    for (line, rest, fault) in table {
        let outcome = check(one, &format!("{line}{rest}"));
        assert_eq!(outcome.end, Err(format!("{fault:?}")), "{line}{rest}");
        assert_eq!(
            (outcome.notes, outcome.output),
            (vec![], vec![]),
            "{line}{rest}"
        );
    }
}

#[test]
fn ends_that_come_too_early() {
    let table: &[(Machine, &str, Fault)] = &[
        (one, "", Fault::Unanswered),
        (two, NO, Fault::Unanswered),
        (
            two,
            "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
            Fault::Unanswered,
        ),
        (two, "HTTP/1.1 200 OK\r\n\r\nto the end", Fault::Unanswered),
        (one, "HTTP/1.1 200 OK\r\nContent-", Fault::TruncatedHead),
        (
            one,
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx",
            Fault::TruncatedBody,
        ),
        (
            one,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n",
            Fault::TruncatedBody,
        ),
        (
            one,
            "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
            Fault::Unrequested,
        ),
        (|| asked(&[]), "H", Fault::Unrequested),
    ];
    for (machine, input, fault) in table {
        let outcome = check(*machine, input);
        assert_eq!(outcome.end, Err(format!("{fault:?}")), "{input}");
    }
}

#[test]
fn a_body_that_ends_with_the_connection() {
    let input = "HTTP/1.1 200 OK\r\nX: y\r\n\r\nto the end";
    for step in [1, 7, 100] {
        let (mut client, mut app) = (one(), Listener::default());
        let (now, mut pending) = (Instant::now(), Vec::new());
        for piece in input.as_bytes().chunks(step) {
            pending.extend_from_slice(piece);
            let step = client.handle(now, &mut pending, &mut app, &mut Vec::new());
            pending.drain(..step.unwrap().consumed);
        }
        assert!(!client.is_ready());
        assert_eq!((app.answers, client.last_response(|_| ())), (0, None));
        let end = client.end_of_input(now, pending.len(), &mut Vec::new());
        assert_eq!(end.map(|step| step.next), Ok(Next::Close));
        let seen = client.last_response(|answer| note(&answer));
        assert_eq!(seen.expect("it has ended"), b"200 OK|to the end\n");
        assert_eq!(client.outstanding(), 0);
    }
    let mut client = one();
    let mut input = input.as_bytes().to_vec();
    let now = Instant::now();
    let step = client.handle(now, &mut input, &mut Listener::default(), &mut Vec::new());
    assert_eq!(step.unwrap().next, Next::NeedInput);
    let step = client.close(now, &mut Vec::new());
    assert_eq!(step.unwrap().next, Next::Close);
    assert_eq!(client.last_response(|_| ()), None, "it may be half a one");
    let outcome = check(one, &format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(51)));
    assert_eq!(outcome.end, Err("BodyTooLarge".to_owned()));
}

#[test]
fn requests_as_they_are_written() {
    let mut client = Client::new("example.com:8080", SMALL).unwrap();
    let mut out = Vec::new();
    let sent = client.send(Instant::now(), &mut out, |mut ask| {
        assert_eq!(ask.room(), 3);
        ask.write("GET", "/a?b", &[("Accept", b"*/*")], b"")
            .unwrap();
        ask.write("POST", "http://h/", &[("hOst", b"h")], b"body")
            .unwrap();
        let mut body = ask.chunked("PUT", "/c", &[]).unwrap();
        body.chunk(b"0123456789abcdefg");
        body.finish();
        assert_eq!(ask.room(), 0);
        ask.write("GET", "/", &[], b"")
    });
    assert_eq!(sent, Ok(Err(WriteError::WindowFull)));
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "GET /a?b HTTP/1.1\r\nHost: example.com:8080\r\nAccept: */*\r\n\r\n\
         POST http://h/ HTTP/1.1\r\nhOst: h\r\nContent-Length: 4\r\n\r\nbody\
         PUT /c HTTP/1.1\r\nHost: example.com:8080\r\nTransfer-Encoding: chunked\r\n\r\n\
         11\r\n0123456789abcdefg\r\n0\r\n\r\n"
    );
    assert!(!client.is_ready());
    let sent = client.send(Instant::now(), &mut Vec::new(), |_| ());
    assert_eq!(sent, Err(Fault::WindowFull));
}

#[test]
fn requests_that_are_not_written() {
    #[rustfmt::skip]
    let table: &[(&str, &str, &[Field<'_>], WriteError)] = &[
        ("", "/", &[], WriteError::InvalidMethod),
        ("GE T", "/", &[], WriteError::InvalidMethod),
        ("CONNECT", "/", &[], WriteError::InvalidMethod),
        ("GET", "a", &[], WriteError::InvalidTarget),
        ("GET", "/ HTTP/1.1\r\nX: y", &[], WriteError::InvalidTarget),
        ("GET", "*", &[], WriteError::InvalidTarget),
        ("GET", "/", &[("", b"x")], WriteError::InvalidHeaderName),
        ("GET", "/", &[("a b", b"x")], WriteError::InvalidHeaderName),
        ("GET", "/", &[("a\r\nb", b"x")], WriteError::InvalidHeaderName),
        ("GET", "/", &[("a", b"x\r\ny")], WriteError::InvalidHeaderValue),
        ("GET", "/", &[("a", b"x\0")], WriteError::InvalidHeaderValue),
        ("GET", "/", &[("Content-length", b"1")], WriteError::FramingHeader),
        ("GET", "/", &[("transfer-Encoding", b"chunked")], WriteError::FramingHeader),
        ("GET", "/", &[("Connection", b"close")], WriteError::FramingHeader),
        ("GET", "/", &[("Host", b"a b")], WriteError::InvalidHost),
        ("GET", "/", &[("Host", b"a"), ("Host", b"a")], WriteError::InvalidHost),
    ];
    let mut client = asked(&[]);
    for (method, target, headers, error) in table {
        let mut out = Vec::new();
        let sent = client.send(Instant::now(), &mut out, |mut ask| {
            ask.write(method, target, headers, b"")
        });
        assert_eq!(sent, Ok(Err(*error)), "{method} {target} {headers:?}");
        assert!(out.is_empty());
    }
    assert_eq!((client.outstanding(), client.timeout()), (0, None));
    assert_eq!(
        Client::new("a b", SMALL).err(),
        Some(WriteError::InvalidHost)
    );
}

#[test]
fn an_unfinished_request_ends_the_connection() {
    let mut client = asked(&[]);
    let sent = client.send(Instant::now(), &mut Vec::new(), |mut ask| {
        drop(ask.chunked("PUT", "/", &[]).unwrap());
        ask.write("GET", "/", &[], b"")
    });
    assert_eq!(sent, Ok(Err(WriteError::Closing)));
    assert!(!client.is_ready());
    let sent = client.send(Instant::now(), &mut Vec::new(), |_| ());
    assert_eq!(sent, Err(Fault::OutOfTurn));
}

#[test]
fn a_response_that_says_close_takes_no_further_request() {
    let mut client = one();
    let mut app = |_: Answer<'_>, mut ask: Ask<'_>| {
        assert_eq!(ask.room(), 0);
        assert_eq!(ask.write("GET", "/", &[], b""), Err(WriteError::Closing));
        Flow::Continue
    };
    let mut input = *b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n";
    let step = client.handle(Instant::now(), &mut input, &mut app, &mut Vec::new());
    assert_eq!(step.unwrap().next, Next::Close);
    assert!(client.is_closed());
}

#[test]
fn a_response_has_its_time() {
    let start = Instant::now();
    let mut client = Client::new("h", SMALL).unwrap();
    let ask = |client: &mut Client, now| {
        let sent = client.send(now, &mut Vec::new(), |mut ask| {
            ask.write("GET", "/", &[], b"").unwrap();
        });
        assert_eq!(sent, Ok(()));
    };
    ask(&mut client, start);
    assert_eq!(client.timeout(), Some(start + SMALL.response_deadline));
    let later = start + Duration::from_secs(3);
    ask(&mut client, later);
    assert_eq!(client.timeout(), Some(start + SMALL.response_deadline));
    let step = client.handle(
        later,
        &mut NO.as_bytes().to_vec(),
        &mut Listener::default(),
        &mut Vec::new(),
    );
    assert_eq!(step.unwrap().next, Next::NeedInput);
    let deadline = later + SMALL.response_deadline;
    assert_eq!(client.timeout(), Some(deadline));
    let early = client.handle_timeout(deadline - Duration::from_millis(1), &mut Vec::new());
    assert_eq!(early.unwrap().next, Next::NeedInput);
    let late = client.handle_timeout(deadline, &mut Vec::new());
    assert_eq!(late.err(), Some(Fault::ResponseTimedOut));
    assert_eq!(client.timeout(), None);
}
