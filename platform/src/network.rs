//! What the network stack has counted: UDP, TCP, and packets dropped before any socket saw them.
//!
//! The counters belong to the host, on Linux to the network namespace that the process was started in (that of its first
//! thread): everybody's traffic is in them. What one socket dropped is told by [`crate::socket::socket_memory`] and
//! [`crate::socket::report_drops`].

use crate::Reading;
use crate::counter::added_where_known;
use crate::sys::os;

/// UDP datagrams since boot. A counter this kernel does not have is `None`, which is not zero.
///
/// Linux: the lines `Udp:` of `/proc/net/snmp` (proc_net(5), RFC 4113), for IPv6 `Udp6…` of `/proc/net/snmp6`; the
/// names of the fields there are given here. macOS: `udpstat` of sysctl `net.inet.udp.stats` (`netinet/udp_var.h`),
/// whose counters have 32 bits and count both versions of IP together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Received by a socket; Linux counts a datagram when it is read, macOS when it arrives. `InDatagrams`.
    pub received: Option<u64>,
    /// Arrived where no socket was bound. `NoPorts`.
    pub no_port: Option<u64>,
    /// Not delivered for any other reason, the three below among them. `InErrors`. macOS counts reasons only.
    pub not_delivered: Option<u64>,
    /// Sent. `OutDatagrams`.
    pub sent: Option<u64>,
    /// Not delivered because the socket's receive buffer was full. `RcvbufErrors`, Linux 2.6.17.
    pub receive_buffer_full: Option<u64>,
    /// Not sent because the send buffer was full (a nonblocking sender has got EAGAIN and may try again) or memory
    /// was short. `SndbufErrors`, Linux 2.6.17. Not counted by macOS.
    pub send_buffer_full: Option<u64>,
    /// Not delivered because the checksum was wrong. `InCsumErrors`, Linux 3.10.
    pub bad_checksum: Option<u64>,
    /// Not delivered because all UDP sockets together have too much (`udp_mem`). `MemErrors`, Linux 5.11. Not
    /// counted by macOS.
    pub out_of_memory: Option<u64>,
}

impl UdpCounters {
    /// Those of IPv4; on macOS of both versions.
    ///
    /// # Errors
    /// [`NotExposed`](crate::NotExposed) when the host does not tell.
    pub fn read() -> Reading<Self> {
        os::network::udp()
    }

    /// Those of IPv6.
    ///
    /// # Errors
    /// [`NotExposed`](crate::NotExposed) where IPv6 is switched off, and on macOS, which counts both together.
    pub fn read_v6() -> Reading<Self> {
        os::network::udp6()
    }

    /// What was added since `earlier`, counter by counter as [`crate::counter::added`] does it.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let added =
            |counter: fn(&Self) -> Option<u64>| added_where_known(counter(self), counter(earlier));
        Self {
            received: added(|counters| counters.received),
            no_port: added(|counters| counters.no_port),
            not_delivered: added(|counters| counters.not_delivered),
            sent: added(|counters| counters.sent),
            receive_buffer_full: added(|counters| counters.receive_buffer_full),
            send_buffer_full: added(|counters| counters.send_buffer_full),
            bad_checksum: added(|counters| counters.bad_checksum),
            out_of_memory: added(|counters| counters.out_of_memory),
        }
    }
}

/// TCP segments since boot. A counter this kernel does not have is `None`.
///
/// Linux: the lines `Tcp:` of `/proc/net/snmp` (proc_net(5), RFC 4022), for both versions of IP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounters {
    /// Sent, those sent again not included. `OutSegs`.
    pub sent_segments: Option<u64>,
    /// Sent again. `RetransSegs`.
    pub retransmitted_segments: Option<u64>,
}

impl TcpCounters {
    /// Asks the host.
    ///
    /// # Errors
    /// [`NotExposed`](crate::NotExposed) when the host does not tell: macOS keeps them in a structure that changes
    /// with its versions.
    pub fn read() -> Reading<Self> {
        os::network::tcp()
    }

    /// What was added since `earlier`, counter by counter as [`crate::counter::added`] does it.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            sent_segments: added_where_known(self.sent_segments, earlier.sent_segments),
            retransmitted_segments: added_where_known(
                self.retransmitted_segments,
                earlier.retransmitted_segments,
            ),
        }
    }
}

/// Packets between the network driver and the protocols, since boot, over all CPUs. Packets to ourselves (the
/// loopback) take this way, too.
///
/// Linux: `/proc/net/softnet_stat`, columns 2 and 3 (kernel source, `net/core/net-procfs.c`), which have 32 bits
/// for each CPU. CPUs that went offline in between make the sum smaller, and the difference then is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BacklogCounters {
    /// Packets dropped because the queue of a CPU was full (`net.core.netdev_max_backlog`).
    pub dropped: Option<u64>,
    /// How often the work on received packets was broken off because its time or its budget was used up.
    pub squeezed: Option<u64>,
}

impl BacklogCounters {
    /// Asks the host.
    ///
    /// # Errors
    /// [`NotExposed`](crate::NotExposed) when it does not tell: macOS has no such queue.
    pub fn read() -> Reading<Self> {
        os::network::backlog()
    }

    /// What was added since `earlier`, counter by counter as [`crate::counter::added`] does it.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            dropped: added_where_known(self.dropped, earlier.dropped),
            squeezed: added_where_known(self.squeezed, earlier.squeezed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_both_readings_have_is_subtracted() {
        let earlier = UdpCounters {
            received: Some(10),
            no_port: Some(7),
            receive_buffer_full: Some(u32::MAX.into()),
            bad_checksum: None,
            ..UdpCounters::default()
        };
        let later = UdpCounters {
            received: Some(25),
            no_port: Some(2),
            receive_buffer_full: Some(4),
            bad_checksum: Some(1),
            ..UdpCounters::default()
        };
        let added = UdpCounters {
            received: Some(15),
            receive_buffer_full: Some(5),
            ..UdpCounters::default()
        };
        assert_eq!(later.since(&earlier), added);
    }
}
