//! Listeners, connections and the limit on descriptors.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};
use shardloop_platform::socket::{
    BindCause, ListenOptions, StreamOptions, accept, congestion_control, descriptor_limit, granted,
    is_peer_gone, listen, listen_group, open_descriptors, raise_descriptor_limit, receive, send,
    set_nonblocking,
};

const LOOPBACK: ListenOptions = ListenOptions {
    address: SocketAddr::V4(std::net::SocketAddrV4::new(
        std::net::Ipv4Addr::LOCALHOST,
        0,
    )),
    backlog: 128,
    reuse_port: false,
    only_v6: false,
};

fn at(address: SocketAddr) -> ListenOptions {
    ListenOptions {
        address,
        ..LOOPBACK
    }
}

/// Waits for the connection; the client's may be complete a moment before ours.
fn accept_waiting(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    set_nonblocking(listener, false).unwrap();
    accept(listener)
        .unwrap()
        .expect("a blocking listener waits")
}

fn connected() -> (TcpStream, TcpStream) {
    let listener = listen(&LOOPBACK).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, peer) = accept_waiting(&listener);
    assert_eq!(peer, client.local_addr().unwrap());
    (client, server)
}

pub(crate) fn is_nonblocking(socket: impl AsFd) -> bool {
    OFlag::from_bits_retain(fcntl(&socket, FcntlArg::F_GETFL).unwrap()).contains(OFlag::O_NONBLOCK)
}

pub(crate) fn is_closed_on_exec(socket: impl AsFd) -> bool {
    FdFlag::from_bits_retain(fcntl(&socket, FcntlArg::F_GETFD).unwrap())
        .contains(FdFlag::FD_CLOEXEC)
}

fn would_block<T: std::fmt::Debug>(result: io::Result<T>) -> bool {
    result.unwrap_err().kind() == io::ErrorKind::WouldBlock
}

#[test]
fn nothing_to_accept_is_none() {
    let listener = listen(&LOOPBACK).unwrap();
    assert!(is_nonblocking(&listener) && is_closed_on_exec(&listener));
    assert!(socket2::SockRef::from(&listener).reuse_address().unwrap());
    assert!(accept(&listener).unwrap().is_none());
}

#[test]
fn accepted_connections_do_not_block_and_are_not_inherited() {
    let (_client, server) = connected();
    assert!(is_nonblocking(&server) && is_closed_on_exec(&server));
}

#[test]
fn bytes_go_both_ways_without_waiting() {
    let (client, server) = connected();
    let mut buffer = [0; 16];
    assert!(would_block(receive(&client, &mut buffer)));
    assert_eq!(send(&client, b"hello").unwrap(), 5);
    client.shutdown(std::net::Shutdown::Write).unwrap();
    set_nonblocking(&server, false).unwrap();
    // A blocking read by the standard library waits for the bytes; `receive` then finds the end.
    io::Read::read_exact(&mut &server, &mut buffer[..5]).unwrap();
    assert_eq!(&buffer[..5], b"hello");
    assert_eq!(io::Read::read(&mut &server, &mut buffer).unwrap(), 0);
    assert_eq!(receive(&server, &mut buffer).unwrap(), 0);
}

#[test]
fn sending_stops_when_nobody_reads_and_fails_when_nobody_is_there() {
    let (client, server) = connected();
    let chunk = [7; 65_536];
    while let Ok(sent) = send(&client, &chunk) {
        assert!(sent > 0);
    }
    assert!(would_block(send(&client, &chunk)));
    // Closed with bytes unread: the peer resets the connection, and no SIGPIPE ends this process.
    drop(server);
    loop {
        match send(&client, &chunk) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                break assert!(is_peer_gone(&error), "{error}");
            }
            _ => std::thread::yield_now(),
        }
    }
}

