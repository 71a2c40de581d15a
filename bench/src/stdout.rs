//! Standard output that may go away: after `bench list | head` there is nobody left to print to, and that is no fault.

use std::io::Write;

/// Prints text to standard output.
pub(crate) fn put(text: &str) {
    put_to(&mut std::io::stdout().lock(), text);
}

/// Prints text to standard error.
pub(crate) fn put_error(text: &str) {
    put_to(&mut std::io::stderr().lock(), text);
}

/// Prints text to a stream of the caller's.
pub(crate) fn put_to(stream: &mut dyn Write, text: &str) {
    let _ = stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.flush());
}
