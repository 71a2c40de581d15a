//! Clients and load generators against the server, a corpus of requests against the machine.

use super::ledger::{Ledger, Outcome};
use super::server::{Place, Server};
use super::{Ground, browser, loads};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// For one program of those below.
const LIMIT: Duration = Duration::from_secs(60);
/// Requests of one run of h2load and ab, and over how many connections.
const REQUESTS: u64 = 2_000;
const CONNECTIONS: &str = "16";
/// Requests in gunicorn 27.0.1's corpus.
const CORPUS: usize = 143;

/// Runs the suite.
pub(crate) fn run(ground: &Ground, ledger: &mut Ledger) -> Result<()> {
    let bodies = Bodies::write(ground)?;
    for place in Place::ALL {
        for protocol in ["http", "https"] {
            let Some(server) = ledger.start(ground, protocol, place) else {
                continue;
            };
            clients(ground, ledger, &server, place, &bodies);
            generators(ground, ledger, &server, place, &bodies);
            ledger.conclude(ground, server, place);
        }
    }
    ledger.check_alone("gunicorn's requests", || corpus(ground));
    Ok(())
}

/// Files to be sent, and what is sent back.
struct Bodies {
    small: PathBuf,
    /// So long that it is not sent before it was asked for.
    long: PathBuf,
    too_long: PathBuf,
    echo: PathBuf,
}

impl Bodies {
    fn write(ground: &Ground) -> Result<Self> {
        let file = |name: &str, bytes: usize| -> Result<PathBuf> {
            let path = ground.folder.join(name);
            let content = (0..=u8::MAX).cycle().step_by(7).take(bytes);
            fs::write(&path, content.collect::<Vec<_>>())?;
            Ok(path)
        };
        Ok(Self {
            small: file("small", 1_000)?,
            long: file("long", 512 * 1024)?,
            // The server's limit is 1 MiB.
            too_long: file("too-long", 1024 * 1024 + 1)?,
            echo: ground.folder.join("echo"),
        })
    }
}

fn clients(ground: &Ground, ledger: &mut Ledger, server: &Server, place: Place, bodies: &Bodies) {
    let protocol = server.protocol;
    let url = format!("{protocol}://{}/", server.address);
    ledger.check(&format!("curl {protocol}"), place, || {
        curl(ground, server, &url, bodies)
    });
    ledger.check(&format!("httpx {protocol}"), place, || {
        let python = ground.tools.python_with("httpx")?;
        let peer = ground
            .peer(&python, LIMIT)
            .arg(ground.script("http_echo.py"));
        let heard = peer.arg(&url).arg(&server.ca).listen()?.success()?;
        Ok(Outcome::Passed(heard.out.trim().to_owned()))
    });
    ledger.check(&format!("chromium {protocol}"), place, || {
        browser::visit(ground, "http_echo.html", &url)
    });
}

fn generators(
    ground: &Ground,
    ledger: &mut Ledger,
    server: &Server,
    place: Place,
    bodies: &Bodies,
) {
    let protocol = server.protocol;
    let url = format!("{protocol}://{}/", server.address);
    ledger.check(&format!("wrk {protocol}"), place, || {
        let plain = wrk(ground, &url, None)?;
        let pipelined = wrk(ground, &url, Some("pipeline.lua"))?;
        let seen = format!("{} requests, and {} pipelined", plain.0, pipelined.0);
        Ok(Outcome::of([plain.1, pipelined.1].concat(), seen))
    });
    ledger.check(&format!("h2load {protocol}"), place, || {
        let program = ground.tools.system("h2load")?;
        let mut findings = Vec::new();
        for body in [None, Some(&bodies.small)] {
            let peer = ground
                .peer(&program, LIMIT)
                .args(["--h1", "-c", CONNECTIONS]);
            let peer = peer.args(["-n", &REQUESTS.to_string()]);
            let peer = match body {
                Some(body) => peer.arg("-d").arg(body),
                None => peer,
            };
            let heard = peer.arg(&url).listen()?.success()?;
            findings.extend(loads::h2load(&heard.out, REQUESTS));
        }
        let seen = format!("{REQUESTS} GET and {REQUESTS} POST requests");
        Ok(Outcome::of(findings, seen))
    });
    ledger.check(&format!("ab {protocol}"), place, || {
        let program = ground.tools.system("ab")?;
        let mut findings = Vec::new();
        for keep_alive in [true, false] {
            let peer = ground.peer(&program, LIMIT).args(["-q", "-c", CONNECTIONS]);
            let peer = peer.args(["-n", &REQUESTS.to_string()]);
            let peer = if keep_alive { peer.arg("-k") } else { peer };
            let heard = peer.arg(&url).listen()?.success()?;
            findings.extend(loads::ab(&heard.out, REQUESTS, keep_alive));
        }
        let seen = format!("{REQUESTS} requests on connections that stay, {REQUESTS} on new ones");
        Ok(Outcome::of(findings, seen))
    });
}

