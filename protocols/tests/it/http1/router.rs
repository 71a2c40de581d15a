//! Which handler a router picks, and what it answers where there is none.

use shardloop_protocols::{
    App, Flow, StreamMachine,
    http1::{
        Params, PercentError, Reply, Request, Response, Router, Server, ServerOptions, Status, echo,
    },
};
use std::{rc::Rc, time::Instant};

/// A handler that answers with `name` and what the pattern's names stand for.
fn says(name: &'static str) -> impl Fn(&mut Request<'_>, &Params<'_>, Reply<'_>) + 'static {
    move |_: &mut Request<'_>, params: &Params<'_>, reply: Reply<'_>| {
        let (a, b) = (params.get("a"), params.get("b"));
        let body = format!("{name} {} {}", a.unwrap_or("-"), b.unwrap_or("-"));
        let response = Response {
            status: Status::OK,
            headers: &[],
            body: body.as_bytes(),
        };
        reply
            .respond(&response)
            .expect("the test keeps to the rules");
    }
}

fn router() -> Router {
    Router::new()
        .route("GET", "/", says("root"))
        .route("GET", "/a", says("a"))
        .route("POST", "/a", says("post"))
        .route("HEAD", "/h", says("head"))
        .route("GET", "/h", says("get"))
        .route("GET", "/u/me", says("me"))
        .route("GET", "/u/{a}", says("user"))
        .route("GET", "/u/{a}/x/{b}", says("two"))
        .route("GET", "/dir/", says("dir"))
        .route("OPTIONS", "/own", says("own"))
}

fn ask(app: &mut impl App<Server>, line: &str) -> String {
    let mut input = format!("{line} HTTP/1.1\r\nHost: h\r\n\r\n").into_bytes();
    let mut out = Vec::new();
    let mut server = Server::new(ServerOptions::DEFAULT);
    let step = server.handle(Instant::now(), &mut input, app, &mut out);
    assert_eq!(
        step.expect("the test keeps to the rules").consumed,
        input.len()
    );
    String::from_utf8(out).expect("the test keeps to the rules")
}

#[test]
fn handlers_by_method_and_path() {
    let table = [
        ("GET /", "root - -"),
        ("GET /?a=b", "root - -"),
        ("GET http://h", "root - -"),
        ("GET /a", "a - -"),
        ("POST /a", "post - -"),
        ("GET /u/me", "me - -"),
        ("GET /u/7", "user 7 -"),
        ("GET /u/a%2Fb", "user a%2Fb -"),
        ("GET /u/7/x/8?c", "two 7 8"),
        ("GET /dir/", "dir - -"),
        ("OPTIONS /own", "own - -"),
    ];
    for (line, body) in table {
        let answer = ask(&mut router(), line);
        assert!(
            answer.starts_with("HTTP/1.1 200 OK\r\n"),
            "{line}: {answer}"
        );
        assert!(
            answer.ends_with(&format!("\r\n\r\n{body}")),
            "{line}: {answer}"
        );
    }
}

#[test]
fn what_no_handler_is_for() {
    let none = "404 Not Found\r\nContent-Length: 0\r\n\r\n";
    let table = [
        ("GET /b", none.to_owned()),
        ("GET //", none.to_owned()),
        ("GET /a/", none.to_owned()),
        ("GET /u/", none.to_owned()),
        ("GET /u/7/x", none.to_owned()),
        ("GET /dir", none.to_owned()),
        ("GET /%61", none.to_owned()),
        ("OPTIONS /b", none.to_owned()),
        (
            "PUT /a",
            "405 Method Not Allowed\r\nAllow: GET, HEAD, OPTIONS, POST\r\nContent-Length: 0\r\n\r\n".to_owned(),
        ),
        (
            "get /a",
            "405 Method Not Allowed\r\nAllow: GET, HEAD, OPTIONS, POST\r\nContent-Length: 0\r\n\r\n".to_owned(),
        ),
        (
            "OPTIONS /a",
            "204 No Content\r\nAllow: GET, HEAD, OPTIONS, POST\r\n\r\n".to_owned(),
        ),
        (
            "OPTIONS *",
            "204 No Content\r\nAllow: GET, HEAD, OPTIONS, POST\r\n\r\n".to_owned(),
        ),
    ];
    for (line, answer) in table {
        assert_eq!(
            ask(&mut router(), line),
            format!("HTTP/1.1 {answer}"),
            "{line}"
        );
    }
}

#[test]
fn head_falls_back_to_get() {
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(ask(&mut router(), "HEAD /a"), answer);
    let answer = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n";
    assert_eq!(ask(&mut router(), "HEAD /h"), answer);
}

#[test]
fn decoding_is_asked_for() {
    let mut app = Router::new().route("GET", "/{a}", |_, params, reply| {
        let body = match params.decoded("a").unwrap() {
            Ok(text) => text,
            Err(PercentError::Malformed) => "malformed".to_owned(),
            Err(PercentError::NotUtf8) => "not UTF-8".to_owned(),
        };
        assert!(params.decoded("b").is_none());
        let response = Response {
            status: Status::OK,
            headers: &[],
            body: body.as_bytes(),
        };
        reply.respond(&response).unwrap();
    });
    for (path, body) in [("a%2fb", "a/b"), ("%zz", "malformed"), ("%ff", "not UTF-8")] {
        let answer = ask(&mut app, &format!("GET /{path}"));
        assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
    }
}

#[test]
fn otherwise_and_one_router_for_all() {
    let router = router().otherwise(|request, _, reply| echo(request, reply).unwrap());
    let router = Rc::new(router);
    let mut app = {
        let router = Rc::clone(&router);
        move |request: Request<'_>, reply: Reply<'_>| -> Flow { router.serve(request, reply) }
    };
    let echoed =
        "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(ask(&mut app, "DELETE /what/ever"), echoed);
    assert!(ask(&mut app, "PUT /a").starts_with("HTTP/1.1 405 "));
    assert!(format!("{router:?}").contains("Named(\"a\")"), "{router:?}");
}

#[test]
fn an_echo_says_what_it_was_told() {
    let mut server = Server::new(ServerOptions::DEFAULT);
    let mut app = |mut request: Request<'_>, reply: Reply<'_>| {
        echo(&mut request, reply).unwrap();
        Flow::Continue
    };
    let mut input =
        *b"POST / HTTP/1.1\r\nHost: h\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\nabc";
    let mut out = Vec::new();
    let step = server.handle(Instant::now(), &mut input, &mut app, &mut out);
    assert_eq!(step.unwrap().consumed, input.len());
    assert_eq!(
        out,
        b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nContent-Length: 3\r\n\r\nabc"
    );
}

#[test]
#[should_panic(expected = "braces enclose a whole segment")]
fn braces_within_a_segment() {
    let _ = Router::new().route("GET", "/a{b}", says(""));
}

#[test]
#[should_panic(expected = "begins with a slash")]
fn a_pattern_without_a_slash() {
    let _ = Router::new().route("GET", "a", says(""));
}
