//! What a batch of datagrams promises, tested with both ways to keep it: the system's own, and one by one.

/// Instantiates the tests for one type of slots.
macro_rules! behaviour {
    ($name:ident, $slots:path) => {
        mod $name {
            use std::io;
            use std::net::{SocketAddr, UdpSocket};
            use std::os::fd::AsFd;
            use std::os::unix::net::UnixDatagram;

            use $slots as Slots;

            use crate::datagram::{Outgoing, Progress, Received};

            fn receive(
                slots: &mut Slots,
                socket: &impl AsFd,
                buffers: &mut [Vec<u8>],
            ) -> io::Result<Vec<Received>> {
                let mut received = Vec::new();
                let buffers = buffers.iter_mut().map(Vec::as_mut_slice);
                slots.receive(socket.as_fd(), buffers, &mut received)?;
                Ok(received)
            }

            fn send(slots: &mut Slots, socket: &impl AsFd, datagrams: &[Outgoing<'_>]) -> Progress {
                slots.send(socket.as_fd(), &mut datagrams.iter().copied())
            }

            fn pair(address: &str) -> io::Result<(UdpSocket, UdpSocket, SocketAddr)> {
                let (one, other) = (UdpSocket::bind(address)?, UdpSocket::bind(address)?);
                let to = other.local_addr()?;
                Ok((one, other, to))
            }

            #[test]
            fn an_empty_socket_gives_nothing_and_does_not_wait() {
                let (_one, other, _) = pair("127.0.0.1:0").unwrap();
                let mut slots = Slots::new(4);
                assert_eq!(slots.len(), 4);
                let mut buffers = vec![vec![0; 8]; 4];
                assert_eq!(receive(&mut slots, &other, &mut buffers).unwrap(), []);
                assert_eq!(receive(&mut slots, &other, &mut []).unwrap(), []);
                let progress = send(&mut slots, &other, &[]);
                assert!(progress.sent == 0 && progress.error.is_none());
            }

            #[test]
            fn datagrams_keep_order_length_and_source() {
                for address in ["127.0.0.1:0", "[::1]:0"] {
                    // A host without IPv6 has nothing to show here.
                    let Ok((one, other, to)) = pair(address) else {
                        continue;
                    };
                    let payloads: [&[u8]; 4] = [b"first", b"", b"too long for it", b"12345678"];
                    let datagrams = payloads.map(|bytes| Outgoing {
                        to: Some(to),
                        bytes,
                    });
                    let mut slots = Slots::new(8);
                    let progress = send(&mut slots, &one, &datagrams);
                    assert!(progress.sent == 4 && progress.error.is_none());
                    let mut buffers = vec![vec![0xEE; 8]; 8];
                    let received = receive(&mut slots, &other, &mut buffers).unwrap();
                    let source = one.local_addr().unwrap();
                    let expected = [(5, false), (0, false), (8, true), (8, false)];
                    let expected = expected.map(|(bytes, truncated)| Received {
                        source,
                        bytes,
                        truncated,
                        drops: None,
                    });
                    assert_eq!(received, expected);
                    assert_eq!(buffers[0], b"first\xEE\xEE\xEE");
                    assert_eq!(buffers[1], [0xEE; 8]);
                    assert_eq!(buffers[2], b"too long");
                    assert_eq!(buffers[4], [0xEE; 8]);
                }
            }

            #[test]
            fn no_call_takes_more_than_there_are_slots_or_buffers() {
                let (one, other, to) = pair("127.0.0.1:0").unwrap();
                let mut slots = Slots::new(3);
                let datagrams = [Outgoing {
                    to: Some(to),
                    bytes: b"x",
                }; 7];
                let mut rest = datagrams.iter().copied();
                assert_eq!(slots.send(one.as_fd(), &mut rest).sent, 3);
                assert_eq!(rest.len(), 4, "what has no slot stays in the iterator");
                assert_eq!(slots.send(one.as_fd(), &mut rest).sent, 3);
                assert_eq!(slots.send(one.as_fd(), &mut rest).sent, 1);
                let mut buffers = vec![vec![0; 2]; 5];
                let counts = [5, 2, 5, 5].map(|lent| {
                    receive(&mut slots, &other, &mut buffers[..lent])
                        .unwrap()
                        .len()
                });
                assert_eq!(counts, [3, 2, 2, 0]);
            }

            #[test]
            fn an_empty_buffer_takes_a_datagram_and_loses_its_bytes() {
                let (one, other, to) = pair("127.0.0.1:0").unwrap();
                let mut slots = Slots::new(2);
                for bytes in [b"x".as_slice(), b""] {
                    one.send_to(bytes, to).unwrap();
                }
                let received = receive(&mut slots, &other, &mut [Vec::new(), Vec::new()]).unwrap();
                let lengths: Vec<_> = received
                    .iter()
                    .map(|one| (one.bytes, one.truncated))
                    .collect();
                assert_eq!(lengths, [(0, true), (0, false)]);
            }

            #[test]
            fn the_first_datagram_that_is_refused_is_told_with_its_reason() {
                let (one, other, to) = pair("127.0.0.1:0").unwrap();
                let long = vec![0; 70_000];
                let datagram = |bytes| Outgoing {
                    to: Some(to),
                    bytes,
                };
                let datagrams = [
                    datagram(b"a".as_slice()),
                    datagram(b"b"),
                    datagram(&long),
                    datagram(b"c"),
                ];
                let mut slots = Slots::new(4);
                let progress = send(&mut slots, &one, &datagrams);
                let errno = progress.error.unwrap().raw_os_error();
                assert_eq!((progress.sent, errno), (2, Some(libc::EMSGSIZE)));
                let progress = send(&mut slots, &one, &datagrams[2..]);
                assert!(progress.sent == 0 && progress.error.is_some());
                assert_eq!(send(&mut slots, &one, &datagrams[3..]).sent, 1);
                let mut buffers = vec![vec![0; 8]; 4];
                assert_eq!(receive(&mut slots, &other, &mut buffers).unwrap().len(), 3);
            }

            #[test]
            fn a_socket_that_takes_no_more_is_no_error() {
                // UDP on the loopback never gets there; this kind of socket does when nobody reads.
                let (one, other) = UnixDatagram::pair().unwrap();
                let datagrams = [Outgoing {
                    to: None,
                    bytes: &[7; 4_096],
                }; 64];
                let mut slots = Slots::new(64);
                let mut sent = 0;
                let last = loop {
                    let progress = send(&mut slots, &one, &datagrams);
                    sent += progress.sent;
                    if progress.sent < datagrams.len() {
                        break progress;
                    }
                };
                // macOS says ENOBUFS there, which is an error.
                let errno = last.error.and_then(|error| error.raw_os_error());
                assert!(
                    errno.is_none_or(|errno| errno == libc::ENOBUFS),
                    "{errno:?}"
                );
                assert!(sent > 0);
                let mut buffers = vec![vec![0; 4_096]; 64];
                let mut read = 0;
                loop {
                    match receive(&mut slots, &other, &mut buffers).unwrap().len() {
                        0 => break,
                        count => read += count,
                    }
                }
                assert_eq!(read, sent);
            }

            #[test]
            fn what_the_network_answered_comes_once_and_takes_nothing_away() {
                let (one, other, to) = pair("127.0.0.1:0").unwrap();
                one.connect(to).unwrap();
                drop(other);
                let mut slots = Slots::new(2);
                let datagram = Outgoing {
                    to: None,
                    bytes: b"is anybody there?",
                };
                assert_eq!(send(&mut slots, &one, &[datagram]).sent, 1);
                let mut buffers = vec![vec![0; 8]; 2];
                let refused = receive(&mut slots, &one, &mut buffers).unwrap_err();
                assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
                assert_eq!(receive(&mut slots, &one, &mut buffers).unwrap(), []);
            }
        }
    };
}

behaviour!(own, crate::sys::os::datagram::Slots);
behaviour!(one_by_one, crate::sys::one_by_one::Slots);
