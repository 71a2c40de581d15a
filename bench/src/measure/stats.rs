//! Medians and their intervals from order statistics: no assumption about the shape of the noise, only that repetitions are
//! independent and come from one distribution (which is why their order is shuffled).

use serde::{Deserialize, Serialize};

/// Coverage an interval reaches where the number of values allows it.
const COVERAGE_WANTED: f64 = 0.95;

/// A median with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Summary {
    /// Number of values.
    pub(crate) n: usize,
    /// Their median.
    pub(crate) median: f64,
    /// Lower end of the interval.
    pub(crate) lo: f64,
    /// Upper end of the interval.
    pub(crate) hi: f64,
    /// Probability that such an interval covers the true median.
    pub(crate) coverage: f64,
}

impl Summary {
    /// Of at least one finite value.
    pub(crate) fn of(values: &[f64]) -> Option<Summary> {
        let sorted = sorted(values)?;
        let (n, rank) = (sorted.len(), rank(sorted.len()));
        Some(Summary {
            n,
            median: middle(&sorted),
            lo: sorted[rank - 1],
            hi: sorted[n - rank],
            coverage: coverage(n, rank),
        })
    }

    /// Half the width of the interval.
    pub(crate) fn half_range(&self) -> f64 {
        (self.hi - self.lo) / 2.0
    }
}

/// The median alone.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    sorted(values).map(|sorted| middle(&sorted))
}

/// k of the interval [x(k), x(n+1−k)]: the narrowest that still covers 95 %, or min…max.
pub(crate) fn rank(n: usize) -> usize {
    (1..=n.div_ceil(2))
        .rev()
        .find(|k| coverage(n, *k) >= COVERAGE_WANTED)
        .unwrap_or(1)
}

/// 1 − 2 Σ_{i<k} C(n,i) / 2ⁿ.
pub(crate) fn coverage(n: usize, k: usize) -> f64 {
    let below: f64 = (0..k).map(|i| binomial_half(n, i)).sum();
    (1.0 - 2.0 * below).max(0.0)
}

/// Chance that an effect is seen: that the interval of `n` values around 1 + effect excludes 1, when each value scatters normally
/// by `noise` (standard deviation).
pub(crate) fn power(n: usize, effect: f64, noise: f64) -> f64 {
    if noise <= 0.0 {
        return 1.0;
    }
    let beyond = normal_below(effect / noise);
    let least = n + 1 - rank(n);
    (least..=n)
        .map(|hits| {
            binomial(n, hits) * beyond.powf(hits as f64) * (1.0 - beyond).powf((n - hits) as f64)
        })
        .sum()
}

/// The smallest effect that is seen with the chance `wanted`.
pub(crate) fn effect_seen(n: usize, noise: f64, wanted: f64) -> f64 {
    let (mut low, mut high) = (0.0, 20.0 * noise);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if power(n, middle, noise) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Standard deviation; `None` for fewer than two values.
pub(crate) fn deviation(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (n - 1.0)).sqrt())
}

