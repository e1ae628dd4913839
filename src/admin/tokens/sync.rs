//! The routes of `/api/account-tokens` that ask the site: sync and groups.

use std::collections::HashSet;
use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;

use super::checks::require_tokens;
use super::checks::{bad_gateway, require_keys};
use super::schema;
use crate::admin::Admin;
use crate::admin::accounts::handlers::find as find_account;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::Fields;
use crate::admin::require_id;
use crate::admin::sites::handlers as site_routes;
use crate::admin::tasks::queued;
use crate::http::{self, Request, Response};
use crate::ids::AccountId;
use crate::jobs::Jobs;
use crate::jobs::accounts::health::note_failure;
use crate::jobs::models::coverage::{Coverage, cover};
use crate::jobs::sessions::session::Session;
use crate::jobs::tasks::{self, Done};
use crate::jobs::tokens::sync;
use crate::jobs::tokens::sync::{Summary, SyncOutcome, SyncStatus};
use crate::store::accounts::{AccountRow, HealthSource};

/// The response to the sync of one account.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SyncAnswer {
    #[serde(flatten)]
    synced: SyncOutcome,
    success: bool,
    coverage_refresh: Coverage,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The result of the sync of all accounts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SyncedAll {
    summary: Summary,
    results: Vec<SyncOutcome>,
    coverage_refresh: Coverage,
}

/// The response to it, if the operator waits.
#[derive(Serialize)]
struct SyncAllAnswer {
    #[serde(flatten)]
    all: SyncedAll,
    success: bool,
}

/// `POST /api/account-tokens/sync/{id}`
pub async fn sync(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let account = find_account(&admin.core.store, id).await?;
    require_tokens(&account)?;
    let site = site_routes::find(&admin.core.store, account.site_id).await?;
    require_keys(&site)?;
    let mut synced = sync::sync(&admin.jobs, id).await?.ok_or_else(|| AdminError::not_found("Account"))?;
    let coverage_refresh = cover_synced(&admin.jobs, std::slice::from_ref(&synced)).await;
    if synced.status != SyncStatus::Failed {
        let body = SyncAnswer { synced, success: true, coverage_refresh, error: None };
        return Ok(http::json(StatusCode::OK, &body));
    }
    let error = synced.message.get_or_insert_with(|| "The site did not list its keys".to_owned()).clone();
    let body = SyncAnswer { synced, success: false, coverage_refresh, error: Some(error) };
    Ok(http::json(StatusCode::BAD_GATEWAY, &body))
}

/// `POST /api/account-tokens/sync-all`: runs as a task, or is waited for with `wait`.
pub async fn sync_all(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::SYNC_ALL, request.json_object().await?);
    if fields.bool("wait")?.unwrap_or(false) {
        let all =
            synced_all(&admin.jobs).await.map_err(|error| AdminError::internal("syncing tokens", error))?;
        return Ok(http::json(StatusCode::OK, &SyncAllAnswer { all, success: true }));
    }
    let spec = tasks::Spec {
        kind: "token",
        title: "Sync the tokens of all accounts".to_owned(),
        dedupe_key: Some("sync-all-account-tokens".to_owned()),
        events: tasks::TaskEvents::Sent,
    };
    let for_task = admin.jobs.clone();
    let started = admin.jobs.tasks.start(spec, move |_progress| async move {
        let all = synced_all(&for_task).await?;
        let Summary { synced, skipped, failed, .. } = all.summary;
        let message = format!("{synced} account(s) synced, {skipped} skipped, {failed} failed");
        Ok(Done { message, result: json!(all) })
    });
    Ok(queued(&started))
}

/// `GET /api/account-tokens/groups/{id}`: lists the groups that an account may put its keys into.
pub async fn groups(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let account = find_account(&admin.core.store, id).await?;
    require_tokens(&account)?;
    let site = site_routes::find(&admin.core.store, account.site_id).await?;
    require_keys(&site)?;
    require_session(&account)?;
    let mut session = Session::open(&admin.jobs, site.clone(), account.clone()).await.map_err(bad_gateway)?;
    let mut groups = session.site_client().groups(&admin.core.client).await;
    if session.is_renewed_after(&admin.jobs, &mut groups).await {
        groups = session.site_client().groups(&admin.core.client).await;
    }
    if let Err(error) = &groups {
        note_failure(&admin.core, &site, &session.account, HealthSource::TokenGroups, error).await?;
    }
    let mut seen = HashSet::new();
    let groups = groups.map_err(bad_gateway)?.into_iter().map(|group| group.trim().to_owned());
    let mut groups: Vec<String> =
        groups.filter(|group| !group.is_empty() && seen.insert(group.clone())).collect();
    if groups.is_empty() {
        groups.push("default".to_owned());
    }
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "groups": groups })))
}

/// Refuses an account without a session, which the request to the site needs.
pub fn require_session(account: &AccountRow) -> Result<()> {
    match account.access_token {
        Some(_) => Ok(()),
        None => Err(AdminError::bad_request("The account has no access token; bind a session first")),
    }
}

/// Refreshes models and routes of the accounts whose tokens a sync touched.
pub async fn cover_synced(jobs: &Arc<Jobs>, synced: &[SyncOutcome]) -> Coverage {
    let touched: Vec<AccountId> =
        synced.iter().filter(|synced| synced.synced).map(|synced| synced.account_id).collect();
    cover(jobs, &touched).await
}

async fn synced_all(jobs: &Arc<Jobs>) -> std::result::Result<SyncedAll, String> {
    let (summary, results) = sync::sync_all(jobs).await?;
    let coverage_refresh = cover_synced(jobs, &results).await;
    Ok(SyncedAll { summary, results, coverage_refresh })
}
