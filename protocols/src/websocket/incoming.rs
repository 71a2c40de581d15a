//! What comes in: frames put together to messages (RFC 6455 sections 5.4 and 5.5).
//!
//! A message in one frame that lies whole in the input is unmasked where it lies and shown from there. Any other is taken out of the
//! input as it comes, unmasked and checked, into memory that grows with what has arrived and never with what was announced. Headers
//! and control frames are left in the input until they are whole: they are short.

use super::{
    fault::WebSocketError,
    frame::{Header, Opcode, Rules},
    mask,
    options::Limits,
    text::{NotUtf8, Text},
};
use std::str;

/// A message, as the application sees it.
#[derive(Debug, PartialEq, Eq)]
pub enum Message<'m> {
    /// Text.
    Text(&'m str),
    /// Bytes; they may be changed in place.
    Binary(&'m mut [u8]),
}

/// What a part of the input came to.
#[derive(Debug)]
pub(super) enum Event<'i> {
    /// A message that lies in the input.
    Message(Message<'i>),
    /// A text that came in pieces.
    Text(String),
    /// A binary message that came in pieces.
    Binary(Vec<u8>),
    Ping(&'i [u8]),
    Pong,
    Close(&'i [u8]),
}

/// A part of the input that was dealt with.
#[derive(Debug)]
pub(super) struct Taken<'i> {
    /// Its length; 0 means that more input is needed.
    pub(super) bytes: usize,
    pub(super) event: Option<Event<'i>>,
}

const NEED_INPUT: Taken<'_> = Taken {
    bytes: 0,
    event: None,
};

/// The receiving half of a connection.
#[derive(Debug)]
pub(super) struct Incoming {
    masked: bool,
    limits: Limits,
    /// Nobody wants to see messages any more.
    discarding: bool,
    /// The frame whose header was taken and whose payload is not all there.
    payload: Option<Payload>,
    /// The message that has begun.
    begun: Option<Begun>,
}

#[derive(Debug)]
struct Payload {
    left_bytes: u64,
    /// For the next byte.
    key: [u8; 4],
    fin: bool,
}

#[derive(Debug)]
struct Begun {
    held: Held,
    fragments: usize,
}

#[derive(Debug)]
enum Held {
    Text(Text),
    Binary(Vec<u8>),
    /// Of a message that nobody will see.
    Nothing,
}

impl Incoming {
    pub(super) fn new(masked: bool, limits: Limits) -> Self {
        Self {
            masked,
            limits,
            discarding: false,
            payload: None,
            begun: None,
        }
    }

    /// Bytes of the message that has begun.
    pub(super) fn held_bytes(&self) -> usize {
        self.begun.as_ref().map_or(0, |begun| begun.held.len())
    }

    /// From now on messages are taken and forgotten.
    pub(super) fn discard(&mut self) {
        self.discarding = true;
        if let Some(begun) = &mut self.begun {
            begun.held = Held::Nothing;
        }
    }

    /// Deals with what is at the front of `input`: a frame, or a part of its payload.
    pub(super) fn next<'i>(&mut self, input: &'i mut [u8]) -> Result<Taken<'i>, WebSocketError> {
        if self.payload.is_some() {
            return self.take_piece(input, 0);
        }
        let rules = Rules {
            masked: self.masked,
            in_message: self.begun.is_some(),
        };
        let Some(header) = Header::read(input, rules)? else {
            return Ok(NEED_INPUT);
        };
        if header.opcode.is_control() {
            return Ok(take_control(&header, input));
        }
        self.check_limits(&header)?;
        match whole_payload(&header, input.len()) {
            Some(end) if header.fin && self.begun.is_none() && !self.discarding => {
                self.take_whole(&header, &mut input[..end])
            }
            _ => {
                self.begin(&header);
                self.take_piece(input, header.bytes)
            }
        }
    }

    fn check_limits(&self, header: &Header) -> Result<(), WebSocketError> {
        let (limits, length_bytes) = (&self.limits, header.payload_bytes);
        if length_bytes > limits.frame_bytes as u64 {
            return Err(WebSocketError::FrameTooLong {
                length_bytes,
                limit_bytes: limits.frame_bytes,
            });
        }
        if length_bytes.saturating_add(self.held_bytes() as u64) > limits.message_bytes as u64 {
            return Err(WebSocketError::MessageTooLong {
                limit_bytes: limits.message_bytes,
            });
        }
        let fragments = self.begun.as_ref().map_or(0, |begun| begun.fragments);
        if fragments >= limits.fragments {
            return Err(WebSocketError::TooManyFragments {
                limit: limits.fragments,
            });
        }
        Ok(())
    }

    /// A message in one frame, which is all of `frame`.
    fn take_whole<'i>(
        &mut self,
        header: &Header,
        frame: &'i mut [u8],
    ) -> Result<Taken<'i>, WebSocketError> {
        let bytes = frame.len();
        let payload = &mut frame[header.bytes..];
        self.unmask(payload, header.key);
        let message = match header.opcode {
            Opcode::Text => match str::from_utf8(payload) {
                Ok(text) => Message::Text(text),
                Err(_) => return Err(WebSocketError::TextNotUtf8),
            },
            _ => Message::Binary(payload),
        };
        Ok(Taken {
            bytes,
            event: Some(Event::Message(message)),
        })
    }

    /// The header of a frame is taken out of the input.
    fn begin(&mut self, header: &Header) {
        self.payload = Some(Payload {
            left_bytes: header.payload_bytes,
            key: header.key,
            fin: header.fin,
        });
        let begun = self.begun.get_or_insert_with(|| Begun {
            held: match header.opcode {
                _ if self.discarding => Held::Nothing,
                Opcode::Text => Held::Text(Text::default()),
                _ => Held::Binary(Vec::new()),
            },
            fragments: 0,
        });
        begun.fragments += 1;
    }

    /// As much of the current frame's payload as stands in `input` from `at` on.
    fn take_piece<'i>(
        &mut self,
        input: &'i mut [u8],
        at: usize,
    ) -> Result<Taken<'i>, WebSocketError> {
        let (Some(payload), Some(begun)) = (&mut self.payload, &mut self.begun) else {
            return Ok(NEED_INPUT);
        };
        let there = input.len() - at;
        let bytes = usize::try_from(payload.left_bytes).map_or(there, |left| left.min(there));
        let piece = &mut input[at..at + bytes];
        if self.masked {
            mask::apply(piece, payload.key);
        }
        payload.key = mask::advance(payload.key, bytes);
        payload.left_bytes -= bytes as u64;
        begun.held.push(piece)?;
        let event = match payload.left_bytes {
            0 => self.end_frame()?,
            _ => None,
        };
        Ok(Taken {
            bytes: at + bytes,
            event,
        })
    }

    /// The payload of the current frame is all there; the message, if it was its last frame.
    fn end_frame<'i>(&mut self) -> Result<Option<Event<'i>>, WebSocketError> {
        let fin = self.payload.take().is_some_and(|payload| payload.fin);
        match self.begun.take_if(|_| fin) {
            Some(begun) => begun.held.finish(),
            None => Ok(None),
        }
    }

    fn unmask(&self, payload: &mut [u8], key: [u8; 4]) {
        if self.masked {
            mask::apply(payload, key);
        }
    }
}

