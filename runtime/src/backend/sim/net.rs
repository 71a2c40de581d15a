//! The network of a world: what its hosts share, and what is on its way.
//!
//! # Who owns what
//! Everything is in one [`State`], behind a lock that nobody ever waits for, because a world runs on one thread: it is there because
//! a connection may be handed from shard to shard, which the types of an engine allow from thread to thread. What a shard holds of a
//! connection, a listener or a socket is its number, which is never used again; when that is dropped, the state hears of it.
//!
//! Nobody is woken, and no waker is dropped, while the lock is held: both may run code that comes back here.

use super::{
    clock::Clock,
    connection::{Attempt, Connection},
    datagram::Socket,
    link::{Link, Links, Way},
    listener::Door,
    log::{Log, Noted},
    names::Names,
    random::{Random, mix},
};
use crate::{address::Address, context, task::shield};
use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    rc::Rc,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Waker},
};

/// Where a shard is: its engine's part of the current shard.
pub(super) struct Place {
    pub(super) net: Net,
    pub(super) host: usize,
    /// Among all shards of the world.
    pub(super) shard: usize,
}

impl Place {
    /// Where the current shard is; `None` without one, or on another engine.
    pub(super) fn current() -> Option<Rc<Self>> {
        context::find()?.engine_state()
    }
}

/// A handle to a network.
#[derive(Clone)]
pub(super) struct Net(Arc<Inner>);

struct Inner {
    clock: Arc<Clock>,
    state: Mutex<State>,
}

/// Somebody who waits.
pub(super) struct Waiter {
    shard: usize,
    waker: Waker,
}

impl Waiter {
    pub(super) fn new(shard: usize, cx: &Context<'_>) -> Self {
        Self {
            shard,
            waker: cx.waker().clone(),
        }
    }

    pub(super) fn shard(&self) -> usize {
        self.shard
    }
}

/// Everything there is in a network.
pub(super) struct State {
    clock: Arc<Clock>,
    pub(super) random: Random,
    pub(super) salt: u64,
    pub(super) links: Links,
    hosts: Vec<IpAddr>,
    log: Option<Log>,
    events: BTreeMap<(u64, u64), Event>,
    count: u64,
    woken: Vec<Waiter>,
    outdated: Vec<Waiter>,
    pub(super) stream_names: Names,
    pub(super) datagram_names: Names,
    pub(super) doors: BTreeMap<u64, Door>,
    pub(super) attempts: BTreeMap<u64, Attempt>,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) sockets: BTreeMap<u64, Socket>,
}

/// What will happen at some moment.
pub(super) enum Event {
    /// A wish to connect reaches the other host.
    Knock { attempt: u64 },
    /// The answer to it is back; `None`: refused.
    Answer {
        attempt: u64,
        connection: Option<u64>,
        /// How often it was lost.
        lost: u32,
    },
    /// The first packet on the way to `side` of a connection arrives.
    Segment { connection: u64, side: usize },
    /// A reset reaches `side` of a connection.
    Reset {
        connection: u64,
        side: usize,
        /// How often it was lost.
        lost: u32,
    },
    /// A datagram arrives.
    Datagram {
        way: Way,
        from: SocketAddr,
        to: SocketAddr,
        bytes: Vec<u8>,
    },
    /// What was planned.
    Change(Change),
}

/// What happens to the links between two hosts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    Part(usize, usize),
    Heal(usize, usize),
    Sever(usize, usize),
}

impl Net {
    pub(super) fn new(seed: &mut Random, between: Link, loopback: Link, log: bool) -> Self {
        let clock = Clock::new();
        let state = State {
            clock: clock.clone(),
            random: seed.split(),
            salt: seed.next(),
            links: Links::new(between, loopback),
            hosts: Vec::new(),
            log: log.then(Log::new),
            events: BTreeMap::new(),
            count: 0,
            woken: Vec::new(),
            outdated: Vec::new(),
            stream_names: Names::default(),
            datagram_names: Names::default(),
            doors: BTreeMap::new(),
            attempts: BTreeMap::new(),
            connections: BTreeMap::new(),
            sockets: BTreeMap::new(),
        };
        Self(Arc::new(Inner {
            clock,
            state: Mutex::new(state),
        }))
    }

    pub(super) fn clock(&self) -> &Arc<Clock> {
        &self.0.clock
    }

