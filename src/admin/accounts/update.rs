//! `PUT /api/accounts/{id}`.
//!
//! ```text
//! body ─▶ UpdateInput ─▶ Change (pure) ─▶ store ─▶ publish ─▶ models, if a credential or its way changed ─▶ routes
//! ```
//!
//! A mask that is sent back counts as an unchanged secret. An expired API-key account becomes active again only when
//! its new key is verified by listing models; until then the key is stored and the account stays expired. An expired
//! session becomes active again when its new one reads the balance.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Map, Value};

use super::balance;
use super::handlers::find;
use super::input::{UpdateInput, kept_or_new};
use super::schema;
use super::verify::models_of_key;
use super::view;
use super::view::parse_extra;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid, Patch};
use crate::admin::require_id;
use crate::admin::routes::rebuild::rebuild_best_effort;
use crate::admin::secrets;
use crate::admin::sites::input::proxy_url;
use crate::admin::tokens::handlers::refused;
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::ids::AccountId;
use crate::jobs::accounts::cooldowns::clear_cooldowns;
use crate::jobs::accounts::setup::adopt_key;
use crate::jobs::models::refresh;
use crate::jobs::rebuild_scope::Scope;
use crate::json_number::exact_integer;
use crate::platform::Platform;
use crate::store::accounts::{self, AccountPatch, AccountRow, AccountStatus, CredentialMode, FormerStatus};
use crate::store::tokens::TokenSource;
use crate::store::{self, Secret, availability};

/// Members of `extraConfig` that are derived from columns and never accepted from a client.
const DERIVED: [&str; 3] = ["runtimeHealth", "autoRelogin", "sub2apiAuth"];

/// Maximum number of attempts to apply a change while others change `extraConfig`: in every round one of them succeeds.
const ATTEMPTS: usize = 64;

/// The change that an update stores, and what has to follow it.
struct Change {
    patch: AccountPatch,
    /// The key that becomes the default token of a session account.
    adopts: Option<Secret>,
    refreshes_models: bool,
    /// Whether the account is expired and a check may prove that it works again.
    may_recover: bool,
    /// Whether the account is expired and got a new session.
    renews_session: bool,
    /// Whether the account gets another status than it had.
    moves_status: bool,
}

/// `PUT /api/accounts/{id}`
pub async fn update(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let fields = Fields::of(&schema::UPDATE, request.json_object().await?);
    let change = store_change(&admin.core, id, &UpdateInput::read(&fields)?).await?;
    if change.adopts.is_some() {
        adopt_key(&admin.core, id, change.adopts.as_ref(), TokenSource::Manual).await.map_err(refused)?;
    }
    let has_new = |secret: &Patch<Secret>| matches!(secret, Some(Some(_)));
    let (has_new_key, has_new_session) =
        (has_new(&change.patch.api_token), has_new(&change.patch.access_token));
    if has_new_session {
        admin.jobs.renewals.forget(id);
    }
    admin.core.publish().await?;
    if has_new_key || has_new_session {
        clear_cooldowns(&admin.core, id).await;
    }
    if change.renews_session
        && let Err(refusal) = balance::read(&admin.jobs, id).await
    {
        log::warn!("account {id} stays expired: {}", refusal.message());
    }
    refresh_models(&admin, id, &change).await?;
    let account = find(&admin.core.store, id).await?;
    Ok(http::json(StatusCode::OK, &view::AccountView::of(&account)))
}

/// Reads the models again and rebuilds the routes, as far as the change asks for it. An account that stays expired keeps
/// its models and channels unchanged.
async fn refresh_models(admin: &Admin, id: AccountId, change: &Change) -> Result<()> {
    let is_proved = !change.may_recover || (change.refreshes_models && recovers(&admin.core, id).await?);
    let is_switched_on = change.moves_status && change.patch.status == Some(AccountStatus::Active);
    // The models of an account that was added disabled were never read.
    let lacks_models = is_switched_on && availability::of_account(&admin.core.store, id).await?.is_empty();
    if is_proved && (change.refreshes_models || lacks_models) {
        refresh::refresh_account(&admin.jobs, id).await;
    }
    if is_proved && (change.refreshes_models || change.moves_status) {
        rebuild_best_effort(&admin.jobs, Scope::of_accounts([id])).await;
    }
    Ok(())
}

