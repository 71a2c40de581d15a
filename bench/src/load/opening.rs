//! The staggered start: requests begin one after the other over a few milliseconds, not in one burst.
//!
//! Each client's window is opened in parts, the parts of all clients interleaved: step k is part k / clients of client k mod
//! clients. So neither the server's first wakes nor the replies of one client come in step with each other.

/// Time over which the first requests are spread.
const SPREAD_NS: u64 = 4_000_000;

/// Parts of one window, and parts of all windows together, at most.
const PARTS: usize = 16;
const STEPS: usize = 8_192;

/// Steps after which replies have their turn.
const STEPS_AT_ONCE: usize = 64;

/// The steps of one start.
#[derive(Debug)]
pub(crate) struct Opening {
    clients: usize,
    window: usize,
    parts: usize,
    next: usize,
    began_ns: u64,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) client: usize,
    pub(crate) requests: usize,
}

impl Opening {
    pub(crate) fn new(clients: usize, window: usize) -> Self {
        Self {
            clients,
            window,
            parts: (STEPS / clients).clamp(1, PARTS.min(window)),
            next: 0,
            began_ns: 0,
        }
    }

    /// It begins now.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.began_ns = now_ns;
    }

    /// When it began.
    pub(crate) fn began_ns(&self) -> u64 {
        self.began_ns
    }

    /// Every step is done.
    pub(crate) fn is_done(&self) -> bool {
        self.next == self.steps()
    }

    /// The steps that are due, a few of them at most.
    pub(crate) fn due(&mut self, now_ns: u64) -> impl Iterator<Item = Part> + use<> {
        let elapsed_ns = now_ns.saturating_sub(self.began_ns).min(SPREAD_NS);
        let due = self.steps() as u64 * elapsed_ns / SPREAD_NS;
        let due = usize::try_from(due).expect("at most the steps");
        let from = self.next;
        self.next = due.clamp(from, from + STEPS_AT_ONCE);
        let (clients, window, parts) = (self.clients, self.window, self.parts);
        (from..self.next).map(move |step| {
            let part = step / clients;
            Part {
                client: step % clients,
                requests: window * (part + 1) / parts - window * part / parts,
            }
        })
    }

    fn steps(&self) -> usize {
        self.clients * self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_window_is_opened_exactly() {
        for (clients, window) in [(1, 1), (1, 1_024), (16, 16), (7, 5), (600, 33), (9_000, 2)] {
            let mut opening = Opening::new(clients, window);
            let mut begun = vec![0; clients];
            while !opening.is_done() {
                for part in opening.due(u64::MAX) {
                    begun[part.client] += part.requests;
                }
            }
            assert!(begun.iter().all(|&requests| requests == window));
        }
    }

    #[test]
    fn it_takes_its_time_and_interleaves_the_clients() {
        let mut opening = Opening::new(4, 2);
        assert_eq!(opening.due(0).count(), 0);
        let first: Vec<usize> = opening.due(SPREAD_NS / 2).map(|part| part.client).collect();
        assert_eq!(first, [0, 1, 2, 3]);
        assert!(!opening.is_done());
        assert_eq!(opening.due(SPREAD_NS).count(), 4);
        assert!(opening.is_done());
    }
}
