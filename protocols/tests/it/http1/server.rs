//! What a server makes of good requests, however they are cut.

use super::{Service, case, check, output};
use crate::{random::Random, splits::Case};
use shardloop_protocols::{
    Next,
    http1::{Server, ServerOptions},
};

const END: &str = "\r\n\r\n";

fn request(line: &str, fields: &str, body: &str) -> String {
    format!("{line}\r\nHost: h\r\n{fields}\r\n{body}")
}

#[test]
fn a_request_without_a_body() {
    let outcome = check(request("GET /a?b HTTP/1.1", "X: y\r\n", "").as_bytes());
    assert_eq!(outcome.notes, b"GET /a?b Http11\nHost=h\nX=y\n\n.\n");
    assert_eq!(
        outcome.output,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!(outcome.end, Ok(Next::Close));
}

#[test]
fn nothing_at_all_is_an_orderly_end() {
    for input in [&b""[..], b"\r\n"] {
        let outcome = check(input);
        assert_eq!((outcome.output, outcome.end), (vec![], Ok(Next::Close)));
    }
}

#[test]
fn requests_on_one_connection_are_answered_in_order() {
    let input = [
        request("POST /1 HTTP/1.1", "Content-Length: 3\r\n", "one"),
        request("GET /2 HTTP/1.1", "", ""),
        request("POST /pause HTTP/1.1", "Content-Length: 5\r\n", "three"),
        request(
            "POST /4 HTTP/1.1",
            "Transfer-Encoding: chunked\r\n",
            "4\r\nfour\r\n0\r\n\r\n",
        ),
        request("PUT /5 HTTP/1.1", "Content-Length: 4\r\n", "five"),
    ];
    let outcome = check(input.concat().as_bytes());
    let ok = |body: &str| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}{END}{body}",
            body.len()
        )
    };
    let expected = [ok("one"), ok(""), ok(""), ok("four"), ok("five")].concat();
    assert_eq!(String::from_utf8(outcome.output).unwrap(), expected);
    assert_eq!(outcome.end, Ok(Next::Close));
}

#[test]
fn more_requests_than_one_turn_has() {
    let input = request("GET / HTTP/1.1", "", "").repeat(150);
    let whole = case().check_cuts(input.as_bytes(), 1);
    assert_eq!(whole.output.len(), 150 * 38);
}

#[test]
fn chunks_with_extensions_and_trailers() {
    let body = "5;a\r\nhello\r\n\
                1 ; b = c ;d=\"e;\\\"f\"\r\n \r\n\
                00A;\tx=y\r\n0123456789\r\n\
                0;last\r\nX-Sum: 1\r\nVary:\r\n\r\n";
    let input = request("POST / HTTP/1.1", "Transfer-Encoding: CHUNKED\r\n", body);
    let outcome = check((input.clone() + &input).as_bytes());
    let note = "POST / Http11\nHost=h\nTransfer-Encoding=CHUNKED\nhello 0123456789\n.\n";
    assert_eq!(String::from_utf8(outcome.notes).unwrap(), note.repeat(2));
    assert_eq!(outcome.end, Ok(Next::Close));
}

#[test]
fn an_empty_chunked_body() {
    let fields = "Transfer-Encoding: chunked\r\n";
    let input = request("POST / HTTP/1.1", fields, "0\r\n\r\n");
    assert_eq!(
        output(&input),
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    );
}

#[test]
fn one_empty_line_in_front_of_a_request_is_passed_over() {
    let get = request("GET / HTTP/1.1", "", "");
    let outcome = check(format!("\r\n{get}\r\n{get}\r\n").as_bytes());
    assert_eq!(outcome.notes, b"GET / Http11\nHost=h\n\n.\n".repeat(2));
    assert_eq!(outcome.end, Ok(Next::Close));
}

