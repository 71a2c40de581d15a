//! What a counter of the kernel gained between two readings, when it may have wrapped or begun anew.

/// What was added from `earlier` to `later`; `None` where that cannot be told.
///
/// Counters only grow, so a smaller number means one of two things. Either the counter has 32 bits (those of
/// macOS, and the `unsigned long` of 32-bit Linux kernels) and went around: that is believed when it was in the
/// last quarter of its range and now is in the first. Or it began anew (another network namespace, a host that
/// has booted in between): then nobody knows how far it had come before, and neither zero nor the number it now
/// has would be true. A counter of 64 bits does not go around within anybody's lifetime.
#[must_use]
pub fn added(later: u64, earlier: u64) -> Option<u64> {
    if later >= earlier {
        return Some(later - earlier);
    }
    let (Ok(later), Ok(earlier)) = (u32::try_from(later), u32::try_from(earlier)) else {
        return None;
    };
    let went_around = earlier >= LAST_QUARTER && later <= FIRST_QUARTER;
    went_around.then(|| later.wrapping_sub(earlier).into())
}

const FIRST_QUARTER: u32 = u32::MAX / 4;
const LAST_QUARTER: u32 = u32::MAX - FIRST_QUARTER;

/// The same for two readings of which either may be missing.
pub(crate) fn added_where_known(later: Option<u64>, earlier: Option<u64>) -> Option<u64> {
    added(later?, earlier?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_grows_is_subtracted() {
        assert_eq!(added(5, 5), Some(0));
        assert_eq!(added(u64::MAX, 1), Some(u64::MAX - 1));
        assert_eq!(
            added(1 << 40, u32::MAX.into()),
            Some((1 << 40) - u64::from(u32::MAX))
        );
    }

    #[test]
    fn thirty_two_bits_go_around() {
        let top = u64::from(u32::MAX);
        assert_eq!(added(0, top), Some(1));
        assert_eq!(added(10, top - 4), Some(15));
        assert_eq!(
            added(u64::from(FIRST_QUARTER), u64::from(LAST_QUARTER)),
            Some((1 << 31) - 1)
        );
    }

    #[test]
    fn a_counter_that_began_anew_tells_nothing() {
        assert_eq!(added(0, 1), None);
        assert_eq!(added(10, 1_000_000), None);
        assert_eq!(added(1 << 31, u32::MAX.into()), None);
        assert_eq!(added(10, 1 << 40), None);
        assert_eq!(added(u64::MAX - 1, u64::MAX), None);
        assert_eq!(added_where_known(Some(3), None), None);
        assert_eq!(added_where_known(Some(3), Some(1)), Some(2));
    }
}
