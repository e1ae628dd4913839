//! Uploads in progress, and the room that they hold of their owners' quotas.
//!
//! An owner's usage is the sum of its files. Concurrent uploads all read it before any of them ends, so each
//! also counts what the others have taken by then. The transaction that turns an upload into a file
//! ([`files::finish`](super::files::finish)) has the final decision; this only keeps the chunks of many uploads
//! from filling the disk until then.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::owner::Owner;
use crate::sync::lock;

/// The uploads of all owners that are in progress.
#[derive(Default)]
pub struct Uploads(Mutex<UnderWay>);

#[derive(Default)]
struct UnderWay {
    /// Their public ids, under which the chunks are stored.
    ids: HashSet<String>,
    by_owner: HashMap<Owner, Held>,
}

#[derive(Default)]
struct Held {
    uploads: usize,
    /// The bytes that they have taken, or announced.
    bytes: u64,
    /// The bytes of uploads that have become files while others still run.
    finished: u64,
}

/// An upload in progress. It holds the room that it has taken until it is dropped, when its chunks are deleted
/// or belong to a file.
pub struct Upload {
    all: Arc<Uploads>,
    owner: Owner,
    id: String,
    quota: Option<Quota>,
    held: AtomicU64,
}

struct Quota {
    most: u64,
    /// The bytes of the owner's files when the upload began, and `Held::finished` at that time.
    stored: u64,
    finished: u64,
}

impl Uploads {
    /// Begins an upload for an owner that has `stored` bytes and may have `most`; `None` means no limit.
    pub fn begin(self: &Arc<Self>, owner: Owner, id: String, stored: u64, most: Option<u64>) -> Upload {
        let mut under_way = lock(&self.0);
        under_way.ids.insert(id.clone());
        let held = under_way.by_owner.entry(owner).or_default();
        held.uploads += 1;
        let quota = most.map(|most| Quota { most, stored, finished: held.finished });
        drop(under_way);
        Upload { all: self.clone(), owner, id, quota, held: AtomicU64::new(0) }
    }

    /// Whether chunks under this id may belong to an upload that has not ended.
    pub fn is_under_way(&self, id: &str) -> bool {
        lock(&self.0).ids.contains(id)
    }
}

impl Upload {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn owner(&self) -> &Owner {
        &self.owner
    }

    /// Returns the maximum size of the owner's files, in bytes; `None` means no limit.
    pub fn quota(&self) -> Option<u64> {
        self.quota.as_ref().map(|quota| quota.most)
    }

    /// Raises the room held to this many bytes in total; returns false if there is not enough.
    pub fn reserve(&self, bytes: u64) -> bool {
        let Some(quota) = &self.quota else { return true };
        let before = self.held.load(Ordering::Relaxed);
        if bytes <= before {
            return true;
        }
        let mut under_way = lock(&self.all.0);
        let Some(held) = under_way.by_owner.get_mut(&self.owner) else { return false };
        let of_others = (held.bytes - before).saturating_add(held.finished - quota.finished);
        if quota.stored.saturating_add(of_others).saturating_add(bytes) > quota.most {
            return false;
        }
        held.bytes += bytes - before;
        self.held.store(bytes, Ordering::Relaxed);
        true
    }

    /// Records that the upload has become a file of this many bytes, and releases its room.
    pub fn finished(&self, bytes: u64) {
        if let Some(held) = lock(&self.all.0).by_owner.get_mut(&self.owner) {
            held.finished += bytes;
            held.bytes -= self.held.swap(0, Ordering::Relaxed);
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let mut under_way = lock(&self.all.0);
        under_way.ids.remove(&self.id);
        if let Some(held) = under_way.by_owner.get_mut(&self.owner) {
            held.uploads -= 1;
            held.bytes -= self.held.load(Ordering::Relaxed);
            if held.uploads == 0 {
                under_way.by_owner.remove(&self.owner);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::KeyId;

    #[test]
    fn uploads_that_run_at_once_share_what_is_left() {
        let all = Arc::<Uploads>::default();
        let owner = |id| Owner::of_key(Some(KeyId::new(id)));
        let begin = |key, id: &str, stored| all.begin(owner(key), id.to_owned(), stored, Some(100));
        let (a, b) = (begin(1, "a", 20), begin(1, "b", 20));
        assert!(a.reserve(50) && a.reserve(10), "less than it has is there");
        assert!(!b.reserve(31) && b.reserve(30) && !b.reserve(31));
        assert!(begin(2, "c", 0).reserve(100), "of another key");
        a.finished(50);
        assert!(b.reserve(30) && !b.reserve(31), "what has become a file is taken once");
        drop(a);
        assert!(!b.reserve(31), "what has become a file stays taken");
        let d = begin(1, "d", 70);
        assert!(!d.reserve(1), "who begins later has read it among the files");
        drop(b);
        assert!(d.reserve(30) && !d.reserve(31));
        assert!(all.is_under_way("d") && !all.is_under_way("a"));
        drop(d);
        assert!(lock(&all.0).by_owner.is_empty() && lock(&all.0).ids.is_empty());
        assert!(all.begin(owner(1), "e".into(), 1 << 60, None).reserve(u64::MAX), "without a quota");
    }
}
