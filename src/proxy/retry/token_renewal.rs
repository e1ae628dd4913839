//! Renews the token of a connected account after an upstream has refused it, and sends the request to the same channel
//! once more.
//!
//! This is done once per call, whichever channels it goes to. Without a new token, the upstream's answer stands.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::timeout;

use crate::ids::AccountId;
use crate::jobs::oauth::renewal::{renew, renew_doubted};
use crate::proxy::Proxy;
use crate::routing::{Channel, Secret};
use crate::upstream::RetryScope;

use super::token_refusal::TokenRefusal;
use crate::proxy::attempt::{Attempt, Choice};
use crate::proxy::call::Call;
use crate::proxy::failure::Failure;

/// The longest time that a request waits for a new token: longer than its provider takes, also where another instance
/// asks first. A token that cannot be stored takes longer; the renewal then goes on without the request.
const LONGEST_WAIT: Duration = Duration::from_secs(90);

/// Continues the attempt at its channel with the token that replaced the refused one; returns false if there is none.
pub(in crate::proxy) async fn continue_with_new_token(
    proxy: &Proxy,
    call: &Call,
    choice: &mut Choice,
    attempt: &mut Attempt,
    refusal: &Failure,
) -> bool {
    let Some(fresh) = renewed(proxy, call, &choice.channel, refusal).await else { return false };
    attempt.continue_with(&fresh, refusal);
    choice.channel = fresh;
    true
}

/// Returns the channel with the token that replaced the refused one.
pub(in crate::proxy) async fn renewed(
    proxy: &Proxy,
    call: &Call,
    channel: &Channel,
    failure: &Failure,
) -> Option<Arc<Channel>> {
    let refusal = failure.token_refusal().filter(|_| channel.account.oauth)?;
    let stale = channel.credential.as_ref()?.secret();
    if failure.retry_scope(call.work()) != RetryScope::Here || call.has_renewed.swap(true, Relaxed) {
        return None;
    }
    if !is_renewed(proxy, channel.account.id, stale, refusal).await {
        return None;
    }
    let snapshot = proxy.core.snapshot.load();
    let fresh = snapshot.current(channel)?;
    let is_new = fresh.credential.as_ref().is_some_and(|credential| credential.secret() != stale);
    is_new.then(|| fresh.clone())
}

/// Renews the token of a connected account in place of the refused one. Returns whether that succeeded.
pub(in crate::proxy) async fn is_renewed(
    proxy: &Proxy,
    id: AccountId,
    stale: &Secret,
    refusal: TokenRefusal,
) -> bool {
    let renewal = async {
        match refusal {
            TokenRefusal::Certain => renew(&proxy.jobs, id, Some(stale)).await,
            TokenRefusal::Perhaps => renew_doubted(&proxy.jobs, id, stale).await,
        }
    };
    match timeout(LONGEST_WAIT, renewal).await {
        Ok(Ok(())) => true,
        Ok(Err(refusal)) => {
            log::warn!("the token of account {id} was refused and could not be renewed: {refusal}");
            false
        }
        Err(_) => {
            log::warn!("the token of account {id} was refused, and its renewal takes too long to wait for");
            false
        }
    }
}
