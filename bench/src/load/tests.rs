//! The generator against servers that do one thing wrong: what it counts is what was done.
//!
//! Runs end by message counts; durations are bounds that a correct run never reaches, except where a server keeps silent.

use super::{Plan, Stop, Verify, run};
use crate::contract::{Counters, LoadReport, Protocol};
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

const CLIENTS: usize = 3;
const WINDOW: usize = 4;
const PER_CLIENT: u64 = 20;
const PAYLOAD: usize = 100;

/// The message that is treated wrongly.
const AT: u64 = 5;

/// What is done to message [`AT`] of client 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trick {
    None,
    Corrupt {
        byte: usize,
    },
    Swap,
    Duplicate,
    Drop,
    Shorten,
    AnnounceMaximum,
    Close,
    KeepSilent,
    CloseAtOnce,
    /// Reads a whole window before it answers any of it.
    HoldWindow,
}

fn plan(protocol: Protocol, connect: SocketAddr) -> Plan {
    Plan {
        protocol,
        connect,
        clients: CLIENTS,
        window_per_client: WINDOW,
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
        udp_timeout: Duration::from_millis(50),
        max_loss: 0.0,
        announce: false,
    }
}

/// Runs a plan, after `change`, against a server with a trick.
fn against(
    address: &str,
    protocol: Protocol,
    trick: Trick,
    change: impl FnOnce(&mut Plan),
) -> LoadReport {
    let listener = TcpListener::bind(address).expect("a free port");
    let mut plan = plan(protocol, listener.local_addr().expect("it is bound"));
    change(&mut plan);
    let server = Server {
        trick,
        head_bytes: if protocol == Protocol::Tcp { 4 } else { 0 },
        payload_bytes: plan.payload_bytes,
        window: plan.window_per_client,
    };
    let clients = plan.clients;
    let acceptor = thread::spawn(move || {
        for stream in listener.incoming().take(clients) {
            let stream = stream.expect("a connection");
            thread::spawn(move || server.serve(stream));
        }
    });
    let report = run(&plan).expect("the poll works");
    acceptor.join().expect("every client connected");
    report
}

/// A server with one fault.
#[derive(Clone, Copy)]
struct Server {
    trick: Trick,
    head_bytes: usize,
    payload_bytes: usize,
    window: usize,
}

impl Server {
    /// Until the client ends the connection, however it does.
    fn serve(self, mut stream: TcpStream) {
        if self.trick == Trick::CloseAtOnce {
            return;
        }
        let _ = stream.set_nodelay(true);
        let mut held = Vec::new();
        for number in 0.. {
            let mut frame = vec![0; self.head_bytes + self.payload_bytes];
            if stream.read_exact(&mut frame).is_err() {
                return;
            }
            let client = &frame[self.head_bytes + 4..self.head_bytes + 8];
            let hit = number == AT && client == [0; 4];
            let answered = if self.trick == Trick::HoldWindow {
                held.extend_from_slice(&frame);
                self.answer_whole_window(&mut stream, &mut held)
            } else if hit {
                self.play(&mut stream, frame)
            } else {
                stream.write_all(&frame)
            };
            if answered.is_err() {
                return;
            }
        }
    }

    fn answer_whole_window(self, stream: &mut TcpStream, held: &mut Vec<u8>) -> io::Result<()> {
        if held.len() < self.window * (self.head_bytes + self.payload_bytes) {
            return Ok(());
        }
        stream.write_all(held)?;
        held.clear();
        Ok(())
    }

    /// The trick itself; `Err` ends the connection.
    fn play(self, stream: &mut TcpStream, mut frame: Vec<u8>) -> io::Result<()> {
        match self.trick {
            Trick::None | Trick::HoldWindow | Trick::CloseAtOnce => stream.write_all(&frame),
            Trick::Corrupt { byte } => {
                frame[self.head_bytes + byte] ^= 0x40;
                stream.write_all(&frame)
            }
            Trick::Swap => {
                let mut next = frame.clone();
                stream.read_exact(&mut next)?;
                stream.write_all(&[next, frame].concat())
            }
            Trick::Duplicate => stream.write_all(&frame.repeat(2)),
            Trick::Drop => Ok(()),
            Trick::Shorten => {
                frame.pop();
                if self.head_bytes > 0 {
                    frame[3] -= 1;
                }
                stream.write_all(&frame)
            }
            Trick::AnnounceMaximum => stream.write_all(&[0xff; 4]),
            Trick::Close => Err(io::ErrorKind::Other.into()),
            Trick::KeepSilent => {
                let _ = io::copy(stream, &mut io::sink());
                Err(io::ErrorKind::Other.into())
            }
        }
    }
}