impl Held {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Binary(bytes) => bytes.len(),
            Self::Nothing => 0,
        }
    }

    fn push(&mut self, piece: &[u8]) -> Result<(), WebSocketError> {
        match self {
            Self::Text(text) => text.push(piece)?,
            Self::Binary(bytes) => bytes.extend_from_slice(piece),
            Self::Nothing => {}
        }
        Ok(())
    }

    fn finish<'i>(self) -> Result<Option<Event<'i>>, WebSocketError> {
        Ok(match self {
            Self::Text(text) => Some(Event::Text(text.finish()?)),
            Self::Binary(bytes) => Some(Event::Binary(bytes)),
            Self::Nothing => None,
        })
    }
}

impl From<NotUtf8> for WebSocketError {
    fn from(NotUtf8: NotUtf8) -> Self {
        Self::TextNotUtf8
    }
}

/// A control frame, once it is whole.
fn take_control<'i>(header: &Header, input: &'i mut [u8]) -> Taken<'i> {
    let Some(end) = whole_payload(header, input.len()) else {
        return NEED_INPUT;
    };
    let payload = &mut input[header.bytes..end];
    mask::apply(payload, header.key);
    let event = match header.opcode {
        Opcode::Ping => Event::Ping(payload),
        Opcode::Close => Event::Close(payload),
        _ => Event::Pong,
    };
    Taken {
        bytes: end,
        event: Some(event),
    }
}

/// Where the frame ends, if it does within `input_bytes`.
fn whole_payload(header: &Header, input_bytes: usize) -> Option<usize> {
    let there = input_bytes - header.bytes;
    let payload_bytes = usize::try_from(header.payload_bytes).ok()?;
    (payload_bytes <= there).then(|| header.bytes + payload_bytes)
}
