//! Placeholder: the shared pool arrives here.