#[test]
fn continue_is_sent_if_the_body_has_not_come() {
    const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    let fields = "Expect: 100-Continue\r\nContent-Length: 4\r\n";
    let input = request("POST / HTTP/1.1", fields, "body");
    let case = Case {
        decode: |output| output.strip_prefix(CONTINUE).unwrap_or(output).to_vec(),
        ..case()
    };
    let outcome = case.check(input.as_bytes());
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody";
    assert_eq!(outcome.output, answer);

    let (head, body) = input.as_bytes().split_at(input.len() - 4);
    let all = super::case();
    let continued = [CONTINUE, answer].concat();
    assert_eq!(all.run([head, body]).output, continued);
    assert_eq!(all.run([&head[..9], &head[9..], body]).output, continued);
    assert_eq!(all.run([head, &body[..1], &body[1..]]).output, continued);
    assert_eq!(all.run([input.as_bytes()]).output, answer);
    let cut = head.len() + 1;
    let (front, back) = input.as_bytes().split_at(cut);
    assert_eq!(all.run([front, back]).output, answer, "part of it had come");
}

#[test]
fn continue_is_not_sent_where_it_makes_no_sense() {
    let fields = "Expect: 100-continue\r\n";
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(output(&request("GET / HTTP/1.1", fields, "")), ok);
    let fields = "Expect: 100-continue\r\nContent-Length: 1\r\n";
    let answer = output(&request("POST / HTTP/1.0", fields, "x"));
    assert_eq!(
        answer,
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx"
    );
    let answer = output(&request("GET / HTTP/1.0", "Expect: magic\r\n", ""));
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
}

