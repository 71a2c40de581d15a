//! Percentiles over all repetitions of a cell: their histograms merged, and the medians of the per-repetition percentiles.
//! Never an average of percentiles.

use crate::contract::{LoadReport, Percentiles};
use crate::measure::stats;
use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use serde::{Deserialize, Serialize};

/// A percentile needs this many observations beyond it.
const BEYOND_MIN: u64 = 10;

/// Both summaries of the time a round trip took, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoundTripTimes {
    /// Of the merged histograms; `null` unless every repetition brought one.
    pub(crate) merged: Option<Percentiles>,
    /// Median over repetitions of each percentile; `null` where a repetition had too few observations.
    pub(crate) median_of_runs: Percentiles,
}

impl RoundTripTimes {
    /// Over the reports of one cell.
    pub(crate) fn of(reports: &[&LoadReport]) -> Self {
        let runs: Vec<&Percentiles> = reports
            .iter()
            .map(|report| &report.rtt_service_ns)
            .collect();
        RoundTripTimes {
            merged: merge(reports).map(|histogram| percentiles(&histogram)),
            median_of_runs: median_of_runs(&runs),
        }
    }
}

/// The text of a histogram, HdrHistogram V2 in base64, read back.
pub(crate) fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(text)
        .ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}

fn merge(reports: &[&LoadReport]) -> Option<Histogram<u64>> {
    let mut parts = reports
        .iter()
        .map(|report| decode(report.histogram_v2.as_deref()?));
    let mut total = parts.next()??;
    // The others may reach further.
    total.auto(true);
    for part in parts {
        total.add(part?).ok()?;
    }
    Some(total)
}

fn percentiles(histogram: &Histogram<u64>) -> Percentiles {
    let count = histogram.len();
    let at = |per_ten_thousand: u64| {
        let beyond = u128::from(count) * u128::from(10_000 - per_ten_thousand) / 10_000;
        (beyond >= u128::from(BEYOND_MIN))
            .then(|| histogram.value_at_quantile(per_ten_thousand as f64 / 10_000.0))
    };
    Percentiles {
        count,
        mean: (count > 0).then(|| histogram.mean()),
        p50: at(5_000),
        p90: at(9_000),
        p99: at(9_900),
        p99_9: at(9_990),
        p99_99: at(9_999),
        max: (count > 0).then(|| histogram.max()),
    }
}

fn median_of_runs(runs: &[&Percentiles]) -> Percentiles {
    let over = |pick: fn(&Percentiles) -> Option<f64>| {
        let values: Option<Vec<f64>> = runs.iter().map(|run| pick(run)).collect();
        stats::median(&values?)
    };
    // Nanoseconds of a round trip are far below 2^53, so the way through f64 is exact to half a nanosecond.
    let whole = |pick: fn(&Percentiles) -> Option<f64>| over(pick).and_then(whole_ns);
    Percentiles {
        count: runs.iter().map(|run| run.count).sum(),
        mean: over(|run| run.mean),
        p50: whole(|run| run.p50.map(|ns| ns as f64)),
        p90: whole(|run| run.p90.map(|ns| ns as f64)),
        p99: whole(|run| run.p99.map(|ns| ns as f64)),
        p99_9: whole(|run| run.p99_9.map(|ns| ns as f64)),
        p99_99: whole(|run| run.p99_99.map(|ns| ns as f64)),
        max: whole(|run| run.max.map(|ns| ns as f64)),
    }
}

fn whole_ns(ns: f64) -> Option<u64> {
    u64::try_from(
        std::time::Duration::try_from_secs_f64(ns / 1e9)
            .ok()?
            .as_nanos(),
    )
    .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::serialization::{Serializer as _, V2DeflateSerializer, V2Serializer};

    fn filled(values: impl Iterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap();
        values.for_each(|value| histogram.record(value).unwrap());
        histogram
    }

    #[test]
    fn both_encodings_are_read_back() {
        let histogram = filled((1..=2000).map(|i| i * 1000));
        let (mut plain, mut deflated) = (Vec::new(), Vec::new());
        V2Serializer::new()
            .serialize(&histogram, &mut plain)
            .unwrap();
        V2DeflateSerializer::new()
            .serialize(&histogram, &mut deflated)
            .unwrap();
        for bytes in [plain, deflated] {
            let text = base64::engine::general_purpose::STANDARD.encode(bytes);
            assert_eq!(decode(&text).unwrap(), histogram);
        }
        assert!(decode("not a histogram").is_none());
    }

    #[test]
    fn a_percentile_needs_ten_observations_beyond_it() {
        assert_eq!(percentiles(&filled(1..=999)).p99, None);
        assert_eq!(percentiles(&filled(1..=1000)).p99, Some(990));
        assert_eq!(percentiles(&filled(1..=1000)).p99_9, None);
        assert_eq!(percentiles(&filled(1..=19)).p50, None);
        assert_eq!(percentiles(&filled(1..=19)).max, Some(19));
        assert_eq!(percentiles(&filled(0..0)).max, None);
    }

    #[test]
    fn medians_of_runs_are_not_invented() {
        let run = |p99: Option<u64>| Percentiles {
            count: 1000,
            p50: Some(10),
            p99,
            ..Percentiles::default()
        };
        let (a, b, c) = (run(Some(30)), run(Some(20)), run(Some(90)));
        assert_eq!(median_of_runs(&[&a, &b, &c]).p99, Some(30));
        assert_eq!(median_of_runs(&[&a, &run(None)]).p99, None);
        assert_eq!(median_of_runs(&[&a, &run(None)]).p50, Some(10));
    }
}
