//! Either end: against bytes that somebody made up, and against a real peer whose records an adversary changes on their way.

use super::{
    super::{
        Meter,
        feed::{Feed, Outcome, check_cuts},
        length::{Echo, framed},
        source::Source,
    },
    configs, records, terms,
};
use shardloop_protocols::{StreamMachine, length::Length, tls::Tls};

type End = Feed<Tls<Length>, Echo>;

/// A server, and a client that lies or whose records are changed on their way.
pub(crate) fn server(data: &[u8], meter: Meter) {
    attack(data, meter, true);
}

/// A client, and a server that lies or whose records are changed on their way.
pub(crate) fn client(data: &[u8], meter: Meter) {
    attack(data, meter, false);
}

fn attack(data: &[u8], meter: Meter, on_server: bool) {
    let mut source = Source::new(data);
    let versions = source.below(3);
    match source.below(4) {
        0 => made_up(source, versions, on_server, meter),
        _ => changed(source, versions, on_server, meter),
    }
}

/// Bytes of nobody: no message comes out, and cuts make no difference to how it ends.
fn made_up(mut source: Source<'_>, versions: usize, on_server: bool, meter: Meter) {
    let seed = source.byte();
    let outcome = check_cuts(source.rest(), seed, |pieces| {
        let mut feed = end(versions, on_server, meter);
        feed.start();
        pieces.iter().for_each(|piece| feed.piece(piece));
        // Random numbers and signatures stand in it; a record's header says what it is.
        let mut outcome: Outcome = feed.finish();
        outcome.output = records(&outcome.output)
            .iter()
            .map(|record| record[0])
            .collect();
        outcome
    });
    assert!(outcome.notes.is_empty(), "a message without a handshake");
}

fn end(versions: usize, is_server: bool, meter: Meter) -> End {
    let configs = configs(versions);
    let machine = match is_server {
        true => configs.server(),
        false => configs.client(),
    };
    Feed::new(machine, Echo::default(), terms(meter))
}

/// The messages that come out are the first of those the peer has sent, unchanged: whatever else happens to the records. If nothing
/// happens but cuts, all of them come out.
fn changed(mut source: Source<'_>, versions: usize, on_server: bool, meter: Meter) {
    let mut victim = end(versions, on_server, meter);
    let mut peer = end(versions, !on_server, meter);
    (victim.app.silent, peer.app.silent) = (true, true);
    victim.start();
    peer.start();
    let mut way = Way::default();
    let mut sent = Vec::new();
    for _ in 0..64 {
        if peer.machine.is_ready() && sent.len() < 20_000 {
            let message = source.bytes(3000);
            let told = peer.measured(|machine, _, now, out| {
                machine.send(now, out, |mut reply| reply.send(message))
            });
            if let Ok(Ok(())) = told {
                sent.extend_from_slice(&framed(message));
            }
        }
        way.take(&mut peer.output);
        way.deliver(&mut source, &mut victim);
        let heard = std::mem::take(&mut victim.output);
        peer.piece(&heard);
        if victim.end().is_some() || source.is_empty() && way.is_empty() {
            break;
        }
    }
    assert!(sent.starts_with(&victim.app.notes), "a message was changed");
    if !way.touched && victim.end().is_none() && peer.end().is_none() && way.is_empty() {
        assert!(victim.app.notes == sent, "a message got lost");
        let _ = peer.act(|machine, _, now, out| machine.close(now, out));
        let goodbye = std::mem::take(&mut peer.output);
        if peer.machine.version().is_some() && !victim.machine.is_handshaking() {
            victim.piece(&goodbye);
            let end = victim.end().map(|end| end.is_ok());
            assert_eq!(end, Some(true), "a goodbye is the end");
        }
    } else if !way.touched {
        let lied = [&victim, &peer].map(|end| end.end().is_some_and(Result::is_err));
        assert_eq!(lied, [false; 2], "nobody lied, and somebody complains");
    }
    victim.end_of_input();
    assert!(sent.starts_with(&victim.app.notes), "a message was changed");
}

/// From the peer to its victim.
#[derive(Default)]
struct Way {
    records: Vec<Vec<u8>>,
    /// Something else than cuts has happened.
    touched: bool,
}

impl Way {
    fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    fn take(&mut self, output: &mut Vec<u8>) {
        self.records.extend(records(output));
        output.clear();
    }

    /// What happens to all that is on the way, one record after the other.
    fn deliver(&mut self, source: &mut Source<'_>, victim: &mut End) {
        let mut at = 0;
        while at < self.records.len() {
            let what = source.below(20);
            self.touched |= what >= 10;
            match what {
                0..=7 => {}
                8 => {
                    let cut = source.below(self.records[at].len() + 1);
                    let rest = self.records[at].split_off(cut);
                    victim.piece(&self.records[at]);
                    self.records[at] = rest;
                }
                9 => {
                    let record = std::mem::take(&mut self.records[at]);
                    record.chunks(1).for_each(|byte| victim.piece(byte));
                }
                what => self.change(what, at, source),
            }
            if let Some(record) = self.records.get(at) {
                victim.piece(record);
            }
            at += 1;
        }
        self.records.clear();
    }

    fn change(&mut self, what: usize, at: usize, source: &mut Source<'_>) {
        let follows = at + 1 < self.records.len();
        let record = &mut self.records[at];
        match what {
            10 | 11 => {
                let bytes = record.len().max(1);
                if let Some(byte) = record.get_mut(source.below(bytes)) {
                    *byte ^= source.byte().max(1);
                }
            }
            12 => record.truncate(source.below(record.len() + 1)),
            13 => {
                let copy = record.clone();
                self.records.insert(at, copy);
            }
            14 => drop(self.records.remove(at)),
            15 if follows => self.records.swap(at, at + 1),
            16 => {
                let kind = 20 + source.byte() % 5;
                let payload = source.bytes(300);
                let made_up = record_of(&[kind, 3, 3], payload);
                self.records.insert(at, made_up);
            }
            17 => {
                let put = source.byte();
                if let Some(byte) = record.first_mut() {
                    *byte = 20 + put % 5;
                }
            }
            18 => split(&mut self.records, at, source),
            _ => {
                let place = source.below(record.len() + 1);
                let put = source.bytes(40).to_vec();
                record.splice(place..place, put);
            }
        }
    }
}

/// The same payload in two records: allowed for what is not encrypted, and a forgery of what is.
fn split(records: &mut Vec<Vec<u8>>, at: usize, source: &mut Source<'_>) {
    let Some((header, payload)) = records[at].split_first_chunk::<5>() else {
        return;
    };
    let (front, back) = payload.split_at(source.below(payload.len() + 1));
    let (front, back) = (
        record_of(&header[..3], front),
        record_of(&header[..3], back),
    );
    records[at] = back;
    records.insert(at, front);
}

fn record_of(front: &[u8], payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap_or(u16::MAX);
    [front, &length.to_be_bytes(), payload].concat()
}
