//! What lies between two hosts: how long it takes, and what is lost on the way.

use super::{clock::nanoseconds, random::Random};
use std::{collections::BTreeMap, time::Duration};

/// One direction of what lies between two hosts. A datagram that is lost is gone; bytes of a stream that are lost come later, after
/// one retransmission or several, and with them all that were sent after them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// From one end to the other.
    pub latency: Duration,
    /// At most so much more, drawn for each packet. Datagrams overtake each other by it.
    pub jitter: Duration,
    /// What is lost.
    pub loss: Loss,
    /// The share of datagrams that are held back, 0 to 1, so that others overtake them.
    pub reorder: f64,
    /// How long those are held back at most.
    pub reorder_by: Duration,
    /// The share of datagrams that arrive twice, 0 to 1.
    pub duplicate: f64,
    /// Bytes per second; `None` for no limit. What exceeds it queues up; datagrams that find [`Link::QUEUE_BYTES`] before them are
    /// dropped.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// The chance of each packet of a stream, 0 to 1, to bring a reset of its connection to both sides.
    pub reset: f64,
}

impl Link {
    /// What queues up before a link of limited bandwidth until datagrams are dropped.
    pub const QUEUE_BYTES: u64 = 256 << 10;

    /// Nothing is lost, and everything takes as long.
    #[must_use]
    pub const fn perfect(latency: Duration) -> Self {
        Self {
            latency,
            jitter: Duration::ZERO,
            loss: Loss::None,
            reorder: 0.0,
            reorder_by: Duration::ZERO,
            duplicate: 0.0,
            bandwidth_bytes_per_s: None,
            reset: 0.0,
        }
    }

    /// Within one host: 10 µs.
    #[must_use]
    pub const fn loopback() -> Self {
        Self::perfect(Duration::from_micros(10))
    }
}

/// Which packets are lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    /// None.
    None,
    /// Each with the same chance, 0 to 1.
    Random(f64),
    /// In bursts (Gilbert 1960, Elliott 1963): a link is good or bad, and which is drawn anew with each packet. All shares are 0 to 1.
    GilbertElliott {
        /// The chance to turn bad.
        to_bad: f64,
        /// The chance to turn good again.
        to_good: f64,
        /// What is lost while it is good.
        good: f64,
        /// What is lost while it is bad.
        bad: f64,
    },
}

/// Two hosts by their numbers, in the direction of the packet.
pub(super) type Way = (usize, usize);

/// All links of a world.
#[derive(Debug)]
pub(super) struct Links {
    between: Link,
    loopback: Link,
    ways: BTreeMap<Way, State>,
}

#[derive(Debug)]
struct State {
    link: Link,
    busy_until: u64,
    is_bad: bool,
    /// Partitions that this way is part of.
    partitions: u32,
}

impl Links {
    pub(super) fn new(between: Link, loopback: Link) -> Self {
        Self {
            between,
            loopback,
            ways: BTreeMap::new(),
        }
    }

    /// Replaces the link of one direction.
    pub(super) fn set(&mut self, way: Way, link: Link) {
        self.state(way).link = link;
    }

    pub(super) fn partition(&mut self, way: Way) {
        self.state(way).partitions += 1;
    }

    pub(super) fn heal(&mut self, way: Way) {
        let state = self.state(way);
        state.partitions = state.partitions.saturating_sub(1);
    }

    pub(super) fn is_partitioned(&self, way: Way) -> bool {
        self.ways
            .get(&way)
            .is_some_and(|state| state.partitions > 0)
    }

    pub(super) fn link(&mut self, way: Way) -> Link {
        self.state(way).link
    }

    /// When a packet of `bytes` that is sent at `now` arrives, if it does.
    pub(super) fn arrival(&mut self, way: Way, bytes: usize, now: u64, random: &mut Random) -> u64 {
        let state = self.state(way);
        let mut leaves = now;
        if let Some(rate) = state.link.bandwidth_bytes_per_s {
            leaves = now.max(state.busy_until) + bytes as u64 * 1_000_000_000 / rate.max(1);
            state.busy_until = leaves;
        }
        let jitter = random.below(nanoseconds(state.link.jitter).saturating_add(1));
        leaves + nanoseconds(state.link.latency) + jitter
    }

