//! There is no io_uring on macOS.

use crate::uring::{RefusalCause, RingFacts, RingOptions, RingRefused};

pub(crate) fn probe(_options: &RingOptions) -> Result<RingFacts, RingRefused> {
    Err(RefusalCause::NotLinux.into())
}

pub(crate) fn explain(_options: &RingOptions, _error: &std::io::Error) -> RingRefused {
    RefusalCause::NotLinux.into()
}

#[cfg(feature = "refusals")]
pub(crate) fn refuse(_what: crate::uring::Refusal) -> crate::Reading<()> {
    Err(crate::NotExposed::new(
        "seccomp filter",
        "only Linux has it",
    ))
}
