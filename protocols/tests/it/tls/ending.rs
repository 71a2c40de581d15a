//! Beginnings and ends of the machine in the layer, and how a stream that ends well differs from one that is cut short.

use super::{
    EACH_VERSION, Provider, Setup, fault, on_every_provider,
    pair::{CUTS, Cut, records},
    polite::{GOODBYE, PATIENCE, Polite},
};
use shardloop_protocols::{
    StreamMachine,
    length::{Length, LengthError},
    tls::{AbruptEnd, TlsError, TlsFault},
};

on_every_provider! {
    a_client_says_goodbye,
    a_server_says_goodbye,
    close_notify_is_the_end_of_the_inner_input,
    what_follows_close_notify_is_ignored,
    a_stream_that_is_cut_short_is_an_error,
    the_inner_machine_may_decide_about_an_abrupt_end,
    nothing_is_sent_after_the_end,
    a_goodbye_during_the_handshake,
    the_inner_machine_is_started_after_the_handshake,
    the_inner_machine_has_its_deadlines,
    the_inner_machines_goodbye_is_awaited,
    whoever_goes_without_the_inner_goodbye_is_gone,
}

fn a_client_says_goodbye(provider: &Provider) {
    for versions in EACH_VERSION {
        let configs = Setup::new(provider).with_versions(versions).configs();
        for cut in CUTS {
            let mut pair = configs.connected(Length::default, cut);
            pair.ask(b"x");
            pair.client.close(pair.now);
            assert_eq!(pair.client.end, Some(Ok(())), "it does not wait");
            assert_eq!(records(&pair.client.sent).len(), 1);
            pair.run_to_end();
            assert_eq!(pair.server.end, Some(Ok(())), "{versions:?} {cut:?}");
        }
    }
}

fn a_server_says_goodbye(provider: &Provider) {
    for cut in CUTS {
        let mut pair = Setup::new(provider).connected(cut);
        pair.server.close(pair.now);
        pair.run_to_end();
        assert_eq!(pair.server.end, Some(Ok(())));
        assert_eq!(pair.client.end, Some(Ok(())));
    }
}

fn close_notify_is_the_end_of_the_inner_input(provider: &Provider) {
    for cut in CUTS {
        let configs = Setup::new(provider).configs();
        let (client, server) = (
            configs.ends(|| shardloop_protocols::echo::Echo).0,
            configs.ends(Length::default).1,
        );
        let now = std::time::Instant::now();
        let mut client = super::pair::End::new(client, super::pair::Listening::default());
        let mut server = super::pair::End::new(server, crate::splits::Answering::default());
        client.start(now);
        server.start(now);
        for _ in 0..4 {
            cut_into(cut, &mut client.sent).for_each(|piece| server.hear(now, &piece));
            cut_into(cut, &mut server.sent).for_each(|piece| client.hear(now, &piece));
        }
        client
            .send(now, |mut reply| reply.send(b"\0\0\0\x01x\0\0\0\x09half"))
            .expect("the connection is ready");
        client.close(now);
        cut_into(cut, &mut client.sent).for_each(|piece| server.hear(now, &piece));
        let expected = LengthError::Truncated { unread_bytes: 8 };
        assert_eq!(server.fault(), &TlsError::Inner(expected));
        assert_eq!(server.app.messages, 1);
    }
}

fn cut_into(cut: Cut, bytes: &mut Vec<u8>) -> impl Iterator<Item = Vec<u8>> {
    cut.pieces(&std::mem::take(bytes)).into_iter()
}

fn what_follows_close_notify_is_ignored(provider: &Provider) {
    for cut in CUTS {
        let mut pair = Setup::new(provider).connected(cut);
        pair.say(b"last");
        pair.client.close(pair.now);
        pair.client.sent.extend_from_slice(&[9; 50_000]);
        pair.run();
        assert_eq!(pair.server.end, Some(Ok(())), "{cut:?}");
        assert_eq!(pair.server.app.messages, 1);
    }
}

fn a_stream_that_is_cut_short_is_an_error(provider: &Provider) {
    for versions in EACH_VERSION {
        let mut pair = Setup::new(provider)
            .with_versions(versions)
            .connected(Cut::Whole);
        pair.ask(b"x");
        pair.server.end_of_input(pair.now);
        pair.client.end_of_input(pair.now);
        assert_eq!(fault(&pair.server), &TlsFault::Truncated);
        assert_eq!(fault(&pair.client), &TlsFault::Truncated);
    }
}

