//! `/api/account-tokens`: the API keys of session accounts: list, change, delete, default, reveal.
//!
//! Accounts that are an API key themselves have no tokens: operations for one are refused, and its leftover rows are
//! not listed. Changes of the rows take turns (`Core::token_edits`); requests to a site are made outside of a turn.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::checks::require_tokens;
use super::checks::{bad_gateway, require_keys};
use super::input::UpdateInput;
use super::schema;
use super::view;
use super::view::{ListedToken, TokenView};
use crate::admin::Admin;
use crate::admin::accounts::handlers::find as find_account;
use crate::admin::batch::BatchResult;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid};
use crate::admin::routes::rebuild::rebuild_best_effort;
use crate::admin::sites::handlers as site_routes;
use crate::admin::{paging, require_id};
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::ids::{AccountId, SiteId, TokenId};
use crate::jobs::Jobs;
use crate::jobs::accounts::cooldowns::clear_cooldowns;
use crate::jobs::accounts::health::note_failure;
use crate::jobs::models::coverage::cover;
use crate::jobs::rebuild_scope::Scope;
use crate::jobs::sessions::session::Session;
use crate::jobs::tokens::set::TokenSet;
use crate::jobs::tokens::sync::owns_tokens;
use crate::store::Store;
use crate::store::accounts::{self, AccountRow, HealthSource};
use crate::store::availability;
use crate::store::sites::{self, SiteStatus};
use crate::store::tokens::{self, TokenRow};
use crate::store::{self, Secret};

/// `GET /api/account-tokens`
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let only = paging::account(&request.query)?;
    let sites: HashMap<SiteId, _> =
        sites::list(&admin.core.store).await?.into_iter().map(|site| (site.id, site)).collect();
    let accounts = accounts::list(&admin.core.store).await?.into_iter().filter(owns_tokens);
    let accounts: HashMap<AccountId, _> = accounts.map(|account| (account.id, account)).collect();
    let rows = match only {
        Some(id) => tokens::of_account(&admin.core.store, id).await?,
        None => tokens::list(&admin.core.store).await?,
    };
    let shown = rows.iter().filter_map(|token| {
        let account = accounts.get(&token.account_id)?;
        Some(ListedToken::of(token, account, sites.get(&account.site_id)?))
    });
    Ok(http::json(StatusCode::OK, &shown.collect::<Vec<ListedToken>>()))
}

/// `PUT /api/account-tokens/{id}`
pub async fn update(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let fields = Fields::of(&schema::UPDATE, request.json_object().await?);
    // A malformed body is refused whether or not the token exists.
    UpdateInput::read(&fields, None)?;
    let account = owner_of(&admin.core, id).await?;
    let (row, has_new_value) = {
        let _turn = admin.core.token_edits.lock().await;
        let mut token_set = TokenSet::read(&admin.core.store, account.id).await?;
        let at = position(&token_set, id)?;
        let stored = token_set.rows[at].token.as_ref().map(Secret::expose);
        let input = UpdateInput::read(&fields, stored)?;
        let has_new_value = input.token.is_some();
        change(&mut token_set, at, input)?;
        (saved(&admin.core.store, token_set, id).await?, has_new_value)
    };
    admin.core.publish().await?;
    if has_new_value {
        clear_cooldowns(&admin.core, account.id).await;
    }
    if has_new_value && row.is_usable() {
        cover(&admin.jobs, &[account.id]).await;
    } else {
        rebuild_after(&admin, &[id], Scope::of_accounts([account.id])).await?;
    }
    let row = tokens::get(&admin.core.store, id).await?.unwrap_or(row);
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "token": TokenView::of(&row) })))
}

/// `DELETE /api/account-tokens/{id}`
pub async fn delete(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let scope = owners(&admin.core.store, &[id]).await?;
    remove(&admin.jobs, id).await?;
    admin.core.publish().await?;
    rebuild_best_effort(&admin.jobs, scope).await;
    Ok(http::json(StatusCode::OK, &json!({ "success": true })))
}

#[derive(Clone, Copy)]
enum Action {
    Enable(bool),
    Delete,
}

