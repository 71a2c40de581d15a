//! UDP sockets alone and in groups, and batches of datagrams.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;

use shardloop_platform::datagram::{Batch, MAX_SLOTS, Outgoing, recv_batch, send_batch};
use shardloop_platform::network::UdpCounters;
use shardloop_platform::socket::{
    BindCause, DatagramOptions, bind_datagram, bind_datagram_group, granted_datagram, report_drops,
    socket_memory,
};

use crate::socket::{is_closed_on_exec, is_nonblocking};

const LOOPBACK: DatagramOptions = DatagramOptions {
    address: SocketAddr::V4(std::net::SocketAddrV4::new(
        std::net::Ipv4Addr::LOCALHOST,
        0,
    )),
    reuse_port: false,
    only_v6: false,
    send_buffer_bytes: None,
    receive_buffer_bytes: None,
};

fn at(address: SocketAddr) -> DatagramOptions {
    DatagramOptions {
        address,
        ..LOOPBACK
    }
}

fn address_of(socket: &UdpSocket) -> SocketAddr {
    socket.local_addr().unwrap()
}

/// Waits until so many have come; they may be in the queue only a moment after sending them.
fn receive_all(socket: &UdpSocket, batch: &mut Batch, wanted: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut buffers = vec![vec![0; 2_048]; batch.slots()];
    let mut all = Vec::new();
    while all.len() < wanted {
        let received = recv_batch(socket, batch, &mut buffers).unwrap();
        let copies = received.iter().zip(&buffers);
        all.extend(copies.map(|(one, buffer)| (one.source, buffer[..one.bytes].to_vec())));
        thread::yield_now();
    }
    all
}

