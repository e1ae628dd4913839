//! `/api/oauth/connections`: the accounts that are connected by a login in a browser.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::proxy_choice::ProxyChoice;
use super::schema;
use super::view;
use crate::admin::bucket;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::Fields;
use crate::admin::routes::rebuild::rebuild_best_effort;
use crate::admin::{Admin, guard, secrets};
use crate::http::{self, Query, Request, Response};
use crate::ids::AccountId;
use crate::jobs::models::refresh::refresh_whatever_status;
use crate::jobs::oauth::provider_client::client_of;
use crate::jobs::rebuild::rebuild_in;
use crate::jobs::rebuild_scope::Scope;
use crate::jobs::run_status::RunStatus;
use crate::platform::OAuthProvider;
use crate::store::accounts::{self, AccountPatch, AccountRow};
use crate::store::{Secret, Store, connections, sites};
use crate::upstream::oauth::revoke;

const DEFAULT_LIMIT: i64 = 50;
const MAX_LIMIT: i64 = 200;

/// `GET /api/oauth/connections`: lists the connections, newest first.
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    guard(&admin, &request, &bucket::OAUTH_CONNECTIONS_READ)?;
    let limit = number(&request.query, "limit", DEFAULT_LIMIT, 1)?.min(MAX_LIMIT);
    let offset = number(&request.query, "offset", 0, 0)?;
    let store = &admin.core.store;
    let rows = connections::page(store, limit, offset).await?;
    let items = view::connection_views(&admin.core, &rows).await?;
    let total = connections::count(store).await?;
    let body = json!({"items": items, "total": total, "limit": limit, "offset": offset});
    Ok(http::json(StatusCode::OK, &body))
}

/// `DELETE /api/oauth/connections/{id}`: deletes the account with everything under it.
pub async fn delete(admin: Arc<Admin>, request: Request) -> Result<Response> {
    guard(&admin, &request, &bucket::OAUTH_CONNECTIONS_CHANGE)?;
    let (account, provider) = find(&admin.core.store, account_id(&request)?).await?;
    let store = &admin.core.store;
    let is_shared = connections::has_twin(store, &account).await?;
    let scope = Scope::of_accounts_to_delete(store, &[account.id]).await?;
    let site = sites::get(store, account.site_id).await?;
    accounts::delete(store, account.id).await?;
    admin.core.publish().await?;
    rebuild_best_effort(&admin.jobs, scope).await;
    if let (Some(site), Some(token), false) = (site, account.refresh_token.clone(), is_shared) {
        let core = admin.core.clone();
        // Nobody waits for the revocation, and its failure has no consequence: the token is deleted here.
        admin.core.background.spawn("the revocation of a token", async move {
            let revoked = match client_of(&core, &site, &account, provider) {
                Ok(client) => revoke(&client, &token).await.map_err(|error| error.message),
                Err(problem) => Err(problem),
            };
            if let Err(problem) = revoked {
                log::info!(
                    "the token of the deleted account {} could not be revoked at its provider: {problem}",
                    account.id
                );
            }
        });
    }
    Ok(http::json(StatusCode::OK, &json!({ "success": true })))
}

/// `PATCH /api/oauth/connections/{id}/proxy`: changes the outbound proxy, and tries it by reading the models.
pub async fn set_proxy(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::PROXY, request.json_object().await?);
    guard(&admin, &request, &bucket::OAUTH_CONNECTIONS_CHANGE)?;
    guard(&admin, &request, &bucket::OAUTH_PROXY)?;
    let id = account_id(&request)?;
    let (account, _) = find(&admin.core.store, id).await?;
    let choice = ProxyChoice::of(&fields, account.proxy_url.as_ref())?;
    let patch = AccountPatch {
        proxy_url: choice.proxy_url,
        use_system_proxy: choice.use_system_proxy,
        ..AccountPatch::default()
    };
    accounts::update(&admin.core.store, id, patch).await?;
    admin.core.publish().await?;
    let outcome = refresh_whatever_status(&admin.jobs, id).await;
    rebuild_in(&admin.jobs, Scope::of_accounts([id])).await?;
    let (account, _) = find(&admin.core.store, id).await?;
    let is_refreshed = outcome.status == RunStatus::Success;
    let body = json!({
        "success": true,
        "accountId": id,
        "proxyUrl": account.proxy_url.as_ref().map(Secret::expose).map(secrets::mask_proxy_url),
        "useSystemProxy": account.use_system_proxy,
        "refreshedRoutes": true,
        "modelRefresh": {
            "success": is_refreshed,
            "status": outcome.status,
            "errorMessage": (!is_refreshed).then_some(outcome.error_message),
        },
    });
    Ok(http::json(StatusCode::OK, &body))
}

/// Reads the account id in the path, a strict positive integer.
pub fn account_id(request: &Request) -> Result<AccountId> {
    request.params.id("id").map_err(|_| AdminError::bad_request("invalid account id"))
}

/// Returns the connected account with its provider; fails with 404 if there is none.
pub async fn find(store: &Store, id: AccountId) -> Result<(AccountRow, OAuthProvider)> {
    let missing = |message: &str| AdminError::new(StatusCode::NOT_FOUND, message);
    let account = accounts::get(store, id).await?.ok_or_else(|| missing("oauth account not found"))?;
    let provider = account.oauth_provider.as_deref().and_then(OAuthProvider::parse);
    let provider = provider.ok_or_else(|| missing("account is not managed by oauth"))?;
    Ok((account, provider))
}

/// Reads the number under `name`; `default` if it is absent. Fails if it is below `least` or not an integer.
fn number(query: &Query, name: &str, default: i64, least: i64) -> Result<i64> {
    let Some(text) = query.get(name) else { return Ok(default) };
    let number = text.trim().parse().ok().filter(|number| *number >= least);
    number.ok_or_else(|| AdminError::bad_request(format!("invalid {name}")))
}
