//! One cell of the matrix: everything that is equal in all its repetitions.

use crate::contract::{Model, Protocol};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Name of the pool's engine in ids and tables.
pub(crate) const POOL_DRIVER: &str = "tokio";
/// The same of the null server.
pub(crate) const NULL_DRIVER: &str = "null";

/// A cell: its factors, and a name that says them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Unique in a plan and equal in every run with these factors.
    pub(crate) id: String,
    /// What is measured.
    pub(crate) factors: Factors,
    /// The A/A control: the baseline a second time under another label.
    pub(crate) control: bool,
}

/// The factors of a cell. Compared cells differ in exactly one of them, or the table says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Factors {
    /// What is spoken.
    pub(crate) protocol: Protocol,
    /// Shards or pool; null only for the generator's floor.
    pub(crate) model: Model,
    /// Server threads that do I/O.
    pub(crate) threads: usize,
    /// Driver asked for; `tokio` for a pool, `null` for the null server.
    pub(crate) driver: String,
    /// Bytes per message.
    pub(crate) payload: usize,
    /// Connections.
    pub(crate) clients: usize,
    /// Outstanding requests per connection.
    pub(crate) window: usize,
    /// Iterations of handler work per message.
    pub(crate) work: u64,
    /// `ipv4` or `ipv6`, loopback.
    pub(crate) family: Family,
    /// How connections or datagrams are spread over shards, where that is not the protocol's default.
    #[serde(default)]
    pub(crate) accept: Option<String>,
    /// How long a shard without work looks for more before it parks.
    #[serde(default)]
    pub(crate) spin_us: u64,
}

/// Address family of the loopback address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Family {
    /// 127.0.0.1
    Ipv4,
    /// ::1
    Ipv6,
}

impl Cell {
    /// The cell of these factors.
    pub(crate) fn new(factors: Factors) -> Self {
        Cell {
            id: factors.id(),
            factors,
            control: false,
        }
    }

    /// The same factors under another label.
    pub(crate) fn control_of(cell: &Cell) -> Self {
        Cell {
            id: format!("{}.aa", cell.id),
            factors: cell.factors.clone(),
            control: true,
        }
    }

    /// The null server under the load of these factors.
    pub(crate) fn null(factors: &Factors) -> Self {
        Cell::new(Factors {
            model: Model::Null,
            threads: 1,
            driver: NULL_DRIVER.to_owned(),
            work: 0,
            accept: None,
            spin_us: 0,
            ..factors.clone()
        })
    }

    /// Its short name within its load, for example `shards 2`.
    pub(crate) fn label(&self) -> String {
        let name = self.factors.label();
        if self.control {
            format!("{name} A/A")
        } else {
            name
        }
    }
}

impl Factors {
    /// The same messages from the same clients: only the server differs.
    pub(crate) fn same_load(&self, other: &Factors) -> bool {
        let load = |f: &Factors| (f.protocol, f.payload, f.clients, f.window, f.work, f.family);
        load(self) == load(other)
    }

    /// The load in words.
    pub(crate) fn load_label(&self) -> String {
        let work = if self.work == 0 {
            String::new()
        } else {
            format!(", work {}", self.work)
        };
        format!(
            "{}, {} B, {} clients x window {}{work}",
            self.protocol.name(),
            self.payload,
            self.clients,
            self.window
        )
    }

    /// Bytes that may be in flight at once.
    pub(crate) fn in_flight_bytes(&self) -> u64 {
        [self.clients, self.window, self.payload]
            .iter()
            .map(|factor| *factor as u64)
            .product()
    }

    fn id(&self) -> String {
        format!(
            "{}.{}{}.{}.{}.c{}.w{}.work{}.closed{}{}",
            self.protocol.name(),
            self.model.name(),
            self.threads,
            self.driver,
            self.payload,
            self.clients,
            self.window,
            self.work,
            if self.family == Family::Ipv6 {
                ".ipv6"
            } else {
                ""
            },
            self.setting_parts(".", "spin")
        )
    }

    /// The settings of the shards that are not the default, each after a mark.
    fn setting_parts(&self, mark: &str, spin: &str) -> String {
        let accept = self.accept.iter().map(|name| format!("{mark}{name}"));
        let spin = (self.spin_us > 0).then(|| format!("{mark}{spin}{}", self.spin_us));
        accept.chain(spin).collect()
    }

    /// The same settings of the shards.
    pub(crate) fn same_settings(&self, other: &Factors) -> bool {
        (&self.accept, self.spin_us) == (&other.accept, other.spin_us)
    }

    fn label(&self) -> String {
        let plain = format!("{} {}", self.model.name(), self.threads);
        let settings = self.setting_parts(" ", "spin ");
        match self.model {
            Model::Null => self.model.name().to_owned(),
            Model::Shards if self.driver != "auto" => format!("{plain} {}{settings}", self.driver),
            Model::Shards => format!("{plain}{settings}"),
            Model::Pool => plain,
        }
    }
}

