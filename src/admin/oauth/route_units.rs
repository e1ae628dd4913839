//! `/api/oauth/route-units`: several connected accounts of one site and provider that serve as one channel per route.

use std::collections::HashSet;
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::schema;
use crate::admin::bucket;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid, exact_id};
use crate::admin::routes::rebuild::rebuild_best_effort;
use crate::admin::{Admin, guard};
use crate::http::{self, Request, Response};
use crate::ids::{AccountId, UnitId};
use crate::jobs::rebuild::rebuild_in;
use crate::jobs::rebuild_scope::Scope;
use crate::platform::OAuthProvider;
use crate::routing::UnitStrategy;
use crate::store::accounts;
use crate::store::route_units::{self, NewUnit, UnitRow};
use crate::store::{self, Store};

const NOT_REBUILT: &str = "the routes could not be rebuilt";

/// `POST /api/oauth/route-units`: replaces the channels of the accounts by one per route.
pub async fn create(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::UNIT_CREATE, request.json_object().await?);
    guard(&admin, &request, &bucket::OAUTH_CONNECTIONS_CHANGE)?;
    guard(&admin, &request, &bucket::OAUTH_UNIT_CREATE)?;
    let store = &admin.core.store;
    let unit = new_unit(store, &fields).await?;
    let id = route_units::insert(store, &unit).await.map_err(|error| match error {
        store::Error::Conflict(_) => grouped(),
        store::Error::Dangling(_) => missing_accounts(),
        other => other.into(),
    })?;
    if let Err(error) = follow(&admin, &unit.account_ids).await {
        log::error!("the routes of a new route unit could not be built: {error}");
        route_units::delete(store, id).await?;
        admin.core.publish().await?;
        rebuild_best_effort(&admin.jobs, Scope::of_accounts(unit.account_ids)).await;
        return Err(AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, NOT_REBUILT));
    }
    Ok(http::json(StatusCode::OK, &answer(&find(store, id).await?)))
}

/// `PATCH /api/oauth/route-units/{id}`: changes the name, or the strategy that picks the next member.
pub async fn update(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::UNIT_UPDATE, request.json_object().await?);
    guard(&admin, &request, &bucket::OAUTH_CONNECTIONS_CHANGE)?;
    guard(&admin, &request, &bucket::OAUTH_UNIT_UPDATE)?;
    let id = unit_id(&request)?;
    let name = fields.text("name")?.map(unit_name).transpose()?;
    let refused = || Invalid::field("strategy", "round_robin/stick_until_unavailable");
    let strategy = match fields.get("strategy") {
        None => None,
        Some(value) => Some(value.as_str().and_then(UnitStrategy::parse).ok_or_else(refused)?),
    };
    let store = &admin.core.store;
    find(store, id).await?;
    route_units::update(store, id, name.as_deref(), strategy).await?;
    admin.core.publish().await?;
    Ok(http::json(StatusCode::OK, &answer(&find(store, id).await?)))
}

/// `DELETE /api/oauth/route-units/{id}`: gives each account channels of its own again.
pub async fn delete(admin: Arc<Admin>, request: Request) -> Result<Response> {
    guard(&admin, &request, &bucket::OAUTH_CONNECTIONS_CHANGE)?;
    guard(&admin, &request, &bucket::OAUTH_UNIT_DELETE)?;
    let store = &admin.core.store;
    // Counters that are not stored yet belong to the members.
    store.flush().await;
    let unit = find(store, unit_id(&request)?).await?;
    let channels = route_units::channels_of(store, unit.id).await?;
    let members: Vec<AccountId> = unit.members.iter().map(|member| member.account_id).collect();
    route_units::delete(store, unit.id).await?;
    if let Err(error) = follow(&admin, &members).await {
        log::error!("the routes could not be rebuilt after a route unit was deleted: {error}");
        route_units::restore(store, &unit, &channels).await?;
        admin.core.publish().await?;
        rebuild_best_effort(&admin.jobs, Scope::of_accounts(members)).await;
        return Err(AdminError::new(StatusCode::INTERNAL_SERVER_ERROR, NOT_REBUILT));
    }
    Ok(http::json(StatusCode::OK, &json!({ "success": true })))
}

