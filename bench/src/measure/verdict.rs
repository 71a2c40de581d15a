//! The words a comparison may use, and the rule that chooses them.
//!
//! A difference is named only if the interval of the per-round ratios excludes 1 *and* their median lies beyond the threshold,
//! which is the larger of `--noise-threshold` and what the A/A control shows.

use crate::measure::stats::{self, Summary};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An interval wider than this on each side tells nothing; a control wider than this ranks nothing.
pub(crate) const TOO_WIDE: f64 = 0.10;

/// Below this number of pairs nothing is said.
pub(crate) const PAIRS_MIN: usize = 3;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Metric {
    /// Higher is better.
    RoundTripsPerS,
    /// Lower is better.
    ServerCpuNsPerRt,
}

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Verdict {
    /// More round trips per second.
    #[serde(rename = "faster")]
    Faster,
    /// Fewer round trips per second.
    #[serde(rename = "slower")]
    Slower,
    /// Less CPU per round trip.
    #[serde(rename = "less CPU")]
    LessCpu,
    /// More CPU per round trip.
    #[serde(rename = "more CPU")]
    MoreCpu,
    /// The whole interval lies within the threshold.
    #[serde(rename = "equal within t")]
    Equal,
    /// Neither of the above.
    #[serde(rename = "no difference detected")]
    NoDifference,
    /// The interval is too wide, or the control failed.
    #[serde(rename = "too noisy")]
    TooNoisy,
    /// A repetition of one of the two failed.
    #[serde(rename = "failed")]
    Failed,
    /// A figure is missing.
    #[serde(rename = "not comparable")]
    NotComparable,
}

/// One comparison over the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Judged {
    /// The ratios; `null` if there were too few.
    pub(crate) ratio: Option<Summary>,
    /// The word for them.
    pub(crate) verdict: Verdict,
    /// Smallest relative difference that these rounds could have shown.
    pub(crate) could_have_seen: Option<f64>,
}

/// What the A/A control allows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Floor {
    /// The threshold t.
    pub(crate) threshold: f64,
    /// No verdict is given: the control shows a difference between equals, scatters too much, or was not measured.
    pub(crate) control_failed: bool,
    /// Which of these.
    #[serde(default)]
    pub(crate) control: Control,
}

/// What became of the A/A control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Control {
    /// Left out, as asked for: only the threshold counts.
    #[default]
    LeftOut,
    /// It shows the noise floor.
    Good,
    /// It shows a difference between equals, or scatters too much.
    Differs,
    /// It failed or has too few figures, so that no noise floor is known.
    Missing,
}

impl Floor {
    /// Nobody wanted a control; only the threshold asked for is known.
    pub(crate) fn without_control(threshold: f64) -> Self {
        Floor::new(threshold, Control::LeftOut)
    }

    /// A control was wanted and failed.
    pub(crate) fn of_failed_control(threshold: f64) -> Self {
        Floor::new(threshold, Control::Missing)
    }

    fn new(threshold: f64, control: Control) -> Self {
        Floor {
            threshold,
            control_failed: matches!(control, Control::Differs | Control::Missing),
            control,
        }
    }

    /// From the ratios of the control to its twin.
    pub(crate) fn of_control(metric: Metric, ratios: &[f64], threshold: f64) -> Self {
        let Some(control) = Summary::of(ratios).filter(|control| control.n >= PAIRS_MIN) else {
            return Floor::of_failed_control(threshold);
        };
        let floor = Floor::new(threshold.max(control.half_range()), Control::Good);
        let differs = floor.decided(metric, &control).is_some();
        if differs || control.half_range() > TOO_WIDE {
            Floor::new(floor.threshold, Control::Differs)
        } else {
            floor
        }
    }

    /// The verdict on these per-round ratios.
    pub(crate) fn judge(&self, metric: Metric, ratios: &[f64]) -> Judged {
        match Summary::of(ratios).filter(|ratio| ratio.n >= PAIRS_MIN) {
            None => Judged {
                ratio: None,
                verdict: Verdict::NotComparable,
                could_have_seen: None,
            },
            Some(ratio) => {
                let seen = self.threshold.max(ratio.half_range());
                Judged {
                    ratio: Some(ratio),
                    verdict: self.word(metric, &ratio, seen),
                    could_have_seen: Some(seen),
                }
            }
        }
    }

