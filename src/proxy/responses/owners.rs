//! Which key owns an answer that its upstream stores, an item of one, or a conversation that the upstream keeps.
//!
//! Many keys share an account, and its upstream would let each go on from the answers of all. So an id belongs to the key that
//! received it, and no other key's request with it goes upstream. An id that nobody received here passes in two cases: for
//! the proxy token, because its holder owns the accounts, and where no other key can use the account. A conversation
//! (`conv_…`) is made elsewhere; it belongs to the first key that goes on in it.
//!
//! Memory holds the latest ids. The database holds all, also those of other instances and from before a restart; it is asked
//! only about an id that memory does not know. If an upstream gives one id to several keys, it belongs to none.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::core::Core;
use crate::dialect::responses::{BareItem, PREVIOUS, bare_items, may_have_item_ids};
use crate::dialect::{Dialect, json};
use crate::http::Response;
use crate::ids::{AccountId, KeyId};
use crate::one_line::first_chars;
use crate::proxy::Proxy;
use crate::routing::{Channel, serving};
use crate::store;
use crate::store::background_responses::InBackground;
use crate::store::owner::Owner;
use crate::store::responses::{self, MAX_ID, OwnedId, StoredResponse};
use crate::time::now_ms;

use super::id_owners::{IdOwner, KeptAt, StoredAt};
use crate::proxy::call::Call;
use crate::proxy::operation::Operation;
use crate::proxy::reply::ErrorShape;

const CONVERSATION: &str = "conversation";
const ITEM: &str = "item_reference";

/// The maximum number of items of one answer that are bound.
const MAX_BOUND_ITEMS: usize = 256;

/// The waits, in milliseconds, between looks for an answer that another instance may have given a moment ago: its client
/// goes on as soon as the stream has ended, and the record of its id is written with the log.
const WAITS_FOR_RECORD_MS: [u64; 4] = [100, 200, 400, 800];

/// The key that asked for an answer, and the model that it asked for.
#[derive(Clone, Copy)]
pub(in crate::proxy) struct Requester<'r> {
    pub(in crate::proxy) key_id: Option<KeyId>,
    pub(in crate::proxy) model: &'r Arc<str>,
}

/// Binds an answer that its upstream stores to the key that asked for it; for one made in the background also records the
/// row of its request.
pub(in crate::proxy) fn bind(
    proxy: &Proxy,
    call: &Call,
    channel: &Channel,
    id: &str,
    in_background: Option<InBackground>,
) {
    let requester = Requester { key_id: call.key_id, model: &call.model };
    bind_id(proxy, requester, channel, id, in_background);
}

/// Binds the items of such an answer to the key that asked for it.
pub(in crate::proxy) fn bind_items<'i>(
    proxy: &Proxy,
    requester: Requester<'_>,
    channel: &Channel,
    ids: impl IntoIterator<Item = &'i str>,
) {
    for id in ids.into_iter().take(MAX_BOUND_ITEMS) {
        bind_id(proxy, requester, channel, id, None);
    }
}

/// Binds the items of an answer that its key asks for once more: of an answer that was made in the background they are not
/// known before. Clients ask often, so only items that memory does not know are recorded: once per instance and start.
pub(in crate::proxy) fn bind_items_of<'i>(
    proxy: &Proxy,
    key_id: Option<KeyId>,
    at: &StoredAt,
    ids: impl IntoIterator<Item = &'i str>,
) {
    let ids = ids.into_iter().take(MAX_BOUND_ITEMS);
    let (known, mut new): (Vec<_>, Vec<_>) = ids.partition(|id| proxy.response_owners.holder(id).is_some());
    new.sort_unstable();
    new.dedup();
    let snapshot = proxy.core.snapshot.load();
    let is_place = |channel: &&Arc<Channel>| channel.account.id == at.account && channel.token_id == at.token;
    let recorded = at.model.as_ref().filter(|_| !new.is_empty()).and_then(|model| {
        Some((Requester { key_id, model }, snapshot.channels().flat_map(serving).find(is_place)?))
    });
    for id in known {
        proxy.response_owners.give(id, IdOwner::Key(key_id), Some(at.clone()));
    }
    for id in new {
        match recorded {
            Some((requester, channel)) => bind_id(proxy, requester, channel, id, None),
            // The account serves no more.
            None => proxy.response_owners.give(id, IdOwner::Key(key_id), Some(at.clone())),
        }
    }
}