/// Stores the update on top of the account as it is at that moment, because others change `extraConfig` too.
async fn store_change(core: &Core, id: AccountId, input: &UpdateInput) -> Result<Change> {
    for _ in 0..ATTEMPTS {
        let before = find(&core.store, id).await?;
        let platform = core.snapshot.load().site(before.site_id).map(|site| site.platform);
        let change = change(input.clone(), &before, platform)?;
        match accounts::update_merged(&core.store, &before, change.patch.clone()).await {
            Ok(()) => return Ok(change),
            // Changed in the meantime, or deleted, which the next read shows.
            Err(store::Error::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(store::Error::Busy.into())
}

/// Checks an expired account with its current key; if the site lists models for it, the account becomes active again.
async fn recovers(core: &Arc<Core>, id: AccountId) -> Result<bool> {
    let account = find(&core.store, id).await?;
    let site = core.snapshot.load().site(account.site_id).cloned().filter(|site| site.active);
    let (Some(site), Some(key)) = (site, &account.api_token) else { return Ok(false) };
    match models_of_key(core, &site, key.expose(), account.platform_user_id.is_some()).await {
        Ok(_) => {
            core.store.batch(vec![accounts::revive_statement(id)]).await?;
            core.publish().await?;
            Ok(true)
        }
        Err(refusal) => {
            log::warn!("account {id} stays expired: {}", refusal.message);
            Ok(false)
        }
    }
}

/// Computes the change. `platform` is that of the account's site.
fn change(input: UpdateInput, before: &AccountRow, platform: Option<Platform>) -> Result<Change> {
    let mut patch = AccountPatch {
        username: input.username.map(|name| Some(name).filter(|name| !name.is_empty())),
        is_pinned: input.is_pinned,
        sort_order: input.sort_order,
        checkin_enabled: input.checkin_enabled,
        unit_cost: input.unit_cost,
        ..AccountPatch::default()
    };
    if let Some(sent) = input.extra_config {
        apply_extra_config(&mut patch, before, sent)?;
    }
    if let Some(sent) = input.proxy_url {
        set_proxy(&mut patch, before, sent)?;
    }
    let mode = match patch.credential_mode.unwrap_or(before.credential_mode) {
        CredentialMode::Auto => view::resolved_mode(before),
        mode => mode,
    };
    let is_key = mode == CredentialMode::ApiKey;
    let access_token =
        kept_or_new("accessToken", input.access_token.map(Some), before.access_token.as_ref())?;
    patch.api_token = kept_or_new("apiToken", input.api_token, before.api_token.as_ref())?;
    // The key of a session account is its default token: it has a row of its own and is stored there.
    let adopts = if is_key || before.oauth_provider.is_some() {
        None
    } else {
        let stored =
            before.api_token.as_ref().filter(|_| view::resolved_mode(before) == CredentialMode::ApiKey);
        patch.api_token.take().flatten().or_else(|| stored.cloned())
    };
    // For a key account the list shows a blank access token: sending it back means that nothing was typed.
    match access_token.flatten() {
        Some(key) if is_key && patch.api_token.is_none() && !is_stored_key(&key, before) => {
            patch.api_token = Some(Some(key));
        }
        Some(token) if !is_key => patch.access_token = Some(Some(token)),
        _ => {}
    }
    let has_session = before.access_token.is_some() || patch.access_token.is_some();
    if patch.credential_mode == Some(CredentialMode::Session) && !has_session {
        return Err(AdminError::bad_request("A session needs an access token; bind one instead"));
    }
    if platform.is_some_and(|platform| platform.abilities().refresh) {
        (patch.sub2api_refresh_token, patch.sub2api_token_expires_at) = match input.refresh_token {
            Some(None) => (Some(None), Some(None)),
            sent => {
                let stored = before.sub2api_refresh_token.as_ref();
                (kept_or_new("refreshToken", sent, stored)?, input.token_expires_at)
            }
        };
    }
    if matches!(patch.access_token, Some(Some(_))) {
        patch.forget_password_of_another(before);
    }
    let stays_expired = set_status(&mut patch, before, input.status, is_key);
    Ok(Change {
        moves_status: patch.status.is_some_and(|status| status != before.status),
        may_recover: stays_expired,
        renews_session: before.status == AccountStatus::Expired
            // A form sends the status that it was shown.
            && patch.status.is_none_or(|status| status == before.status)
            && matches!(patch.access_token, Some(Some(_))),
        refreshes_models: input.refreshes_models,
        adopts,
        patch,
    })
}

/// Sets the status, if the one that was sent changes it; returns whether the account is an API key that stays expired,
/// whatever was sent, until a check proves that it works.
fn set_status(
    patch: &mut AccountPatch,
    before: &AccountRow,
    sent: Option<AccountStatus>,
    is_key: bool,
) -> bool {
    // A form sends the status that it was shown. Stored, it would keep the account disabled when its site is enabled.
    let sent = sent.filter(|status| before.former_status.is_none() || *status != before.status);
    let next = sent.unwrap_or(before.status);
    if is_key && before.is_found_expired() && next != AccountStatus::Disabled {
        if before.status != AccountStatus::Expired {
            patch.status = Some(AccountStatus::Expired);
        }
        return true;
    }
    // A session that was found expired is not proved by asking for `active`.
    let has_another = before.status == AccountStatus::Disabled && patch.has_new_credential();
    if sent == Some(AccountStatus::Active) && before.is_found_expired() && !has_another {
        if before.status != AccountStatus::Expired {
            patch.set_status(before, AccountStatus::Expired);
        }
        return false;
    }
    let forgets_former = before.former_status == Some(FormerStatus::Expired) && patch.has_new_credential();
    if let Some(status) = sent.or(forgets_former.then_some(before.status)) {
        patch.set_status(before, status);
    }
    false
}

/// Whether the stored key was sent as the access token.
fn is_stored_key(key: &Secret, before: &AccountRow) -> bool {
    before.api_token.as_ref() == Some(key)
}

fn set_proxy(patch: &mut AccountPatch, before: &AccountRow, sent: Option<String>) -> Result<(), Invalid> {
    let stored = before.proxy_url.as_ref().map(Secret::expose);
    if let Some(sent) = secrets::sent_proxy(Some(sent), stored)? {
        patch.proxy_url = Some(sent.map(Secret::from));
    }
    Ok(())
}

/// Merges `extraConfig` member by member: members with a column are stored there, `null` removes a member, the others
/// stay. `null` for the whole clears everything that an operator can set.
fn apply_extra_config(
    patch: &mut AccountPatch,
    before: &AccountRow,
    sent: Option<Map<String, Value>>,
) -> Result<(), Invalid> {
    let Some(mut sent) = sent else {
        patch.platform_user_id = Some(None);
        patch.proxy_url = Some(None);
        patch.use_system_proxy = Some(false);
        patch.extra = Some(None);
        return Ok(());
    };
    let invalid = |member: &str, expected| Err(Invalid::field(&format!("extraConfig.{member}"), expected));
    match sent.remove("credentialMode") {
        None | Some(Value::Null) => {}
        Some(value) => match value.as_str().and_then(CredentialMode::parse) {
            Some(mode) => patch.credential_mode = Some(mode),
            None => return invalid("credentialMode", "auto, session or apikey"),
        },
    }
    match sent.remove("platformUserId") {
        None => {}
        Some(Value::Null) => patch.platform_user_id = Some(None),
        Some(value) => match exact_integer(&value).filter(|&id| id > 0) {
            Some(id) => patch.platform_user_id = Some(Some(id)),
            None => return invalid("platformUserId", "positive integer"),
        },
    }
    match sent.remove("useSystemProxy") {
        None => {}
        Some(Value::Null) => patch.use_system_proxy = Some(false),
        Some(Value::Bool(on)) => patch.use_system_proxy = Some(on),
        Some(_) => return invalid("useSystemProxy", "boolean"),
    }
    if let Some(value) = sent.remove("proxyUrl") {
        let mut only = Map::new();
        only.insert("proxyUrl".to_owned(), value);
        if let Some(proxy) = proxy_url(&Fields::of(&schema::UPDATE, only))? {
            set_proxy(patch, before, proxy)?;
        }
    }
    for derived in DERIVED {
        sent.remove(derived);
    }
    secrets::drop_credentials(&mut sent);
    let mut merged = parse_extra(before.extra.as_deref());
    for (name, value) in sent {
        if value.is_null() {
            merged.remove(&name);
        } else {
            merged.insert(name, value);
        }
    }
    patch.extra = Some((!merged.is_empty()).then(|| Value::Object(merged).to_string()));
    Ok(())
}

#[cfg(test)]
mod tests;
