//! The drivers, over a stream in memory and in virtual time.

use crate::{
    fake::{FakeStream, Running, World, block_on},
    layer::{Mask, mask, unmask},
    random::Random,
    splits::{Answering, answers, frame, frames, random_frames},
};
use shardloop::{Bytes, RecvHalf, SendHalf, Stream, lease::Loan};
use shardloop_protocols::{
    App, Flow, Next, Side, Step, StreamMachine,
    drive::{self, Connection, DriveError, Turned},
    length::{self, Length, LengthError},
    machine::{TURN_MESSAGES, TURN_OUTPUT_BYTES},
};
use std::{
    convert::Infallible,
    fmt::Debug,
    io,
    time::{Duration, Instant},
};

const MS: Duration = Duration::from_millis(1);
const LEASE_BYTES: usize = 256 * 1024;

type Served = Result<(), DriveError<LengthError>>;

fn serve(world: &World) -> Running<'static, Served> {
    serve_with(world, Answering::default())
}

fn serve_with(world: &World, app: Answering) -> Running<'static, Served> {
    let served = drive::serve(world.stream(), Length::default(), app, world.clone());
    Running::new(world, served)
}

/// A server's whole connection, its input in these pieces; its end and what it sent.
fn exchange<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (Served, Vec<u8>) {
    let world = World::new();
    pieces.into_iter().for_each(|piece| world.arrive(piece));
    world.peer_closes();
    let served = serve(&world).finish();
    assert!(world.write_shut_down());
    assert_eq!(world.held_bytes(), 0);
    (served, world.sent())
}

fn some_frames() -> Vec<u8> {
    frames([&b"one"[..], b"", b"three", &[200; 300], b"4"])
}

#[test]
fn every_cut_of_the_input_gives_the_same_output() {
    let input = some_frames();
    for at in 1..input.len() {
        let (front, back) = input.split_at(at);
        let (served, sent) = exchange([front, back]);
        assert!(served.is_ok(), "cut at {at}");
        assert!(sent == answers(&input), "cut at {at}");
    }
    let (served, sent) = exchange(input.chunks(1));
    assert!(served.is_ok() && sent == answers(&input));
}

#[test]
fn random_frames_cut_at_random() {
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let input = random_frames(20, [3, 400, 20_000][random.below(3)], &mut random);
        let most = [5, 5000, 100_000][random.below(3)];
        let cut = 1 + random.below(most);
        let (served, sent) = exchange(input.chunks(cut));
        assert!(served.is_ok(), "seed {seed}");
        assert!(sent == answers(&input), "seed {seed}");
    }
}

#[test]
fn a_message_may_span_many_leases() {
    let payload = Random::new(1).bytes(length::DEFAULT_LIMIT_BYTES as usize);
    let input = frames([&payload[..], b"small", &payload]);
    for cut in [1448, 4096, 100_000, usize::MAX] {
        let (served, sent) = exchange(input.chunks(cut));
        assert!(served.is_ok(), "pieces of {cut}");
        assert!(sent == answers(&input), "pieces of {cut}");
    }
}

#[test]
fn slow_sends_change_nothing() {
    let (world, input) = (World::new(), some_frames());
    world.slow_sends();
    input.chunks(11).for_each(|piece| world.arrive(piece));
    world.peer_closes();
    serve(&world).finish().unwrap();
    assert_eq!(world.sent(), answers(&input));
}

#[test]
fn many_small_messages_in_one_lease_are_all_answered() {
    let input = frames([&b"x"[..]; 800]);
    let (served, sent) = exchange([&input[..]]);
    assert!(served.is_ok());
    assert!(sent == answers(&input));
}

#[test]
fn layers_are_driven_as_any_machine_is() {
    let (world, plain) = (World::new(), some_frames());
    let mut random = Random::new(2);
    let records = mask(&mask(&plain, &mut random), &mut random);
    records.chunks(17).for_each(|piece| world.arrive(piece));
    world.peer_closes();
    let machine = Mask::new(Mask::new(Length::default()));
    let served = drive::serve(world.stream(), machine, Answering::default(), world.clone());
    block_on(&world, served).unwrap();
    assert_eq!(unmask(&unmask(&world.sent())), answers(&plain));
}