/// Rebuilds the routes of these accounts after a change of their unit.
async fn follow(admin: &Admin, accounts: &[AccountId]) -> store::Result<()> {
    admin.core.publish().await?;
    rebuild_in(&admin.jobs, Scope::of_accounts(accounts.iter().copied())).await.map(drop)
}

/// Reads the unit that a request describes, and checks its accounts.
async fn new_unit(store: &Store, fields: &Fields) -> Result<NewUnit> {
    let unreadable = || Invalid::field("accountIds", "positive number array");
    let ids: Vec<AccountId> = match fields.get("accountIds") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(ids)) => ids.iter().map(exact_id).collect::<Option<_>>().ok_or_else(unreadable)?,
        Some(_) => return Err(unreadable().into()),
    };
    let mut known = HashSet::new();
    let ids: Vec<AccountId> = ids.into_iter().filter(|id| known.insert(*id)).collect();
    if ids.len() < 2 {
        return Err(refused("requires at least 2 accounts"));
    }
    let name = unit_name(fields.text("name")?.unwrap_or_default())?;
    let strategy = match fields.get("strategy") {
        None | Some(Value::Null) => UnitStrategy::default(),
        Some(value) => value
            .as_str()
            .and_then(UnitStrategy::parse)
            .ok_or_else(|| AdminError::bad_request("invalid oauth route unit strategy"))?,
    };
    let rows = accounts::some(store, &ids).await?;
    let [first, others @ ..] = &rows[..] else { return Err(missing_accounts()) };
    if rows.len() < ids.len() {
        return Err(missing_accounts());
    }
    let provider = |row: &accounts::AccountRow| row.oauth_provider.as_deref().and_then(OAuthProvider::parse);
    let Some(shared) = provider(first).filter(|_| others.iter().all(|row| provider(row).is_some())) else {
        return Err(refused("only supports oauth accounts"));
    };
    if others.iter().any(|row| row.site_id != first.site_id) {
        return Err(refused("accounts must belong to the same site"));
    }
    if others.iter().any(|row| provider(row) != Some(shared)) {
        return Err(refused("accounts must share the same provider"));
    }
    if !route_units::of_accounts(store, &ids).await?.is_empty() {
        return Err(grouped());
    }
    let (site_id, provider) = (first.site_id, shared.id().to_owned());
    Ok(NewUnit { site_id, provider, name, strategy, account_ids: ids })
}

fn unit_name(name: &str) -> Result<String> {
    let name = name.trim();
    match name.chars().count() {
        0 => Err(refused("name is required")),
        1..=191 if !name.contains(char::is_control) => Ok(name.to_owned()),
        _ => Err(Invalid::field("name", "line of at most 191 characters").into()),
    }
}

/// Reads the unit id in the path, a strict positive integer.
fn unit_id(request: &Request) -> Result<UnitId> {
    request.params.id("id").map_err(|_| AdminError::bad_request("invalid route unit id"))
}

async fn find(store: &Store, id: UnitId) -> Result<UnitRow> {
    let missing = || AdminError::new(StatusCode::NOT_FOUND, "oauth route unit not found");
    route_units::get(store, id).await?.ok_or_else(missing)
}

fn answer(unit: &UnitRow) -> Value {
    json!({"success": true, "routeUnit": {
        "id": unit.id,
        "siteId": unit.site_id,
        "provider": unit.provider,
        "name": unit.name,
        "strategy": unit.strategy.as_str(),
        "enabled": unit.enabled,
        "memberCount": unit.members.len(),
    }})
}

fn refused(why: &str) -> AdminError {
    AdminError::bad_request(format!("oauth route unit {why}"))
}

fn grouped() -> AdminError {
    refused("accounts already grouped")
}

fn missing_accounts() -> AdminError {
    AdminError::new(StatusCode::NOT_FOUND, "oauth route unit accounts not found")
}