fn wrk(ground: &Ground, url: &str, script: Option<&str>) -> Result<(u64, Vec<String>)> {
    let program = ground.tools.system("wrk")?;
    let mut peer = ground.peer(&program, LIMIT);
    peer = peer.args(["-t1", "-c", CONNECTIONS, "-d1s"]);
    if let Some(script) = script {
        peer = peer.arg("-s").arg(ground.script(script));
    }
    let heard = peer.arg(url).listen()?.success()?;
    Ok(loads::wrk(&heard.out))
}

/// One call of curl and what is to come of it.
struct Ask<'a> {
    what: &'static str,
    flags: &'a [&'a str],
    body: Option<&'a Path>,
    /// Status, connections made and version of each transfer.
    told: &'a str,
    /// A line among those that it sends and receives.
    said: Option<&'static str>,
}

fn curl(ground: &Ground, server: &Server, url: &str, bodies: &Bodies) -> Result<Outcome> {
    let program = ground.tools.system("curl")?;
    let asks = asks(bodies);
    let mut findings = Vec::new();
    for ask in &asks {
        if let Err(error) = ask.ask(ground, &program, server, url, &bodies.echo) {
            findings.push(format!("{}: {error:#}", ask.what));
        }
    }
    if server.ca.is_file() {
        // Without our authority it trusts those of the system.
        let peer = ground.peer(&program, LIMIT).args(["-sS", "-o"]);
        let heard = peer.arg(&bodies.echo).arg(url).listen()?;
        if heard.code != Some(60) {
            findings.push(format!("it trusts anybody: exit code {:?}", heard.code));
        }
    }
    Ok(Outcome::of(
        findings,
        format!("{} kinds of requests", asks.len()),
    ))
}

fn asks(bodies: &Bodies) -> Vec<Ask<'_>> {
    const ONE: &str = "200 1 1.1\n";
    let ask = |what, flags, body| Ask {
        what,
        flags,
        body,
        told: ONE,
        said: None,
    };
    let (small, long) = (Some(&*bodies.small), Some(&*bodies.long));
    let chunked = &["-H", "Transfer-Encoding: chunked"];
    let expect = &["-H", "Expect: 100-continue", "--expect100-timeout", "20"];
    vec![
        ask("GET", &[], None),
        Ask {
            told: "200 1 1.1\n200 0 1.1\n200 0 1.1\n",
            ..ask("keep-alive", &["{}", "{}"], None)
        },
        Ask {
            said: Some("Connection: close"),
            ..ask("Connection: close", &["-H", "Connection: close"], None)
        },
        ask("POST", &[], small),
        ask("a long POST", &[], long),
        ask("an empty POST", &["-d", ""], None),
        ask("a chunked upload", chunked, small),
        ask("a long chunked upload", chunked, long),
        Ask {
            said: Some("HTTP/1.1 100 Continue"),
            ..ask("Expect: 100-continue", expect, long)
        },
        Ask {
            told: "413 1 1.1\n",
            ..ask("Expect for too much", expect, Some(&bodies.too_long))
        },
        Ask {
            said: Some("Content-Length: 0"),
            ..ask("HEAD", &["-I"], None)
        },
        Ask {
            said: Some("Connection: close"),
            ..ask("HTTP/1.0", &["--http1.0"], small)
        },
        Ask {
            said: Some("Connection: keep-alive"),
            ..ask(
                "HTTP/1.0, keep-alive",
                &["--http1.0", "-H", "Connection: keep-alive"],
                small,
            )
        },
        ask("PUT", &["-X", "PUT"], small),
        ask("PUT without a body", &["-X", "PUT"], None),
        ask("PATCH", &["-X", "PATCH"], small),
        ask("PATCH without a body", &["-X", "PATCH"], None),
        ask("DELETE", &["-X", "DELETE"], small),
        ask("DELETE without a body", &["-X", "DELETE"], None),
        ask(
            "OPTIONS *",
            &["-X", "OPTIONS", "--request-target", "*"],
            None,
        ),
        ask("a form", &["-F", "field=value"], None),
        ask("compression offered", &["--compressed"], small),
    ]
}

