//! A chat: every line goes to everybody else, on whatever shard they are.
//!
//! ```text
//! cargo run --release -p shardloop --example chat -- [ENGINE] [ADDRESS] [SHARDS]
//! ```
//!
//! Talk to it with `nc 127.0.0.1 7000`, twice. Shards share nothing but a channel; any channel whose wakers may be called from other
//! threads will do, here that of tokio. Somebody who reads too slowly misses lines, is told how many, and holds nobody up.

use shardloop::{
    Accept, Backend, Endpoint, Error, Kind, Plan, RecvHalf, SendHalf, Service, Shard, Stream, race,
    run,
};
use std::{
    env,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::broadcast::{self, error::RecvError};

/// The longest line, in bytes.
const LONGEST: usize = 4096;
/// Lines that wait for those who read slowly.
const WAITING: usize = 1024;

/// A line, and who said it.
#[derive(Clone)]
struct Said {
    by: u64,
    line: Arc<[u8]>,
}

/// The room, as all shards see it.
#[derive(Clone)]
struct Chat {
    said: broadcast::Sender<Said>,
    guests: Arc<AtomicU64>,
}

impl Service for Chat {
    async fn run<B: Backend>(self, shard: Shard<B>) -> Result<(), Error> {
        if shard.index() == 0 {
            println!("listening on {}", shard.address(0));
        }
        let mut incoming = shard.incoming(0);
        while let Some((stream, _peer)) = incoming.next().await {
            let (chat, guest) = (self.clone(), self.guests.fetch_add(1, Ordering::Relaxed));
            shard
                .spawn(chat.attend(guest, shard.clone(), stream))
                .detach();
        }
        Ok(())
    }
}

impl Chat {
    /// One guest, from coming to going.
    async fn attend<B: Backend>(self, guest: u64, shard: Shard<B>, stream: B::Stream) {
        // Before the greeting, so that nothing said after it is missed.
        let said = self.said.subscribe();
        let (receiving, sending) = stream.into_split();
        let hear = hear(guest, said, sending);
        let speak = self.speak(guest, receiving);
        // Whoever is first ends the other: a guest that has gone, or a shard that is asked to end.
        let _ = race(race(hear, speak), shard.stopping()).await;
    }

    /// Passes on what the guest says, line by line, until it goes or says too much at once.
    async fn speak(&self, guest: u64, mut receiving: impl RecvHalf) {
        let mut unread = Vec::new();
        while let Ok(lease) = receiving.recv().await
            && !lease.is_empty()
        {
            unread.extend_from_slice(&lease);
            while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
                let line: Arc<[u8]> = unread.drain(..=end).collect();
                // An error says that nobody listens, which is nobody's fault.
                let _ = self.said.send(Said { by: guest, line });
            }
            if unread.len() > LONGEST {
                return;
            }
        }
    }
}

/// Tells the guest what the others say.
async fn hear(guest: u64, mut said: broadcast::Receiver<Said>, mut sending: impl SendHalf) {
    let mut greeting = format!("you are guest {guest}\n").into_bytes();
    loop {
        let (sent, mut line) = sending.send_all(greeting).await;
        if sent.is_err() {
            return;
        }
        line.clear();
        greeting = loop {
            match said.recv().await {
                Ok(said) if said.by == guest => {}
                Ok(said) => {
                    line.extend_from_slice(format!("guest {}: ", said.by).as_bytes());
                    line.extend_from_slice(&said.line);
                    break line;
                }
                Err(RecvError::Lagged(missed)) => {
                    line.extend_from_slice(format!("({missed} lines missed)\n").as_bytes());
                    break line;
                }
                Err(RecvError::Closed) => return,
            }
        };
    }
}

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("chat: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Error> {
    let mut arguments = env::args().skip(1);
    let kind: Kind = arguments.next().as_deref().unwrap_or("auto").parse()?;
    let address = arguments
        .next()
        .as_deref()
        .unwrap_or("127.0.0.1:7000")
        .parse()?;
    let shards = arguments.next().as_deref().unwrap_or("2").parse()?;
    let chat = Chat {
        said: broadcast::Sender::new(WAITING),
        guests: Arc::default(),
    };
    let plan = Plan::new(shards).endpoint(Endpoint::tcp(address, Accept::Handoff));
    for shard in run(kind, plan, chat)?.shards {
        println!("shard {}: {} guests", shard.index, shard.metrics.adopted);
        shard.result??;
    }
    Ok(())
}