/// `POST /api/account-tokens/batch`: applies one action to tokens, one after the other, each in its own transaction.
pub async fn batch(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::BATCH, request.json_object().await?);
    let ids = fields.ids()?;
    let action = match fields.text("action")? {
        Some("enable") => Action::Enable(true),
        Some("disable") => Action::Enable(false),
        Some("delete") => Action::Delete,
        _ => return Err(Invalid::field("action", "enable, disable or delete").into()),
    };
    let scope = owners(&admin.core.store, &ids).await?;
    let mut result = BatchResult::default();
    for &id in &ids {
        let done = match action {
            Action::Delete => remove(&admin.jobs, id).await,
            Action::Enable(enabled) => enable(&admin.core, id, enabled).await,
        };
        result.add(id, done);
    }
    admin.core.publish().await?;
    rebuild_after(&admin, &ids, scope).await?;
    Ok(result.into_response())
}

/// `POST /api/account-tokens/{id}/default`
pub async fn set_default(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let account = owner_of(&admin.core, id).await?;
    {
        let _turn = admin.core.token_edits.lock().await;
        let mut token_set = TokenSet::read(&admin.core.store, account.id).await?;
        let at = position(&token_set, id)?;
        prefer(&mut token_set, at)?;
        saved(&admin.core.store, token_set, id).await?;
    }
    admin.core.publish().await?;
    rebuild_after(&admin, &[id], Scope::of_accounts([account.id])).await?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true })))
}

/// `GET /api/account-tokens/{id}/value`: shows the key in full, to be copied.
pub async fn value(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    owner_of(&admin.core, id).await?;
    let token = tokens::get(&admin.core.store, id).await?.ok_or_else(missing)?;
    let Some(value) = token.token.as_ref().filter(|_| token.is_ready()) else {
        return Err(AdminError::conflict("The site shows only a mask of this token; save its whole value"));
    };
    let body = json!({
        "success": true,
        "id": token.id,
        "name": token.name,
        "token": view::display(value.expose()),
        "tokenMasked": view::masked(&token),
    });
    Ok(http::json(StatusCode::OK, &body))
}

/// `GET /api/account-tokens/account/{id}/default`
pub async fn default_of(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    if let Some(account) = accounts::get(&admin.core.store, id).await? {
        require_tokens(&account)?;
    }
    let rows = tokens::of_account(&admin.core.store, id).await?;
    let default = rows.iter().find(|row| row.is_default).map(TokenView::of);
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "token": default })))
}

/// Rebuilds the routes after a change of these tokens; first asks for the models of accounts whose token can be used and
/// has no models yet.
async fn rebuild_after(admin: &Admin, ids: &[TokenId], scope: Scope) -> Result<()> {
    let store = &admin.core.store;
    let known = availability::tokens_with_models(store, ids).await?;
    let changed = tokens::some(store, ids).await?;
    let unread = changed.iter().filter(|row| row.is_usable() && !known.contains(&row.id));
    let accounts: BTreeSet<AccountId> = unread.map(|row| row.account_id).collect();
    cover(&admin.jobs, &Vec::from_iter(accounts)).await;
    rebuild_best_effort(&admin.jobs, scope).await;
    Ok(())
}

/// Saves the set and returns one of its rows as stored.
pub async fn saved(store: &Store, token_set: TokenSet, id: TokenId) -> Result<TokenRow> {
    let rows = token_set.save(store).await.map_err(refused)?;
    rows.into_iter().find(|row| row.id == id).ok_or_else(missing)
}

/// Converts the store's refusal of a change of tokens.
pub fn refused(error: store::Error) -> AdminError {
    match error {
        store::Error::Conflict(_) => AdminError::conflict("A token with this value already exists"),
        store::Error::NotFound => missing(),
        store::Error::Dangling(_) => AdminError::not_found("Account"),
        other => other.into(),
    }
}

fn missing() -> AdminError {
    AdminError::not_found("Token")
}

/// Returns the accounts of these tokens, whose routes are rebuilt when a token is deleted.
async fn owners(store: &Store, ids: &[TokenId]) -> Result<Scope> {
    let rows = tokens::some(store, ids).await?;
    Ok(Scope::of_accounts(rows.into_iter().map(|row| row.account_id)))
}