impl Ask<'_> {
    fn ask(
        &self,
        ground: &Ground,
        program: &Path,
        server: &Server,
        url: &str,
        echo: &Path,
    ) -> Result<()> {
        const TOLD: &str = "%{http_code} %{num_connects} %{http_version}\n";
        let mut peer = ground.peer(program, LIMIT);
        peer = peer.args(["-sSv", "--http1.1", "--max-time", "30", "-w", TOLD]);
        if server.ca.is_file() {
            peer = peer.arg("--cacert").arg(&server.ca);
        }
        if let Some(body) = self.body {
            peer = peer
                .arg("--data-binary")
                .arg(format!("@{}", body.display()));
        }
        for flag in self.flags.iter().chain(&["{}"]) {
            // A place for one more transfer of the same.
            peer = match *flag {
                "{}" => peer.arg("-o").arg(echo).arg(url),
                flag => peer.arg(flag),
            };
        }
        let heard = peer.listen()?;
        ensure!(
            heard.out == self.told,
            "it tells {:?} and not {:?}: {}",
            heard.out,
            self.told,
            heard.last_line()
        );
        if let Some(said) = self.said {
            let found = heard.err.lines().any(|line| {
                let line = line.strip_prefix("< ").unwrap_or_default().trim();
                line.eq_ignore_ascii_case(said)
            });
            ensure!(found, "no line `{said}` was received");
        }
        if let Some(body) = self.body.filter(|_| self.told.starts_with("200")) {
            let same = fs::read(echo).context("nothing came back")? == fs::read(body)?;
            ensure!(same, "what came back is not what was sent");
        }
        Ok(())
    }
}

/// Every request of gunicorn's corpus, and the list of those on which we differ, with reasons.
fn corpus(ground: &Ground) -> Result<Outcome> {
    let corpus = ground.tools.gunicorn()?;
    let peer = ground.peer(&ground.example("http_verdict"), LIMIT);
    let heard = peer
        .arg(corpus)
        .arg(ground.script("gunicorn.toml"))
        .listen()?;
    let listed = fs::read_to_string(ground.script("gunicorn.toml"))?;
    judge_corpus(
        &heard.out,
        heard.code,
        listed.matches("[[request]]").count(),
    )
}

fn judge_corpus(text: &str, code: Option<i32>, listed: usize) -> Result<Outcome> {
    let mut findings: Vec<_> = text
        .lines()
        .filter(|line| line.contains("<-- unexpected") || line.ends_with("listed, but not there"))
        .map(str::to_owned)
        .collect();
    let requests = text
        .lines()
        .filter(|line| line.starts_with("valid/") || line.starts_with("invalid/"))
        .count();
    ensure!(
        requests >= CORPUS,
        "{requests} requests were judged, and there are {CORPUS}"
    );
    if findings.is_empty() && code != Some(0) {
        findings.push(format!("exit code {code:?}"));
    }
    let agreed = requests - listed;
    let seen = format!(
        "{requests} requests, {agreed} as they are named, {listed} listed in ci/conformance/gunicorn.toml with the section"
    );
    Ok(Outcome::of(findings, seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_judged() {
        let good: String = (0..CORPUS)
            .map(|number| format!("valid/{number:03}.http: accepted [\"GET /\"]\n"))
            .collect();
        let of = |text: &str, code| judge_corpus(text, Some(code), 3);
        assert!(matches!(of(&good, 0).unwrap(), Outcome::Passed(seen) if seen.contains("140 as")));
        assert!(matches!(of(&good, 1).unwrap(), Outcome::Failed(_)));
        let bad = format!("{good}invalid/001.http: accepted  <-- unexpected []\n");
        assert!(matches!(of(&bad, 1).unwrap(), Outcome::Failed(findings) if findings.len() == 1));
        let vain = format!("{good}invalid/002.http: listed, but not there\n");
        assert!(matches!(of(&vain, 1).unwrap(), Outcome::Failed(findings) if findings.len() == 1));
        assert!(of("", 0).is_err());
    }
}
