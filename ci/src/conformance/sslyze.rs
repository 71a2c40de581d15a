//! What sslyze writes down about a server of TLS, as findings.

use super::ledger::Outcome;
use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// What each scan must have found, in the result of the scan of this name.
const EXPECTED: &[(&str, &str, &str)] = &[
    (
        "ssl_2_0_cipher_suites",
        "/is_tls_version_supported",
        "false",
    ),
    (
        "ssl_3_0_cipher_suites",
        "/is_tls_version_supported",
        "false",
    ),
    (
        "tls_1_0_cipher_suites",
        "/is_tls_version_supported",
        "false",
    ),
    (
        "tls_1_1_cipher_suites",
        "/is_tls_version_supported",
        "false",
    ),
    ("tls_1_2_cipher_suites", "/is_tls_version_supported", "true"),
    ("tls_1_3_cipher_suites", "/is_tls_version_supported", "true"),
    ("tls_compression", "/supports_compression", "false"),
    ("tls_1_3_early_data", "/supports_early_data", "false"),
    (
        "openssl_ccs_injection",
        "/is_vulnerable_to_ccs_injection",
        "false",
    ),
    ("tls_fallback_scsv", "/supports_fallback_scsv", "true"),
    ("heartbleed", "/is_vulnerable_to_heartbleed", "false"),
    (
        "robot",
        "/robot_result",
        "\"NOT_VULNERABLE_RSA_NOT_SUPPORTED\"",
    ),
    (
        "session_renegotiation",
        "/supports_secure_renegotiation",
        "true",
    ),
    (
        "session_renegotiation",
        "/is_vulnerable_to_client_renegotiation_dos",
        "false",
    ),
    (
        "tls_extended_master_secret",
        "/supports_ems_extension",
        "true",
    ),
];

/// Words in names of cipher suites that no server should accept any more.
const WEAK: &[&str] = &[
    "_CBC_", "_RC4_", "_3DES_", "_NULL_", "_EXPORT_", "_anon_", "TLS_RSA_", "_MD5",
];

/// Judges sslyze's report.
///
/// # Errors
/// It is none, or of a server that was not reached.
pub(crate) fn judge(text: &str) -> Result<Outcome> {
    let report: Value = serde_json::from_str(text).context("the report is no JSON")?;
    let server = &report["server_scan_results"][0];
    ensure!(
        server["scan_status"] == "COMPLETED",
        "the scan was not completed: {}",
        server["connectivity_error_trace"]
    );
    let scans = &server["scan_result"];
    let mut findings = Vec::new();
    for (scan, place, expected) in EXPECTED {
        let found = scans[scan]["result"].pointer(place);
        let found = found.map_or("nothing".to_owned(), Value::to_string);
        if found != *expected {
            let name = place.trim_start_matches('/');
            findings.push(format!("{scan}: {name} is {found} and not {expected}"));
        }
    }
    let accepted = suites(scans);
    findings.extend(
        accepted
            .iter()
            .filter(|suite| WEAK.iter().any(|weak| suite.contains(weak)))
            .map(|suite| format!("{suite} is accepted")),
    );
    let seen = format!(
        "{} properties as they should be, {} cipher suites accepted, none of them weak",
        EXPECTED.len(),
        accepted.len()
    );
    Ok(Outcome::of(findings, seen))
}

fn suites(scans: &Value) -> Vec<&str> {
    ["tls_1_2_cipher_suites", "tls_1_3_cipher_suites"]
        .iter()
        .filter_map(|scan| scans[scan]["result"]["accepted_cipher_suites"].as_array())
        .flatten()
        .filter_map(|suite| suite["cipher_suite"]["name"].as_str())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(change: impl FnOnce(&mut Value)) -> String {
        let mut scans = serde_json::json!({});
        for (scan, place, expected) in EXPECTED {
            let expected: Value = serde_json::from_str(expected).unwrap();
            scans[scan]["result"][place.trim_start_matches('/')] = expected;
        }
        let suite = |name: &str| serde_json::json!({"cipher_suite": {"name": name}});
        scans["tls_1_3_cipher_suites"]["result"]["accepted_cipher_suites"] =
            serde_json::json!([suite("TLS_AES_128_GCM_SHA256")]);
        scans["tls_1_2_cipher_suites"]["result"]["accepted_cipher_suites"] =
            serde_json::json!([suite("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256")]);
        change(&mut scans);
        serde_json::json!({"server_scan_results": [{"scan_status": "COMPLETED", "scan_result": scans}]})
            .to_string()
    }

    #[test]
    fn every_property_is_judged() {
        let passed = judge(&report(|_| ())).unwrap();
        assert!(matches!(&passed, Outcome::Passed(seen) if seen.contains(" 2 cipher suites")));
        for (scan, place, _) in EXPECTED {
            let name = place.trim_start_matches('/');
            let failed = judge(&report(|scans| scans[scan]["result"][name] = "else".into()));
            assert!(
                matches!(failed.unwrap(), Outcome::Failed(findings) if findings.len() == 1),
                "{scan}"
            );
            let failed = judge(&report(|scans| scans[scan]["result"] = Value::Null));
            assert!(matches!(failed.unwrap(), Outcome::Failed(_)), "{scan}");
        }
        let weak = report(|scans| {
            scans["tls_1_2_cipher_suites"]["result"]["accepted_cipher_suites"][0]["cipher_suite"]
                ["name"] = "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA".into();
        });
        assert!(matches!(judge(&weak).unwrap(), Outcome::Failed(findings) if findings.len() == 1));
        assert!(judge("{}").is_err());
    }
}