#[test]
fn half_a_message_and_the_end_is_a_fault_of_the_peer() {
    let (served, sent) = exchange([&frame(b"whole")[..], &frame(b"half")[..6]]);
    let fault = served.unwrap_err();
    assert!(matches!(
        fault,
        DriveError::Protocol(LengthError::Truncated { unread_bytes: 6 })
    ));
    assert_eq!(fault.side(), Side::Peer);
    assert_eq!(sent, answers(&frame(b"whole")));
}

#[test]
fn nothing_is_answered_after_an_over_long_length() {
    let good = frame(b"good");
    let input = [&good[..], &[255; 4], &good, &good].concat();
    for cut in [1, 5, 1000] {
        let (served, sent) = exchange(input.chunks(cut));
        let fault = served.unwrap_err();
        assert!(matches!(
            fault,
            DriveError::Protocol(LengthError::TooLong { .. })
        ));
        assert_eq!(sent, answers(&good));
    }
}

#[test]
fn a_peer_at_fault_is_heard_out_so_that_it_gets_the_last_answer() {
    let world = World::new();
    world.arrive(&[255; 4]);
    let mut server = serve(&world);
    assert!(
        server.run().is_none(),
        "the connection is not closed over unread input"
    );
    assert!(world.write_shut_down());
    world.arrive(&[1; 5000]);
    assert!(server.run().is_none());
    assert_eq!((world.waiting(), world.held_bytes()), (0, 0));
    world.peer_closes();
    let fault = server.finish().unwrap_err();
    assert!(matches!(
        fault,
        DriveError::Protocol(LengthError::TooLong { .. })
    ));
}

#[test]
fn a_broken_send_is_the_streams_fault() {
    let world = World::new();
    world.break_sends_after(9);
    world.arrive(&frame(b"first"));
    world.arrive(&frame(b"second"));
    let fault = serve(&world).finish().unwrap_err();
    assert!(
        matches!(&fault, DriveError::Stream(error) if error.kind() == io::ErrorKind::BrokenPipe)
    );
    assert_eq!(fault.side(), Side::Peer);
    assert_eq!(world.sent(), answers(&frame(b"first")));
    assert_eq!(world.held_bytes(), 0);
}

#[test]
fn an_error_says_its_reason_once() {
    use std::error::Error;
    let fault: DriveError<LengthError> = DriveError::Stream(io::ErrorKind::BrokenPipe.into());
    assert!(fault.to_string().contains("broken pipe"));
    assert!(fault.source().is_none());
    let fault = DriveError::Protocol(LengthError::Truncated { unread_bytes: 3 });
    assert!(fault.to_string().contains("3 bytes"));
    assert!(fault.source().is_none());
}

#[test]
fn an_idle_connection_holds_no_buffer() {
    let world = World::new();
    let mut server = serve(&world);
    assert!(server.run().is_none());
    for input in [frame(b"x"), frame(&[7; 3000]), frame(b"half")[..5].to_vec()] {
        world.arrive(&input);
        assert!(server.run().is_none());
        assert_eq!(world.held_bytes(), 0);
    }
}

#[test]
fn a_stop_ends_an_idle_connection_in_order() {
    let world = World::new();
    world.arrive(&frame(b"asked before"));
    let mut server = serve(&world);
    assert!(server.run().is_none());
    world.stop();
    assert!(
        server.run().is_none(),
        "it reads on until the peer has closed too"
    );
    assert!(world.write_shut_down());
    world.arrive(&frame(b"asked too late"));
    assert!(server.run().is_none());
    assert_eq!(world.waiting(), 0);
    world.peer_closes();
    server.finish().unwrap();
    assert_eq!(world.sent(), answers(&frame(b"asked before")));
}

#[test]
fn a_stopped_server_does_not_wait_for_ever() {
    let world = World::new();
    world.stop();
    let mut server = serve(&world);
    assert!(server.run().is_none());
    world.pass(999 * MS);
    assert!(server.run().is_none());
    world.pass(MS);
    server.finish().unwrap();
}

