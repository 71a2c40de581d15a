//! Receive buffers: lent to the application as a [`Lease`], back in their shard's [`Pool`] when dropped.
//!
//! # Sizes
//! 4, 16, 64 and 256 KiB. A receive that fills its lease makes the next one a class larger; eight in a row that fill less than a
//! quarter make it a class smaller: bulk transfers get large buffers, and a connection that only pings comes down to 4 KiB.
//!
//! # Bounds
//! Bytes of leases held by the application and of free buffers kept are bounded by [`Pool::LIMIT_BYTES`] per shard; beyond it, leases
//! are the smallest. Receives in flight are bounded by the number of connections (a bound on these would dead-lock idle ones).
//! Buffers that lay free for a whole sweep are given back to the system.
//!
//! # Who owns a buffer
//! The pool while it is free; the engine from the moment a receive is submitted until its completion was seen, whatever happens to
//! the future; then the lease.

use shardloop_platform::memory::Block;
use std::{
    cell::{Cell, RefCell},
    fmt,
    ops::{Deref, DerefMut, Range},
    rc::Rc,
};

/// A size of receive buffers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class(u8);

impl Class {
    /// All sizes in bytes, smallest first.
    pub const BYTES: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, 256 << 10];
    /// The size of a connection's first receive and of idle ones.
    pub const SMALLEST: Self = Self(0);
    const LARGEST: Self = Self(3);

    /// Bytes of a buffer of this class.
    #[must_use]
    pub const fn bytes(self) -> usize {
        Self::BYTES[self.0 as usize]
    }

    fn larger(self) -> Self {
        Self((self.0 + 1).min(Self::LARGEST.0))
    }

    fn smaller(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

/// The size of a connection's next receive, learnt from those before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizing {
    class: Class,
    /// Receives in a row that filled less than a quarter.
    small: u8,
}

impl Sizing {
    /// Receives in a row that must be small before the size goes down. One would not do: a peer that keeps sixteen messages under way
    /// lets a few of them arrive alone now and then, and each time the size would have to climb again.
    const PATIENCE: u8 = 8;

    /// The class to ask the pool for.
    #[must_use]
    pub fn class(self) -> Class {
        self.class
    }

    /// Notes that a receive into a buffer of `class` brought `filled` bytes.
    pub fn learn(&mut self, class: Class, filled: usize) {
        self.small = if filled < class.bytes() / 4 {
            self.small + 1
        } else {
            0
        };
        self.class = class;
        if filled >= class.bytes() {
            self.class = class.larger();
        } else if self.small >= Self::PATIENCE {
            *self = Self {
                class: class.smaller(),
                small: 0,
            };
        }
    }

    /// Starts over with the smallest.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Free receive buffers of one shard.
#[derive(Clone, Debug)]
pub struct Pool(Rc<Shelves>);

#[derive(Debug, Default)]
struct Shelves {
    #[expect(
        clippy::vec_box,
        reason = "the boxes go in and out as they are, without being made anew"
    )]
    free: [RefCell<Vec<Box<Buffer>>>; Class::BYTES.len()],
    /// Fewest free buffers of each class since the last sweep: nobody needed these.
    unused: [Cell<usize>; Class::BYTES.len()],
    free_bytes: Cell<usize>,
    freed_bytes: Cell<usize>,
    held_bytes: Cell<usize>,
    held_bytes_peak: Cell<usize>,
    in_flight: Cell<usize>,
    misses: Cell<u64>,
}

impl Pool {
    /// Bytes that leases in the application's hands and free buffers may take together, per shard.
    pub const LIMIT_BYTES: usize = 64 << 20;

    /// An empty pool.
    #[must_use]
    pub fn new() -> Self {
        Self(Rc::default())
    }

    /// A buffer for a receive. It is of class `class`, or of the smallest beyond the limit or if memory is short.
    #[must_use]
    pub fn take(&self, class: Class) -> Vacant {
        let over =
            self.0.held_bytes.get() + self.0.free_bytes.get() + class.bytes() > Self::LIMIT_BYTES;
        let class = if over && self.shelf_is_empty(class) {
            Class::SMALLEST
        } else {
            class
        };
        let buffer = self.lend(class);
        self.0.in_flight.set(self.0.in_flight.get() + 1);
        Vacant {
            buffer: Some(buffer),
            pool: self.clone(),
        }
    }

