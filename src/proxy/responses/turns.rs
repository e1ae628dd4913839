//! The turns from whose answers conversations may go on, where no upstream stores these, and an index of their items.
//!
//! Everything is in memory, for its owner alone, and bounded: the oldest entries of the owner that has most go first. If an
//! upstream gives one id to different items, neither is found by it.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use bytes::Bytes;

use crate::dialect::json;
use crate::dialect::responses::answer_of;
use crate::ids::KeyId;
use crate::sync::lock;
use crate::time::{DAY, Millis, now_ms};

use super::name::ResponseName;

/// The maximum bytes of all turns together, and of one.
const MAX_BYTES: usize = 64 << 20;
pub(super) const MAX_TURN: usize = 4 << 20;
/// The estimated bytes that a turn, and each of its items, takes beside their texts.
const ENTRY_OVERHEAD: usize = 256;
const ITEM_OVERHEAD: usize = 160;
/// The longest id of an item that is looked up, in bytes.
const MAX_ITEM_ID: usize = 256;
/// How long a conversation may pause, in milliseconds.
const RETENTION_MS: Millis = DAY;

/// The turns of all conversations that may go on.
#[derive(Default)]
pub struct ResponseStore(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    turns: HashMap<ResponseName, Arc<StoredTurn>>,
    owners: HashMap<Option<KeyId>, OwnedTurns>,
    /// The items that have an upstream's id.
    items: HashMap<ResponseName, StoredItem>,
    bytes: usize,
}

/// The turns of one owner.
#[derive(Default)]
struct OwnedTurns {
    /// The response ids, oldest first.
    order: VecDeque<String>,
    bytes: usize,
}

/// Where an item is stored.
struct StoredItem {
    /// The latest turn that has the item, and its place there.
    turn: Weak<StoredTurn>,
    place: usize,
    /// The number of turns that have an item with this id.
    turns: usize,
    /// Whether the item is the same in all of them.
    is_one: bool,
}

pub(in crate::proxy) struct StoredTurn {
    pub(in crate::proxy) request: Bytes,
    pub(in crate::proxy) items: Vec<Arc<str>>,
    /// The answer's object without its items.
    pub(in crate::proxy) rest: String,
    /// The upstream's ids of items, each with the place of the item.
    ids: Vec<(usize, String)>,
    stored_at: Millis,
}

impl StoredTurn {
    pub(in crate::proxy) fn new(request: Bytes, items: Vec<Arc<str>>, rest: String) -> Self {
        let id_of = |item: &Arc<str>| json::member(item, "id").and_then(json::string);
        let ids = items.iter().enumerate().filter_map(|(place, item)| Some((place, id_of(item)?)));
        let ids =
            ids.filter(|(_, id)| answer_of(id).is_none() && (1..=MAX_ITEM_ID).contains(&id.len())).collect();
        Self { request, items, rest, ids, stored_at: now_ms() }
    }

    /// Returns the bytes of the request and of the items of its answer.
    pub(super) fn length(&self) -> usize {
        self.request.len() + self.items.iter().map(|item| item.len()).sum::<usize>()
    }

    /// Returns the bytes that the turn takes under an id.
    fn size(&self, id: &str) -> usize {
        let items = self.items.iter().map(|item| item.len() + ITEM_OVERHEAD).sum::<usize>();
        // Each is held with its turn and in the index.
        let ids = self.ids.iter().map(|(_, id)| 2 * id.len()).sum::<usize>();
        // The id is held in the map and in the order.
        self.request.len() + self.rest.len() + items + ids + 2 * id.len() + ENTRY_OVERHEAD
    }
}

impl ResponseStore {
    pub(in crate::proxy) fn find(&self, name: &ResponseName, now: Millis) -> Option<Arc<StoredTurn>> {
        self.entries().turns.get(name).filter(|turn| turn.stored_at + RETENTION_MS > now).cloned()
    }

