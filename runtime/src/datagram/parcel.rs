//! Datagrams on their way from the shard that receives for all to the others, where the kernel does not spread them.
//!
//! All of one sender go to one shard, so a service may keep what it knows of a peer on that shard. What finds no room on its way is
//! dropped and counted, as the kernel does with what finds no room in a socket. When a shard's socket is gone, its senders are shared
//! out among those that still have theirs, whose own senders stay where they are.

use super::{Batch, LARGEST_BYTES, Outbox};
use crate::{
    backend::Datagram,
    race::{Either, race},
    shutdown::stopping,
    time::sleep,
    wake::Remote,
};
use crossbeam_queue::SegQueue;
use std::{
    hash::{DefaultHasher, Hash, Hasher},
    net::SocketAddr,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence},
    },
    time::Duration,
};

/// What waits for one shard: parcels of datagrams, each with its sender's address.
pub(crate) struct Letterbox {
    parcels: SegQueue<Outbox>,
    waiting_bytes: AtomicUsize,
    dropped: AtomicU64,
    closed: AtomicBool,
    remote: Arc<Remote>,
}

impl Letterbox {
    /// Bytes that may wait for a shard: as much as a large receive buffer of a socket.
    const BOUND_BYTES: usize = 4 << 20;

    pub(crate) fn new(remote: Arc<Remote>) -> Self {
        Self {
            parcels: SegQueue::new(),
            waiting_bytes: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            remote,
        }
    }

    /// Leaves a parcel for the shard, or drops it for want of room.
    fn put(&self, parcel: Outbox) {
        let bytes = weight(&parcel);
        if self.waiting_bytes.load(Ordering::Relaxed) + bytes > Self::BOUND_BYTES {
            return self.lose(&parcel);
        }
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.parcels.push(parcel);
        // It may have been closed in between. The fences see to it that either this notices, or `close` finds what was pushed.
        fence(Ordering::SeqCst);
        if self.is_closed() {
            return self.clear();
        }
        self.remote.notify();
    }

    fn lose(&self, parcel: &Outbox) {
        self.dropped
            .fetch_add(parcel.len() as u64, Ordering::Relaxed);
    }

    fn clear(&self) {
        while let Some(parcel) = self.take() {
            self.lose(&parcel);
        }
    }

    /// The shard: nobody will take anything out any more. What waits is lost, as in a socket that is closed.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.clear();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// The shard: the next parcel.
    pub(super) fn take(&self) -> Option<Outbox> {
        let parcel = self.parcels.pop()?;
        self.waiting_bytes
            .fetch_sub(weight(&parcel), Ordering::Relaxed);
        Some(parcel)
    }

    /// Datagrams that found no room, or nobody to take them out.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// What a parcel counts, so that empty datagrams are bounded, too.
fn weight(parcel: &Outbox) -> usize {
    /// About what a datagram takes beside its bytes.
    const EACH: usize = 64;
    parcel.len_bytes() + parcel.len() * EACH
}

/// Receives for all shards until this one is asked to end.
pub(crate) async fn hand_out(mut socket: impl Datagram, shards: Vec<Arc<Letterbox>>) {
    const DATAGRAMS: usize = 32;
    /// After an error of the socket, so that one that stays does not keep the shard for itself.
    const BREATH: Duration = Duration::from_millis(1);
    let mut batch = Batch::new(DATAGRAMS, LARGEST_BYTES);
    let mut stop = pin!(stopping());
    loop {
        match race(stop.as_mut(), socket.recv(&mut batch)).await {
            Either::Left(()) => return,
            Either::Right(Ok(())) => sort(&mut batch, &shards),
            Either::Right(Err(_)) => sleep(BREATH).await,
        }
    }
}

fn sort(batch: &mut Batch, shards: &[Arc<Letterbox>]) {
    let mut parcels: Vec<Outbox> = shards.iter().map(|_| Outbox::new()).collect();
    // Asked once, so that all of a sender in this batch go the same way.
    let open: Vec<_> = shards.iter().map(|shard| !shard.is_closed()).collect();
    for datagram in batch.iter_mut() {
        parcels[pick(datagram.from, &open)].push(datagram.from, datagram.bytes);
    }
    for (parcel, shard) in parcels.into_iter().zip(shards) {
        if !parcel.is_empty() {
            shard.put(parcel);
        }
    }
}

/// The shard that gets everything from `peer`, of those that are open: its own, and if that is closed, the one that peer and shard
/// together draw the highest number for, so that with the next to close only the senders of that one move. If none is open, its own.
fn pick(peer: SocketAddr, open: &[bool]) -> usize {
    let draw = |shard: Option<usize>| {
        let mut hasher = DefaultHasher::new();
        (peer, shard).hash(&mut hasher);
        hasher.finish()
    };
    let own = usize::try_from(draw(None) % open.len() as u64).unwrap_or_default();
    if open[own] {
        return own;
    }
    let others = (0..open.len()).filter(|shard| open[*shard]);
    others.max_by_key(|shard| draw(Some(*shard))).unwrap_or(own)
}

#[cfg(test)]
mod tests {
    use super::{Batch, Letterbox, pick, sort};
    use crate::wake::Remote;
    use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