/// The counters of a run in which `received` replies were right and `set` else was counted. `sent` depends on timing.
fn counters(received: u64, set: impl FnOnce(&mut Counters)) -> Counters {
    let mut counters = Counters {
        received,
        ..Counters::default()
    };
    set(&mut counters);
    counters
}

fn assert_counted(report: &LoadReport, expected: Counters) {
    let mut counted = report.counters;
    counted.sent = expected.sent;
    counted.in_flight_end = expected.in_flight_end;
    assert_eq!(counted, expected, "{:?}", report.first_failure);
    assert!(!report.ok && report.first_failure.is_some());
}

/// Right replies if client 0 fails at [`AT`] and the others have all of theirs.
const OTHERS: u64 = (CLIENTS as u64 - 1) * PER_CLIENT;

const BOTH: [Protocol; 2] = [Protocol::Tcp, Protocol::Echo];

#[test]
fn a_right_server_is_counted_exactly_over_both_families() {
    for (protocol, address) in BOTH
        .into_iter()
        .flat_map(|protocol| [(protocol, "127.0.0.1:0"), (protocol, "[::1]:0")])
    {
        if TcpListener::bind(address).is_err() {
            eprintln!("{address} is not there, so it is not tested");
            continue;
        }
        let report = against(address, protocol, Trick::None, |_| ());
        let all = CLIENTS as u64 * PER_CLIENT;
        assert_eq!(report.first_failure, None);
        assert!(report.ok);
        assert_eq!(report.counters.sent, all);
        assert_eq!(report.counters, counters(all, |c| c.sent = all));
        assert_eq!(report.rtt_service_ns.count, all);
        assert!(report.client.cpu_ns.is_some() && report.server.is_none());
    }
}

#[test]
fn a_corrupt_byte_is_one_content_error_wherever_it_is() {
    for (protocol, byte) in [(0, 0), (0, 5), (1, 16), (1, 99), (0, 57)].map(|(p, b)| (BOTH[p], b)) {
        let report = against("127.0.0.1:0", protocol, Trick::Corrupt { byte }, |_| ());
        assert_counted(&report, counters(OTHERS + AT, |c| c.content_errors = 1));
        let words = report.first_failure.unwrap();
        assert!(words.contains("client 0, sequence 5"), "{words}");
        assert!(words.contains(&format!("byte {byte} ")), "{words}");
    }
}

#[test]
fn a_body_is_let_pass_only_where_it_is_not_compared() {
    for (verify, byte, ok) in [
        (Verify::Header, 60, true),
        (Verify::Sampled, 60, true),
        (Verify::Header, 3, false),
        (Verify::Sampled, 3, false),
    ] {
        let trick = Trick::Corrupt { byte };
        let report = against("127.0.0.1:0", Protocol::Tcp, trick, |plan| {
            plan.verify = verify
        });
        assert_eq!(report.ok, ok, "{verify:?}, byte {byte}");
    }
}

#[test]
fn swapped_and_dropped_replies_are_one_order_error() {
    for protocol in BOTH {
        for trick in [Trick::Swap, Trick::Drop] {
            let report = against("127.0.0.1:0", protocol, trick, |_| ());
            assert_counted(&report, counters(OTHERS + AT, |c| c.order_errors = 1));
            let words = report.first_failure.unwrap();
            assert!(
                words.contains("the reply to sequence 6 came first"),
                "{words}"
            );
        }
    }
}

#[test]
fn a_reply_given_twice_is_one_unexpected_even_if_it_is_the_last() {
    for protocol in BOTH {
        for per_client in [PER_CLIENT, AT + 1] {
            let report = against("127.0.0.1:0", protocol, Trick::Duplicate, |plan| {
                let longest = Duration::from_secs(30);
                plan.stop = Stop::Messages {
                    per_client,
                    longest,
                };
                // The end of a run only sees what has come by then; both copies are one write.
                plan.clients = 1;
            });
            assert_counted(&report, counters(AT + 1, |c| c.unexpected = 1));
        }
    }
}

#[test]
fn a_short_reply_is_a_length_error_or_in_plain_bytes_a_content_error() {
    let framed = against("127.0.0.1:0", Protocol::Tcp, Trick::Shorten, |_| ());
    assert_counted(&framed, counters(OTHERS + AT, |c| c.length_errors = 1));
    let plain = against("127.0.0.1:0", Protocol::Echo, Trick::Shorten, |_| ());
    assert_counted(&plain, counters(OTHERS + AT, |c| c.content_errors = 1));
}

