//! Where an engine sleeps, as those see it who wake one of its shards.

use super::word::Word;
use shardloop_platform::wake::{WakeReader, Waker as Descriptor, pair};
use std::{io, sync::Arc};

/// What ends the sleep of an engine.
#[derive(Debug)]
pub(crate) enum Bell {
    /// The descriptor that the engine of one shard watches.
    Own(Descriptor),
    /// The descriptor that the engine of several shards sleeps on, and a word of its own: it sleeps only when none of them has
    /// anything to do, so waking a shard mostly costs no system call, although that shard has settled.
    Shared(Word, Descriptor),
    /// An engine that never sleeps.
    None,
}

impl Bell {
    /// One shard's bell, and the descriptor its engine watches.
    ///
    /// # Errors
    /// The descriptors'.
    pub(crate) fn own() -> io::Result<(Arc<Self>, WakeReader)> {
        let (reader, descriptor) = pair()?;
        Ok((Arc::new(Self::Own(descriptor)), reader))
    }

    /// One for several shards, and the descriptor their engine sleeps on.
    ///
    /// # Errors
    /// The descriptors'.
    pub(crate) fn shared() -> io::Result<(Arc<Self>, WakeReader)> {
        let (reader, descriptor) = pair()?;
        Ok((Arc::new(Self::Shared(Word::new(), descriptor)), reader))
    }

    /// A shard that had settled has something to look at.
    pub(super) fn ring(&self) {
        let descriptor = match self {
            Self::Own(descriptor) => descriptor,
            Self::Shared(word, descriptor) if word.notify() => descriptor,
            Self::Shared(..) | Self::None => return,
        };
        // It fails only when the reading end is gone: the shard has ended, and there is nobody to wake.
        let _ = descriptor.wake();
    }

    /// The engine of several shards: about to sleep; false if it must look at them first.
    pub(crate) fn settle(&self) -> bool {
        match self {
            Self::Shared(word, _) => word.settle(),
            Self::Own(_) | Self::None => false,
        }
    }

    /// The engine of several shards: awake again.
    pub(crate) fn rise(&self) {
        if let Self::Shared(word, _) = self {
            // What is to be looked at, the shards' own words say.
            let _ = word.rise();
        }
    }
}
