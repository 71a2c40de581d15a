//! The messages: what stands in a request, and whether a reply is the same.
//!
//! A message is a header of 16 bytes (`ANB`, the tag of this run, the client, the sequence, big-endian) and a body that depends on
//! client and sequence. Bodies are windows into one pseudo-random template, so making one is a copy and checking one a comparison.

/// Bytes in front of the body.
pub(crate) const HEADER_BYTES: usize = 16;

/// First three bytes of each message.
const MAGIC: [u8; 3] = *b"ANB";

/// Positions of the template a body may begin at, and their distance in bytes.
const POSITIONS: usize = 512;
const STRIDE_BYTES: usize = 8;

/// 2^64 divided by the golden ratio: neighbouring sequences get bodies far apart.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The bytes of all messages of a run.
#[derive(Debug)]
pub(crate) struct Template {
    tag: u8,
    payload_bytes: usize,
    bytes: Vec<u8>,
}

/// Where a reply differs from its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Difference {
    /// Only the sequence: it is the reply to another request of this client.
    Sequence(u64),
    /// This byte, counted from the start of the payload.
    Byte(usize),
}

impl Template {
    /// Messages of `payload_bytes`, at least [`HEADER_BYTES`], marked with `tag`.
    pub(crate) fn new(payload_bytes: usize, tag: u8) -> Self {
        assert!(payload_bytes >= HEADER_BYTES, "a payload holds its header");
        Self {
            tag,
            payload_bytes,
            bytes: noise(payload_bytes + POSITIONS * STRIDE_BYTES),
        }
    }

    /// Bytes of each message.
    pub(crate) fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Lends one message to `use_it`. Its header is written over the template for that long, so that the message is one slice and
    /// needs no assembling.
    pub(crate) fn lend<R>(
        &mut self,
        client: u32,
        sequence: u64,
        use_it: impl FnOnce(&[u8]) -> R,
    ) -> R {
        let header = self.header(client, sequence);
        let at = position(client, sequence);
        let message = &mut self.bytes[at..at + self.payload_bytes];
        let covered: [u8; HEADER_BYTES] =
            *message.first_chunk().expect("a payload holds its header");
        message[..HEADER_BYTES].copy_from_slice(&header);
        let result = use_it(message);
        message[..HEADER_BYTES].copy_from_slice(&covered);
        result
    }

    /// Compares the header of a reply of the right length with the one expected.
    pub(crate) fn check_header(
        &self,
        reply: &[u8],
        client: u32,
        sequence: u64,
    ) -> Result<(), Difference> {
        let expected = self.header(client, sequence);
        let found: &[u8; HEADER_BYTES] = reply.first_chunk().expect("a payload holds its header");
        if *found == expected {
            return Ok(());
        }
        Err(match first_difference(found, &expected) {
            byte @ 0..8 => Difference::Byte(byte),
            _ => Difference::Sequence(u64::from_be_bytes(
                *found.last_chunk().expect("a header ends with the sequence"),
            )),
        })
    }

    /// Compares the body of a reply of the right length.
    pub(crate) fn check_body(
        &self,
        reply: &[u8],
        client: u32,
        sequence: u64,
    ) -> Result<(), Difference> {
        let at = position(client, sequence);
        let expected = &self.bytes[at + HEADER_BYTES..at + self.payload_bytes];
        let body = &reply[HEADER_BYTES..];
        if body == expected {
            return Ok(());
        }
        let byte = first_difference(body, expected);
        Err(Difference::Byte(HEADER_BYTES + byte))
    }

    fn header(&self, client: u32, sequence: u64) -> [u8; HEADER_BYTES] {
        let [a, n, b] = MAGIC;
        let magic = u32::from_be_bytes([a, n, b, self.tag]);
        let header = u128::from(magic) << 96 | u128::from(client) << 64 | u128::from(sequence);
        header.to_be_bytes()
    }
}

/// The sequence a reply of at least [`HEADER_BYTES`] names.
pub(crate) fn sequence_of(reply: &[u8]) -> u64 {
    let header: &[u8; HEADER_BYTES] = reply.first_chunk().expect("a payload holds its header");
    u64::from_be_bytes(
        *header
            .last_chunk()
            .expect("a header ends with the sequence"),
    )
}

/// Where in the template a message begins.
fn position(client: u32, sequence: u64) -> usize {
    let mixed = (sequence ^ u64::from(client) << 40).wrapping_mul(SCATTER);
    let index = mixed >> (u64::BITS - POSITIONS.ilog2());
    usize::try_from(index).expect("below POSITIONS") * STRIDE_BYTES
}

fn first_difference(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Pseudo-random bytes, the same ones in every run (splitmix64).
fn noise(length: usize) -> Vec<u8> {
    let words = (1..=length.div_ceil(8) as u64).flat_map(|i| {
        let mut x = i.wrapping_mul(SCATTER);
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ x >> 31).to_le_bytes()
    });
    words.take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(template: &mut Template, client: u32, sequence: u64) -> Vec<u8> {
        template.lend(client, sequence, <[u8]>::to_vec)
    }

    #[test]
    fn a_message_is_its_own_reply_and_nobody_elses() {
        for bytes in [16, 17, 64, 1_024] {
            let mut template = Template::new(bytes, 7);
            let sent = message(&mut template, 3, 9);
            assert_eq!(sent.len(), bytes);
            assert_eq!(&sent[..4], b"ANB\x07");
            assert_eq!(template.check_header(&sent, 3, 9), Ok(()));
            assert_eq!(template.check_body(&sent, 3, 9), Ok(()));
            assert_eq!(
                template.check_header(&sent, 3, 8),
                Err(Difference::Sequence(9))
            );
            assert_eq!(template.check_header(&sent, 2, 9), Err(Difference::Byte(7)));
        }
    }

    #[test]
    fn another_run_is_told_by_its_tag() {
        let stale = message(&mut Template::new(16, 1), 0, 0);
        let here = Template::new(16, 2);
        assert_eq!(here.check_header(&stale, 0, 0), Err(Difference::Byte(3)));
    }

    #[test]
    fn every_single_corrupt_byte_is_found_where_it_is() {
        let mut template = Template::new(200, 0);
        let sent = message(&mut template, 1, 2);
        for byte in (0..200).filter(|byte| !(8..16).contains(byte)) {
            let mut reply = sent.clone();
            reply[byte] ^= 0x10;
            let found = template
                .check_header(&reply, 1, 2)
                .and_then(|()| template.check_body(&reply, 1, 2));
            assert_eq!(found, Err(Difference::Byte(byte)));
        }
    }

    #[test]
    fn neighbours_have_different_bodies() {
        let mut template = Template::new(64, 0);
        for (client, sequence) in [(0, 0), (0, 99), (5, 1_000_000), (59_999, 3)] {
            let here = message(&mut template, client, sequence);
            let next = message(&mut template, client, sequence + 1);
            let other = message(&mut template, client + 1, sequence);
            assert_ne!(here[HEADER_BYTES..], next[HEADER_BYTES..]);
            assert_ne!(here[HEADER_BYTES..], other[HEADER_BYTES..]);
        }
    }

    #[test]
    fn lending_leaves_the_template_as_it_was() {
        let mut template = Template::new(48, 0);
        let before = template.bytes.clone();
        for sequence in 0..2_000 {
            let _ = message(&mut template, 1, sequence);
        }
        assert_eq!(template.bytes, before);
    }
}
