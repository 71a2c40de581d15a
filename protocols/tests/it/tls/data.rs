//! What goes through after the handshake: the same as without TLS, in few records, within bounds.

use super::{
    EACH_VERSION, Provider, Setup, fault, on_every_provider,
    pair::{CUTS, Cut, End, Pair, records},
};
use crate::{
    random::Random,
    splits::{Answering, answers, frame, frames, random_frames},
};
use shardloop_protocols::{
    Next, StreamMachine,
    echo::Echo,
    length::{self, Length, LengthError},
    machine::{TURN_MESSAGES, TURN_OUTPUT_BYTES},
    tls::{Tls, TlsError, TlsFault},
};
use std::time::Instant;

on_every_provider! {
    whatever_goes_through_plain_goes_through_tls,
    echo_goes_through_tls,
    tls_goes_through_tls,
    a_mebibyte_goes_through,
    small_answers_leave_in_one_record,
    a_long_answer_leaves_in_full_records,
    the_bounds_of_a_turn_hold,
    a_pause_comes_through,
    a_flood_against_a_pause_stays_bounded,
    what_is_held_is_told,
    a_message_that_is_too_long_is_refused,
    messages_before_damage_are_seen,
    an_error_of_the_inner_machine_comes_out_after_its_last_answers,
    keys_change_and_a_flood_of_changes_is_refused,
}

/// Shows `frames` to the server of a connected pair, cut by the stream.
fn tell<M>(pair: &mut Pair<M>, plain: &[u8])
where
    M: for<'m, 'r> StreamMachine<Message<'m> = &'m mut [u8], Reply<'r> = length::Reply<'r>>,
{
    let mut rest = plain;
    while let Some((header, body)) = rest.split_first_chunk::<4>() {
        let (payload, more) = body.split_at(u32::from_be_bytes(*header) as usize);
        let sent = pair.client.send(pair.now, |mut reply| reply.send(payload));
        assert_eq!(sent.expect("the connection is ready"), Ok(()));
        rest = more;
    }
    pair.run();
}

fn whatever_goes_through_plain_goes_through_tls(provider: &Provider) {
    for versions in EACH_VERSION {
        let configs = Setup::new(provider).with_versions(versions).configs();
        for seed in 0..12 {
            let mut random = Random::new(seed);
            let most = [3, 40, 3000][random.below(3)];
            let input = random_frames(40, most, &mut random);
            let mut plain =
                Pair::connected(Length::default(), Length::default(), Cut::Random(seed));
            let mut tls = configs.connected(Length::default, Cut::Random(seed));
            let pause_every = random.below(4);
            plain.server.app.pause_every = pause_every;
            tls.server.app.pause_every = pause_every;
            tell(&mut plain, &input);
            tell(&mut tls, &input);
            assert!(plain.server.app.notes == input, "seed {seed}");
            assert!(tls.server.app.notes == input, "seed {seed}");
            assert!(
                tls.client.app.notes == plain.client.app.notes,
                "seed {seed}"
            );
            assert!(tls.client.app.notes == answers(&input), "seed {seed}");
        }
    }
}

fn echo_goes_through_tls(provider: &Provider) {
    for versions in EACH_VERSION {
        let configs = Setup::new(provider).with_versions(versions).configs();
        for cut in CUTS {
            let mut pair = configs.connected(|| Echo, cut);
            let bytes = Random::new(7).bytes(3000);
            pair.ask(&bytes);
            let expected: Vec<u8> = bytes.iter().map(|byte| byte.wrapping_add(1)).collect();
            assert!(pair.client.app.notes == expected, "{versions:?} {cut:?}");
        }
    }
}

fn tls_goes_through_tls(provider: &Provider) {
    let (outer, inner) = (
        Setup::new(provider).configs(),
        Setup::new(provider).configs(),
    );
    for cut in CUTS {
        let client = Tls::client(&outer.client, inner.ends(Length::default).0);
        let server = Tls::server(&outer.server, inner.ends(Length::default).1);
        let client = client.expect("this host has random numbers");
        let mut pair = Pair::connected(client, server, cut);
        for end in [&pair.client.machine, &pair.server.machine] {
            assert!(end.is_ready(), "{cut:?}");
        }
        let input = random_frames(10, 3000, &mut Random::new(8));
        tell(&mut pair, &input);
        assert!(pair.client.app.notes == answers(&input), "{cut:?}");
        pair.client.close(pair.now);
        pair.run_to_end();
        assert_eq!(pair.client.end, Some(Ok(())));
        assert_eq!(pair.server.end, Some(Ok(())));
    }
}

