//! What drivers do for a protocol with manners: one that greets, says goodbye and waits for an answer, holds what is not whole
//! itself, owes answers and runs out of patience.

use crate::{
    fake::{FakeStream, Running, World, block_on},
    splits::{Answering, answers, frame, frames},
};
use shardloop_protocols::{
    App, Fault, Flow, Side, Step, StreamMachine,
    drive::{self, Connection, DriveError, Host, SEND_TIMEOUT, Turned},
    length::Length,
};
use std::{
    fmt,
    time::{Duration, Instant},
};

const MS: Duration = Duration::from_millis(1);
/// A peer that says nothing for as long is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lines of text. Greets with "hi.", says goodbye with "bye.", and after that waits for the line "bye".
#[derive(Debug, Default)]
struct Polite {
    line: Vec<u8>,
    deadline: Option<Instant>,
    has_closed: bool,
    /// Takes nothing before the answer to the last line was sent.
    owes: bool,
}

/// A line was answered with silence if nothing is put in.
struct Reply<'r>(&'r mut Vec<u8>);

#[derive(Debug, PartialEq, Eq)]
enum Rude {
    Silent,
    Gone,
}

impl fmt::Display for Rude {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

impl std::error::Error for Rude {}

impl Fault for Rude {
    fn side(&self) -> Side {
        Side::Peer
    }
}

impl Polite {
    /// Takes what belongs to the line that has begun; whether it is whole.
    fn take_line(&mut self, input: &[u8]) -> (usize, bool) {
        let end = input.iter().position(|byte| *byte == b'\n');
        self.line
            .extend_from_slice(&input[..end.unwrap_or(input.len())]);
        (end.map_or(input.len(), |end| end + 1), end.is_some())
    }
}

impl StreamMachine for Polite {
    type Message<'m> = Vec<u8>;
    type Reply<'r> = Reply<'r>;
    type Error = Rude;

