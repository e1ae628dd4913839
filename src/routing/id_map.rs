//! A map by id whose copies share their common entries.
//!
//! The entries are sorted by id, in chunks of neighbours behind [`Arc`]s. A copy increments one reference count per
//! chunk, and a change of an entry copies its chunk: of a map with 25,000 entries a change copies about a hundred.

use std::sync::Arc;

/// Maximum number of entries in a chunk before it is split.
const FULL: usize = 128;

/// A map by id, in ascending order.
#[derive(Clone, Debug)]
pub struct IdMap<I, V> {
    /// The chunks, each with its lowest id; none is empty.
    chunks: Vec<(I, Chunk<I, V>)>,
}

/// A chunk of neighbouring entries, by ascending id.
type Chunk<I, V> = Arc<Vec<(I, V)>>;

// === impl IdMap ===

impl<I: Copy + Ord, V: Clone> IdMap<I, V> {
    pub fn get(&self, id: I) -> Option<&V> {
        let (_, chunk) = self.chunks.get(self.chunk_of(id)?)?;
        chunk.binary_search_by_key(&id, |(id, _)| *id).ok().map(|at| &chunk[at].1)
    }

    /// Inserts an entry, or replaces the one of this id.
    pub fn insert(&mut self, id: I, value: V) {
        let Some(at) = self.chunk_of(id) else {
            match self.chunks.first_mut() {
                None => self.chunks.push((id, Arc::new(vec![(id, value)]))),
                Some((first, chunk)) => {
                    *first = id;
                    Arc::make_mut(chunk).insert(0, (id, value));
                }
            }
            return self.part(0);
        };
        let chunk = Arc::make_mut(&mut self.chunks[at].1);
        match chunk.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(place) => chunk[place].1 = value,
            Err(place) => chunk.insert(place, (id, value)),
        }
        self.part(at);
    }

    /// Removes an entry and returns it.
    pub fn remove(&mut self, id: I) -> Option<V> {
        let at = self.chunk_of(id)?;
        let (first, chunk) = &mut self.chunks[at];
        let place = chunk.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let chunk = Arc::make_mut(chunk);
        let (_, value) = chunk.remove(place);
        match chunk.first() {
            Some((id, _)) => *first = *id,
            None => drop(self.chunks.remove(at)),
        }
        Some(value)
    }

    /// Returns the values by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = &V> {
        self.chunks.iter().flat_map(|(_, chunk)| chunk.iter().map(|(_, value)| value))
    }

    pub fn len(&self) -> usize {
        self.chunks.iter().map(|(_, chunk)| chunk.len()).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the index of the chunk in which an id is, or would be; `None` for an id below all others.
    fn chunk_of(&self, id: I) -> Option<usize> {
        self.chunks.partition_point(|(first, _)| *first <= id).checked_sub(1)
    }

    /// Splits a chunk that is too large. Ids are assigned in ascending order: the first part stays nearly full, since
    /// new entries go behind it.
    fn part(&mut self, at: usize) {
        let chunk = &mut self.chunks[at].1;
        if chunk.len() > FULL {
            let rest = Arc::make_mut(chunk).split_off(FULL * 3 / 4);
            self.chunks.insert(at + 1, (rest[0].0, Arc::new(rest)));
        }
    }
}

impl<I, V> Default for IdMap<I, V> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_an_ordinary_map_holds(
            steps in prop::collection::vec((0_i64..600, prop::option::weighted(0.7, 0_u8..9)), 0..900),
        ) {
            let (mut map, mut model) = (IdMap::default(), BTreeMap::new());
            for (id, value) in steps {
                let before = (map.clone(), model.clone());
                match value {
                    Some(value) => {
                        map.insert(id, value);
                        model.insert(id, value);
                    }
                    None => prop_assert_eq!(map.remove(id), model.remove(&id)),
                }
                prop_assert_eq!(map.get(id), model.get(&id));
                prop_assert!(before.0.iter().eq(before.1.values()), "a copy changes with nothing");
            }
            prop_assert!(map.iter().eq(model.values()));
            prop_assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
        }
    }

    #[test]
    fn a_changed_copy_shares_all_chunks_but_one() {
        let mut map = IdMap::default();
        (0..10_000).for_each(|id| map.insert(id, id));
        let mut copy = map.clone();
        copy.insert(5_000, 0);
        let shared = map.chunks.iter().zip(&copy.chunks).filter(|(one, other)| Arc::ptr_eq(&one.1, &other.1));
        assert_eq!(shared.count(), map.chunks.len() - 1);
    }
}
