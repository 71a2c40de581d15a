//! A server of HTTP/1.1 on two shards: `http_echo [PORT]`, on 127.0.0.1, port 0 by default.
//!
//! It serves until SIGINT or SIGTERM, on io_uring where that works. Any method on any path is answered with its body;
//! `GET /hello/{name}` says hello, and `GET /count/{n}` counts in chunks.

use shardloop::{Accept, Backend, Endpoint, Kind, Plan, Service, Shard, run};
use shardloop_protocols::{
    drive::{self, OnShard},
    http1::{Reply, Request, Response, Router, Server, ServerOptions, Status, echo},
};
use std::{error::Error, rc::Rc};

#[derive(Clone)]
struct Http;

impl Service for Http {
    async fn run<B: Backend>(self, shard: Shard<B>) -> Result<(), shardloop::Error> {
        if shard.index() == 0 {
            println!("listening on {}", shard.address(0));
        }
        let router = Rc::new(router());
        let mut incoming = shard.incoming(0);
        while let Some((stream, peer)) = incoming.next().await {
            let router = Rc::clone(&router);
            let app = move |request: Request<'_>, reply: Reply<'_>| router.serve(request, reply);
            let machine = Server::new(ServerOptions::DEFAULT);
            let served = drive::serve(stream, machine, app, OnShard);
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

fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = match std::env::args().nth(1) {
        Some(port) => port.parse()?,
        None => 0,
    };
    let address = format!("127.0.0.1:{port}").parse()?;
    let plan = Plan::new(2).endpoint(Endpoint::tcp(address, Accept::Handoff));
    run(Kind::Auto, plan, Http)?;
    Ok(())
}

fn router() -> Router {
    Router::new()
        .route("GET", "/hello/{name}", |_, params, reply| {
            let (status, body) = match params.decoded("name").transpose() {
                Ok(name) => (Status::OK, format!("hello, {}\n", name.unwrap_or_default())),
                Err(error) => (Status::BAD_REQUEST, format!("{error}\n")),
            };
            let response = Response {
                status,
                headers: &[("Content-Type", b"text/plain; charset=utf-8")],
                body: body.as_bytes(),
            };
            reply.respond(&response).expect("its header is well-formed");
        })
        .route("GET", "/count/{n}", |_, params, reply| {
            let most = params.get("n").and_then(|n| n.parse().ok()).unwrap_or(0);
            let writer = reply.chunked(Status::OK, &[("Content-Type", b"text/plain")]);
            let mut writer = writer.expect("its header is well-formed");
            for n in 1..=most.min(1000) {
                writer.chunk(format!("{n}\n").as_bytes());
            }
            writer.finish();
        })
        .otherwise(|request, _, reply| {
            echo(request, reply).expect("a Content-Type that was received may be sent");
        })
}
