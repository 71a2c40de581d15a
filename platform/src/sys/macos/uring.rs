//! There is no io_uring on macOS.

use crate::uring::{RefusalCause, RingFacts, RingOptions, RingRefused};

pub(crate) fn probe(_options: &RingOptions) -> Result<RingFacts, RingRefused> {
    Err(RefusalCause::NotLinux.into())
}