#[test]
fn options_are_granted_as_asked_or_more() {
    let (_client, server) = connected();
    let bytes = 16_384;
    let options = StreamOptions {
        nodelay: true,
        send_buffer_bytes: Some(bytes),
        receive_buffer_bytes: Some(bytes),
    };
    options.apply(&server).unwrap();
    let granted = granted(&server).unwrap();
    assert!(granted.nodelay);
    assert!(granted.send_buffer_bytes >= bytes && granted.receive_buffer_bytes >= bytes);
}

#[test]
fn options_left_alone_change_nothing() {
    let (_client, server) = connected();
    let before = granted(&server).unwrap();
    let options = StreamOptions {
        nodelay: false,
        send_buffer_bytes: None,
        receive_buffer_bytes: None,
    };
    options.apply(&server).unwrap();
    assert_eq!(granted(&server).unwrap(), before);
}

#[test]
fn a_port_in_use_is_an_error_and_not_a_silent_sharing() {
    for reuse_port in [false, true] {
        let other = listen(&ListenOptions {
            reuse_port,
            ..LOOPBACK
        })
        .unwrap();
        let taken = at(other.local_addr().unwrap());
        assert_eq!(listen(&taken).unwrap_err().cause, BindCause::InUse);
        assert_eq!(listen_group(&taken, 1).unwrap_err().cause, BindCause::InUse);
        let sharing = ListenOptions {
            reuse_port: true,
            ..taken
        };
        assert_eq!(
            listen_group(&sharing, 4).unwrap_err().cause,
            BindCause::InUse
        );
    }
}

#[test]
fn a_group_shares_one_port_and_loses_no_connection() {
    const CONNECTIONS: usize = 64;
    let group = listen_group(&LOOPBACK, 4).unwrap();
    let address = group[0].local_addr().unwrap();
    for listener in &group {
        assert_eq!(listener.local_addr().unwrap(), address);
        assert!(is_nonblocking(listener) && is_closed_on_exec(listener));
    }
    let clients: Vec<_> = (0..CONNECTIONS)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let mut accepted = Vec::new();
    while accepted.len() < CONNECTIONS {
        accepted.extend(
            group
                .iter()
                .filter_map(|listener| accept(listener).unwrap()),
        );
        std::thread::yield_now();
    }
    drop(clients);
}

#[test]
fn an_address_of_another_host_is_explained() {
    // From the range kept for documentation (RFC 5737).
    let elsewhere = at("192.0.2.1:0".parse().unwrap());
    let Err(error) = listen(&elsewhere) else {
        return;
    };
    assert_eq!(error.cause, BindCause::NotThisHost);
    assert!(
        error.to_string().contains("no interface of this host"),
        "{error}"
    );
}

#[test]
fn version_6_listeners_work_where_the_host_has_it() {
    let options = ListenOptions {
        only_v6: true,
        ..at("[::1]:0".parse().unwrap())
    };
    match listen(&options) {
        Ok(listener) => {
            let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            assert!(accept_waiting(&listener).1.is_ipv6());
        }
        Err(error) => assert!(
            matches!(
                error.cause,
                BindCause::NoSuchFamily | BindCause::NotThisHost
            ),
            "{error}"
        ),
    }
}

#[test]
fn the_congestion_control_has_a_name_or_a_reason() {
    let (client, _server) = connected();
    match congestion_control(&client) {
        Ok(name) => assert!(name.chars().all(|c| c.is_ascii_graphic()) && !name.is_empty()),
        Err(absent) => assert!(!absent.reason.is_empty()),
    }
}

#[test]
fn the_descriptor_limit_only_rises() {
    let before = descriptor_limit().unwrap();
    let raised = raise_descriptor_limit().unwrap();
    assert!(raised >= before);
    assert_eq!(raise_descriptor_limit().unwrap(), raised);
}

#[test]
fn open_descriptors_are_counted() {
    const HELD: usize = 32;
    let held: Vec<_> = (0..HELD).map(|_| listen(&LOOPBACK).unwrap()).collect();
    if let Ok(open) = open_descriptors() {
        assert!(open >= held.len());
    }
}
