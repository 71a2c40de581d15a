//! Deadlines, deferred answers, the end of either side: what depends on more than the bytes.

use super::{SMALL, Service, refusal};
use shardloop_protocols::{
    Next, Step, StreamMachine,
    http1::{Http1Error as Fault, Reply, Response, Server, Status},
};
use std::time::{Duration, Instant};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const DEFER: &[u8] = b"GET /defer HTTP/1.1\r\nHost: h\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

struct Rig {
    machine: Server,
    app: Service,
    now: Instant,
    pending: Vec<u8>,
}

impl Rig {
    fn new() -> Self {
        let now = Instant::now();
        let mut machine = Server::new(SMALL);
        let step = machine.start(now, &mut Vec::new());
        assert_eq!(step, Ok(Step::need_input(0)));
        Self {
            machine,
            app: Service::default(),
            now,
            pending: Vec::new(),
        }
    }

    fn handle(&mut self, input: &[u8]) -> (Result<Next, Fault>, Vec<u8>) {
        self.pending.extend_from_slice(input);
        let mut out = Vec::new();
        let step = self
            .machine
            .handle(self.now, &mut self.pending, &mut self.app, &mut out);
        let next = step.map(|step| {
            self.pending.drain(..step.consumed);
            step.next
        });
        (next, out)
    }

    /// Lets so much time pass; what the machine says if that is its deadline.
    fn pass(&mut self, time: Duration) -> (Result<Next, Fault>, Vec<u8>) {
        self.now += time;
        let mut out = Vec::new();
        let step = self.machine.handle_timeout(self.now, &mut out);
        (step.map(|step| step.next), out)
    }

    fn answer(&mut self) -> (Result<(), Fault>, Vec<u8>) {
        let mut out = Vec::new();
        let sent = self.machine.send(self.now, &mut out, |reply: Reply<'_>| {
            reply
                .empty(Status::OK)
                .expect("the test keeps to the rules");
        });
        (sent, out)
    }

    fn end(&mut self) -> Result<Next, Fault> {
        let step = self
            .machine
            .end_of_input(self.now, self.pending.len(), &mut Vec::new());
        step.map(|step| step.next)
    }
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let mut rig = Rig::new();
    assert_eq!(rig.machine.timeout(), Some(rig.now + SMALL.idle_deadline));
    let nearly = SMALL.idle_deadline - Duration::from_millis(1);
    assert_eq!(rig.pass(nearly), (Ok(Next::NeedInput), vec![]));
    assert_eq!(rig.handle(GET), (Ok(Next::NeedInput), OK.to_vec()));
    assert_eq!(rig.machine.timeout(), Some(rig.now + SMALL.idle_deadline));
    assert_eq!(rig.handle(b"\r\n"), (Ok(Next::NeedInput), vec![]));
    assert_eq!(rig.pass(SMALL.idle_deadline), (Ok(Next::Close), vec![]));
    assert_eq!(rig.machine.timeout(), None);
    assert_eq!(rig.handle(GET), (Ok(Next::Close), vec![]));
}

#[test]
fn a_slow_head_is_408() {
    let mut rig = Rig::new();
    assert_eq!(rig.handle(&GET[..1]), (Ok(Next::NeedInput), vec![]));
    for at in 1..9 {
        rig.now += Duration::from_secs(1);
        assert_eq!(rig.handle(&GET[at..=at]), (Ok(Next::NeedInput), vec![]));
    }
    let timed_out = refusal(Status::REQUEST_TIMEOUT).into_bytes();
    assert_eq!(
        rig.pass(Duration::from_secs(2)),
        (Err(Fault::HeadTimedOut), timed_out)
    );
    assert_eq!(rig.handle(GET), (Ok(Next::Close), vec![]));
}

#[test]
fn a_slow_body_is_408() {
    let mut rig = Rig::new();
    let head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n";
    assert_eq!(rig.handle(head), (Ok(Next::NeedInput), vec![]));
    assert_eq!(rig.machine.held_bytes(), head.len());
    assert_eq!(rig.machine.timeout(), Some(rig.now + SMALL.body_deadline));
    let timed_out = refusal(Status::REQUEST_TIMEOUT).into_bytes();
    assert_eq!(
        rig.pass(SMALL.body_deadline),
        (Err(Fault::BodyTimedOut), timed_out)
    );
    assert_eq!(rig.machine.held_bytes(), 0);
}

