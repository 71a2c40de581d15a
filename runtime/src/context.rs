//! The shard that runs on this thread now. The only thread-local of this crate: everything that belongs to a shard hangs on its
//! [`Core`], so that an engine may also run several shards on one thread, one after the other.

use crate::executor::Core;
use std::{cell::RefCell, io, rc::Rc};

thread_local! {
    static CURRENT: RefCell<Option<Rc<Core>>> = const { RefCell::new(None) };
}

/// Runs `f` with `core` as the current shard.
pub(crate) fn enter<R>(core: &Rc<Core>, f: impl FnOnce() -> R) -> R {
    /// Puts the outer shard back, even past a panic.
    struct Outer(Option<Rc<Core>>);
    impl Drop for Outer {
        fn drop(&mut self) {
            CURRENT.set(self.0.take());
        }
    }
    let _outer = Outer(CURRENT.replace(Some(core.clone())));
    f()
}

/// The current shard, if there is one.
pub(crate) fn find() -> Option<Rc<Core>> {
    with(|core| core.cloned())
}

/// The current shard.
///
/// # Panics
/// Where there is none.
pub(crate) fn current() -> Rc<Core> {
    find().expect(
        "this needs a shard: call it from a future that shardloop runs, not from another thread",
    )
}

/// For an engine that is about to begin: a thread runs one at a time.
pub(crate) fn must_be_free() -> io::Result<()> {
    match find() {
        None => Ok(()),
        Some(_) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "a shard runs on this thread already, so no other engine can; run it on a thread of its own",
        )),
    }
}

/// Whether the shard of that number runs on this thread now; if so, does `f` with it.
pub(crate) fn if_current<R>(number: usize, f: impl FnOnce(&Core) -> R) -> Option<R> {
    with(|core| {
        core.filter(|core| core.number() == number)
            .map(|core| f(core))
    })
}

/// Notes a panic on the shard that runs on this thread now, if there is one.
pub(crate) fn note_panic(message: &str) {
    with(|core| core.inspect(|core| core.note_panic(message)).is_some());
}

/// A thread that is going away has no current shard any more, and says so instead of panicking in a destructor.
fn with<R>(f: impl FnOnce(Option<&Rc<Core>>) -> R) -> R {
    let mut f = Some(f);
    let seen = CURRENT.try_with(|current| {
        let core = current.borrow();
        f.take().map(|f| f(core.as_ref()))
    });
    match (seen, f) {
        (Ok(Some(value)), _) => value,
        (_, Some(f)) => f(None),
        _ => unreachable!("f is taken only where its value is returned"),
    }
}
