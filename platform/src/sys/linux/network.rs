//! Counters of the network stack: `/proc/net/snmp`, `/proc/net/snmp6`, `/proc/net/softnet_stat`.

use super::files::{Files, HostFiles};
use crate::network::{BacklogCounters, TcpCounters, UdpCounters};
use crate::{NotExposed, Reading};

const SNMP: &str = "/proc/net/snmp";
const SNMP6: &str = "/proc/net/snmp6";
const SOFTNET: &str = "/proc/net/softnet_stat";

pub(crate) fn udp() -> Reading<UdpCounters> {
    udp_from(&HostFiles)
}

pub(super) fn udp_from(files: &impl Files) -> Reading<UdpCounters> {
    const WHAT: &str = "UDP counters";
    let snmp = files.reading(WHAT, SNMP)?;
    let table = Table::find(&snmp, "Udp:");
    let table = table.ok_or_else(|| NotExposed::new(WHAT, format!("{SNMP} has no lines Udp:")))?;
    Ok(udp_counters(|name| table.value(name)))
}

pub(crate) fn udp6() -> Reading<UdpCounters> {
    udp6_from(&HostFiles)
}

pub(super) fn udp6_from(files: &impl Files) -> Reading<UdpCounters> {
    const WHAT: &str = "UDP counters of IPv6";
    let snmp6 = files.reading(WHAT, SNMP6)?;
    let counters = udp_counters(|name| snmp6_value(&snmp6, name));
    if counters == UdpCounters::default() {
        return Err(NotExposed::new(WHAT, format!("{SNMP6} has no lines Udp6")));
    }
    Ok(counters)
}

fn udp_counters(value: impl Fn(&str) -> Option<u64>) -> UdpCounters {
    UdpCounters {
        received: value("InDatagrams"),
        no_port: value("NoPorts"),
        not_delivered: value("InErrors"),
        sent: value("OutDatagrams"),
        receive_buffer_full: value("RcvbufErrors"),
        send_buffer_full: value("SndbufErrors"),
        bad_checksum: value("InCsumErrors"),
        out_of_memory: value("MemErrors"),
    }
}

/// "Udp6InDatagrams                 41", a line per counter.
fn snmp6_value(snmp6: &str, name: &str) -> Option<u64> {
    snmp6.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let found = words.next()?.strip_prefix("Udp6")? == name;
        found.then(|| words.next()?.parse().ok())?
    })
}

pub(crate) fn tcp() -> Reading<TcpCounters> {
    tcp_from(&HostFiles)
}

pub(super) fn tcp_from(files: &impl Files) -> Reading<TcpCounters> {
    const WHAT: &str = "TCP counters";
    let snmp = files.reading(WHAT, SNMP)?;
    let table = Table::find(&snmp, "Tcp:");
    let table = table.ok_or_else(|| NotExposed::new(WHAT, format!("{SNMP} has no lines Tcp:")))?;
    Ok(TcpCounters {
        sent_segments: table.value("OutSegs"),
        retransmitted_segments: table.value("RetransSegs"),
    })
}

/// Two lines of /proc/net/snmp: one with names, and one with the numbers in the same order.
struct Table<'t> {
    names: &'t str,
    numbers: &'t str,
}

impl<'t> Table<'t> {
    /// The two lines that begin with `prefix` (with its colon: "Udp:" is not "UdpLite:").
    fn find(snmp: &'t str, prefix: &str) -> Option<Self> {
        let mut lines = snmp.lines().filter_map(|line| line.strip_prefix(prefix));
        Some(Self {
            names: lines.next()?,
            numbers: lines.next()?,
        })
    }

    fn value(&self, name: &str) -> Option<u64> {
        let mut columns = self
            .names
            .split_whitespace()
            .zip(self.numbers.split_whitespace());
        columns.find(|(column, _)| *column == name)?.1.parse().ok()
    }
}

pub(crate) fn backlog() -> Reading<BacklogCounters> {
    backlog_from(&HostFiles)
}

pub(super) fn backlog_from(files: &impl Files) -> Reading<BacklogCounters> {
    const WHAT: &str = "counters of the network backlog";
    let softnet = files.reading(WHAT, SOFTNET)?;
    parse_softnet(&softnet)
        .ok_or_else(|| NotExposed::new(WHAT, format!("{SOFTNET} is not understood")))
}

