//! A WebSocket server that sends every message back.
//!
//! ```text
//! cargo run --release -p shardloop-protocols --example ws_echo -- [PORT] [ENGINE] [SHARDS]
//! ```
//!
//! Port 0, the default, takes any that is free. Browsers reach it with `new WebSocket("ws://127.0.0.1:PORT")`.

use shardloop::{Accept, Backend, Endpoint, Error, Kind, Plan, Service, Shard, run};
use shardloop_protocols::{
    Flow,
    drive::{self, OnShard},
    websocket::{Limits, Message, Reply, ServerOptions, WebSocket},
};
use std::{env, net::Ipv4Addr, process::ExitCode, sync::Arc};

/// The longest frame and the longest message, in bytes.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;

#[derive(Clone)]
struct Echo;

impl Service for Echo {
    async fn run<B: Backend>(self, shard: Shard<B>) -> Result<(), Error> {
        if shard.index() == 0 {
            println!("listening on {}", shard.address(0));
        }
        let limits = Limits {
            frame_bytes: MESSAGE_BYTES,
            message_bytes: MESSAGE_BYTES,
            ..Limits::default()
        };
        let options = Arc::new(ServerOptions {
            limits,
            ..ServerOptions::default()
        });
        let mut incoming = shard.incoming(0);
        while let Some((stream, peer)) = incoming.next().await {
            let served = drive::serve(stream, WebSocket::server(options.clone()), echo, OnShard);
            let task = async move {
                if let Err(fault) = served.await {
                    eprintln!("{peer}: {fault}");
                }
            };
            shard.spawn(task).detach();
        }
        Ok(())
    }
}

fn echo(message: Message<'_>, mut reply: Reply<'_>) -> Flow {
    let sent = match message {
        Message::Text(text) => reply.text(text),
        Message::Binary(bytes) => reply.binary(bytes),
    };
    sent.expect("what was received is not over the limit");
    Flow::Continue
}

fn main() -> ExitCode {
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ws_echo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve() -> Result<(), Error> {
    let mut arguments = env::args().skip(1);
    let port = arguments.next().as_deref().unwrap_or("0").parse::<u16>()?;
    let kind: Kind = arguments.next().as_deref().unwrap_or("auto").parse()?;
    let shards = arguments.next().as_deref().unwrap_or("2").parse()?;
    let address = (Ipv4Addr::LOCALHOST, port).into();
    let plan = Plan::new(shards).endpoint(Endpoint::tcp(address, Accept::Handoff));
    for shard in run(kind, plan, Echo)?.shards {
        shard.result??;
    }
    Ok(())
}
