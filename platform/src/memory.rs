//! Memory straight from the kernel, for buffers it reads and writes while we do other things.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};

use crate::sys::{os, unix::Mapping};

/// An anonymous private mapping: zeroed, page-aligned, and at the same address for as long as it lives,
/// however often the value moves. Given back to the system when dropped.
///
/// As a slice it has exactly the number of bytes asked for; [`Block::mapped_bytes`] is that number rounded up
/// to whole pages.
pub struct Block {
    mapping: Mapping,
    bytes: usize,
}

impl Block {
    /// Maps `bytes` bytes. They take no physical memory until they are touched.
    ///
    /// # Errors
    /// Kind `InvalidInput` for 0 or for more than `isize::MAX` bytes; otherwise the operating system's
    /// (mmap(2): ENOMEM).
    pub fn new(bytes: usize) -> io::Result<Self> {
        let page = page_bytes();
        let mapped = bytes
            .checked_next_multiple_of(page)
            .filter(|&mapped| isize::try_from(mapped).is_ok());
        match mapped {
            Some(mapped) if mapped > 0 => Ok(Self {
                mapping: Mapping::new(mapped)?,
                bytes,
            }),
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a block of {bytes} bytes cannot be mapped; ask for 1 to isize::MAX bytes"),
            )),
        }
    }

    /// Bytes of address space taken: the length rounded up to whole pages.
    #[must_use]
    pub fn mapped_bytes(&self) -> usize {
        self.mapping.len()
    }

    /// Gives the physical memory back and keeps the addresses. The contents are zero afterwards.
    ///
    /// Linux: madvise(2) MADV_DONTNEED. Elsewhere that call may keep the contents, so the range is mapped
    /// anew in place.
    ///
    /// # Errors
    /// The operating system's. The contents are then as they were.
    pub fn release_pages(&mut self) -> io::Result<()> {
        self.mapping.release()
    }
}

impl Deref for Block {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.mapping.as_slice()[..self.bytes]
    }
}

impl DerefMut for Block {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.mapping.as_mut_slice()[..self.bytes]
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("address", &self.as_ptr())
            .field("bytes", &self.bytes)
            .finish()
    }
}

/// Size of a page of memory, in bytes: a power of two, 4,096 or 16,384 on the usual machines.
#[must_use]
pub fn page_bytes() -> usize {
    crate::sys::unix::page_bytes()
}

/// Has the allocator give free pages back to the system, wherever in the heap they lie. True if it gave any.
///
/// Long-lived small blocks between short-lived large ones keep the large ones' pages resident after they were freed.
/// glibc: malloc_trim(3), which walks all free blocks: milliseconds on a large heap, so call it when there is nothing
/// else to do. Elsewhere nothing is done.
pub fn trim_heap() -> bool {
    os::memory::trim_heap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_zeroed_and_as_long_as_asked() {
        let block = Block::new(5_000).unwrap();
        assert_eq!(block.len(), 5_000);
        assert_eq!(block.mapped_bytes() % page_bytes(), 0);
        assert!(block.mapped_bytes() >= 5_000);
        assert!(block.iter().all(|&byte| byte == 0));
    }

    #[test]
    fn releasing_zeroes_and_keeps_the_address() {
        let mut block = Block::new(3 * page_bytes()).unwrap();
        block.fill(7);
        let before = block.as_ptr();
        block.release_pages().unwrap();
        assert_eq!(block.as_ptr(), before);
        assert!(block.iter().all(|&byte| byte == 0));
        block.fill(8);
        assert!(block.iter().all(|&byte| byte == 8));
    }

    #[test]
    fn the_address_stays_while_the_block_moves_to_another_thread() {
        let mut block = Block::new(1).unwrap();
        block[0] = 9;
        let before = block.as_ptr().addr();
        let after = std::thread::spawn(move || (block.as_ptr().addr(), block[0]))
            .join()
            .unwrap();
        assert_eq!(after, (before, 9));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for bytes in [0, usize::MAX, isize::MAX.unsigned_abs()] {
            assert_eq!(
                Block::new(bytes).unwrap_err().kind(),
                io::ErrorKind::InvalidInput
            );
        }
    }
}