    fn start(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, Rude> {
        assert!(self.deadline.is_none(), "started twice");
        self.deadline = Some(now + PATIENCE);
        out.extend_from_slice(b"hi.");
        Ok(Step::need_input(0))
    }

    fn held_bytes(&self) -> usize {
        self.line.len()
    }

    fn handle(
        &mut self,
        now: Instant,
        input: &mut [u8],
        app: &mut impl App<Self>,
        out: &mut Vec<u8>,
    ) -> Result<Step, Rude> {
        self.deadline = Some(now + PATIENCE);
        let mut consumed = 0;
        while !self.owes {
            let (taken, whole) = self.take_line(&input[consumed..]);
            consumed += taken;
            if !whole {
                break;
            }
            let line = std::mem::take(&mut self.line);
            match (&line[..], self.has_closed) {
                (b"bye", true) => return Ok(Step::close(consumed)),
                (_, true) => {}
                (b"later", false) => self.owes = true,
                (_, false) => {
                    app.message(line, Reply(out));
                }
            }
        }
        Ok(Step::need_input(consumed))
    }

    fn end_of_input(
        &mut self,
        _now: Instant,
        _unread: usize,
        _out: &mut Vec<u8>,
    ) -> Result<Step, Rude> {
        if self.has_closed {
            Err(Rude::Gone)
        } else {
            Ok(Step::close(0))
        }
    }

    fn timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn handle_timeout(&mut self, now: Instant, _out: &mut Vec<u8>) -> Result<Step, Rude> {
        match self.deadline {
            Some(at) if at <= now => Err(Rude::Silent),
            _ => Ok(Step::need_input(0)),
        }
    }

    fn send<R>(
        &mut self,
        _now: Instant,
        out: &mut Vec<u8>,
        f: impl FnOnce(Reply<'_>) -> R,
    ) -> Result<R, Rude> {
        self.owes = false;
        Ok(f(Reply(out)))
    }

    fn close(&mut self, _now: Instant, out: &mut Vec<u8>) -> Result<Step, Rude> {
        if !std::mem::replace(&mut self.has_closed, true) {
            out.extend_from_slice(b"bye.");
        }
        Ok(Step::need_input(0))
    }
}

fn nod(_: Vec<u8>, Reply(out): Reply<'_>) -> Flow {
    out.extend_from_slice(b"ok.");
    Flow::Continue
}

fn serve(world: &World) -> Running<'static, Result<(), DriveError<Rude>>> {
    let served = drive::serve(world.stream(), Polite::default(), nod, world.clone());
    Running::new(world, served)
}

#[test]
fn a_greeting_comes_before_any_input() {
    let world = World::new();
    let mut server = serve(&world);
    assert!(server.run().is_none());
    assert_eq!(world.sent(), b"hi.");
    world.arrive(b"one\ntwo\n");
    world.peer_closes();
    server.finish().unwrap();
    assert_eq!(world.sent(), b"hi.ok.ok.");
}

#[test]
fn a_stopped_server_says_goodbye_and_hears_the_peers() {
    let world = World::new();
    let mut server = serve(&world);
    assert!(server.run().is_none());
    world.stop();
    assert!(server.run().is_none());
    assert_eq!(world.sent(), b"hi.bye.");
    assert!(!world.write_shut_down());
    world.arrive(b"what the application does not see any more\nby");
    assert!(server.run().is_none());
    world.arrive(b"e\n");
    assert!(server.run().is_none());
    assert!(world.write_shut_down());
    world.peer_closes();
    server.finish().unwrap();
    assert_eq!(world.sent(), b"hi.bye.");
}

#[test]
fn a_goodbye_without_an_answer_is_not_awaited_for_ever() {
    let world = World::new();
    let mut server = serve(&world);
    assert!(server.run().is_none());
    world.stop();
    assert!(server.run().is_none());
    world.pass(1000 * MS);
    assert!(server.run().is_none());
    assert!(world.write_shut_down());
    world.pass(1000 * MS);
    server.finish().unwrap();
}

#[test]
fn a_goodbye_is_given_up_though_input_never_pauses() {
    let world = World::new();
    let mut server = serve(&world);
    assert!(server.run().is_none());
    world.stop();
    assert!(server.run().is_none());
    world.never_pause(&[b'x'; 5000]);
    assert!(server.run_for(100).is_none());
    world.pass(1000 * MS);
    assert!(server.run_for(100).is_none());
    assert!(world.write_shut_down());
    world.pass(1000 * MS);
    assert!(server.run_for(100).is_some());
}

#[test]
fn a_message_that_the_machine_holds_in_part_is_awaited_and_answered() {
    let world = World::new();
    let mut server = serve(&world);
    world.arrive(b"half");
    assert!(server.run().is_none());
    world.stop();
    assert!(server.run().is_none());
    assert_eq!(
        world.sent(),
        b"hi.",
        "no goodbye in the middle of a message"
    );
    world.arrive(b" and the rest\n");
    assert!(server.run().is_none());
    assert_eq!(world.sent(), b"hi.ok.bye.");
    world.arrive(b"bye\n");
    world.peer_closes();
    server.finish().unwrap();
}

#[test]
fn a_peer_that_vanishes_after_the_goodbye_is_the_machines_to_judge() {
    let world = World::new();
    let mut server = serve(&world);
    assert!(server.run().is_none());
    world.stop();
    world.peer_closes();
    // The end was there before the stop was seen, or after: both are answered by the machine.
    assert!(server.finish().is_ok() || world.sent().ends_with(b"bye."));
    let world = World::new();
    let mut server = serve(&world);
    assert!(server.run().is_none());
    world.stop();
    assert!(server.run().is_none());
    world.peer_closes();
    let fault = server.finish().unwrap_err();
    assert!(matches!(fault, DriveError::Protocol(Rude::Gone)));
}

#[test]
fn deadlines_that_move_on_cost_no_alarm_per_message() {
    let world = World::new();
    let mut server = serve(&world);
    for _ in 0..1000 {
        world.arrive(b"still here\n");
        world.pass(10 * MS);
        assert!(server.run().is_none());
    }
    // 10 s in all, and an alarm per 5 s of them.
    assert!(world.alarms() <= 5, "{} alarms", world.alarms());
    world.pass(PATIENCE - MS);
    assert!(server.run().is_none());
    world.pass(MS);
    assert!(server.run().is_none(), "it hears the peer out");
    assert!(world.write_shut_down());
    world.peer_closes();
    let fault = server.finish().unwrap_err();
    assert!(matches!(fault, DriveError::Protocol(Rude::Silent)));
}

#[test]
fn a_peer_that_takes_nothing_is_given_up() {
    let world = World::new();
    let mut server = serve(&world);
    assert!(server.run().is_none());
    world.block_sends(true);
    world.arrive(b"one\n");
    world.pass(MS);
    assert!(server.run().is_none());
    world.pass(SEND_TIMEOUT - MS);
    assert!(server.run().is_none());
    world.pass(MS);
    let fault = server.finish().unwrap_err();
    assert_eq!(fault.side(), Side::Peer);
    let DriveError::Stream(error) = &fault else {
        panic!("{fault}")
    };
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(error.to_string().contains("30s"), "{error}");
    assert_eq!(world.held_bytes(), 0);
}

#[test]
fn a_peer_that_takes_it_in_the_end_is_not() {
    let world = World::new();
    let served = drive::serve(
        world.stream(),
        Length::default(),
        Answering::default(),
        world.clone(),
    );
    let mut server = Running::new(&world, served);
    for _ in 0..4 {
        world.block_sends(true);
        world.arrive(&frame(b"slow"));
        assert!(server.run().is_none());
        world.pass(SEND_TIMEOUT - MS);
        assert!(server.run().is_none());
        world.block_sends(false);
        assert!(server.run().is_none());
    }
    assert_eq!(world.sent(), answers(&frames([&b"slow"[..]; 4])));
}

fn connection() -> (World, Connection<FakeStream, Polite>) {
    let world = World::new();
    let connection = Connection::new(world.stream(), Polite::default());
    (world, connection)
}

#[test]
fn an_answer_that_was_owed_lets_the_rest_go_on() {
    let (world, mut connection) = connection();
    let host = world.clone();
    world.arrive(b"one\nlater\ntwo\nthr");
    let turned = block_on(&world, async {
        connection.start(&host).await.unwrap();
        let received = connection.receive().await.unwrap();
        connection
            .work_off(&host, &mut nod, received)
            .await
            .unwrap();
        assert_eq!(host.sent(), b"hi.ok.");
        assert_eq!(connection.unread(), b"two\nthr".len());
        let owed = connection.send(&host, |Reply(out)| out.extend_from_slice(b"now."));
        owed.await.unwrap();
        connection.work_off_rest(&host, &mut nod).await.unwrap()
    });
    assert_eq!(turned, Turned::Open);
    assert_eq!(world.sent(), b"hi.ok.now.ok.");
    assert_eq!(connection.unread(), b"thr".len());
}

#[test]
fn a_service_with_a_mind_of_its_own_says_goodbye_once() {
    let (world, mut connection) = connection();
    let host = world.clone();
    block_on(&world, async {
        connection.start(&host).await.unwrap();
        assert_eq!(connection.close(&host).await.unwrap(), Turned::Open);
        assert_eq!(connection.close(&host).await.unwrap(), Turned::Open);
        host.arrive(b"bye\n");
        let received = connection.receive().await.unwrap();
        let turned = connection.work_off(&host, &mut nod, received).await;
        assert_eq!(turned.unwrap(), Turned::Closed);
    });
    assert_eq!(world.sent(), b"hi.bye.");
    assert!(connection.timeout() <= Some(world.now() + PATIENCE));
}
