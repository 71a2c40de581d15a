//! Handshakes: both versions, however the stream cuts; resumption, ALPN, names, deadlines, and peers that speak something else.

use super::{
    Configs, EACH_VERSION, Provider, Setup, fault, on_every_provider,
    pair::{CUTS, Cut, End, Listening},
};
use crate::{random::Random, splits::Answering};
use shardloop_protocols::{
    Fault, Side, StreamMachine,
    length::Length,
    tls::{Alert, Offer, Resumption, TlsFault, Versions},
};
use std::time::{Duration, Instant};

on_every_provider! {
    every_version_through_every_cut,
    the_newer_version_wins,
    versions_that_do_not_meet,
    tickets_resume,
    stored_sessions_resume,
    without_resumption_every_handshake_is_full,
    a_protocol_is_chosen,
    without_offers_no_protocol_is_chosen,
    protocols_that_do_not_meet,
    servers_are_asked_for_by_name_and_by_address,
    a_slow_handshake_ends_at_its_deadline,
    a_handshake_has_so_many_bytes,
    plain_http_is_called_by_its_name,
    other_text_and_garbage,
    damage_on_the_way_is_seen,
    damage_in_a_handshake_breaks_nothing_else,
    an_end_is_an_end,
    an_end_during_the_handshake,
    whoever_only_looks_does_nothing_wrong,
    nothing_is_sent_before_the_handshake_is_done,
    alerts_have_names,
}

fn every_version_through_every_cut(provider: &Provider) {
    for versions in EACH_VERSION {
        let configs = Setup::new(provider).with_versions(versions).configs();
        for cut in CUTS {
            let mut pair = configs.connected(Length::default, cut);
            for end in [&pair.client.machine, &pair.server.machine] {
                assert!(
                    !end.is_handshaking() && end.is_ready(),
                    "{versions:?} {cut:?}"
                );
                let expected = match versions {
                    Versions::Tls12 => "TLS 1.2",
                    _ => "TLS 1.3",
                };
                assert_eq!(end.version(), Some(expected));
                assert!(
                    end.cipher_suite()
                        .is_some_and(|name| name.starts_with("TLS"))
                );
            }
            pair.ask(b"abc");
            assert_eq!(pair.client.app.notes, b"\0\0\0\x03bcd");
        }
    }
}

fn the_newer_version_wins(provider: &Provider) {
    let pair = Setup::new(provider).connected(Cut::Whole);
    assert_eq!(pair.server.machine.version(), Some("TLS 1.3"));
}

fn versions_that_do_not_meet(provider: &Provider) {
    let mut setup = Setup::new(provider);
    (setup.server.versions, setup.client.versions) = (Versions::Tls13, Versions::Tls12);
    let pair = setup.connected(Cut::Whole);
    let expected = TlsFault::NothingInCommon(Offer::Version);
    assert_eq!(fault(&pair.server), &expected);
    assert_eq!(fault(&pair.client), &TlsFault::Alert(Alert { code: 70 }));
    (setup.server.versions, setup.client.versions) = (Versions::Tls12, Versions::Tls13);
    let pair = setup.connected(Cut::Whole);
    assert_eq!(fault(&pair.server), &expected);
}

/// Whether the second connection was a short one, for each end.
fn resumed(configs: &Configs) -> [bool; 2] {
    let mut first = configs.connected(Length::default, Cut::Whole);
    // Tickets of TLS 1.3 come with the first answer at the latest.
    first.ask(b"x");
    assert!(!first.client.machine.is_resumed() && !first.server.machine.is_resumed());
    let mut second = configs.connected(Length::default, Cut::Bytes);
    second.ask(b"y");
    assert_eq!(second.client.app.notes, b"\0\0\0\x01z");
    [&second.client.machine, &second.server.machine].map(|end| end.is_resumed())
}

