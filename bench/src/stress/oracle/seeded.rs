//! Reproducible content: what is sent, and what must come back.

/// A stream of numbers and bytes that a seed determines.
#[derive(Clone, Debug)]
pub(crate) struct Seeded(fastrand::Rng);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    /// The next number, below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.u64(..bound)
    }

    /// The next count, below `bound`.
    pub(crate) fn count_below(&mut self, bound: usize) -> usize {
        self.0.usize(..bound)
    }

    /// Fills `piece` with the next bytes. Both ends take pieces of the same length, or the streams part.
    pub(crate) fn fill(&mut self, piece: &mut [u8]) {
        self.0.fill(piece);
    }

    /// The next `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.fill(&mut bytes);
        bytes
    }
}

/// Compares what comes with what was sent.
#[derive(Debug)]
pub(crate) struct Verifier {
    expected: Seeded,
    /// Bytes that were right.
    pub(crate) bytes: u64,
}

impl Verifier {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            expected: Seeded::new(seed),
            bytes: 0,
        }
    }

    /// Where `piece` differs first, counted from the start of the stream.
    pub(crate) fn check(&mut self, piece: &[u8]) -> Result<(), u64> {
        let expected = self.expected.bytes(piece.len());
        let same = piece.iter().zip(&expected).take_while(|(a, b)| a == b);
        let same = same.count() as u64;
        self.bytes += same;
        if same == piece.len() as u64 {
            Ok(())
        } else {
            Err(self.bytes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Seeded, Verifier};

    #[test]
    fn one_changed_byte_is_found_where_it_is() {
        let mut seeded = Seeded::new(3);
        let (first, mut second) = (seeded.bytes(64), seeded.bytes(64));
        let mut verifier = Verifier::new(3);
        assert_eq!(verifier.check(&first), Ok(()));
        second[5] ^= 1;
        assert_eq!(verifier.check(&second), Err(69));
    }
}
