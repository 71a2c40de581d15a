//! How the tool ends: its exit codes, and the refusals that carry one before anything has run.

use crate::host::Signal;
use std::fmt;
use std::process::ExitCode;

/// Exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: everything asked for was measured and is valid.
    Success,
    /// 1: at least one cell failed; the others are valid.
    Failed,
    /// 2: usage error, debug build, unsupported combination; nothing ran.
    Usage,
    /// 4: the surroundings do not allow it (folder not writable, port in use); nothing ran.
    Surroundings,
    /// 6: a check of the tool on itself failed, for example a child that measured other parameters.
    SelfCheck,
    /// 130 or 143: interrupted; the partial result is valid.
    Interrupted(Signal),
}

impl Exit {
    /// Where several apply, the one to end with.
    pub(crate) fn gravest(exits: impl IntoIterator<Item = Exit>) -> Exit {
        exits
            .into_iter()
            .max_by_key(|exit| exit.gravity())
            .unwrap_or(Exit::Success)
    }

    /// An interruption outweighs a failed self-check, and so on down; not the order of the numbers.
    fn gravity(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Surroundings => 3,
            Exit::SelfCheck => 4,
            Exit::Interrupted(_) => 5,
        }
    }

    /// The number the shell sees.
    pub(crate) fn code(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Surroundings => 4,
            Exit::SelfCheck => 6,
            Exit::Interrupted(signal) => signal.exit_code(),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Why nothing ran: what happened, why it matters, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Stable name for scripts, for example `E-CAP`.
    pub(crate) id: &'static str,
    /// How the tool ends.
    pub(crate) exit: Exit,
    /// What happened and why it matters.
    pub(crate) what: String,
    /// What to do about it.
    pub(crate) remedy: String,
}

impl Refusal {
    /// A wrong request: exit 2.
    pub(crate) fn usage(
        id: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Refusal {
            id,
            exit: Exit::Usage,
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// The request is fine but this place is not: exit 4.
    pub(crate) fn surroundings(
        id: &'static str,
        what: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Refusal {
            id,
            exit: Exit::Surroundings,
            what: what.into(),
            remedy: remedy.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}\n  {}", self.id, self.what, self.remedy)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worse_exit_wins() {
        let gravest = |exits: &[Exit]| Exit::gravest(exits.iter().copied()).code();
        assert_eq!(gravest(&[]), 0);
        assert_eq!(gravest(&[Exit::SelfCheck, Exit::Failed]), 6);
        assert_eq!(
            gravest(&[Exit::Interrupted(Signal::Interrupt), Exit::SelfCheck]),
            130
        );
        assert_eq!(Exit::Interrupted(Signal::Terminate).code(), 143);
    }

    #[test]
    fn a_refusal_tells_id_reason_and_remedy() {
        let refusal = Refusal::usage("E-CAP", "too much.", "take less.");
        assert_eq!(refusal.to_string(), "error[E-CAP]: too much.\n  take less.");
    }
}
