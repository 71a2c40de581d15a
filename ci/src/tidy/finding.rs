//! What a rule reports: where, which rule, and what to do about it.

use std::fmt;

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    advice: String,
}

impl Finding {
    /// `line` counts from 1. `advice` says what to do.
    pub(crate) fn new(
        path: &str,
        line: usize,
        rule: &'static str,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule,
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}:{}: {}: {}",
            self.path, self.line, self.rule, self.advice
        )
    }
}

/// Findings as `line: rule`, for the tests of the rules.
#[cfg(test)]
pub(crate) fn brief(findings: &[Finding]) -> Vec<String> {
    findings
        .iter()
        .map(|finding| format!("{}: {}", finding.line, finding.rule))
        .collect()
}