#[test]
fn an_overlong_announcement_is_a_length_error_and_nothing_is_awaited_for_it() {
    let report = against("127.0.0.1:0", Protocol::Tcp, Trick::AnnounceMaximum, |_| ());
    assert_counted(&report, counters(OTHERS + AT, |c| c.length_errors = 1));
    let words = report.first_failure.unwrap();
    assert!(words.contains("4294967295 bytes"), "{words}");
}

#[test]
fn a_connection_closed_after_some_replies_is_one_disconnect() {
    for protocol in BOTH {
        let mut report = against("127.0.0.1:0", protocol, Trick::Close, |_| ());
        // The reset of a connection closed with unread requests may overtake replies.
        let lost = OTHERS + AT - report.counters.received;
        assert!(lost <= AT);
        report.counters.received += lost;
        assert_counted(&report, counters(OTHERS + AT, |c| c.disconnects = 1));
    }
}

#[test]
fn a_server_that_closes_at_once_ends_the_run_early() {
    let report = against("127.0.0.1:0", Protocol::Tcp, Trick::CloseAtOnce, |plan| {
        plan.stop = Stop::After(Duration::from_secs(60));
        plan.warmup = Duration::from_secs(60);
    });
    let expected = counters(0, |c| {
        c.disconnects = CLIENTS as u64;
        c.warmup_errors = CLIENTS as u64;
    });
    assert_counted(&report, expected);
    assert_eq!(report.little_ratio, None);
}

#[test]
fn silence_is_unfinished_requests_after_the_drain() {
    for protocol in BOTH {
        let report = against("127.0.0.1:0", protocol, Trick::KeepSilent, |plan| {
            let longest = Duration::from_millis(400);
            plan.stop = Stop::Messages {
                per_client: PER_CLIENT,
                longest,
            };
        });
        let expected = counters(OTHERS + AT, |c| {
            c.unfinished = WINDOW as u64;
            c.drain_timeouts = 1;
        });
        assert_counted(&report, expected);
        assert_eq!(report.counters.in_flight_end, WINDOW as u64);
    }
}

#[test]
fn nobody_listening_is_a_connect_error_each() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    drop(listener);
    let report = run(&plan(Protocol::Tcp, address)).expect("the poll works");
    let expected = counters(0, |c| c.connect_errors = CLIENTS as u64);
    assert_counted(&report, expected);
    assert!(report.first_failure.unwrap().contains("could not connect"));
}

#[test]
fn a_faulty_warm_up_is_counted_as_such() {
    let report = against("127.0.0.1:0", Protocol::Echo, Trick::Drop, |plan| {
        plan.clients = 1;
        plan.warmup = Duration::from_secs(60);
        plan.stop = Stop::After(Duration::from_secs(60));
    });
    let expected = counters(0, |c| {
        c.order_errors = 1;
        c.warmup_errors = 1;
    });
    assert_counted(&report, expected);
}

#[test]
fn large_windows_do_not_deadlock() {
    for (trick, clients, window) in [(Trick::HoldWindow, 2, 16), (Trick::None, 4, 64)] {
        for protocol in BOTH {
            let report = against("127.0.0.1:0", protocol, trick, |plan| {
                plan.payload_bytes = 65_507;
                plan.clients = clients;
                plan.window_per_client = window;
                let longest = Duration::from_secs(30);
                plan.stop = Stop::Messages {
                    per_client: 2 * window as u64,
                    longest,
                };
            });
            assert_eq!(report.first_failure, None, "{trick:?} {protocol:?}");
            assert_eq!(report.counters.received, (2 * clients * window) as u64);
        }
    }
}

#[test]
fn every_size_of_message_is_put_together_from_its_parts() {
    for payload in [16, 17, 4_095, 65_536, 1_048_576] {
        for protocol in BOTH {
            let report = against("127.0.0.1:0", protocol, Trick::None, |plan| {
                plan.payload_bytes = payload;
                plan.clients = 2;
            });
            assert_eq!(report.first_failure, None, "{payload} B, {protocol:?}");
            assert!(report.ok);
        }
    }
}

#[test]
fn a_window_in_time_counts_what_came_within_it() {
    let report = against("127.0.0.1:0", Protocol::Tcp, Trick::None, |plan| {
        plan.warmup = Duration::from_millis(20);
        plan.stop = Stop::After(Duration::from_millis(50));
        plan.server_pid = Some(std::process::id());
        plan.drain_timeout = Duration::from_secs(5);
    });
    assert_eq!(report.first_failure, None);
    assert!(report.window_ns >= 50_000_000);
    assert_eq!(report.rtt_service_ns.count, report.counters.received);
    assert_eq!(report.counters.in_flight_end, (CLIENTS * WINDOW) as u64);
    assert!(report.server.is_some());
}
