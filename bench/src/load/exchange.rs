//! The conversation of one connection: requests by sequence, replies strictly in that order, a new request for each reply.

use super::{
    Verify,
    fault::Wrong,
    message::{Difference, Template},
    tally::{Phase, Tally},
    wire::Wire,
};
use shardloop_protocols::{App, Flow};

/// What all conversations share.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) template: Template,
    pub(crate) tally: Tally,
    pub(crate) verify: Verify,
    /// Requests per client; `u64::MAX` where time ends the run.
    pub(crate) requests_per_client: u64,
}

/// Where one conversation stands: `answered` ≤ `submitted` ≤ `issued`.
#[derive(Debug)]
pub(crate) struct Sequence {
    client: u32,
    /// Next request.
    issued: u64,
    /// First request not yet handed to the system.
    submitted: u64,
    /// Next reply.
    answered: u64,
    /// Submission times of the outstanding requests, by sequence modulo its length (a power of two).
    submitted_ns: Box<[u64]>,
}

/// One connection's part while its replies are handled.
pub(crate) struct Exchange<'a> {
    pub(crate) sequence: &'a mut Sequence,
    pub(crate) traffic: &'a mut Traffic,
    /// When the read that brought the replies returned.
    pub(crate) received_ns: u64,
    /// The first thing wrong; nothing is handled after it.
    pub(crate) wrong: Option<Wrong>,
}

impl<M: Wire> App<M> for Exchange<'_> {
    fn message(&mut self, message: M::Message<'_>, reply: M::Reply<'_>) -> Flow {
        if let Err(wrong) = M::payload(message).and_then(|payload| self.check(payload)) {
            self.wrong = Some(wrong);
            return Flow::Pause;
        }
        self.sequence.answered(self.traffic, self.received_ns);
        self.sequence
            .issue(self.traffic, |payload| M::request(reply, payload));
        Flow::Continue
    }
}

impl Exchange<'_> {
    /// Checks a reply against the request it must answer.
    fn check(&self, payload: &[u8]) -> Result<(), Wrong> {
        let Sequence {
            client, answered, ..
        } = *self.sequence;
        let Traffic {
            template, verify, ..
        } = &*self.traffic;
        if answered == self.sequence.submitted {
            return Err(Wrong::Unexpected);
        }
        if payload.len() != template.payload_bytes() {
            return Err(Wrong::Length(payload.len() as u64));
        }
        let mut checked = template.check_header(payload, client, answered);
        if checked.is_ok() && verify.includes_body(answered) {
            checked = template.check_body(payload, client, answered);
        }
        checked.map_err(|difference| self.misplaced(difference))
    }

    /// An answer to an outstanding request is out of order; one given before, or to a request never made, is nobody's.
    fn misplaced(&self, difference: Difference) -> Wrong {
        let asked = self.sequence.answered..self.sequence.submitted;
        match difference {
            Difference::Byte(byte) => Wrong::Content(byte),
            Difference::Sequence(found) if asked.contains(&found) => Wrong::Order(found),
            Difference::Sequence(_) => Wrong::Unexpected,
        }
    }
}

impl Sequence {
    pub(crate) fn new(client: u32, window: usize) -> Self {
        Self {
            client,
            issued: 0,
            submitted: 0,
            answered: 0,
            submitted_ns: vec![0; window.next_power_of_two()].into_boxed_slice(),
        }
    }

    pub(crate) fn client(&self) -> u32 {
        self.client
    }

    /// The reply awaited next.
    pub(crate) fn awaited(&self) -> u64 {
        self.answered
    }

    /// Requests issued and not answered.
    pub(crate) fn outstanding(&self) -> u64 {
        self.issued - self.answered
    }

    /// Writes the next request through `write`, if one is wanted.
    pub(crate) fn issue(&mut self, traffic: &mut Traffic, write: impl FnOnce(&[u8])) {
        let over = traffic.tally.phase == Phase::Drain;
        if over || self.issued >= traffic.requests_per_client {
            return;
        }
        debug_assert!(
            self.outstanding() < self.submitted_ns.len() as u64,
            "a window has room for its requests"
        );
        traffic.template.lend(self.client, self.issued, write);
        traffic.tally.in_flight += 1;
        self.issued += 1;
    }