fn bind_id(
    proxy: &Proxy,
    requester: Requester<'_>,
    channel: &Channel,
    id: &str,
    in_background: Option<InBackground>,
) {
    let Requester { key_id, model } = requester;
    let at = StoredAt { account: channel.account.id, token: channel.token_id, model: Some(model.clone()) };
    proxy.response_owners.give(id, IdOwner::Key(key_id), Some(at));
    if id.len() <= MAX_ID {
        proxy.core.store.telemetry().stored_response(StoredResponse {
            response_id: id.to_owned(),
            key_id,
            site_id: channel.account.site.id,
            account_id: channel.account.id,
            token_id: channel.token_id,
            channel_id: channel.id,
            model_requested: model.clone(),
            created_at: now_ms(),
            in_background,
        });
    }
}

/// Binds the conversation that a call goes on in, once its upstream has accepted it, to the call's key.
pub(in crate::proxy) fn bind_conversation(proxy: &Proxy, call: &Call, channel: &Channel) {
    if let Some(id) = &call.conversation
        && proxy.response_owners.holder(id).is_none()
    {
        bind(proxy, call, channel, id, None);
    }
}

/// Returns the ids that a request goes on from, each with the name of its member, as often as it is given.
fn history(body: &str) -> Vec<(&'static str, String)> {
    let mut ids = Vec::new();
    json::members_before_cut(body, |member| match member.key.as_ref() {
        PREVIOUS => ids.extend(json::string(member.value).map(|id| (PREVIOUS, id))),
        CONVERSATION => {
            ids.extend(json::string(member.value).map(|id| (CONVERSATION, id)));
            json::members_before_cut(member.value, |inner| {
                if inner.key == "id" {
                    ids.extend(json::string(inner.value).map(|id| (CONVERSATION, id)));
                }
            });
        }
        _ => {}
    });
    ids
}

/// Whether a call may go on from something that an upstream keeps.
pub(in crate::proxy) fn may_go_on(call: &Call) -> bool {
    call.envelope.has_previous || call.envelope.has_conversation || may_refer(call)
}

fn may_refer(call: &Call) -> bool {
    let takes_items =
        matches!(call.operation, Operation::Answer | Operation::CountTokens | Operation::Compact);
    call.shape.dialect == Dialect::Responses && takes_items && may_have_item_ids(&call.body)
}

/// Checks the owners of the answer and the conversation that a call goes on from, and of the items that it refers to.
///
/// # Errors
///
/// A refusal where they are another key's, in the words from which clients recover: they send the whole conversation. A
/// member that is given twice is refused, because an upstream may read the other one.
pub(in crate::proxy) async fn check(proxy: &Proxy, call: &mut Call) -> Result<(), Response> {
    let named = || {
        let body = std::str::from_utf8(&call.body).unwrap_or_default();
        let goes_on = call.envelope.has_previous || call.envelope.has_conversation;
        let ids = if goes_on { history(body) } else { Vec::new() };
        (ids, if may_refer(call) { bare_items(body) } else { Vec::new() })
    };
    let (ids, items) = proxy.conversions.read_through(call.body.len(), named).await;
    for member in [PREVIOUS, CONVERSATION] {
        if ids.iter().filter(|(other, _)| *other == member).count() > 1 {
            let message = format!("{member} is given twice");
            return Err(call.shape.refuse(400, &message, None, Some(member)));
        }
    }
    for (member, id) in ids {
        if member == CONVERSATION {
            call.conversation = Some(id.clone());
        }
        check_id(proxy, call, member, id).await?;
    }
    check_items(proxy, call, items).await
}

/// What is known of an item that a call refers to.
#[derive(Clone)]
enum ItemOwner {
    /// The caller's key was given it, by the upstream of this account if that is known.
    Caller(Option<StoredAt>),
    Another,
    /// Several keys were given this id.
    Several,
}