fn tickets_resume(provider: &Provider) {
    for versions in EACH_VERSION {
        let configs = Setup::new(provider).with_versions(versions).configs();
        assert_eq!(resumed(&configs), [true, true], "{versions:?}");
    }
}

fn stored_sessions_resume(provider: &Provider) {
    for versions in EACH_VERSION {
        let mut setup = Setup::new(provider).with_versions(versions);
        setup.server.resumption = Resumption::Stored { sessions: 8 };
        assert_eq!(resumed(&setup.configs()), [true, true], "{versions:?}");
    }
}

fn without_resumption_every_handshake_is_full(provider: &Provider) {
    for versions in EACH_VERSION {
        let mut setup = Setup::new(provider).with_versions(versions);
        setup.server.resumption = Resumption::Off;
        assert_eq!(resumed(&setup.configs()), [false, false], "{versions:?}");
        let mut setup = Setup::new(provider).with_versions(versions);
        setup.client.resumable_sessions = 0;
        assert_eq!(resumed(&setup.configs()), [false, false], "{versions:?}");
    }
}

fn with_protocols(provider: &Provider, server: &[&str], client: &[&str]) -> Setup {
    let owned = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
    let mut setup = Setup::new(provider);
    setup.server.protocols = owned(server);
    setup.client.protocols = owned(client);
    setup
}

fn a_protocol_is_chosen(provider: &Provider) {
    let setup = with_protocols(provider, &["second", "first"], &["first", "second"]);
    for versions in EACH_VERSION {
        let setup = Setup {
            server: setup.server.clone(),
            client: setup.client.clone(),
        };
        let pair = setup.with_versions(versions).connected(Cut::Whole);
        // The server's preference counts.
        assert_eq!(pair.client.machine.protocol(), Some(&b"second"[..]));
        assert_eq!(pair.server.machine.protocol(), Some(&b"second"[..]));
    }
}

fn without_offers_no_protocol_is_chosen(provider: &Provider) {
    for (server, client) in [(&["a"][..], &[][..]), (&[], &["a"]), (&[], &[])] {
        let pair = with_protocols(provider, server, client).connected(Cut::Whole);
        assert!(pair.client.machine.is_ready());
        assert_eq!(pair.client.machine.protocol(), None);
        assert_eq!(pair.server.machine.protocol(), None);
    }
}

fn protocols_that_do_not_meet(provider: &Provider) {
    let pair = with_protocols(provider, &["a"], &["b"]).connected(Cut::Whole);
    let expected = TlsFault::NothingInCommon(Offer::Protocol);
    assert_eq!(fault(&pair.server), &expected);
    assert_eq!(fault(&pair.client), &TlsFault::Alert(Alert { code: 120 }));
}

fn servers_are_asked_for_by_name_and_by_address(provider: &Provider) {
    let setup = Setup::new(provider);
    for (name, sent) in [
        ("localhost", Some("localhost")),
        ("127.0.0.1", None),
        ("::1", None),
    ] {
        let mut configs = setup.configs();
        configs.client = configs.client.with_server_name(name).expect("it is a name");
        let pair = configs.connected(Length::default, Cut::Whole);
        assert!(pair.client.machine.is_ready(), "{name}");
        assert_eq!(pair.server.machine.server_name(), sent);
        assert_eq!(pair.client.machine.peer_certificates().count(), 1);
        assert_eq!(pair.server.machine.peer_certificates().count(), 0);
    }
}

fn a_slow_handshake_ends_at_its_deadline(provider: &Provider) {
    let mut setup = Setup::new(provider);
    let limit = Duration::from_secs(3);
    (setup.server.limits.handshake, setup.client.limits.handshake) = (limit, limit);
    let mut pair = setup.configs().pair(Length::default, Cut::Whole);
    pair.start();
    let deadline = pair.now + limit;
    assert_eq!(pair.server.machine.timeout(), Some(deadline));
    assert_eq!(pair.client.machine.timeout(), Some(deadline));
    pair.server.time_out(deadline - Duration::from_nanos(1));
    assert_eq!(pair.server.end, None);
    pair.server.time_out(deadline);
    pair.client.time_out(deadline);
    assert_eq!(fault(&pair.server), &TlsFault::TooSlow { limit });
    assert_eq!(fault(&pair.client), &TlsFault::TooSlow { limit });
    assert_eq!(pair.server.machine.timeout(), None);
    let pair = setup.connected(Cut::Whole);
    assert_eq!(pair.server.machine.timeout(), None);
    assert_eq!(pair.client.machine.timeout(), None);
}

