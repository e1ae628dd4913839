//! Bounds the size of maps that clients and upstreams fill.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Makes room for an entry under `key`: if there are already `most` other entries, removes and returns the one with the
/// smallest `age`.
pub fn make_room<K, V, S, A>(
    map: &mut HashMap<K, V, S>,
    key: &K,
    most: usize,
    age: impl Fn(&V) -> A,
) -> Option<V>
where
    K: Clone + Eq + Hash,
    S: BuildHasher,
    A: Ord,
{
    if map.len() < most || map.contains_key(key) {
        return None;
    }
    let first = map.iter().min_by_key(|(_, value)| age(value)).map(|(first, _)| first.clone())?;
    map.remove(&first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_for_one_that_is_new() {
        let mut map = HashMap::from([("a", 3), ("b", 1), ("c", 2)]);
        make_room(&mut map, &"a", 3, |age| *age);
        make_room(&mut map, &"d", 4, |age| *age);
        assert_eq!(map.len(), 3, "there is room");
        assert_eq!(make_room(&mut map, &"d", 3, |age| *age), Some(1));
        assert!(map.len() == 2 && !map.contains_key("b"), "{map:?}");
        make_room(&mut HashMap::<u8, u8>::new(), &0, 0, |age| *age);
    }
}
