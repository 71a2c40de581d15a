//! Clients and servers of every protocol, driven on shards of the simulator: over a network that loses, delays and resets.

use crate::{random::Random, tls::authority::Authority};
use shardloop::{
    Accept, Backend, ConnectOptions, Endpoint, Plan, Shard, Sim, StreamOptions,
    sim::{Link, Loss, Outcome, World, check},
};
use shardloop_protocols::{
    App, Flow, StreamMachine,
    drive::{self, Connection, DriveError, OnShard, Turned},
    http1,
    length::{self, Length},
    tls::{ClientConfig, ClientOptions, Provider, ServerConfig, ServerOptions, Tls},
    websocket::{self, WebSocket},
};
use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, OnceLock},
    time::Duration,
};

const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 443);
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const QUESTIONS: usize = 5;

/// A server that echoes.
trait Echoes: StreamMachine {
    fn echo(message: Self::Message<'_>, reply: Self::Reply<'_>);
}

/// A client of such a server.
trait Asks: StreamMachine {
    fn ask(request: Self::Reply<'_>, question: &[u8]);
    fn answer(message: Self::Message<'_>) -> Vec<u8>;
}

impl Echoes for Length {
    fn echo(message: &mut [u8], mut reply: length::Reply<'_>) {
        reply.send(message).expect("as long as its question");
    }
}

impl Asks for Length {
    fn ask(mut request: length::Reply<'_>, question: &[u8]) {
        request.send(question).expect("it is short");
    }

    fn answer(message: &mut [u8]) -> Vec<u8> {
        message.to_vec()
    }
}

impl Echoes for WebSocket {
    fn echo(message: websocket::Message<'_>, mut reply: websocket::Reply<'_>) {
        let websocket::Message::Binary(bytes) = message else {
            panic!("nobody sent a text")
        };
        reply.binary(bytes).expect("as long as its question");
    }
}

impl Asks for WebSocket {
    fn ask(mut request: websocket::Reply<'_>, question: &[u8]) {
        request.binary(question).expect("it is short");
    }

    fn answer(message: websocket::Message<'_>) -> Vec<u8> {
        let websocket::Message::Binary(bytes) = message else {
            panic!("nobody sent a text")
        };
        bytes.to_vec()
    }
}

impl Echoes for http1::Server {
    fn echo(mut request: http1::Request<'_>, reply: http1::Reply<'_>) {
        http1::echo(&mut request, reply).expect("what came may be sent");
    }
}

impl Asks for http1::Client {
    fn ask(mut request: http1::Ask<'_>, question: &[u8]) {
        let written = request.write("POST", "/echo", &[], question);
        written.expect("it is well formed");
    }

    fn answer(answer: http1::Answer<'_>) -> Vec<u8> {
        assert_eq!(answer.status, http1::Status::OK);
        answer.body.to_vec()
    }
}

impl<M: Echoes> Echoes for Tls<M> {
    fn echo(message: Self::Message<'_>, reply: Self::Reply<'_>) {
        M::echo(message, reply);
    }
}

impl<M: Asks> Asks for Tls<M> {
    fn ask(request: Self::Reply<'_>, question: &[u8]) {
        M::ask(request, question);
    }

    fn answer(message: Self::Message<'_>) -> Vec<u8> {
        M::answer(message)
    }
}

struct Echo;

impl<M: Echoes> App<M> for Echo {
    fn message(&mut self, message: M::Message<'_>, reply: M::Reply<'_>) -> Flow {
        M::echo(message, reply);
        Flow::Continue
    }
}

/// Questions, and how many of them were answered.
struct Interview {
    questions: Vec<Vec<u8>>,
    answered: usize,
}

impl<M: Asks> App<M> for Interview {
    fn message(&mut self, message: M::Message<'_>, _: M::Reply<'_>) -> Flow {
        assert!(
            M::answer(message) == self.questions[self.answered],
            "another answer"
        );
        self.answered += 1;
        Flow::Continue
    }
}

async fn serve<M: Echoes + 'static>(shard: Shard<Sim>, machine: fn() -> M) {
    let mut incoming = shard.incoming(0);
    while let Some((stream, _peer)) = incoming.next().await {
        let served = drive::serve(stream, machine(), Echo, OnShard);
        // A network that resets connections is this test's subject, not its fault.
        shard.spawn(async move { drop(served.await) }).detach();
    }
}

/// Asks until everything was answered, over as many connections as it takes.
async fn interview<M: Asks>(machine: fn() -> M, seed: u64) {
    let mut random = Random::new(seed);
    let question = |_| {
        let most = [3, 1000, 40_000][random.below(3)];
        let size = random.below(most);
        random.bytes(size)
    };
    let mut interview = Interview {
        questions: (0..QUESTIONS).map(question).collect(),
        answered: 0,
    };
    while interview.answered < QUESTIONS {
        let stream = StreamOptions {
            nodelay: true,
            send_buffer_bytes: None,
            receive_buffer_bytes: None,
        };
        let deadline = Duration::from_secs(20);
        let options = ConnectOptions { stream, deadline };
        if let Ok(stream) = Sim::connect(&[SERVER.into()], &options).await {
            // A broken connection is followed by the next.
            let _ = talk(Connection::new(stream, machine()), &mut interview).await;
        }
    }
}

async fn talk<M: Asks>(
    mut connection: Connection<<Sim as Backend>::Stream, M>,
    interview: &mut Interview,
) -> Result<(), DriveError<M::Error>> {
    let mut turned = connection.open(&OnShard, interview).await?;
    while turned == Turned::Open && interview.answered < QUESTIONS {
        let (before, question) = (
            interview.answered,
            interview.questions[interview.answered].clone(),
        );
        connection
            .send(&OnShard, |request| M::ask(request, &question))
            .await?;
        while turned == Turned::Open && interview.answered == before {
            turned = connection.turn(&OnShard, interview).await?;
        }
    }
    turned = connection.close(&OnShard).await?;
    while turned == Turned::Open {
        turned = connection.turn(&OnShard, interview).await?;
    }
    Ok(())
}

fn trial<C: Asks + 'static, S: Echoes + 'static>(
    seed: u64,
    client: fn() -> C,
    server: fn() -> S,
) -> Outcome {
    let mut random = Random::new(seed);
    let mut link = Link::perfect(Duration::from_millis(1 + random.below(20) as u64));
    link.jitter = Duration::from_millis(random.below(20) as u64);
    link.loss = Loss::Random([0.0, 0.02, 0.1][random.below(3)]);
    link.reset = [0.0, 0.01][random.below(2)];
    let mut world = World::new(seed, link);
    let mut plan = Plan::new(2).endpoint(Endpoint::tcp(SERVER, Accept::Handoff));
    // Longer than any of the machines waits for its peer's goodbye.
    plan.drain = Duration::from_secs(60);
    let service = async move |shard: Shard<Sim>| serve(shard, server).await;
    world.server(SERVER.ip(), plan, service).expect("starts");
    let service =
        async move |shard: Shard<Sim>| interview(client, seed + shard.index() as u64).await;
    world.client(CLIENT, Plan::new(2), service).expect("starts");
    world.run()
}

fn certified() -> &'static (ServerConfig, ClientConfig) {
    static CERTIFIED: OnceLock<(ServerConfig, ClientConfig)> = OnceLock::new();
    CERTIFIED.get_or_init(|| {
        let authority = Authority::new("everybody's");
        let provider = Provider::built_in;
        let server = ServerOptions::usual(authority.server(), provider());
        let client = ClientOptions::usual(authority.roots(), "localhost", provider());
        (
            ServerConfig::new(&server).expect("the certificate is good"),
            ClientConfig::new(&client).expect("the authority is one"),
        )
    })
}

