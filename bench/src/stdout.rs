//! Standard output that may go away: after `bench list | head` there is nobody left to print to, and that is no fault.

use std::io::{ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

/// Something that was to be printed could not be, and not because its reader had seen enough.
static LOST: AtomicBool = AtomicBool::new(false);

/// Whether output was lost: a full disk behind a redirection, a closed descriptor.
pub(crate) fn lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

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
    let printed = stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.flush());
    if printed.is_err_and(|error| error.kind() != ErrorKind::BrokenPipe) {
        LOST.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{lost, put_to};
    use std::io::{Error, ErrorKind, Result, Write};

    struct Refuses(ErrorKind);

    impl Write for Refuses {
        fn write(&mut self, _: &[u8]) -> Result<usize> {
            Err(Error::from(self.0))
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_went_away_is_no_loss_and_a_full_disk_is() {
        put_to(&mut Refuses(ErrorKind::BrokenPipe), "text");
        assert!(!lost());
        put_to(&mut Refuses(ErrorKind::StorageFull), "text");
        assert!(lost());
    }
}
