//! Facts about the host and knobs on it.
