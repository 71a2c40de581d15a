//! The wake word under loom: in every interleaving of two notifying threads and a shard that parks, everything left for the shard is
//! seen, and a shard that sleeps is woken.
//!
//! The word is the runtime's own file, over loom's atomics. Messages and the descriptor are relaxed atomics, so that only the word
//! itself can order them. Two words that are broken on purpose show that the model can fail.

#[path = "../../src/wake/word.rs"]
mod word;

/// What `word` is compiled over.
mod sync {
    pub(super) use loom::sync::atomic::{AtomicU8, Ordering};
}

use loom::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    thread,
};

/// What the model needs of a word.
trait WakeWord: Send + Sync + 'static {
    fn new() -> Self;
    fn notify(&self) -> bool;
    fn rise(&self) -> bool;
    fn settle(&self) -> bool;
}

impl WakeWord for word::Word {
    fn new() -> Self {
        Self::new()
    }

    fn notify(&self) -> bool {
        self.notify()
    }

    fn rise(&self) -> bool {
        self.rise()
    }

    fn settle(&self) -> bool {
        self.settle()
    }
}

/// Falls asleep over a notification.
struct Sleepyhead(AtomicU8);

impl WakeWord for Sleepyhead {
    fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    fn notify(&self) -> bool {
        self.0.swap(2, Ordering::AcqRel) == 1
    }

    fn rise(&self) -> bool {
        self.0.swap(0, Ordering::AcqRel) == 2
    }

    fn settle(&self) -> bool {
        self.0.swap(1, Ordering::AcqRel);
        true
    }
}

/// Orders nothing.
struct Relaxed(AtomicU8);

impl WakeWord for Relaxed {
    fn new() -> Self {
        Self(AtomicU8::new(0))
    }

    fn notify(&self) -> bool {
        self.0.swap(2, Ordering::Relaxed) == 1
    }

    fn rise(&self) -> bool {
        self.0.swap(0, Ordering::Relaxed) == 2
    }

    fn settle(&self) -> bool {
        self.0
            .compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
    }
}

/// What the shard and the others share.
struct Model<W> {
    word: W,
    descriptor: AtomicBool,
    messages: [AtomicBool; 2],
}

impl<W: WakeWord> Model<W> {
    fn leave(&self, message: usize) {
        self.messages[message].store(true, Ordering::Relaxed);
        if self.word.notify() {
            // A swap, because a relaxed store may stay invisible for as long as the shard swaps.
            self.descriptor.swap(true, Ordering::Relaxed);
        }
    }

    fn look(&self) -> usize {
        self.messages
            .iter()
            .filter(|message| message.load(Ordering::Relaxed))
            .count()
    }

    /// The shard's loop, as `Turn::poll` has it: it looks only when the word says so, and parks only when the word lets it.
    fn serve(&self) {
        let mut seen = 0;
        loop {
            if self.word.rise() {
                seen = self.look();
            }
            if seen == self.messages.len() {
                return;
            }
            if self.word.settle() {
                while !self.descriptor.swap(false, Ordering::Relaxed) {
                    thread::yield_now();
                }
            }
        }
    }
}

/// Panics, or runs out of steps, if a message can be missed.
fn explore<W: WakeWord>() {
    let mut builder = loom::model::Builder::new();
    // Unbounded takes minutes (and passes); what a third preemption shows, these two words show too.
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let model = Arc::new(Model {
            word: W::new(),
            descriptor: AtomicBool::new(false),
            messages: [AtomicBool::new(false), AtomicBool::new(false)],
        });
        for message in 0..2 {
            let model = model.clone();
            thread::spawn(move || model.leave(message));
        }
        model.serve();
    });
}

/// Shards that share an engine: each has its word, and the engine has one, on which it sleeps once all shards have settled.
struct Shared {
    shards: [word::Word; 2],
    engine: word::Word,
    descriptor: AtomicBool,
    messages: [AtomicBool; 2],
}

impl Shared {
    fn leave(&self, message: usize) {
        self.messages[message].store(true, Ordering::Relaxed);
        if self.shards[message].notify() && self.engine.notify() {
            self.descriptor.swap(true, Ordering::Relaxed);
        }
    }

    /// The engine's loop: a shard has a turn where its word says so, and the engine sleeps only when its own word lets it.
    fn serve(&self) {
        let mut seen = [false; 2];
        let mut first = true;
        loop {
            for (at, shard) in self.shards.iter().enumerate() {
                if !first && !shard.is_notified() {
                    continue;
                }
                loop {
                    if shard.rise() {
                        seen[at] = self.messages[at].load(Ordering::Relaxed);
                    }
                    if shard.settle() {
                        break;
                    }
                }
            }
            first = false;
            if seen == [true; 2] {
                return;
            }
            if self.engine.settle() {
                while !self.descriptor.swap(false, Ordering::Relaxed) {
                    thread::yield_now();
                }
            }
            let _ = self.engine.rise();
        }
    }
}

#[test]
fn an_engine_of_several_shards_sleeps_over_no_message() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(|| {
        let model = Arc::new(Shared {
            shards: [word::Word::new(), word::Word::new()],
            engine: word::Word::new(),
            descriptor: AtomicBool::new(false),
            messages: [AtomicBool::new(false), AtomicBool::new(false)],
        });
        for message in 0..2 {
            let model = model.clone();
            thread::spawn(move || model.leave(message));
        }
        model.serve();
    });
}

#[test]
fn every_message_is_seen_and_every_sleeper_woken() {
    explore::<word::Word>();
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn a_word_that_sleeps_over_a_notification_is_found_out() {
    explore::<Sleepyhead>();
}

#[test]
#[should_panic(expected = "exceeded maximum number of branches")]
fn a_word_that_orders_nothing_is_found_out() {
    explore::<Relaxed>();
}
