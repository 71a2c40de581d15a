//! Either end, and whatever the other may send it.

use super::{
    super::{
        Meter,
        feed::{Feed, Outcome, check_cuts},
        source::Source,
    },
    Echo, SMALL, client_options, opened, server_options, terms,
};

use shardloop_protocols::websocket::{Limits, WebSocket};
use std::sync::Arc;

/// A request to a server, or an answer to a client; frames may follow.
pub(crate) fn handshake(data: &[u8], meter: Meter) {
    let mut source = Source::new(data);
    let limits = [SMALL, Limits::default()][source.below(2)];
    let is_server = source.below(2) == 0;
    let seed = source.byte();
    check_cuts(source.rest(), seed, |pieces| {
        let machine = match is_server {
            true => WebSocket::server(Arc::new(server_options(limits))),
            false => WebSocket::client(client_options(limits)),
        };
        run(
            Feed::new(machine, Echo::default(), terms(limits, meter)),
            pieces,
        )
    });
}

/// Frames of a client to a server, which sends messages back; our client must understand what it says, and see the same messages.
pub(crate) fn server(data: &[u8], meter: Meter) {
    let outcome = frames(data, meter, true);
    let (client, _) = opened(Limits::default());
    let app = Echo {
        silent: true,
        ..Echo::default()
    };
    let feed = Feed::new(client, app, terms(Limits::default(), meter));
    let heard = run(feed, &[&outcome.output]);
    assert!(
        heard.end.is_ok() || heard.end == Err("EndedWithoutClose".to_owned()),
        "our client refuses what our server says: {:?}",
        heard.end
    );
    assert!(heard.notes == outcome.notes, "other messages came back");
}

/// Frames of a server to a client, which sends messages back masked; our server must understand what it says.
pub(crate) fn client(data: &[u8], meter: Meter) {
    let outcome = frames(data, meter, false);
    let (_, server) = opened(Limits::default());
    let app = Echo {
        silent: true,
        ..Echo::default()
    };
    let feed = Feed::new(server, app, terms(Limits::default(), meter));
    let heard = run(feed, &[&outcome.output]);
    assert!(
        heard.end.is_ok() || heard.end == Err("EndedWithoutClose".to_owned()),
        "our server refuses what our client says: {:?}",
        heard.end
    );
    assert!(heard.notes == outcome.notes, "other messages came back");
}

fn frames(data: &[u8], meter: Meter, to_server: bool) -> Outcome {
    let mut source = Source::new(data);
    let limits = [SMALL, Limits::default()][source.below(2)];
    let (pause_every, close_after) = (source.below(3), source.below(8));
    let seed = source.byte();
    check_cuts(source.rest(), seed, |pieces| {
        let (client, server) = opened(limits);
        let machine = if to_server { server } else { client };
        let app = Echo {
            pause_every,
            close_after,
            ..Echo::default()
        };
        run(Feed::new(machine, app, terms(limits, meter)), pieces)
    })
}

fn run(mut feed: Feed<WebSocket, Echo>, pieces: &[&[u8]]) -> Outcome {
    feed.start();
    pieces.iter().for_each(|piece| feed.piece(piece));
    feed.finish()
}
