//! What a server does with a connection: the same functions for shards and for the pool.

use super::{datagrams::Datagrams, lanes::Lanes, speech::Speech};
use crate::contract::Protocol;
use shardloop::Stream;
use shardloop_protocols::{
    Fault, Flow, Side, StreamMachine,
    drive::{self, DriveError, Host},
    http1,
    length::{self, Length},
    tls::Tls,
    websocket::{self, WebSocket},
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
    pub(crate) speech: Speech,
    /// Rounds of handler work per message.
    pub(crate) work: u64,
    pub(crate) lanes: Lanes,
    pub(crate) datagrams: Datagrams,
    faults: Mutex<BTreeMap<String, u64>>,
}

impl Job {
    pub(crate) fn new(speech: Speech, work: u64, threads: usize) -> Self {
        Self {
            speech,
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
    let Speech {
        protocol,
        websocket,
        http,
        ..
    } = &job.speech;
    match protocol {
        Protocol::Tcp => serve_length(job, stream, Length::default(), host).await,
        Protocol::Tls => serve_length(job, stream, job.encrypted(Length::default()), host).await,
        Protocol::Ws => {
            serve_websocket(job, stream, WebSocket::server(websocket.clone()), host).await;
        }
        Protocol::Wss => {
            let machine = job.encrypted(WebSocket::server(websocket.clone()));
            serve_websocket(job, stream, machine, host).await;
        }
        Protocol::Http => serve_http(job, stream, http1::Server::new(*http), host).await,
        Protocol::Https => {
            let machine = job.encrypted(http1::Server::new(*http));
            serve_http(job, stream, machine, host).await;
        }
        Protocol::Echo => serve_echo(job, stream, host).await,
        Protocol::Udp => unreachable!("datagrams have no connections"),
    }
}

impl Job {
    /// A machine in TLS.
    fn encrypted<M: StreamMachine>(&self, machine: M) -> Tls<M> {
        let config = self.speech.tls.as_ref();
        Tls::server(config.expect("made for what is encrypted"), machine)
    }
}

async fn serve_length<S, M>(job: &Job, stream: S, machine: M, host: impl Host)
where
    S: Stream,
    M: for<'m, 'r> StreamMachine<Message<'m> = &'m mut [u8], Reply<'r> = length::Reply<'r>>,
{
    let mut refused = None;
    let app = |message: &mut [u8], mut reply: length::Reply<'_>| {
        job.answered(message);
        // An echo is as long as what it answers, and that was within the limit.
        refused = reply.send(message).err();
        Flow::Continue
    };
    job.conclude(drive::serve(stream, machine, app, host).await);
    if let Some(error) = refused {
        job.note(error.to_string());
    }
}

async fn serve_websocket<S, M>(job: &Job, stream: S, machine: M, host: impl Host)
where
    S: Stream,
    M: for<'m, 'r> StreamMachine<
            Message<'m> = websocket::Message<'m>,
            Reply<'r> = websocket::Reply<'r>,
        >,
{
    let mut refused = None;
    let app = |message: websocket::Message<'_>, mut reply: websocket::Reply<'_>| {
        let sent = match message {
            websocket::Message::Text(text) => {
                job.answered(text.as_bytes());
                reply.text(text)
            }
            websocket::Message::Binary(bytes) => {
                job.answered(bytes);
                reply.binary(bytes)
            }
        };
        refused = sent.err();
        Flow::Continue
    };
    job.conclude(drive::serve(stream, machine, app, host).await);
    if let Some(error) = refused {
        job.note(error.to_string());
    }
}

async fn serve_http<S, M>(job: &Job, stream: S, machine: M, host: impl Host)
where
    S: Stream,
    M: for<'m, 'r> StreamMachine<Message<'m> = http1::Request<'m>, Reply<'r> = http1::Reply<'r>>,
{
    let mut refused = None;
    let app = |mut request: http1::Request<'_>, reply: http1::Reply<'_>| {
        job.answered(request.body);
        refused = http1::echo(&mut request, reply).err();
        Flow::Continue
    };
    job.conclude(drive::serve(stream, machine, app, host).await);
    if let Some(error) = refused {
        job.note(error.to_string());
    }
}

impl Job {
    /// A connection has ended.
    fn conclude<E: Fault>(&self, ended: Result<(), DriveError<E>>) {
        let Err(error) = ended else {
            return;
        };
        let side = error.side();
        let text = match &error {
            DriveError::Protocol(fault) => fault.to_string(),
            DriveError::Stream(error) => kind(error),
        };
        self.note(match side {
            Side::Peer => text,
            Side::Us | Side::Host => format!("{side:?}: {text}"),
        });
    }
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
