//! openssl and sslyze as clients; our client and servers that are wrong, our servers and clients that are.

use super::certificates::{Certificate, Certificates};
use super::companion::Companion;
use super::ledger::{Ledger, Outcome};
use super::peer::Heard;
use super::server::{Place, Server};
use super::{Ground, sslyze};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// For one call of a program.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the suite.
pub(crate) fn run(ground: &Ground, ledger: &mut Ledger) -> Result<()> {
    for place in Place::ALL {
        if let Some(server) = ledger.start(ground, "https", place) {
            ledger.check("openssl", place, || openssl(ground, &server));
            ledger.check("sslyze", place, || scan(ground, &server));
            ledger.conclude(ground, server, place);
        }
        if let Some(server) = ledger.start(ground, "tls", place) {
            ledger.check("bad clients", place, || bad_clients(ground, server));
        }
    }
    let certificates = Certificates::make(ground);
    ledger.check_alone("openssl client certificate", || {
        client_certificate(ground, made(&certificates)?)
    });
    ledger.check_alone("our client and bad servers", || {
        bad_servers(ground, made(&certificates)?)
    });
    Ok(())
}

fn made(certificates: &Result<Certificates>) -> Result<&Certificates> {
    let reason =
        |error: &anyhow::Error| anyhow::anyhow!("no certificates could be made: {error:#}");
    certificates.as_ref().map_err(reason)
}

/// `openssl s_client` with these flags, which asks for a page and hears the server out.
fn page(ground: &Ground, address: &str, flags: &[&str], files: &[(&str, &Path)]) -> Result<Heard> {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let openssl = ground.tools.system("openssl")?;
    let mut peer = ground.peer(&openssl, LIMIT).args(["s_client", "-connect"]);
    peer = peer.arg(address).args(["-ign_eof"]).args(flags);
    for (flag, file) in files {
        peer = peer.arg(flag).arg(file);
    }
    peer.say(REQUEST, "HTTP/1.1 200 OK").listen()
}

fn openssl(ground: &Ground, server: &Server) -> Result<Outcome> {
    let mut findings = Vec::new();
    let ca = &*server.ca;
    let mut expect = |what: &str, heard: Result<Heard>, lines: &[&str]| -> Result<()> {
        let heard = heard?;
        for line in lines {
            let found = heard.out.lines().chain(heard.err.lines());
            if !found.map(str::trim).any(|found| found.starts_with(line)) {
                findings.push(format!("{what}: no line `{line}`: {}", heard.last_line()));
            }
        }
        Ok(())
    };
    let verify = "-verify_return_error";
    for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let session = ground.folder.join("session");
        let trusted = [("-CAfile", ca)];
        let begun = [("-CAfile", ca), ("-sess_out", &*session)];
        let first = page(ground, &server.address, &[version, verify], &begun);
        let new = format!("New, {name}, Cipher is");
        expect(name, first, &[&new, "Verification: OK", "HTTP/1.1 200 OK"])?;
        let resumed = [("-CAfile", ca), ("-sess_in", &*session)];
        let second = page(ground, &server.address, &[version, verify], &resumed);
        let reused = format!("Reused, {name}, Cipher is");
        expect(name, second, &[&reused, "HTTP/1.1 200 OK"])?;
        let flags = [version, verify, "-alpn", "h2,http/1.1"];
        let chosen = page(ground, &server.address, &flags, &trusted);
        expect(
            name,
            chosen,
            &["ALPN protocol: http/1.1", "HTTP/1.1 200 OK"],
        )?;
        let flags = [version, verify, "-alpn", "h2"];
        let refused = page(ground, &server.address, &flags, &trusted)?;
        ensure!(refused.code != Some(0), "{name}: h2 alone was accepted");
        let named = [version, verify, "-verify_hostname", "localhost"];
        let named = page(ground, &server.address, &named, &trusted);
        expect(name, named, &["Verified peername: localhost"])?;
        let stranger = page(ground, &server.address, &[version, verify], &[])?;
        ensure!(stranger.code != Some(0), "{name}: it trusts anybody");
        expect(name, Ok(stranger), &["verify error:"])?;
    }
    for (version, name) in [("-tls1", "TLS 1.0"), ("-tls1_1", "TLS 1.1")] {
        let flags = [version, "-cipher", "ALL:@SECLEVEL=0"];
        let old = page(ground, &server.address, &flags, &[])?;
        expect(name, Ok(old), &["New, (NONE), Cipher is (NONE)"])?;
    }
    let seen =
        "1.2 and 1.3: new, resumed, ALPN, names, other authorities refused; 1.0 and 1.1 refused";
    Ok(Outcome::of(findings, seen))
}