fn sorted(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

fn middle(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0
}

/// C(n,i) / 2ⁿ, in an order of operations that stays finite.
fn binomial_half(n: usize, i: usize) -> f64 {
    (1..=i).fold(0.5_f64.powf(n as f64), |product, j| {
        product * (n + 1 - j) as f64 / j as f64
    })
}

fn binomial(n: usize, i: usize) -> f64 {
    (1..=i).fold(1.0, |product, j| product * (n + 1 - j) as f64 / j as f64)
}

/// Φ, after Abramowitz and Stegun 7.1.26: good to 1.5e-7.
fn normal_below(x: f64) -> f64 {
    let z = x.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * z);
    let poly = t
        * (0.254_829_592
            + t * (-0.284_496_736
                + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    let upper = 0.5 * poly * (-z * z).exp();
    if x < 0.0 { upper } else { 1.0 - upper }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Normal noise around `centre` from a seeded generator (Box–Muller).
    pub(crate) fn noisy(random: &mut fastrand::Rng, centre: f64, noise: f64) -> f64 {
        let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
        centre * (1.0 + noise * radius * (std::f64::consts::TAU * random.f64()).cos())
    }

    #[test]
    fn interval_table() {
        let table = [
            (3, 1, 75.0),
            (4, 1, 87.5),
            (5, 1, 93.75),
            (6, 1, 96.9),
            (7, 1, 98.4),
            (8, 1, 99.2),
            (9, 2, 96.1),
            (10, 2, 97.9),
            (12, 3, 96.1),
            (15, 4, 96.5),
            (20, 6, 95.9),
        ];
        for (n, k, percent) in table {
            assert_eq!(rank(n), k, "n = {n}");
            assert!(
                (coverage(n, k) * 100.0 - percent).abs() < 0.06,
                "n = {n}: {}",
                coverage(n, k)
            );
        }
    }

    #[test]
    fn coverage_is_the_formula_for_every_n() {
        for n in 3..=30_usize {
            for k in 1..=n.div_ceil(2) {
                // Counted in integers: the number of the 2ⁿ sign patterns with fewer than k on one side.
                let patterns: u64 = (0..k)
                    .map(|i| (0..i).fold(1_u64, |c, j| c * (n - j) as u64 / (j as u64 + 1)))
                    .sum();
                let formula = 1.0 - 2.0 * patterns as f64 / (1_u64 << n) as f64;
                assert!(
                    (coverage(n, k) - formula.max(0.0)).abs() < 1e-12,
                    "n = {n}, k = {k}"
                );
            }
            assert!(n < 6 || coverage(n, rank(n)) >= COVERAGE_WANTED);
            assert!(
                coverage(n, rank(n) + 1) < COVERAGE_WANTED,
                "a narrower interval would do for n = {n}"
            );
        }
    }

    #[test]
    fn summary_of_six_and_of_ten() {
        let six = Summary::of(&[6.0, 1.0, 5.0, 2.0, 4.0, 3.0]).unwrap();
        assert_eq!((six.median, six.lo, six.hi), (3.5, 1.0, 6.0));
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        let ten = Summary::of(&ten).unwrap();
        assert_eq!((ten.median, ten.lo, ten.hi), (5.5, 2.0, 9.0));
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn power_table() {
        // (noise per repetition, effect, n, chance in percent); the ratio of two repetitions scatters √2 times as much.
        let table = [
            (0.01, 0.03, 6, 90.0),
            (0.01, 0.03, 10, 99.0),
            (0.02, 0.03, 6, 39.0),
            (0.02, 0.05, 6, 79.0),
            (0.02, 0.05, 7, 76.0),
            (0.02, 0.05, 10, 95.0),
            (0.04, 0.05, 15, 69.0),
            (0.04, 0.05, 20, 84.0),
            (0.04, 0.15, 7, 97.0),
        ];
        for (noise, effect, n, percent) in table {
            let chance = power(n, effect, noise * std::f64::consts::SQRT_2) * 100.0;
            assert!(
                (chance - percent).abs() < 1.0,
                "{noise} {effect} {n}: {chance}"
            );
        }
    }

    #[test]
    fn effect_seen_inverts_power() {
        let effect = effect_seen(6, 0.03, 0.8);
        assert!((power(6, effect, 0.03) - 0.8).abs() < 1e-6);
        assert_eq!(effect_seen(6, 0.0, 0.8), 0.0);
    }

    #[test]
    fn the_interval_covers_as_often_as_it_says() {
        let mut random = fastrand::Rng::with_seed(9);
        for n in [6, 10] {
            let covered = (0..4000)
                .filter(|_| {
                    let values: Vec<f64> = (0..n).map(|_| noisy(&mut random, 1.0, 0.1)).collect();
                    let summary = Summary::of(&values).unwrap();
                    (summary.lo..=summary.hi).contains(&1.0)
                })
                .count();
            let share = covered as f64 / 4000.0;
            assert!(
                (share - coverage(n, rank(n))).abs() < 0.01,
                "n = {n}: {share}"
            );
        }
    }
}
