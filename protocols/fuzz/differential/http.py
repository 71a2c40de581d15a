#!/usr/bin/env python3
"""Compares our HTTP/1.1 server with llhttp (Node's parser, in httptools of PyPI) on mutated requests.

    cargo build --release -p shardloop-protocols --example http_cases
    pip install httptools
    python3 protocols/fuzz/differential/http.py target/release/examples/http_cases [COUNT [SEED]]

Each case is what one connection sends. Both see it whole, then the end. Counted by class: what both say alike; what we refuse and
llhttp takes (we may be stricter); what we take and llhttp refuses, which must be in EXPLAINED. A request that both take and read
differently is an error, whatever the class. Exit code 1 if something is not explained.
"""

import collections
import random
import re
import struct
import subprocess
import sys

import httptools

# What llhttp refuses and we take: part of its message, a pattern of the case, why it may be taken.
EXPLAINED = [
    ("Invalid method", rb"", "any token is a method (RFC 9110 section 9.1); llhttp has a list"),
    ("Expected space after method", rb"", "any token is a method (RFC 9110 section 9.1); llhttp has a list"),
    ("Invalid HTTP version", rb" HTTP/1\.[2-9]", "a higher minor version is read as 1.1 (RFC 9110 section 2.5)"),
    ("chunk size", rb"[0-9a-fA-F][ \t]+;", "whitespace before a chunk extension is to be parsed (RFC 9112 section 7.1.1, BWS)"),
]

FIELDS = [
    b"Host: example.com", b"Host: a:80", b"Host: [::1]:8080", b"Accept: */*", b"Content-Length: 5", b"Content-Length: 0",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Connection: close", b"Connection: keep-alive",
    b"Expect: 100-continue", b"X: \ty \t", b"X:", b"X-Y: a;b=\"c\"", b"Trailer: X", b"TE: trailers", b"User-Agent: x/1 (y)",
]
METHODS = [b"GET", b"POST", b"PUT", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH", b"TRACE", b"FROB", b"M-SEARCH"]
TARGETS = [b"/", b"/a/b?c=d", b"*", b"http://example.com/x", b"/%41%zz", b"/a#b", b"/~u;v,w", b"//x", b"/?\"<>"]
PIECES = [
    b"\r\n", b"\n", b"\r", b" ", b"\t", b"\0", b":", b",", b";", b"0\r\n\r\n", b"5\r\nhello\r\n", b"\x0b", b"\x7f", b"\x80", b"\xff",
    b"chunked", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"+5", b"0x5",
    b"-1", b"05", b"5 ", b"Host: b\r\n", b"identity", b"close", b"\r\n ",
]


def chunks(rng):
    body = b""
    for _ in range(rng.randrange(4)):
        data = b"chunked data"[: 1 + rng.randrange(12)]
        extension = rng.choice([b"", b"", b";a", b";a=b", b';a="b"', b" ;a", b";"])
        body += b"%x" % len(data) + extension + b"\r\n" + data + b"\r\n"
    return body + b"0\r\n" + rng.choice([b"", b"", b"X: y\r\n", b"Content-Length: 3\r\n"]) + b"\r\n"


def request(rng):
    fields = [rng.choice(FIELDS[:3])] + rng.sample(FIELDS if rng.randrange(8) == 0 else FIELDS[3:], rng.randrange(4))
    rng.shuffle(fields)
    line = rng.choice(METHODS) + b" " + rng.choice(TARGETS) + b" " + rng.choice([b"HTTP/1.1"] * 4 + [b"HTTP/1.0", b"HTTP/1.2"])
    head = b"\r\n".join([line] + fields) + b"\r\n\r\n"
    if b"chunked" in head:
        return head + chunks(rng)
    return head + (b"hello" if b"Content-Length: 5" in head else b"")


def mutated(rng, case):
    case = bytearray(case)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 3])):
        at = rng.randrange(len(case) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            case[at:at] = rng.choice(PIECES)
        elif kind == 1:
            del case[at : at + 1 + rng.randrange(3)]
        elif kind == 2 and at < len(case):
            case[at] = rng.randrange(256)
        elif kind == 3:
            piece = rng.choice(PIECES)
            case[at : at + len(piece)] = piece
        else:
            case[at:at] = case[at : at + rng.randrange(30)]
    return bytes(case)


class Seen:
    def __init__(self):
        self.requests, self.url, self.body, self.parser = [], b"", b"", None

    def on_message_begin(self):
        self.url, self.body = b"", b""

    def on_url(self, url):
        self.url += url

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        self.requests.append((self.parser.get_method(), self.url, self.body))


def llhttp(case):
    seen = Seen()
    seen.parser = httptools.HttpRequestParser(seen)
    try:
        seen.parser.feed_data(case)
    except httptools.HttpParserUpgrade:
        return "upgrade", seen.requests
    except httptools.HttpParserError as error:
        return str(error) or type(error).__name__, seen.requests
    return None, seen.requests


def ours(program, cases):
    text = b"".join(struct.pack(">I", len(case)) + case for case in cases)
    lines = subprocess.run([program], input=text, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    for line in lines:
        fault, *parts = line.split(" ")
        parts = [bytes.fromhex(part.rstrip(".")) for part in parts]
        yield fault, [tuple(parts[at : at + 3]) for at in range(0, len(parts), 3)]


def explained(message, case):
    for part, pattern, why in EXPLAINED:
        if part in message and re.search(pattern, case):
            return why
    return None


def main():
    program, count, seed = sys.argv[1], int((sys.argv + ["", "", "30000"])[2] or 30000), int((sys.argv[3:] or ["1"])[0])
    rng = random.Random(seed)
    cases = [mutated(rng, b"".join(request(rng) for _ in range(rng.choice([1, 1, 2])))) for _ in range(count)]
    classes, examples, wrong = collections.Counter(), {}, 0
    for case, (fault, requests) in zip(cases, ours(program, cases)):
        message, theirs = llhttp(case)
        common = min(len(requests), len(theirs))
        if requests[:common] != theirs[:common]:
            name, wrong = f"READ DIFFERENTLY ({fault}; {message})", wrong + 1
        elif len(requests) > len(theirs) and message != "upgrade":
            why = explained(message or "unfinished", case)
            name = f"we take, llhttp refuses: {message}: {why or 'NOT EXPLAINED'}"
            wrong += why is None
        elif len(requests) < len(theirs):
            name = f"we refuse, llhttp takes: {fault}"
        else:
            name = "alike"
        classes[name] += 1
        examples.setdefault(name, case)
    for name, number in classes.most_common():
        print(f"{number:7}  {name}")
        if name != "alike":
            print(f"         {examples[name][:200]!r}")
    print(f"{count} cases of seed {seed}, {wrong} not explained")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
