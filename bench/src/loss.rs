//! Where lost datagrams went: what the load misses, held against what the kernel says it dropped.
//!
//! Every request without a reply was dropped somewhere: at the server's socket, between its shards, or its reply at the client's
//! socket. Where one of these is not told, the count of the whole machine stands in for the sockets; it is everybody's, and says so.
//! What is left is unexplained, and nothing should be.

use crate::contract::{DatagramReport, ServedDatagrams};
use serde::{Deserialize, Serialize};

/// One repetition's losses, from the first request to the last reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Loss {
    /// Requests sent.
    pub(crate) sent: u64,
    /// Requests lost.
    pub(crate) lost: u64,
    /// Of those, replies that came late.
    pub(crate) late: u64,
    /// Replies beyond the first.
    pub(crate) duplicates: u64,
    /// Replies after a reply to a later request.
    pub(crate) reordered: u64,
    /// Datagrams the server received.
    pub(crate) server_received: Option<u64>,
    /// Datagrams the server sent.
    pub(crate) server_sent: Option<u64>,
    /// Datagrams the server could not send.
    pub(crate) server_refused: Option<u64>,
    /// Dropped by the kernel at the server's sockets.
    pub(crate) server_dropped: Option<u64>,
    /// Dropped between the server's shards.
    pub(crate) dropped_between_shards: Option<u64>,
    /// Dropped by the kernel at the clients' sockets.
    pub(crate) client_dropped: Option<u64>,
    /// Full receive buffers of the whole machine, or network namespace.
    pub(crate) system_receive_buffer_full: Option<u64>,
    /// Whose counts explain the loss.
    pub(crate) explained_by: Explained,
    /// Lost, not late, and in no count of drops; below 0 if more was dropped than this load misses.
    pub(crate) unexplained: Option<i64>,
}

/// Whose counts a loss is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Explained {
    /// The sockets' own.
    Sockets,
    /// The whole machine's, other programs' datagrams among them.
    System,
    /// Nobody tells.
    Nobody,
}

impl Loss {
    /// Holds the load's report against the server's last words, if there are any.
    pub(crate) fn of(report: &DatagramReport, served: Option<&ServedDatagrams>) -> Self {
        let whole = &report.whole;
        let server_dropped = served.and_then(|served| served.dropped);
        let between = served.and_then(|served| served.dropped_between_shards);
        let sockets = server_dropped
            .zip(report.client_dropped)
            .map(|(server, client)| server + client);
        let (explained_by, dropped) = match (sockets, report.system_receive_buffer_full) {
            (Some(dropped), _) => (Explained::Sockets, Some(dropped)),
            (None, Some(dropped)) => (Explained::System, Some(dropped)),
            (None, None) => (Explained::Nobody, None),
        };
        let elsewhere = between.unwrap_or(0) + served.map_or(0, |served| served.refused);
        let missing = whole.lost.saturating_sub(whole.late);
        Loss {
            sent: whole.sent,
            lost: whole.lost,
            late: whole.late,
            duplicates: whole.duplicates,
            reordered: whole.reordered,
            server_received: served.map(|served| served.received),
            server_sent: served.map(|served| served.sent),
            server_refused: served.map(|served| served.refused),
            server_dropped,
            dropped_between_shards: between,
            client_dropped: report.client_dropped,
            system_receive_buffer_full: report.system_receive_buffer_full,
            explained_by,
            unexplained: dropped.and_then(|dropped| {
                i64::try_from(i128::from(missing) - i128::from(dropped) - i128::from(elsewhere))
                    .ok()
            }),
        }
    }

    /// Several repetitions together; what one of them does not know, the sum does not know.
    pub(crate) fn sum(losses: impl IntoIterator<Item = Loss>) -> Option<Loss> {
        let both = |a: Option<u64>, b: Option<u64>| a.zip(b).map(|(a, b)| a + b);
        losses.into_iter().reduce(|a, b| Loss {
            sent: a.sent + b.sent,
            lost: a.lost + b.lost,
            late: a.late + b.late,
            duplicates: a.duplicates + b.duplicates,
            reordered: a.reordered + b.reordered,
            server_received: both(a.server_received, b.server_received),
            server_sent: both(a.server_sent, b.server_sent),
            server_refused: both(a.server_refused, b.server_refused),
            server_dropped: both(a.server_dropped, b.server_dropped),
            dropped_between_shards: both(a.dropped_between_shards, b.dropped_between_shards),
            client_dropped: both(a.client_dropped, b.client_dropped),
            system_receive_buffer_full: both(
                a.system_receive_buffer_full,
                b.system_receive_buffer_full,
            ),
            explained_by: if a.explained_by == b.explained_by {
                a.explained_by
            } else {
                Explained::System
            },
            unexplained: a.unexplained.zip(b.unexplained).map(|(a, b)| a + b),
        })
    }

