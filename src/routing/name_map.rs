//! A hash map by name whose copies share their common entries.
//!
//! The entries are spread over shards behind [`Arc`]s: a copy increments one reference count per shard, and a change
//! copies the shard of its name. A look-up is that of a hash map, plus one pointer.

use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;

use crate::fast_map::FastMap;

const SHARDS: usize = 256;

/// A map by name.
#[derive(Clone, Debug)]
pub struct NameMap<V> {
    hasher: RandomState,
    shards: Vec<Arc<FastMap<Box<str>, V>>>,
}

// === impl NameMap ===

impl<V: Clone> NameMap<V> {
    pub fn get(&self, name: &str) -> Option<&V> {
        self.shards[self.shard_of(name)].get(name)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Changes the entry of a name, which is created with the default value; it is removed if `is_void` holds
    /// afterwards.
    pub fn change(&mut self, name: &str, change: impl FnOnce(&mut V), is_void: impl FnOnce(&V) -> bool)
    where
        V: Default,
    {
        let shard = self.shard_of(name);
        let shard = Arc::make_mut(&mut self.shards[shard]);
        let mut value = shard.remove(name).unwrap_or_default();
        change(&mut value);
        if !is_void(&value) {
            shard.insert(name.into(), value);
        }
    }

    fn shard_of(&self, name: &str) -> usize {
        self.hasher.hash_one(name) as usize % SHARDS
    }
}

impl<V> Default for NameMap<V> {
    fn default() -> Self {
        let empty = Arc::default();
        Self { hasher: RandomState::default(), shards: vec![empty; SHARDS] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_does_not_change_with_the_other() {
        let mut map: NameMap<Vec<u32>> = NameMap::default();
        map.change("a", |list| list.push(1), Vec::is_empty);
        let before = map.clone();
        map.change("a", |list| list.push(2), Vec::is_empty);
        map.change("b", |list| list.push(3), Vec::is_empty);
        assert_eq!((before.get("a"), before.contains("b")), (Some(&vec![1]), false));
        assert_eq!((map.get("a"), map.get("b")), (Some(&vec![1, 2]), Some(&vec![3])));
        map.change("a", Vec::clear, Vec::is_empty);
        map.change("c", |_| {}, Vec::is_empty);
        assert!(!map.contains("a") && !map.contains("c") && before.contains("a"));
    }

    #[test]
    fn a_changed_copy_shares_all_shards_but_one() {
        let mut map: NameMap<Vec<u32>> = NameMap::default();
        for name in 0..10_000_u32 {
            map.change(&name.to_string(), |list| list.push(name), Vec::is_empty);
        }
        let mut copy = map.clone();
        copy.change("77", Vec::clear, Vec::is_empty);
        let shared = map.shards.iter().zip(&copy.shards).filter(|(one, other)| Arc::ptr_eq(one, other));
        assert_eq!(shared.count(), SHARDS - 1);
    }
}
