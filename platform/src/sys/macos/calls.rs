//! macOS does not let a process count its system calls.

use std::convert::Infallible;
use std::io;

use crate::{NotExposed, Reading};

/// There is none.
#[derive(Debug)]
pub(crate) struct Counter(Infallible);

impl Counter {
    pub(crate) fn open() -> Reading<Self> {
        Err(NotExposed::new(
            "number of system calls",
            "macOS counts them only under dtrace, which needs root and a relaxed SIP",
        ))
    }

    pub(crate) fn read(&self) -> io::Result<u64> {
        match self.0 {}
    }
}
