//! One request per fault, fed in every way.

use super::{assert_refused, check};
use shardloop_protocols::http1::Http1Error as Fault;

const TE: &str = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn every_fault_of_a_head() {
    let long = "x".repeat(500);
    let table: &[(&str, Fault)] = &[
        ("GET / HTTP/1.1\nHost: h\r\n\r\n", Fault::BareLineFeed),
        ("GET / HTTP/1.1\r\nHost: h\n\r\n", Fault::BareLineFeed),
        ("\n", Fault::BareLineFeed),
        (
            "GET / HTTP/1.1\r\nHost: h\r\r\n\r\n",
            Fault::BareCarriageReturn,
        ),
        ("GET /\0 HTTP/1.1\r\n", Fault::ControlCharacter),
        ("GET / HTTP/1.1\r\nX: a\x0bb\r\n", Fault::ControlCharacter),
        ("GET / HTTP/1.1\r\nHost: h\r\n x\r\n", Fault::ObsoleteFold),
        ("GET / HTTP/1.1\r\n\tHost: h\r\n", Fault::ObsoleteFold),
        ("GET /\r\n\r\n", Fault::InvalidRequestLine),
        ("GET  / HTTP/1.1\r\n\r\n", Fault::InvalidRequestLine),
        ("\r\n\r\nGET / HTTP/1.1\r\n", Fault::InvalidRequestLine),
        ("G(T / HTTP/1.1\r\nHost: h\r\n\r\n", Fault::InvalidMethod),
        (" / HTTP/1.1\r\nHost: h\r\n\r\n", Fault::InvalidMethod),
        (
            "GET \u{e9} HTTP/1.1\r\nHost: h\r\n\r\n",
            Fault::InvalidTarget,
        ),
        ("GET /\t HTTP/1.1\r\nHost: h\r\n\r\n", Fault::InvalidTarget),
        (
            "GET /\x7f HTTP/1.1\r\nHost: h\r\n\r\n",
            Fault::InvalidTarget,
        ),
        ("GET /#x HTTP/1.1\r\nHost: h\r\n\r\n", Fault::InvalidTarget),
        ("GET x HTTP/1.1\r\nHost: h\r\n\r\n", Fault::InvalidTarget),
        ("GET * HTTP/1.1\r\nHost: h\r\n\r\n", Fault::InvalidTarget),
        ("GET h:80 HTTP/1.1\r\nHost: h\r\n\r\n", Fault::InvalidTarget),
        (
            "GET http://u@h/ HTTP/1.1\r\nHost: h\r\n\r\n",
            Fault::InvalidTarget,
        ),
        ("GET / HTTP/1\r\nHost: h\r\n\r\n", Fault::InvalidVersion),
        ("GET / http/1.1\r\nHost: h\r\n\r\n", Fault::InvalidVersion),
        (
            "GET / HTTP/1.10\r\nHost: h\r\n\r\n",
            Fault::InvalidRequestLine,
        ),
        (
            "GET / HTTP/1.1 \r\nHost: h\r\n\r\n",
            Fault::InvalidRequestLine,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n",
            Fault::EmptyHeaderName,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\na b: x\r\n\r\n",
            Fault::InvalidHeaderName,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\n\u{e9}: x\r\n\r\n",
            Fault::InvalidHeaderName,
        ),
        (
            "GET / HTTP/1.1\r\nHost : h\r\n\r\n",
            Fault::WhitespaceBeforeColon,
        ),
        (
            "GET / HTTP/1.1\r\nHost\t: h\r\n\r\n",
            Fault::WhitespaceBeforeColon,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nx\r\n\r\n",
            Fault::MissingColon,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nX: \x7f\r\n\r\n",
            Fault::InvalidHeaderValue,
        ),
        ("GET / HTTP/1.1\r\n\r\n", Fault::MissingHost),
        ("GET http://h/ HTTP/1.1\r\n\r\n", Fault::MissingHost),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n",
            Fault::SeveralHosts,
        ),
        (
            "GET / HTTP/1.0\r\nHost: h\r\nHost: i\r\n\r\n",
            Fault::SeveralHosts,
        ),
        ("GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", Fault::InvalidHost),
        ("GET / HTTP/1.1\r\nHost: h, i\r\n\r\n", Fault::InvalidHost),
        ("CONNECT h:1 HTTP/1.1\r\nHost: h:1\r\n\r\n", Fault::Connect),
        ("GET / HTTP/0.9\r\n\r\n", Fault::UnsupportedVersion),
        ("GET / HTTP/2.0\r\n\r\n", Fault::UnsupportedVersion),
        (
            "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            Fault::UnsupportedVersion,
        ),
        (
            "GET / HTTP/1.1\r\nHost: h\r\nExpect: x\r\n\r\n",
            Fault::UnknownExpectation,
        ),
    ];
    for (input, fault) in table {
        assert_refused(&check(input.as_bytes()), *fault, input);
    }
    assert_refused(
        &check(format!("GET /{long}").as_bytes()),
        Fault::TargetTooLong,
        "a line without end",
    );
    let input = format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", &long[..100]);
    assert_refused(&check(input.as_bytes()), Fault::TargetTooLong, "a target");
    let input = format!("GET / HTTP/1.1\r\nX: {long}");
    assert_refused(&check(input.as_bytes()), Fault::HeadTooLarge, "a field");
    let input = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(9));
    assert_refused(&check(input.as_bytes()), Fault::TooManyHeaders, "fields");
}

