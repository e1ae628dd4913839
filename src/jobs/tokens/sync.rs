//! Syncs the keys that a session account has at its site into its tokens here.
//!
//! The site is asked without holding the lock on tokens. What it lists is merged into the rows as they are then
//! ([`TokenSet::merge`]), except for the keys whose rows were deleted meanwhile. A site that fails changes no token.

use std::sync::Arc;

use serde::Serialize;

use super::set::{ListedKey, MOST_KEYS, TokenSet};
use crate::core::Core;
use crate::ids::{AccountId, SiteId, TokenId};
use crate::jobs::Jobs;
use crate::jobs::accounts::health::note_failure;
use crate::jobs::concurrency::{Concurrency, run_concurrently};
use crate::jobs::sessions::session::Session;
use crate::platform::Platform;
use crate::store;
use crate::store::accounts::{self, AccountRow, AccountStatus, CredentialMode, HealthSource};
use crate::store::events::{self, EventLevel, NewEvent};
use crate::store::sites::{self, SiteRow, SiteStatus};
use crate::upstream::platforms::{SiteError, SiteKey};

/// The number of accounts asked at once. A site that hangs leaves a place for others.
const CONCURRENCY: Concurrency = Concurrency { total: 3, per_site: 2 };

/// The reason for skipping an account that is an API key itself.
const KEY_ACCOUNT: &str = "apikey_connection";

/// The result of the sync of one account.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SyncOutcome {
    pub account_id: AccountId,
    pub account_name: Option<String>,
    pub account_status: &'static str,
    pub site_id: SiteId,
    pub site_name: String,
    pub site_status: &'static str,
    pub status: SyncStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether the rows now agree with the site.
    pub synced: bool,
    pub created: usize,
    pub updated: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub masked_pending: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_token_ids: Option<Vec<TokenId>>,
    /// The number of keys that were taken from the site's list.
    pub total: usize,
    pub default_token_id: Option<TokenId>,
}

/// The ways a sync ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SyncStatus {
    Synced,
    Skipped,
    Failed,
}

/// The totals of a sync of all accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub total: usize,
    pub synced: usize,
    pub skipped: usize,
    pub failed: usize,
    pub created: usize,
    pub updated: usize,
}

/// Syncs one account and stores an event; `None` when there is no such account.
pub async fn sync(jobs: &Arc<Jobs>, id: AccountId) -> store::Result<Option<SyncOutcome>> {
    let Some(synced) = sync_without_event(jobs, id).await? else { return Ok(None) };
    events::insert(&jobs.core.store, event(&synced)).await?;
    Ok(Some(synced))
}

/// Syncs one account; `None` when there is no such account, or it was deleted meanwhile.
pub async fn sync_without_event(jobs: &Arc<Jobs>, id: AccountId) -> store::Result<Option<SyncOutcome>> {
    let synced = try_sync(jobs, id).await;
    let is_deleted = accounts::get(&jobs.core.store, id).await?.is_none();
    if is_deleted { Ok(None) } else { synced }
}

async fn try_sync(jobs: &Arc<Jobs>, id: AccountId) -> store::Result<Option<SyncOutcome>> {
    let Some(mut account) = accounts::get(&jobs.core.store, id).await? else { return Ok(None) };
    let Some(site) = sites::get(&jobs.core.store, account.site_id).await? else { return Ok(None) };
    let outcome = SyncOutcome::of(&site, &account);
    let platform = Platform::parse(&site.platform);
    let skipped = |reason| Ok(Some(SyncOutcome { reason: Some(reason), ..outcome.clone() }));
    if site.status != SiteStatus::Active {
        return skipped("site_disabled");
    }
    if !owns_tokens(&account) {
        return skipped(KEY_ACCOUNT);
    }
    if !platform.is_some_and(|platform| platform.abilities().keys) {
        let message = Some(format!("sites of platform {} do not list an account's keys", site.platform));
        let reason = Some("unsupported_platform");
        return Ok(Some(SyncOutcome { status: SyncStatus::Failed, reason, message, ..outcome }));
    }
    if account.access_token.is_none() {
        return skipped("missing_access_token");
    }
    let before = TokenSet::read(&jobs.core.store, id).await?;
    let keys = match listed(jobs, &site, &mut account, &before).await {
        Ok(keys) => keys,
        Err(error) => {
            note_failure(&jobs.core, &site, &account, HealthSource::TokenSync, &error).await?;
            let (reason, message) = (Some("sync_error"), Some(error.message));
            return Ok(Some(SyncOutcome { status: SyncStatus::Failed, reason, message, ..outcome }));
        }
    };
    merge(&jobs.core, &before, (keys, account.platform_user_id), outcome).await.map(Some)
}

