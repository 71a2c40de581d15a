//! Bytes the system has not taken yet, in order: appended at the end, taken from the front, moved seldom.

/// A queue of bytes that is one slice.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    bytes: Vec<u8>,
    /// Bytes in front that are taken already.
    taken: usize,
}

impl Backlog {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// All of it.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    /// Appends. What is taken is given up first where it is at least half, so each byte is moved once at most on average, and the buffer
    /// holds at most twice what is waiting.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        if self.taken > self.bytes.len() / 2 {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes bytes from the front.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.taken += bytes;
        assert!(
            self.taken <= self.bytes.len(),
            "only what is there is taken"
        );
        if self.taken == self.bytes.len() {
            self.clear();
        }
    }

    /// Gives all up.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_the_order_they_came_and_the_buffer_stays_small() {
        let mut backlog = Backlog::default();
        let (mut pushed, mut left) = (0_u32, 0_u32);
        for round in 0..10_000_u32 {
            for _ in 0..round % 7 {
                backlog.push(&pushed.to_be_bytes());
                pushed += 1;
            }
            let waiting = backlog.rest().len() / 4;
            for _ in 0..waiting.min(round as usize % 5 + 1) {
                assert_eq!(backlog.rest()[..4], left.to_be_bytes());
                backlog.take(4);
                left += 1;
            }
            assert!(backlog.bytes.len() <= 2 * backlog.rest().len() + 64);
        }
        backlog.take(backlog.rest().len());
        assert!(backlog.is_empty());
    }
}
