//! Headers of requests that use the token of a login. None of them claims that we are another vendor's program: the
//! client's own names are forwarded, and other clients are identified as coming through this gateway.

use hyper::header::{HeaderName, HeaderValue};

use crate::platform::LoginHeaders;
use crate::routing::Account;
use crate::upstream::RequestHeaders;
use crate::uuid;

const SESSION: HeaderName = HeaderName::from_static("session_id");
const CONVERSATION: HeaderName = HeaderName::from_static("conversation_id");
/// Other spellings of these two headers.
const SESSION_DASHED: HeaderName = HeaderName::from_static("session-id");
const CONVERSATION_DASHED: HeaderName = HeaderName::from_static("conversation-id");

fn of(account: &Account) -> Option<&'static LoginHeaders> {
    account.site.platform.profile().login_headers.as_ref().filter(|_| account.oauth)
}

/// Returns the beta under which the account's token is accepted in the messages dialect.
pub(in crate::proxy) fn beta(account: &Account) -> Option<&'static str> {
    of(account)?.beta
}

/// Adds the account's id at its provider, and the ids of the conversation, where the platform wants them. `derive` returns
/// 32 hex digits that are the same in every turn of a conversation and reveal nothing about it.
pub(in crate::proxy) fn add(
    headers: &mut RequestHeaders,
    account: &Account,
    derive: impl FnOnce() -> Option<String>,
) {
    let Some(wanted) = of(account) else { return };
    let key = account.oauth_key.as_deref().and_then(|key| HeaderValue::from_str(key).ok());
    if let (Some(name), Some(key)) = (wanted.account, key) {
        headers.set(HeaderName::from_static(name), key);
    }
    if wanted.names_conversation {
        name_conversation(headers, derive);
    }
}

/// Sets the ids of the conversation: the client's own, else a derived one; else, for the session alone, a random one.
fn name_conversation(headers: &mut RequestHeaders, derive: impl FnOnce() -> Option<String>) {
    let given =
        |one: &HeaderName, other: &HeaderName| headers.get(one).or_else(|| headers.get(other)).cloned();
    let derived = || HeaderValue::from_str(&uuid::shaped(&derive()?)?).ok();
    let session = given(&SESSION, &SESSION_DASHED).or_else(derived);
    let conversation = given(&CONVERSATION, &CONVERSATION_DASHED).or_else(|| session.clone());
    if let Some(conversation) = conversation {
        headers.set(CONVERSATION, conversation);
    }
    if let Some(session) = session.or_else(|| HeaderValue::from_str(&uuid::v4()).ok()) {
        headers.set(SESSION, session);
    }
}