    /// In words, if anything was lost.
    pub(crate) fn words(&self) -> Option<String> {
        if self.lost == 0 {
            return None;
        }
        let told = |count: Option<u64>| count.map_or("not told".to_owned(), |n| n.to_string());
        let between = self
            .dropped_between_shards
            .map_or(String::new(), |count| format!(", between shards {count}"));
        let unexplained = match (self.unexplained, self.explained_by) {
            (None, _) => "how many of them are explained is not known".to_owned(),
            (Some(count), Explained::System) => {
                format!("unexplained {count}, by the count of the whole machine")
            }
            (Some(count), _) => format!("unexplained {count}"),
        };
        Some(format!(
            "lost {} of {} requests ({:.3} %), of which late {}. dropped: server socket {}, client sockets {}{between}, whole machine {}; {unexplained}",
            self.lost,
            self.sent,
            self.lost as f64 / self.sent.max(1) as f64 * 100.0,
            self.late,
            told(self.server_dropped),
            told(self.client_dropped),
            told(self.system_receive_buffer_full),
        ))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::contract::{Closure, UdpBuffers};
    use crate::udp_socket::REQUESTED;

    /// A report with this much lost of 1,000 requests.
    pub(crate) fn report(lost: u64, late: u64) -> DatagramReport {
        let whole = Closure {
            sent: 1000,
            echoed: 1000 - lost,
            lost,
            late,
            ..Closure::default()
        };
        DatagramReport {
            timeout_ns: 50_000_000,
            max_loss: 0.0,
            loss_share: lost as f64 / 1000.0,
            window: whole,
            whole,
            mean_in_flight: None,
            buffers: UdpBuffers::requested(REQUESTED),
            client_dropped: Some(1),
            system_receive_buffer_full: Some(9),
        }
    }

    fn served(dropped: Option<u64>) -> ServedDatagrams {
        ServedDatagrams {
            received: 995,
            sent: 994,
            refused: 1,
            dropped,
            dropped_between_shards: None,
        }
    }

    #[test]
    fn what_the_sockets_dropped_explains_what_is_missing() {
        let loss = Loss::of(&report(9, 2), Some(&served(Some(5))));
        assert_eq!(loss.unexplained, Some(0), "7 = 5 + 1 + 1");
        assert_eq!(loss.explained_by, Explained::Sockets);
        let words = loss.words().unwrap();
        assert!(words.starts_with("lost 9 of 1000 requests (0.900 %), of which late 2. dropped: server socket 5, client sockets 1, whole machine 9; unexplained 0"), "{words}");
        assert_eq!(Loss::of(&report(0, 0), None).words(), None);
    }

    #[test]
    fn the_machine_stands_in_for_sockets_that_do_not_tell() {
        let loss = Loss::of(&report(20, 0), Some(&served(None)));
        assert_eq!(loss.explained_by, Explained::System);
        assert_eq!(loss.unexplained, Some(10), "20 - 9 - 1");
        let mut blind = report(20, 0);
        blind.system_receive_buffer_full = None;
        let loss = Loss::of(&blind, None);
        assert_eq!(
            (loss.unexplained, loss.explained_by),
            (None, Explained::Nobody)
        );
        assert!(loss.words().unwrap().contains("not told"));
    }

    #[test]
    fn a_sum_knows_what_all_know() {
        let one = Loss::of(&report(9, 2), Some(&served(Some(5))));
        let blind = Loss::of(&report(3, 0), Some(&served(None)));
        let sum = Loss::sum([one, one]).unwrap();
        assert_eq!(
            (sum.lost, sum.server_dropped, sum.unexplained),
            (18, Some(10), Some(0))
        );
        let sum = Loss::sum([one, blind]).unwrap();
        assert_eq!((sum.lost, sum.server_dropped), (12, None));
        assert_eq!(Loss::sum([]), None);
    }
}