#[test]
fn a_message_that_has_begun_is_answered_after_a_stop() {
    let (world, input) = (World::new(), frame(b"begun before"));
    world.arrive(&input[..7]);
    let mut server = serve(&world);
    assert!(server.run().is_none());
    world.stop();
    assert!(server.run().is_none());
    assert!(!world.write_shut_down());
    world.arrive(&input[7..9]);
    assert!(server.run().is_none());
    assert!(!world.write_shut_down());
    world.arrive(&[&input[9..], &frame(b"begun after")[..]].concat());
    assert!(server.run().is_none());
    assert!(world.write_shut_down());
    assert_eq!(world.held_bytes(), 0);
    world.peer_closes();
    server.finish().unwrap();
    assert_eq!(world.sent(), answers(&input));
}

#[test]
fn a_stop_is_noticed_though_the_input_never_pauses() {
    let (world, input) = (World::new(), frame(&[1; 1021]));
    // No piece ends where a message does.
    world.arrive(&input[..7]);
    world.never_pause(&[&input[7..], &input[..7]].concat());
    let mut server = serve(&world);
    assert!(server.run_for(10).is_none());
    assert!(!world.write_shut_down());
    world.stop();
    assert!(server.run_for(10).is_none());
    assert!(world.write_shut_down());
    world.pass(1001 * MS);
    assert!(
        server.run_for(10).is_some(),
        "it gives up on a peer that never closes"
    );
}

#[test]
fn a_stop_is_noticed_whatever_the_pieces_are() {
    for input in [frame(b"x"), frames([&b"x"[..]; 65]), frame(&[1; 100_000])] {
        let world = World::new();
        world.never_pause(&input);
        world.stop();
        let mut server = serve(&world);
        assert!(server.run_for(100).is_none());
        assert!(world.write_shut_down());
    }
}

fn assert_bounded(running: &Running<'_, impl Sized>, most_received_bytes: usize) {
    assert!(running.most.receives <= TURN_MESSAGES, "{:?}", running.most);
    assert!(
        running.most.received_bytes <= most_received_bytes,
        "{:?}",
        running.most
    );
}

#[test]
fn input_that_never_pauses_lets_others_run() {
    for payload_bytes in [1, 1000, 16_000, 600_000] {
        let world = World::new();
        world.never_pause(&frame(&vec![1; payload_bytes]));
        let mut server = serve(&world);
        assert!(server.run_for(100).is_none());
        assert_eq!(server.yields, 100);
        assert_bounded(&server, TURN_OUTPUT_BYTES + LEASE_BYTES);
        assert!(
            server.most.sent_bytes < 2 * TURN_OUTPUT_BYTES + 600_004,
            "{:?}",
            server.most
        );
    }
}

#[test]
fn long_answers_to_short_questions_let_others_run() {
    let world = World::new();
    world.never_pause(&frame(b"x"));
    let app = Answering {
        padding_bytes: 60_000,
        ..Answering::default()
    };
    let mut server = serve_with(&world, app);
    assert!(server.run_for(100).is_none());
    assert!(
        server.most.sent_bytes < 2 * TURN_OUTPUT_BYTES + 60_005,
        "{:?}",
        server.most
    );
}

#[test]
fn reading_on_after_the_end_lets_others_run() {
    for input in [&[1; 3][..], &[1; 10_000]] {
        let world = World::new();
        world.stop();
        let mut server = serve(&world);
        assert!(server.run().is_none());
        world.never_pause(input);
        assert!(server.run_for(100).is_none());
        assert_bounded(&server, TURN_OUTPUT_BYTES + LEASE_BYTES);
    }
}

#[test]
fn echo_sends_back_what_came_however_it_was_cut() {
    let input = Random::new(3).bytes(300_000);
    for cut in [999, 4096, 100_000] {
        let (world, mut seen) = (World::new(), Vec::new());
        input.chunks(cut).for_each(|piece| world.arrive(piece));
        world.peer_closes();
        let note = |bytes: &mut [u8]| seen.extend_from_slice(bytes);
        block_on(&world, drive::echo(world.stream(), note, world.clone())).unwrap();
        assert!(seen == input && world.sent() == input);
        assert!(world.write_shut_down());
        assert_eq!(world.held_bytes(), 0);
    }
}

fn echo(world: &World) -> Running<'static, io::Result<()>> {
    Running::new(world, drive::echo(world.stream(), |_| (), world.clone()))
}

