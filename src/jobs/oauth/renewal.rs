//! Renews the tokens of connected accounts before they run out, and when an upstream refuses one.
//!
//! ```text
//! a request that was refused ─┐
//! a request that was refused ─┼─▶ one flight per account ─▶ read the account again ─▶ renewed already? ─▶ done
//! the pass of each minute ────┘            └▶ ask the provider ─▶ commit ─▶ publish ─▶ answer every caller
//! ```
//!
//! The flights are those of sessions ([`Renewals`](crate::jobs::sessions::renewals::Renewals)): a refresh token may
//! work only once, so its replacement is committed before anybody uses it, and the service does not stop before that. No
//! renewal begins while nothing can be stored, for example on a full disk.
//!
//! When a provider has revoked its grant, the account expires and the operator is told once. After any other failure
//! the provider is left alone for a minute, and longer each time.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::provider_client::client_of;
use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::jobs::accounts::health;
use crate::jobs::concurrency::{Concurrency, run_concurrently};
use crate::jobs::rotated_token::{store_with_retries, take_over_newer};
use crate::jobs::schedule::{Pass, random_up_to};
use crate::jobs::sessions::renewals::RenewalRefusal;
use crate::platform::OAuthProvider;
use crate::store::accounts::{self, AccountRow};
use crate::store::connections::{self, ExpiringToken, Notes, RenewedTokens};
use crate::store::sites::{self, SiteRow};
use crate::store::{self, Secret};
use crate::time::{HOUR, MINUTE, Millis, is_date, now_ms};
use crate::upstream::oauth::{Grant, TokenError, refresh};

/// The interval at which accounts whose token ends soon are looked for.
pub const INTERVAL: Duration = Duration::from_secs(60);
/// The least age of a token that a pass renews, in milliseconds, whatever lifetime its provider states.
const LEAST_AGE: Millis = 5 * MINUTE;
/// The lifetime of a token, in milliseconds, where nothing tells it.
const ASSUMED_LIFE: Millis = HOUR;
/// The renewals of a pass that run at once.
const CONCURRENCY: Concurrency = Concurrency { total: 8, per_site: 4 };
/// The renewals of a pass begin within this many milliseconds for each due account, and all within [`LONGEST_SPREAD`].
const SPREAD: Millis = 90;
const LONGEST_SPREAD: Millis = 45_000;

/// Gets the account a new token in place of `stale`, or of whichever it has when that is `None`. Callers that come
/// while that is under way share the result.
///
/// # Errors
/// Returns a message when there is no new token.
pub async fn renew(jobs: &Arc<Jobs>, id: AccountId, stale: Option<&Secret>) -> Result<(), RenewalRefusal> {
    renew_for(jobs, id, Reason::Refused(stale.cloned())).await
}

/// Renews as [`renew`] does, after an answer that may have another cause than the token; once a minute at most.
///
/// # Errors
/// As [`renew`], and when the last such renewal was less than a minute ago.
pub async fn renew_doubted(jobs: &Arc<Jobs>, id: AccountId, stale: &Secret) -> Result<(), RenewalRefusal> {
    renew_for(jobs, id, Reason::Doubted(stale.clone())).await
}

/// Renews every token that ends soon, of active accounts at active sites.
pub async fn renew_due(jobs: Arc<Jobs>) -> Pass {
    let now = now_ms();
    let longest = OAuthProvider::ALL.into_iter().map(lead).max().unwrap_or_default();
    let expiring = connections::expiring(&jobs.core.store, now.saturating_add(longest)).await;
    let due: Vec<ExpiringToken> = expiring?.into_iter().filter(|token| is_due(token, now)).collect();
    let count = Millis::try_from(due.len()).unwrap_or(Millis::MAX);
    let window = count.saturating_mul(SPREAD).min(LONGEST_SPREAD);
    // Begins at random moments of the window, so that neither a provider nor the store gets all of them at once.
    let mut begins: Vec<(u64, ExpiringToken)> =
        due.into_iter().map(|token| (random_up_to(window).unsigned_abs(), token)).collect();
    begins.sort_by_key(|(begin, _)| *begin);
    let started = Instant::now();
    let items = begins
        .into_iter()
        .map(|(begin, token)| (token.site_id, (started + Duration::from_millis(begin), token.account_id)));
    let outcomes = run_concurrently(items.collect(), CONCURRENCY, |(begin, id)| {
        let jobs = jobs.clone();
        async move {
            sleep_until(begin).await;
            let outcome = renew_for(&jobs, id, Reason::Due).await;
            if let Err(refusal) = &outcome {
                log::warn!("the token of account {id} was not renewed: {refusal}");
            }
            outcome.is_ok()
        }
    });
    let outcomes = outcomes.await;
    let renewed = outcomes.iter().filter(|is_renewed| **is_renewed).count();
    let report = || format!("{renewed} token(s) renewed, {} failed", outcomes.len() - renewed);
    Ok((!outcomes.is_empty()).then(report))
}

