//! A server's connection as the driver runs it.

use super::{
    ANSWER, BINARY, CLOSE, CONTINUATION, Echo, FIN, PING, PONG, REQUEST, TEXT, closing,
    from_client, from_server, server,
};
use crate::{
    fake::{Running, World},
    random::Random,
};
use shardloop_protocols::{
    Side,
    drive::{self, DriveError},
    websocket::{RequestError, WebSocketError},
};
use std::time::Duration;

fn serve(world: &World) -> Running<'static, Result<(), DriveError<WebSocketError>>> {
    let served = drive::serve(world.stream(), server(), Echo::default(), world.clone());
    Running::new(world, served)
}

#[test]
fn a_connection_from_its_first_byte_to_its_last() {
    let long = Random::new(1).bytes(1_000_000);
    let said = [
        REQUEST.as_bytes().to_vec(),
        from_client(FIN | TEXT, b"first"),
        from_client(BINARY, &long[..300_000]),
        from_client(PING, b"meanwhile"),
        from_client(FIN | CONTINUATION, &long[300_000..]),
        from_client(FIN | BINARY, &long),
        from_client(CLOSE, &closing(1000, "")),
    ];
    let answered = [
        ANSWER.as_bytes().to_vec(),
        from_server(FIN | TEXT, b"first"),
        from_server(PONG, b"meanwhile"),
        from_server(FIN | BINARY, &long),
        from_server(FIN | BINARY, &long),
        from_server(CLOSE, &closing(1000, "")),
    ];
    for cut in [1000, 4096, 70_000, usize::MAX] {
        let world = World::new();
        said.concat()
            .chunks(cut)
            .for_each(|piece| world.arrive(piece));
        world.peer_closes();
        assert!(serve(&world).finish().is_ok(), "pieces of {cut}");
        assert!(world.sent() == answered.concat(), "pieces of {cut}");
        assert!(world.write_shut_down());
        assert_eq!(world.held_bytes(), 0);
    }
}

#[test]
fn a_fault_is_answered_before_the_connection_ends() {
    let world = World::new();
    world.arrive(REQUEST.as_bytes());
    world.arrive(&from_server(FIN | TEXT, b"without a mask"));
    world.peer_closes();
    let fault = serve(&world).finish().unwrap_err();
    assert_eq!(fault.side(), Side::Peer);
    let answer = [ANSWER.as_bytes(), &from_server(CLOSE, &closing(1002, ""))];
    assert_eq!(world.sent(), answer.concat());
}

#[test]
fn a_request_that_does_not_end_is_not_awaited_for_ever() {
    let (world, second) = (World::new(), Duration::from_secs(1));
    world.arrive(&REQUEST.as_bytes()[..50]);
    let mut served = serve(&world);
    assert!(served.run().is_none());
    world.pass(9 * second);
    assert!(served.run().is_none());
    world.pass(second);
    assert!(served.run().is_none(), "it lingers");
    world.peer_closes();
    let fault = WebSocketError::Request(RequestError::TimedOut);
    match served.finish() {
        Err(DriveError::Protocol(found)) => assert_eq!(found, fault),
        other => panic!("{other:?}"),
    }
    assert!(world.sent().starts_with(b"HTTP/1.1 408 "));
}
