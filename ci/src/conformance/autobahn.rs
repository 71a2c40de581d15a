//! What the two runners of Autobahn's cases write down: `index.json`, with a verdict for each case.

use super::ledger::Outcome;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Verdicts that are faults, of the behaviour or of the close.
const FAULTS: &[&str] = &["FAILED", "UNCLEAN", "WRONG CODE", "FAILED BY CLIENT"];
/// Verdicts that are none. Both runners flip between OK and NON-STRICT in a few cases, by timing.
const FINE: &[&str] = &["OK", "NON-STRICT", "INFORMATIONAL", "UNIMPLEMENTED"];

/// Judges the report in `folder`, which must tell of at least so many cases.
///
/// # Errors
/// There is no report, or it is none.
pub(crate) fn judge(folder: &Path, cases_min: usize) -> Result<Outcome> {
    let path = folder.join("index.json");
    let text = fs::read_to_string(&path)
        .with_context(|| format!("there is no report {}", path.display()))?;
    judge_text(&text, cases_min)
}

fn judge_text(text: &str, cases_min: usize) -> Result<Outcome> {
    let report: Value = serde_json::from_str(text).context("the report is no JSON")?;
    let agents = report.as_object().context("the report has no agents")?;
    let (mut cases, mut findings, mut non_strict, mut unimplemented) = (0, Vec::new(), 0, 0);
    for (case, verdict) in agents.values().filter_map(Value::as_object).flatten() {
        cases += 1;
        let of = |name: &str| verdict[name].as_str().unwrap_or("no verdict").to_owned();
        let (behavior, close) = (of("behavior"), of("behaviorClose"));
        let known = |verdict: &str| FINE.contains(&verdict) && !FAULTS.contains(&verdict);
        if !known(&behavior) || !known(&close) {
            findings.push(format!("case {case}: {behavior}, its close {close}"));
        }
        non_strict += usize::from(behavior == "NON-STRICT");
        unimplemented += usize::from(behavior == "UNIMPLEMENTED");
    }
    ensure!(
        cases >= cases_min,
        "the report tells of {cases} cases, and there should be {cases_min} at least"
    );
    let mut seen = format!("{cases} cases ok");
    let remarks: Vec<_> = [(non_strict, "non-strict"), (unimplemented, "unimplemented")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if !remarks.is_empty() {
        seen += &format!(" ({})", remarks.join(", "));
    }
    Ok(Outcome::of(findings, seen))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(cases: &[(&str, &str, &str)]) -> String {
        let cases: Vec<_> = cases
            .iter()
            .map(|(case, behavior, close)| {
                format!(
                    r#""{case}": {{"behavior": "{behavior}", "behaviorClose": "{close}", "duration": 1, "remoteCloseCode": 1000}}"#
                )
            })
            .collect();
        format!(r#"{{"us": {{{}}}}}"#, cases.join(", "))
    }

    #[test]
    fn every_verdict_is_read() {
        let good = report(&[
            ("1.1.1", "OK", "OK"),
            ("6.4.1", "NON-STRICT", "OK"),
            ("7.1.6", "INFORMATIONAL", "INFORMATIONAL"),
        ]);
        let seen = "3 cases ok (1 non-strict)".to_owned();
        assert_eq!(judge_text(&good, 3).unwrap(), Outcome::Passed(seen));
        for (behavior, close) in [
            ("FAILED", "OK"),
            ("OK", "UNCLEAN"),
            ("OK", "WRONG CODE"),
            ("OK", "FAILED BY CLIENT"),
            ("a new one", "OK"),
        ] {
            let bad = report(&[("1.1.1", "OK", "OK"), ("2.1", behavior, close)]);
            let finding = format!("case 2.1: {behavior}, its close {close}");
            assert_eq!(judge_text(&bad, 2).unwrap(), Outcome::Failed(vec![finding]));
        }
    }

    #[test]
    fn few_cases_are_no_report() {
        assert!(judge_text("{}", 1).is_err());
        assert!(judge_text("", 0).is_err());
        assert!(judge_text(&report(&[("1.1.1", "OK", "OK")]), 2).is_err());
    }
}