fn a_handshake_has_so_many_bytes(provider: &Provider) {
    let mut setup = Setup::new(provider);
    setup.client.limits.handshake_bytes = 300;
    let pair = setup.connected(Cut::Bytes);
    let expected = TlsFault::HandshakeTooLong { limit_bytes: 300 };
    assert_eq!(fault(&pair.client), &expected);
}

/// What a server makes of `bytes` from somebody.
fn told(provider: &Provider, bytes: &[u8]) -> Vec<(TlsFault, Vec<u8>)> {
    let configs = Setup::new(provider).configs();
    let hear = |pieces: Vec<&[u8]>| {
        let mut server = End::new(configs.ends(Length::default).1, Answering::default());
        let now = Instant::now();
        server.start(now);
        pieces.iter().for_each(|piece| server.hear(now, piece));
        (fault(&server).clone(), server.sent)
    };
    vec![hear(vec![bytes]), hear(bytes.chunks(1).collect())]
}

fn plain_http_is_called_by_its_name(provider: &Provider) {
    let request = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for (fault, sent) in told(provider, request) {
        assert_eq!(fault, TlsFault::Text { begins: *b"GET /" });
        assert_eq!(fault.side(), Side::Peer);
        let text = fault.to_string();
        assert!(
            text.contains("plain HTTP request") && text.contains("https"),
            "{text}"
        );
        // A fatal alert: decode_error.
        assert_eq!(sent, [21, 3, 3, 0, 2, 2, 50]);
    }
    let client = Setup::new(provider).configs().ends(Length::default).0;
    let mut client = End::new(client, Listening::default());
    client.hear(Instant::now(), b"HTTP/1.1 400 Bad Request\r\n\r\n");
    assert_eq!(fault(&client), &TlsFault::Text { begins: *b"HTTP/" });
}

fn other_text_and_garbage(provider: &Provider) {
    for (fault, _) in told(provider, b"SSH-2.0-OpenSSH_9.2\r\n") {
        assert_eq!(fault, TlsFault::Text { begins: *b"SSH-2" });
    }
    for bytes in [[0; 40], [255; 40], [22; 40]] {
        for (fault, _) in told(provider, &bytes) {
            assert_eq!(fault, TlsFault::Garbage);
        }
    }
    // A record that is one, with a message in it that is none.
    let nonsense = [&[22, 3, 1, 0, 8, 1, 0, 0, 4][..], &[9; 4]].concat();
    for (fault, _) in told(provider, &nonsense) {
        assert!(matches!(fault, TlsFault::Misbehaved(_)), "{fault:?}");
    }
    // A message longer than any.
    let long = [&[22, 3, 1, 64, 0, 1, 255, 255, 255][..], &[0; 16_380]].concat();
    for (fault, _) in told(provider, &long) {
        assert!(
            matches!(fault, TlsFault::Misbehaved(_) | TlsFault::Garbage),
            "{fault:?}"
        );
    }
}

fn damage_on_the_way_is_seen(provider: &Provider) {
    for versions in EACH_VERSION {
        let mut pair = Setup::new(provider)
            .with_versions(versions)
            .connected(Cut::Whole);
        pair.say(b"abc");
        *pair.client.sent.last_mut().expect("a record was sent") ^= 1;
        pair.run();
        assert_eq!(fault(&pair.server), &TlsFault::Undecipherable);
        assert_eq!(fault(&pair.client), &TlsFault::Alert(Alert { code: 20 }));
        assert_eq!(pair.server.app.messages, 0);
    }
}

