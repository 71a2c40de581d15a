//! Autobahn's cases by both of its runners, in both directions, and echoes from Python, Node and a browser.

use super::ledger::{Ledger, Outcome};
use super::server::{Place, Server};
use super::{Ground, autobahn, browser};
use anyhow::{Result, bail};
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Sections of the cases that speak of what we have: 12 and 13 are about compression.
const SECTIONS: &[&str] = &[
    "1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*",
];
/// Cases in these sections.
const CASES: usize = 301;
/// The same without the long messages of section 9, which the slower runner sends to one server only.
const SECTIONS_SHORT: &[&str] = &["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "10.*"];
const CASES_SHORT: usize = 247;
/// A part of them for wss://, and its number. What differs there is how bytes come, which is about fragments and closing.
const SECTIONS_TLS: &[&str] = &["1.*", "2.*", "5.*", "9.1.*", "9.2.*", "10.*"];
const CASES_TLS: usize = 60;

/// For one run of the cases; it takes a tenth on an idle machine.
const SUITE: Duration = Duration::from_secs(240);
/// For a script that echoes.
const ECHOES: Duration = Duration::from_secs(60);

/// Runs the suite.
pub(crate) fn run(ground: &Ground, ledger: &mut Ledger) -> Result<()> {
    for place in Place::ALL {
        let Some(plain) = ledger.start(ground, "ws", place) else {
            continue;
        };
        ledger.check("kosoku", place, || kosoku(ground, &plain, place));
        ledger.check("wstest", place, || {
            let (sections, cases) = match place {
                Place::Uring => (SECTIONS, CASES),
                Place::Legacy | Place::Pool => (SECTIONS_SHORT, CASES_SHORT),
            };
            wstest(ground, &plain, place, sections, cases)
        });
        echoes(ground, ledger, &plain, place);
        ledger.conclude(ground, plain, place);
        let Some(encrypted) = ledger.start(ground, "wss", place) else {
            continue;
        };
        ledger.check("wstest wss", place, || {
            wstest(ground, &encrypted, place, SECTIONS_TLS, CASES_TLS)
        });
        echoes(ground, ledger, &encrypted, place);
        ledger.conclude(ground, encrypted, place);
    }
    for engine in ["monoio-uring", "monoio-legacy"] {
        let us = |runner: &str| format!("{runner} our client {engine}");
        ledger.check_alone(&us("kosoku"), || client_by_kosoku(ground, engine));
        ledger.check_alone(&us("wstest"), || client_by_wstest(ground, engine));
    }
    Ok(())
}

/// Texts and binaries of several sizes, from Python, Node and a browser.
fn echoes(ground: &Ground, ledger: &mut Ledger, server: &Server, place: Place) {
    let protocol = server.protocol;
    let what = |peer: &str| format!("{peer} {protocol}");
    let url = format!("{protocol}://{}/", server.address);
    ledger.check(&what("websockets"), place, || {
        let python = ground.tools.python_with("websockets")?;
        let script = ground.script("websocket_echo.py");
        let peer = ground.peer(&python, ECHOES).arg(script);
        let heard = peer.arg(&url).arg(&server.ca).listen()?.success()?;
        Ok(Outcome::Passed(heard.out.trim().to_owned()))
    });
    ledger.check(&what("node ws"), place, || {
        let (node, modules) = ground.tools.node_with_ws()?;
        let script = ground.script("websocket_echo.cjs");
        let peer = ground.peer(&node, ECHOES).env("NODE_PATH", modules);
        let peer = peer.arg(script).arg(&url).arg(&server.ca);
        Ok(Outcome::Passed(
            peer.listen()?.success()?.out.trim().to_owned(),
        ))
    });
    ledger.check(&what("chromium"), place, || {
        browser::visit(ground, "websocket_echo.html", &url)
    });
}

fn report(ground: &Ground, runner: &str, protocol: &str, place: impl ToString) -> PathBuf {
    let name = format!(
        "{runner}-{protocol}-{}",
        place.to_string().replace(' ', "-")
    );
    ground.folder.join(name)
}

fn kosoku(ground: &Ground, server: &Server, place: Place) -> Result<Outcome> {
    let program = ground.tools.python("kosoku")?;
    let folder = report(ground, "kosoku", server.protocol, place);
    let peer = ground.peer(&program, SUITE).args(["-m", "fuzzingclient"]);
    let peer = peer.args(SECTIONS.iter().flat_map(|section| ["-i", section]));
    // Its exit code is not 0 if a case failed; the report tells which.
    peer.arg("-o").arg(&folder).arg(&server.address).listen()?;
    autobahn::judge(&folder, CASES)
}

fn wstest(
    ground: &Ground,
    server: &Server,
    place: Place,
    sections: &[&str],
    cases: usize,
) -> Result<Outcome> {
    let program = ground.tools.wstest()?;
    let folder = report(ground, "wstest", server.protocol, place);
    let url = format!("{}://{}", server.protocol, server.address);
    let plan = serde_json::json!({
        "outdir": folder,
        "servers": [{"agent": "us", "url": url}],
        "cases": sections,
        "exclude-cases": [],
        "exclude-agent-cases": {},
    });
    let spec = folder.with_extension("json");
    fs::write(&spec, plan.to_string())?;
    let peer = ground.peer(&program, SUITE);
    let peer = peer.args(["-m", "fuzzingclient", "-s"]).arg(&spec);
    peer.listen()?.success()?;
    autobahn::judge(&folder, cases)
}

fn client_by_kosoku(ground: &Ground, engine: &str) -> Result<Outcome> {
    let program = ground.tools.python("kosoku")?;
    let folder = report(ground, "kosoku", "client", engine);
    let address = free_address()?;
    let mut command = Command::new(program);
    command.args(["-m", "fuzzingserver"]);
    command.args(SECTIONS.iter().flat_map(|section| ["-i", section]));
    command.arg("-o").arg(&folder).arg(&address);
    client(ground, command, &address, &folder, engine)
}

fn client_by_wstest(ground: &Ground, engine: &str) -> Result<Outcome> {
    let program = ground.tools.wstest()?;
    let folder = report(ground, "wstest", "client", engine);
    let address = free_address()?;
    let plan = serde_json::json!({
        "url": format!("ws://{address}"),
        "outdir": folder,
        "cases": SECTIONS,
        "exclude-cases": [],
        "exclude-agent-cases": {},
    });
    let spec = folder.with_extension("json");
    fs::write(&spec, plan.to_string())?;
    let mut command = Command::new(program);
    // Its web page for people would want a fixed port.
    command
        .args(["-m", "fuzzingserver", "-u", "0", "-s"])
        .arg(&spec);
    client(ground, command, &address, &folder, engine)
}

/// Runs our client through the cases of a server of cases.
fn client(
    ground: &Ground,
    mut server: Command,
    address: &str,
    folder: &Path,
    engine: &str,
) -> Result<Outcome> {
    let log = fs::File::create(folder.with_extension("log"))?;
    server
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log);
    let mut server = CaseServer(server.spawn()?);
    server.await_it(address)?;
    let peer = ground.peer(&ground.example("ws_cases"), SUITE);
    peer.args([address, "us", engine]).listen()?.success()?;
    server.interrupt()?;
    autobahn::judge(folder, CASES)
}

/// A server that runs until it is dropped: it has no end of its own.
struct CaseServer(Child);

impl CaseServer {
    fn await_it(&mut self, address: &str) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(address).is_err() {
            if let Some(status) = self.0.try_wait()? {
                bail!("the server of cases ended with {status}");
            }
            if Instant::now() > deadline {
                bail!("the server of cases does not listen on {address}");
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }
}

impl CaseServer {
    /// As a person would end it. kosoku writes its report then.
    fn interrupt(mut self) -> Result<()> {
        let pid = self.0.id().to_string();
        Command::new("kill").args(["-INT", &pid]).status()?;
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.0.try_wait()?.is_none() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for CaseServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address that was free a moment ago, for programs that want to be told one.
fn free_address() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok(listener.local_addr()?.to_string())
}
