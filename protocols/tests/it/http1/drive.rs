//! The machines on streams: an answer that comes later, a client that asks.

use crate::fake::{World, block_on};
use shardloop_protocols::{
    Flow, StreamMachine,
    drive::{self, Connection, Turned},
    http1::{
        Answer, Ask, Client, ClientOptions, Reply, Request, Router, Server, ServerOptions, Status,
        echo,
    },
};

const GET: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const LAST: &[u8] = b"GET /last HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
const CREATED: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n";
const CLOSED: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[test]
fn answers_that_come_later() {
    let world = World::new();
    world.arrive(&[GET, GET, LAST].concat());
    let served = async {
        let mut connection = Connection::new(world.stream(), Server::new(ServerOptions::DEFAULT));
        let mut app = |_: Request<'_>, reply: Reply<'_>| {
            reply.defer();
            Flow::Continue
        };
        let received = connection.receive().await.unwrap();
        let mut turned = connection.work_off(&world, &mut app, received).await;
        let mut answers = 0;
        while turned.unwrap() == Turned::Open && connection.machine().is_ready() {
            let answer = |reply: Reply<'_>| reply.empty(Status::CREATED);
            connection.send(&world, answer).await.unwrap().unwrap();
            answers += 1;
            turned = connection.work_off_rest(&world, &mut app).await;
        }
        (
            answers,
            connection.unread(),
            connection.machine().is_closed(),
        )
    };
    assert_eq!(block_on(&world, served), (3, 0, true));
    assert_eq!(world.sent(), [CREATED, CREATED, CLOSED].concat());
}

#[test]
fn a_router_is_served_until_the_peer_closes() {
    let world = World::new();
    world.arrive(
        &[
            GET,
            b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbo",
        ]
        .concat(),
    );
    world.arrive(b"dy");
    world.peer_closes();
    let router = Router::new().otherwise(|request, _, reply| echo(request, reply).unwrap());
    let server = Server::new(ServerOptions::DEFAULT);
    block_on(
        &world,
        drive::serve(world.stream(), server, router, world.clone()),
    )
    .unwrap();
    let kind = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n";
    let expected = format!("{kind}Content-Length: 0\r\n\r\n{kind}Content-Length: 4\r\n\r\nbody");
    assert_eq!(String::from_utf8(world.sent()).unwrap(), expected);
}

#[test]
fn a_refusal_is_sent_before_the_connection_is_closed() {
    let world = World::new();
    world.arrive(b"GET / HTTP/1.1\r\n\r\n");
    world.peer_closes();
    let app = |_: Request<'_>, _: Reply<'_>| Flow::Continue;
    let server = Server::new(ServerOptions::DEFAULT);
    let served = block_on(
        &world,
        drive::serve(world.stream(), server, app, world.clone()),
    );
    assert!(served.is_err());
    assert_eq!(
        String::from_utf8(world.sent()).unwrap(),
        super::refusal(Status::BAD_REQUEST)
    );
    assert!(world.write_shut_down());
}

#[test]
fn a_client_asks_and_is_answered() {
    let world = World::new();
    let asked = async {
        let client = Client::new("h", ClientOptions::DEFAULT).unwrap();
        let mut connection = Connection::new(world.stream(), client);
        let sent = connection.send(&world, |mut ask: Ask<'_>| ask.write("GET", "/", &[], b""));
        sent.await.unwrap().unwrap();
        world.arrive(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody");
        let mut seen = Vec::new();
        let mut app = |answer: Answer<'_>, _: Ask<'_>| {
            seen.extend_from_slice(answer.body);
            Flow::Continue
        };
        let received = connection.receive().await.unwrap();
        let turned = connection.work_off(&world, &mut app, received).await;
        assert_eq!(turned.unwrap(), Turned::Open);
        seen
    };
    assert_eq!(block_on(&world, asked), b"body");
    assert_eq!(world.sent(), GET);
}