/// Checks the owners of items that an upstream would have to find, and notes which account has the last of them.
async fn check_items(proxy: &Proxy, call: &mut Call, items: Vec<BareItem>) -> Result<(), Response> {
    let stored = stored_or_late_items(proxy, call, &items).await?;
    let mut last = None;
    for BareItem { id, is_needed } in items {
        match item_owner(proxy, call, &id).or_else(|| stored.get(&id).cloned()) {
            // It is found there, but another upstream can do without it.
            Some(ItemOwner::Caller(_)) if !is_needed => {}
            Some(ItemOwner::Caller(at)) => {
                last = at.map(|at| KeptAt { account: at.account, member: ITEM, id }).or(last);
            }
            // An upstream that gives several of these one id does not find them by that.
            Some(ItemOwner::Several) | None if !is_needed => {}
            Some(ItemOwner::Another | ItemOwner::Several) => return Err(not_found(call.shape, ITEM, &id)),
            None => _ = call.unknown_history.get_or_insert(ITEM),
        }
    }
    call.kept_at = call.kept_at.take().or(last);
    Ok(())
}

/// Returns what memory knows of an item.
fn item_owner(proxy: &Proxy, call: &Call, id: &str) -> Option<ItemOwner> {
    Some(match proxy.response_owners.holder(id)? {
        IdOwner::Several => ItemOwner::Several,
        IdOwner::Key(key) if key == call.key_id => {
            ItemOwner::Caller(proxy.response_owners.place(id, call.key_id))
        }
        IdOwner::Key(_) => ItemOwner::Another,
    })
}

/// Looks up the items that memory does not know; where another instance may have given a needed one a moment ago, several
/// times.
async fn stored_or_late_items(
    proxy: &Proxy,
    call: &Call,
    items: &[BareItem],
) -> Result<HashMap<String, ItemOwner>, Response> {
    let mut stored = stored_items(proxy, call, items).await?;
    let is_unknown = |id: &str, stored: &HashMap<_, _>| {
        id.len() <= MAX_ID && proxy.response_owners.holder(id).is_none() && !stored.contains_key(id)
    };
    for wait in WAITS_FOR_RECORD_MS {
        let lacks_any = items.iter().any(|item| item.is_needed && is_unknown(&item.id, &stored));
        if !lacks_any || !proxy.core.has_others() {
            break;
        }
        sleep(Duration::from_millis(wait)).await;
        stored = stored_items(proxy, call, items).await?;
    }
    Ok(stored)
}

/// Looks up the items that memory does not know. Those of the caller's key are in memory afterwards.
async fn stored_items(
    proxy: &Proxy,
    call: &Call,
    items: &[BareItem],
) -> Result<HashMap<String, ItemOwner>, Response> {
    let unknown = |id: &&str| id.len() <= MAX_ID && proxy.response_owners.holder(id).is_none();
    let asked: HashSet<&str> = items.iter().map(|item| item.id.as_str()).filter(unknown).collect();
    let asked: Vec<&str> = asked.into_iter().collect();
    let owned =
        responses::owned(&proxy.core.store, &asked).await.map_err(|error| unreadable(call, &error))?;
    let own = Owner::of_key(call.key_id);
    let mut found: HashMap<String, ItemOwner> = HashMap::new();
    for OwnedId { id, owner, place } in owned {
        let holder = if owner == own { ItemOwner::Caller(Some(place.into())) } else { ItemOwner::Another };
        let known = found.remove(&id);
        let holder = match (known, holder) {
            (None | Some(ItemOwner::Caller(_)), holder @ ItemOwner::Caller(_)) => holder,
            // It does not matter which other keys share it.
            (None | Some(ItemOwner::Another), ItemOwner::Another) => ItemOwner::Another,
            _ => ItemOwner::Several,
        };
        found.insert(id, holder);
    }
    for (id, holder) in &found {
        if let ItemOwner::Caller(at) = holder {
            proxy.response_owners.give(id, IdOwner::Key(call.key_id), at.clone());
        }
    }
    Ok(found)
}