    /// Everything issued is handed to the system now.
    pub(crate) fn submit(&mut self, traffic: &mut Traffic, now_ns: u64) {
        traffic.tally.submitted(self.issued - self.submitted);
        for sequence in self.submitted..self.issued {
            self.submitted_ns[self.slot(sequence)] = now_ns;
        }
        self.submitted = self.issued;
    }

    fn answered(&mut self, traffic: &mut Traffic, received_ns: u64) {
        let submitted_ns = self.submitted_ns[self.slot(self.answered)];
        self.answered += 1;
        traffic
            .tally
            .answered(received_ns.saturating_sub(submitted_ns));
    }

    fn slot(&self, sequence: u64) -> usize {
        let mask = self.submitted_ns.len() as u64 - 1;
        usize::try_from(sequence & mask).expect("below the window")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A conversation of client 0 with `requests` submitted.
    fn asked(requests: usize) -> (Sequence, Traffic) {
        let mut sequence = Sequence::new(0, requests);
        let mut traffic = Traffic {
            template: Template::new(32, 9),
            tally: Tally::new(),
            verify: Verify::Full,
            requests_per_client: requests as u64,
        };
        (0..requests).for_each(|_| sequence.issue(&mut traffic, |_| ()));
        sequence.submit(&mut traffic, 100);
        (sequence, traffic)
    }

    /// What the check says of the reply to `number`, when 0 and 1 of 4 are answered, after `change`.
    fn verdict(number: u64, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), String> {
        let (mut sequence, mut traffic) = asked(4);
        sequence.answered(&mut traffic, 200);
        sequence.answered(&mut traffic, 200);
        let mut reply = traffic.template.lend(0, number, <[u8]>::to_vec);
        change(&mut reply);
        let exchange = Exchange {
            sequence: &mut sequence,
            traffic: &mut traffic,
            received_ns: 200,
            wrong: None,
        };
        exchange.check(&reply).map_err(|wrong| format!("{wrong:?}"))
    }

    #[test]
    fn each_wrong_reply_has_its_name() {
        let same = |_: &mut Vec<u8>| ();
        assert_eq!(verdict(2, same), Ok(()));
        assert_eq!(verdict(3, same), Err("Order(3)".into()));
        assert_eq!(verdict(1, same), Err("Unexpected".into()), "given before");
        assert_eq!(verdict(4, same), Err("Unexpected".into()), "never asked");
        assert_eq!(verdict(2, |r| r.truncate(31)), Err("Length(31)".into()));
        assert_eq!(verdict(2, |r| r.clear()), Err("Length(0)".into()));
        assert_eq!(verdict(2, |r| r[0] = 0), Err("Content(0)".into()));
        assert_eq!(verdict(2, |r| r[31] ^= 1), Err("Content(31)".into()));
    }

    #[test]
    fn bodies_are_compared_as_often_as_asked() {
        let compared = |verify: Verify| (0..64).filter(|&s| verify.includes_body(s)).count();
        assert_eq!(compared(Verify::Full), 64);
        assert_eq!(compared(Verify::Sampled), 4);
        assert_eq!(compared(Verify::Header), 0);
    }

    #[test]
    fn a_full_conversation_wants_no_more_and_a_reply_to_nothing_is_unexpected() {
        let (mut sequence, mut traffic) = asked(2);
        sequence.issue(&mut traffic, |_| panic!("the limit is reached"));
        sequence.answered(&mut traffic, 150);
        sequence.answered(&mut traffic, 150);
        assert_eq!((sequence.outstanding(), traffic.tally.in_flight), (0, 0));
        let reply = traffic.template.lend(0, 2, <[u8]>::to_vec);
        let exchange = Exchange {
            sequence: &mut sequence,
            traffic: &mut traffic,
            received_ns: 0,
            wrong: None,
        };
        assert!(matches!(exchange.check(&reply), Err(Wrong::Unexpected)));
    }
}
