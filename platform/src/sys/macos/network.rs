//! Counters of the network stack of macOS: sysctl `net.inet.udp.stats`.

use super::sysctl;
use crate::network::{BacklogCounters, TcpCounters, UdpCounters};
use crate::{NotExposed, Reading};

pub(crate) fn udp() -> Reading<UdpCounters> {
    const WHAT: &str = "UDP counters";
    const NAME: &str = "net.inet.udp.stats";
    let bytes = sysctl::value(WHAT, NAME)?;
    parse_udpstat(&bytes)
        .ok_or_else(|| NotExposed::new(WHAT, format!("sysctl {NAME} has {} bytes", bytes.len())))
}

/// `struct udpstat` (`netinet/udp_var.h`) begins with these, 32 bits each: received, shorter than a header, wrong
/// checksum, wrong length, no socket, (of these) broadcasts, socket full, two kinds of cache misses, sent. What
/// follows grew over the years and is not read.
fn parse_udpstat(bytes: &[u8]) -> Option<UdpCounters> {
    let counter = |index: usize| {
        let four = bytes.get(index * 4..)?.first_chunk::<4>()?;
        Some(u64::from(u32::from_ne_bytes(*four)))
    };
    Some(UdpCounters {
        received: Some(counter(0)?),
        no_port: Some(counter(4)?),
        not_delivered: None,
        sent: Some(counter(9)?),
        receive_buffer_full: Some(counter(6)?),
        send_buffer_full: None,
        bad_checksum: Some(counter(2)?),
        out_of_memory: None,
    })
}

pub(crate) fn udp6() -> Reading<UdpCounters> {
    Err(NotExposed::new(
        "UDP counters of IPv6",
        "macOS counts both versions together",
    ))
}

pub(crate) fn tcp() -> Reading<TcpCounters> {
    Err(NotExposed::new(
        "TCP counters",
        "macOS keeps them in a structure that changes with its versions; netstat -s -p tcp prints them",
    ))
}

pub(crate) fn backlog() -> Reading<BacklogCounters> {
    Err(NotExposed::new(
        "counters of the network backlog",
        "macOS has no such queue",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counters_stand_in_the_order_of_the_header_file() {
        let bytes: Vec<u8> = (100u32..110).flat_map(u32::to_ne_bytes).collect();
        let udp = parse_udpstat(&bytes).unwrap();
        assert_eq!((udp.received, udp.sent), (Some(100), Some(109)));
        assert_eq!((udp.bad_checksum, udp.no_port), (Some(102), Some(104)));
        assert_eq!(
            (udp.receive_buffer_full, udp.out_of_memory),
            (Some(106), None)
        );
        assert_eq!(parse_udpstat(&bytes[..39]), None);
    }
}
