//! Good messages with something wrong put into them at random: whatever becomes of them, cuts make no difference, and nothing panics.

use super::{SMALL, Service, client::Listener};
use crate::{random::Random, splits::Case};
use shardloop_protocols::{
    StreamMachine,
    http1::{Client, ClientOptions, Server},
};
use std::time::Instant;

const REQUESTS: [&[u8]; 5] = [
    b"GET /a?b HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h:80\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /chunked HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;a=\"b\"\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n",
    b"HEAD http://h/ HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"\r\nOPTIONS * HTTP/1.7\r\nHost: [::1]\r\nConnection: x, close\r\n\r\n",
];

const RESPONSES: [&[u8]; 4] = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=\"b\"\r\nabc\r\n2\r\nde\r\n0\r\nX: y\r\n\r\n",
    b"HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.9 304 Not Modified\r\n\r\n",
    b"HTTP/1.0 404 Not Found\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n",
];

/// What is put in.
const PIECES: [&[u8]; 24] = [
    b"\r",
    b"\n",
    b"\r\n",
    b"\r\n\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b",",
    b";",
    b"=",
    b"\"",
    b"\\",
    b"0",
    b"1",
    b"ffffffffffffffff",
    b"\xff",
    b"\x7f",
    b"#",
    b"Content-Length: 3\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Host: i\r\n",
    b"Connection: close\r\n",
    b"HTTP/1.1",
];

/// Three messages in a row, with up to three changes.
fn mutated(messages: &[&[u8]], random: &mut Random) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..3 {
        input.extend_from_slice(messages[random.below(messages.len())]);
    }
    for _ in 0..random.below(4) {
        let at = random.below(input.len());
        match random.below(3) {
            0 => drop(input.remove(at)),
            1 => input[at] = random.bytes(1)[0],
            _ => drop(input.splice(at..at, PIECES[random.below(PIECES.len())].iter().copied())),
        }
    }
    input
}

#[test]
fn of_requests() {
    let case = Case::with(|| Server::new(SMALL), Service::default());
    for seed in 0..4000 {
        let input = mutated(&REQUESTS, &mut Random::new(seed));
        let whole = case.check_cuts(&input, seed);
        assert_eq!(case.run(input.chunks(1)), whole, "{}", input.escape_ascii());
    }
}

#[test]
fn of_responses() {
    let machine = || {
        let options = ClientOptions {
            outstanding: 3,
            ..ClientOptions::DEFAULT
        };
        let mut client = Client::new("h", options).expect("the host is well-formed");
        let sent = client.send(Instant::now(), &mut Vec::new(), |mut ask| {
            (0..3).all(|_| ask.write("GET", "/", &[], b"").is_ok())
        });
        assert_eq!(sent, Ok(true));
        client
    };
    let case = Case::with(machine, Listener::default());
    for seed in 0..4000 {
        let input = mutated(&RESPONSES, &mut Random::new(seed));
        let whole = case.check_cuts(&input, seed);
        assert_eq!(case.run(input.chunks(1)), whole, "{}", input.escape_ascii());
    }
}
