//! The load over datagrams against servers that do one thing wrong: what it counts is what was done, and the sum always holds.
//!
//! A server that treats one request wrongly does so by what it has seen, not by the clock. Timeouts are so long that only what is
//! dropped is lost; where a busy machine stretches even those, the reply comes late, so lost less late is what a test looks at.

use super::{super::Verify, Plan, Stop, run};
use crate::{
    contract::{Counters, DatagramReport, LoadReport, Protocol},
    udp_socket::options,
};
use shardloop_platform::socket::{bind_datagram, socket_memory};
use std::{
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

const CLIENTS: usize = 3;
const PER_CLIENT: u64 = 20;
const PAYLOAD: usize = 100;
/// The request of client 0 that is treated wrongly.
const AT: u64 = 5;

/// Long enough that nothing is lost by waiting.
const PATIENT: Duration = Duration::from_secs(5);
/// Long enough for a busy machine, short enough for a test.
const SHORT: Duration = Duration::from_millis(300);

fn plan(connect: SocketAddr, udp_timeout: Duration) -> Plan {
    Plan {
        protocol: Protocol::Udp,
        connect,
        clients: CLIENTS,
        window_per_client: 4,
        payload_bytes: PAYLOAD,
        stop: Stop::Messages {
            per_client: PER_CLIENT,
            longest: Duration::from_secs(30),
        },
        warmup: Duration::ZERO,
        verify: Verify::Full,
        server_pid: None,
        ca_pem: None,
        connect_timeout: Duration::from_secs(10),
        drain_timeout: Duration::from_millis(50),
        udp_timeout,
        max_loss: 1.0,
        announce: false,
    }
}

/// Runs a plan, after `change`, against a server that answers as `answer` says: what it returns goes back, one datagram each.
fn against(
    udp_timeout: Duration,
    change: impl FnOnce(&mut Plan),
    answer: impl FnMut(Request) -> Vec<Vec<u8>> + Send + 'static,
) -> LoadReport {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let mut plan = plan(socket.local_addr().expect("it is bound"), udp_timeout);
    change(&mut plan);
    let over = Arc::new(AtomicBool::new(false));
    let server = thread::spawn({
        let over = over.clone();
        move || serve(&socket, &over, answer)
    });
    let report = run(&plan).expect("the poll works");
    over.store(true, Ordering::Relaxed);
    server.join().expect("the server is sound");
    let udp = report.udp.as_ref().expect("there is one over datagrams");
    assert!(udp.whole.holds() && udp.window.holds(), "{udp:?}");
    assert_eq!(udp.whole.in_flight_end, 0, "{udp:?}");
    report
}

/// A request as a server sees it.
struct Request {
    bytes: Vec<u8>,
    client: u32,
    sequence: u64,
}

impl Request {
    /// The one that is treated wrongly.
    fn is_hit(&self) -> bool {
        (self.client, self.sequence) == (0, AT)
    }

    fn changed(mut self, change: impl FnOnce(&mut Vec<u8>)) -> Vec<Vec<u8>> {
        change(&mut self.bytes);
        vec![self.bytes]
    }
}

fn serve(socket: &UdpSocket, over: &AtomicBool, mut answer: impl FnMut(Request) -> Vec<Vec<u8>>) {
    socket
        .set_read_timeout(Some(Duration::from_millis(10)))
        .expect("it is not zero");
    let mut room = vec![0; 65_536];
    while !over.load(Ordering::Relaxed) {
        let Ok((bytes, from)) = socket.recv_from(&mut room) else {
            continue;
        };
        let header: [u8; 16] = *room.first_chunk().expect("there is a header");
        let request = Request {
            bytes: room[..bytes].to_vec(),
            client: u32::from_be_bytes(header[4..8].try_into().expect("four bytes")),
            sequence: u64::from_be_bytes(header[8..].try_into().expect("eight bytes")),
        };
        for reply in answer(request) {
            let _ = socket.send_to(&reply, from);
        }
    }
}

fn udp(report: &LoadReport) -> &DatagramReport {
    report.udp.as_ref().expect("there is one over datagrams")
}

/// Everything was answered in the end.
fn assert_all_answered(report: &LoadReport) {
    assert_eq!(report.counters.received, PER_CLIENT * CLIENTS as u64);
    assert_eq!(udp(report).whole.echoed, report.counters.received);
}

/// The faults alone.
fn faults(report: &LoadReport) -> Counters {
    Counters {
        sent: 0,
        received: 0,
        in_flight_end: 0,
        ..report.counters
    }
}

#[test]
fn an_honest_server_loses_nothing() {
    for clients in [1, CLIENTS] {
        let report = against(
            PATIENT,
            |plan| (plan.clients, plan.max_loss) = (clients, 0.0),
            |request| vec![request.bytes],
        );
        assert!(report.ok, "{:?}", report.first_failure);
        let whole = udp(&report).whole;
        assert_eq!(whole.sent, PER_CLIENT * clients as u64);
        assert_eq!((whole.echoed, whole.lost), (whole.sent, 0));
        assert_eq!((whole.duplicates, whole.reordered), (0, 0));
        assert!(udp(&report).buffers.granted_min.is_some());
    }
}

#[test]
fn a_window_in_time_adds_up() {
    let report = against(
        PATIENT,
        |plan| {
            plan.warmup = Duration::from_millis(20);
            plan.stop = Stop::After(Duration::from_millis(60));
        },
        |request| vec![request.bytes],
    );
    assert!(report.ok, "{:?}", report.first_failure);
    let (window, whole) = (udp(&report).window, udp(&report).whole);
    assert_eq!(window.in_flight_begin, 12);
    assert_eq!(window.in_flight_end, report.counters.in_flight_end);
    assert_eq!(window.echoed, report.counters.received);
    assert_eq!(window.sent, report.counters.sent);
    assert!(whole.sent > window.sent && whole.lost == 0);
    assert!(udp(&report).mean_in_flight.is_some_and(|mean| mean > 1.0));
}

#[test]
fn a_dropped_request_is_lost_and_another_takes_its_place() {
    let drops = |request: Request| match request.is_hit() {
        true => Vec::new(),
        false => vec![request.bytes],
    };
    let report = against(SHORT, |_| (), drops);
    assert!(
        report.ok,
        "loss is allowed here: {:?}",
        report.first_failure
    );
    assert_all_answered(&report);
    let whole = udp(&report).whole;
    assert_eq!(whole.lost - whole.late, 1, "{whole:?}");
    assert!(udp(&report).loss_share > 0.0);

    let strict = against(SHORT, |plan| plan.max_loss = 0.0, drops);
    let words = strict.first_failure.expect("no loss is allowed");
    assert!(
        words.contains("requests were lost (") && words.contains("allowed 0.000 %"),
        "{words}"
    );
}

#[test]
fn a_reply_after_its_time_is_late_and_still_lost() {
    let mut held = Vec::new();
    let report = against(
        SHORT,
        |plan| (plan.clients, plan.window_per_client) = (1, 1),
        // With a window of one, the next request comes only once this one was given up.
        move |request| {
            if request.is_hit() {
                held.push(request.bytes);
                return Vec::new();
            }
            held.drain(..).chain([request.bytes]).collect()
        },
    );
    assert!(report.ok, "{:?}", report.first_failure);
    let whole = udp(&report).whole;
    assert!(whole.lost >= 1 && whole.late == whole.lost, "{whole:?}");
    assert_eq!((whole.echoed, whole.duplicates), (PER_CLIENT, 0));
}

#[test]
fn replies_may_come_twice_and_in_another_order() {
    let report = against(
        PATIENT,
        |plan| plan.max_loss = 0.0,
        |request| match request.is_hit() {
            true => vec![request.bytes.clone(), request.bytes],
            false => vec![request.bytes],
        },
    );
    assert!(report.ok, "{:?}", report.first_failure);
    assert_all_answered(&report);
    assert_eq!(udp(&report).whole.duplicates, 1);

    let mut held = None;
    let report = against(
        PATIENT,
        |plan| (plan.clients, plan.max_loss) = (1, 0.0),
        move |request| {
            if request.is_hit() {
                held = Some(request.bytes);
                return Vec::new();
            }
            std::iter::once(request.bytes).chain(held.take()).collect()
        },
    );
    assert!(report.ok, "{:?}", report.first_failure);
    let whole = udp(&report).whole;
    assert_eq!((whole.reordered, whole.echoed), (1, PER_CLIENT));
}

#[test]
fn each_wrong_reply_has_its_counter_and_its_request_is_lost() {
    let wrong = |change: fn(&mut Vec<u8>)| {
        let report = against(
            SHORT,
            |_| (),
            move |request| match request.is_hit() {
                true => request.changed(change),
                false => vec![request.bytes],
            },
        );
        assert!(!report.ok, "a wrong reply is never right");
        assert_all_answered(&report);
        let whole = udp(&report).whole;
        assert_eq!(whole.lost - whole.late, 1, "{whole:?}");
        faults(&report)
    };
    let only = |set: fn(&mut Counters)| {
        let mut counters = Counters::default();
        set(&mut counters);
        counters
    };
    let content = only(|counters| counters.content_errors = 1);
    assert_eq!(wrong(|reply| reply[60] ^= 1), content, "the body");
    assert_eq!(wrong(|reply| reply[7] = 9), content, "another client's");
    assert_eq!(wrong(|reply| reply[3] ^= 1), content, "another run's");
    let length = only(|counters| counters.length_errors = 1);
    assert_eq!(wrong(|reply| reply.truncate(PAYLOAD - 1)), length);
    assert_eq!(wrong(|reply| reply.truncate(3)), length);
    assert_eq!(wrong(Vec::clear), length);
    assert_eq!(wrong(|reply| reply.extend([0; 50])), length);
    let unexpected = only(|counters| counters.unexpected = 1);
    assert_eq!(wrong(|reply| reply[9] = 1), unexpected, "never asked");
}

#[test]
fn silence_is_all_lost_and_ends_in_time() {
    let report = against(
        Duration::from_millis(40),
        |plan| {
            let longest = Duration::from_millis(200);
            let per_client = PER_CLIENT;
            plan.stop = Stop::Messages {
                per_client,
                longest,
            };
        },
        |_| Vec::new(),
    );
    assert!(!report.ok, "something must be measured");
    let udp = udp(&report);
    assert_eq!(udp.whole.sent, udp.whole.lost);
    assert!((udp.loss_share - 1.0).abs() < f64::EPSILON);
    assert_eq!(report.counters.unfinished, 0, "lost is not unfinished");
}

#[test]
fn nobody_listening_ends_every_client() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("it is bound");
    drop(socket);
    let report = run(&plan(address, SHORT)).expect("the poll works");
    assert!(!report.ok);
    assert_eq!(report.counters.disconnects, CLIENTS as u64);
    assert!(udp(&report).whole.holds(), "{:?}", report.udp);
}