/// Why a token is to be renewed.
enum Reason {
    /// An upstream refused this token.
    Refused(Option<Secret>),
    /// An upstream refused a request with this token, perhaps for another reason.
    Doubted(Secret),
    /// The token ends soon.
    Due,
}

impl Reason {
    /// Whether the reason is one for the account's present token, which may have been renewed meanwhile.
    ///
    /// # Errors
    /// When the token was renewed for a doubt less than a minute ago.
    fn still_holds(self, jobs: &Jobs, account: &AccountRow) -> Result<bool, RenewalRefusal> {
        Ok(match self {
            Self::Refused(stale) => stale.is_none() || stale == account.access_token,
            Self::Doubted(stale) if Some(&stale) != account.access_token.as_ref() => false,
            Self::Doubted(_) if jobs.failed_renewals.take_doubt(account.id) => true,
            Self::Doubted(_) => {
                return Err("the token was already renewed for the same answer a moment ago".into());
            }
            Self::Due => account.token_expires_at.is_some_and(|expires_at| {
                let (account_id, site_id, issued_at) = (account.id, account.site_id, account.token_issued_at);
                let provider = account.oauth_provider.clone().unwrap_or_default();
                is_due(&ExpiringToken { account_id, site_id, provider, issued_at, expires_at }, now_ms())
            }),
        })
    }
}

/// Returns how long before its end a token of this provider is renewed, in milliseconds.
fn lead(provider: OAuthProvider) -> Millis {
    Millis::try_from(provider.profile().refresh_lead_seconds).unwrap_or(Millis::MAX).saturating_mul(1000)
}

/// Whether a pass renews the token now: within the lead of its provider, but not in the first half of its life nor
/// before `LEAST_AGE`.
fn is_due(token: &ExpiringToken, now: Millis) -> bool {
    let Some(provider) = OAuthProvider::parse(&token.provider) else { return false };
    let ExpiringToken { issued_at, expires_at, .. } = *token;
    let life = issued_at.map_or(Millis::MAX, |issued_at| expires_at.saturating_sub(issued_at).max(0));
    let is_old = issued_at.is_none_or(|issued_at| now.saturating_sub(issued_at) >= LEAST_AGE);
    is_old && expires_at.saturating_sub(now) <= lead(provider).min(life / 2)
}

async fn renew_for(jobs: &Arc<Jobs>, id: AccountId, reason: Reason) -> Result<(), RenewalRefusal> {
    let attempt = || {
        let jobs = jobs.clone();
        async move { attempt(&jobs, id, reason).await }
    };
    jobs.renewals.run_single(id, &jobs.core, "the renewal of a token", attempt).await
}

async fn attempt(jobs: &Arc<Jobs>, id: AccountId, reason: Reason) -> Result<(), RenewalRefusal> {
    let core = &jobs.core;
    // Read inside the flight: the previous flight may have renewed the token already.
    let account = accounts::get(&core.store, id)
        .await
        .map_err(unreadable)?
        .ok_or("the account does not exist any more")?;
    let site = sites::get(&core.store, account.site_id).await.map_err(unreadable)?;
    let site = site.ok_or("the site does not exist any more")?;
    let provider = account.oauth_provider.as_deref().and_then(OAuthProvider::parse);
    let provider = provider.ok_or("the account is not managed by oauth")?;
    if !reason.still_holds(jobs, &account)? {
        // Another instance may have renewed it without this one knowing yet.
        return core.take_over_account(id).await.map_err(unreadable);
    }
    let token = account.refresh_token.as_ref().ok_or("oauth refresh token missing")?;
    if let Some(refusal) = jobs.failed_renewals.refusal(&account) {
        return Err(refusal);
    }
    let client = client_of(core, &site, &account, provider).map_err(RenewalRefusal::of_ours)?;
    match refresh(&client, token).await {
        Ok(grant) => {
            jobs.failed_renewals.forget(id);
            match commit(jobs, &account, grant).await {
                Ok(()) => log::info!("account {id} on site \"{}\" has a new token", site.name),
                // A login or an import gave the account another credential meanwhile, which is as good.
                Err(store::Error::NotFound)
                    if take_over_newer(core, &account).await.map_err(unreadable)? => {}
                Err(store::Error::NotFound) => {
                    return Err(RenewalRefusal::of_ours("the credential was changed in the meantime"));
                }
                Err(error) => return Err(unreadable(error)),
            }
            core.publish().await.map_err(unreadable)
        }
        Err(_) if take_over_newer(core, &account).await.map_err(unreadable)? => Ok(()),
        Err(error) => {
            jobs.failed_renewals.note(&account, &error);
            if error.is_revoked {
                expire(jobs, &site, &account, &error).await;
            }
            Err(RenewalRefusal { message: error.message, is_transient: !error.is_revoked })
        }
    }
}

