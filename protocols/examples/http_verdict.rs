//! What the HTTP/1.1 server makes of a corpus of requests: `http_verdict CORPUS [EXCEPTIONS]`.
//!
//! CORPUS has the folders `valid` and `invalid` of files `*.http`, in the notation of gunicorn's `tests/requests` (PyPI sdist, MIT): line
//! breaks of the file mean nothing, `\r\n`, `\n`, `\t`, `\0` and `\xHH` mean bytes. One line per file is printed. EXCEPTIONS lists the
//! files on which we differ, with what we say of them and the section that says so; a difference that it does not list is an error,
//! and so is one it lists in vain.
//!
//! Most of the corpus is older than its third part and has no Host, which RFC 9112 section 3.2 wants refused. So that this does not hide
//! what a file is about, a request that is refused for nothing but its missing Host is given one and tried again.

use shardloop_protocols::{
    Flow, Next, StreamMachine,
    http1::{Http1Error, Reply, Request, Server, ServerOptions, Status},
};
use std::{
    collections::BTreeMap,
    error::Error,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let corpus = PathBuf::from(arguments.next().ok_or("which corpus?")?);
    let mut exceptions = match arguments.next() {
        Some(path) => exceptions(&fs::read_to_string(path)?),
        None => BTreeMap::new(),
    };
    let mut wrong = 0;
    for folder in ["valid", "invalid"] {
        for file in files(&corpus.join(folder))? {
            let name = format!(
                "{folder}/{}",
                file.file_name().unwrap_or_default().display()
            );
            let (verdict, requests) = verdict(&bytes(&fs::read(&file)?));
            let expected = match exceptions.remove(&name) {
                Some(exception) => verdict == exception,
                None => (verdict == ACCEPTED) == (folder == "valid"),
            };
            wrong += usize::from(!expected);
            let mark = if expected { "" } else { "  <-- unexpected" };
            println!("{name}: {verdict}{mark} {requests:?}");
        }
    }
    for name in exceptions.keys() {
        println!("{name}: listed, but not there");
    }
    Ok(ExitCode::from(u8::from(wrong + exceptions.len() > 0)))
}

const ACCEPTED: &str = "accepted";

/// What a server says of a connection with these bytes, and the requests that it saw.
fn verdict(input: &[u8]) -> (String, Vec<String>) {
    let mut server = Server::new(ServerOptions::DEFAULT);
    let mut requests = Vec::new();
    let mut app = |request: Request<'_>, reply: Reply<'_>| {
        requests.push(format!("{} {:.40}", request.method, request.target.raw));
        let _ = reply.empty(Status::OK);
        // One request per call, so that what is pending at a fault begins with the request at fault.
        Flow::Pause
    };
    let (now, mut pending, mut out) = (Instant::now(), input.to_vec(), Vec::new());
    let fault: Option<Http1Error> = loop {
        out.clear();
        let step = match server.handle(now, &mut pending, &mut app, &mut out) {
            Ok(step) => step,
            Err(Http1Error::MissingHost) => {
                // What was refused is the first request that is pending.
                server = Server::new(ServerOptions::DEFAULT);
                add_host(&mut pending);
                continue;
            }
            Err(fault) => break Some(fault),
        };
        pending.drain(..step.consumed);
        match step.next {
            Next::Again => {}
            Next::Close => break None,
            Next::NeedInput => {
                break server.end_of_input(now, pending.len(), &mut out).err();
            }
        }
    };
    let verdict = match fault {
        None => ACCEPTED.to_owned(),
        Some(fault) => match fault.status() {
            Some(status) => format!("{} {fault:?}", status.code()),
            None => format!("{fault:?}"),
        },
    };
    (verdict, requests)
}

/// Gives the first request a Host.
fn add_host(input: &mut Vec<u8>) {
    let line = input.windows(2).position(|end| end == b"\r\n");
    let at = line.expect("a head has lines") + 2;
    input.splice(at..at, *b"Host: added\r\n");
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "http")
        {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Undoes the corpus's notation.
fn bytes(text: &[u8]) -> Vec<u8> {
    let text: Vec<u8> = text.iter().copied().filter(|byte| *byte != b'\n').collect();
    let (mut bytes, mut rest) = (Vec::new(), &text[..]);
    while let [first, tail @ ..] = rest {
        let (byte, tail) = match rest {
            [b'\\', b'r', tail @ ..] => (b'\r', tail),
            [b'\\', b'n', tail @ ..] => (b'\n', tail),
            [b'\\', b't', tail @ ..] => (b'\t', tail),
            [b'\\', b'0', tail @ ..] => (0, tail),
            [b'\\', b'x', high, low, tail @ ..] => (hexadecimal(*high, *low), tail),
            _ => (*first, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
    bytes
}

fn hexadecimal(high: u8, low: u8) -> u8 {
    let digit = |byte: u8| char::from(byte).to_digit(16).expect("it is a digit");
    u8::try_from(digit(high) << 4 | digit(low)).expect("two digits are a byte")
}

/// Files and verdicts from lines `file = "…"` and `verdict = "…"`.
fn exceptions(text: &str) -> BTreeMap<String, String> {
    let mut exceptions = BTreeMap::new();
    let mut file = String::new();
    for line in text.lines() {
        let Some((key, value)) = line.split_once(" = ") else {
            continue;
        };
        let value = value.trim_matches('"').to_owned();
        match key {
            "file" => file = value,
            "verdict" => drop(exceptions.insert(file.clone(), value)),
            _ => {}
        }
    }
    exceptions
}