#[test]
fn a_bound_socket_does_not_block_and_is_not_inherited() {
    let socket = bind_datagram(&LOOPBACK).unwrap();
    assert!(is_nonblocking(&socket) && is_closed_on_exec(&socket));
    assert!(!socket2::SockRef::from(&socket).reuse_address().unwrap());
    let mut buffer = [0; 8];
    let error = socket.recv_from(&mut buffer).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn buffers_are_granted_as_asked_or_more() {
    let socket = bind_datagram(&DatagramOptions {
        send_buffer_bytes: Some(32_768),
        receive_buffer_bytes: Some(65_536),
        ..LOOPBACK
    })
    .unwrap();
    let granted = granted_datagram(&socket).unwrap();
    assert!(granted.send_buffer_bytes >= 32_768 && granted.receive_buffer_bytes >= 65_536);
    let left_alone = granted_datagram(bind_datagram(&LOOPBACK).unwrap()).unwrap();
    let fresh = granted_datagram(UdpSocket::bind("127.0.0.1:0").unwrap()).unwrap();
    assert_eq!(left_alone, fresh);
}

#[test]
fn a_port_in_use_is_an_error_and_not_a_silent_sharing() {
    for reuse_port in [false, true] {
        let other = bind_datagram(&DatagramOptions {
            reuse_port,
            ..LOOPBACK
        })
        .unwrap();
        let taken = at(address_of(&other));
        let sharing = DatagramOptions {
            reuse_port: true,
            ..taken
        };
        let causes = [
            bind_datagram(&taken).map(drop),
            bind_datagram_group(&taken, 1).map(drop),
            bind_datagram_group(&sharing, 1).map(drop),
            bind_datagram_group(&sharing, 4).map(drop),
        ];
        for result in causes {
            let error = result.unwrap_err();
            assert_eq!(error.cause, BindCause::InUse);
            assert!(error.to_string().contains("part of our clients"), "{error}");
        }
    }
}

#[test]
fn a_group_shares_one_port_and_loses_no_datagram() {
    const CLIENTS: usize = 64;
    let group = bind_datagram_group(&LOOPBACK, 4).unwrap();
    let address = address_of(&group[0]);
    assert_ne!(address.port(), 0);
    for socket in &group {
        assert_eq!(address_of(socket), address);
        assert!(is_nonblocking(socket) && is_closed_on_exec(socket));
    }
    for _ in 0..CLIENTS {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        assert_eq!(client.send_to(b"hello", address).unwrap(), 5);
    }
    let mut batch = Batch::new(16);
    let mut received = 0;
    while received < CLIENTS {
        for socket in &group {
            let mut buffers = [[0; 16]; 16];
            received += recv_batch(socket, &mut batch, &mut buffers).unwrap().len();
        }
    }
    assert_eq!(received, CLIENTS);
}

#[test]
fn version_6_sockets_work_where_the_host_has_it() {
    let options = DatagramOptions {
        only_v6: true,
        ..at("[::1]:0".parse().unwrap())
    };
    let socket = match bind_datagram(&options) {
        Ok(socket) => socket,
        Err(error) => {
            let expected = [BindCause::NoSuchFamily, BindCause::NotThisHost];
            return assert!(expected.contains(&error.cause), "{error}");
        }
    };
    let client = bind_datagram(&options).unwrap();
    let mut batch = Batch::new(4);
    let datagram = Outgoing {
        to: Some(address_of(&socket)),
        bytes: b"six",
    };
    assert_eq!(send_batch(&client, &mut batch, [datagram]).datagrams, 1);
    let received = receive_all(&socket, &mut batch, 1);
    assert_eq!(received, [(address_of(&client), b"six".to_vec())]);
}

#[test]
fn more_datagrams_than_slots_go_out_in_order() {
    const COUNT: u8 = 100;
    let (client, server) = (
        bind_datagram(&LOOPBACK).unwrap(),
        bind_datagram(&LOOPBACK).unwrap(),
    );
    let payloads: Vec<[u8; 1]> = (0..COUNT).map(|number| [number]).collect();
    let to = Some(address_of(&server));
    let mut outgoing = Batch::new(7);
    let sent = send_batch(
        &client,
        &mut outgoing,
        payloads.iter().map(|bytes| Outgoing { to, bytes }),
    );
    assert_eq!(sent.datagrams, payloads.len());
    assert!(sent.error.is_none());
    let received = receive_all(&server, &mut Batch::new(9), payloads.len());
    let numbers = received.iter().map(|(source, payload)| {
        assert_eq!(*source, address_of(&client));
        payload[0]
    });
    assert!(numbers.eq(0..COUNT));
}

#[test]
fn an_error_in_a_later_batch_counts_the_earlier_ones() {
    let client = bind_datagram(&LOOPBACK).unwrap();
    let server = bind_datagram(&LOOPBACK).unwrap();
    let long = vec![0; 70_000];
    let to = Some(address_of(&server));
    let bytes = |index| if index == 5 { long.as_slice() } else { b"x" };
    let datagrams = (0..9).map(|index| Outgoing {
        to,
        bytes: bytes(index),
    });
    let sent = send_batch(&client, &mut Batch::new(2), datagrams);
    assert_eq!(sent.datagrams, 5);
    assert!(sent.error.unwrap().raw_os_error().is_some());
    assert_eq!(receive_all(&server, &mut Batch::new(2), 5).len(), 5);
}

#[test]
fn buffers_of_any_kind_can_be_lent() {
    let socket = bind_datagram(&LOOPBACK).unwrap();
    let mut batch = Batch::new(2);
    let ping = Outgoing {
        to: Some(address_of(&socket)),
        bytes: b"ping",
    };
    let mut arrays = [[0; 4]; 2];
    assert_eq!(send_batch(&socket, &mut batch, [ping]).datagrams, 1);
    assert_eq!(
        recv_batch(&socket, &mut batch, &mut arrays).unwrap().len(),
        1
    );
    assert_eq!(&arrays[0], b"ping");
    let mut one_block = [0; 8];
    let (left, right) = one_block.split_at_mut(4);
    assert_eq!(send_batch(&socket, &mut batch, [ping; 2]).datagrams, 2);
    let received = recv_batch(&socket, &mut batch, &mut [left, right]).unwrap();
    assert_eq!(received.len(), 2);
    assert_eq!(&one_block, b"pingping");
    assert_eq!(batch.received().len(), 2);
    assert!(
        recv_batch(&socket, &mut batch, &mut arrays)
            .unwrap()
            .is_empty()
    );
    assert!(batch.received().is_empty());
}

#[test]
fn a_batch_moves_between_threads() {
    let socket = bind_datagram(&LOOPBACK).unwrap();
    let mut batch = Batch::new(2);
    let ping = Outgoing {
        to: Some(address_of(&socket)),
        bytes: b"ping",
    };
    assert_eq!(send_batch(&socket, &mut batch, [ping]).datagrams, 1);
    let received = thread::spawn(move || receive_all(&socket, &mut batch, 1));
    assert_eq!(received.join().unwrap()[0].1, b"ping");
}

#[test]
fn drops_are_told_with_the_datagrams_where_the_host_can() {
    let server = bind_datagram(&DatagramOptions {
        receive_buffer_bytes: Some(8_192),
        ..LOOPBACK
    })
    .unwrap();
    if let Err(absent) = report_drops(&server) {
        return assert!(!absent.reason.is_empty());
    }
    const SENT: usize = 100;
    let client = bind_datagram(&LOOPBACK).unwrap();
    let mut batch = Batch::new(64);
    let to = Some(address_of(&server));
    let flood = std::iter::repeat_n(
        Outgoing {
            to,
            bytes: &[0; 1_024],
        },
        SENT,
    );
    assert_eq!(send_batch(&client, &mut batch, flood).datagrams, SENT);
    let mut buffers = vec![[0; 2_048]; 64];
    let kept = recv_batch(&server, &mut batch, &mut buffers).unwrap();
    assert!(kept.iter().all(|datagram| datagram.drops.is_none()));
    let (kept, lost) = (kept.len(), SENT - kept.len());
    assert!(kept > 0 && lost > 0);
    // The datagrams in the queue came before the drops; the next one tells.
    client.send_to(b"after", address_of(&server)).unwrap();
    let told = recv_batch(&server, &mut batch, &mut buffers).unwrap()[0].drops;
    assert_eq!(told, u32::try_from(lost).ok());
    if let Ok(memory) = socket_memory(&server) {
        assert_eq!(memory.drops, told);
        assert_eq!(memory.receive_bytes, 0);
    }
}

#[test]
fn the_host_counts_what_is_sent_and_received() {
    let socket = bind_datagram(&LOOPBACK).unwrap();
    let Ok(before) = UdpCounters::read() else {
        return;
    };
    let mut batch = Batch::new(10);
    let ping = Outgoing {
        to: Some(address_of(&socket)),
        bytes: b"ping",
    };
    assert_eq!(send_batch(&socket, &mut batch, [ping; 10]).datagrams, 10);
    receive_all(&socket, &mut batch, 10);
    // Others on this host send datagrams, too.
    let added = UdpCounters::read().unwrap().since(&before);
    assert!(added.sent.unwrap() >= 10 && added.received.unwrap() >= 10);
}

#[test]
fn impossible_sizes_are_refused() {
    for slots in [0, MAX_SLOTS + 1] {
        assert!(std::panic::catch_unwind(|| Batch::new(slots)).is_err());
    }
    assert_eq!(Batch::new(MAX_SLOTS).slots(), MAX_SLOTS);
}
