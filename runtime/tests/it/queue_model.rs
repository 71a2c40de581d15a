//! The queue into a shard under loom: however putting and closing meet, nothing stays behind in a closed queue, and nothing is both
//! given back and taken.
//!
//! The queue is the runtime's own file, over loom's atomics and slots that order nothing but what is in them. One without its fences
//! shows that the model can fail.

#[expect(dead_code, reason = "the model leaves out what only reports")]
#[path = "../../src/accept/queue.rs"]
mod queue;

/// What `queue` is made of.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicBool, Ordering, fence};
    use loom::sync::{Mutex, atomic::AtomicUsize};

    const EMPTY: usize = 0;
    const BUSY: usize = 1;
    const FULL: usize = 2;

    /// A queue whose slots synchronise as little as such a queue may: who finds one empty learns nothing about other memory.
    pub(super) struct ArrayQueue<T> {
        slots: Vec<(AtomicUsize, Mutex<Option<T>>)>,
    }

    impl<T> ArrayQueue<T> {
        pub(super) fn new(bound: usize) -> Self {
            let slot = |_| (AtomicUsize::new(EMPTY), Mutex::new(None));
            Self {
                slots: (0..bound).map(slot).collect(),
            }
        }

        pub(super) fn push(&self, item: T) -> Result<(), T> {
            for (state, content) in &self.slots {
                let won = state.compare_exchange(EMPTY, BUSY, Ordering::Relaxed, Ordering::Relaxed);
                if won.is_ok() {
                    *content.lock().expect("not poisoned") = Some(item);
                    state.store(FULL, Ordering::Release);
                    return Ok(());
                }
            }
            Err(item)
        }

        pub(super) fn pop(&self) -> Option<T> {
            for (state, content) in &self.slots {
                let won = state.compare_exchange(FULL, BUSY, Ordering::Acquire, Ordering::Relaxed);
                if won.is_ok() {
                    let item = content.lock().expect("not poisoned").take();
                    state.store(EMPTY, Ordering::Release);
                    return item;
                }
            }
            None
        }

        pub(super) fn len(&self) -> usize {
            let full = |state: &AtomicUsize| state.load(Ordering::Relaxed) == FULL;
            self.slots.iter().filter(|(state, _)| full(state)).count()
        }
    }
}

use loom::{sync::Arc, thread};
use sync::{ArrayQueue, AtomicBool, Ordering};

/// What the model needs of a queue.
trait Closable: Send + Sync + 'static {
    fn new() -> Self;
    fn put(&self, item: usize) -> Result<(), usize>;
    fn take(&self) -> Option<usize>;
    fn end(&self);
}

impl Closable for queue::Queue<usize> {
    fn new() -> Self {
        Self::new(2)
    }

    fn put(&self, item: usize) -> Result<(), usize> {
        self.put(item)
    }

    fn take(&self) -> Option<usize> {
        self.take()
    }

    fn end(&self) {
        self.close();
        self.clear();
    }
}

/// The same without its fences.
struct Unfenced {
    items: ArrayQueue<usize>,
    closed: AtomicBool,
}

impl Closable for Unfenced {
    fn new() -> Self {
        Self {
            items: ArrayQueue::new(2),
            closed: AtomicBool::new(false),
        }
    }

    fn put(&self, item: usize) -> Result<(), usize> {
        self.items.push(item)?;
        if self.closed.load(Ordering::Relaxed)
            && let Some(left) = self.items.pop()
        {
            return Err(left);
        }
        Ok(())
    }

    fn take(&self) -> Option<usize> {
        self.items.pop()
    }

    fn end(&self) {
        self.closed.store(true, Ordering::Relaxed);
        while self.items.pop().is_some() {}
    }
}

/// Panics if something can stay behind, or come out twice.
fn explore<Q: Closable>() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let queue = Arc::new(Q::new());
        let putting = |item: usize| {
            let queue = queue.clone();
            thread::spawn(move || queue.put(item).err())
        };
        let others = [putting(1), putting(2)];
        let mut seen: Vec<usize> = queue.take().into_iter().collect();
        queue.end();
        for other in others {
            seen.extend(other.join().expect("no panic"));
        }
        assert_eq!(queue.take(), None, "it stayed behind");
        let before = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), before, "it came out twice");
    });
}

#[test]
fn nothing_stays_behind_in_a_closed_queue() {
    explore::<queue::Queue<usize>>();
}

#[test]
#[should_panic(expected = "it stayed behind")]
fn without_fences_something_does() {
    explore::<Unfenced>();
}
