//! Received bytes on their way into a machine: the lease they came in, and what an unfinished message left over from earlier ones.
//!
//! A machine gets to see one contiguous slice. As long as messages end within their lease that is the lease itself and nothing is
//! copied. The beginning of a message that does not is carried over; then just enough of the next lease is put behind it, twice as
//! much each time, and once the message has ended the rest is read from the lease again.

use super::spare;
use crate::machine::{Next, Step};
use std::ops::DerefMut;

/// What a connection has received and not worked off.
#[derive(Debug)]
pub(super) struct Input<L> {
    lease: Option<L>,
    /// Where in the lease the unread part begins.
    at: usize,
    carry: Vec<u8>,
}

impl<L> Default for Input<L> {
    fn default() -> Self {
        Self {
            lease: None,
            at: 0,
            carry: Vec::new(),
        }
    }
}

impl<L: DerefMut<Target = [u8]>> Input<L> {
    /// The least that is put behind a carried beginning, in bytes.
    const LEAST: usize = 4096;

    /// Takes what has arrived. There is a lease before it only if working that off was given up half-way.
    pub(super) fn push(&mut self, lease: L) {
        if let Some(before) = self.lease.replace(lease) {
            self.carry.extend_from_slice(&before[self.at..]);
        }
        self.at = 0;
    }

    /// Bytes that are no whole message yet.
    pub(super) fn unread(&self) -> usize {
        self.carry.len() + self.rest()
    }

    /// Bytes of the lease that nobody has seen.
    pub(super) fn rest(&self) -> usize {
        self.lease.as_ref().map_or(0, |lease| lease.len() - self.at)
    }

    /// Shows the machine what there is. `NeedInput` without a [`rest`](Self::rest) means that all is used up or carried over, and the
    /// lease is given back; with one, that there is more to show, once the output was drained.
    pub(super) fn show<E>(
        &mut self,
        handle: impl FnOnce(&mut [u8]) -> Result<Step, E>,
    ) -> Result<Next, E> {
        let next = if self.carry.is_empty() {
            self.show_lease(handle)?
        } else {
            self.show_carry(handle)?
        };
        if next == Next::NeedInput && self.rest() == 0 {
            self.lease = None;
        }
        Ok(next)
    }

    fn show_lease<E>(
        &mut self,
        handle: impl FnOnce(&mut [u8]) -> Result<Step, E>,
    ) -> Result<Next, E> {
        let Some(lease) = &mut self.lease else {
            return Ok(handle(&mut [])?.next);
        };
        let step = handle(&mut lease[self.at..])?;
        self.at += step.consumed;
        if step.next == Next::NeedInput && self.at < lease.len() {
            self.carry = spare::take();
            self.carry.extend_from_slice(&lease[self.at..]);
            self.at = lease.len();
        }
        Ok(step.next)
    }

    fn show_carry<E>(
        &mut self,
        handle: impl FnOnce(&mut [u8]) -> Result<Step, E>,
    ) -> Result<Next, E> {
        let old = self.carry.len();
        let more = self.rest().min(old.max(Self::LEAST));
        if let Some(lease) = &self.lease {
            self.carry
                .extend_from_slice(&lease[self.at..self.at + more]);
            self.at += more;
        }
        let step = handle(&mut self.carry)?;
        if step.consumed < old {
            self.carry.drain(..step.consumed);
        } else {
            // What was carried is worked off; what was put behind it and is still unread stands in the lease, unchanged.
            self.at -= self.carry.len() - step.consumed;
            spare::give_back(std::mem::take(&mut self.carry));
        }
        Ok(step.next)
    }
}

#[cfg(test)]
mod tests {
    use super::Input;
    use crate::machine::{Next, Step};

    /// A machine whose messages are all `size` bytes long.
    fn step(size: usize, seen: &mut Vec<u8>, input: &[u8]) -> Result<Step, ()> {
        if input.len() < size {
            return Ok(Step {
                consumed: 0,
                next: Next::NeedInput,
            });
        }
        seen.extend_from_slice(&input[..size]);
        Ok(Step {
            consumed: size,
            next: Next::Again,
        })
    }

    #[test]
    fn however_the_bytes_are_cut_the_machine_sees_all_of_them_in_order() {
        let bytes: Vec<u8> = (0..40_000_u32).flat_map(u32::to_le_bytes).collect();
        for size in [1, 4, 1000, 40_000] {
            for cut in [3, 999, 5000, 70_000] {
                let (mut input, mut seen) = (Input::default(), Vec::new());
                for piece in bytes.chunks(cut) {
                    input.push(piece.to_vec());
                    while input.show(|bytes| step(size, &mut seen, bytes)).unwrap()
                        != Next::NeedInput
                        || input.rest() > 0
                    {}
                }
                assert_eq!(
                    seen.len() + input.unread(),
                    bytes.len(),
                    "size {size} cut {cut}"
                );
                assert!(seen == bytes[..seen.len()], "size {size} cut {cut}");
                assert!(input.unread() < size);
            }
        }
    }

    #[test]
    fn a_long_message_is_shown_a_few_times_and_not_once_per_page() {
        let (mut input, mut seen, mut shown) = (Input::default(), Vec::new(), 0);
        let bytes = vec![1; 1 << 20];
        for piece in [&bytes[..1], &bytes[1..]] {
            input.push(piece.to_vec());
            while input.rest() > 0 {
                shown += 1;
                let _ = input.show(|shown| step(bytes.len(), &mut seen, shown));
            }
        }
        assert_eq!((seen.len(), input.unread()), (bytes.len(), 0));
        assert!(shown < 12, "shown {shown} times");
    }
}