impl Family {
    /// Where the server listens, the port left to the system.
    pub(crate) fn listen(self) -> &'static str {
        match self {
            Family::Ipv4 => "127.0.0.1:0",
            Family::Ipv6 => "[::1]:0",
        }
    }

    /// That of an address.
    pub(crate) fn of(address: SocketAddr) -> Self {
        if address.is_ipv6() {
            Family::Ipv6
        } else {
            Family::Ipv4
        }
    }

    /// As written in words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Family::Ipv4 => "ipv4",
            Family::Ipv6 => "ipv6",
        }
    }
}

impl Protocol {
    /// Every protocol of this tool.
    pub(crate) const ALL: [Protocol; 8] = [
        Protocol::Tcp,
        Protocol::Echo,
        Protocol::Udp,
        Protocol::Tls,
        Protocol::Ws,
        Protocol::Wss,
        Protocol::Http,
        Protocol::Https,
    ];

    /// As written on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Tcp => "tcp",
            Protocol::Echo => "echo",
            Protocol::Udp => "udp",
            Protocol::Tls => "tls",
            Protocol::Ws => "ws",
            Protocol::Wss => "wss",
            Protocol::Http => "http",
            Protocol::Https => "https",
        }
    }

    /// In TLS, so that a server needs a certificate and a client somebody to trust.
    pub(crate) fn is_encrypted(self) -> bool {
        matches!(self, Protocol::Tls | Protocol::Wss | Protocol::Https)
    }

    /// What is sent comes back as it is, so that a server may know nothing of messages: the null server.
    pub(crate) fn is_mirrored(self) -> bool {
        matches!(self, Protocol::Tcp | Protocol::Echo | Protocol::Udp)
    }

    /// Over datagrams, where messages may be lost; else over streams.
    pub(crate) fn is_datagram(self) -> bool {
        matches!(self, Protocol::Udp)
    }

    /// Most bytes of a message.
    pub(crate) fn payload_max(self, family: Family) -> usize {
        match (self, family) {
            (Protocol::Udp, Family::Ipv4) => 65_535 - 20 - 8,
            (Protocol::Udp, Family::Ipv6) => 65_535 - 8,
            _ => 1024 * 1024,
        }
    }

    /// What is wrong with a message of so many bytes, if it is too long: the size, and why that is the limit.
    pub(crate) fn payload_fault(self, family: Family, bytes: usize) -> Option<String> {
        let most = self.payload_max(family);
        let why = match (self, family) {
            (Protocol::Udp, Family::Ipv4) => "65535 - 20 IP - 8 UDP",
            (Protocol::Udp, Family::Ipv6) => "65535 - 8 UDP",
            _ => "the bound of this tool",
        };
        (bytes > most).then(|| {
            format!(
                "{}/{} payload {bytes} exceeds {most} ({why}).",
                self.name(),
                family.name()
            )
        })
    }
}

impl Model {
    /// As written in ids and tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Model::Shards => "shards",
            Model::Pool => "pool",
            Model::Null => "null",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A cell for tests.
    pub(crate) fn cell(model: Model, threads: usize) -> Cell {
        let driver = if model == Model::Pool {
            POOL_DRIVER
        } else {
            "auto"
        }
        .to_owned();
        Cell::new(Factors {
            protocol: Protocol::Tcp,
            model,
            threads,
            driver,
            payload: 1024,
            clients: 16,
            window: 8,
            work: 0,
            family: Family::Ipv4,
            accept: None,
            spin_us: 0,
        })
    }

    #[test]
    fn ids_and_labels_say_the_factors() {
        let pool = cell(Model::Pool, 2);
        assert_eq!(pool.id, "tcp.pool2.tokio.1024.c16.w8.work0.closed");
        assert_eq!(pool.label(), "pool 2");
        let control = Cell::control_of(&pool);
        assert_eq!(control.id, "tcp.pool2.tokio.1024.c16.w8.work0.closed.aa");
        assert_eq!(control.label(), "pool 2 A/A");
        assert!(control.factors.same_load(&cell(Model::Shards, 1).factors));
        let null = Cell::null(&pool.factors);
        assert_eq!(null.id, "tcp.null1.null.1024.c16.w8.work0.closed");
        assert_eq!(null.label(), "null");
        let set = Cell::new(Factors {
            accept: Some("reuseport".to_owned()),
            spin_us: 50,
            ..cell(Model::Shards, 2).factors
        });
        assert_eq!(
            set.id,
            "tcp.shards2.auto.1024.c16.w8.work0.closed.reuseport.spin50"
        );
        assert_eq!(set.label(), "shards 2 reuseport spin 50");
        assert_eq!(Cell::null(&set.factors).id, null.id);
    }
}