#[test]
fn head_is_answered_with_the_length_alone() {
    let fields = "Content-Length: 4\r\n";
    let answer = output(&request("HEAD / HTTP/1.1", fields, "body"));
    assert_eq!(answer, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
    let answer = output(&request("HEAD /chunked HTTP/1.1", fields, "body"));
    assert_eq!(
        answer,
        "HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
}

#[test]
fn chunked_answers() {
    let fields = "Content-Length: 4\r\n";
    let answer = output(&request("POST /chunked HTTP/1.1", fields, "body"));
    assert_eq!(
        answer,
        "HTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nbod\r\n1\r\ny\r\n0\r\n\r\n"
    );
    let fields = "Content-Length: 4\r\nConnection: keep-alive\r\n";
    let answer = output(&request("POST /chunked HTTP/1.0", fields, "body"));
    assert_eq!(
        answer,
        "HTTP/1.1 200 OK\r\nX: y\r\nConnection: close\r\n\r\nbody"
    );
}

#[test]
fn a_chunked_answer_without_an_end_ends_the_connection() {
    let get = request("GET /unfinished HTTP/1.1", "", "");
    let outcome = check((get.clone() + &get).as_bytes());
    assert_eq!(
        outcome.output,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"
    );
    assert_eq!(outcome.end, Ok(Next::Close));
}

#[test]
fn http_1_0_ends_unless_it_asks_to_go_on() {
    let get = "GET / HTTP/1.0\r\n\r\n";
    let close = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(output(&get.repeat(2)), close);
    let keep = "GET / HTTP/1.0\r\nConnection: x, Keep-Alive\r\n\r\n";
    let kept = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n";
    assert_eq!(output(&(keep.repeat(2) + get)), kept.repeat(2) + close);
    let both = "GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n";
    assert_eq!(output(both), close);
}

#[test]
fn close_is_the_last_word() {
    let close = request("GET / HTTP/1.1", "Connection: Close\r\n", "");
    let outcome = check((close + "GET / HTTP/1.1\r\n\r\n").as_bytes());
    assert_eq!(
        outcome.output,
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let get = request("GET /close HTTP/1.1", "", "");
    assert_eq!(
        output(&get.repeat(2)),
        "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn no_answer_and_a_malformed_one_are_500() {
    for path in ["/nothing", "/invalid"] {
        let get = request(&format!("GET {path} HTTP/1.1"), "", "");
        let failed = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(output(&get.repeat(2)), failed.repeat(2));
    }
}

#[test]
fn later_minor_versions_are_read_as_1_1() {
    for minor in 2..=9 {
        let input = format!("GET / HTTP/1.{minor}\r\nHost: h\r\n\r\n");
        let outcome = check(input.repeat(2).as_bytes());
        assert_eq!(outcome.notes, b"GET / Http11\nHost=h\n\n.\n".repeat(2));
    }
}

#[test]
fn whitespace_around_a_value_is_not_part_of_it() {
    let outcome = check(b"GET / HTTP/1.1\r\nHost:h\t\r\nX: \t a b\t \r\nY: \r\n\r\n");
    assert_eq!(outcome.notes, b"GET / Http11\nHost=h\nX=a b\nY=\n\n.\n");
}

#[test]
fn unusual_and_good() {
    let good = [
        "M-SEARCH / HTTP/1.1\r\nHost:\r\n\r\n",
        "get / HTTP/1.1\r\nhOsT: h\r\n\r\n",
        "GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nX:\r\nY: \t a \t\r\nZ: caf\u{e9}\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 000\r\n\r\n",
        "GET /\"<>|{}[]%zz HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\nTransfer_Encoding: chunked\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: h\r\n!#$%&'*+-.^_`|~: x\r\n\r\n",
    ];
    for input in good {
        let answer = output(input);
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n"),
            "{input}: {answer}"
        );
    }
}

#[test]
fn a_truncated_request_is_a_fault_without_an_answer() {
    let input = request("POST / HTTP/1.1", "Content-Length: 4\r\n", "body");
    let head = input.len() - 4;
    for end in 1..input.len() {
        let outcome = check(&input.as_bytes()[..end]);
        let fault = ["TruncatedHead", "TruncatedBody"][usize::from(end >= head)];
        assert_eq!(
            (outcome.output, outcome.end),
            (vec![], Err(fault.to_owned()))
        );
    }
}

/// A request with everything random that may be.
fn random_request(random: &mut Random) -> Vec<u8> {
    let most = [1, 20, 3000][random.below(3)];
    let body_bytes = random.below(most);
    let body = random.bytes(body_bytes);
    let mut input = b"POST /a HTTP/1.1\r\n".to_vec();
    for n in 0..random.below(5) {
        let value = "v".repeat(random.below(200));
        input.extend_from_slice(format!("X-{n}: {value}\r\n").as_bytes());
    }
    input.extend_from_slice(b"Host: h\r\n");
    if random.below(2) == 0 {
        input.extend_from_slice(format!("Content-Length: {body_bytes}\r\n\r\n").as_bytes());
        input.extend_from_slice(&body);
        return input;
    }
    input.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    let mut rest = &body[..];
    while !rest.is_empty() {
        let (chunk, tail) = rest.split_at(1 + random.below(rest.len()));
        let extension = ["", ";a", ";a=\"b\"", " ;a=b"][random.below(4)];
        input.extend_from_slice(format!("{:x}{extension}\r\n", chunk.len()).as_bytes());
        input.extend_from_slice(chunk);
        input.extend_from_slice(b"\r\n");
        rest = tail;
    }
    let trailer = ["", "T: u\r\n"][random.below(2)];
    input.extend_from_slice(format!("0\r\n{trailer}\r\n").as_bytes());
    input
}

#[test]
fn random_requests_cut_at_random() {
    let case = Case::with(|| Server::new(ServerOptions::DEFAULT), Service::default());
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let count = 1 + random.below(12);
        let input: Vec<u8> = (0..count)
            .flat_map(|_| random_request(&mut random))
            .collect();
        let outcome = case.check_cuts(&input, seed);
        assert_eq!(outcome.end, Ok(Next::Close), "seed {seed}");
        let seen = outcome.notes.windows(9).filter(|at| *at == b"POST /a H");
        assert_eq!(seen.count(), count, "seed {seed}");
    }
}
