//! Renews sessions that have run out: by the refresh token of sub2api, or, without one or where it is refused, by
//! logging in again with the password kept for it.
//!
//! ```text
//! caller ─┐
//! caller ─┼─▶ one flight per account ─▶ read the account again ─▶ renewed already? ─▶ done
//! caller ─┘                                     └▶ ask the site ─▶ commit ─▶ answer every caller
//! ```
//!
//! A refresh token works once: two refreshes at a time, or a new token lost before it is stored, end the session for
//! good. So there is one flight per account, its result is committed before anybody uses it, and the service does not
//! stop before flights have ended. A password or a refresh token that was refused is not tried again at once, so that
//! the site does not lock the account.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::renewals::{Means, RenewalRefusal};
use super::site_client::site_client_of;
use crate::ids::{AccountId, SiteId};
use crate::jobs::Jobs;
use crate::jobs::concurrency::{Concurrency, run_concurrently};
use crate::jobs::rotated_token::{store_with_retries, take_over_newer};
use crate::jobs::schedule::Pass;
use crate::platform::Platform;
use crate::store::accounts::{self, AccountRow, AccountStatus, RenewedSession};
use crate::store::sites::{self, SiteRow, SiteStatus};
use crate::store::{self, Secret};
use crate::time::{MINUTE, Millis, now_ms};

/// The interval at which accounts whose session ends soon are looked for.
pub const INTERVAL: Duration = Duration::from_secs(60);
/// A session that ends within this many milliseconds is renewed before it does.
const DUE_BEFORE: Millis = 2 * MINUTE;
/// The sessions of a pass that are renewed at once.
const AT_ONCE: Concurrency = Concurrency { total: 4, per_site: 2 };

/// Whether the account has the means to get a new session.
pub fn can_renew(account: &AccountRow, platform: Platform) -> bool {
    has_refresh_token(account, platform) || has_password(account, platform)
}

/// Whether a session should be renewed before it ends.
pub fn is_due(account: &AccountRow, platform: Platform, now: Millis) -> bool {
    has_refresh_token(account, platform)
        && account.sub2api_token_expires_at.is_some_and(|at| at.saturating_sub(now) <= DUE_BEFORE)
}

/// Gets the account a new session in place of `stale`, or of whichever it has when that is `None`. Callers that come
/// while that is under way share the result.
///
/// # Errors
/// Returns a message when there is no new session: no means, a refusal, a site that cannot be asked.
pub async fn renew(jobs: &Arc<Jobs>, id: AccountId, stale: Option<&Secret>) -> Result<(), RenewalRefusal> {
    run_renewal(jobs, id, RenewalReason::Refused(stale.cloned())).await
}

/// Renews the session when it ends soon.
pub async fn renew_when_due(jobs: &Arc<Jobs>, id: AccountId) -> Result<(), RenewalRefusal> {
    run_renewal(jobs, id, RenewalReason::Due).await
}

/// Renews every session that ends soon, of active accounts at active sites.
pub async fn refresh_due(jobs: Arc<Jobs>) -> Pass {
    let unreadable = |error: store::Error| error.to_string();
    let sites = sites::list(&jobs.core.store).await.map_err(unreadable)?;
    let refreshing: HashMap<SiteId, Platform> = sites
        .iter()
        .filter(|site| site.status == SiteStatus::Active)
        .filter_map(|site| Some((site.id, Platform::parse(&site.platform)?)))
        .filter(|(_, platform)| platform.abilities().refresh)
        .collect();
    if refreshing.is_empty() {
        return Ok(None);
    }
    let now = now_ms();
    let renewable = accounts::pick(&jobs.core.store, |account| {
        let platform = *refreshing.get(&account.site_id)?;
        let may = account.status == AccountStatus::Active && has_refresh_token(&account, platform);
        may.then(|| (account.site_id, account.id, is_due(&account, platform, now)))
    });
    let renewable = renewable.await.map_err(unreadable)?;
    let scanned = renewable.len();
    let due = renewable.into_iter().filter(|(_, _, is_due)| *is_due).map(|(site, id, _)| (site, id));
    let renewed = run_concurrently(due.collect(), AT_ONCE, |id| {
        let jobs = jobs.clone();
        async move {
            let renewed = renew_when_due(&jobs, id).await;
            renewed
                .inspect_err(|refusal| log::warn!("the session of account {id} was not renewed: {refusal}"))
                .is_ok()
        }
    })
    .await;
    let (refreshed, total) = (renewed.iter().filter(|renewed| **renewed).count(), renewed.len());
    let failed = total - refreshed;
    let report = format!("{refreshed} of {scanned} session(s) renewed, {failed} failed");
    Ok((total > 0).then_some(report))
}

/// Why a session is to be renewed.
enum RenewalReason {
    /// The site refused this session.
    Refused(Option<Secret>),
    /// The session ends soon.
    Due,
}

async fn run_renewal(jobs: &Arc<Jobs>, id: AccountId, reason: RenewalReason) -> Result<(), RenewalRefusal> {
    let attempt = || {
        let jobs = jobs.clone();
        async move { attempt(&jobs, id, reason).await }
    };
    jobs.renewals.run_single(id, &jobs.core, "the renewal of a session", attempt).await
}

