//! Which key an answer belongs to that its upstream stores, and a conversation that it keeps.
//!
//! Many keys share an account, and its upstream would let each go on from the answers of all. So the ids that a key was
//! given are bound to it, and no upstream is handed an id that another key was given. An id that nobody was given here
//! passes for the proxy token, whose holder has the accounts, and where no other key can use the account. A conversation
//! (`conv_…`) is made elsewhere, and bound to the key that first goes on in it.
//!
//! Memory holds the latest; those before it, of other instances and from before a restart are in the database, which is
//! only asked about an id that memory does not know. An upstream that gives one id to several keys has told nobody's.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Mutex;

use foldhash::quality::RandomState;

use crate::core::Core;
use crate::dialect::json;
use crate::fast_map::FastMap;
use crate::http::Response;
use crate::proxy::Proxy;
use crate::routing::Channel;
use crate::store::owner::Owner;
use crate::store::responses::{self, MAX_ID, StoredResponse};
use crate::sync::lock;
use crate::time::now_ms;

use super::call::Call;

const PREVIOUS: &str = "previous_response_id";
const CONVERSATION: &str = "conversation";
/// Ids that are kept in memory.
const MAX_KEPT: usize = 32_768;

/// Whose an id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    /// A managed key; `None` is the proxy token.
    Key(Option<i64>),
    Several,
}

/// The holders of the latest ids, by keyed hashes of these.
#[derive(Default)]
pub struct ResponseOwners {
    keys: RandomState,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    holders: FastMap<u64, Holder>,
    /// Oldest first.
    order: VecDeque<u64>,
}

impl ResponseOwners {
    fn holder(&self, id: &str) -> Option<Holder> {
        lock(&self.kept).holders.get(&self.keys.hash_one(id)).copied()
    }

    /// A key was given this id, or has used it first.
    fn give(&self, id: &str, holder: Holder) {
        let hash = self.keys.hash_one(id);
        let mut kept = lock(&self.kept);
        if let Some(known) = kept.holders.get_mut(&hash) {
            *known = if *known == holder { holder } else { Holder::Several };
            return;
        }
        if kept.order.len() >= MAX_KEPT
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.holders.remove(&oldest);
        }
        kept.holders.insert(hash, holder);
        kept.order.push_back(hash);
    }
}

/// Binds an answer that its upstream stores to the key that asked for it.
pub(super) fn bind(proxy: &Proxy, call: &Call, channel: &Channel, id: &str) {
    proxy.response_owners.give(id, Holder::Key(call.key_id));
    if id.len() <= MAX_ID {
        proxy.core.store.telemetry().stored_response(StoredResponse {
            response_id: id.to_owned(),
            key_id: call.key_id,
            site_id: channel.account.site.id,
            account_id: channel.account.id,
            token_id: channel.token_id,
            channel_id: channel.id,
            created_at: now_ms(),
        });
    }
}

/// Binds the conversation that a call goes on in, and that its upstream has taken, to the call's key.
pub(super) fn bind_conversation(proxy: &Proxy, call: &Call, channel: &Channel) {
    let text = std::str::from_utf8(&call.body).unwrap_or_default();
    let ids = history(text).into_iter().filter(|(member, _)| *member == CONVERSATION);
    for (_, id) in ids {
        if proxy.response_owners.holder(&id).is_none() {
            bind(proxy, call, channel, &id);
        }
    }
}

/// What a request goes on from: each id with the name of its member, as often as it is given.
fn history(body: &str) -> Vec<(&'static str, String)> {
    let mut ids = Vec::new();
    // What is no object has no members.
    let _ = json::members(body, |member| match member.key.as_ref() {
        PREVIOUS => ids.extend(json::string(member.value).map(|id| (PREVIOUS, id))),
        CONVERSATION => {
            ids.extend(json::string(member.value).map(|id| (CONVERSATION, id)));
            let _ = json::members(member.value, |inner| {
                if inner.key == "id" {
                    ids.extend(json::string(inner.value).map(|id| (CONVERSATION, id)));
                }
            });
        }
        _ => {}
    });
    ids
}