#[test]
fn echo_ends_in_order_when_stopped() {
    let world = World::new();
    world.arrive(b"early");
    let mut server = echo(&world);
    assert!(server.run().is_none());
    world.stop();
    assert!(server.run().is_none());
    assert!(world.write_shut_down());
    world.arrive(b"late");
    assert!(server.run().is_none());
    world.pass(1000 * MS);
    server.finish().unwrap();
    assert_eq!(world.sent(), b"early");
}

#[test]
fn echo_lets_others_run_and_notices_a_stop() {
    for input in [&[1; 3][..], &[1; 10_000]] {
        let world = World::new();
        world.never_pause(input);
        let mut server = echo(&world);
        assert!(server.run_for(100).is_none());
        world.stop();
        assert!(server.run_for(100).is_none());
        assert!(world.write_shut_down());
        assert_bounded(&server, TURN_OUTPUT_BYTES + LEASE_BYTES);
        world.pass(1000 * MS);
        assert!(server.run_for(10).is_some());
    }
}

#[test]
fn echo_ends_when_the_stream_breaks() {
    let world = World::new();
    world.break_sends_after(3);
    world.arrive(b"four");
    let error = echo(&world).finish().unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(world.held_bytes(), 0);
}

/// Says "tick" every `every`, and closes after `most` ticks. Takes any input, and forgets it.
struct Ticker {
    every: Duration,
    next: Option<Instant>,
    most: usize,
    /// What its output's buffer had before the last tick.
    kept_bytes: usize,
}

impl Ticker {
    fn new(world: &World, every: Duration, most: usize) -> Self {
        Self {
            every,
            next: Some(drive::Host::now(world) + every),
            most,
            kept_bytes: 0,
        }
    }
}

impl StreamMachine for Ticker {
    type Message<'m> = ();
    type Reply<'r> = ();
    type Error = Infallible;

    fn handle(
        &mut self,
        _now: Instant,
        input: &mut [u8],
        _app: &mut impl App<Self>,
        _out: &mut Vec<u8>,
    ) -> Result<Step, Infallible> {
        Ok(Step {
            consumed: input.len(),
            next: Next::NeedInput,
        })
    }

    fn end_of_input(
        &mut self,
        _now: Instant,
        _unread: usize,
        out: &mut Vec<u8>,
    ) -> Result<Step, Infallible> {
        out.extend_from_slice(b"end");
        Ok(Step {
            consumed: 0,
            next: Next::Close,
        })
    }

    fn timeout(&self) -> Option<Instant> {
        self.next
    }

    fn handle_timeout(&mut self, now: Instant, out: &mut Vec<u8>) -> Result<Step, Infallible> {
        let due = self.next.is_some_and(|at| now >= at);
        self.kept_bytes = out.capacity();
        if due {
            out.extend_from_slice(b"tick");
            self.most -= 1;
            self.next = (self.most > 0).then(|| now + self.every);
        }
        let next = if self.most == 0 {
            Next::Close
        } else {
            Next::NeedInput
        };
        Ok(Step { consumed: 0, next })
    }

    fn send<R>(
        &mut self,
        _now: Instant,
        _out: &mut Vec<u8>,
        f: impl FnOnce(()) -> R,
    ) -> Result<R, Infallible> {
        Ok(f(()))
    }
}

fn serve_ticks(world: &World, most: usize) -> Running<'static, Result<(), DriveError<Infallible>>> {
    let machine = Ticker::new(world, 10 * MS, most);
    let app = |(), ()| Flow::Continue;
    Running::new(
        world,
        drive::serve(world.stream(), machine, app, world.clone()),
    )
}

#[test]
fn a_machine_is_told_in_time() {
    let world = World::new();
    let mut server = serve_ticks(&world, 3);
    assert!(server.run().is_none());
    world.pass(9 * MS);
    assert!(server.run().is_none());
    assert_eq!(world.sent(), b"");
    world.pass(MS);
    assert!(server.run().is_none());
    assert_eq!(world.sent(), b"tick");
    world.arrive(b"input in between");
    world.pass(10 * MS);
    assert!(server.run().is_none());
    assert_eq!(world.sent(), b"ticktick");
    assert!(!world.write_shut_down());
    world.pass(25 * MS);
    assert!(server.run().is_none(), "it hears the peer out");
    assert_eq!(world.sent(), b"tickticktick");
    assert!(world.write_shut_down());
    world.peer_closes();
    server.finish().unwrap();
}

