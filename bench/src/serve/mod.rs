//! Placeholder: the servers arrive here.
