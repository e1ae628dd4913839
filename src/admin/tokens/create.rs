//! `POST /api/account-tokens`: stores a typed key, or has the site make one.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;

use super::checks::require_tokens;
use super::checks::{bad_gateway, require_keys};
use super::handlers::refused;
use super::input::CreateInput;
use super::schema;
use super::sync::{cover_synced, require_session};
use super::view::TokenView;
use crate::admin::Admin;
use crate::admin::accounts::handlers::find as find_account;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::Fields;
use crate::admin::sites::handlers as site_routes;
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::jobs::Jobs;
use crate::jobs::accounts::health::note_failure;
use crate::jobs::models::coverage::{Coverage, cover};
use crate::jobs::sessions::session::Session;
use crate::jobs::tokens::set::TokenSet;
use crate::jobs::tokens::sync;
use crate::jobs::tokens::sync::SyncOutcome;
use crate::store::accounts::{AccountRow, HealthSource};
use crate::store::sites::SiteStatus;
use crate::store::tokens::{self, TokenRow};
use crate::upstream::platforms::{NewSiteKey, SiteErrorKind};

/// The response when the site made the key: the result of the sync that fetched it, and the key.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CreatedAtSite<'a> {
    #[serde(flatten)]
    synced: &'a SyncOutcome,
    success: bool,
    created_via_upstream: bool,
    coverage_refresh: Coverage,
    token: Option<TokenView<'a>>,
}

/// `POST /api/account-tokens`
pub async fn create(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::CREATE, request.json_object().await?);
    let input = CreateInput::read(&fields)?;
    let account = find_account(&admin.core.store, input.account_id).await?;
    require_tokens(&account)?;
    let Some(key) = input.token.clone() else {
        return create_at_site(admin.jobs.clone(), account, input).await;
    };
    let row = store_typed(&admin.core, &account, &input, &key).await?;
    admin.core.publish().await?;
    let coverage = cover(&admin.jobs, &[account.id]).await;
    let row = tokens::get(&admin.core.store, row.id).await?.unwrap_or(row);
    let body = json!({ "success": true, "token": TokenView::of(&row), "coverageRefresh": coverage });
    Ok(http::json(StatusCode::OK, &body))
}

/// Has the site make a key, and stores it with all others that the site lists.
async fn create_at_site(jobs: Arc<Jobs>, account: AccountRow, input: CreateInput) -> Result<Response> {
    let site = site_routes::find(&jobs.core.store, account.site_id).await?;
    if site.status != SiteStatus::Active {
        return Err(AdminError::bad_request("The site is disabled"));
    }
    require_keys(&site)?;
    require_session(&account)?;
    let id = account.id;
    let mut session = Session::open(&jobs, site.clone(), account).await.map_err(bad_gateway)?;
    let key = requested_key(&input);
    let mut made = session.site_client().create_key(&jobs.core.client, &key).await;
    if session.is_renewed_after(&jobs, &mut made).await {
        made = session.site_client().create_key(&jobs.core.client, &key).await;
    }
    if let Err(error) = made {
        if error.kind == SiteErrorKind::Unsupported {
            return Err(AdminError::bad_request(error.message));
        }
        note_failure(&jobs.core, &site, &session.account, HealthSource::TokenCreate, &error).await?;
        return Err(bad_gateway(error));
    }
    let synced = sync::sync(&jobs, id).await?.ok_or_else(|| AdminError::not_found("Account"))?;
    if !synced.synced {
        let why = synced.message.as_deref().or(synced.reason).unwrap_or("the site's list was empty");
        let message = format!("The site created the key, but then failed to list it: {why}");
        return Err(AdminError::new(StatusCode::BAD_GATEWAY, message));
    }
    let coverage = cover_synced(&jobs, std::slice::from_ref(&synced)).await;
    let rows = tokens::of_account(&jobs.core.store, id).await?;
    let shown = rows.iter().find(|row| row.is_default).or(rows.last());
    let body = CreatedAtSite {
        synced: &synced,
        success: true,
        created_via_upstream: true,
        coverage_refresh: coverage,
        token: shown.map(TokenView::of),
    };
    Ok(http::json(StatusCode::OK, &body))
}

/// Builds the key that the site is asked to make.
fn requested_key(input: &CreateInput) -> NewSiteKey {
    let site_options = &input.site_options;
    let blank = NewSiteKey::default();
    NewSiteKey {
        name: input.name.clone().unwrap_or(blank.name),
        group: input.group.clone().unwrap_or_default(),
        unlimited_quota: site_options.unlimited_quota,
        remain_quota: site_options.remain_quota.filter(|_| !site_options.unlimited_quota).unwrap_or(0),
        expired_time: site_options.expires_at.map_or(-1, |at| at / 1000),
        allow_ips: site_options.allow_ips.clone(),
        model_limits_enabled: site_options.model_limits_enabled,
        model_limits: site_options.model_limits.clone(),
    }
}

/// Stores a key that an operator typed.
async fn store_typed(core: &Core, account: &AccountRow, input: &CreateInput, key: &str) -> Result<TokenRow> {
    let _turn = core.token_edits.lock().await;
    let mut token_set = TokenSet::read(&core.store, account.id).await?;
    // Sites accept a key with `sk-` and without it, so these are one key.
    if token_set.position_of(key).is_some() {
        return Err(AdminError::conflict("A token with this value already exists"));
    }
    let name = input.name.clone().unwrap_or_else(|| token_set.next_name());
    let at = token_set.add(&name, key, input.group.clone(), input.source);
    token_set.rows[at].enabled &= input.enabled;
    if input.is_default && token_set.rows[at].is_usable() {
        token_set.prefer(at);
    }
    let mut rows = token_set.save(&core.store).await.map_err(refused)?;
    Ok(rows.swap_remove(at))
}
