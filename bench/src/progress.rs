//! What is shown while a run is on its way: one line that updates itself on a terminal, one plain line a round elsewhere.
//! Always on standard error, so that results can be piped.

use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Of the updating line; what was there before is overwritten.
const LINE_WIDTH: usize = 98;

/// Where a run stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing<'a> {
    /// Round on its way, from 1.
    pub(crate) round: u32,
    /// Rounds planned.
    pub(crate) rounds: u32,
    /// Repetitions finished.
    pub(crate) finished: u32,
    /// Repetitions planned.
    pub(crate) planned: u32,
    /// What runs now.
    pub(crate) label: &'a str,
    /// Time that is left, as far as known.
    pub(crate) left: Duration,
    /// Steal in the last round.
    pub(crate) steal: Option<f64>,
    /// Repetitions that failed.
    pub(crate) failed: u32,
}

/// The display.
#[derive(Debug)]
pub(crate) enum Progress {
    /// Says nothing.
    Silent,
    /// One line a round.
    Lines,
    /// One line that is overwritten.
    Updating,
}

impl Progress {
    /// The display that fits standard error.
    pub(crate) fn fitting(quiet: bool, no_progress: bool) -> Self {
        match (quiet, no_progress || !std::io::stderr().is_terminal()) {
            (true, _) => Progress::Silent,
            (false, true) => Progress::Lines,
            (false, false) => Progress::Updating,
        }
    }

    /// A repetition begins.
    pub(crate) fn repetition(&self, standing: &Standing<'_>) {
        if matches!(self, Progress::Updating) {
            write_out(&format!("\r{:<LINE_WIDTH$}", one_line(standing)));
        }
    }

    /// A round has ended.
    pub(crate) fn round(&self, standing: &Standing<'_>) {
        if matches!(self, Progress::Lines) {
            write_out(&format!("{}\n", one_line(standing)));
        }
    }

    /// A line to stay.
    pub(crate) fn say(&self, text: &str) {
        match self {
            Progress::Silent => {}
            Progress::Lines => write_out(&format!("{text}\n")),
            Progress::Updating => write_out(&format!("\r{text:<LINE_WIDTH$}\n")),
        }
    }

    /// Takes the updating line away.
    pub(crate) fn clear(&self) {
        if matches!(self, Progress::Updating) {
            write_out(&format!("\r{:<LINE_WIDTH$}\r", ""));
        }
    }
}

fn one_line(standing: &Standing<'_>) -> String {
    let seconds = standing.left.as_secs();
    let steal = standing.steal.map_or(String::new(), |share| {
        format!("   steal {:.1} %", share * 100.0)
    });
    let label: String = standing.label.chars().take(24).collect();
    let line = format!(
        "[round {}/{}] {}/{}  {label:<16}  ETA {:02}:{:02}{steal}   failed {}",
        standing.round,
        standing.rounds,
        standing.finished,
        standing.planned,
        seconds / 60,
        seconds % 60,
        standing.failed
    );
    line.chars().take(LINE_WIDTH).collect()
}

fn write_out(text: &str) {
    // A closed standard error must not end a measurement.
    let mut stderr = std::io::stderr().lock();
    let _ = stderr
        .write_all(text.as_bytes())
        .and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_fits() {
        let long = "shards 64 monoio-uring with a name that has no end at all";
        let standing = Standing {
            round: 1000,
            rounds: 1000,
            finished: 123_456,
            planned: 123_456,
            label: long,
            left: Duration::from_secs(5999),
            steal: Some(1.0),
            failed: 12,
        };
        assert!(
            one_line(&standing).chars().count() <= LINE_WIDTH,
            "{}",
            one_line(&standing).len()
        );
        let short = Standing {
            round: 3,
            rounds: 6,
            finished: 61,
            planned: 147,
            label: "shards 2",
            left: Duration::from_secs(29),
            steal: None,
            failed: 0,
        };
        assert_eq!(
            one_line(&short),
            "[round 3/6] 61/147  shards 2          ETA 00:29   failed 0"
        );
    }
}
