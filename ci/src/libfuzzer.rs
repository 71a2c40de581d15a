//! What libFuzzer prints, read: lines such as `#4096 pulse cov: 284 ft: 990 corp: 136/12Kb exec/s: 2048 …`, and at its end
//! `stat::number_of_executed_units: 4096` with others of that kind.

/// How far a target came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statistics {
    /// Inputs that were run.
    pub(crate) executions: u64,
    pub(crate) per_second: u64,
    /// Edges of the code that were reached.
    pub(crate) coverage: u64,
    /// Edges, and how often each, and values compared: what libFuzzer keeps inputs for.
    pub(crate) features: u64,
}

impl Statistics {
    /// From all that a target has printed; what it did not say is 0.
    pub(crate) fn read(text: &str) -> Self {
        let mut read = Self::default();
        for line in text.lines() {
            read.take(line);
        }
        read
    }

    fn take(&mut self, line: &str) {
        if let Some((name, value)) = line.strip_prefix("stat::").and_then(|l| l.split_once(':')) {
            match (name, value.trim().parse()) {
                ("number_of_executed_units", Ok(value)) => self.executions = value,
                ("average_exec_per_sec", Ok(value)) => self.per_second = value,
                _ => {}
            }
            return;
        }
        let Some(rest) = line.strip_prefix('#') else {
            return;
        };
        let words: Vec<_> = rest.split_whitespace().collect();
        let Some(Ok(count)) = words.first().map(|word| word.parse()) else {
            return;
        };
        self.executions = self.executions.max(count);
        for pair in words.windows(2) {
            let Ok(value) = pair[1].parse() else { continue };
            match pair[0] {
                "cov:" => self.coverage = value,
                "ft:" => self.features = value,
                "exec/s:" => self.per_second = value,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Statistics;

    const ENDED: &str = "INFO: Running with entropic power schedule (0xFF, 100).
#70	INITED cov: 1842 ft: 2592 corp: 60/9Kb exec/s: 0 rss: 80Mb
	NEW_FUNC[1/2]: 0x5555a52c93d1 in core::fmt
#468368	NEW    cov: 2138 ft: 6217 corp: 1249/133Kb lim: 617 exec/s: 1357 rss: 519Mb L: 154/518 MS: 2 ShuffleBytes-ManualDict- DE: \"POST \"-
#468400	DONE   cov: 2138 ft: 6217 corp: 1249/133Kb lim: 617 exec/s: 1357 rss: 519Mb
Done 468400 runs in 345 second(s)
stat::number_of_executed_units: 468400
stat::average_exec_per_sec:     1357
stat::new_units_added:          2100
stat::slowest_unit_time_sec:    0
stat::peak_rss_mb:              519
";

    #[test]
    fn a_run_that_ended_says_it_all() {
        let expected = Statistics {
            executions: 468_400,
            per_second: 1357,
            coverage: 2138,
            features: 6217,
        };
        assert_eq!(Statistics::read(ENDED), expected);
    }

    #[test]
    fn a_run_that_crashed_says_how_far_it_came() {
        let text = "#3	INITED cov: 10 ft: 20 corp: 1/1b exec/s: 0 rss: 30Mb\n#4096	pulse  cov: 11 ft: 21 corp: 2/3b lim: 4 exec/s: 2048 rss: 40Mb\nthread '<unnamed>' panicked at src/a.rs:1:1:\n#  not a line of it\n==1== ERROR: libFuzzer: deadly signal\n    #0 0x55 in x\nartifact_prefix='artifacts/length/'\n";
        let expected = Statistics {
            executions: 4096,
            per_second: 2048,
            coverage: 11,
            features: 21,
        };
        assert_eq!(Statistics::read(text), expected);
    }

    #[test]
    fn nothing_said_is_nothing_read() {
        assert_eq!(Statistics::read(""), Statistics::default());
        assert_eq!(Statistics::read("error: no target"), Statistics::default());
    }
}
