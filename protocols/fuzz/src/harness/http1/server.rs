//! A server and whatever a client may send it.

use super::{
    super::{
        Meter,
        feed::{Feed, Outcome, Terms, check_cuts},
        source::Source,
    },
    LIMITS, Service,
    client::Listener,
};
use shardloop_protocols::{
    Step, StreamMachine,
    http1::{Client, ClientOptions, Limits, Server, ServerOptions, Status},
};

/// What it holds besides a message in hand: a kept buffer, and the places of what grows.
const FIXED_BYTES: usize = 16 * 1024;

/// Bytes of a client: heads, bodies, chunks, many requests in a row. What the server says must be what our client understands: as many
/// answers as there were requests, one more if it refused something, and nothing malformed.
pub(crate) fn server(data: &[u8], meter: Meter) {
    let mut source = Source::new(data);
    let limits = LIMITS[source.below(2)];
    let seed = source.byte();
    let input = source.rest();
    let mut heads = Vec::new();
    let mut unfinished = false;
    let whole = run(limits, meter, &[input], &mut |service| {
        (heads, unfinished) = (service.heads.clone(), service.unfinished);
    });
    let outcome = check_cuts(input, seed, |pieces| {
        let mut outcome = run(limits, meter, pieces, &mut |_| {});
        outcome.output = without_continue(&outcome.output);
        outcome
    });
    let refused = outcome.end.is_err();
    understood(&whole.output, &heads, unfinished, refused, meter);
}

fn run(limits: Limits, meter: Meter, pieces: &[&[u8]], look: &mut dyn FnMut(&Service)) -> Outcome {
    let options = ServerOptions {
        limits,
        // Whether it is reached depends on cuts.
        deferred_input_bytes: usize::MAX,
        ..ServerOptions::DEFAULT
    };
    let mut feed = Feed::new(
        Server::new(options),
        Service::default(),
        terms(limits, meter),
    );
    feed.start();
    for piece in pieces {
        feed.piece(piece);
        give_owed(&mut feed);
    }
    feed.end_of_input();
    give_owed(&mut feed);
    look(&feed.app);
    feed.finish()
}

pub(super) fn terms(limits: Limits, meter: Meter) -> Terms {
    Terms {
        meter,
        layers: 0,
        limit_bytes: limits.head_bytes + limits.body_bytes,
        fixed_bytes: FIXED_BYTES,
    }
}

/// Gives answers that were deferred, and goes on after each.
pub(super) fn give_owed(feed: &mut Feed<Server, Service>) {
    while feed.machine.is_ready() && feed.end().is_none() {
        let given = feed.measured(|machine, _, now, out| {
            machine.send(now, out, |reply| reply.empty(Status::ACCEPTED))
        });
        given
            .expect("an answer is owed")
            .expect("it has nothing that could be malformed");
        if feed.machine.is_closed() {
            let _ = feed.act(|_, _, _, _| Ok(Step::close(0)));
        }
        feed.piece(&[]);
    }
}

/// Whether a body is asked for depends on whether it has come already, so on cuts.
fn without_continue(output: &[u8]) -> Vec<u8> {
    const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    let (mut rest, mut kept) = (output, Vec::new());
    while let [first, tail @ ..] = rest {
        if let Some(behind) = rest.strip_prefix(CONTINUE) {
            rest = behind;
        } else {
            kept.push(*first);
            rest = tail;
        }
    }
    kept
}

fn understood(output: &[u8], heads: &[bool], unfinished: bool, refused: bool, meter: Meter) {
    let options = ClientOptions {
        outstanding: heads.len() + 1,
        ..ClientOptions::DEFAULT
    };
    let client = Client::new("example.com", options).expect("it is a host");
    let mut feed = Feed::new(client, Listener::default(), terms(options.limits, meter));
    for head in heads.iter().chain([&false]) {
        let method = if *head { "HEAD" } else { "GET" };
        let asked = feed.measured(|machine, _, now, out| {
            machine.send(now, out, |mut ask| ask.write(method, "/", &[], b""))
        });
        asked
            .expect("the window has room")
            .expect("it is well-formed");
    }
    feed.piece(output);
    feed.end_of_input();
    let last = feed.machine.last_response(|_| ()).is_some();
    let answers = feed.app.answers + usize::from(last);
    let end = match feed.end() {
        Some(Err(fault)) => format!("{fault:?}"),
        _ => "in order".to_owned(),
    };
    if unfinished {
        return;
    }
    assert!(
        matches!(&*end, "in order" | "Unanswered"),
        "our client refuses what our server says: {end}"
    );
    let (fewest, most) = (heads.len(), heads.len() + usize::from(refused));
    assert!(
        (fewest..=most).contains(&answers),
        "{answers} answers to {fewest} requests"
    );
}