    /// Receives that hold a buffer now.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.in_flight.get()
    }

    /// Bytes of leases in the application's hands now, and at their peak.
    #[must_use]
    pub fn held_bytes(&self) -> (usize, usize) {
        (self.0.held_bytes.get(), self.0.held_bytes_peak.get())
    }

    /// Buffers that had to be made because none was free.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.0.misses.get()
    }

    /// Frees what lay unused since the last sweep. Returns how many bytes this pool has freed since then, for this reason or for
    /// want of room. Whether there is more to sweep: [`has_free`](Self::has_free).
    pub fn sweep(&self) -> usize {
        for (shelf, unused) in self.0.free.iter().zip(&self.0.unused) {
            let mut shelf = shelf.borrow_mut();
            let keep = shelf.len() - unused.get().min(shelf.len());
            let freed: usize = shelf.drain(keep..).map(|buffer| buffer.memory.len()).sum();
            self.0.free_bytes.set(self.0.free_bytes.get() - freed);
            self.0.freed_bytes.set(self.0.freed_bytes.get() + freed);
            unused.set(shelf.len());
        }
        self.0.freed_bytes.take()
    }

    /// Whether any buffer lies free.
    #[must_use]
    pub fn has_free(&self) -> bool {
        self.0.free_bytes.get() > 0
    }

    fn shelf_is_empty(&self, class: Class) -> bool {
        self.0.free[class.0 as usize].borrow().is_empty()
    }

    fn lend(&self, class: Class) -> Box<Buffer> {
        let mut shelf = self.0.free[class.0 as usize].borrow_mut();
        if let Some(buffer) = shelf.pop() {
            let unused = &self.0.unused[class.0 as usize];
            unused.set(unused.get().min(shelf.len()));
            self.0
                .free_bytes
                .set(self.0.free_bytes.get() - class.bytes());
            return buffer;
        }
        self.0.misses.set(self.0.misses.get() + 1);
        Buffer::new(class)
    }

    fn put_back(&self, buffer: Box<Buffer>) {
        let bytes = buffer.class.bytes();
        let free = self.0.free_bytes.get() + bytes;
        if free + self.0.held_bytes.get() > Self::LIMIT_BYTES {
            self.0.freed_bytes.set(self.0.freed_bytes.get() + bytes);
            return;
        }
        self.0.free_bytes.set(free);
        self.0.free[buffer.class.0 as usize]
            .borrow_mut()
            .push(buffer);
    }

    fn hold(&self, bytes: usize) {
        let held = self.0.held_bytes.get() + bytes;
        self.0.held_bytes.set(held);
        self.0
            .held_bytes_peak
            .set(self.0.held_bytes_peak.get().max(held));
    }

    fn release(&self, bytes: usize) {
        self.0.held_bytes.set(self.0.held_bytes.get() - bytes);
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

/// A buffer. Boxed for as long as it lives, so that what holds it is small and cheap to move.
#[derive(Debug)]
struct Buffer {
    class: Class,
    memory: Memory,
}

/// The bytes of a buffer: a mapping of its own, so that giving it back shrinks the process, and so that it takes as many pages as it
/// has bytes for. On the heap a 4 KiB buffer straddles two pages, and a few left between freed blocks keep much more.
enum Memory {
    Pages(Block),
    /// Only where the system maps no more, for example because a process may have just so many mappings.
    Heap(Box<[u8]>),
}

impl Buffer {
    /// A buffer of `class`; of the smallest if the system will not map one.
    fn new(class: Class) -> Box<Self> {
        let (class, memory) = match Block::new(class.bytes()) {
            Ok(block) => (class, Memory::Pages(block)),
            Err(_) => {
                let smallest = Class::SMALLEST;
                let bytes = vec![0; smallest.bytes()];
                (smallest, Memory::Heap(bytes.into_boxed_slice()))
            }
        };
        Box::new(Self { class, memory })
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Pages(block) => block,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Heap(bytes) => bytes,
            Self::Pages(block) => block,
        }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// A buffer an engine receives into. Its address stays the same while this value moves.
#[derive(Debug)]
pub struct Vacant {
    /// None once it has become a lease.
    buffer: Option<Box<Buffer>>,
    pool: Pool,
}

impl Vacant {
    /// Its size class.
    #[must_use]
    pub fn class(&self) -> Class {
        self.buffer
            .as_ref()
            .map_or(Class::SMALLEST, |buffer| buffer.class)
    }

    /// Where to receive into.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.buffer {
            Some(buffer) => &mut buffer.memory,
            None => &mut [],
        }
    }

    /// The receive brought `filled` bytes.
    ///
    /// # Panics
    /// If these are more than the buffer holds.
    #[must_use]
    pub fn filled(mut self, filled: usize) -> Lease {
        let capacity = self.bytes_mut().len();
        assert!(
            filled <= capacity,
            "received {filled} bytes into a buffer of {capacity}"
        );
        self.pool.hold(capacity);
        Lease {
            buffer: self.buffer.take(),
            start: 0,
            end: filled,
            pool: self.pool.clone(),
        }
    }
}

impl Drop for Vacant {
    fn drop(&mut self) {
        self.pool.0.in_flight.set(self.pool.0.in_flight.get() - 1);
        if let Some(buffer) = self.buffer.take() {
            self.pool.put_back(buffer);
        }
    }
}

/// A filled receive buffer: the received bytes, readable and writable. Dropping it gives the buffer back to its shard.
///
/// An empty lease from `recv` means that the peer has closed its side.
pub struct Lease {
    /// None only while it is dropped.
    buffer: Option<Box<Buffer>>,
    start: usize,
    end: usize,
    pool: Pool,
}