#[test]
fn every_fault_of_framing() {
    let table: &[(&str, Fault)] = &[
        (
            "Content-Length: 1\r\nContent-Length: 1\r\n",
            Fault::SeveralContentLengths,
        ),
        ("Content-Length: 1, 1\r\n", Fault::InvalidContentLength),
        ("Content-Length:\r\n", Fault::InvalidContentLength),
        ("Content-Length: 201\r\n", Fault::BodyTooLarge),
        (
            "Content-Length: 18446744073709551616\r\n",
            Fault::BodyTooLarge,
        ),
        (
            "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n",
            Fault::LengthAndCoding,
        ),
        (
            "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n",
            Fault::LengthAndCoding,
        ),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
            Fault::SeveralTransferEncodings,
        ),
        (
            "Transfer-Encoding: chunked, chunked\r\n",
            Fault::ChunkedTwice,
        ),
        (
            "Transfer-Encoding: chunked, gzip\r\n",
            Fault::NotEndingInChunked,
        ),
        ("Transfer-Encoding: identity\r\n", Fault::NotEndingInChunked),
        ("Transfer-Encoding:\r\n", Fault::NotEndingInChunked),
        ("Transfer-Encoding: gzip, chunked\r\n", Fault::UnknownCoding),
    ];
    for (fields, fault) in table {
        let input = format!("POST / HTTP/1.1\r\nHost: h\r\n{fields}\r\nx");
        assert_refused(&check(input.as_bytes()), *fault, fields);
    }
    let input = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    assert_refused(&check(input.as_bytes()), Fault::CodingInOldVersion, input);
}

