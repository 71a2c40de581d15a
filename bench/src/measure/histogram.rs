//! Durations in a full HdrHistogram: recorded in nanoseconds, three significant digits, up to 60 s.
//!
//! The whole histogram is kept and stored; percentiles are derived from it with one definition, nearest rank, and only where at
//! least [`BEYOND`] observations lie beyond them. Histograms are merged, percentiles are never averaged.

use crate::contract::Percentiles;
use base64::{Engine, prelude::BASE64_STANDARD};
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer, V2Serializer};
use std::fmt;

/// Largest duration told apart; longer ones are recorded as this one.
const LONGEST_NS: u64 = 60_000_000_000;

/// Significant decimal digits.
const DIGITS: u8 = 3;

/// Observations that must lie beyond a percentile for it to be told.
const BEYOND: u64 = 10;

/// Durations of one process or of many merged.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram {
    counts: hdrhistogram::Histogram<u64>,
}

impl Histogram {
    /// An empty one.
    pub(crate) fn new() -> Self {
        Self {
            counts: hdrhistogram::Histogram::new_with_bounds(1, LONGEST_NS, DIGITS)
                .expect("bounds and digits are in the crate's range"),
        }
    }

    /// Records `count` equal durations.
    pub(crate) fn record_n(&mut self, ns: u64, count: u64) {
        self.counts.saturating_record_n(ns, count);
    }

    /// Adds all observations of another.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts
            .add(&other.counts)
            .expect("both have the same bounds");
    }

    /// Number of observations.
    pub(crate) fn count(&self) -> u64 {
        self.counts.len()
    }

    /// Mean, `None` without observations.
    pub(crate) fn mean_ns(&self) -> Option<f64> {
        (!self.counts.is_empty()).then(|| self.counts.mean())
    }

    /// What is told of it.
    pub(crate) fn percentiles(&self) -> Percentiles {
        Percentiles {
            count: self.count(),
            mean: self.mean_ns(),
            p50: self.percentile(50_000),
            p90: self.percentile(90_000),
            p99: self.percentile(99_000),
            p99_9: self.percentile(99_900),
            p99_99: self.percentile(99_990),
            max: (!self.counts.is_empty()).then(|| self.counts.max()),
        }
    }

    /// Nearest rank: the smallest value with at least this share of the observations at or below it, in thousandths of a percent.
    fn percentile(&self, thousandths: u64) -> Option<u64> {
        let count = self.count();
        let rank = (u128::from(count) * u128::from(thousandths)).div_ceil(100_000);
        let rank = u64::try_from(rank).expect("at most the count");
        if count - rank < BEYOND {
            return None;
        }
        let mut seen = 0;
        self.counts.iter_recorded().find_map(|step| {
            seen += step.count_at_value();
            (seen >= rank).then(|| step.value_iterated_to())
        })
    }

    /// The HdrHistogram V2 format, compressed where that is smaller, in base64.
    pub(crate) fn to_base64(&self) -> String {
        let (mut plain, mut deflated) = (Vec::new(), Vec::new());
        V2Serializer::new()
            .serialize(&self.counts, &mut plain)
            .expect("writing to memory");
        V2DeflateSerializer::new()
            .serialize(&self.counts, &mut deflated)
            .expect("writing to memory");
        let smaller = if deflated.len() < plain.len() {
            deflated
        } else {
            plain
        };
        BASE64_STANDARD.encode(smaller)
    }

    /// Reads what [`to_base64`](Self::to_base64) wrote, and any other V2 histogram.
    ///
    /// # Errors
    /// It is no base64, no V2 histogram, or it has values this tool does not record.
    pub(crate) fn from_base64(text: &str) -> Result<Self, DecodeError> {
        let bytes = BASE64_STANDARD
            .decode(text)
            .map_err(|_| DecodeError::Base64)?;
        let read: hdrhistogram::Histogram<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|_| DecodeError::Format)?;
        let mut histogram = Self::new();
        histogram
            .counts
            .add(&read)
            .map_err(|_| DecodeError::Range)?;
        Ok(histogram)
    }
}

/// Why a stored histogram could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// The text is not base64.
    Base64,
    /// The bytes are no HdrHistogram V2.
    Format,
    /// A value is longer than [`LONGEST_NS`].
    Range,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base64 => "the histogram is not base64",
            Self::Format => "the histogram is not in HdrHistogram V2 format",
            Self::Range => "the histogram holds durations over 60 s",
        })
    }
}

impl std::error::Error for DecodeError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|ns| histogram.record_n(ns, 1));
        histogram
    }

    #[test]
    fn a_percentile_needs_ten_observations_beyond_it() {
        let too_few = of(1..=999).percentiles();
        assert_eq!((too_few.p90, too_few.p99), (Some(900), None));
        let enough = of(1..=1_000).percentiles();
        assert_eq!((enough.p99, enough.p99_9), (Some(990), None));
        assert_eq!(of(1..=10_000).percentiles().p99_99, None);
        assert!(of(1..=100_000).percentiles().p99_99.is_some());
    }

    #[test]
    fn percentiles_are_nearest_ranks() {
        let told = of((1..=100).rev()).percentiles();
        assert_eq!(
            (told.p50, told.p90, told.max),
            (Some(50), Some(90), Some(100))
        );
        assert_eq!(of(std::iter::repeat_n(7, 19)).percentiles().p50, None);
        assert_eq!(of(std::iter::repeat_n(7, 20)).percentiles().p50, Some(7));
    }

    #[test]
    fn nothing_is_told_of_nothing_and_the_maximum_of_anything() {
        let none = Histogram::new().percentiles();
        assert_eq!(none, Percentiles::default());
        let one = of([1_234]).percentiles();
        assert_eq!((one.count, one.p50, one.max), (1, None, Some(1_234)));
    }

    #[test]
    fn three_digits_hold_and_over_a_minute_saturates() {
        let second = of([1_000_000_000]).percentiles().max.unwrap();
        assert!((1_000_000_000..1_001_000_000).contains(&second));
        let long = of([u64::MAX]).percentiles().max.unwrap();
        assert!((LONGEST_NS..LONGEST_NS / 1000 * 1001).contains(&long));
    }

    #[test]
    fn base64_keeps_every_count() {
        for values in [vec![], vec![0, 5], (1..5_000).map(|i| i * i * 37).collect()] {
            let histogram = of(values);
            let read = Histogram::from_base64(&histogram.to_base64()).unwrap();
            assert_eq!(read, histogram);
            assert_eq!(read.percentiles(), histogram.percentiles());
        }
    }

    #[test]
    fn both_forms_of_v2_are_read() {
        let histogram = of([3, 44, 555, 6_666]);
        let mut plain = Vec::new();
        V2Serializer::new()
            .serialize(&histogram.counts, &mut plain)
            .unwrap();
        assert_eq!(plain[..4], [0x1c, 0x84, 0x93, 0x13], "the V2 cookie");
        let read = Histogram::from_base64(&BASE64_STANDARD.encode(plain));
        assert_eq!(read, Ok(histogram));
    }

    #[test]
    fn what_is_no_histogram_is_refused() {
        assert_eq!(Histogram::from_base64("?"), Err(DecodeError::Base64));
        assert_eq!(Histogram::from_base64("AAAA"), Err(DecodeError::Format));
    }

    #[test]
    fn merging_adds() {
        let mut all = of(1..=500);
        all.merge(&of(501..=1_000));
        assert_eq!(all, of(1..=1_000));
    }
}