/// Looks up whose the answer and the conversation are that a call goes on from.
///
/// # Errors
///
/// A refusal where they are another key's, in the words from which clients recover: they send the whole conversation. One
/// that is given twice is refused: of two an upstream may read the other.
pub(super) async fn check(proxy: &Proxy, call: &mut Call) -> Result<(), Response> {
    let named = || history(std::str::from_utf8(&call.body).unwrap_or_default());
    let ids = proxy.conversions.read_through(call.body.len(), named).await;
    for member in [PREVIOUS, CONVERSATION] {
        if ids.iter().filter(|(other, _)| *other == member).count() > 1 {
            let message = format!("{member} is given twice");
            return Err(call.face.refuse(400, &message, None, Some(member)));
        }
    }
    for (member, id) in ids {
        check_id(proxy, call, member, id).await?;
    }
    Ok(())
}

async fn check_id(proxy: &Proxy, call: &mut Call, member: &'static str, id: String) -> Result<(), Response> {
    let holder = match proxy.response_owners.holder(&id) {
        Some(holder) => Some(holder),
        None if id.len() > MAX_ID => None,
        None => stored_holder(proxy, call, &id).await?,
    };
    match holder {
        Some(holder) if holder == Holder::Key(call.key_id) => Ok(()),
        Some(_) => {
            let shown: String = id.chars().take(MAX_ID).collect();
            let (what, code) = match member {
                PREVIOUS => ("Previous response", Some("previous_response_not_found")),
                _ => ("Conversation", None),
            };
            let message = format!("{what} with id '{shown}' not found.");
            Err(call.face.refuse(400, &message, code, Some(member)))
        }
        None => {
            call.unknown_history.get_or_insert(member);
            Ok(())
        }
    }
}

async fn stored_holder(proxy: &Proxy, call: &Call, id: &str) -> Result<Option<Holder>, Response> {
    let owners = responses::owners(&proxy.core.store, id).await.map_err(|error| {
        log::error!("looking up whose a response is failed: {error}");
        call.face.refuse(503, "The previous response could not be looked up", None, None)
    })?;
    let own = Owner::of_key(call.key_id);
    let holder = match owners.as_slice() {
        [] => return Ok(None),
        [only] if *only == own => Holder::Key(call.key_id),
        // Whose else it is does not matter.
        _ => Holder::Several,
    };
    if holder != Holder::Several {
        proxy.response_owners.give(id, holder);
    }
    Ok(Some(holder))
}

/// The member of a call that names history which an upstream may not be handed: nobody was given the id here, and
/// another key can use the account, whose it may be.
pub(super) fn withheld(core: &Core, call: &Call, channel: &Channel) -> Option<&'static str> {
    let is_anyones = |own: i64| {
        let keys = core.keys.load();
        keys.iter().any(|key| key.id != own && key.policy.may_reach_site(channel.account.site.id))
    };
    call.unknown_history.filter(|_| call.key_id.is_some_and(is_anyones))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_several_were_given_is_nobodys_and_only_so_many_are_kept() {
        let owners = ResponseOwners::default();
        assert_eq!(owners.holder("r"), None);
        owners.give("r", Holder::Key(Some(1)));
        owners.give("r", Holder::Key(Some(1)));
        assert_eq!(owners.holder("r"), Some(Holder::Key(Some(1))));
        owners.give("r", Holder::Key(None));
        owners.give("r", Holder::Key(Some(1)));
        assert_eq!(owners.holder("r"), Some(Holder::Several));
        for number in 0..MAX_KEPT {
            owners.give(&number.to_string(), Holder::Key(None));
        }
        let kept = lock(&owners.kept);
        assert_eq!((kept.holders.len(), kept.order.len()), (MAX_KEPT, MAX_KEPT));
        drop(kept);
        assert_eq!((owners.holder("r"), owners.holder("0")), (None, Some(Holder::Key(None))));
    }
}
