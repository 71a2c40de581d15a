//! A text that comes in pieces, cut anywhere, checked as it comes (RFC 6455 section 8.1, RFC 3629).
//!
//! It stops at the first byte that no UTF-8 can have at its place, even in the middle of a character, and looks at no byte twice but
//! those of a character that was cut.

/// What has come of a text.
#[derive(Debug, Default)]
pub(super) struct Text {
    whole: String,
    /// The beginning of a character; its bytes are valid so far.
    begun: [u8; 4],
    begun_bytes: usize,
}

/// The text is not UTF-8.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotUtf8;

impl Text {
    /// Bytes that have come.
    pub(super) fn len(&self) -> usize {
        self.whole.len() + self.begun_bytes
    }

    /// Appends a piece.
    pub(super) fn push(&mut self, piece: &[u8]) -> Result<(), NotUtf8> {
        let piece = self.end_character(piece)?;
        match std::str::from_utf8(piece) {
            Ok(valid) => self.whole.push_str(valid),
            Err(fault) if fault.error_len().is_some() => return Err(NotUtf8),
            Err(fault) => {
                let (valid, begun) = piece.split_at(fault.valid_up_to());
                let valid = std::str::from_utf8(valid).expect("it is valid up to there");
                self.whole.push_str(valid);
                self.begun[..begun.len()].copy_from_slice(begun);
                self.begun_bytes = begun.len();
            }
        }
        Ok(())
    }

    /// Ends the character that was cut, as far as `piece` has it; what is left of `piece`.
    fn end_character<'p>(&mut self, piece: &'p [u8]) -> Result<&'p [u8], NotUtf8> {
        let mut rest = piece;
        while self.begun_bytes > 0
            && let Some((byte, behind)) = rest.split_first()
        {
            self.begun[self.begun_bytes] = *byte;
            self.begun_bytes += 1;
            rest = behind;
            match std::str::from_utf8(&self.begun[..self.begun_bytes]) {
                Ok(character) => {
                    self.whole.push_str(character);
                    self.begun_bytes = 0;
                }
                Err(fault) if fault.error_len().is_some() => return Err(NotUtf8),
                Err(_) => {}
            }
        }
        Ok(rest)
    }

    /// The text, if it does not end in the middle of a character.
    pub(super) fn finish(self) -> Result<String, NotUtf8> {
        match self.begun_bytes {
            0 => Ok(self.whole),
            _ => Err(NotUtf8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{NotUtf8, Text};

    /// The number of bytes after which it is refused; `None` if it is not.
    fn refused_after(bytes: &[u8]) -> Option<usize> {
        let mut text = Text::default();
        for (at, byte) in bytes.iter().enumerate() {
            if text.push(&[*byte]) == Err(NotUtf8) {
                return Some(at + 1);
            }
        }
        text.finish().is_err().then_some(bytes.len())
    }

    #[test]
    fn a_text_is_the_same_however_it_is_cut() {
        let whole = "aé€😀\u{10ffff}\u{800}z κόσμε";
        for first in 0..=whole.len() {
            for second in first..=whole.len() {
                let bytes = whole.as_bytes();
                let mut text = Text::default();
                for piece in [&bytes[..first], &bytes[first..second], &bytes[second..]] {
                    assert_eq!(text.push(piece), Ok(()));
                }
                assert_eq!(text.len(), whole.len());
                assert_eq!(text.finish().as_deref(), Ok(whole));
            }
        }
    }

    #[test]
    fn the_first_byte_that_cannot_be_is_the_last_that_is_looked_at() {
        let table: &[(&str, &[u8], Option<usize>)] = &[
            ("a continuation alone", b"a\x80", Some(2)),
            ("an over-long slash", b"\xc0\xaf", Some(1)),
            ("over-long in three", b"\xe0\x9f\x80", Some(2)),
            ("over-long in four", b"\xf0\x8f\x80\x80", Some(2)),
            ("a surrogate", b"\xed\xa0\x80", Some(2)),
            ("beyond the last", b"\xf4\x90\x80\x80", Some(2)),
            ("five bytes", b"\xf8\x88\x80\x80\x80", Some(1)),
            ("a character cut by ASCII", b"\xe2\x82z", Some(3)),
            ("a character cut by another", b"\xe2\x82\xc3\xa9", Some(3)),
            ("an end in a character", b"a\xf0\x9f\x98", Some(4)),
            ("the last of all", b"\xf4\x8f\xbf\xbf", None),
        ];
        for (name, bytes, after) in table {
            assert_eq!(refused_after(bytes), *after, "{name}");
            assert_eq!(
                std::str::from_utf8(bytes).is_err(),
                after.is_some(),
                "{name}"
            );
        }
    }
}
