//! Decrypted bytes that the inner machine has not taken yet.

/// Read at the front, filled at the back; it holds no memory while it is empty and at rest.
#[derive(Debug, Default)]
pub(super) struct Plain {
    bytes: Vec<u8>,
    /// Where the unread part begins.
    at: usize,
}

impl Plain {
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the inner machine is to see.
    pub(super) fn unread(&mut self) -> &mut [u8] {
        &mut self.bytes[self.at..]
    }

    /// So much of it was taken.
    pub(super) fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.len(), "the machine took more than there was");
        self.at += bytes;
    }

    /// To be appended to.
    pub(super) fn back(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.at);
        self.at = 0;
        &mut self.bytes
    }

    /// So much may come: takes the memory at once and not in steps.
    pub(super) fn expect(&mut self, bytes: usize) {
        self.back().reserve(bytes);
    }

    /// Gives memory back that an idle connection does not need.
    pub(super) fn shrink(&mut self) {
        if self.is_empty() {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Plain;

    #[test]
    fn what_was_taken_makes_room() {
        let (mut plain, mut model) = (Plain::default(), Vec::new());
        for round in 0..100_u8 {
            plain.back().extend([round; 7]);
            model.extend([round; 7]);
            plain.consume(6);
            model.drain(..6);
            assert_eq!(plain.unread(), model);
            assert_eq!(plain.back().len(), model.len(), "it only grows");
        }
    }
}
