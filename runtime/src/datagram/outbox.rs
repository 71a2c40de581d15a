//! Datagrams to be sent.

use std::{error::Error, fmt, io, net::SocketAddr, ops::Range};

/// Datagrams to be sent, in their order.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// Where each goes, and where in `bytes` it ends.
    ends: Vec<(SocketAddr, usize)>,
    /// How many of them were sent.
    sent: usize,
}

impl Outbox {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a datagram; it may be empty.
    pub fn push(&mut self, to: SocketAddr, bytes: &[u8]) {
        self.write(to, |out| out.extend_from_slice(bytes));
    }

    /// Adds a datagram of what `write` appends.
    pub fn write<R>(&mut self, to: SocketAddr, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        if self.is_empty() {
            self.clear();
        }
        let result = write(&mut self.bytes);
        self.ends.push((to, self.bytes.len()));
        result
    }

    /// Adds what `write` appends as a datagram to wherever it says, or nothing if it says nothing. False then.
    pub fn write_if(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Option<SocketAddr>) -> bool {
        if self.is_empty() {
            self.clear();
        }
        let before = self.bytes.len();
        match write(&mut self.bytes) {
            Some(to) => {
                self.ends.push((to, self.bytes.len()));
                true
            }
            None => {
                self.bytes.truncate(before);
                false
            }
        }
    }

    /// How many datagrams are still to be sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len() - self.sent
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of what is still to be sent.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.bytes.len() - self.start()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.sent = 0;
    }

    /// What is still to be sent, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (SocketAddr, &[u8])> {
        (self.sent..self.ends.len()).map(|at| (self.ends[at].0, &self.bytes[self.range(at)]))
    }

    /// The first `count` are out of the way; for those who implement [`Datagram`](crate::Datagram).
    pub fn advance(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.ends.len());
    }

    /// Takes out the first, which could not be sent for this reason.
    pub(crate) fn fail(&mut self, error: io::Error) -> SendError {
        let to = self
            .iter()
            .next()
            .map_or(SocketAddr::from(([0, 0, 0, 0], 0)), |(to, _)| to);
        self.advance(1);
        SendError { to, error }
    }

    fn start(&self) -> usize {
        match self.sent {
            0 => 0,
            sent => self.ends[sent - 1].1,
        }
    }

    fn range(&self, at: usize) -> Range<usize> {
        let start = if at == 0 { 0 } else { self.ends[at - 1].1 };
        start..self.ends[at].1
    }
}

/// A datagram could not be sent. It was taken out of the outbox; what stood behind it is still there.
#[derive(Debug)]
pub struct SendError {
    /// Where it was to go.
    pub to: SocketAddr,
    /// Why.
    pub error: io::Error,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no datagram could be sent to {}: {}",
            self.to, self.error
        )
    }
}

impl Error for SendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.error)
    }
}

impl From<SendError> for io::Error {
    fn from(failed: SendError) -> Self {
        Self::new(failed.error.kind(), failed)
    }
}

#[cfg(test)]
mod tests {
    use super::Outbox;
    use std::net::SocketAddr;

    fn peer(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn an_outbox_gives_its_datagrams_in_order_and_forgets_those_that_are_sent() {
        let mut outbox = Outbox::new();
        outbox.push(peer(1), b"one");
        outbox.push(peer(2), b"");
        assert!(!outbox.write_if(|out| {
            out.push(9);
            None
        }));
        outbox.write(peer(3), |out| out.extend_from_slice(b"three"));
        assert_eq!((outbox.len(), outbox.len_bytes()), (3, 8));
        outbox.advance(1);
        let left: Vec<_> = outbox.iter().collect();
        assert_eq!(left, [(peer(2), &b""[..]), (peer(3), &b"three"[..])]);
        assert_eq!(outbox.len_bytes(), 5);
        outbox.advance(2);
        assert!(outbox.is_empty());
        outbox.push(peer(4), b"four");
        assert_eq!(outbox.iter().collect::<Vec<_>>(), [(peer(4), &b"four"[..])]);
    }
}