/// Commits the tokens that the provider gave; values that it did not give stay. Fails with [`store::Error::NotFound`]
/// when the account has another credential now.
async fn commit(jobs: &Jobs, account: &AccountRow, grant: Grant) -> store::Result<()> {
    let store = &jobs.core.store;
    let tokens = RenewedTokens {
        provider_data: merged_provider_data(account, &grant),
        access_token: grant.access_token,
        refresh_token: grant.refresh_token,
        id_token: grant.id_token,
        expires_at: grant
            .expires_at
            .or_else(|| assumed_end(account.token_issued_at, account.token_expires_at?, now_ms())),
    };
    let before = Notes::of(account.extra.as_deref());
    let notes = Notes {
        email: grant.identity.email.or_else(|| before.email.clone()),
        plan_type: grant.identity.plan_type.or_else(|| before.plan_type.clone()),
        ..before.clone()
    };
    let changed = (notes != before).then_some(&notes);
    let renew = || connections::renew(store, account, &tokens, changed);
    store_with_retries(account.id, renew).await
}

/// Returns when a token whose end its provider does not state is taken to end: after the lifetime of the one before it,
/// or an hour where that is not known. Without an end, the account would never be renewed again before a refusal.
fn assumed_end(issued_at: Option<Millis>, expires_at: Millis, now: Millis) -> Option<Millis> {
    let life = issued_at.map_or(ASSUMED_LIFE, |issued_at| expires_at.saturating_sub(issued_at));
    now.checked_add(life.max(LEAST_AGE)).filter(|ends| is_date(*ends))
}

/// Returns the account's `providerData` with that of a grant merged in; `None` when the grant has none.
fn merged_provider_data(account: &AccountRow, grant: &Grant) -> Option<Secret> {
    if grant.provider_data.is_empty() {
        return None;
    }
    let before = account.provider_data.as_ref().map(|text| serde_json::from_str(text.expose()));
    let before = before.transpose().unwrap_or_else(|error| {
        log::warn!("account {}: its provider's data cannot be read and is replaced: {error}", account.id);
        None
    });
    let mut data: serde_json::Map<String, serde_json::Value> = before.unwrap_or_default();
    data.extend(grant.provider_data.clone());
    Some(Secret::new(serde_json::Value::Object(data).to_string()))
}

async fn expire(jobs: &Jobs, site: &SiteRow, account: &AccountRow, error: &TokenError) {
    let message = format!("{}; log in again", error.message);
    if let Err(error) = health::expire(&jobs.core, site, account, &message).await {
        log::error!("account {} could not be marked as expired: {error}", account.id);
    }
}

fn unreadable(error: store::Error) -> RenewalRefusal {
    RenewalRefusal::of_ours(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SiteId;

    fn token(provider: &str, issued_at: Option<Millis>, expires_at: Millis) -> ExpiringToken {
        ExpiringToken {
            account_id: AccountId::new(1),
            site_id: SiteId::new(1),
            provider: provider.to_owned(),
            issued_at,
            expires_at,
        }
    }

    #[test]
    fn a_token_without_a_stated_end_lives_as_long_as_the_one_before_it() {
        let now = 1_000 * HOUR;
        for (issued_at, expires_at, expected) in [
            (Some(now - 8 * HOUR), now, Some(now + 8 * HOUR)),
            (None, now - 70 * HOUR, Some(now + HOUR)),
            (Some(now), now - HOUR, Some(now + LEAST_AGE)),
            (Some(0), Millis::MAX, None),
        ] {
            assert_eq!(assumed_end(issued_at, expires_at, now), expected, "{issued_at:?} {expires_at}");
        }
    }

    #[test]
    fn a_token_is_due_by_the_lead_of_its_provider_but_not_in_the_first_half_of_its_life() {
        let now = 1_000 * HOUR;
        for (provider, issued_at, expires_at, expected) in [
            ("codex", None, now + 120 * HOUR, true),
            ("codex", None, now + 121 * HOUR, false),
            (" Claude ", None, now + 4 * HOUR, true),
            ("claude", None, now + 5 * HOUR, false),
            ("gemini-cli", None, now + 300_000, true),
            ("gemini-cli", None, now + 300_001, false),
            ("antigravity", None, now - HOUR, true),
            ("nobody", None, now - HOUR, false),
            // A life of one hour is shorter than twice the lead.
            ("claude", Some(now - HOUR / 4), now + HOUR * 3 / 4, false),
            ("claude", Some(now - HOUR / 2), now + HOUR / 2, true),
            // A life of a minute is not worth a renewal in every pass.
            ("claude", Some(now - 60_000), now, false),
            ("claude", Some(now - LEAST_AGE), now - 240_000, true),
        ] {
            let token = token(provider, issued_at, expires_at);
            assert_eq!(is_due(&token, now), expected, "{token:?}");
        }
    }
}
