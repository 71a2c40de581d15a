//! `length`.

use super::{
    Meter,
    feed::{Feed, Outcome, Terms, Witness, check_cuts},
    source::Source,
};
use shardloop_protocols::{
    App, Flow, StreamMachine,
    length::{HEADER_BYTES, Length, Reply},
};

/// Sends every message back, with each byte increased by one, and pauses now and then.
#[derive(Default)]
pub(crate) struct Echo {
    pub(crate) notes: Vec<u8>,
    pub(crate) messages: usize,
    pub(crate) longest_bytes: usize,
    pub(crate) pause_every: usize,
    pub(crate) silent: bool,
}

impl<M> App<M> for Echo
where
    M: for<'m, 'r> StreamMachine<Message<'m> = &'m mut [u8], Reply<'r> = Reply<'r>>,
{
    fn message(&mut self, message: &mut [u8], mut reply: Reply<'_>) -> Flow {
        self.notes.extend_from_slice(&framed(message));
        self.messages += 1;
        self.longest_bytes = self.longest_bytes.max(message.len() + HEADER_BYTES);
        message
            .iter_mut()
            .for_each(|byte| *byte = byte.wrapping_add(1));
        if !self.silent {
            reply.send(message).expect("it is as long as its question");
        }
        match self.pause_every {
            0 => Flow::Continue,
            every if self.messages.is_multiple_of(every) => Flow::Pause,
            _ => Flow::Continue,
        }
    }
}

impl Witness for Echo {
    fn notes(&mut self) -> &mut Vec<u8> {
        &mut self.notes
    }

    fn messages(&self) -> usize {
        self.messages
    }

    fn longest_answer_bytes(&self) -> usize {
        self.longest_bytes
    }
}

/// A message as it stands on the wire.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("a message of a fuzzer is short");
    [&length.to_be_bytes(), message].concat()
}

/// Frames of any length; what comes back must be what was understood, as the other end understands it.
pub(crate) fn length(data: &[u8], meter: Meter) {
    const LIMITS_BYTES: [u32; 4] = [0, 100, 5000, u32::MAX];
    let mut source = Source::new(data);
    let limit_bytes = LIMITS_BYTES[source.below(4)];
    let pause_every = source.below(4);
    let seed = source.byte();
    let terms = Terms {
        meter,
        layers: 0,
        limit_bytes: 0,
        fixed_bytes: 0,
    };
    let outcome = check_cuts(source.rest(), seed, |pieces| {
        let app = Echo {
            pause_every,
            ..Echo::default()
        };
        run(Feed::new(Length::new(limit_bytes), app, terms), pieces)
    });
    let app = Echo {
        silent: true,
        ..Echo::default()
    };
    let answers = Feed::new(Length::new(limit_bytes), app, terms);
    let mut seen = run(answers, &[&outcome.output]);
    assert!(
        seen.end.is_ok(),
        "our own output is refused: {:?}",
        seen.end
    );
    lower(&mut seen.notes);
    assert!(seen.notes == outcome.notes, "other answers than questions");
}

fn run(mut feed: Feed<Length, Echo>, pieces: &[&[u8]]) -> Outcome {
    feed.start();
    pieces.iter().for_each(|piece| feed.piece(piece));
    feed.finish()
}

/// Undoes what [`Echo`] did to the payloads of whole frames.
pub(crate) fn lower(mut frames: &mut [u8]) {
    while let Some((header, rest)) = frames.split_first_chunk_mut::<HEADER_BYTES>() {
        let length = u32::from_be_bytes(*header) as usize;
        let (payload, rest) = rest.split_at_mut(length);
        payload
            .iter_mut()
            .for_each(|byte| *byte = byte.wrapping_sub(1));
        frames = rest;
    }
}