    fn peer(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn letterbox() -> Arc<Letterbox> {
        Arc::new(Letterbox::new(Remote::new().unwrap().0))
    }

    #[test]
    fn all_of_one_sender_go_to_one_shard_in_order() {
        let shards = [letterbox(), letterbox(), letterbox()];
        let mut batch = Batch::new(60, 8);
        for number in 0..60_u8 {
            assert!(batch.push(peer(u16::from(number % 20)), &[number]));
        }
        sort(&mut batch, &shards);
        let mut seen = 0;
        for (index, shard) in shards.iter().enumerate() {
            let mut last = [None; 20];
            while let Some(parcel) = shard.take() {
                for (from, bytes) in parcel.iter() {
                    assert_eq!(pick(from, &[true; 3]), index);
                    assert!(last[usize::from(from.port())] < Some(bytes[0]));
                    last[usize::from(from.port())] = Some(bytes[0]);
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 60);
    }

    #[test]
    fn only_the_senders_of_one_that_closes_move() {
        let mut open = [true; 5];
        let mut before: Vec<_> = (0..1000).map(|port| pick(peer(port), &open)).collect();
        for closes in [3, 0, 4, 1] {
            open[closes] = false;
            let now: Vec<_> = (0..1000).map(|port| pick(peer(port), &open)).collect();
            let moved = before
                .iter()
                .zip(&now)
                .filter(|(before, now)| before != now);
            assert!(moved.clone().all(|(before, _)| *before == closes));
            let left = open.iter().filter(|open| **open).count();
            // Shared out, and not all to one.
            let to: BTreeSet<_> = moved.map(|(_, now)| *now).collect();
            assert_eq!(to.len(), left);
            assert!(now.iter().all(|shard| open[*shard]));
            before = now;
        }
    }

    #[test]
    fn what_comes_for_one_that_is_closed_goes_to_another_and_at_last_is_counted() {
        let shards = [letterbox(), letterbox()];
        let mut batch = Batch::new(20, 8);
        for port in 0..20 {
            assert!(batch.push(peer(port), b"x"));
        }
        let waiting = |shard: &Letterbox| {
            std::iter::from_fn(|| shard.take()).fold(0, |sum, parcel| sum + parcel.len())
        };
        sort(&mut batch, &shards);
        shards[1].close();
        let lost = shards[1].dropped();
        assert!((1..20).contains(&lost), "what waited is lost");
        assert_eq!(waiting(&shards[0]) as u64 + lost, 20);
        sort(&mut batch, &shards);
        assert_eq!((waiting(&shards[0]), waiting(&shards[1])), (20, 0));
        shards[0].close();
        sort(&mut batch, &shards);
        assert_eq!(shards[0].dropped() + shards[1].dropped(), lost + 20);
        assert_eq!((waiting(&shards[0]), waiting(&shards[1])), (0, 0));
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let shards = [letterbox()];
        let mut batch = Batch::new(1, 60_000);
        assert!(batch.push(peer(1), &vec![7; 60_000]));
        for _ in 0..100 {
            sort(&mut batch, &shards);
        }
        let mut kept = 0;
        while let Some(parcel) = shards[0].take() {
            kept += parcel.len();
        }
        assert_eq!(kept, (4 << 20) / 60_064);
        assert_eq!(shards[0].dropped(), 100 - kept as u64);
        sort(&mut batch, &shards);
        assert!(shards[0].take().is_some(), "there is room again");
    }
}
