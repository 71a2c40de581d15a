//! Percent-encoding (RFC 3986 section 2.1), undone where a service asks for it.

use std::{error, fmt};

/// Why a text could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PercentError {
    /// A percent sign without two hexadecimal digits.
    Malformed,
    /// What was encoded is not UTF-8.
    NotUtf8,
}

impl fmt::Display for PercentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Malformed => "a percent sign without two hexadecimal digits",
            Self::NotUtf8 => "what was percent-encoded is not UTF-8",
        })
    }
}

impl error::Error for PercentError {}

/// Undoes percent-encoding. A plus sign stays one: only forms mean a space by it.
///
/// # Errors
/// The encoding is malformed, or not of UTF-8.
pub fn decode(text: &str) -> Result<String, PercentError> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = tail else {
            return Err(PercentError::Malformed);
        };
        let byte = digit(*high)
            .zip(digit(*low))
            .map(|(high, low)| high << 4 | low);
        let byte = byte.and_then(|byte| u8::try_from(byte).ok());
        bytes.push(byte.ok_or(PercentError::Malformed)?);
        rest = tail;
    }
    String::from_utf8(bytes).map_err(|_| PercentError::NotUtf8)
}

#[cfg(test)]
mod tests {
    use super::{PercentError, decode};

    #[test]
    fn decoding() {
        let table = [
            ("", Ok("")),
            ("a+b", Ok("a+b")),
            ("a%20b%2Fc%2f", Ok("a b/c/")),
            ("%C3%A9", Ok("\u{e9}")),
            ("%25%32%35", Ok("%25")),
            ("%", Err(PercentError::Malformed)),
            ("%2", Err(PercentError::Malformed)),
            ("%+1", Err(PercentError::Malformed)),
            ("%zz", Err(PercentError::Malformed)),
            ("%C3", Err(PercentError::NotUtf8)),
        ];
        for (text, expected) in table {
            assert_eq!(decode(text), expected.map(str::to_owned), "{text}");
        }
    }
}
