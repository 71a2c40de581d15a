//! One client's window over datagrams: which requests are outstanding, which were given up, and what a reply to each of them is.
//!
//! A slot whose reply does not come is given up, and the next request takes its place; so the numbers outstanding are not in a row.
//! They ascend all the same, for requests are numbered as they are sent, and so do the times they were sent at.

use std::collections::VecDeque;

/// Requests given up that are remembered, to tell a late reply from one that comes twice. Older ones are forgotten.
const GIVEN_UP_KEPT: usize = 4_096;

/// A client's requests.
#[derive(Debug, Default)]
pub(super) struct Slots {
    /// Number of the next request.
    next: u64,
    outstanding: VecDeque<Request>,
    given_up: VecDeque<u64>,
    answered: u64,
    /// The latest request that has been answered.
    highest: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    submitted_ns: u64,
}

/// What the reply to a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It was waited for.
    InTime {
        submitted_ns: u64,
        /// A later request was answered before.
        reordered: bool,
    },
    /// It had been given up.
    Late,
    /// It was answered before.
    Duplicate,
    /// There is no such request.
    NeverAsked,
}

impl Slots {
    /// Number of the next request.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Requests that wait for a reply.
    pub(super) fn outstanding(&self) -> u64 {
        self.outstanding.len() as u64
    }

    /// Requests answered in time.
    pub(super) fn answered(&self) -> u64 {
        self.answered
    }

    /// So many requests were sent at this time.
    pub(super) fn sent(&mut self, requests: usize, submitted_ns: u64) {
        for _ in 0..requests {
            self.outstanding.push_back(Request {
                number: self.next,
                submitted_ns,
            });
            self.next += 1;
        }
    }

    /// What a reply to this request is now.
    pub(super) fn standing(&self, number: u64) -> Standing {
        if let Ok(at) = self.place(number) {
            return Standing::InTime {
                submitted_ns: self.outstanding[at].submitted_ns,
                reordered: self.highest.is_some_and(|highest| number < highest),
            };
        }
        if number >= self.next {
            Standing::NeverAsked
        } else if self.given_up.binary_search(&number).is_ok() {
            Standing::Late
        } else {
            Standing::Duplicate
        }
    }

    /// The reply has come.
    pub(super) fn settle(&mut self, number: u64) {
        if let Ok(at) = self.place(number) {
            self.outstanding.remove(at);
            self.answered += 1;
            self.highest = self.highest.max(Some(number));
        } else if let Ok(at) = self.given_up.binary_search(&number) {
            self.given_up.remove(at);
        }
    }

    /// Whether a request sent at that time or before still waits.
    pub(super) fn is_overdue(&self, submitted_by_ns: u64) -> bool {
        let oldest = self.outstanding.front();
        oldest.is_some_and(|oldest| oldest.submitted_ns <= submitted_by_ns)
    }

    /// Gives up those sent at that time or before. Returns how many.
    pub(super) fn give_up(&mut self, submitted_by_ns: u64) -> u64 {
        let mut count = 0;
        while self.is_overdue(submitted_by_ns)
            && let Some(request) = self.outstanding.pop_front()
        {
            if self.given_up.len() == GIVEN_UP_KEPT {
                self.given_up.pop_front();
            }
            self.given_up.push_back(request.number);
            count += 1;
        }
        count
    }

    fn place(&self, number: u64) -> Result<usize, usize> {
        // Nearly always it is the oldest.
        if self.outstanding.front().is_some_and(|r| r.number == number) {
            return Ok(0);
        }
        self.outstanding
            .binary_search_by_key(&number, |request| request.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_time(submitted_ns: u64, reordered: bool) -> Standing {
        Standing::InTime {
            submitted_ns,
            reordered,
        }
    }

    #[test]
    fn each_reply_has_its_standing() {
        let mut slots = Slots::default();
        slots.sent(2, 10);
        slots.sent(2, 20);
        assert_eq!((slots.next(), slots.outstanding()), (4, 4));
        assert_eq!(slots.standing(2), in_time(20, false));
        slots.settle(2);
        assert_eq!(slots.standing(2), Standing::Duplicate);
        assert_eq!(slots.standing(1), in_time(10, true), "after a later one");
        assert_eq!(slots.standing(4), Standing::NeverAsked);
        assert!(slots.is_overdue(10) && !slots.is_overdue(9));
        assert_eq!(slots.give_up(19), 2, "3 is younger");
        assert_eq!(slots.standing(0), Standing::Late);
        slots.settle(0);
        assert_eq!(slots.standing(0), Standing::Duplicate, "late only once");
        assert_eq!(slots.standing(1), Standing::Late);
        assert_eq!((slots.answered(), slots.outstanding()), (1, 1));
        slots.settle(3);
        assert_eq!((slots.answered(), slots.outstanding()), (2, 0));
    }

    #[test]
    fn what_is_remembered_of_losses_is_bounded() {
        let mut slots = Slots::default();
        for time in 0..3 {
            slots.sent(GIVEN_UP_KEPT, time);
            assert_eq!(slots.give_up(time), GIVEN_UP_KEPT as u64);
        }
        assert_eq!(slots.given_up.len(), GIVEN_UP_KEPT);
        let last = slots.next() - 1;
        assert_eq!(slots.standing(last), Standing::Late);
        assert_eq!(slots.standing(0), Standing::Duplicate, "forgotten");
    }
}
