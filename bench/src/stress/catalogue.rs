//! The scenarios there are: number, name, what must hold, length.

use crate::exit::Refusal;
use std::time::Duration;

/// A scenario by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// 1.
    TimedOutReads,
    /// 2.
    ForeignWakes,
    /// 3.
    BlockingSockets,
    /// 4.
    Descriptors,
    /// 5.
    TearDown,
    /// 6.
    Refusals,
    /// 7.
    BackPressure,
    /// 8.
    Balance,
    /// 9.
    Greed,
    /// 11.
    SmallRing,
    /// 12.
    HonestLoad,
    /// 13.
    Hostile,
    /// All kinds of load at once, for long.
    Soak,
}

/// A scenario as the list shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: Name,
    /// As CONTRIBUTING.md numbers the kinds of faults; the soak has none.
    pub(crate) number: &'static str,
    /// What must hold.
    pub(crate) holds: &'static str,
    /// Its full length in words.
    pub(crate) length: &'static str,
    /// After this long, at full length, a scenario counts as hanging.
    pub(crate) patience: Duration,
}

impl Name {
    /// As written on the command line.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::TimedOutReads => "timed-out-reads",
            Self::ForeignWakes => "foreign-wakes",
            Self::BlockingSockets => "blocking-sockets",
            Self::Descriptors => "descriptors",
            Self::TearDown => "tear-down",
            Self::Refusals => "refusals",
            Self::BackPressure => "back-pressure",
            Self::Balance => "balance",
            Self::Greed => "greed",
            Self::SmallRing => "small-ring",
            Self::HonestLoad => "honest-load",
            Self::Hostile => "hostile",
            Self::Soak => "soak",
        }
    }
}

const fn scenario(
    name: Name,
    number: &'static str,
    holds: &'static str,
    length: &'static str,
    patience_s: u64,
) -> Scenario {
    Scenario {
        name,
        number,
        holds,
        length,
        patience: Duration::from_secs(patience_s),
    }
}

/// All of them. 10 needs an io_uring engine of our own, which is planned.
pub(crate) const ALL: [Scenario; 13] = [
    scenario(
        Name::TimedOutReads,
        "1",
        "a numbered stream against receives given up after 1 ms: no gap, no repeat",
        "60 s",
        180,
    ),
    scenario(
        Name::ForeignWakes,
        "2",
        "every wake from 2, 4 and 8 other threads, and every closed channel, is seen within 1 s",
        "10,000,000 rounds",
        1_800,
    ),
    scenario(
        Name::BlockingSockets,
        "3",
        "sockets made without O_NONBLOCK never stop a 10 ms ticker",
        "12 s",
        120,
    ),
    scenario(
        Name::Descriptors,
        "4",
        "500 clients, 64 descriptors: CPU < 20 %, quiet, open connections echo, new ones in within 1 s of room",
        "12 s",
        180,
    ),
    scenario(
        Name::TearDown,
        "5",
        "ended with everything in flight: no hang, descriptors and memory flat, the same port again",
        "1,000 times",
        600,
    ),
    scenario(
        Name::Refusals,
        "6",
        "io_uring refused or starved: auto serves and says why; a named engine says why in one line, exit 2",
        "5 refusals",
        180,
    ),
    scenario(
        Name::BackPressure,
        "7",
        "64 MiB to a client that does not read, resets mid-write: byte-exact, memory bounded, errors and no panic",
        "64 MiB, 100 resets",
        300,
    ),
    scenario(
        Name::Balance,
        "8",
        "16, 200 and 8,000 connections on 8 shards: with Handoff max/mean <= 1.1",
        "8,000 connections, 3 strategies",
        300,
    ),
    scenario(
        Name::Greed,
        "9",
        "beside a flood, yield loops, zero sleeps, foreign wakes, 100,000 timers: ping p99, timer lateness < 50 ms",
        "60 s",
        240,
    ),
    scenario(
        Name::SmallRing,
        "11",
        "256 entries, 5,000 connections ready at once: none stuck, idle afterwards",
        "20 rounds",
        300,
    ),
    scenario(
        Name::HonestLoad,
        "12",
        "the load shows a stall in its tail, and names a killed, refusing, wrong, short, long, extra, cut, silent server",
        "9 servers",
        240,
    ),
    scenario(
        Name::Hostile,
        "13",
        "slow, half-open, over-long, random, deaf peers: each refused and counted, memory bounded, a good client served",
        "150 s: 5 protocols",
        600,
    ),
    scenario(
        Name::Soak,
        "soak",
        "mixed load: every byte right, memory and descriptors flat",
        "1,200 s",
        1_500,
    ),
];

/// The scenarios of these numbers or names, in the order of the list; without any, all but the soak.
pub(crate) fn chosen(names: &[String]) -> Result<Vec<Scenario>, Refusal> {
    if names.is_empty() {
        return Ok(ALL.into_iter().filter(|s| s.name != Name::Soak).collect());
    }
    if let Some(unknown) = names.iter().find(|name| !ALL.iter().any(|s| s.is(name))) {
        let known: Vec<&str> = ALL.iter().map(|s| s.name.text()).collect();
        return Err(Refusal::usage(
            "E-SCENARIO",
            format!("there is no scenario {unknown:?}."),
            format!(
                "choose from: {}; or their numbers, see bench stress --list.",
                known.join(", ")
            ),
        ));
    }
    let asked = |scenario: &Scenario| names.iter().any(|name| scenario.is(name));
    Ok(ALL.into_iter().filter(asked).collect())
}

impl Scenario {
    fn is(&self, name: &str) -> bool {
        self.name.text() == name || self.number == name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_choose() {
        let names = |list: &[&str]| {
            let list: Vec<String> = list.iter().map(|&name| name.to_owned()).collect();
            chosen(&list).map(|found| found.iter().map(|s| s.number).collect::<Vec<_>>())
        };
        assert_eq!(
            names(&["soak", "2", "timed-out-reads"]),
            Ok(vec!["1", "2", "soak"])
        );
        assert_eq!(names(&[]).unwrap().len(), ALL.len() - 1);
        let refusal = names(&["1", "10"]).unwrap_err();
        assert!(refusal.what.contains("\"10\"") && refusal.remedy.contains("small-ring"));
    }
}
