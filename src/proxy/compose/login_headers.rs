//! What requests with the token of a login carry beside it. Nothing here says that we were somebody else's program: what a
//! client says of itself crosses, and of the others it is told that they come through this gateway.

use hyper::header::{HeaderName, HeaderValue};

use crate::platform::LoginHeaders;
use crate::routing::Account;
use crate::upstream::RequestHeaders;
use crate::uuid;

const SESSION: HeaderName = HeaderName::from_static("session_id");
const CONVERSATION: HeaderName = HeaderName::from_static("conversation_id");
/// Other spellings of the two.
const SESSION_DASHED: HeaderName = HeaderName::from_static("session-id");
const CONVERSATION_DASHED: HeaderName = HeaderName::from_static("conversation-id");

fn of(account: &Account) -> Option<&'static LoginHeaders> {
    account.site.platform.profile().login_headers.as_ref().filter(|_| account.oauth)
}

/// The beta under which the account's token is taken in the messages dialect.
pub(in crate::proxy) fn beta(account: &Account) -> Option<&'static str> {
    of(account)?.beta
}

/// Adds the account's name at its provider, and the names of the conversation, where these are wanted. `derive` gives 32
/// hex digits that are the same in every turn of a conversation and tell nothing of it.
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

/// The client's own names; else a derived one; else, for the session alone, one that comes once.
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