#[test]
fn large_datagrams_and_windows_come_back_whole() {
    let report = against(
        SHORT,
        |plan| (plan.payload_bytes, plan.window_per_client) = (65_507, 2),
        |request| vec![request.bytes],
    );
    assert_all_answered(&report);
    assert_eq!(faults(&report), Counters::default());
}

/// A receive buffer that holds a few datagrams, and a server that does not look until some found no room: every request that is not
/// answered was dropped by the kernel.
#[test]
fn a_tiny_receive_buffer_loses_what_the_kernel_says_it_dropped() {
    let tiny = crate::contract::Buffers {
        send_bytes: 1 << 20,
        receive_bytes: 8_192,
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let socket = bind_datagram(&options(address, tiny)).expect("a free port");
    socket.set_nonblocking(false).expect("it is a socket");
    let drops = |socket: &UdpSocket| socket_memory(socket).ok().and_then(|memory| memory.drops);
    if drops(&socket).is_none() {
        println!("skipped: this system does not tell what a socket dropped");
        return;
    }
    let mut plan = plan(socket.local_addr().expect("it is bound"), SHORT);
    (plan.window_per_client, plan.payload_bytes) = (64, 4_096);
    let over = Arc::new(AtomicBool::new(false));
    let server = thread::spawn({
        let over = over.clone();
        move || {
            while drops(&socket) == Some(0) && !over.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            serve(&socket, &over, |request| vec![request.bytes]);
            drops(&socket)
        }
    });
    let report = run(&plan).expect("the poll works");
    over.store(true, Ordering::Relaxed);
    let dropped = server.join().expect("it is sound").expect("it was told");
    let udp = udp(&report);
    assert!(dropped > 0 && udp.whole.holds(), "{dropped}, {udp:?}");
    assert_all_answered(&report);
    let at_clients = udp.client_dropped.expect("it was told");
    let missing = udp.whole.lost - udp.whole.late;
    assert_eq!(missing, u64::from(dropped) + at_clients, "{udp:?}");
}
