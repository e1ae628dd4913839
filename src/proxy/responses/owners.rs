//! Which key owns an answer that its upstream stores, or a conversation that the upstream keeps.
//!
//! Many keys share an account, and its upstream would let each go on from the answers of all. So the ids that a key was
//! given are bound to it, and no upstream is sent an id that another key was given. An id that was given to nobody here
//! passes for the proxy token, whose holder owns the accounts, and where no other key can use the account. A conversation
//! (`conv_…`) is made elsewhere, and is bound to the key that first goes on in it.
//!
//! Memory holds the latest ids; older ones, and those of other instances or from before a restart, are in the database,
//! which is only asked about an id that memory does not know. An id that an upstream gives to several keys belongs to none.

use crate::core::Core;
use crate::dialect::json;
use crate::http::Response;
use crate::ids::{AccountId, KeyId};
use crate::proxy::Proxy;
use crate::routing::Channel;
use crate::store;
use crate::store::background_responses::InBackground;
use crate::store::owner::Owner;
use crate::store::responses::{self, MAX_ID, StoredResponse};
use crate::time::now_ms;

use super::id_owners::{IdOwner, KeptAt, StoredAt};
use crate::proxy::call::Call;
use crate::proxy::reply::ErrorShape;

const PREVIOUS: &str = "previous_response_id";
const CONVERSATION: &str = "conversation";

/// Binds an answer that its upstream stores to the key that asked for it; for one made in the background also records the
/// row of its request.
pub(in crate::proxy) fn bind(
    proxy: &Proxy,
    call: &Call,
    channel: &Channel,
    id: &str,
    in_background: Option<InBackground>,
) {
    let model = call.model.clone();
    let at = StoredAt { account: channel.account.id, token: channel.token_id, model: Some(model.clone()) };
    proxy.response_owners.give(id, IdOwner::Key(call.key_id), Some(at));
    if id.len() <= MAX_ID {
        proxy.core.store.telemetry().stored_response(StoredResponse {
            response_id: id.to_owned(),
            key_id: call.key_id,
            site_id: channel.account.site.id,
            account_id: channel.account.id,
            token_id: channel.token_id,
            channel_id: channel.id,
            model_requested: model,
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
    // A body that is no object has no members.
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

/// Checks the owners of the answer and the conversation that a call goes on from.
///
/// # Errors
///
/// A refusal where they are another key's, in the words from which clients recover: they send the whole conversation. A
/// member that is given twice is refused, because an upstream may read the other one.
pub(in crate::proxy) async fn check(proxy: &Proxy, call: &mut Call) -> Result<(), Response> {
    let named = || history(std::str::from_utf8(&call.body).unwrap_or_default());
    let ids = proxy.conversions.read_through(call.body.len(), named).await;
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
    Ok(())
}

async fn check_id(proxy: &Proxy, call: &mut Call, member: &'static str, id: String) -> Result<(), Response> {
    let holder = match proxy.response_owners.holder(&id) {
        Some(holder) => Some(holder),
        None if id.len() > MAX_ID => None,
        None => stored_holder(proxy, call, &id).await?,
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
    let shown: String = id.chars().take(MAX_ID).collect();
    let (what, code) = match member {
        PREVIOUS => ("Previous response", Some("previous_response_not_found")),
        _ => ("Conversation", None),
    };
    shape.refuse(400, &format!("{what} with id '{shown}' not found."), code, Some(member))
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

/// Returns the member with an id that an upstream may not be sent: the id was given to nobody here, and another key,
/// whose it may be, can use the account.
pub(in crate::proxy) fn withheld(core: &Core, call: &Call, channel: &Channel) -> Option<&'static str> {
    let is_anyones = |own: KeyId| {
        let keys = core.keys.load();
        keys.iter().any(|key| key.id != own && key.policy.may_reach_site(channel.account.site.id))
    };
    call.unknown_history.filter(|_| call.key_id.is_some_and(is_anyones))
}