    fn word(&self, metric: Metric, ratio: &Summary, seen: f64) -> Verdict {
        if self.control_failed {
            return Verdict::TooNoisy;
        }
        let equal = ratio.lo >= 1.0 - self.threshold && ratio.hi <= 1.0 + self.threshold;
        match self.decided(metric, ratio) {
            Some(verdict) => verdict,
            None if equal => Verdict::Equal,
            None if seen > TOO_WIDE => Verdict::TooNoisy,
            None => Verdict::NoDifference,
        }
    }

    fn decided(&self, metric: Metric, ratio: &Summary) -> Option<Verdict> {
        let above = ratio.lo > 1.0 && ratio.median > 1.0 + self.threshold;
        let below = ratio.hi < 1.0 && ratio.median < 1.0 - self.threshold;
        match metric {
            _ if !above && !below => None,
            Metric::RoundTripsPerS => Some(if above {
                Verdict::Faster
            } else {
                Verdict::Slower
            }),
            Metric::ServerCpuNsPerRt => Some(if above {
                Verdict::MoreCpu
            } else {
                Verdict::LessCpu
            }),
        }
    }
}

impl Judged {
    /// A repetition failed, so nothing is compared.
    pub(crate) const FAILED: Judged = Judged {
        ratio: None,
        verdict: Verdict::Failed,
        could_have_seen: None,
    };
}

/// With the scatter of these ratios, differences below the result would usually be missed (seen in fewer than 80 of 100 runs).
pub(crate) fn usually_missed_below(groups: &[Vec<f64>]) -> Option<f64> {
    let deviations: Vec<f64> = groups
        .iter()
        .filter(|ratios| ratios.len() >= PAIRS_MIN)
        .filter_map(|ratios| relative_deviation(ratios))
        .collect();
    let rounds = groups.iter().map(Vec::len).max()?;
    Some(stats::effect_seen(rounds, stats::median(&deviations)?, 0.8))
}

fn relative_deviation(ratios: &[f64]) -> Option<f64> {
    let centre = stats::median(ratios).filter(|centre| *centre > 0.0)?;
    stats::deviation(ratios).map(|deviation| deviation / centre)
}

