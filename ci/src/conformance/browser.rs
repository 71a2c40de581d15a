//! A headless browser that is shown one page of ours. The page tells what it found by a request, so nothing depends on when the browser
//! takes it for loaded.

use super::Ground;
use super::ledger::Outcome;
use anyhow::{Context, Result, bail};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// For the browser to start and the page to do what it is for.
const LIMIT: Duration = Duration::from_secs(60);

/// No sandbox, as root has none; nothing from outside; the certificates of one run are nobody's; and a page may talk to other ports.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--disable-web-security",
    "--ignore-certificate-errors",
];

/// Shows it `page`, which gets the address of the server under test as its query.
pub(crate) fn visit(ground: &Ground, page: &str, target: &str) -> Result<Outcome> {
    let program = ground.tools.chromium()?;
    let html = fs::read_to_string(ground.script(page))?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/?{target}", listener.local_addr()?);
    let (sender, receiver) = channel();
    // It ends with this process: nobody connects any more.
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let (html, sender) = (html.clone(), sender.clone());
            thread::spawn(move || {
                if let Ok(Some(told)) = answer(&stream, &html) {
                    let _ = sender.send(told);
                }
            });
        }
    });
    let profile = ground.folder.join("chromium");
    let log = fs::File::create(ground.folder.join("chromium.log"))?;
    let mut command = Command::new(program);
    command
        .args(FLAGS)
        .arg(format!("--user-data-dir={}", profile.display()));
    command
        .arg(&url)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    let browser = Browser(command.spawn()?);
    let told = receiver.recv_timeout(LIMIT);
    drop(browser);
    // The next visit begins anew.
    let _ = fs::remove_dir_all(&profile);
    let told = told.with_context(|| format!("the page said nothing within {LIMIT:?}"))?;
    match told.strip_prefix("PASS ") {
        Some(seen) => Ok(Outcome::Passed(seen.to_owned())),
        None => Ok(Outcome::Failed(vec![told])),
    }
}

/// Answers one request of the browser: the page, or thanks for what it tells.
fn answer(mut stream: &TcpStream, html: &str) -> Result<Option<String>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let mut length = 0;
    loop {
        let mut field = String::new();
        reader.read_line(&mut field)?;
        let Some((name, value)) = field.split_once(':') else {
            break;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse()?;
        }
    }
    let mut body = String::new();
    reader.take(length).read_to_string(&mut body)?;
    let (status, answer) = match (method, target.split('?').next()) {
        ("GET", Some("/")) => ("200 OK", html),
        ("POST", Some("/told")) => ("200 OK", ""),
        ("GET", _) => ("404 Not Found", ""),
        _ => bail!("the browser asks {line}"),
    };
    let length = answer.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/html\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{answer}"
    )?;
    Ok((method == "POST").then_some(body))
}

/// Dropped, it is killed, and its own processes end with it.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