fn scan(ground: &Ground, server: &Server) -> Result<Outcome> {
    let program = ground.tools.python("sslyze")?;
    let report = ground.folder.join("sslyze.json");
    let peer = ground.peer(&program, LIMIT).arg("--mozilla_config=disable");
    let peer = peer.args([
        "--early_data",
        "--tlsv1",
        "--tlsv1_1",
        "--tlsv1_2",
        "--tlsv1_3",
    ]);
    let peer = peer.args([
        "--sslv2",
        "--sslv3",
        "--compression",
        "--openssl_ccs",
        "--fallback",
    ]);
    let peer = peer.args([
        "--heartbleed",
        "--robot",
        "--reneg",
        "--ems",
        "--resum",
        "--json_out",
    ]);
    let heard = peer.arg(&report).arg(&server.address).listen()?;
    let text = fs::read_to_string(&report);
    sslyze::judge(&text.with_context(|| heard.last_line().to_owned())?)
}

/// Clients that break the rules: each costs one connection, which is counted by its fault, and the server goes on.
fn bad_clients(ground: &Ground, server: Server) -> Result<Outcome> {
    let python = ground.tools.plain_python()?;
    let script = ground.script("bad_clients.py");
    let peer = ground.peer(&python, LIMIT).arg(script).arg(server.port());
    let heard = peer.arg(&server.ca).listen()?.success()?;
    let told: Value = serde_json::from_str(heard.out.trim()).context("the script's result")?;
    server.serves(ground)?;
    let done = server.end()?;
    let mut findings = match done.judge() {
        Outcome::Passed(_) => Vec::new(),
        Outcome::Failed(findings) => findings,
    };
    let (connections, faults) = (told["connections"].as_u64(), told["faults"].as_u64());
    // Four of them are those of the good client.
    if Some(done.accepted - 4) != connections {
        findings.push(format!(
            "{} connections, and not {connections:?}",
            done.accepted - 4
        ));
    }
    if Some(done.faulty()) != faults {
        findings.push(format!("faults {:?}, and not {faults:?}", done.faults));
    }
    let seen = format!(
        "{} kinds, {} of them faults of {} sorts; one connection each; served to the end",
        connections.unwrap_or_default(),
        done.faulty(),
        done.faults.len()
    );
    Ok(Outcome::of(findings, seen))
}

/// A server that wants certificates of its clients.
fn client_certificate(ground: &Ground, certificates: &Certificates) -> Result<Outcome> {
    let mut command = Command::new(ground.example("tls_echo"));
    command
        .arg("--client-ca")
        .arg(&certificates.authority.certificate);
    command
        .arg("0")
        .arg(&certificates.server.certificate)
        .arg(&certificates.server.key);
    let server = Companion::start(command, &ground.folder.join("tls_echo.err"))?;
    let openssl = ground.tools.system("openssl")?;
    let mut findings = Vec::new();
    for version in ["-tls1_2", "-tls1_3"] {
        let shows = |certificate: Option<&Certificate>| -> Result<Heard> {
            let peer = ground
                .peer(&openssl, LIMIT)
                .args(["s_client", version, "-connect"]);
            let peer = peer
                .arg(&server.address)
                .args(["-verify_return_error", "-CAfile"]);
            let mut peer = peer.arg(&certificates.authority.certificate);
            if let Some(Certificate { certificate, key }) = certificate {
                peer = peer.arg("-cert").arg(certificate).arg("-key").arg(key);
            }
            peer.say(b"an echo\n", "an echo\n").listen()
        };
        if shows(Some(&certificates.client))?.code != Some(0) {
            findings.push(format!("{version}: the right certificate is refused"));
        }
        for (what, certificate) in [
            ("no certificate", None),
            ("another authority's", Some(&certificates.untrusted)),
            ("an expired one", Some(&certificates.expired)),
        ] {
            let heard = shows(certificate)?;
            if heard.code == Some(0) || heard.out.contains("an echo\n") {
                findings.push(format!("{version}: {what} is accepted"));
            }
            if !heard.err.contains("alert") {
                let said = heard.last_line();
                findings.push(format!(
                    "{version}: {what} is refused without an alert: {said}"
                ));
            }
        }
    }
    let seen = "1.2 and 1.3: the right one accepted; none, another authority's and an expired one refused with an alert";
    Ok(Outcome::of(findings, seen))
}

