//! `tcp`: a length, then the payload.

use super::{Setup, Wire};
use crate::load::fault::Wrong;
use shardloop_protocols::length::{self, Length, LengthError};
use std::io;

impl Wire for Length {
    fn client(setup: &Setup) -> io::Result<Self> {
        let limit = u32::try_from(setup.payload_bytes).expect("payloads are at most 1 MiB");
        Ok(Self::new(limit))
    }

    fn frame_bytes(payload_bytes: usize) -> Option<usize> {
        Some(length::HEADER_BYTES + payload_bytes)
    }

    fn payload<'m>(message: Self::Message<'m>) -> Result<&'m [u8], Wrong> {
        Ok(message)
    }

    fn request(mut reply: length::Reply<'_>, payload: &[u8]) {
        reply
            .send(payload)
            .expect("the limit of this end is the payload itself");
    }

    fn wrong(error: LengthError) -> Wrong {
        match error {
            LengthError::TooLong { length_bytes, .. } => Wrong::Length(u64::from(length_bytes)),
            LengthError::ReplyTooLong { .. } | LengthError::Truncated { .. } => {
                unreachable!("requests fit, and the end of the stream is not asked about")
            }
        }
    }
}