fn the_inner_machine_may_decide_about_an_abrupt_end(provider: &Provider) {
    let mut setup = Setup::new(provider);
    setup.server.abrupt_end = AbruptEnd::InnerDecides;
    let mut pair = setup.connected(Cut::Whole);
    pair.ask(b"x");
    pair.server.end_of_input(pair.now);
    assert_eq!(pair.server.end, Some(Ok(())));

    // The end inside of a message is the inner machine's business, inside of a record it is the layer's.
    let first_record = 5 + 16_384 + 1 + 16;
    let inner = LengthError::Truncated {
        unread_bytes: 16_384,
    };
    for (bytes, expected) in [
        (first_record, TlsError::Inner(inner)),
        (first_record + 1, TlsError::Tls(TlsFault::Truncated)),
    ] {
        let mut pair = setup.connected(Cut::Whole);
        pair.say(&[1; 20_000]);
        pair.client.sent.truncate(bytes);
        pair.run();
        pair.server.end_of_input(pair.now);
        assert_eq!(pair.server.fault(), &expected);
    }
}

fn nothing_is_sent_after_the_end(provider: &Provider) {
    let mut pair = Setup::new(provider).connected(Cut::Whole);
    pair.client.close(pair.now);
    let sent = pair.client.sent.len();
    let result = pair
        .client
        .send(pair.now, |_| panic!("it must not be called"));
    assert_eq!(result, Err(TlsFault::Ended.into()));
    assert!(!pair.client.machine.is_ready());
    pair.client.close(pair.now);
    assert_eq!(
        pair.client.sent.len(),
        sent,
        "a second goodbye says nothing"
    );
}

fn a_goodbye_during_the_handshake(provider: &Provider) {
    let mut pair = Setup::new(provider)
        .configs()
        .pair(Length::default, Cut::Whole);
    pair.start();
    let hello = std::mem::take(&mut pair.client.sent);
    pair.server.hear(pair.now, &hello);
    pair.client.close(pair.now);
    assert_eq!(pair.client.end, Some(Ok(())));
    pair.run_to_end();
    assert!(pair.server.end.is_some_and(|end| end.is_err()));
}

fn the_inner_machine_is_started_after_the_handshake(provider: &Provider) {
    for versions in EACH_VERSION {
        for cut in CUTS {
            let configs = Setup::new(provider).with_versions(versions).configs();
            let mut pair = configs.pair(Polite::default, cut);
            pair.start();
            assert!(!pair.client.machine.inner().greeted);
            pair.run();
            assert!(pair.client.machine.inner().greeted && pair.server.machine.inner().greeted);
            pair.ask(b"x");
            assert_eq!(pair.client.app.notes, b"y", "{versions:?} {cut:?}");
        }
    }
}

fn the_inner_machine_has_its_deadlines(provider: &Provider) {
    let configs = Setup::new(provider).configs();
    let mut pair = configs.connected(Polite::default, Cut::Whole);
    let deadline = pair
        .server
        .machine
        .timeout()
        .expect("it is patient for a while");
    assert!(deadline <= pair.now + PATIENCE);
    pair.server.time_out(deadline);
    assert_eq!(records(&pair.server.sent).len(), 1);
    assert_eq!(pair.server.machine.timeout(), None);
    pair.run();
    assert_eq!(pair.client.end, None);
}

fn the_inner_machines_goodbye_is_awaited(provider: &Provider) {
    for cut in CUTS {
        let configs = Setup::new(provider).configs();
        let mut pair = configs.connected(Polite::default, cut);
        pair.client.close(pair.now);
        assert_eq!(pair.client.end, None, "the peer's goodbye is awaited");
        assert!(!pair.client.machine.is_ready());
        let result = pair.client.send(pair.now, |_| ());
        assert_eq!(result, Err(TlsFault::Ended.into()));
        pair.run_to_end();
        assert_eq!(pair.client.end, Some(Ok(())), "{cut:?}");
        assert_eq!(pair.server.end, Some(Ok(())), "{cut:?}");
        assert!(!pair.client.app.notes.contains(&GOODBYE));
    }
}

fn whoever_goes_without_the_inner_goodbye_is_gone(provider: &Provider) {
    let configs = Setup::new(provider).configs();
    let mut pair = configs.connected(Polite::default, Cut::Whole);
    pair.client.close(pair.now);
    pair.client.end_of_input(pair.now);
    assert_eq!(pair.client.end, Some(Ok(())));
}