/// Syncs one of many accounts; one that is an API key itself leaves no event.
async fn sync_one_of_all(jobs: &Arc<Jobs>, id: AccountId) -> store::Result<Option<SyncOutcome>> {
    let synced = sync_without_event(jobs, id).await?;
    if let Some(synced) = synced.as_ref().filter(|synced| synced.reason != Some(KEY_ACCOUNT)) {
        events::insert(&jobs.core.store, event(synced)).await?;
    }
    Ok(synced)
}

/// Syncs every active account, a few at once; each that has keys at its site leaves an event.
pub async fn sync_all(jobs: &Arc<Jobs>) -> store::Result<(Summary, Vec<SyncOutcome>)> {
    let active = accounts::pick(&jobs.core.store, |account| {
        (account.status == AccountStatus::Active).then_some((account.site_id, account.id))
    });
    let syncing = run_concurrently(active.await?, CONCURRENCY, |id| {
        let jobs = jobs.clone();
        async move { sync_one_of_all(&jobs, id).await }
    });
    let mut results = Vec::new();
    for synced in syncing.await {
        results.extend(synced?);
    }
    results.sort_by_key(|synced| synced.account_id);
    let mut summary = Summary { total: results.len(), ..Summary::default() };
    for synced in &results {
        match synced.status {
            SyncStatus::Synced => summary.synced += 1,
            SyncStatus::Skipped => summary.skipped += 1,
            SyncStatus::Failed => summary.failed += 1,
        }
        summary.created += synced.created;
        summary.updated += synced.updated;
    }
    Ok((summary, results))
}

/// Whether an account's keys are rows of their own: it is neither an API key itself nor an OAuth login.
pub fn owns_tokens(account: &AccountRow) -> bool {
    let is_session = match account.credential_mode {
        CredentialMode::Auto => account.access_token.is_some(),
        mode => mode == CredentialMode::Session,
    };
    account.oauth_provider.is_none() && is_session
}

async fn listed(
    jobs: &Arc<Jobs>,
    site: &SiteRow,
    account: &mut AccountRow,
    before: &TokenSet,
) -> Result<Vec<ListedKey>, SiteError> {
    let mut session = Session::open(jobs, site.clone(), account.clone()).await?;
    let knows = |key: &SiteKey| before.knows(&key.name, key.group.as_deref(), key.key.expose());
    let mut keys = session.site_client().unknown_keys(&jobs.core.client, &knows).await;
    if session.is_renewed_after(jobs, &mut keys).await {
        keys = session.site_client().unknown_keys(&jobs.core.client, &knows).await;
    }
    account.credential_version = session.account.credential_version;
    Ok(keys?.into_iter().map(ListedKey::from).filter(|item| !item.key.trim().is_empty()).collect())
}

