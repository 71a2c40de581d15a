//! What a server does with a connection: the same functions for shards and for the pool.

use super::{datagrams::Datagrams, lanes::Lanes};
use crate::contract::Protocol;
use shardloop::Stream;
use shardloop_protocols::{
    Flow, Side,
    drive::{self, DriveError, Host},
    length::{Length, LengthError, Reply},
    work,
};
use std::{
    collections::BTreeMap,
    io,
    sync::{Mutex, PoisonError},
};

/// What is served, and what was counted while doing so.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) protocol: Protocol,
    /// Rounds of handler work per message.
    pub(crate) work: u64,
    pub(crate) lanes: Lanes,
    pub(crate) datagrams: Datagrams,
    faults: Mutex<BTreeMap<String, u64>>,
}

impl Job {
    pub(crate) fn new(protocol: Protocol, work: u64, threads: usize) -> Self {
        Self {
            protocol,
            work,
            lanes: Lanes::new(threads),
            datagrams: Datagrams::default(),
            faults: Mutex::default(),
        }
    }

    /// Connections that ended by a fault, by kind.
    pub(crate) fn faults(&self) -> BTreeMap<String, u64> {
        self.faults
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn note(&self, fault: String) {
        /// Kinds of faults that are kept apart; a hostile peer can make up many.
        const KINDS: usize = 64;
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = if faults.len() < KINDS || faults.contains_key(&fault) {
            fault
        } else {
            "others".to_owned()
        };
        *faults.entry(kind).or_default() += 1;
    }

    pub(super) fn answered(&self, message: &[u8]) {
        if self.work > 0 {
            work::spin(message, self.work);
        }
        self.lanes.message();
    }
}

/// Serves one connection to its end.
pub(crate) async fn serve_connection<S: Stream>(job: &Job, stream: S, host: impl Host) {
    job.lanes.accepted();
    match job.protocol {
        Protocol::Tcp => serve_length(job, stream, host).await,
        Protocol::Echo => serve_echo(job, stream, host).await,
        Protocol::Udp => unreachable!("datagrams have no connections"),
    }
}

async fn serve_length<S: Stream>(job: &Job, stream: S, host: impl Host) {
    let mut refused = None;
    let app = |message: &mut [u8], mut reply: Reply<'_>| {
        job.answered(message);
        // An echo is as long as what it answers, and that was within the limit.
        refused = reply.send(message).err();
        Flow::Continue
    };
    if let Err(error) = drive::serve(stream, Length::default(), app, host).await {
        note_length(job, &error);
    }
    if let Some(error) = refused {
        job.note(error.to_string());
    }
}

fn note_length(job: &Job, error: &DriveError<LengthError>) {
    let side = error.side();
    let text = match error {
        DriveError::Protocol(fault) => fault.to_string(),
        DriveError::Stream(error) => kind(error),
    };
    job.note(match side {
        Side::Peer => text,
        Side::Us | Side::Host => format!("{side:?}: {text}"),
    });
}

async fn serve_echo<S: Stream>(job: &Job, stream: S, host: impl Host) {
    if let Err(error) = drive::echo(stream, |bytes| job.answered(bytes), host).await {
        job.note(kind(&error));
    }
}

/// Without addresses and numbers, so that equal faults are counted together.
pub(super) fn kind(error: &io::Error) -> String {
    format!("the connection broke: {}", error.kind())
}
