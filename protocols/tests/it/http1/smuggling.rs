//! Requests that two readers might understand differently, each with a second request hidden behind it: what a server answers, and
//! that it never sees the second one.

use super::case;

/// The request that must not be seen.
const HIDDEN: &[u8] = b"GET /hidden HTTP/1.1\r\nHost: h\r\n\r\n";

/// Fields behind `POST / HTTP/1.1` and a Host; then an empty chunked body and the hidden request.
#[rustfmt::skip]
const FIELDS: &[(&str, &[u8], u16)] = &[
    ("length and coding", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
    ("coding and length", b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", 400),
    ("coding and no length", b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", 400),
    ("coding and a length in capitals", b"CONTENT-LENGTH: 5\r\ntransfer-encoding: chunked\r\n", 400),
    ("two lengths", b"Content-Length: 0\r\nContent-Length: 44\r\n", 400),
    ("two equal lengths", b"Content-Length: 0\r\nContent-Length: 0\r\n", 400),
    ("two lengths in two cases", b"Content-Length: 0\r\ncontent-length: 44\r\n", 400),
    ("a list of lengths", b"Content-Length: 0, 44\r\n", 400),
    ("a list of equal lengths", b"Content-Length: 0,0\r\n", 400),
    ("a list with an empty end", b"Content-Length: 0,\r\n", 400),
    ("a positive length", b"Content-Length: +0\r\n", 400),
    ("a negative length", b"Content-Length: -1\r\n", 400),
    ("a negative zero", b"Content-Length: -0\r\n", 400),
    ("a hexadecimal length", b"Content-Length: 0x0\r\n", 400),
    ("an octal length", b"Content-Length: 0o0\r\n", 400),
    ("a fraction", b"Content-Length: 0.0\r\n", 400),
    ("an exponent", b"Content-Length: 0e0\r\n", 400),
    ("an underscore", b"Content-Length: 0_0\r\n", 400),
    ("a length with a space", b"Content-Length: 0 0\r\n", 400),
    ("a length with a tab", b"Content-Length: 0\t0\r\n", 400),
    ("a length in quotes", b"Content-Length: \"0\"\r\n", 400),
    ("a length with a parameter", b"Content-Length: 0;a=b\r\n", 400),
    ("no length at all", b"Content-Length: \r\n", 400),
    ("a length with NUL", b"Content-Length: 0\x00\r\n", 400),
    ("a length with a form feed", b"Content-Length: \x0c0\r\n", 400),
    ("a length in digits of another script", "Content-Length: \u{661}\r\n".as_bytes(), 400),
    ("a length beyond 32 bits", b"Content-Length: 4294967296\r\n", 413),
    ("a length beyond 63 bits", b"Content-Length: 9223372036854775808\r\n", 413),
    ("a length beyond 64 bits", b"Content-Length: 18446744073709551616\r\n", 413),
    ("a length of many digits", b"Content-Length: 100000000000000000000000000000000000000000\r\n", 413),
    ("a space before the colon of a length", b"Content-Length : 5\r\n", 400),
    ("a tab before the colon of a length", b"Content-Length\t: 5\r\n", 400),
    ("a space before the colon of a coding", b"Transfer-Encoding : chunked\r\n", 400),
    ("a tab before the colon of a coding", b"Transfer-Encoding\t: chunked\r\n", 400),
    ("NUL before the colon", b"Transfer-Encoding\x00: chunked\r\n", 400),
    ("a soft hyphen in the name", b"Transfer\xadEncoding: chunked\r\n", 400),
    ("a dash of another script in the name", "Transfer\u{2010}Encoding: chunked\r\n".as_bytes(), 400),
    ("a byte beyond ASCII behind the name", b"Transfer-Encoding\xff: chunked\r\n", 400),
    ("a space in the name", b"Transfer Encoding: chunked\r\n", 400),
    ("a name in quotes", b"\"Transfer-Encoding\": chunked\r\n", 400),
    ("two colons", b"Transfer-Encoding:: chunked\r\n", 400),
    ("a coding folded at its start", b"Transfer-Encoding:\r\n chunked\r\n", 400),
    ("a coding folded with a tab", b"Transfer-Encoding:\r\n\tchunked\r\n", 400),
    ("a length folded", b"Content-Length:\r\n 5\r\n", 400),
    ("a fold in front of the coding", b"X: y\r\n Transfer-Encoding: chunked\r\n", 400),
    ("a coding that ends with LF", b"Transfer-Encoding: chunked\nX: y\r\n", 400),
    ("a coding behind a bare LF", b"X: y\nTransfer-Encoding: chunked\r\n", 400),
    ("a coding behind a bare CR", b"X: y\rTransfer-Encoding: chunked\r\n", 400),
    ("a coding behind CR CR LF", b"X: y\r\r\nTransfer-Encoding: chunked\r\n", 400),
    ("a coding behind LF CR", b"X: y\n\rTransfer-Encoding: chunked\r\n", 400),
    ("a coding behind NUL", b"X: y\x00\r\nTransfer-Encoding: chunked\r\n", 400),
    ("a coding with a vertical tab", b"Transfer-Encoding: \x0bchunked\r\n", 400),
    ("a coding with a form feed behind", b"Transfer-Encoding: chunked\x0c\r\n", 400),
    ("a coding with NUL behind", b"Transfer-Encoding: chunked\x00\r\n", 400),
    ("a coding with DEL behind", b"Transfer-Encoding: chunked\x7f\r\n", 400),
    ("a coding with a byte beyond ASCII", b"Transfer-Encoding: chunked\xff\r\n", 400),
    ("a coding with a space that does not break", "Transfer-Encoding: \u{a0}chunked\r\n".as_bytes(), 400),
    ("a coding in letters that fold to ASCII", "Transfer-Encoding: chun\u{212a}ed\r\n".as_bytes(), 400),
    ("a coding in quotes", b"Transfer-Encoding: \"chunked\"\r\n", 400),
    ("a coding in single quotes", b"Transfer-Encoding: 'chunked'\r\n", 400),
    ("a coding with a parameter", b"Transfer-Encoding: chunked;q=1\r\n", 400),
    ("a coding with a comma behind", b"Transfer-Encoding: chunked,\r\n", 400),
    ("a coding with a comma in front", b"Transfer-Encoding: ,chunked\r\n", 501),
    ("a longer word", b"Transfer-Encoding: xchunked\r\n", 400),
    ("another longer word", b"Transfer-Encoding: chunkedx\r\n", 400),
    ("a shorter word", b"Transfer-Encoding: chunke\r\n", 400),
    ("a word beside it", b"Transfer-Encoding: chunked x\r\n", 400),
    ("no coding at all", b"Transfer-Encoding: \r\n", 400),
    ("identity", b"Transfer-Encoding: identity\r\n", 400),
    ("identity and a length", b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n", 400),
    ("an unknown coding and a length", b"Transfer-Encoding: x\r\nContent-Length: 5\r\n", 400),
    ("chunked and identity", b"Transfer-Encoding: chunked, identity\r\n", 400),
    ("identity and chunked", b"Transfer-Encoding: identity, chunked\r\n", 501),
    ("gzip and chunked", b"Transfer-Encoding: gzip, chunked\r\n", 501),
    ("chunked twice", b"Transfer-Encoding: chunked, chunked\r\n", 400),
    ("chunked twice in two lines", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
    ("chunked and identity in two lines", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", 400),
    ("identity and chunked in two lines", b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", 400),
    ("a second host", b"Host: i\r\nTransfer-Encoding: chunked\r\n", 400),
    ("a second host in capitals", b"HOST: h\r\nTransfer-Encoding: chunked\r\n", 400),
    ("a line without a colon", b"X\r\nTransfer-Encoding: chunked\r\n", 400),
    ("a name of nothing", b": y\r\nTransfer-Encoding: chunked\r\n", 400),
    ("a name of a space", b"X: y\r\n : z\r\nTransfer-Encoding: chunked\r\n", 400),
    ("an escape sequence", b"X: \x1b[2J\r\nTransfer-Encoding: chunked\r\n", 400),
];

/// Chunked bodies; the hidden request follows.
#[rustfmt::skip]
const CHUNKS: &[(&str, &[u8], u16)] = &[
    ("a size with a plus", b"+0\r\n\r\n", 400),
    ("a size with a minus", b"-0\r\n\r\n", 400),
    ("a size with 0x", b"0x0\r\n\r\n", 400),
    ("a size behind a space", b" 0\r\n\r\n", 400),
    ("a size in front of a space", b"0 \r\n\r\n", 400),
    ("a size in front of a tab", b"0\t\r\n\r\n", 400),
    ("a size with an underscore", b"0_0\r\n\r\n", 400),
    ("a size with NUL", b"0\x00\r\n\r\n", 400),
    ("a size with a word", b"0 0\r\n\r\n", 400),
    ("no size", b"\r\n\r\n", 400),
    ("no size but an extension", b";a\r\n\r\n", 400),
    ("a size in digits of another script", "\u{660}\r\n\r\n".as_bytes(), 400),
    ("a size that overflows to none", b"10000000000000000\r\n\r\n", 400),
    ("a size that overflows to two", b"100000000000000002\r\nab\r\n0\r\n\r\n", 400),
    ("a size that is negative if signed", b"ffffffffffffffff\r\n", 413),
    ("a size of 2^32", b"100000000\r\n", 413),
    ("a size with a bare LF", b"0\n\r\n", 400),
    ("a size with a bare CR", b"0\r\r\n", 400),
    ("a size with CR CR LF", b"0\r\r\n\r\n", 400),
    ("an extension with a bare LF", b"1;a\nb\r\nx\r\n0\r\n\r\n", 400),
    ("an extension with a bare CR", b"1;a\rb\r\nx\r\n0\r\n\r\n", 400),
    ("an extension with a quoted LF", b"1;a=\"\n\"\r\nx\r\n0\r\n\r\n", 400),
    ("an extension with a quoted line end", b"1;a=\"\r\n\"\r\nx\r\n0\r\n\r\n", 400),
    ("an extension without a name", b"1;\r\nx\r\n0\r\n\r\n", 400),
    ("a chunk that is longer than its size", b"1\r\nxy\r\n0\r\n\r\n", 400),
    ("a chunk without an end", b"1\r\nx0\r\n\r\n", 400),
    ("a chunk that ends with LF", b"1\r\nx\n0\r\n\r\n", 400),
    ("a chunk that ends with CR", b"1\r\nx\r0\r\n\r\n", 400),
    ("a last chunk with a bare LF behind", b"0\r\n\n", 400),
    ("a last chunk with a bare CR behind", b"0\r\n\r", 400),
    ("a length as a trailer", b"0\r\nContent-Length: 5\r\n\r\n", 400),
    ("a coding as a trailer", b"0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
    ("a host as a trailer", b"0\r\nHost: i\r\n\r\n", 400),
    ("a folded trailer", b"0\r\nX: y\r\n Host: i\r\n\r\n", 400),
    ("a trailer with a bare LF", b"0\r\nX: y\nHost: i\r\n\r\n", 400),
    ("a trailer with a space before its colon", b"0\r\nX : y\r\n\r\n", 400),
];

/// Whole requests; the hidden one follows.
#[rustfmt::skip]
const REQUESTS: &[(&str, &[u8], u16)] = &[
    ("a coding in HTTP/1.0", b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("HTTP/0.9", b"GET /\r\n", 400),
    ("HTTP/0.9 with a version", b"GET / HTTP/0.9\r\n\r\n", 505),
    ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ("a version with a zero in front", b"GET / HTTP/01.1\r\nHost: h\r\n\r\n", 400),
    ("a version in small letters", b"GET / http/1.1\r\nHost: h\r\n\r\n", 400),
    ("a version with a space behind", b"GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400),
    ("two targets", b"GET / /a HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    ("a tab in the request line", b"GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    ("two spaces in the request line", b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    ("a space in front of the method", b" GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    ("a bare LF in front of the method", b"\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    ("a request line that ends with LF", b"GET / HTTP/1.1\nHost: h\r\n\r\n", 400),
    ("a head that ends with LF LF", b"GET / HTTP/1.1\r\nHost: h\n\n", 400),
    ("a head that ends with CR LF LF", b"GET / HTTP/1.1\r\nHost: h\r\n\n", 400),
    ("a CR in the target", b"GET /\r HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    ("a fragment", b"GET /#a HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    ("a target beyond ASCII", b"GET /\xff HTTP/1.1\r\nHost: h\r\n\r\n", 400),
    ("a host with credentials", b"GET / HTTP/1.1\r\nHost: a@b\r\n\r\n", 400),
    ("a host with a path", b"GET / HTTP/1.1\r\nHost: h/a\r\n\r\n", 400),
    ("a target with credentials", b"GET http://a@b/ HTTP/1.1\r\nHost: b\r\n\r\n", 400),
    ("a tunnel", b"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n", 501),
    ("a host in front of nothing", b"GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400),
    ("no host", b"GET / HTTP/1.1\r\nX: y\r\n\r\n", 400),
];

fn check(name: &str, attack: &[u8], status: u16) {
    let input = [attack, HIDDEN].concat();
    let outcome = case().check(&input);
    let answer = format!("HTTP/1.1 {status} ");
    assert!(
        outcome.output.starts_with(answer.as_bytes()),
        "{name}: {}",
        outcome.output.escape_ascii()
    );
    assert!(outcome.end.is_err(), "{name}: the connection goes on");
    assert!(outcome.notes.is_empty(), "{name}: a request was seen");
}

#[test]
fn no_hidden_request_is_seen() {
    for (name, fields, status) in FIELDS {
        let head = [b"POST / HTTP/1.1\r\nHost: h\r\n", *fields, b"\r\n0\r\n\r\n"];
        check(name, &head.concat(), *status);
    }
    for (name, body, status) in CHUNKS {
        let head = b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(name, &[head, *body].concat(), *status);
    }
    for (name, request, status) in REQUESTS {
        check(name, request, *status);
    }
    assert!(FIELDS.len() + CHUNKS.len() + REQUESTS.len() >= 140);
}

/// Names that only look like the ones that frame: they mean nothing, and what follows is not a body.
#[test]
fn names_that_frame_nothing() {
    for name in [
        "Transfer_Encoding",
        "X-Transfer-Encoding",
        "TransferEncoding",
        "Content_Length",
        "Content-Lengths",
    ] {
        let input = format!("POST /one HTTP/1.1\r\nHost: h\r\n{name}: 5\r\n\r\n");
        let outcome = case().check(&[input.as_bytes(), HIDDEN].concat());
        assert!(outcome.end.is_ok(), "{name}");
        assert!(
            outcome
                .notes
                .ends_with(b"GET /hidden Http11\nHost=h\n\n.\n"),
            "{name}"
        );
    }
}

/// A request in a body is a body, whatever its method.
#[test]
fn a_request_in_a_body_is_not_seen() {
    for method in ["GET", "HEAD", "POST", "DELETE", "OPTIONS", "X"] {
        let fields = format!("Content-Length: {}", HIDDEN.len());
        let head = format!("{method} / HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n");
        let outcome = case().check(&[head.as_bytes(), HIDDEN].concat());
        let note = format!("{method} / Http11\nHost=h\nContent-Length=33\n");
        let seen = [note.as_bytes(), HIDDEN, b"\n.\n"].concat();
        assert_eq!(outcome.notes, seen, "{method}");
    }
}