/// A line per CPU that is online, of hexadecimal columns: processed, dropped, squeezed, and others.
fn parse_softnet(softnet: &str) -> Option<BacklogCounters> {
    let sum = |column: usize| {
        softnet.lines().try_fold(0u64, |sum, line| {
            let word = line.split_whitespace().nth(column)?;
            Some(sum + u64::from(u32::from_str_radix(word, 16).ok()?))
        })
    };
    // No line at all is no answer.
    softnet.lines().next()?;
    Some(BacklogCounters {
        dropped: Some(sum(1)?),
        squeezed: Some(sum(2)?),
    })
}

#[cfg(test)]
mod tests {
    use super::super::files::ListedFiles;
    use super::*;

    const VM: &str = include_str!("../../../tests/fixtures/small-vm/files.txt");
    const WITHOUT_PSI: &str = include_str!("../../../tests/fixtures/without-psi/files.txt");
    const SERVER: &str = include_str!("../../../tests/fixtures/large-server/files.txt");

    #[test]
    fn both_versions_of_udp_are_read_by_name() {
        let files = ListedFiles::parse(VM);
        let udp = udp_from(&files).unwrap();
        assert_eq!((udp.received, udp.sent), (Some(4_100), Some(4_242)));
        assert_eq!((udp.no_port, udp.not_delivered), (Some(3), Some(17)));
        assert_eq!(udp.receive_buffer_full, Some(12));
        assert_eq!((udp.send_buffer_full, udp.bad_checksum), (Some(1), Some(2)));
        assert_eq!(udp.out_of_memory, Some(3));
        let udp6 = udp6_from(&files).unwrap();
        assert_eq!((udp6.received, udp6.sent), (Some(41), Some(45)));
        assert_eq!(udp6.receive_buffer_full, Some(9));
    }

    #[test]
    fn an_old_kernel_has_fewer_counters_and_those_it_lacks_are_not_zero() {
        let files = ListedFiles::parse(WITHOUT_PSI);
        let udp = udp_from(&files).unwrap();
        assert_eq!((udp.received, udp.receive_buffer_full), (Some(77), Some(0)));
        assert_eq!((udp.bad_checksum, udp.out_of_memory), (Some(5), None));
        let absent = udp6_from(&files).unwrap_err();
        assert!(
            absent.reason.ends_with("snmp6 does not exist here"),
            "{absent}"
        );
    }

    #[test]
    fn retransmitted_segments_are_told_from_sent_ones() {
        let tcp = tcp_from(&ListedFiles::parse(VM)).unwrap();
        assert_eq!(tcp.sent_segments, Some(198_515_593));
        assert_eq!(tcp.retransmitted_segments, Some(1_549));
        assert!(tcp_from(&ListedFiles::parse("")).is_err());
    }

    #[test]
    fn backlogs_are_summed_over_cpus() {
        let backlog = backlog_from(&ListedFiles::parse(VM)).unwrap();
        assert_eq!((backlog.dropped, backlog.squeezed), (Some(16), Some(5)));
        let full = backlog_from(&ListedFiles::parse(SERVER)).unwrap();
        assert_eq!(full.dropped, Some(2 * u64::from(u32::MAX)));
        assert_eq!(parse_softnet(""), None);
        assert_eq!(parse_softnet("00 00\n"), None);
        assert_eq!(parse_softnet("00 xyz 00\n"), None);
    }

    #[test]
    fn a_line_cut_off_has_fewer_counters() {
        let table = Table::find("Udp: InDatagrams NoPorts\nUdp: 7\n", "Udp:").unwrap();
        assert_eq!(
            (table.value("InDatagrams"), table.value("NoPorts")),
            (Some(7), None)
        );
        assert!(Table::find("Udp: InDatagrams\n", "Udp:").is_none());
        assert!(Table::find("UdpLite: InDatagrams\nUdpLite: 7\n", "Udp:").is_none());
        assert_eq!(snmp6_value("Udp6InDatagrams x\n", "InDatagrams"), None);
    }
}
