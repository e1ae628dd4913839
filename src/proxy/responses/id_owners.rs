//! The keys to which the latest ids of answers and conversations were given, and the accounts that have them, in memory.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex};

use foldhash::quality::RandomState;

use crate::fast_map::FastMap;
use crate::ids::{AccountId, KeyId, TokenId};
use crate::store::responses::ResponsePlace;
use crate::sync::lock;

/// The maximum number of ids in memory.
const MAX_KEPT: usize = 32_768;

/// Who holds an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::proxy) enum IdOwner {
    /// A managed key; `None` is the proxy token.
    Key(Option<KeyId>),
    Several,
}

/// The account that has an answer, and its token where one was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::proxy) struct StoredAt {
    pub(in crate::proxy) account: AccountId,
    pub(in crate::proxy) token: Option<TokenId>,
    /// The model's name as the client requested it; `None` where that is no longer known.
    pub(in crate::proxy) model: Option<Arc<str>>,
}

impl From<ResponsePlace> for StoredAt {
    fn from(place: ResponsePlace) -> Self {
        let ResponsePlace { account_id, token_id, model_requested } = place;
        Self { account: account_id, token: token_id, model: model_requested.map(Arc::from) }
    }
}

/// What a call goes on from, where its key was given it: the upstream of one account alone knows it.
pub(in crate::proxy) struct KeptAt {
    pub(in crate::proxy) account: AccountId,
    /// The member of the request that names it.
    pub(in crate::proxy) member: &'static str,
    pub(in crate::proxy) id: String,
}

struct IdRecord {
    holder: IdOwner,
    /// Where the answer is; `None` where only the database knows.
    at: Option<StoredAt>,
}

/// The holders of the latest ids, by keyed hashes of the ids.
#[derive(Default)]
pub struct IdOwners {
    keys: RandomState,
    kept: Mutex<IdTable>,
}

#[derive(Default)]
struct IdTable {
    holders: FastMap<u64, IdRecord>,
    /// The hashes, oldest first.
    order: VecDeque<u64>,
}

impl IdOwners {
    pub(in crate::proxy) fn holder(&self, id: &str) -> Option<IdOwner> {
        lock(&self.kept).holders.get(&self.keys.hash_one(id)).map(|known| known.holder)
    }

    /// Returns where the answer with this id is, if it belongs to that key alone.
    pub(in crate::proxy) fn place(&self, id: &str, key_id: Option<KeyId>) -> Option<StoredAt> {
        let kept = lock(&self.kept);
        let known = kept.holders.get(&self.keys.hash_one(id))?;
        known.at.clone().filter(|_| known.holder == IdOwner::Key(key_id))
    }

    /// Forgets an answer that is gone.
    pub(in crate::proxy) fn forget(&self, id: &str) {
        let hash = self.keys.hash_one(id);
        let mut kept = lock(&self.kept);
        if kept.holders.remove(&hash).is_some() {
            kept.order.retain(|other| *other != hash);
        }
    }

    /// Records that a key was given this id, or is the first to use it.
    pub(in crate::proxy) fn give(&self, id: &str, holder: IdOwner, at: Option<StoredAt>) {
        let hash = self.keys.hash_one(id);
        let mut kept = lock(&self.kept);
        if let Some(known) = kept.holders.get_mut(&hash) {
            known.holder = if known.holder == holder { holder } else { IdOwner::Several };
            known.at = at.or(known.at.take());
            return;
        }
        if kept.order.len() >= MAX_KEPT
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.holders.remove(&oldest);
        }
        kept.holders.insert(hash, IdRecord { holder, at });
        kept.order.push_back(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_several_were_given_is_nobodys_and_only_so_many_are_kept() {
        let owners = IdOwners::default();
        assert_eq!(owners.holder("r"), None);
        owners.give("r", IdOwner::Key(Some(KeyId::new(1))), None);
        owners.give("r", IdOwner::Key(Some(KeyId::new(1))), None);
        assert_eq!(owners.holder("r"), Some(IdOwner::Key(Some(KeyId::new(1)))));
        owners.give("r", IdOwner::Key(None), None);
        owners.give("r", IdOwner::Key(Some(KeyId::new(1))), None);
        assert_eq!(owners.holder("r"), Some(IdOwner::Several));
        for number in 0..MAX_KEPT {
            owners.give(&number.to_string(), IdOwner::Key(None), None);
        }
        let kept = lock(&owners.kept);
        assert_eq!((kept.holders.len(), kept.order.len()), (MAX_KEPT, MAX_KEPT));
        drop(kept);
        assert_eq!((owners.holder("r"), owners.holder("0")), (None, Some(IdOwner::Key(None))));
    }
}