/// Returns the account of a token; fails if its tokens cannot be managed.
async fn owner_of(core: &Core, id: TokenId) -> Result<AccountRow> {
    let token = tokens::get(&core.store, id).await?.ok_or_else(missing)?;
    let account = find_account(&core.store, token.account_id).await?;
    require_tokens(&account)?;
    Ok(account)
}

fn position(token_set: &TokenSet, id: TokenId) -> Result<usize> {
    token_set.rows.iter().position(|row| row.id == id).ok_or_else(missing)
}

fn change(token_set: &mut TokenSet, at: usize, input: UpdateInput) -> Result<()> {
    let row = &mut token_set.rows[at];
    if let Some(name) = input.name {
        row.name = name;
    }
    if let Some(group) = input.group {
        row.token_group = group;
    }
    if let Some(source) = input.source {
        row.source = source;
    }
    if let Some(token) = input.token {
        let was_ready = row.is_ready();
        row.set_value(&token);
        // A placeholder is enabled once its whole value is known.
        row.enabled |= row.is_ready() && !was_ready;
    }
    if let Some(enabled) = input.enabled {
        set_enabled(row, enabled)?;
    }
    match input.is_default {
        Some(true) => prefer(token_set, at),
        Some(false) => {
            token_set.rows[at].is_default = false;
            Ok(())
        }
        None => Ok(()),
    }
}

fn set_enabled(row: &mut TokenRow, enabled: bool) -> Result<()> {
    if enabled && !row.is_ready() {
        return Err(AdminError::bad_request(
            "The site shows only a mask of this token; save its whole value",
        ));
    }
    row.enabled = enabled;
    Ok(())
}

fn prefer(token_set: &mut TokenSet, at: usize) -> Result<()> {
    let row = &token_set.rows[at];
    if !row.is_ready() {
        return Err(AdminError::bad_request("A masked token cannot be the default; save its whole value"));
    }
    if !row.enabled {
        return Err(AdminError::bad_request("A disabled token cannot be the default"));
    }
    token_set.prefer(at);
    Ok(())
}

async fn enable(core: &Core, id: TokenId, enabled: bool) -> Result<()> {
    let account = owner_of(core, id).await?;
    let _turn = core.token_edits.lock().await;
    let mut token_set = TokenSet::read(&core.store, account.id).await?;
    let at = position(&token_set, id)?;
    if !token_set.rows[at].is_ready() {
        return Err(AdminError::bad_request(
            "A masked token cannot be enabled or disabled; save its whole value first",
        ));
    }
    set_enabled(&mut token_set.rows[at], enabled)?;
    saved(&core.store, token_set, id).await.map(drop)
}

/// Deletes a token: at its site first, if the site can be asked; if that fails, the row stays.
async fn remove(jobs: &Arc<Jobs>, id: TokenId) -> Result<()> {
    let account = owner_of(&jobs.core, id).await?;
    let token = tokens::get(&jobs.core.store, id).await?.ok_or_else(missing)?;
    remove_at_site(jobs, &account, &token).await?;
    let _turn = jobs.core.token_edits.lock().await;
    let mut token_set = TokenSet::read(&jobs.core.store, account.id).await?;
    let at = position(&token_set, id)?;
    token_set.rows.remove(at);
    token_set.save(&jobs.core.store).await.map_err(refused)?;
    Ok(())
}

async fn remove_at_site(jobs: &Arc<Jobs>, account: &AccountRow, token: &TokenRow) -> Result<()> {
    let site = site_routes::find(&jobs.core.store, account.site_id).await?;
    let can_ask = site.status == SiteStatus::Active && account.access_token.is_some();
    let Some(key) =
        token.token.as_ref().filter(|_| token.is_ready() && can_ask && require_keys(&site).is_ok())
    else {
        return Ok(());
    };
    let mut session = Session::open(jobs, site.clone(), account.clone()).await.map_err(bad_gateway)?;
    let mut deleted = session.site_client().delete_key(&jobs.core.client, key.expose()).await;
    if session.is_renewed_after(jobs, &mut deleted).await {
        deleted = session.site_client().delete_key(&jobs.core.client, key.expose()).await;
    }
    if let Err(error) = &deleted {
        note_failure(&jobs.core, &site, &session.account, HealthSource::TokenDelete, error).await?;
    }
    deleted.map_err(bad_gateway)
}
