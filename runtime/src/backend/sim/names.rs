//! Which addresses of which hosts are taken, and by whom.

use crate::address::Address;
use shardloop_platform::socket::BindCause;
use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
};

/// The addresses in use, of streams or of datagrams. A host is a number.
#[derive(Debug, Default)]
pub(super) struct Names {
    groups: BTreeMap<(usize, Address), Group>,
    /// The next port to hand out on each host, above the first.
    next_port: BTreeMap<usize, u16>,
    /// Paths that were bound once: like a file, a name outlives its socket.
    paths: BTreeSet<(usize, PathBuf)>,
}

/// Those that share an address.
#[derive(Debug)]
struct Group {
    members: Vec<u64>,
    only_v6: bool,
}

impl Names {
    /// The ports that are handed out, those of Linux.
    const FIRST_PORT: u16 = 32_768;
    const PORTS: u16 = 28_232;

    /// Takes an address for `members`; port 0 is replaced by a free one.
    pub(super) fn claim(
        &mut self,
        host: usize,
        wish: &Address,
        only_v6: bool,
        members: Vec<u64>,
    ) -> Result<Address, BindCause> {
        let address = match wish {
            Address::Inet(wish) if wish.port() == 0 => {
                let port = self.port(host, wish.ip(), only_v6)?;
                Address::Inet(SocketAddr::new(wish.ip(), port))
            }
            wish => wish.clone(),
        };
        if self.is_taken(host, &address, only_v6) {
            return Err(BindCause::InUse);
        }
        if let Some(path) = address.path() {
            self.paths.insert((host, path.to_owned()));
        }
        let group = Group { members, only_v6 };
        self.groups.insert((host, address.clone()), group);
        Ok(address)
    }

    /// One of those at an address is gone; with the last of them the address is free.
    pub(super) fn leave(&mut self, host: usize, address: &Address, member: u64) {
        let key = (host, address.clone());
        if let Some(group) = self.groups.get_mut(&key) {
            group.members.retain(|known| *known != member);
            if group.members.is_empty() {
                self.groups.remove(&key);
            }
        }
    }

    /// Who is reached at an address: who has it, or all addresses.
    pub(super) fn find(&self, host: usize, address: &Address) -> &[u64] {
        let exact = |address: Address| self.groups.get(&(host, address));
        let group = exact(address.clone()).or_else(|| {
            let address = address.inet()?;
            let any = |ip: IpAddr| exact(SocketAddr::new(ip, address.port()).into());
            let any_v6 = any(Ipv6Addr::UNSPECIFIED.into());
            if address.is_ipv6() {
                return any_v6;
            }
            any(Ipv4Addr::UNSPECIFIED.into()).or(any_v6.filter(|group| !group.only_v6))
        });
        group.map_or(&[], |group| &group.members)
    }

    /// Whether the path was bound before, now or once.
    pub(super) fn knows(&self, host: usize, path: PathBuf) -> bool {
        self.paths.contains(&(host, path))
    }

    /// A port of `host` that nobody has.
    pub(super) fn port(
        &mut self,
        host: usize,
        ip: IpAddr,
        only_v6: bool,
    ) -> Result<u16, BindCause> {
        for _ in 0..Self::PORTS {
            let next = self.next_port.entry(host).or_default();
            let port = Self::FIRST_PORT + *next;
            *next = (*next + 1) % Self::PORTS;
            let address = Address::Inet(SocketAddr::new(ip, port));
            if !self.is_taken(host, &address, only_v6) {
                return Ok(port);
            }
        }
        Err(BindCause::InUse)
    }

    fn is_taken(&self, host: usize, wish: &Address, only_v6: bool) -> bool {
        let clashes = |(address, group): (&Address, &Group)| match (wish, address) {
            (Address::Inet(wish), Address::Inet(known)) => {
                let dual = |any: IpAddr, only_v6: bool| {
                    any == IpAddr::V6(Ipv6Addr::UNSPECIFIED) && !only_v6
                };
                let any = wish.ip().is_unspecified() || known.ip().is_unspecified();
                let family = wish.is_ipv4() == known.is_ipv4()
                    || dual(wish.ip(), only_v6)
                    || dual(known.ip(), group.only_v6);
                wish.port() == known.port() && (wish.ip() == known.ip() || any && family)
            }
            (wish, address) => wish == address,
        };
        self.groups
            .iter()
            .filter(|((at, _), _)| *at == host)
            .any(|((_, address), group)| clashes((address, group)))
    }
}

#[cfg(test)]
mod tests {
    use super::{BindCause, Names};
    use crate::address::Address;

    fn at(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_is_taken_once_and_free_when_its_last_is_gone() {
        let mut names = Names::default();
        let taken = names
            .claim(0, &at("127.0.0.1:0"), true, vec![1, 2])
            .unwrap();
        assert_ne!(taken.inet().unwrap().port(), 0);
        assert_eq!(names.claim(0, &taken, true, vec![3]), Err(BindCause::InUse));
        let any = format!("0.0.0.0:{}", taken.inet().unwrap().port());
        assert!(names.claim(0, &at(&any), true, vec![3]).is_err());
        assert!(
            names.claim(1, &taken, true, vec![3]).is_ok(),
            "another host"
        );
        assert_eq!(names.find(0, &taken), [1, 2]);
        names.leave(0, &taken, 1);
        names.leave(0, &taken, 2);
        assert!(names.find(0, &taken).is_empty());
        assert!(names.claim(0, &taken, true, vec![4]).is_ok());
    }

    #[test]
    fn who_has_all_addresses_is_reached_at_each() {
        let mut names = Names::default();
        names.claim(0, &at("0.0.0.0:80"), true, vec![1]).unwrap();
        names.claim(0, &at("[::]:80"), true, vec![2]).unwrap();
        names.claim(0, &at("[::]:81"), false, vec![3]).unwrap();
        assert_eq!(names.find(0, &at("10.0.0.1:80")), [1]);
        assert_eq!(names.find(0, &at("[::1]:80")), [2]);
        assert_eq!(names.find(0, &at("10.0.0.1:81")), [3]);
        assert!(names.find(0, &at("10.0.0.1:82")).is_empty());
        assert!(names.claim(0, &at("1.2.3.4:81"), true, vec![4]).is_err());
    }

    #[test]
    fn a_path_is_known_after_its_socket() {
        let mut names = Names::default();
        let path = at("unix:/run/a.sock");
        names.claim(0, &path, true, vec![1]).unwrap();
        names.leave(0, &path, 1);
        assert!(names.find(0, &path).is_empty() && names.knows(0, "/run/a.sock".into()));
        assert!(!names.knows(1, "/run/a.sock".into()));
    }
}