fn a_mebibyte_goes_through(provider: &Provider) {
    let payload = Random::new(9).bytes(1 << 20);
    for cut in [Cut::Whole, Cut::Random(4)] {
        let mut pair = Setup::new(provider).connected(cut);
        pair.ask(&payload);
        assert!(pair.client.app.notes == answers(&frame(&payload)));
    }
}

fn small_answers_leave_in_one_record(provider: &Provider) {
    for (count, bytes) in [(20, 8), (60, 100)] {
        let mut pair = Setup::new(provider).connected(Cut::Whole);
        for _ in 0..count {
            pair.say(&vec![1; bytes]);
        }
        let asked = std::mem::take(&mut pair.client.sent);
        assert_eq!(records(&asked).len(), count);
        pair.server.hear(pair.now, &asked);
        // The length, the type of the content, the tag of the cipher.
        let expected = count * (4 + bytes) + 1 + 16;
        assert_eq!(records(&pair.server.sent), [(23, expected)]);
        pair.run();
        assert_eq!(pair.client.app.notes, frame(&vec![2; bytes]).repeat(count));
    }
}

fn a_long_answer_leaves_in_full_records(provider: &Provider) {
    let mut pair = Setup::new(provider).connected(Cut::Whole);
    let payload = vec![5; 200_000 - 4];
    pair.say(&payload);
    let lengths = records(&pair.client.sent);
    assert_eq!(lengths.len(), 200_000_usize.div_ceil(16_384));
    let (_, full) = lengths.split_last().expect("there are records");
    assert!(full.iter().all(|(_, bytes)| *bytes == 16_384 + 1 + 16));
}

/// Feeds `cipher` in one piece, call by call; the most messages and output of one of them.
fn most_of_a_call(server: &mut End<Tls<Length>, Answering>, cipher: &[u8]) -> (usize, usize) {
    let (mut pending, mut most) = (cipher.to_vec(), (0, 0));
    loop {
        let (mut out, told) = (Vec::new(), server.app.messages);
        let step = server
            .machine
            .handle(Instant::now(), &mut pending, &mut server.app, &mut out)
            .expect("the client keeps to the protocol");
        pending.drain(..step.consumed);
        most = (
            most.0.max(server.app.messages - told),
            most.1.max(out.len()),
        );
        if step.next != Next::Again {
            assert_eq!((step.next, pending.len()), (Next::NeedInput, 0));
            return most;
        }
    }
}

fn the_bounds_of_a_turn_hold(provider: &Provider) {
    // So many messages at once that one call of the inner machine meets the bound; and so many that two calls do.
    for bytes in [1, 400] {
        let mut pair = Setup::new(provider).connected(Cut::Whole);
        for _ in 0..300 {
            pair.say(&vec![1; bytes]);
        }
        let cipher = std::mem::take(&mut pair.client.sent);
        let (messages, _) = most_of_a_call(&mut pair.server, &cipher);
        assert_eq!(messages, TURN_MESSAGES);
        assert_eq!(pair.server.app.messages, 300);
    }
    for (bytes, padding_bytes) in [(1, 10_000), (8000, 12_000)] {
        let mut pair = Setup::new(provider).connected(Cut::Whole);
        pair.server.app.padding_bytes = padding_bytes;
        for _ in 0..100 {
            pair.say(&vec![1; bytes]);
        }
        let cipher = std::mem::take(&mut pair.client.sent);
        let (_, out_bytes) = most_of_a_call(&mut pair.server, &cipher);
        let bound = 2 * TURN_OUTPUT_BYTES + 4 + bytes + padding_bytes;
        assert!(out_bytes <= bound + bound / 100, "{out_bytes}");
        assert_eq!(pair.server.app.messages, 100);
    }
}

fn a_pause_comes_through(provider: &Provider) {
    let input = frames([&b"one"[..], b"", b"three", &[200; 1100], b"4"]);
    for pause_every in 1..4 {
        for cut in CUTS {
            let mut pair = Setup::new(provider).connected(cut);
            pair.server.app.pause_every = pause_every;
            tell(&mut pair, &input);
            assert_eq!(pair.client.app.notes, answers(&input));
        }
    }
}

