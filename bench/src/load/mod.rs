//! Placeholder: the load generator arrives here.
