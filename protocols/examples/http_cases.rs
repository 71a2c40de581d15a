//! What the HTTP/1.1 server makes of many inputs, for comparisons with other parsers (`protocols/fuzz/differential/http.py`).
//!
//! Reads cases from standard input, each a u32 in big-endian order and as many bytes: what one connection sends before its end. For
//! each it prints a line: the fault or `-`, then method, target and body of every request it showed, in hexadecimal, each ended by a dot,
//! with blanks between them.

use shardloop_protocols::{
    Flow, Next, StreamMachine,
    http1::{Http1Error, Reply, Request, Server, ServerOptions, Status},
};
use std::{
    fmt::Write as _,
    io::{self, BufWriter, Read, Write},
    time::Instant,
};

fn main() -> io::Result<()> {
    let mut cases = Vec::new();
    io::stdin().read_to_end(&mut cases)?;
    let mut out = BufWriter::new(io::stdout().lock());
    let mut rest = &cases[..];
    while let Some((length, tail)) = rest.split_first_chunk() {
        let bytes = usize::try_from(u32::from_be_bytes(*length)).map_err(io::Error::other)?;
        let (case, tail) = tail.split_at(bytes);
        let (fault, requests) = verdict(case);
        let fault = fault.map_or("-".to_owned(), |fault| format!("{fault:?}"));
        writeln!(out, "{fault}{requests}")?;
        rest = tail;
    }
    out.flush()
}

fn verdict(case: &[u8]) -> (Option<Http1Error>, String) {
    let mut server = Server::new(ServerOptions::DEFAULT);
    let mut requests = String::new();
    let mut app = |request: Request<'_>, reply: Reply<'_>| {
        let parts = [
            request.method.as_bytes(),
            request.target.raw.as_bytes(),
            request.body,
        ];
        for part in parts {
            requests.push(' ');
            part.iter().for_each(|byte| {
                write!(requests, "{byte:02x}").expect("writing into memory does not fail");
            });
            requests.push('.');
        }
        let _ = reply.empty(Status::OK);
        Flow::Continue
    };
    let (now, mut pending, mut out) = (Instant::now(), case.to_vec(), Vec::new());
    let fault = loop {
        out.clear();
        let step = match server.handle(now, &mut pending, &mut app, &mut out) {
            Ok(step) => step,
            Err(fault) => break Some(fault),
        };
        pending.drain(..step.consumed);
        match step.next {
            Next::Again => {}
            Next::Close => break None,
            Next::NeedInput => break server.end_of_input(now, pending.len(), &mut out).err(),
        }
    };
    (fault, requests)
}