#[test]
fn a_machine_is_told_in_time_though_the_input_never_pauses() {
    let world = World::new();
    world.never_pause(&[1; 5000]);
    let mut server = serve_ticks(&world, 3);
    assert!(server.run_for(10).is_none());
    world.pass(10 * MS);
    assert!(server.run_for(10).is_none());
    assert_eq!(world.sent(), b"tick");
}

#[test]
fn a_stop_does_not_wait_for_a_timeout() {
    let world = World::new();
    let mut server = serve_ticks(&world, 3);
    assert!(server.run().is_none());
    world.stop();
    assert!(server.run().is_none());
    assert!(world.write_shut_down());
}

#[test]
fn what_a_machine_says_at_the_end_of_input_is_sent() {
    let world = World::new();
    world.peer_closes();
    serve_ticks(&world, 3).finish().unwrap();
    assert_eq!(world.sent(), b"end");
}

/// A machine that is never content with the time.
struct Impatient(Instant);

impl StreamMachine for Impatient {
    type Message<'m> = ();
    type Reply<'r> = ();
    type Error = Infallible;

    fn handle(
        &mut self,
        _now: Instant,
        input: &mut [u8],
        _app: &mut impl App<Self>,
        _out: &mut Vec<u8>,
    ) -> Result<Step, Infallible> {
        Ok(Step {
            consumed: input.len(),
            next: Next::NeedInput,
        })
    }

    fn end_of_input(
        &mut self,
        _now: Instant,
        _unread: usize,
        _out: &mut Vec<u8>,
    ) -> Result<Step, Infallible> {
        Ok(Step {
            consumed: 0,
            next: Next::Close,
        })
    }

    fn timeout(&self) -> Option<Instant> {
        Some(self.0)
    }

    fn handle_timeout(&mut self, _now: Instant, _out: &mut Vec<u8>) -> Result<Step, Infallible> {
        Ok(Step {
            consumed: 0,
            next: Next::NeedInput,
        })
    }

    fn send<R>(
        &mut self,
        _now: Instant,
        _out: &mut Vec<u8>,
        f: impl FnOnce(()) -> R,
    ) -> Result<R, Infallible> {
        Ok(f(()))
    }
}

#[test]
fn a_deadline_that_stays_in_the_past_does_not_keep_the_shard() {
    let world = World::new();
    let machine = Impatient(drive::Host::now(&world));
    let app = |(), ()| Flow::Continue;
    let served = drive::serve(world.stream(), machine, app, world.clone());
    let mut server = Running::new(&world, served);
    assert!(server.run_for(10).is_none());
    world.stop();
    assert!(server.run_for(10).is_none());
    assert!(world.write_shut_down());
}

/// A stream of a runtime that moves tasks between threads; its peer has closed.
struct Silent;

impl RecvHalf for Silent {
    type Lease = Loan;

    async fn recv(&mut self) -> io::Result<Loan> {
        Ok(Loan::new(Vec::new(), 0, drop))
    }
}

impl SendHalf for Silent {
    async fn send_all<B: Bytes>(&mut self, bytes: B) -> (io::Result<()>, B) {
        (Ok(()), bytes)
    }

