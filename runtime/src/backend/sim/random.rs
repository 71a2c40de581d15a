//! Numbers drawn from a seed: the same on every machine.

/// A generator (splitmix64; Steele, Lea and Flood, 2014).
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    /// A generator of its own for another purpose, so that more draws for one do not change the other.
    pub(super) fn split(&mut self) -> Self {
        Self::new(self.next())
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, or 0 if that is 0. The bias of the division is of no account here.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// A number from 1 to `most`, which is at least 1: often the most, now and then one, else any.
    pub(super) fn portion(&mut self, most: usize) -> usize {
        match self.below(8) {
            0..4 => most,
            4 => 1,
            _ => 1 + self.index(most),
        }
    }

    /// An index below `len`.
    pub(super) fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a length")
    }

    /// True in `share` of all cases, 0 to 1. Draws nothing if that is 0.
    pub(super) fn chance(&mut self, share: f64) -> bool {
        const BITS: u32 = 53;
        share > 0.0 && ((self.next() >> (64 - BITS)) as f64) < share * (1_u64 << BITS) as f64
    }
}

/// A number that looks like none of its neighbours'.
pub(super) fn mix(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_gives_the_same_numbers_and_another_gives_others() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            [(); 8].map(|()| random.next())
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let mut random = Random::new(1);
        assert_ne!(random.split().next(), random.next());
    }

    #[test]
    fn shares_and_portions_are_about_what_was_asked_for() {
        let mut random = Random::new(3);
        let hits = (0..10_000).filter(|_| random.chance(0.25)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        assert!(!random.chance(0.0) && random.chance(1.0));
        let portions: Vec<_> = (0..1_000).map(|_| random.portion(100)).collect();
        assert!(portions.iter().all(|portion| (1..=100).contains(portion)));
        assert!(portions.contains(&1) && portions.contains(&100) && portions.contains(&50));
        assert_eq!(random.portion(1), 1);
    }
}