#[test]
fn an_answer_may_come_later() {
    let mut rig = Rig::new();
    assert!(!rig.machine.is_ready());
    assert_eq!(rig.answer(), (Err(Fault::NothingOwed), vec![]));
    let input = [DEFER, GET, DEFER].concat();
    assert_eq!(rig.handle(&input), (Ok(Next::NeedInput), vec![]));
    assert_eq!(rig.pending.len(), GET.len() + DEFER.len());
    assert_eq!(rig.app.requests, 1);
    assert!(rig.machine.is_ready());
    assert_eq!(rig.answer(), (Ok(()), OK.to_vec()));
    assert!(!rig.machine.is_ready());
    assert_eq!(rig.handle(b""), (Ok(Next::NeedInput), OK.to_vec()));
    assert_eq!((rig.app.requests, rig.pending.len()), (3, 0));
    assert_eq!(rig.answer(), (Ok(()), OK.to_vec()));
    assert_eq!(rig.end(), Ok(Next::Close));
}

#[test]
fn an_answer_that_never_comes_is_503() {
    let mut rig = Rig::new();
    assert_eq!(rig.handle(DEFER), (Ok(Next::NeedInput), vec![]));
    assert_eq!(rig.machine.timeout(), Some(rig.now + SMALL.answer_deadline));
    let unavailable = refusal(Status::SERVICE_UNAVAILABLE).into_bytes();
    assert_eq!(
        rig.pass(SMALL.answer_deadline),
        (Err(Fault::AnswerTimedOut), unavailable)
    );
    assert_eq!(rig.answer(), (Err(Fault::OutOfTurn), vec![]));
}

#[test]
fn a_malformed_deferred_answer_is_still_owed() {
    let mut rig = Rig::new();
    let _ = rig.handle(DEFER);
    let mut out = Vec::new();
    let sent = rig.machine.send(rig.now, &mut out, |reply: Reply<'_>| {
        reply.respond(&Response {
            status: Status::NO_CONTENT,
            headers: &[],
            body: b"x",
        })
    });
    assert!(matches!(sent, Ok(Err(_))));
    assert!(out.is_empty());
    assert_eq!(rig.answer(), (Ok(()), OK.to_vec()));
}

#[test]
fn an_answer_that_is_owed_outlives_the_peers_end() {
    let mut rig = Rig::new();
    let _ = rig.handle(DEFER);
    assert_eq!(rig.end(), Ok(Next::NeedInput));
    let last = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(rig.answer(), (Ok(()), last.to_vec()));
    assert!(rig.machine.is_closed());
    assert_eq!(rig.answer(), (Err(Fault::OutOfTurn), vec![]));
    assert_eq!(rig.handle(b""), (Ok(Next::Close), vec![]));
}

#[test]
fn too_much_input_before_a_deferred_answer_is_a_fault() {
    let mut rig = Rig::new();
    assert_eq!(rig.handle(DEFER), (Ok(Next::NeedInput), vec![]));
    assert_eq!(rig.handle(&[b'x'; 100]), (Ok(Next::NeedInput), vec![]));
    assert_eq!(rig.handle(b"x"), (Err(Fault::InputWhileDeferred), vec![]));
    assert_eq!(rig.answer(), (Err(Fault::OutOfTurn), vec![]));
}

#[test]
fn closing_is_the_end_in_every_state() {
    for input in [
        &b""[..],
        b"GET",
        DEFER,
        b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n",
    ] {
        let mut rig = Rig::new();
        let _ = rig.handle(input);
        for _ in 0..2 {
            let mut out = Vec::new();
            assert_eq!(rig.machine.close(rig.now, &mut out), Ok(Step::close(0)));
            assert!(out.is_empty());
        }
        let requests = rig.app.requests;
        assert_eq!(rig.handle(GET), (Ok(Next::Close), vec![]));
        assert_eq!(rig.app.requests, requests);
    }
}
