//! Percentiles over all repetitions of a cell: their histograms merged, and the medians of the per-repetition percentiles.
//! Never an average of percentiles.

use crate::contract::{LoadReport, Percentiles};
use crate::measure::histogram::Histogram;
use crate::measure::stats;
use serde::{Deserialize, Serialize};

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
            merged: merge(reports).map(|histogram| histogram.percentiles()),
            median_of_runs: median_of_runs(&runs),
        }
    }
}

fn merge(reports: &[&LoadReport]) -> Option<Histogram> {
    let parts = reports
        .iter()
        .map(|report| Histogram::from_base64(report.histogram_v2.as_deref()?).ok());
    let parts: Option<Vec<Histogram>> = parts.collect();
    parts?.into_iter().reduce(|mut total, part| {
        total.merge(&part);
        total
    })
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
    use crate::campaign::tests::good;
    use crate::case::tests::cell;
    use crate::contract::Model;
    use crate::repetition::{Job, LossRule, Pass, Timing, Verify};

    fn report(values: impl IntoIterator<Item = u64>) -> LoadReport {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|ns| histogram.record_n(ns, 1));
        let timing = Timing {
            warmup: std::time::Duration::ZERO,
            window: std::time::Duration::from_secs(1),
        };
        let cell = cell(Model::Pool, 2);
        let job = Job {
            cell: &cell,
            timing,
            verify: Verify::Full,
            losses: LossRule::default(),
            pass: Pass::Timed,
        };
        let report = good(&job, 1.0, 1.0).load.unwrap();
        LoadReport {
            rtt_service_ns: histogram.percentiles(),
            histogram_v2: Some(histogram.to_base64()),
            ..report
        }
    }

    #[test]
    fn histograms_are_merged_and_percentiles_are_not_averaged() {
        let (low, high) = (report(1..=1000), report(1001..=3000));
        let times = RoundTripTimes::of(&[&low, &high]);
        let merged = times.merged.unwrap();
        assert_eq!((merged.count, merged.p50), (3000, Some(1500)));
        assert_eq!(times.median_of_runs.p50, Some(1250), "of 500 and 2000");
        let without = LoadReport {
            histogram_v2: None,
            ..report(1..=1000)
        };
        assert_eq!(
            RoundTripTimes::of(&[&low, &without]).merged,
            None,
            "a part would not be the whole"
        );
        assert_eq!(RoundTripTimes::of(&[]).merged, None);
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
