//! What tells whether a promise held: each is used by several scenarios.

pub(crate) mod descriptors;
pub(crate) mod progress;
pub(crate) mod resident;
pub(crate) mod seeded;
pub(crate) mod ticker;
