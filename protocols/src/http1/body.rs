//! A body on its way in, however it is framed (RFC 9112 section 6.3).

use super::{chunked::Chunked, fault::Http1Error, limits::Limits};

/// How a message's body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// After so many bytes.
    Length(usize),
    /// As its chunks say.
    Chunked,
    /// With the connection.
    ToEnd,
}

impl Framing {
    /// After `length` bytes, if as many are allowed.
    pub(super) fn length(length: u64, limits: &Limits) -> Result<Self, Http1Error> {
        usize::try_from(length)
            .ok()
            .filter(|length| *length <= limits.body_bytes)
            .map(Self::Length)
            .ok_or(Http1Error::BodyTooLarge)
    }
}

/// What is still to come of a body.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    Length { left_bytes: usize },
    Chunked(Chunked),
    ToEnd { taken_bytes: usize },
}

impl Body {
    pub(super) const fn new(framing: Framing) -> Self {
        match framing {
            Framing::Length(bytes) => Self::Length { left_bytes: bytes },
            Framing::Chunked => Self::Chunked(Chunked::new()),
            Framing::ToEnd => Self::ToEnd { taken_bytes: 0 },
        }
    }

    /// Takes from the front of `input` into `held`; how many bytes it took.
    pub(super) fn take(
        &mut self,
        input: &[u8],
        held: &mut Vec<u8>,
        limits: &Limits,
    ) -> Result<usize, Http1Error> {
        match self {
            Self::Length { left_bytes } => {
                let taken = input.len().min(*left_bytes);
                held.extend_from_slice(&input[..taken]);
                *left_bytes -= taken;
                Ok(taken)
            }
            Self::Chunked(chunked) => chunked.decode(input, held, limits),
            Self::ToEnd { taken_bytes } => {
                *taken_bytes += input.len();
                if *taken_bytes > limits.body_bytes {
                    return Err(Http1Error::BodyTooLarge);
                }
                held.extend_from_slice(input);
                Ok(input.len())
            }
        }
    }

    /// Whether all of it has come.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Length { left_bytes } => *left_bytes == 0,
            Self::Chunked(chunked) => chunked.is_done(),
            Self::ToEnd { .. } => false,
        }
    }
}