    pub(in crate::proxy) fn insert(&self, name: ResponseName, turn: StoredTurn) {
        let size = turn.size(&name.id);
        if size > MAX_TURN {
            return;
        }
        let mut entries = self.entries();
        entries.take(&name);
        let turn = Arc::new(turn);
        entries.index(name.key_id, &turn);
        entries.bytes += size;
        let owned = entries.owners.entry(name.key_id).or_default();
        owned.bytes += size;
        owned.order.push_back(name.id.clone());
        entries.turns.insert(name, turn);
        while entries.bytes > MAX_BYTES
            && let Some(oldest) = entries.oldest_of_largest()
        {
            entries.take(&oldest);
        }
    }

    /// Forgets an answer; returns false where there is none.
    pub(in crate::proxy) fn remove(&self, name: &ResponseName) -> bool {
        self.entries().take(name)
    }

    /// Returns an item as its upstream gave it, by the upstream's id.
    pub(in crate::proxy) fn item(&self, name: &ResponseName, now: Millis) -> Option<Arc<str>> {
        let entries = self.entries();
        let item = entries.items.get(name).filter(|item| item.is_one)?;
        let turn = item.turn.upgrade().filter(|turn| turn.stored_at + RETENTION_MS > now)?;
        turn.items.get(item.place).cloned()
    }

    /// Whether any item with an upstream's id is stored.
    pub(super) fn has_items(&self) -> bool {
        !self.entries().items.is_empty()
    }

    /// Forgets every answer.
    pub fn clear(&self) {
        *self.entries() = Entries::default();
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        lock(&self.0)
    }
}

impl Entries {
    /// Removes a turn; returns false where there is none.
    fn take(&mut self, name: &ResponseName) -> bool {
        let Some(turn) = self.turns.remove(name) else { return false };
        let size = turn.size(&name.id);
        self.bytes -= size;
        if let Entry::Occupied(mut owned) = self.owners.entry(name.key_id) {
            let turns = owned.get_mut();
            turns.bytes -= size;
            if let Some(at) = turns.order.iter().position(|id| *id == name.id) {
                turns.order.remove(at);
            }
            if turns.order.is_empty() {
                owned.remove();
            }
        }
        self.unindex(name.key_id, &turn);
        true
    }

    /// Returns the oldest turn of the owner whose turns take the most bytes.
    fn oldest_of_largest(&self) -> Option<ResponseName> {
        let (owner, turns) = self.owners.iter().max_by_key(|(_, turns)| turns.bytes)?;
        Some(ResponseName::new(*owner, turns.order.front()?.as_str()))
    }

    fn index(&mut self, owner: Option<KeyId>, turn: &Arc<StoredTurn>) {
        for (place, id) in &turn.ids {
            let latest = StoredItem { turn: Arc::downgrade(turn), place: *place, turns: 1, is_one: true };
            match self.items.entry(ResponseName::new(owner, id.as_str())) {
                Entry::Vacant(vacant) => {
                    vacant.insert(latest);
                }
                Entry::Occupied(mut known) => {
                    let known = known.get_mut();
                    let before = known.turn.upgrade();
                    let is_same =
                        before.is_none_or(|before| before.items.get(known.place) == turn.items.get(*place));
                    *known = StoredItem { turns: known.turns + 1, is_one: known.is_one && is_same, ..latest };
                }
            }
        }
    }

