//! Protocol machines without I/O.