/// One byte of one flight is changed; every other end is as good as the first, but for a fault.
fn damage_in_a_handshake_breaks_nothing_else(provider: &Provider) {
    for versions in EACH_VERSION {
        let configs = Setup::new(provider).with_versions(versions).configs();
        let mut random = Random::new(20);
        for flight in 0..4 {
            for _ in 0..40 {
                let mut pair = configs.pair(Length::default, Cut::Whole);
                pair.start();
                for number in 0..8 {
                    let sent = match number % 2 {
                        0 => &mut pair.client.sent,
                        _ => &mut pair.server.sent,
                    };
                    if number == flight && !sent.is_empty() {
                        let at = random.below(sent.len());
                        sent[at] ^= 1 << random.below(8);
                    }
                    let piece = std::mem::take(sent);
                    match number % 2 {
                        0 => pair.server.hear(pair.now, &piece),
                        _ => pair.client.hear(pair.now, &piece),
                    }
                }
                for end in [&pair.client.machine, &pair.server.machine] {
                    assert!(!end.is_ready() || end.version().is_some());
                }
                if pair.client.machine.is_ready() && pair.server.machine.is_ready() {
                    pair.ask(b"abc");
                    assert_eq!(pair.client.app.notes, b"\0\0\0\x03bcd");
                }
            }
        }
    }
}

fn an_end_is_an_end(provider: &Provider) {
    let server = Setup::new(provider).configs().ends(Length::default).1;
    let mut server = End::new(server, Answering::default());
    let now = Instant::now();
    server.hear(now, b"no TLS at all");
    assert!(matches!(server.end.take(), Some(Err(_))));
    server.sent.clear();
    server.hear(now, b"still none");
    assert_eq!(server.end.take(), Some(Ok(())));
    server.close(now);
    server.time_out(now);
    server.end_of_input(now);
    assert_eq!((server.end, server.sent), (Some(Ok(())), vec![]));
}

fn an_end_during_the_handshake(provider: &Provider) {
    for versions in EACH_VERSION {
        let configs = Setup::new(provider).with_versions(versions).configs();
        let mut pair = configs.pair(Length::default, Cut::Whole);
        pair.start();
        let hello = std::mem::take(&mut pair.client.sent);
        pair.server.hear(pair.now, &hello[..hello.len() / 2]);
        pair.server.end_of_input(pair.now);
        assert_eq!(fault(&pair.server), &TlsFault::HandshakeTruncated);
        pair.client.end_of_input(pair.now);
        assert_eq!(fault(&pair.client), &TlsFault::HandshakeTruncated);
    }
}

fn whoever_only_looks_does_nothing_wrong(provider: &Provider) {
    let server = Setup::new(provider).configs().ends(Length::default).1;
    let mut server = End::new(server, Answering::default());
    server.start(Instant::now());
    server.end_of_input(Instant::now());
    assert_eq!(server.end, Some(Ok(())));
}

fn nothing_is_sent_before_the_handshake_is_done(provider: &Provider) {
    let mut pair = Setup::new(provider)
        .configs()
        .pair(Length::default, Cut::Whole);
    pair.start();
    let result = pair
        .client
        .send(pair.now, |_| panic!("it must not be called"));
    assert_eq!(result, Err(TlsFault::NotReady.into()));
    assert!(!pair.client.machine.is_ready());
    assert_eq!(TlsFault::NotReady.side(), Side::Us);
    pair.run();
    assert!(pair.client.machine.is_ready());
}

fn alerts_have_names(_: &Provider) {
    assert_eq!(Alert { code: 48 }.name(), Some("unknown_ca"));
    let text = TlsFault::Alert(Alert { code: 48 }).to_string();
    assert!(text.contains("unknown_ca (48)"), "{text}");
    assert_eq!(Alert { code: 200 }.to_string(), "number 200");
}
