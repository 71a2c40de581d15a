//! The wakes that other threads have left for a shard.

/// Places of tasks, each once. Places and not names: a shard's own table knows who stands there, and a wake too many does no harm.
#[derive(Debug, Default)]
pub(super) struct Left {
    places: Vec<usize>,
    /// A bit per place: whether it stands in `places`.
    noted: Vec<u64>,
}

impl Left {
    /// Notes that the task at `place` is to be polled.
    pub(super) fn note(&mut self, place: usize) {
        let (word, bit) = (place / 64, 1 << (place % 64));
        if word >= self.noted.len() {
            self.noted.resize(word + 1, 0);
        }
        if self.noted[word] & bit == 0 {
            self.noted[word] |= bit;
            self.places.push(place);
        }
    }

    /// All that was noted since the last time, in order.
    pub(super) fn take(&mut self) -> Vec<usize> {
        let places = std::mem::take(&mut self.places);
        for place in &places {
            self.noted[place / 64] = 0;
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::Left;

    #[test]
    fn each_place_is_noted_once_until_it_was_taken() {
        let mut left = Left::default();
        for place in [130, 0, 63, 64, 130, 0] {
            left.note(place);
        }
        assert_eq!(left.take(), [130, 0, 63, 64]);
        assert!(left.take().is_empty());
        left.note(64);
        assert_eq!(left.take(), [64]);
    }
}