    /// Does something to the state, and then wakes whom that concerns.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let (result, woken) = self.locked(f);
        woken
            .into_iter()
            .for_each(|waiter| shield::wake(waiter.waker));
        result
    }

    /// Lets happen what is due, and wakes whom that concerns, each within `enter` of its shard.
    pub(super) fn deliver(&self, mut enter: impl FnMut(usize, Waker)) {
        let now = self.0.clock.elapsed_ns();
        let ((), woken) = self.locked(|state| {
            while let Some(event) = state.pop_due(now) {
                state.happen(event);
            }
        });
        woken
            .into_iter()
            .for_each(|waiter| enter(waiter.shard, waiter.waker));
    }

    /// When the next event is due.
    pub(super) fn next_event(&self) -> Option<u64> {
        self.locked(|state| state.events.first_key_value().map(|((at, _), _)| *at))
            .0
    }

    pub(super) fn note(&self, event: Noted) {
        self.locked(|state| state.note(event));
    }

    pub(super) fn take_log(&self) -> Option<Log> {
        self.locked(|state| state.log.take()).0
    }

    fn locked<R>(&self, f: impl FnOnce(&mut State) -> R) -> (R, Vec<Waiter>) {
        // A panic in there is a fault of this engine; the tests of it are to fail by that one and not by the lock.
        let mut state = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut state);
        let woken = std::mem::take(&mut state.woken);
        let outdated = std::mem::take(&mut state.outdated);
        drop(state);
        for waiter in outdated {
            shield::forget(Some(waiter.waker));
        }
        (result, woken)
    }
}

impl State {
    pub(super) fn now(&self) -> u64 {
        self.clock.elapsed_ns()
    }

    pub(super) fn note(&mut self, event: Noted) {
        let now = self.now();
        if let Some(log) = &mut self.log {
            log.note(now, event);
        }
    }

    /// A number that nothing had before.
    pub(super) fn number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    pub(super) fn schedule(&mut self, at: u64, event: Event) {
        let number = self.number();
        self.events.insert((at, number), event);
    }

    pub(super) fn wake(&mut self, waiter: Option<Waiter>) {
        self.woken.extend(waiter);
    }

    /// Keeps a waiter until it can be dropped.
    pub(super) fn forget(&mut self, waiter: Option<Waiter>) {
        self.outdated.extend(waiter);
    }

    fn pop_due(&mut self, now: u64) -> Option<Event> {
        let entry = self.events.first_entry()?;
        (entry.key().0 <= now).then(|| entry.remove())
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Knock { attempt } => self.knock(attempt),
            Event::Answer {
                attempt,
                connection,
                lost,
            } => self.answer(attempt, connection, lost),
            Event::Segment { connection, side } => self.segment(connection, side),
            Event::Reset {
                connection,
                side,
                lost,
            } => self.reset_arrives(connection, side, lost),
            Event::Datagram {
                way,
                from,
                to,
                bytes,
            } => self.datagram_arrives(way, from, to, &bytes),
            Event::Change(change) => self.change(change),
        }
    }

    fn change(&mut self, change: Change) {
        let (a, b) = match change {
            Change::Part(a, b) | Change::Heal(a, b) | Change::Sever(a, b) => (a, b),
        };
        match change {
            Change::Part(..) => {
                self.note(Noted::Parted { a, b });
                self.links.partition((a, b));
                self.links.partition((b, a));
            }
            Change::Heal(..) => {
                self.note(Noted::Healed { a, b });
                self.links.heal((a, b));
                self.links.heal((b, a));
            }
            Change::Sever(..) => {
                self.note(Noted::Severed { a, b });
                self.sever(a, b);
            }
        }
    }

    pub(super) fn add_host(&mut self, ip: IpAddr) -> usize {
        self.hosts.push(ip);
        self.hosts.len() - 1
    }

    /// The host that has an address, or whose every host has as its own.
    pub(super) fn locate(&self, from: usize, ip: IpAddr) -> Option<usize> {
        let ip = ip.to_canonical();
        if ip.is_loopback() || ip.is_unspecified() {
            return Some(from);
        }
        self.hosts.iter().position(|known| *known == ip)
    }

    /// Whether one can bind to an address on a host.
    pub(super) fn has(&self, host: usize, ip: IpAddr) -> bool {
        self.locate(host, ip) == Some(host)
    }

    /// The address that a host sends from to another.
    pub(super) fn source(&self, host: usize, to: IpAddr) -> IpAddr {
        let own = self.hosts[host];
        let inward = to.is_loopback() || to.is_unspecified();
        match (to, inward || own.is_ipv4() != to.is_ipv4()) {
            (_, false) => own,
            (IpAddr::V4(_), true) => Ipv4Addr::LOCALHOST.into(),
            (IpAddr::V6(_), true) => Ipv6Addr::LOCALHOST.into(),
        }
    }

    /// One of those that share an address, by the addresses of the packet.
    pub(super) fn pick(&self, members: &[u64], from: &Address, to: &Address) -> Option<u64> {
        let step = |hash, part: u16| mix(hash ^ u64::from(part));
        let fold = |hash, address: &Address| match address.inet() {
            Some(address) => {
                let ip = match address.ip() {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                let parts = ip.segments().into_iter().chain([address.port()]);
                parts.fold(hash, step)
            }
            None => hash,
        };
        let hash = fold(fold(self.salt, from), to);
        let at = hash.checked_rem(members.len() as u64)?;
        usize::try_from(at)
            .ok()
            .and_then(|at| members.get(at))
            .copied()
    }
}