fn tls_server<M: StreamMachine>(inner: M) -> Tls<M> {
    Tls::server(&certified().0, inner)
}

fn tls_client<M: StreamMachine>(inner: M) -> Tls<M> {
    Tls::client(&certified().1, inner).expect("there is randomness")
}

fn websocket_server() -> WebSocket {
    WebSocket::server(Arc::default())
}

fn websocket_client() -> WebSocket {
    WebSocket::client(websocket::ClientOptions::new("localhost", "/", [9; 32]))
}

fn http_server() -> http1::Server {
    http1::Server::new(http1::ServerOptions::default())
}

fn http_client() -> http1::Client {
    http1::Client::new("localhost", http1::ClientOptions::default()).expect("it is a host")
}

const SEEDS: std::ops::Range<u64> = 0..60;

#[test]
fn tls_asks_until_it_is_answered() {
    check(SEEDS, |seed| {
        trial(
            seed,
            || tls_client(Length::default()),
            || tls_server(Length::default()),
        )
        .verdict()
    });
}

#[test]
fn websocket_asks_until_it_is_answered() {
    check(SEEDS, |seed| {
        trial(seed, websocket_client, websocket_server).verdict()
    });
}

#[test]
fn wss_asks_until_it_is_answered() {
    check(SEEDS, |seed| {
        let (client, server) = (
            || tls_client(websocket_client()),
            || tls_server(websocket_server()),
        );
        trial(seed, client, server).verdict()
    });
}

#[test]
fn http_asks_until_it_is_answered() {
    check(SEEDS, |seed| {
        trial(seed, http_client, http_server).verdict()
    });
}

#[test]
fn https_asks_until_it_is_answered() {
    check(SEEDS, |seed| {
        let (client, server) = (|| tls_client(http_client()), || tls_server(http_server()));
        trial(seed, client, server).verdict()
    });
}

#[test]
fn what_draws_on_no_randomness_of_the_system_gives_the_same_log() {
    for seed in 0..5 {
        let digest = || trial(seed, websocket_client, websocket_server).log.digest();
        assert_eq!(digest(), digest());
        let digest = || trial(seed, http_client, http_server).log.digest();
        assert_eq!(digest(), digest());
    }
}