/// Merges the keys of a user into the rows of the account, which were as in `before` when the site was asked.
async fn merge(
    core: &Core,
    before: &TokenSet,
    (mut keys, user_id): (Vec<ListedKey>, Option<i64>),
    outcome: SyncOutcome,
) -> store::Result<SyncOutcome> {
    let _turn = core.token_edits.lock().await;
    let mut token_set = TokenSet::read(&core.store, outcome.account_id).await?;
    let listed = keys.len();
    keys.truncate(MOST_KEYS);
    token_set.leave_out_lost(&mut keys, before);
    let mut done =
        SyncOutcome { status: SyncStatus::Synced, synced: true, total: keys.len(), ..outcome.clone() };
    let mut pending = Vec::new();
    // A key from before tokens had rows gets one. Read under this lock, because it may be newer than the list.
    let account = accounts::get(&core.store, outcome.account_id).await?;
    let user_now = account.as_ref().and_then(|account| account.platform_user_id);
    if user_id.zip(user_now).is_some_and(|(user, now)| user != now) {
        return Ok(SyncOutcome { reason: Some("another_user"), ..outcome });
    }
    let is_restored = token_set.adopt_legacy(account.as_ref());
    let mut left_out = listed.saturating_sub(MOST_KEYS);
    if !keys.is_empty() {
        let merged = token_set.merge(&keys);
        left_out += merged.left_out;
        (done.created, done.updated, pending) = (merged.created, merged.updated, merged.pending);
    } else if is_restored {
        done.created = 1;
        done.reason = Some("legacy_default_token_restored");
    } else {
        return Ok(SyncOutcome { reason: Some("no_upstream_tokens"), ..outcome });
    }
    let rows = token_set.save(&core.store).await?;
    core.publish().await?;
    done.default_token_id = rows.iter().find(|row| row.is_default).map(|row| row.id);
    if left_out > 0 {
        done.message = Some(format!(
            "the site lists {listed} keys; {left_out} are left out because an account has at most {MOST_KEYS}"
        ));
    }
    if !pending.is_empty() {
        done.reason = Some("upstream_masked_tokens");
        done.message =
            Some(format!("the site shows only masks of {} key(s); save their whole values", pending.len()));
        done.masked_pending = Some(pending.len());
        done.pending_token_ids = Some(pending.iter().map(|&at| rows[at].id).collect());
    }
    Ok(done)
}

fn event(synced: &SyncOutcome) -> NewEvent {
    let name = synced.account_name.as_deref().unwrap_or("(no name)");
    let what = match (synced.status, &synced.message) {
        (SyncStatus::Synced, None) => format!("{} added, {} updated", synced.created, synced.updated),
        (_, Some(message)) => message.clone(),
        (_, None) => synced.reason.unwrap_or("skipped").replace('_', " "),
    };
    NewEvent {
        kind: "token",
        title: match synced.status {
            SyncStatus::Synced => "Account tokens synced",
            SyncStatus::Skipped => "Account tokens not synced",
            SyncStatus::Failed => "Account token sync failed",
        }
        .to_owned(),
        message: Some(format!(
            "Account {} ({name}) on site \"{}\": {what}",
            synced.account_id, synced.site_name
        )),
        level: match synced.status {
            SyncStatus::Synced if synced.masked_pending.is_none() => EventLevel::Info,
            SyncStatus::Synced | SyncStatus::Skipped => EventLevel::Warning,
            SyncStatus::Failed => EventLevel::Error,
        },
        related_id: Some(synced.account_id.get()),
        related_type: Some("account"),
    }
}

// === impl SyncOutcome ===

impl SyncOutcome {
    /// Builds the result of a sync that has done nothing yet.
    fn of(site: &SiteRow, account: &AccountRow) -> Self {
        Self {
            account_id: account.id,
            account_name: account.username.clone(),
            account_status: account.status.as_str(),
            site_id: site.id,
            site_name: site.name.clone(),
            site_status: site.status.as_str(),
            status: SyncStatus::Skipped,
            reason: None,
            message: None,
            synced: false,
            created: 0,
            updated: 0,
            masked_pending: None,
            pending_token_ids: None,
            total: 0,
            default_token_id: None,
        }
    }
}

impl From<SiteKey> for ListedKey {
    fn from(key: SiteKey) -> Self {
        Self { name: key.name, key: key.key.expose().to_owned(), enabled: key.enabled, group: key.group }
    }
}