    /// Whether so much waits before the link that a datagram finds no room.
    pub(super) fn is_full(&mut self, way: Way, now: u64) -> bool {
        let state = self.state(way);
        let Some(rate) = state.link.bandwidth_bytes_per_s else {
            return false;
        };
        let waiting = state.busy_until.saturating_sub(now) / 1_000_000 * rate / 1_000;
        waiting > Link::QUEUE_BYTES
    }

    /// Whether a packet is lost.
    pub(super) fn loses(&mut self, way: Way, random: &mut Random) -> bool {
        let state = self.state(way);
        if state.partitions > 0 {
            return true;
        }
        match state.link.loss {
            Loss::None => false,
            Loss::Random(share) => random.chance(share),
            Loss::GilbertElliott {
                to_bad,
                to_good,
                good,
                bad,
            } => {
                if random.chance(if state.is_bad { to_good } else { to_bad }) {
                    state.is_bad = !state.is_bad;
                }
                random.chance(if state.is_bad { bad } else { good })
            }
        }
    }

    fn state(&mut self, way: Way) -> &mut State {
        let link = if way.0 == way.1 {
            self.loopback
        } else {
            self.between
        };
        self.ways.entry(way).or_insert(State {
            link,
            busy_until: 0,
            is_bad: false,
            partitions: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Link, Links, Loss, Random};
    use std::time::Duration;

    const WAY: (usize, usize) = (0, 1);

    fn links(change: impl FnOnce(&mut Link)) -> Links {
        let mut link = Link::perfect(Duration::from_millis(1));
        change(&mut link);
        Links::new(link, Link::loopback())
    }

    #[test]
    fn latency_jitter_and_bandwidth_add_up() {
        let mut random = Random::new(1);
        let mut plain = links(|_| {});
        assert_eq!(plain.arrival(WAY, 1_000, 5, &mut random), 1_000_005);
        let mut slow = links(|link| link.bandwidth_bytes_per_s = Some(1_000_000));
        assert_eq!(slow.arrival(WAY, 1_000, 0, &mut random), 2_000_000);
        assert_eq!(slow.arrival(WAY, 1_000, 0, &mut random), 3_000_000);
        assert!(!slow.is_full(WAY, 0));
        slow.arrival(WAY, 300_000, 0, &mut random);
        assert!(slow.is_full(WAY, 0) && !slow.is_full((1, 0), 0));
        let mut shaky = links(|link| link.jitter = Duration::from_millis(2));
        let times: Vec<_> = (0..100)
            .map(|_| shaky.arrival(WAY, 1, 0, &mut random))
            .collect();
        assert!(times.iter().all(|at| (1_000_000..=3_000_000).contains(at)));
        assert!(times.iter().any(|at| *at != times[0]));
    }

    #[test]
    fn losses_come_in_bursts_where_they_are_to() {
        let mut random = Random::new(2);
        let mut bursts = links(|link| {
            link.loss = Loss::GilbertElliott {
                to_bad: 0.02,
                to_good: 0.2,
                good: 0.0,
                bad: 1.0,
            }
        });
        let lost: Vec<_> = (0..20_000)
            .map(|_| bursts.loses(WAY, &mut random))
            .collect();
        let count = lost.iter().filter(|lost| **lost).count();
        // A share of 0.02 / 0.22, and after one loss the next is likely.
        assert!((1_500..2_200).contains(&count), "{count}");
        let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count();
        assert!(pairs * 10 > count * 7, "{pairs} of {count}");
    }

    #[test]
    fn partitions_overlap() {
        let mut random = Random::new(3);
        let mut plain = links(|_| {});
        plain.partition(WAY);
        plain.partition(WAY);
        plain.heal(WAY);
        assert!(plain.loses(WAY, &mut random) && plain.is_partitioned(WAY));
        plain.heal(WAY);
        assert!(!plain.loses(WAY, &mut random) && !plain.is_partitioned(WAY));
    }
}
