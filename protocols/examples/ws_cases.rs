//! A WebSocket client that goes through the cases of Autobahn's server: for each a connection on which every message is sent back.
//!
//! ```text
//! wstest -m fuzzingserver -s SPEC
//! cargo run -p shardloop-protocols --example ws_cases -- ADDRESS AGENT [ENGINE]
//! ```
//!
//! The server's report tells what it thinks of each case. Here a line is printed for each connection that ended by a fault, which
//! most cases are about.

use shardloop::{
    Backend, ConnectOptions, Error, Kind, Plan, Service, Shard, Stream, StreamOptions, run,
    time::{self, timeout},
};
use shardloop_protocols::{
    Flow,
    drive::{Connection, OnShard, Received, Turned},
    websocket::{ClientOptions, Limits, Message, Reply, WebSocket},
};
use std::{
    env,
    hash::{BuildHasher, RandomState},
    net::SocketAddr,
    process::ExitCode,
    time::Duration,
};

/// The longest frame and the longest message of the cases, in bytes.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// For one receive. No case is silent for so long.
const SILENCE: Duration = Duration::from_secs(20);
/// For the server to close the stream, after the last word.
const GOODBYE: Duration = Duration::from_secs(2);

#[derive(Clone)]
struct Cases {
    server: SocketAddr,
    agent: String,
}

impl Service for Cases {
    async fn run<B: Backend>(self, _: Shard<B>) -> Result<(), Error> {
        let mut count = String::new();
        let asked = self.talk::<B>("/getCaseCount", |message, _| {
            if let Message::Text(text) = message {
                text.clone_into(&mut count);
            }
        });
        // How the connections beside the cases end is no case.
        let asked = asked.await;
        let Ok(count) = count.parse::<u32>() else {
            return Err(asked.err().unwrap_or("no count of cases has come".into()));
        };
        let agent = &self.agent;
        for case in 1..=count {
            let target = format!("/runCase?case={case}&agent={agent}");
            if let Err(fault) = self.talk::<B>(&target, echo).await {
                println!("{case}: {fault}");
            }
        }
        let update = format!("/updateReports?agent={agent}");
        let _ = self.talk::<B>(&update, |_, _| ()).await;
        println!("{count} cases");
        Ok(())
    }
}

fn echo(message: Message<'_>, mut reply: Reply<'_>) {
    let sent = match message {
        Message::Text(text) => reply.text(text),
        Message::Binary(bytes) => reply.binary(bytes),
    };
    sent.expect("what was received is not over the limit");
}

impl Cases {
    /// One connection from its first byte to its last.
    async fn talk<B: Backend>(
        &self,
        target: &str,
        mut hear: impl FnMut(Message<'_>, Reply<'_>),
    ) -> Result<(), Error> {
        let mut options = ClientOptions::new(&self.server.to_string(), target, seed());
        options.limits = Limits {
            frame_bytes: MESSAGE_BYTES,
            message_bytes: MESSAGE_BYTES,
            ..Limits::default()
        };
        let stream = StreamOptions {
            nodelay: true,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
        };
        let connecting = ConnectOptions {
            stream,
            deadline: Duration::from_secs(5),
        };
        let stream = B::connect(&[self.server.into()], &connecting).await?;
        let mut connection = Connection::new(stream, WebSocket::client(options));
        let mut app = |message: Message<'_>, reply: Reply<'_>| {
            hear(message, reply);
            Flow::Continue
        };
        let ended = converse(&mut connection, &mut app).await;
        // A stream that is dropped while there is something to receive is reset, and what was sent last is lost.
        let _ = connection.shutdown_write().await;
        while let Ok(Ok(received)) = timeout(GOODBYE, connection.receive()).await
            && !received.is_end()
        {}
        ended
    }
}

async fn converse<S: Stream>(
    connection: &mut Connection<S, WebSocket>,
    app: &mut impl FnMut(Message<'_>, Reply<'_>) -> Flow,
) -> Result<(), Error> {
    let mut turned = connection.start(&OnShard).await?;
    while turned == Turned::Open {
        turned = match receive(connection).await? {
            Some(received) => connection.work_off(&OnShard, app, received).await?,
            None => connection.timed_out(&OnShard).await?,
        };
    }
    Ok(())
}

/// What comes next; nothing if the machine's deadline comes first.
async fn receive<S: Stream>(
    connection: &mut Connection<S, WebSocket>,
) -> Result<Option<Received<S::Lease>>, Error> {
    let deadline = connection.timeout();
    let longest = deadline.map(|at| at.saturating_duration_since(time::now()));
    let limit = longest.map_or(SILENCE, |longest| longest.min(SILENCE));
    match timeout(limit, connection.receive()).await {
        Ok(received) => Ok(Some(received?)),
        Err(_) if deadline.is_some_and(|at| at <= time::now()) => Ok(None),
        Err(elapsed) => Err(elapsed.into()),
    }
}

/// New for each connection. Who must not be guessed takes the system's randomness instead.
fn seed() -> [u8; 32] {
    let mut seed = [0; 32];
    for part in seed.chunks_exact_mut(8) {
        part.copy_from_slice(&RandomState::new().hash_one(0).to_le_bytes());
    }
    seed
}

fn main() -> ExitCode {
    match go_through() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ws_cases: {error}");
            ExitCode::FAILURE
        }
    }
}

fn go_through() -> Result<(), Error> {
    const USAGE: &str = "arguments: ADDRESS AGENT [ENGINE]";
    let mut arguments = env::args().skip(1);
    let server = arguments.next().ok_or(USAGE)?.parse()?;
    let agent = arguments.next().ok_or(USAGE)?;
    let kind: Kind = arguments.next().as_deref().unwrap_or("auto").parse()?;
    for shard in run(kind, Plan::new(1), Cases { server, agent })?.shards {
        shard.result??;
    }
    Ok(())
}