    fn unindex(&mut self, owner: Option<KeyId>, turn: &StoredTurn) {
        for (_, id) in &turn.ids {
            if let Entry::Occupied(mut known) = self.items.entry(ResponseName::new(owner, id.as_str())) {
                known.get_mut().turns -= 1;
                if known.get().turns == 0 {
                    known.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(length: usize, stored_at: Millis) -> StoredTurn {
        StoredTurn {
            stored_at,
            ..StoredTurn::new(Bytes::from(vec![b' '; length]), Vec::new(), String::new())
        }
    }

    #[test]
    fn an_item_is_found_by_its_upstreams_id_as_long_as_that_means_one() {
        let item = |id: &str, said: &str| Arc::<str>::from(format!(r#"{{"id":"{id}","said":"{said}"}}"#));
        let said = |items: Vec<Arc<str>>| StoredTurn::new(Bytes::new(), items, String::new());
        let store = ResponseStore::default();
        let found = |owner: Option<KeyId>, id: &str| store.item(&ResponseName::new(owner, id), now_ms());
        assert!(!store.has_items());
        store.insert(ResponseName::new(None, "r1"), said(vec![item("rs_1", "a"), item("msg_1", "b")]));
        store.insert(
            ResponseName::new(None, "r2"),
            said(vec![item("msg_1", "b"), item("msg_2", "c"), item("msg_2", "d")]),
        );
        assert_eq!(found(None, "rs_1"), Some(item("rs_1", "a")));
        assert_eq!(found(None, "msg_1"), Some(item("msg_1", "b")), "the same in both");
        assert_eq!(found(None, "msg_2"), None, "two of one id");
        assert_eq!(found(Some(KeyId::new(1)), "rs_1"), None);
        // A turn that is replaced takes its items with it.
        store.insert(ResponseName::new(None, "r1"), said(vec![item("msg_1", "other")]));
        assert_eq!((found(None, "rs_1"), found(None, "msg_1")), (None, None));
        for id in ["r1", "r2"] {
            store.insert(ResponseName::new(None, id), said(Vec::new()));
        }
        assert!(!store.has_items());
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_go_first() {
        let store = ResponseStore::default();
        for number in 0..40 {
            store.insert(
                ResponseName::new(None, format!("{number:02}")),
                turn((2 << 20) - ENTRY_OVERHEAD - 4, 0),
            );
        }
        let found = |number: i32| store.find(&ResponseName::new(None, format!("{number:02}")), 1).is_some();
        assert!(!found(7) && found(8) && found(39));
        assert_eq!(store.entries().bytes, MAX_BYTES);
        store.insert(ResponseName::new(None, "39"), turn(1, 0));
        assert_eq!(store.entries().bytes, 62 * (1 << 20) + 1 + ENTRY_OVERHEAD + 4);
        assert_eq!(store.entries().turns.len(), 32);
        store.insert(ResponseName::new(None, "large"), turn(MAX_TURN + 1, 0));
        assert!(store.find(&ResponseName::new(None, "large"), 1).is_none());
    }

    #[test]
    fn whoever_keeps_most_loses_the_oldest() {
        let store = ResponseStore::default();
        let (much, little) = (Some(KeyId::new(1)), Some(KeyId::new(2)));
        store.insert(ResponseName::new(little, "first"), turn(1 << 20, 0));
        for number in 0..100 {
            store.insert(ResponseName::new(much, number.to_string()), turn(2 << 20, 0));
        }
        assert!(store.find(&ResponseName::new(little, "first"), 1).is_some());
        assert!(store.find(&ResponseName::new(much, "0"), 1).is_none());
        assert!(store.find(&ResponseName::new(much, "99"), 1).is_some());
        assert!(
            store.remove(&ResponseName::new(little, "first"))
                && !store.remove(&ResponseName::new(little, "first"))
        );
        assert_eq!(store.entries().owners.len(), 1);
    }

    #[test]
    fn ids_and_what_each_entry_takes_count_as_well() {
        let store = ResponseStore::default();
        for number in 0..200 {
            store.insert(ResponseName::new(None, format!("{number}{}", "x".repeat(1 << 20))), turn(1, 0));
        }
        assert_eq!(store.entries().turns.len(), 31);
        store.clear();
        for number in 0..MAX_BYTES / ENTRY_OVERHEAD {
            store.insert(ResponseName::new(None, number.to_string()), turn(1, 0));
        }
        assert!(store.entries().bytes <= MAX_BYTES);
        assert!(store.entries().turns.len() < MAX_BYTES / ENTRY_OVERHEAD);
    }

    #[test]
    fn a_turn_is_its_owners_and_ends_in_time() {
        let store = ResponseStore::default();
        store.insert(ResponseName::new(Some(KeyId::new(1)), "r"), turn(1, 1_000));
        assert!(store.find(&ResponseName::new(Some(KeyId::new(1)), "r"), RETENTION_MS).is_some());
        assert!(store.find(&ResponseName::new(Some(KeyId::new(1)), "r"), RETENTION_MS + 1_000).is_none());
        assert!(store.find(&ResponseName::new(None, "r"), 2_000).is_none());
        assert!(store.find(&ResponseName::new(Some(KeyId::new(2)), "r"), 2_000).is_none());
    }
}