async fn check_id(proxy: &Proxy, call: &mut Call, member: &'static str, id: String) -> Result<(), Response> {
    let holder = match proxy.response_owners.holder(&id) {
        Some(holder) => Some(holder),
        None if id.len() > MAX_ID => None,
        None => match stored_holder(proxy, call, &id).await? {
            None if member == PREVIOUS && proxy.core.has_others() => late_holder(proxy, call, &id).await?,
            found => found,
        },
    };
    match holder {
        Some(holder) if holder == IdOwner::Key(call.key_id) => {
            let kept_at = kept_at(proxy, call, &id).await?;
            call.kept_at = call.kept_at.take().or(kept_at.map(|account| KeptAt { account, member, id }));
            Ok(())
        }
        Some(_) => Err(not_found(call.shape, member, &id)),
        None => {
            call.unknown_history.get_or_insert(member);
            Ok(())
        }
    }
}

/// Returns the account whose upstream keeps the answer or conversation with this id, which belongs to the call's key.
async fn kept_at(proxy: &Proxy, call: &Call, id: &str) -> Result<Option<AccountId>, Response> {
    if let Some(place) = proxy.response_owners.place(id, call.key_id) {
        return Ok(Some(place.account));
    }
    if id.len() > MAX_ID {
        return Ok(None);
    }
    let found = responses::find(&proxy.core.store, &Owner::of_key(call.key_id), id).await;
    let found = found.map_err(|error| unreadable(call, &error))?;
    Ok(found.map(|place| {
        let account = place.account_id;
        proxy.response_owners.give(id, IdOwner::Key(call.key_id), Some(StoredAt::from(place)));
        account
    }))
}

/// Builds the refusal of a request that goes on from something that cannot be reached: clients recover by sending the whole
/// conversation.
pub(in crate::proxy) fn not_found(shape: ErrorShape, member: &'static str, id: &str) -> Response {
    let id = first_chars(id, MAX_ID);
    let (what, code, param) = match member {
        PREVIOUS => ("Previous response", Some("previous_response_not_found"), member),
        ITEM => ("Item", None, "input"),
        _ => ("Conversation", None, member),
    };
    let hint = if member == ITEM { " Send the item itself in place of a reference to it." } else { "" };
    shape.refuse(400, &format!("{what} with id '{id}' not found.{hint}"), code, Some(param))
}

fn unreadable(call: &Call, error: &store::Error) -> Response {
    log::error!("the owner of a response could not be looked up: {error}");
    call.shape.refuse(503, "The previous response could not be looked up", None, None)
}

async fn stored_holder(proxy: &Proxy, call: &Call, id: &str) -> Result<Option<IdOwner>, Response> {
    let owners = responses::owners(&proxy.core.store, id).await.map_err(|error| unreadable(call, &error))?;
    let own = Owner::of_key(call.key_id);
    let holder = match owners.as_slice() {
        [] => return Ok(None),
        [only] if *only == own => IdOwner::Key(call.key_id),
        // It does not matter which other keys share it.
        _ => IdOwner::Several,
    };
    if holder != IdOwner::Several {
        proxy.response_owners.give(id, holder, None);
    }
    Ok(Some(holder))
}

/// Looks again for the holder of an answer's id that the database does not have yet.
async fn late_holder(proxy: &Proxy, call: &Call, id: &str) -> Result<Option<IdOwner>, Response> {
    for wait in WAITS_FOR_RECORD_MS {
        sleep(Duration::from_millis(wait)).await;
        if let Some(holder) = stored_holder(proxy, call, id).await? {
            return Ok(Some(holder));
        }
    }
    Ok(None)
}

/// Returns the member with an id that an upstream may not be sent: the id was given to nobody here, and another key,
/// whose it may be, can use the account.
pub(in crate::proxy) fn unowned_member(core: &Core, call: &Call, channel: &Channel) -> Option<&'static str> {
    let is_anyones = |own: KeyId| {
        let keys = core.keys.load();
        keys.iter().any(|key| key.id != own && key.policy.may_reach_site(channel.account.site.id))
    };
    call.unknown_history.filter(|_| call.key_id.is_some_and(is_anyones))
}
