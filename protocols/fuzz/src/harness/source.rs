//! Decisions out of a fuzzer's bytes, and cuts out of a seed.

/// Bytes that decide something, read from the front; once they are used up every decision is 0.
pub(crate) struct Source<'d>(&'d [u8]);

impl<'d> Source<'d> {
    pub(crate) fn new(data: &'d [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let wide = match bound {
            ..=256 => usize::from(self.byte()),
            _ => usize::from(self.byte()) << 8 | usize::from(self.byte()),
        };
        wide % bound
    }

    /// Up to `most` bytes, as many as the next ones say and are there.
    pub(crate) fn bytes(&mut self, most: usize) -> &'d [u8] {
        let count = self.below(most + 1).min(self.0.len());
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    pub(crate) fn rest(self) -> &'d [u8] {
        self.0
    }
}

/// How an input reaches a machine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cuts {
    Whole,
    ByteByByte,
    /// Pieces of lengths that a seed decides.
    Seeded(u64),
}

impl Cuts {
    /// As all ways of feeding the same bytes that are tried with one input.
    pub(crate) fn all(seed: u8, bytes: usize) -> impl Iterator<Item = Self> {
        /// Beyond it a byte at a time takes too long: each call may look at all that is pending.
        const BYTE_BY_BYTE_MOST: usize = 2048;
        let every_byte = (bytes <= BYTE_BY_BYTE_MOST).then_some(Self::ByteByByte);
        let seeds = [u64::from(seed), u64::from(seed) + 256];
        every_byte
            .into_iter()
            .chain(seeds.into_iter().map(Self::Seeded))
    }

    pub(crate) fn pieces(self, mut input: &[u8]) -> Vec<&[u8]> {
        let mut state = match self {
            Self::Whole => return vec![input],
            Self::ByteByByte => return input.chunks(1).collect(),
            Self::Seeded(seed) => seed,
        };
        let mut pieces = Vec::new();
        while !input.is_empty() {
            let most = [2, 12, 300, 5000][below(&mut state, 4)];
            let (piece, rest) = input.split_at(1 + below(&mut state, most.min(input.len())));
            pieces.push(piece);
            input = rest;
        }
        pieces
    }
}

/// The next number of a row (SplitMix64, Steele and others 2014), below `bound`.
fn below(state: &mut u64, bound: usize) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    let wide = u128::from(mixed) * bound as u128;
    usize::try_from(wide >> 64).expect("it is below the bound")
}