fn a_flood_against_a_pause_stays_bounded(provider: &Provider) {
    let mut pair = Setup::new(provider).connected(Cut::Whole);
    for _ in 0..2000 {
        pair.say(&[1; 500]);
    }
    let cipher = std::mem::take(&mut pair.client.sent);
    pair.server.app.pause_every = 1;
    let (mut pending, mut calls) = (cipher, 0);
    while calls < 1000 {
        let server = &mut pair.server;
        let step = server
            .machine
            .handle(pair.now, &mut pending, &mut server.app, &mut Vec::new())
            .expect("the client keeps to the protocol");
        pending.drain(..step.consumed);
        calls += 1;
        assert_eq!((step.next, server.app.messages), (Next::Again, calls));
        let held_bytes = server.machine.held_bytes();
        // A record's worth, and what came with its last.
        assert!(held_bytes <= 3 * 16_384, "{held_bytes} after {calls} calls");
    }
    assert!(
        pending.len() > 400_000,
        "what is not decrypted is not taken"
    );
}

fn what_is_held_is_told(provider: &Provider) {
    let mut pair = Setup::new(provider).connected(Cut::Whole);
    assert_eq!(pair.server.machine.held_bytes(), 0);
    pair.say(&[1; 20_000]);
    let cipher = std::mem::take(&mut pair.client.sent);
    pair.server.hear(pair.now, &cipher[..100]);
    assert_eq!(pair.server.machine.held_bytes(), 100);
    let first_record = 5 + 16_384 + 1 + 16;
    pair.server.hear(pair.now, &cipher[100..first_record]);
    assert_eq!(pair.server.machine.held_bytes(), 16_384);
    pair.server.hear(pair.now, &cipher[first_record..]);
    assert_eq!(pair.server.machine.held_bytes(), 0);
    assert_eq!(pair.server.app.messages, 1);
}

fn a_message_that_is_too_long_is_refused(provider: &Provider) {
    let mut setup = Setup::new(provider);
    setup.server.limits.plaintext_bytes = 50_000;
    let mut pair = setup.connected(Cut::Whole);
    pair.ask(&[1; 49_996]);
    assert_eq!(pair.server.app.messages, 1);
    pair.say(&[1; 100_000]);
    pair.run();
    let limit_bytes = 50_000;
    assert_eq!(
        fault(&pair.server),
        &TlsFault::PlaintextTooLong { limit_bytes }
    );
}

fn messages_before_damage_are_seen(provider: &Provider) {
    for cut in CUTS {
        let mut pair = Setup::new(provider).connected(cut);
        pair.server.app.pause_every = 2;
        for payload in [&b"one"[..], b"two", b"three"] {
            pair.say(payload);
        }
        pair.client.sent.extend_from_slice(b"no record at all");
        pair.run();
        let expected = frames([&b"one"[..], b"two", b"three"]);
        assert_eq!(pair.server.app.notes, expected, "{cut:?}");
        assert_eq!(fault(&pair.server), &TlsFault::Garbage, "{cut:?}");
        assert!(matches!(fault(&pair.client), TlsFault::Alert(_)), "{cut:?}");
    }
}

fn an_error_of_the_inner_machine_comes_out_after_its_last_answers(provider: &Provider) {
    let configs = Setup::new(provider).configs();
    for cut in CUTS {
        let client = configs.ends(Length::default).0;
        let server = Tls::server(&configs.server, Length::new(10));
        let mut pair = Pair::connected(client, server, cut);
        for payload in [&b"good"[..], b"as well", b"too long for it"] {
            pair.say(payload);
        }
        pair.run();
        let expected = LengthError::TooLong {
            length_bytes: 15,
            limit_bytes: 10,
        };
        assert_eq!(pair.server.fault(), &TlsError::Inner(expected));
        assert_eq!(
            pair.client.app.notes,
            answers(&frames([&b"good"[..], b"as well"]))
        );
        assert_eq!(pair.client.end, Some(Ok(())), "close_notify follows");
    }
}

fn keys_change_and_a_flood_of_changes_is_refused(provider: &Provider) {
    let mut pair = Setup::new(provider).connected(Cut::Whole);
    for _ in 0..40 {
        pair.client
            .machine
            .refresh_keys(&mut pair.client.sent)
            .expect("it is TLS 1.3");
        pair.ask(b"x");
    }
    assert_eq!(pair.client.app.notes, frames([&b"y"[..]; 40]));
    for _ in 0..40 {
        pair.client
            .machine
            .refresh_keys(&mut pair.client.sent)
            .expect("it is TLS 1.3");
    }
    pair.run();
    assert!(matches!(fault(&pair.server), TlsFault::Misbehaved(_)));
}