/// Servers that are wrong, and what our client has to say of them.
fn bad_servers(ground: &Ground, certificates: &Certificates) -> Result<Outcome> {
    let good = &certificates.server;
    let cases = [
        ("echo", &certificates.untrusted, "no trusted authority"),
        ("echo", &certificates.expired, "expired"),
        (
            "echo",
            &certificates.misnamed,
            "is not for 127.0.0.1, but for elsewhere.test",
        ),
        ("truncated", good, "closed the connection before the end"),
        ("garbage", good, "no TLS"),
        ("plain", good, "it does not speak TLS on this port"),
        ("closing", good, "the connection ended"),
        ("silent", good, "the handshake was not done within 3s"),
        ("old", good, "version"),
    ];
    let mut findings = Vec::new();
    for (manner, certificate, expected) in cases {
        let name = certificate.certificate.file_stem().unwrap_or_default();
        let what = format!("{manner} with the certificate `{}`", name.display());
        match meet(ground, manner, certificate, &certificates.authority) {
            Ok(said) if said.contains(expected) => {}
            Ok(said) => findings.push(format!("{what}: it says {said:?}, and not of {expected:?}")),
            Err(error) => findings.push(format!("{what}: {error:#}")),
        }
    }
    ground.tools.plain_python()?;
    meet_well(ground, certificates)?;
    let seen = format!(
        "{} kinds, each told clearly and for one connection",
        cases.len()
    );
    Ok(Outcome::of(findings, seen))
}

/// What our client says of a server of that manner, after one connection and with exit code 1.
fn meet(
    ground: &Ground,
    manner: &str,
    certificate: &Certificate,
    authority: &Certificate,
) -> Result<String> {
    let (heard, report, connections) = load(ground, manner, certificate, authority)?;
    ensure!(heard.code == Some(1), "exit code {:?}", heard.code);
    ensure!(report["ok"] == false, "the run counts as valid");
    ensure!(connections == "1", "{connections} connections were made");
    let said = report["first_failure"].as_str();
    Ok(said.context("it names no failure")?.to_owned())
}

/// The same server without a fault is no failure, or the others would prove nothing.
fn meet_well(ground: &Ground, certificates: &Certificates) -> Result<()> {
    let Certificates {
        server, authority, ..
    } = certificates;
    let (heard, report, _) = load(ground, "echo", server, authority)?;
    ensure!(
        report["ok"] == true,
        "the good server: {}",
        heard.last_line()
    );
    Ok(())
}

fn load(
    ground: &Ground,
    manner: &str,
    certificate: &Certificate,
    authority: &Certificate,
) -> Result<(Heard, Value, String)> {
    let mut command = Command::new(ground.tools.plain_python()?);
    command.arg(ground.script("bad_servers.py")).arg(manner);
    command.arg(&certificate.certificate).arg(&certificate.key);
    let server = Companion::start(command, &ground.folder.join("bad_servers.err"))?;
    let peer = ground.peer(&ground.bench, LIMIT);
    let peer = peer.args(["load", "--protocol", "tls", "--messages", "5", "--json"]);
    let peer = peer.args(["--connect-timeout", "3s", "--connect", &server.address]);
    let heard = peer.arg("--ca").arg(&authority.certificate).listen()?;
    let last = heard.out.lines().last().unwrap_or_default();
    let report = serde_json::from_str(last).with_context(|| heard.last_line().to_owned())?;
    Ok((heard, report, server.end()?))
}