#[test]
fn every_fault_of_chunks() {
    let table: &[(&str, Fault)] = &[
        ("\r\n", Fault::InvalidChunkSize),
        (" 5\r\n", Fault::InvalidChunkSize),
        ("+5\r\n", Fault::InvalidChunkSize),
        ("-5\r\n", Fault::InvalidChunkSize),
        ("0x5\r\n", Fault::InvalidChunkSize),
        ("5_0\r\n", Fault::InvalidChunkSize),
        ("5\n", Fault::InvalidChunkSize),
        (";a\r\n", Fault::InvalidChunkSize),
        ("00000000000000000\r\n", Fault::InvalidChunkSize),
        ("ffffffffffffffff\r\n", Fault::BodyTooLarge),
        ("c9\r\n", Fault::BodyTooLarge),
        ("64\r\n", Fault::BodyTooLarge),
        ("5\rx", Fault::BareCarriageReturn),
        ("5 \r\n", Fault::InvalidChunkExtension),
        ("5 5\r\n", Fault::InvalidChunkExtension),
        ("5;\r\n", Fault::InvalidChunkExtension),
        ("5;a=\r\n", Fault::InvalidChunkExtension),
        ("5;=a\r\n", Fault::InvalidChunkExtension),
        ("5;a=b c\r\n", Fault::InvalidChunkExtension),
        ("5;a b\r\n", Fault::InvalidChunkExtension),
        ("5;a=\"b\r\n", Fault::InvalidChunkExtension),
        ("5;a=\"b\\\r\n", Fault::InvalidChunkExtension),
        ("5;a=\"b\"c\r\n", Fault::InvalidChunkExtension),
        ("5;a\nb\r\n", Fault::InvalidChunkExtension),
        ("5;a\0\r\n", Fault::InvalidChunkExtension),
        ("1\r\nxx\r\n", Fault::InvalidChunkEnd),
        ("1\r\nx\n", Fault::InvalidChunkEnd),
        ("1\r\nx\rx", Fault::InvalidChunkEnd),
        ("0\r\n\n", Fault::InvalidTrailer),
        ("0\r\n\rx", Fault::InvalidTrailer),
        ("0\r\nX\r\n\r\n", Fault::InvalidTrailer),
        ("0\r\nX : y\r\n\r\n", Fault::InvalidTrailer),
        ("0\r\n: y\r\n\r\n", Fault::InvalidTrailer),
        ("0\r\nX: y\n\r\n", Fault::InvalidTrailer),
        ("0\r\nX: \0\r\n\r\n", Fault::InvalidTrailer),
        ("0\r\nX: y\r\n z\r\n\r\n", Fault::InvalidTrailer),
        ("0\r\nHost: y\r\n\r\n", Fault::ForbiddenTrailer),
        (
            "0\r\nX: y\r\nCONTENT-LENGTH: 1\r\n\r\n",
            Fault::ForbiddenTrailer,
        ),
        (
            "0\r\nTransfer-Encoding: chunked\r\n\r\n",
            Fault::ForbiddenTrailer,
        ),
        ("0\r\nAuthorization: y\r\n\r\n", Fault::ForbiddenTrailer),
        (
            "0\r\na:\r\na:\r\na:\r\na:\r\na:\r\n\r\n",
            Fault::TooManyTrailers,
        ),
    ];
    for (body, fault) in table {
        let body = match *body {
            // The second chunk goes beyond.
            "64\r\n" => format!("65\r\n{}\r\n64\r\n", "x".repeat(101)),
            body => body.to_owned(),
        };
        assert_refused(&check(format!("{TE}{body}").as_bytes()), *fault, &body);
    }
    let long = "x".repeat(100);
    assert_refused(
        &check(format!("{TE}1;{long}\r\n").as_bytes()),
        Fault::ExtensionsTooLarge,
        "an extension",
    );
    assert_refused(
        &check(format!("{TE}0\r\nX: {long}\r\n\r\n").as_bytes()),
        Fault::TrailersTooLarge,
        "a trailer",
    );
}

#[test]
fn what_came_before_a_refusal_is_answered() {
    let input =
        b"GET / HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n";
    let outcome = check(input);
    let expected = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned()
        + &super::refusal(shardloop_protocols::http1::Status::BAD_REQUEST);
    assert_eq!(String::from_utf8(outcome.output).unwrap(), expected);
    assert_eq!(outcome.end, Err("MissingHost".to_owned()));
}

#[test]
fn every_fault_can_be_counted() {
    let mut seen = std::collections::HashSet::new();
    for fault in Fault::ALL {
        assert!(seen.insert(*fault) && !fault.to_string().is_empty());
        let by_us = shardloop_protocols::Fault::side(fault) == shardloop_protocols::Side::Us;
        let blames_us = fault.status().is_some_and(|status| status.code() == 503);
        assert!(!blames_us || by_us, "{fault:?}");
    }
}
