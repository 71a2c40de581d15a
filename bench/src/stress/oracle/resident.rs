//! A quantity over time (resident memory, descriptors): whether it stays flat.

use shardloop_platform::usage;

/// Resident memory of this process now; 0 is never real and never compared with a bound that it would meet by that alone.
pub(crate) fn bytes() -> anyhow::Result<u64> {
    Ok(usage::memory(None)?.resident_bytes)
}

/// Mebibytes, for people.
pub(crate) fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1_048_576.0
}

/// What counts as flat. The first tenth of the samples is the warm-up; its median is what the rest is compared with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flat {
    /// Most that the largest sample may exceed that median by, as a share of it, …
    pub(crate) share: f64,
    /// … and besides, in the unit of the samples.
    pub(crate) extra: f64,
    /// Most that the straight line of least squares through the samples after the warm-up may rise over their whole time.
    pub(crate) rise: f64,
}

/// What was measured of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trend {
    /// Median of the first tenth.
    pub(crate) base: f64,
    /// Largest sample after it.
    pub(crate) max: f64,
    /// Rise of the fitted line over the time after it.
    pub(crate) rise: f64,
}

/// Fewest samples that say something.
pub(crate) const SAMPLES_FEWEST: usize = 20;

/// The trend of samples taken at equal intervals; `None` for fewer than [`SAMPLES_FEWEST`].
pub(crate) fn trend(samples: &[f64]) -> Option<Trend> {
    if samples.len() < SAMPLES_FEWEST {
        return None;
    }
    let (first, rest) = samples.split_at(samples.len() / 10);
    let mut sorted = first.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(Trend {
        base: sorted[sorted.len() / 2],
        max: rest.iter().copied().fold(f64::MIN, f64::max),
        rise: slope(rest) * (rest.len() - 1) as f64,
    })
}

impl Trend {
    /// Why this is not flat.
    pub(crate) fn breach(&self, flat: &Flat) -> Option<String> {
        let most = self.base * (1.0 + flat.share) + flat.extra;
        if self.max > most {
            return Some(format!(
                "reached {:.1}, at most {most:.1} is flat after {:.1} in the first tenth",
                self.max, self.base
            ));
        }
        (self.rise > flat.rise).then(|| {
            format!(
                "rose by {:.1} along the line of least squares, at most {:.1} is flat",
                self.rise, flat.rise
            )
        })
    }
}

/// Slope per sample of the line of least squares.
fn slope(samples: &[f64]) -> f64 {
    let count = samples.len() as f64;
    let middle = (count - 1.0) / 2.0;
    let mean = samples.iter().sum::<f64>() / count;
    let (mut both, mut square) = (0.0, 0.0);
    for (at, sample) in samples.iter().enumerate() {
        let from_middle = at as f64 - middle;
        both += from_middle * (sample - mean);
        square += from_middle * from_middle;
    }
    if square > 0.0 { both / square } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAT: Flat = Flat {
        share: 0.1,
        extra: 1.0,
        rise: 2.0,
    };

    fn series(of: impl Fn(f64) -> f64) -> Vec<f64> {
        (0..100).map(|at| of(f64::from(at))).collect()
    }

    #[test]
    fn a_leak_is_found_by_its_slope_and_a_jump_by_its_height() {
        let breach = |samples: &[f64]| trend(samples).unwrap().breach(&FLAT);
        assert_eq!(breach(&series(|_| 100.0)), None);
        assert_eq!(breach(&series(|at| 100.0 + (at % 7.0) / 2.0)), None);
        let leak = breach(&series(|at| 100.0 + at / 30.0)).unwrap();
        assert!(leak.contains("rose by 3.0"), "{leak}");
        let jump = breach(&series(|at| if at == 50.0 { 130.0 } else { 100.0 })).unwrap();
        assert!(jump.contains("reached 130.0"), "{jump}");
        assert_eq!(trend(&[1.0; 19]), None);
    }
}
