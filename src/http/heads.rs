//! Limits the memory held by the incomplete heads of all connections.
//!
//! Their senders are unknown. Each head is bounded, and so is the number of connections, but their product is more than the
//! memory of a small machine. Beyond the limit, the oldest head is given up: an honest client completes its head within
//! moments, so heads that are held open to fill the memory are older than any of its.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;

use crate::sync::lock;

/// The most memory that incomplete heads may hold together, in bytes.
const MAX_HELD: usize = 4 * 1024 * 1024;

/// The incomplete heads of all connections of a server.
pub(super) struct UnfinishedHeads {
    most: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    bytes: usize,
    /// The heads by number, which orders them by age: later ones have greater numbers.
    heads: BTreeMap<u64, Entry>,
    next: u64,
}

struct Entry {
    bytes: usize,
    waker: Waker,
    is_displaced: Arc<AtomicBool>,
}

/// The guard of one incomplete head; dropped when the head is complete.
pub(super) struct HeldHead {
    all: Arc<UnfinishedHeads>,
    number: u64,
    is_displaced: Arc<AtomicBool>,
}

impl Default for UnfinishedHeads {
    fn default() -> Self {
        Self { most: MAX_HELD, held: Mutex::default() }
    }
}

impl UnfinishedHeads {
    /// Registers the beginning of another head. `waker` wakes its connection when the head is given up.
    pub fn hold(self: &Arc<Self>, bytes: usize, waker: &Waker) -> HeldHead {
        let is_displaced = Arc::new(AtomicBool::new(false));
        let entry = Entry { bytes, waker: waker.clone(), is_displaced: is_displaced.clone() };
        let mut held = lock(&self.held);
        let number = held.next;
        held.next += 1;
        held.bytes += bytes;
        held.heads.insert(number, entry);
        held.keep_to(self.most);
        HeldHead { all: self.clone(), number, is_displaced }
    }
}

impl Held {
    fn keep_to(&mut self, most: usize) {
        while self.bytes > most
            && let Some((_, oldest)) = self.heads.pop_first()
        {
            self.bytes -= oldest.bytes;
            oldest.is_displaced.store(true, Ordering::Relaxed);
            oldest.waker.wake();
        }
    }
}

impl HeldHead {
    /// Updates the size of the head after more of it has come.
    pub fn grow(&self, bytes: usize, waker: &Waker) {
        let mut held = lock(&self.all.held);
        let Some(entry) = held.heads.get_mut(&self.number) else { return };
        let before = std::mem::replace(&mut entry.bytes, bytes);
        entry.waker.clone_from(waker);
        held.bytes = held.bytes - before + bytes;
        held.keep_to(self.all.most);
    }

    pub fn is_displaced(&self) -> bool {
        self.is_displaced.load(Ordering::Relaxed)
    }
}

impl Drop for HeldHead {
    fn drop(&mut self) {
        let mut held = lock(&self.all.held);
        if let Some(entry) = held.heads.remove(&self.number) {
            held.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::wake_flag::WakeFlag;

    #[test]
    fn the_oldest_heads_make_room_for_the_others() {
        let all = Arc::new(UnfinishedHeads { most: 100, held: Mutex::default() });
        let flags: Vec<_> = (0..4).map(|_| Arc::new(WakeFlag::default())).collect();
        let waker = |at: usize| Waker::from(flags[at].clone());
        let mut heads: Vec<_> = (0..3).map(|at| all.hold(30, &waker(at))).collect();
        let displaced = |heads: &[HeldHead]| heads.iter().map(HeldHead::is_displaced).collect::<Vec<_>>();
        assert_eq!(displaced(&heads), [false, false, false]);
        heads[2].grow(40, &waker(2));
        assert_eq!(displaced(&heads), [false, false, false]);
        heads[2].grow(41, &waker(2));
        assert_eq!(displaced(&heads), [true, false, false]);
        assert!(flags[0].is_set() && !flags[1].is_set());
        heads.push(all.hold(29, &waker(3)));
        assert_eq!(displaced(&heads), [true, false, false, false]);
        heads[0].grow(90, &waker(0));
        assert_eq!(lock(&all.held).bytes, 100, "what was given up counts no more");
        heads.clear();
        let held = lock(&all.held);
        assert_eq!((held.bytes, held.heads.len()), (0, 0));
    }
}
