//! Reproducible content (splitmix64): what is sent, and what must come back.

/// A stream of numbers and bytes that a seed determines.
#[derive(Clone, Debug)]
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(crate) fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number, below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// The next count, below `bound`.
    pub(crate) fn count_below(&mut self, bound: usize) -> usize {
        usize::try_from(self.below(bound as u64)).unwrap_or_default()
    }

    /// Fills `piece` with the next bytes. Both ends take pieces of the same length, or the streams part.
    pub(crate) fn fill(&mut self, piece: &mut [u8]) {
        for chunk in piece.chunks_mut(8) {
            let bytes = self.number().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
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
