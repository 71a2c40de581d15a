//! Received datagrams.

use std::{fmt, net::SocketAddr, slice::ChunksExactMut};

/// Received datagrams.
pub struct Batch {
    /// A piece of equal size for each.
    memory: Vec<u8>,
    piece_bytes: usize,
    slots: Vec<Slot>,
}

/// What is known of one received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) from: SocketAddr,
    /// Bytes that were kept.
    pub(crate) bytes: usize,
    pub(crate) truncated: bool,
}

impl Batch {
    /// Room for `datagrams` of at most `bytes` each, both at least 1. Memory that no datagram has reached yet is not resident, so
    /// `Batch::new(32, LARGEST_BYTES)` is not as much as it looks.
    #[must_use]
    pub fn new(datagrams: usize, bytes: usize) -> Self {
        let (datagrams, piece_bytes) = (datagrams.max(1), bytes.max(1));
        Self {
            memory: vec![0; datagrams * piece_bytes],
            piece_bytes,
            slots: Vec::with_capacity(datagrams),
        }
    }

    /// How many datagrams there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.memory.len() / self.piece_bytes
    }

    /// The largest datagram that is kept whole, in bytes.
    #[must_use]
    pub fn piece_bytes(&self) -> usize {
        self.piece_bytes
    }

    /// How many datagrams were received.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.slots.clear();
    }

    /// The datagrams, in the order in which they came. They may be changed in place.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = Received<'_>> {
        let pieces = self.memory.chunks_exact_mut(self.piece_bytes);
        self.slots.iter().zip(pieces).map(|(slot, piece)| Received {
            from: slot.from,
            bytes: &mut piece[..slot.bytes],
            truncated: slot.truncated,
        })
    }

    /// Adds a datagram, cut to the size of a piece; for those who implement [`Datagram`](crate::Datagram). False if there is no room.
    pub fn push(&mut self, from: SocketAddr, bytes: &[u8]) -> bool {
        let at = self.slots.len();
        if at == self.capacity() {
            return false;
        }
        let kept = bytes.len().min(self.piece_bytes);
        let start = at * self.piece_bytes;
        self.memory[start..start + kept].copy_from_slice(&bytes[..kept]);
        self.slots.push(Slot {
            from,
            bytes: kept,
            truncated: kept < bytes.len(),
        });
        true
    }

    /// Forgets what it held, lends its pieces to `receive`, and notes what that says of the first of them: the sender, the bytes, and
    /// whether the end is missing. For those who implement [`Datagram`](crate::Datagram) over calls that fill many pieces at once.
    ///
    /// # Errors
    /// Those of `receive`; the batch is empty then.
    pub fn fill<I, E>(
        &mut self,
        receive: impl FnOnce(ChunksExactMut<'_, u8>) -> Result<I, E>,
    ) -> Result<(), E>
    where
        I: IntoIterator<Item = (SocketAddr, usize, bool)>,
    {
        self.slots.clear();
        let (capacity, piece_bytes) = (self.capacity(), self.piece_bytes);
        let came = receive(self.memory.chunks_exact_mut(piece_bytes))?;
        let slot = |(from, bytes, truncated): (SocketAddr, usize, bool)| Slot {
            from,
            bytes: bytes.min(piece_bytes),
            truncated,
        };
        self.slots.extend(came.into_iter().take(capacity).map(slot));
        Ok(())
    }

    /// The free pieces, in their order, and where to note what has come into them.
    pub(crate) fn parts(&mut self) -> (impl Iterator<Item = &mut [u8]>, &mut Vec<Slot>) {
        let start = self.slots.len() * self.piece_bytes;
        let free = self.memory[start..].chunks_exact_mut(self.piece_bytes);
        (free, &mut self.slots)
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("len", &self.len())
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

/// A received datagram.
#[derive(Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Who sent it, or says so: UDP does not prove it.
    pub from: SocketAddr,
    /// What it says; may be empty.
    pub bytes: &'a mut [u8],
    /// It was longer than there was room for, and its end is lost.
    pub truncated: bool,
}

#[cfg(test)]
mod tests {
    use super::Batch;
    use std::net::SocketAddr;

    fn peer(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    #[test]
    fn a_batch_keeps_what_fits_and_says_what_it_cut() {
        let mut batch = Batch::new(3, 4);
        assert!(batch.push(peer(1), b"abc"));
        assert!(batch.push(peer(2), b""));
        assert!(batch.push(peer(3), b"abcde"));
        assert!(!batch.push(peer(4), b"x"), "it is full");
        let seen: Vec<_> = batch
            .iter_mut()
            .map(|datagram| {
                (
                    datagram.from.port(),
                    datagram.bytes.to_vec(),
                    datagram.truncated,
                )
            })
            .collect();
        let expected = [
            (1, b"abc".to_vec(), false),
            (2, Vec::new(), false),
            (3, b"abcd".to_vec(), true),
        ];
        assert_eq!(seen, expected);
        batch.clear();
        assert!(batch.is_empty() && batch.push(peer(1), b"x"));
    }

    #[test]
    fn pieces_can_be_filled_in_place() {
        let mut batch = Batch::new(2, 4);
        assert!(batch.push(peer(9), b"gone"));
        let filled = batch.fill(|pieces| {
            let came = pieces.zip(0_u16..).map(|(piece, number)| {
                piece.fill(7);
                (peer(number), usize::from(number), number == 1)
            });
            Ok::<_, ()>(came.collect::<Vec<_>>())
        });
        assert_eq!(filled, Ok(()));
        let seen: Vec<_> = batch
            .iter_mut()
            .map(|d| (d.from, d.bytes.to_vec()))
            .collect();
        assert_eq!(seen, [(peer(0), vec![]), (peer(1), vec![7])]);
        assert_eq!(batch.fill(|_| Err::<Vec<_>, _>("broken")), Err("broken"));
        assert!(batch.is_empty());
    }
}