impl Lease {
    /// Forgets the first `count` bytes.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn advance(&mut self, count: usize) {
        assert!(
            count <= self.len(),
            "advance by {count} of {} bytes",
            self.len()
        );
        self.start += count;
    }

    /// Forgets all but the first `count` bytes; does nothing if there are fewer.
    pub fn truncate(&mut self, count: usize) {
        if count < self.len() {
            self.end = self.start + count;
        }
    }

    fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

impl Deref for Lease {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.buffer {
            Some(buffer) => &buffer.memory[self.range()],
            None => &[],
        }
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut [u8] {
        let range = self.range();
        match &mut self.buffer {
            Some(buffer) => &mut buffer.memory[range],
            None => &mut [],
        }
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lease({} bytes)", self.len())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool.release(buffer.class.bytes());
            self.pool.put_back(buffer);
        }
    }
}

/// A buffer of somebody else's pool, as a lease: for streams of other runtimes, whose leases have to move between threads.
#[derive(Debug)]
pub struct Loan {
    memory: Vec<u8>,
    filled: usize,
    give_back: fn(Vec<u8>),
}

impl Loan {
    /// The first `filled` bytes of `memory`; when dropped, `give_back` gets the buffer.
    ///
    /// # Panics
    /// If the buffer is shorter.
    #[must_use]
    pub fn new(memory: Vec<u8>, filled: usize, give_back: fn(Vec<u8>)) -> Self {
        assert!(
            filled <= memory.len(),
            "{filled} bytes in a buffer of {}",
            memory.len()
        );
        Self {
            memory,
            filled,
            give_back,
        }
    }
}

impl Deref for Loan {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[..self.filled]
    }
}

impl DerefMut for Loan {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.filled]
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        (self.give_back)(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Pool, Sizing};

    #[test]
    fn full_receives_grow_and_only_many_small_ones_shrink() {
        let mut sizing = Sizing::default();
        for _ in 0..5 {
            sizing.learn(sizing.class(), sizing.class().bytes());
        }
        assert_eq!(sizing.class(), Class(3), "the largest is the end");
        sizing.learn(Class(3), 1);
        assert_eq!(
            sizing.class(),
            Class(3),
            "one small receive changes nothing"
        );
        sizing.learn(Class(3), 64 << 10);
        for _ in 0..7 {
            sizing.learn(Class(3), (64 << 10) - 1);
        }
        assert_eq!(sizing.class(), Class(3));
        sizing.learn(Class(3), 0);
        assert_eq!(sizing.class(), Class(2));
        for _ in 0..100 {
            sizing.learn(sizing.class(), 10);
        }
        assert_eq!(sizing.class(), Class::SMALLEST);
    }

    #[test]
    fn a_pool_that_had_to_lend_a_smaller_buffer_is_learnt_from() {
        let mut sizing = Sizing {
            class: Class(3),
            small: 0,
        };
        sizing.learn(Class::SMALLEST, 100);
        assert_eq!(sizing.class(), Class::SMALLEST);
    }

    #[test]
    fn a_lease_returns_its_buffer_and_the_next_receive_gets_it() {
        let pool = Pool::new();
        let mut vacant = pool.take(Class(2));
        vacant.bytes_mut()[..3].copy_from_slice(b"abc");
        assert_eq!(pool.in_flight(), 1);
        let lease = vacant.filled(3);
        assert_eq!((&*lease, pool.in_flight()), (&b"abc"[..], 0));
        assert_eq!(pool.held_bytes().0, 64 << 10);
        drop(lease);
        assert_eq!(pool.held_bytes(), (0, 64 << 10));
        assert_eq!(pool.misses(), 1);
        drop(pool.take(Class(2)));
        assert_eq!(pool.misses(), 1, "the free buffer was used again");
    }

    #[test]
    fn beyond_the_limit_leases_are_the_smallest() {
        let pool = Pool::new();
        let held: Vec<_> = (0..256).map(|_| pool.take(Class(3)).filled(1)).collect();
        assert_eq!(pool.held_bytes().0, Pool::LIMIT_BYTES);
        assert_eq!(pool.take(Class(3)).class(), Class::SMALLEST);
        drop(held);
        assert_eq!(pool.take(Class(3)).class(), Class(3));
    }

    #[test]
    fn a_sweep_frees_what_nobody_used_since_the_last() {
        let pool = Pool::new();
        drop([pool.take(Class(1)), pool.take(Class(1))]);
        assert_eq!(pool.sweep(), 0, "the first sweep only begins to watch");
        drop(pool.take(Class(1)));
        assert_eq!(pool.sweep(), 16 << 10, "one was used since, one was not");
        assert!(pool.has_free());
        assert_eq!(pool.sweep(), 16 << 10);
        assert!(!pool.has_free());
    }

    #[test]
    fn a_lease_is_cut_from_both_ends() {
        let mut vacant = Pool::new().take(Class::SMALLEST);
        vacant.bytes_mut()[..6].copy_from_slice(b"abcdef");
        let mut lease = vacant.filled(6);
        lease.advance(2);
        lease.truncate(3);
        assert_eq!(&*lease, b"cde");
        lease.truncate(100);
        assert_eq!(&*lease, b"cde");
    }
}
