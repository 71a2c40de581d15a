//! The header of a frame, read and written (RFC 6455 section 5.2).
//!
//! Each byte is judged as soon as it is there, in the order in which they come, so that a broken header is refused for the same reason
//! however the input was cut.

use super::fault::WebSocketError;

/// The longest payload of a control frame, in bytes (section 5.5).
pub(super) const CONTROL_BYTES: usize = 125;
/// The longest header: two bytes, eight of length, four of key.
pub(super) const HEADER_BYTES_MOST: usize = 14;

const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASK: u8 = 0x80;
/// In place of a length: 16 bits of it follow.
const LENGTH_16: u8 = 126;
/// In place of a length: 64 bits of it follow.
const LENGTH_64: u8 = 127;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation = 0,
    Text = 1,
    Binary = 2,
    Close = 8,
    Ping = 9,
    Pong = 10,
}

impl Opcode {
    fn of(first: u8) -> Result<Self, WebSocketError> {
        Ok(match first & 0x0f {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            other => return Err(WebSocketError::ReservedOpcode(other)),
        })
    }

    pub(super) const fn is_control(self) -> bool {
        self as u8 >= 8
    }
}

/// What is allowed where a header is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Whether frames are masked: those of clients are, those of servers are not.
    pub(super) masked: bool,
    /// Whether a message has begun and not ended.
    pub(super) in_message: bool,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) fin: bool,
    pub(super) opcode: Opcode,
    pub(super) payload_bytes: u64,
    /// Zeros if the frame is not masked: they change nothing.
    pub(super) key: [u8; 4],
    /// Its own length.
    pub(super) bytes: usize,
}

impl Header {
    /// Reads the header at the front of `input`; `None` if it is not all there.
    pub(super) fn read(input: &[u8], rules: Rules) -> Result<Option<Self>, WebSocketError> {
        let Some(&first) = input.first() else {
            return Ok(None);
        };
        let (fin, opcode) = read_first(first, rules)?;
        let Some(&second) = input.get(1) else {
            return Ok(None);
        };
        check_second(second, opcode, rules)?;
        let Some((payload_bytes, rest)) = read_length(second & !MASK, &input[2..])? else {
            return Ok(None);
        };
        let Some((key, rest)) = read_key(rules, rest) else {
            return Ok(None);
        };
        Ok(Some(Self {
            fin,
            opcode,
            payload_bytes,
            key,
            bytes: input.len() - rest.len(),
        }))
    }
}

fn read_first(first: u8, rules: Rules) -> Result<(bool, Opcode), WebSocketError> {
    if first & RESERVED != 0 {
        return Err(WebSocketError::ReservedBits);
    }
    let (fin, opcode) = (first & FIN != 0, Opcode::of(first)?);
    match opcode {
        Opcode::Continuation if !rules.in_message => Err(WebSocketError::LoneContinuation),
        Opcode::Text | Opcode::Binary if rules.in_message => Err(WebSocketError::Interleaved),
        _ if opcode.is_control() && !fin => Err(WebSocketError::FragmentedControl),
        _ => Ok((fin, opcode)),
    }
}

fn check_second(second: u8, opcode: Opcode, rules: Rules) -> Result<(), WebSocketError> {
    match (second & MASK != 0, rules.masked) {
        (false, true) => Err(WebSocketError::NotMasked),
        (true, false) => Err(WebSocketError::Masked),
        _ if opcode.is_control() && usize::from(second & !MASK) > CONTROL_BYTES => {
            Err(WebSocketError::LongControl)
        }
        _ => Ok(()),
    }
}

/// The length, and what stands behind it.
fn read_length(short: u8, input: &[u8]) -> Result<Option<(u64, &[u8])>, WebSocketError> {
    let (length, least, rest) = match short {
        LENGTH_16 => match input.split_first_chunk() {
            Some((bytes, rest)) => (u64::from(u16::from_be_bytes(*bytes)), 126, rest),
            None => return Ok(None),
        },
        LENGTH_64 => match input.split_first_chunk() {
            Some((bytes, rest)) => (u64::from_be_bytes(*bytes), 65_536, rest),
            None => return Ok(None),
        },
        short => (u64::from(short), 0, input),
    };
    if length >> 63 != 0 {
        return Err(WebSocketError::LengthTopBit);
    }
    if length < least {
        return Err(WebSocketError::LengthNotMinimal);
    }
    Ok(Some((length, rest)))
}

fn read_key(rules: Rules, input: &[u8]) -> Option<([u8; 4], &[u8])> {
    if !rules.masked {
        return Some(([0; 4], input));
    }
    input.split_first_chunk().map(|(key, rest)| (*key, rest))
}

/// Appends a header.
pub(super) fn write(
    out: &mut Vec<u8>,
    fin: bool,
    opcode: Opcode,
    payload_bytes: usize,
    key: Option<[u8; 4]>,
) {
    let mask = if key.is_some() { MASK } else { 0 };
    out.push(if fin { FIN } else { 0 } | opcode as u8);
    match (u8::try_from(payload_bytes), u16::try_from(payload_bytes)) {
        (Ok(short), _) if short < LENGTH_16 => out.push(mask | short),
        (_, Ok(middle)) => {
            out.push(mask | LENGTH_16);
            out.extend_from_slice(&middle.to_be_bytes());
        }
        _ => {
            out.push(mask | LENGTH_64);
            out.extend_from_slice(&(payload_bytes as u64).to_be_bytes());
        }
    }
    out.extend(key.into_iter().flatten());
}

#[cfg(test)]
mod tests {
    use super::{Header, Opcode, Rules, write};

    #[test]
    fn what_is_written_is_read_at_every_border_of_a_length() {
        for payload_bytes in [0, 1, 125, 126, 127, 65_535, 65_536, 1 << 20] {
            for key in [None, Some([1, 2, 3, 4])] {
                let mut bytes = Vec::new();
                write(&mut bytes, true, Opcode::Binary, payload_bytes, key);
                let rules = Rules {
                    masked: key.is_some(),
                    in_message: false,
                };
                let header = Header {
                    fin: true,
                    opcode: Opcode::Binary,
                    payload_bytes: payload_bytes as u64,
                    key: key.unwrap_or_default(),
                    bytes: bytes.len(),
                };
                assert_eq!(Header::read(&bytes, rules), Ok(Some(header)));
                for cut in 0..bytes.len() {
                    assert_eq!(Header::read(&bytes[..cut], rules), Ok(None));
                }
            }
        }
    }
}