async fn attempt(jobs: &Arc<Jobs>, id: AccountId, reason: RenewalReason) -> Result<(), RenewalRefusal> {
    let unreadable = |error: store::Error| RenewalRefusal::of_ours(error.to_string());
    // Read inside the flight: the previous flight may have renewed the session already.
    let account = accounts::get(&jobs.core.store, id).await.map_err(unreadable)?;
    let account = account.ok_or("the account does not exist any more")?;
    let site = sites::get(&jobs.core.store, account.site_id).await.map_err(unreadable)?;
    let site = site.ok_or("the site does not exist any more")?;
    let platform = Platform::parse(&site.platform).ok_or("the platform is unknown")?;
    let is_needed = match reason {
        RenewalReason::Refused(stale) => stale.is_none() || stale == account.access_token,
        RenewalReason::Due => is_due(&account, platform, now_ms()),
    };
    if !is_needed {
        // Another instance may have renewed it without this one knowing yet.
        return jobs.core.take_over_account(id).await.map_err(unreadable);
    }
    let refreshed = if has_refresh_token(&account, platform) {
        Some(with_refresh_token(jobs, &site, &account).await)
    } else {
        None
    };
    let session = match (refreshed, has_password(&account, platform)) {
        (Some(Err(refusal)), true) if !refusal.is_transient => with_password(jobs, &site, &account).await,
        (Some(refreshed), _) => refreshed,
        (None, true) => with_password(jobs, &site, &account).await,
        (None, false) => return Err("the account has neither a refresh token nor a stored password".into()),
    };
    let session = match session {
        Ok(session) => session,
        Err(_) if take_over_newer(&jobs.core, &account).await.map_err(unreadable)? => return Ok(()),
        Err(refusal) => return Err(refusal),
    };
    let renew = || accounts::renew(&jobs.core.store, id, account.credential_version, &session);
    match store_with_retries(id, renew).await {
        Ok(()) => {}
        // A login gave the account another session meanwhile, which is as good.
        Err(store::Error::NotFound) if take_over_newer(&jobs.core, &account).await.map_err(unreadable)? => {
            return Ok(());
        }
        Err(store::Error::NotFound) => {
            return Err(RenewalRefusal::of_ours("the credential was changed in the meantime"));
        }
        Err(error) => return Err(unreadable(error)),
    }
    jobs.core.publish().await.map_err(unreadable)?;
    log::info!("account {id} on site \"{}\" has a new session", site.name);
    Ok(())
}

async fn with_refresh_token(
    jobs: &Jobs,
    site: &SiteRow,
    account: &AccountRow,
) -> Result<RenewedSession, RenewalRefusal> {
    let token = account.sub2api_refresh_token.as_ref().ok_or("there is no refresh token")?;
    if let Some(minutes) = jobs.renewals.pause(account, Means::RefreshToken) {
        let message = format!("the refresh token was refused; it is tried again in {minutes} min");
        return Err(RenewalRefusal { message, is_transient: false });
    }
    let site_client = site_client_of(&jobs.core, site, account)?;
    let refreshed = site_client.refresh(&jobs.core.client, token).await.map_err(|error| {
        let refusal = RenewalRefusal::from(error);
        if !refusal.is_transient {
            jobs.renewals.note_refusal(account, Means::RefreshToken);
        }
        refusal
    })?;
    Ok(RenewedSession {
        access_token: refreshed.access_token,
        rotation: Some((refreshed.refresh_token, refreshed.expires_at)),
        user_id: None,
    })
}

async fn with_password(
    jobs: &Jobs,
    site: &SiteRow,
    account: &AccountRow,
) -> Result<RenewedSession, RenewalRefusal> {
    let (Some(name), Some(password)) = (&account.login_username, &account.login_password) else {
        return Err("there is no stored password".into());
    };
    if let Some(minutes) = jobs.renewals.pause(account, Means::Password) {
        let message = format!("the stored password was refused; it is tried again in {minutes} min");
        return Err(RenewalRefusal { message, is_transient: false });
    }
    let site_client = site_client_of(&jobs.core, site, account)?;
    match site_client.login(&jobs.core.client, name, password.expose()).await {
        Ok(login) => {
            jobs.renewals.forget(account.id);
            let rotation = login.refresh_token.zip(login.expires_at);
            Ok(RenewedSession { access_token: login.credential, rotation, user_id: login.user_id })
        }
        Err(error) => {
            let refusal = RenewalRefusal::from(error);
            if !refusal.is_transient {
                jobs.renewals.note_refusal(account, Means::Password);
            }
            Err(RenewalRefusal {
                message: format!("logging in again failed: {}", refusal.message),
                ..refusal
            })
        }
    }
}

pub fn has_refresh_token(account: &AccountRow, platform: Platform) -> bool {
    platform.abilities().refresh && account.sub2api_refresh_token.is_some()
}

fn has_password(account: &AccountRow, platform: Platform) -> bool {
    platform.abilities().login && account.login_username.is_some() && account.login_password.is_some()
}
