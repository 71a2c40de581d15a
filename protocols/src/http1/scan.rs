//! Where a head ends, found while it arrives: every byte is looked at once, however the head was cut.
//!
//! The scan is also the strict half of the lines: each ends with CR LF, no other control character but tab stands in them, none begins
//! with whitespace. The first such fault in the order of the bytes is the one reported, so that cuts make no difference.

use super::fault::Http1Error;

/// How far a head was looked at. Positions count from its first byte, which stays the first of the input until the head is whole.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Scan {
    at: usize,
    line_at: usize,
    lines: usize,
    first_line_bytes: usize,
}

/// How long a head may become, and what it is beyond.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) first_line_bytes: usize,
    pub(super) first_line_fault: Http1Error,
    pub(super) head_bytes: usize,
}

impl Scan {
    /// The end of the head in `input`, if it has come.
    ///
    /// # Errors
    /// A line is malformed, or the head is too long.
    pub(super) fn find(
        &mut self,
        input: &[u8],
        bounds: &Bounds,
    ) -> Result<Option<usize>, Http1Error> {
        debug_assert!(
            self.at <= input.len(),
            "what was not consumed is shown again"
        );
        loop {
            let bound = self.bound(bounds);
            let seen = &input[..input.len().min(bound)];
            if !self.line(seen)? {
                return match self.lines {
                    _ if input.len() < bound => Ok(None),
                    0 => Err(bounds.first_line_fault),
                    _ => Err(Http1Error::HeadTooLarge),
                };
            }
            if self.at == self.line_at {
                return Ok(Some(self.at + 2));
            }
            if self.lines == 0 {
                self.first_line_bytes = self.at;
            }
            self.at += 2;
            (self.line_at, self.lines) = (self.at, self.lines + 1);
        }
    }

    /// The length of the first line without its end, once that has come.
    pub(super) const fn first_line_bytes(&self) -> usize {
        self.first_line_bytes
    }

    fn bound(&self, bounds: &Bounds) -> usize {
        match self.lines {
            0 => bounds.first_line_bytes.min(bounds.head_bytes),
            _ => bounds.head_bytes,
        }
    }

    /// Goes on to the CR of the next CR LF; `false` if that is not there yet.
    fn line(&mut self, seen: &[u8]) -> Result<bool, Http1Error> {
        let begins = self.lines > 0 && self.at == self.line_at;
        if begins && matches!(seen.get(self.at), Some(b' ' | b'\t')) {
            return Err(Http1Error::ObsoleteFold);
        }
        self.at += plain_bytes(&seen[self.at.min(seen.len())..]);
        match (seen.get(self.at), seen.get(self.at + 1)) {
            (None, _) | (Some(b'\r'), None) => Ok(false),
            (Some(b'\r'), Some(b'\n')) => Ok(true),
            (Some(b'\r'), Some(_)) => Err(Http1Error::BareCarriageReturn),
            (Some(b'\n'), _) => Err(Http1Error::BareLineFeed),
            (Some(_), _) => Err(Http1Error::ControlCharacter),
        }
    }
}

/// How many bytes come before the first control character other than tab; eight at a time while there is none at all.
fn plain_bytes(bytes: &[u8]) -> usize {
    const LOW: u64 = 0x2020_2020_2020_2020;
    const TOP: u64 = 0x8080_8080_8080_8080;
    let mut plain = 0;
    while let Some(word) = bytes[plain..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        // Borrows may mark a byte too many, never one too few; which one it is, the loop below finds out.
        if word.wrapping_sub(LOW) & !word & TOP != 0 {
            break;
        }
        plain += 8;
    }
    let rest = &bytes[plain..];
    let is_control = |byte: &u8| *byte < b' ' && *byte != b'\t';
    plain + rest.iter().position(is_control).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::{Bounds, Http1Error, Scan, plain_bytes};

    const BOUNDS: Bounds = Bounds {
        first_line_bytes: 20,
        first_line_fault: Http1Error::TargetTooLong,
        head_bytes: 40,
    };

    type Found = Result<Option<usize>, Http1Error>;

    fn byte_by_byte(input: &[u8]) -> Found {
        let mut scan = Scan::default();
        for end in 1..=input.len() {
            if let Some(end) = scan.find(&input[..end], &BOUNDS)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    #[test]
    fn cuts_make_no_difference() {
        use Http1Error as Fault;
        #[rustfmt::skip]
        let table: [(&[u8], Found); 14] = [
            (b"a\r\n\r\nx", Ok(Some(5))),
            (b"a\r\nb: c\r\n\r\n", Ok(Some(11))),
            (b"a\r\nb", Ok(None)),
            (b"a\r\n\r", Ok(None)),
            (b"a\n\r\n", Err(Fault::BareLineFeed)),
            (b"a\r\n\n", Err(Fault::BareLineFeed)),
            (b"a\rb\r\n", Err(Fault::BareCarriageReturn)),
            (b"a\r\n\r\r\n", Err(Fault::BareCarriageReturn)),
            (b"a\0\r\n", Err(Fault::ControlCharacter)),
            (b"a\r\n b\r\n\r\n", Err(Fault::ObsoleteFold)),
            (b" a\r\n\r\n", Ok(Some(6))),
            (b"01234567890123456789\0", Err(Fault::TargetTooLong)),
            (b"a\r\n012345678901234567890123456789012345678\0", Err(Fault::HeadTooLarge)),
            (b"a\r\n01234567\t890123456789012345678901\r\n\r\n", Ok(Some(40))),
        ];
        for (input, expected) in table {
            assert_eq!(byte_by_byte(input), expected, "{}", input.escape_ascii());
            assert_eq!(
                Scan::default().find(input, &BOUNDS),
                expected,
                "{}",
                input.escape_ascii()
            );
        }
    }

    #[test]
    fn eight_at_a_time_is_the_same_as_one_at_a_time() {
        for byte in 0..=255_u8 {
            for at in 0..20 {
                let mut bytes = [b'a'; 20];
                bytes[at] = byte;
                let expected = if byte < 32 && byte != 9 { at } else { 20 };
                assert_eq!(plain_bytes(&bytes), expected, "{byte} at {at}");
            }
        }
    }
}
