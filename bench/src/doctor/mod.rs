//! Whether this machine can measure honestly: what was found, how much it weighs, and what to do about it. Changes nothing.
//!
//! [`facts`] asks the machine, [`judge`] says what each answer means, and this prints it. A fact that is not exposed is a note: it was
//! not checked, and that is all that is known.

pub(crate) mod facts;
mod judge;
mod loopback;

use crate::report::table::wrap;
use facts::Facts;
use serde::Serialize;

/// Everything that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Diagnosis {
    /// Nothing makes measuring impossible.
    pub(crate) can_measure: bool,
    /// One by one.
    pub(crate) findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    /// What it is.
    pub(crate) what: &'static str,
    /// What was found, in words; `null` is not exposed.
    pub(crate) value: Option<String>,
    /// How much it weighs.
    pub(crate) verdict: Verdict,
    /// Why it matters and what to do, unless there is nothing to do.
    pub(crate) advice: Option<String>,
    /// Nothing can be measured here.
    pub(crate) fatal: bool,
}

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As it should be.
    Ok,
    /// Good to know.
    Note,
    /// Figures made here will suffer, or cannot be made.
    Problem,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Problem => "problem",
        }
    }
}

impl Diagnosis {
    /// Judges the facts.
    pub(crate) fn of(facts: &Facts) -> Self {
        let findings = judge::all(facts);
        Diagnosis {
            can_measure: !findings.iter().any(|finding| finding.fatal),
            findings,
        }
    }

    /// As lines for people.
    pub(crate) fn render(&self) -> String {
        let mut text: String = self.findings.iter().map(line).collect();
        let count = |verdict| {
            let same = |finding: &&Finding| finding.verdict == verdict;
            self.findings.iter().filter(same).count()
        };
        let (notes, problems) = (count(Verdict::Note), count(Verdict::Problem));
        let conclusion = match (self.can_measure, problems, notes) {
            (false, ..) => {
                "nothing can be measured here before the problems named above are solved"
            }
            (true, 0, 0) => "this machine can measure",
            (true, 0, _) => "this machine can measure; the notes say what to keep in mind",
            (true, ..) => {
                "this machine can measure, but figures will suffer from the problems named above"
            }
        };
        let counts = format!("{problems} problems, {notes} notes: {conclusion}.");
        text.push('\n');
        text.push_str(&wrap("", &counts));
        text
    }
}

fn line(finding: &Finding) -> String {
    let mark = format!("{:<8} {:<15} ", finding.verdict.word(), finding.what);
    let value = finding.value.as_deref().unwrap_or("not exposed");
    match &finding.advice {
        Some(advice) => wrap(&mark, &format!("{value}: {advice}")),
        None => wrap(&mark, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::WIDTH;

    fn verdict(facts: &Facts, what: &str) -> Verdict {
        let found = Diagnosis::of(facts);
        let finding = found.findings.iter().find(|finding| finding.what == what);
        finding
            .unwrap_or_else(|| panic!("{what}: {found:?}"))
            .verdict
    }

    #[test]
    fn this_machine_is_diagnosed_within_the_width() {
        let diagnosis = Diagnosis::of(&Facts::gather());
        assert!(diagnosis.can_measure, "the tests measure here");
        let text = diagnosis.render();
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        let json = serde_json::to_value(&diagnosis).unwrap();
        assert_eq!(json["can_measure"], true);
        let findings = json["findings"].as_array().unwrap();
        assert!(findings.iter().any(|finding| finding["what"] == "engine"));
    }

    #[test]
    fn where_nothing_is_exposed_nothing_is_claimed() {
        let mut facts = facts::tests::silent();
        let diagnosis = Diagnosis::of(&facts);
        assert!(diagnosis.can_measure, "{diagnosis:?}");
        assert!(diagnosis.render().contains("not exposed"));
        for what in [
            "steal", "pressure", "governor", "io_uring", "ports", "topology",
        ] {
            assert_eq!(verdict(&facts, what), Verdict::Note, "{what}");
        }
        facts.loopback = Err("no sockets here".to_owned());
        let diagnosis = Diagnosis::of(&facts);
        assert!(!diagnosis.can_measure);
        assert!(diagnosis.render().contains("nothing can be measured here"));
    }

    #[test]
    fn each_state_has_its_verdict() {
        let mut facts = facts::tests::silent();
        (facts.steal_share, facts.foreign_share) = (Some(0.2), Some(0.1));
        assert_eq!(verdict(&facts, "steal"), Verdict::Problem);
        assert_eq!(verdict(&facts, "other programs"), Verdict::Note);
        facts.foreign_share = Some(0.01);
        assert_eq!(verdict(&facts, "other programs"), Verdict::Ok);
        facts.host.rmem_max_bytes = Ok(212_992);
        facts.host.wmem_max_bytes = Ok(212_992);
        assert_eq!(verdict(&facts, "UDP buffers"), Verdict::Note);
        facts.host.rmem_max_bytes = Ok(8 << 20);
        assert_eq!(verdict(&facts, "UDP buffers"), Verdict::Ok);
        facts.host.io_uring_disabled = Ok(2);
        assert_eq!(verdict(&facts, "io_uring"), Verdict::Note);
        facts.host.governor = Ok("powersave".to_owned());
        assert_eq!(verdict(&facts, "governor"), Verdict::Note);
        facts.host.governor = Ok("performance".to_owned());
        assert_eq!(verdict(&facts, "governor"), Verdict::Ok);
        facts.drivers = Vec::new();
        assert!(!Diagnosis::of(&facts).can_measure, "no engine at all");
    }
}