impl Verdict {
    /// At most seven characters, for a table with a legend.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::LessCpu => "less",
            Verdict::MoreCpu => "more",
            Verdict::Equal => "equal",
            Verdict::NoDifference => "=?",
            Verdict::TooNoisy => "noisy",
            Verdict::Failed => "failed",
            Verdict::NotComparable => "n/a",
        }
    }

    /// A difference in favour of the cell that is compared (not of the baseline); `None` if none was found.
    pub(crate) fn favourable(self) -> Option<bool> {
        match self {
            Verdict::Faster | Verdict::LessCpu => Some(true),
            Verdict::Slower | Verdict::MoreCpu => Some(false),
            _ => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::LessCpu => "less CPU",
            Verdict::MoreCpu => "more CPU",
            Verdict::Equal => "equal within t",
            Verdict::NoDifference => "no difference detected",
            Verdict::TooNoisy => "too noisy",
            Verdict::Failed => "failed",
            Verdict::NotComparable => "not comparable",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::stats::tests::noisy;

    const RATE: Metric = Metric::RoundTripsPerS;

    fn word(ratios: &[f64]) -> Verdict {
        Floor::without_control(0.02).judge(RATE, ratios).verdict
    }

    #[test]
    fn words() {
        assert_eq!(word(&[1.05, 1.06, 1.04, 1.05, 1.07, 1.03]), Verdict::Faster);
        assert_eq!(word(&[0.95, 0.94, 0.96, 0.95, 0.93, 0.97]), Verdict::Slower);
        assert_eq!(
            word(&[1.01, 1.015, 1.005, 1.01, 1.012, 1.018]),
            Verdict::Equal
        );
        assert_eq!(
            word(&[1.05, 1.06, 0.99, 1.05, 1.07, 1.03]),
            Verdict::NoDifference
        );
        assert_eq!(
            word(&[1.05, 1.46, 0.99, 1.05, 1.07, 1.03]),
            Verdict::TooNoisy
        );
        assert_eq!(
            word(&[1.5, 1.9, 1.6]),
            Verdict::Faster,
            "wide but clearly beyond 1"
        );
        assert_eq!(word(&[1.5, 1.9]), Verdict::NotComparable);
    }

    #[test]
    fn less_cpu_is_a_ratio_below_one() {
        let floor = Floor::without_control(0.02);
        let judged = floor.judge(Metric::ServerCpuNsPerRt, &[0.80, 0.81, 0.82]);
        assert_eq!(judged.verdict, Verdict::LessCpu);
        assert_eq!(judged.verdict.favourable(), Some(true));
    }

    #[test]
    fn the_threshold_is_what_the_control_shows() {
        let floor = Floor::of_control(RATE, &[0.96, 1.04, 1.0, 1.01, 0.99, 1.0], 0.02);
        assert!((floor.threshold - 0.04).abs() < 1e-9 && !floor.control_failed);
        assert_eq!(
            floor.judge(RATE, &[1.03, 1.035, 1.031]).verdict,
            Verdict::Equal
        );
        let could = floor.judge(RATE, &[1.03, 0.95, 1.031]);
        assert_eq!(could.verdict, Verdict::NoDifference);
        assert!((could.could_have_seen.unwrap() - 0.0405).abs() < 1e-9);
    }

    #[test]
    fn a_failed_control_withholds_every_verdict() {
        let differs = Floor::of_control(RATE, &[1.05, 1.06, 1.04, 1.05], 0.02);
        assert!(differs.control_failed);
        assert_eq!(
            differs.judge(RATE, &[2.0, 2.0, 2.0]).verdict,
            Verdict::TooNoisy
        );
        assert!(
            Floor::of_control(RATE, &[0.85, 1.15, 1.0], 0.02).control_failed,
            "scatters too much"
        );
        let missing = Floor::of_control(RATE, &[1.0, 1.0], 0.02);
        assert_eq!(missing.control, Control::Missing);
        assert_eq!(
            missing.judge(RATE, &[2.0, 2.0, 2.0]).verdict,
            Verdict::TooNoisy
        );
        let left_out = Floor::without_control(0.02);
        assert_eq!(
            left_out.judge(RATE, &[2.0, 2.0, 2.0]).verdict,
            Verdict::Faster
        );
    }

    /// H9: equals compared with equals.
    #[test]
    fn chance_verdicts_are_as_rare_as_stated() {
        let mut random = fastrand::Rng::with_seed(9);
        let runs = 2000;
        let wrong = (0..runs).filter(|_| {
            let ratios: Vec<f64> = (0..6)
                .map(|_| noisy(&mut random, 1.0, 0.04) / noisy(&mut random, 1.0, 0.04))
                .collect();
            word(&ratios).favourable().is_some()
        });
        let share = wrong.count() as f64 / f64::from(runs);
        assert!(share <= 1.0 - stats::coverage(6, 1) + 0.01, "{share}");
    }

    /// H10: a 5 % effect under 2 % noise per repetition, as the power table has it.
    #[test]
    fn a_real_difference_is_found_as_often_as_stated() {
        let mut random = fastrand::Rng::with_seed(10);
        for (rounds, percent) in [(10, 95.0), (6, 79.0)] {
            let scatter = 0.02 * std::f64::consts::SQRT_2;
            let found = (0..2000).filter(|_| {
                let ratios: Vec<f64> = (0..rounds)
                    .map(|_| 0.05 + noisy(&mut random, 1.0, scatter))
                    .collect();
                word(&ratios) == Verdict::Faster
            });
            let share = found.count() as f64 / 20.0;
            assert!((share - percent).abs() <= 2.0, "{rounds} rounds: {share} %");
        }
    }

    #[test]
    fn what_would_be_missed_grows_with_the_noise() {
        let quiet = usually_missed_below(&[vec![1.00, 1.01, 0.99, 1.0, 1.01, 0.99]]).unwrap();
        let loud = usually_missed_below(&[vec![1.00, 1.1, 0.9, 1.0, 1.1, 0.9]]).unwrap();
        assert!(quiet > 0.01 && quiet < 0.03, "{quiet}");
        assert!(loud > 5.0 * quiet);
        assert_eq!(usually_missed_below(&[]), None);
    }
}
