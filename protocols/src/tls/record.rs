//! Where records begin and end in the bytes that were handed to the TLS library: it keeps the beginning of an unfinished one to itself.

/// Bytes in front of each record: its type, a version, and the length of what follows (RFC 8446, section 5.1).
pub(super) const HEADER_BYTES: usize = 5;

/// The most plaintext in one record (RFC 8446, section 5.1).
pub(super) const RECORD_BYTES: usize = 1 << 14;

/// What a header is that does not begin a record, but may begin a sentence.
const PRINTABLE: std::ops::RangeInclusive<u8> = b' '..=b'~';

/// Follows the headers of records, whatever pieces they come in.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The current header, or as much of it as has come.
    header: [u8; HEADER_BYTES],
    /// Bytes of the current record that have come, its header among them.
    come: usize,
    /// The first header of all has come, and another has begun after it.
    past_first: bool,
}

impl Records {
    /// So many bytes more have gone the way of all others.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while let Some((&first, rest)) = bytes.split_first() {
            if self.come < HEADER_BYTES {
                self.header[self.come] = first;
                self.come += 1;
                bytes = rest;
            } else {
                let body = bytes.len().min(self.end() - self.come);
                self.come += body;
                bytes = &bytes[body..];
            }
            if self.come >= HEADER_BYTES && self.come >= self.end() {
                self.come = 0;
                self.past_first = true;
            }
        }
    }

    /// Bytes of a record that has not come whole.
    pub(super) fn unfinished_bytes(&self) -> usize {
        self.come
    }

    /// The first bytes of the connection, if they are text and no record.
    pub(super) fn text(&self) -> Option<[u8; HEADER_BYTES]> {
        let is_text = self.header.iter().all(|byte| PRINTABLE.contains(byte));
        (is_text && !self.past_first).then_some(self.header)
    }

    /// Where the current record ends, once its header has come.
    fn end(&self) -> usize {
        let [.., high, low] = self.header;
        HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]))
    }
}

#[cfg(test)]
mod tests {
    use super::Records;

    #[test]
    fn ends_are_found_in_whatever_pieces_records_come() {
        let bytes = [
            &[22, 3, 1, 0, 3, 1, 2, 3][..],
            &[23, 3, 3, 0, 0],
            &[23, 3, 3, 1],
        ]
        .concat();
        let ends = [8, 13];
        for piece_bytes in 1..=bytes.len() {
            let (mut records, mut passed) = (Records::default(), 0);
            for piece in bytes.chunks(piece_bytes) {
                records.pass(piece);
                passed += piece.len();
                let begun = ends.iter().rfind(|end| **end <= passed).unwrap_or(&0);
                assert_eq!(records.unfinished_bytes(), passed - begun);
            }
        }
    }

    #[test]
    fn only_the_first_bytes_of_all_count_as_text() {
        let text = |bytes: &[u8]| {
            let mut records = Records::default();
            records.pass(bytes);
            records.text()
        };
        assert_eq!(text(b"GET / HTTP/1.1\r\n"), Some(*b"GET /"));
        assert_eq!(text(b"GET"), None);
        assert_eq!(text(&[22, 3, 1, 0, 1, 9]), None);
        assert_eq!(
            text(&[&[22, 3, 1, 0, 1, 9][..], b"GET / HTTP/1.1\r\n"].concat()),
            None
        );
    }
}
