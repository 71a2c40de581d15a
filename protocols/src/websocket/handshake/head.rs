//! The head of an HTTP/1.1 message: where it ends, and its header lines (RFC 9112 sections 2 and 5).
//!
//! Stricter than the RFC has to be: lines end with CR LF and nothing else, no line is folded, and no control character stands anywhere.
//! What a lenient reader makes of these differs from reader to reader, and that is what attacks live on.

use std::str;

/// Why something is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum NoHead {
    /// A control character, a bare CR or LF, or a folded line.
    Malformed,
    /// It does not end within the limit.
    TooLong,
}

/// How far a head was looked through.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Scan {
    bytes: usize,
}

impl Scan {
    /// Goes on where it stopped. The end of the head, once it is there.
    pub(in super::super) fn end(
        &mut self,
        input: &[u8],
        limit_bytes: usize,
    ) -> Result<Option<usize>, NoHead> {
        while let Some(&byte) = input.get(self.bytes) {
            if self.bytes >= limit_bytes {
                return Err(NoHead::TooLong);
            }
            let before = &input[..self.bytes];
            let fits = match (before.last(), byte) {
                (Some(b'\r'), byte) => byte == b'\n',
                (Some(b'\n'), b' ' | b'\t') => false,
                (_, byte) => matches!(byte, b'\r' | b'\t' | b' '..=b'~' | 0x80..),
            };
            if !fits {
                return Err(NoHead::Malformed);
            }
            self.bytes += 1;
            if byte == b'\n' && before.ends_with(b"\r\n\r") {
                return Ok(Some(self.bytes));
            }
        }
        Ok(None)
    }
}

/// The header lines of a head that is known to be one: name, and value without the white space around it.
pub(super) fn fields(head: &[u8]) -> impl Iterator<Item = (&str, &[u8])> {
    let lines = head.split(|byte| *byte == b'\n').skip(1);
    lines.filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let name = str::from_utf8(&line[..colon]).ok()?;
        Some((name, line[colon + 1..].trim_ascii()))
    })
}

/// The values of all lines called `name`.
pub(super) fn values<'h>(head: &'h [u8], name: &str) -> impl Iterator<Item = &'h [u8]> {
    fields(head)
        .filter(move |(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

/// A header stands there twice.
#[derive(Debug)]
pub(super) struct Repeated;

/// The value of the only line called `name`, if there is one.
pub(super) fn single<'h>(head: &'h [u8], name: &str) -> Result<Option<&'h [u8]>, Repeated> {
    let mut values = values(head, name);
    let value = values.next();
    match values.next() {
        Some(_) => Err(Repeated),
        None => Ok(value),
    }
}

/// The elements of the comma-separated list that all lines called `name` are together (RFC 9110 section 5.6.1). Empty ones are left out.
pub(super) fn list<'h>(head: &'h [u8], name: &str) -> impl Iterator<Item = &'h [u8]> {
    values(head, name)
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|element| !element.is_empty())
}

/// Whether that list has `token`, in any case.
pub(super) fn has_token(head: &[u8], name: &str, token: &str) -> bool {
    list(head, name).any(|element| element.eq_ignore_ascii_case(token.as_bytes()))
}

/// Whether it is a token (RFC 9110 section 5.6.2): a subprotocol, the name of a header.
pub(super) fn is_token(bytes: &[u8]) -> bool {
    let in_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !bytes.is_empty() && bytes.iter().all(in_token)
}

/// Whether it is at least one character, and all of them can be seen.
pub(super) fn is_visible(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic)
}

/// Whether it can be the value of a Host header: a name or an address, and perhaps a port.
pub(super) fn is_host(bytes: &[u8]) -> bool {
    is_visible(bytes) && !bytes.iter().any(|byte| b"/?#@,\\\"<>".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::{NoHead, Scan, fields, has_token, list, single};

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost:  a \r\nX: 1, ,2\r\nx:3\r\nEmpty:\r\n\r\n";

    #[test]
    fn a_head_ends_at_its_empty_line() {
        let input = [HEAD, b"more\n"].concat();
        let mut scan = Scan::default();
        for cut in 0..HEAD.len() {
            assert_eq!(scan.end(&input[..cut], 1000), Ok(None));
        }
        assert_eq!(scan.end(&input, 1000), Ok(Some(HEAD.len())));
        assert_eq!(
            Scan::default().end(&input, HEAD.len()),
            Ok(Some(HEAD.len()))
        );
        let too_long = Scan::default().end(&input, HEAD.len() - 1);
        assert_eq!(too_long, Err(NoHead::TooLong));
    }

    #[test]
    fn what_no_head_holds_is_refused_at_its_byte() {
        let cases = [
            (&b"\n"[..], 1),
            (b"GET / HTTP/1.1\nHost", 15),
            (b"GET / HTTP/1.1\rX", 16),
            (b"GET / HTTP/1.1\r\r", 16),
            (b"a\r\n b", 4),
            (b"a\r\n\tb", 4),
            (b"a\0", 2),
            (b"\x16\x03\x01", 1),
            (b"a\x7f", 2),
        ];
        for (case, after) in cases {
            let front = &case[..after - 1];
            assert_eq!(Scan::default().end(front, 1000), Ok(None), "{case:?}");
            for end in after..=case.len() {
                let refused = Scan::default().end(&case[..end], 1000);
                assert_eq!(refused, Err(NoHead::Malformed), "{case:?}");
            }
        }
    }

    #[test]
    fn header_lines_are_found_by_name() {
        let all: Vec<_> = fields(HEAD).collect();
        let expected: [(&str, &[u8]); 4] =
            [("Host", b"a"), ("X", b"1, ,2"), ("x", b"3"), ("Empty", b"")];
        assert_eq!(all, expected);
        assert_eq!(list(HEAD, "x").collect::<Vec<_>>(), [b"1", b"2", b"3"]);
        assert!(has_token(HEAD, "HOST", "A") && !has_token(HEAD, "X", "1, ,2"));
        assert_eq!(single(HEAD, "host").unwrap(), Some(&b"a"[..]));
        assert!(single(HEAD, "x").is_err() && single(HEAD, "y").unwrap().is_none());
    }
}
