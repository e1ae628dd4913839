//! Remembers which channel served a conversation last.
//!
//! ```text
//! first attempt ── lookup ──▶ the bound channel, if it may be picked now; else any
//! success ──────── bind ────▶ the channel that succeeded, with a new expiry
//! its failure ──── unbind ──▶ nothing, unless a success has moved the binding meanwhile
//! ```
//!
//! An answer of the responses dialect that its upstream stores binds the requests that continue it in the same way.
//!
//! A binding is a preference, never a pin: it keeps an upstream's prompt cache warm, and nothing breaks when it is
//! forgotten. So a conversation is kept as a keyed 64-bit hash (a collision costs one cold cache), and a full shard forgets
//! the bindings that would expire first. Each shard has a lock of its own, held for one look-up.

use std::array;
use std::collections::HashSet;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard};

use foldhash::quality::RandomState;

use crate::fast_map::FastMap;
use crate::ids::{ChannelId, ChannelOrMember};
use crate::make_room::make_room;
use crate::sync::lock;
use crate::time::Millis;

const SHARDS: usize = 64;
/// The most conversations remembered, over all shards.
const MAX_CONVERSATIONS: usize = 65_536;

/// A conversation of one caller about one model, as a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conversation(u64);

impl fmt::Display for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The channels that conversations are bound to.
#[derive(Debug)]
pub struct Affinity {
    keys: RandomState,
    shards: [Mutex<FastMap<Conversation, Binding>>; SHARDS],
}

#[derive(Clone, Copy, Debug)]
struct Binding {
    channel: ChannelOrMember,
    expires: Millis,
}

// === impl Affinity ===

impl Affinity {
    /// Returns the conversation with this `name`.
    pub fn conversation(&self, name: impl Hash) -> Conversation {
        Conversation(self.keys.hash_one(name))
    }

    /// Returns the channel that a conversation is bound to.
    pub fn lookup(&self, conversation: Conversation, now: Millis) -> Option<ChannelOrMember> {
        let binding = *self.shard(conversation).get(&conversation)?;
        (binding.expires > now).then_some(binding.channel)
    }

    /// Binds the conversation to the channel that served it, until `expires` or until a later success moves it.
    pub fn bind(&self, conversation: Conversation, channel: ChannelOrMember, expires: Millis) {
        let mut shard = self.shard(conversation);
        make_room(&mut shard, &conversation, MAX_CONVERSATIONS / SHARDS, |binding| binding.expires);
        shard.insert(conversation, Binding { channel, expires });
    }

    /// Removes the binding of a conversation whose channel failed, if it still points there.
    pub fn unbind(&self, conversation: Conversation, channel: ChannelOrMember) {
        let mut shard = self.shard(conversation);
        if shard.get(&conversation).is_some_and(|binding| binding.channel == channel) {
            shard.remove(&conversation);
        }
    }

    /// Forgets every binding to one of these channels.
    pub fn forget(&self, channels: &HashSet<ChannelId>) {
        if channels.is_empty() {
            return;
        }
        for shard in &self.shards {
            lock(shard).retain(|_, binding| match binding.channel {
                ChannelOrMember::Channel(id) => !channels.contains(&id),
                ChannelOrMember::Member(_) => true,
            });
        }
    }

    fn shard(&self, conversation: Conversation) -> MutexGuard<'_, FastMap<Conversation, Binding>> {
        lock(&self.shards[conversation.0 as usize % SHARDS])
    }
}

impl Default for Affinity {
    fn default() -> Self {
        Self { keys: RandomState::default(), shards: array::from_fn(|_| Mutex::default()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: i64) -> ChannelOrMember {
        ChannelId::new(id).into()
    }

    const TTL: Millis = 1_800_000;

    #[test]
    fn a_binding_lasts_from_the_last_success() {
        let affinity = Affinity::default();
        let talk = affinity.conversation("key:1|codex|/v1/responses|m|s");
        assert_eq!(affinity.lookup(talk, 0), None);
        affinity.bind(talk, key(7), TTL);
        assert_eq!(affinity.lookup(talk, TTL - 1), Some(key(7)));
        assert_eq!(affinity.lookup(talk, TTL), None);
        affinity.bind(talk, key(7), 1_000 + TTL);
        assert_eq!(affinity.lookup(talk, TTL), Some(key(7)));
        assert_eq!(affinity.lookup(affinity.conversation("key:1|codex|/v1/responses|m|t"), 0), None);
    }

    #[test]
    fn a_failure_forgets_only_a_binding_that_still_points_there() {
        let affinity = Affinity::default();
        let talk = affinity.conversation("a");
        affinity.bind(talk, key(7), TTL);
        affinity.unbind(talk, key(8));
        assert_eq!(affinity.lookup(talk, 0), Some(key(7)));
        affinity.bind(talk, key(8), TTL);
        affinity.unbind(talk, key(7));
        assert_eq!(affinity.lookup(talk, 0), Some(key(8)), "a success elsewhere has moved it");
        affinity.unbind(talk, key(8));
        assert_eq!(affinity.lookup(talk, 0), None);
    }

    #[test]
    fn bindings_to_deleted_channels_are_forgotten() {
        let affinity = Affinity::default();
        let talks = ["a", "b"].map(|text| affinity.conversation(text));
        affinity.bind(talks[0], key(1), TTL);
        affinity.bind(talks[1], key(2), TTL);
        affinity.forget(&HashSet::from([ChannelId::new(1)]));
        assert_eq!(talks.map(|talk| affinity.lookup(talk, 0)), [None, Some(key(2))]);
        affinity.forget(&HashSet::from([ChannelId::new(2)]));
        assert!(talks.iter().all(|talk| affinity.lookup(*talk, 0).is_none()));
    }

    #[test]
    fn memory_is_bounded_and_the_latest_are_kept() {
        let affinity = Affinity::default();
        let talks = 200_000;
        for number in 0..talks {
            affinity.bind(affinity.conversation(number.to_string()), key(1), number);
        }
        let count: usize = affinity.shards.iter().map(|shard| lock(shard).len()).sum();
        assert!((60_000..=MAX_CONVERSATIONS).contains(&count), "{count}");
        let last = affinity.conversation((talks - 1).to_string());
        assert_eq!(affinity.lookup(last, 0), Some(key(1)));
        assert_eq!(affinity.lookup(affinity.conversation("0"), -1), None);
    }
}
