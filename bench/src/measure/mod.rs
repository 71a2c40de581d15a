//! From observations to statements: histograms, intervals, verdicts, warnings.

pub(crate) mod histogram;
pub(crate) mod merged;
pub(crate) mod stats;
pub(crate) mod verdict;
pub(crate) mod warning;
