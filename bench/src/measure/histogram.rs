//! Placeholder: the load's histogram arrives here.