    async fn shutdown_write(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Stream for Silent {
    type Recv = Self;
    type Send = Self;

    fn into_split(self) -> (Self, Self) {
        (Self, Self)
    }
}

/// A host of such a runtime.
#[derive(Clone, Copy)]
struct Anywhere;

impl drive::Host for Anywhere {
    fn now(&self) -> Instant {
        Instant::now()
    }

    async fn sleep_until(&self, _deadline: Instant) {
        std::future::pending().await
    }

    async fn stopping(&self) {
        std::future::pending().await
    }
}

#[test]
fn on_streams_that_move_between_threads_drivers_do_too() {
    fn run(future: impl Future<Output: Debug> + Send) {
        block_on(&World::new(), future);
    }
    let app = |_: &mut [u8], _: length::Reply<'_>| Flow::Continue;
    run(drive::serve(Silent, Length::default(), app, Anywhere));
    let masked = Mask::new(Length::default());
    run(drive::serve(Silent, masked, Answering::default(), Anywhere));
    run(drive::echo(Silent, |_| (), Anywhere));
    let mut client = Connection::new(Silent, Length::default());
    run(client.send(&Anywhere, |mut reply| reply.send(b"x")));
}

#[test]
fn an_idle_connection_keeps_only_a_small_buffer_for_output() {
    let world = World::new();
    let mut connection = Connection::new(world.stream(), Ticker::new(&world, MS, 3));
    world.arrive(&[1; 4000]);
    let received = block_on(&world, connection.receive()).unwrap();
    let mut app = |(), ()| Flow::Continue;
    let turned = block_on(&world, connection.work_off(&world, &mut app, received));
    assert!(matches!(turned, Ok(Turned::Open)));
    world.pass(MS);
    let turned = block_on(&world, connection.timed_out(&world));
    assert!(matches!(turned, Ok(Turned::Open)));
    assert!(connection.machine().kept_bytes < 1100);
}

fn client(world: &World) -> Connection<FakeStream, Length> {
    Connection::new(world.stream(), Length::default())
}

/// Receives once and works that off; the messages that came.
async fn step(connection: &mut Connection<FakeStream, Length>, world: &World) -> (Turned, Vec<u8>) {
    let mut notes = Vec::new();
    let mut app = |message: &mut [u8], _: length::Reply<'_>| {
        notes.extend_from_slice(message);
        Flow::Continue
    };
    let received = connection.receive().await.expect("the stream works");
    let turned = connection
        .work_off(world, &mut app, received)
        .await
        .expect("the test's peer keeps to the protocol");
    (turned, notes)
}

#[test]
fn a_client_asks_and_is_answered() {
    let world = World::new();
    let mut connection = client(&world);
    let sent = block_on(
        &world,
        connection.send(&world, |mut reply| reply.send(b"question")),
    );
    assert!(matches!(sent, Ok(Ok(()))));
    assert_eq!(world.sent(), frame(b"question"));
    world.arrive(&frame(b"answer"));
    let (turned, notes) = block_on(&world, step(&mut connection, &world));
    assert_eq!((turned, &notes[..]), (Turned::Open, &b"answer"[..]));
    block_on(&world, connection.shutdown_write()).unwrap();
    world.peer_closes();
    let (turned, notes) = block_on(&world, step(&mut connection, &world));
    assert_eq!((turned, &notes[..]), (Turned::Closed, &b""[..]));
}

#[test]
fn a_refused_send_sends_nothing() {
    let world = World::new();
    let mut connection = Connection::new(world.stream(), Length::new(3));
    let sent = block_on(
        &world,
        connection.send(&world, |mut reply| reply.send(b"four")),
    );
    assert!(matches!(sent, Ok(Err(LengthError::ReplyTooLong { .. }))));
    assert_eq!(world.sent(), b"");
}

#[test]
fn a_receive_that_is_given_up_loses_nothing() {
    let world = World::new();
    let mut connection = client(&world);
    for piece in frame(b"answer").chunks(1) {
        assert!(Running::new(&world, connection.receive()).run().is_none());
        world.arrive(piece);
        let (turned, notes) = block_on(&world, step(&mut connection, &world));
        assert_eq!(turned, Turned::Open);
        assert_eq!(notes.is_empty(), connection.unread() > 0);
    }
}

#[test]
fn input_whose_working_off_was_given_up_comes_again() {
    let (world, mut seen) = (World::new(), 0);
    let mut app = |_: &mut [u8], _: length::Reply<'_>| {
        seen += 1;
        Flow::Pause
    };
    let mut connection = client(&world);
    let input = frames([&b"x"[..]; 10]);
    world.arrive(&input[..23]);
    world.arrive(&input[23..]);
    let received = block_on(&world, connection.receive()).unwrap();
    let mut working = Running::new(&world, connection.work_off(&world, &mut app, received));
    assert!(working.poll().is_none() && working.poll().is_none());
    drop(working);
    assert_eq!(connection.unread(), 13);
    let received = block_on(&world, connection.receive()).unwrap();
    block_on(&world, connection.work_off(&world, &mut app, received)).unwrap();
    assert_eq!((seen, connection.unread()), (10, 0));
}
