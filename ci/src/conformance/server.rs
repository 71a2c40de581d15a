//! One of our servers, from its first line to its last.

use super::Ground;
use super::ledger::{Missing, Outcome};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

/// For a server to begin.
const START: Duration = Duration::from_secs(30);
/// For a server to end after SIGTERM: it gives what is under way 10 s.
const END: Duration = Duration::from_secs(20);

/// What serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Uring,
    Legacy,
    Pool,
}

impl Place {
    pub(crate) const ALL: [Self; 3] = [Self::Uring, Self::Legacy, Self::Pool];

    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Uring => &["--shards", "2", "--driver", "monoio-uring"],
            Self::Legacy => &["--shards", "2", "--driver", "monoio-legacy"],
            Self::Pool => &["--pool", "2"],
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Uring => "shards monoio-uring",
            Self::Legacy => "shards monoio-legacy",
            Self::Pool => "pool",
        })
    }
}

/// A server that runs. Dropped, it is killed.
pub(crate) struct Server {
    pub(crate) protocol: &'static str,
    /// `127.0.0.1:PORT`.
    pub(crate) address: String,
    /// Whom to trust, if it is encrypted.
    pub(crate) ca: PathBuf,
    bench: PathBuf,
    child: Child,
    lines: Receiver<String>,
}

/// A server's last line.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) accepted: u64,
    pub(crate) left_open: u64,
    /// Connections that ended by a fault, by its kind.
    pub(crate) faults: BTreeMap<String, u64>,
}

impl Server {
    /// Starts one on a port the system picks.
    pub(crate) fn start(ground: &Ground, protocol: &'static str, place: Place) -> Result<Self> {
        let stem = format!("{protocol}-{place}").replace(' ', "-");
        let ca = ground.folder.join(format!("{stem}.pem"));
        let mut command = Command::new(&ground.bench);
        command.args(["serve", "--protocol", protocol]);
        command.args(place.flags());
        if matches!(protocol, "tls" | "wss" | "https") {
            command.arg("--write-ca").arg(&ca);
        }
        let said = ground.folder.join(format!("{stem}.err"));
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&said)?)
            .spawn()
            .with_context(|| format!("cannot start {}", ground.bench.display()))?;
        let lines = follow(&mut child);
        let ready = lines.recv_timeout(START);
        let Ok(ready) = ready else {
            let _ = child.kill();
            let code = child.wait()?.code();
            let reason = fs::read_to_string(said)?.trim().to_owned();
            // It says so if this machine does not have the engine.
            if code == Some(2) {
                return Err(Missing {
                    reason,
                    excused: true,
                }
                .into());
            }
            bail!("{reason}");
        };
        Ok(Self {
            protocol,
            address: address(&ready)?,
            ca,
            bench: ground.bench.clone(),
            child,
            lines,
        })
    }

    /// Its port.
    pub(crate) fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap_or_default()
    }

    /// Whether a good client is served, by our own load generator.
    pub(crate) fn serves(&self, ground: &Ground) -> Result<()> {
        let peer = ground.peer(&self.bench, Duration::from_secs(30));
        let mut peer = peer
            .args(["load", "--protocol", self.protocol, "--json"])
            .args(["--clients", "4", "--messages", "25", "--connect"])
            .arg(&self.address);
        if self.ca.is_file() {
            peer = peer.arg("--ca").arg(&self.ca);
        }
        let heard = peer.listen()?;
        let last = heard.out.lines().last().unwrap_or_default();
        let report: Value = serde_json::from_str(last).unwrap_or_default();
        ensure!(
            report["ok"] == true && report["counters"]["received"] == 100,
            "a good client was not served after that: {}",
            heard.last_line()
        );
        Ok(())
    }

    /// Asks it to end, and hears what it has to say.
    pub(crate) fn end(mut self) -> Result<Done> {
        let pid = self.child.id().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status()?;
        ensure!(asked.success(), "the server is gone");
        let last = self.lines.recv_timeout(END);
        let last = last.context("the server did not end after SIGTERM")?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the server ended with {status}");
        Done::parse(&last)
    }

    /// One more good client, SIGTERM, and its last words: that nothing is left open, and no fault was ours or the host's.
    pub(crate) fn conclude(self, ground: &Ground) -> Result<Outcome> {
        self.serves(ground)?;
        let done = self.end()?;
        Ok(done.judge())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After its end it does nothing.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Its lines, as they come.
fn follow(child: &mut Child) -> Receiver<String> {
    let (sender, receiver) = channel();
    if let Some(out) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

fn address(ready: &str) -> Result<String> {
    let ready: Value = serde_json::from_str(ready).context("the server's first line")?;
    let address = ready["address"].as_str();
    Ok(address
        .context("the server's first line has no address")?
        .to_owned())
}

impl Done {
    fn parse(line: &str) -> Result<Self> {
        let done: Value = serde_json::from_str(line).context("the server's last line")?;
        let number = |name: &str| {
            done[name]
                .as_u64()
                .with_context(|| format!("the server's last line has no {name}"))
        };
        let faults = done["faults"].as_object().into_iter().flatten();
        Ok(Self {
            accepted: number("accepted")?,
            left_open: number("left_open")?,
            faults: faults
                .map(|(kind, count)| (kind.clone(), count.as_u64().unwrap_or_default()))
                .collect(),
        })
    }

    /// Connections that a fault ended.
    pub(crate) fn faulty(&self) -> u64 {
        self.faults.values().sum()
    }

    pub(crate) fn judge(&self) -> Outcome {
        let ours = |kind: &str| kind.starts_with("Us: ") || kind.starts_with("Host: ");
        let mut findings: Vec<_> = self
            .faults
            .iter()
            .filter(|(kind, _)| ours(kind))
            .map(|(kind, count)| format!("{count} times a fault that is not the peer's: {kind}"))
            .collect();
        if self.left_open > 0 {
            findings.push(format!("{} connections were left open", self.left_open));
        }
        let seen = format!(
            "{} connections, {} ended by a fault of the peer, none left open; served to the end",
            self.accepted,
            self.faulty()
        );
        Outcome::of(findings, seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_has_the_address() {
        let line = r#"{"ready":true,"address":"127.0.0.1:45855","pid":7,"protocol":"ws"}"#;
        assert_eq!(address(line).unwrap(), "127.0.0.1:45855");
        assert!(address("{}").is_err());
    }

    #[test]
    fn the_last_line_is_judged() {
        let of = |faults: &str, left_open: u64| {
            let line = format!(
                r#"{{"done":true,"accepted":9,"faults":{{{faults}}},"left_open":{left_open}}}"#
            );
            Done::parse(&line).unwrap().judge()
        };
        let passed = of(r#""the peer sent a text that is not UTF-8":2"#, 0);
        assert!(
            matches!(&passed, Outcome::Passed(seen) if seen.starts_with("9 connections, 2 ended")),
            "{passed:?}"
        );
        assert!(matches!(of("", 1), Outcome::Failed(findings) if findings.len() == 1));
        let faults = r#""Us: a":1,"Host: b":2,"c":3"#;
        assert!(matches!(of(faults, 1), Outcome::Failed(findings) if findings.len() == 3));
        assert!(Done::parse("{}").is_err());
    }
}
