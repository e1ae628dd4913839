//! `/api/accounts/{id}/models`: the models of an account, and models that an operator adds by hand.

use std::collections::HashSet;
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::handlers::find;
use super::input::models;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid};
use crate::admin::require_id;
use crate::admin::routes::rebuild::rebuild_best_effort;
use crate::admin::sites::handlers as site_routes;
use crate::admin::sites::schema;
use crate::http::{self, Request, Response};
use crate::jobs::prices;
use crate::jobs::rebuild_scope::Scope;
use crate::store::{self, availability};

/// `GET /api/accounts/{id}/models`: lists the available models by name.
pub async fn list(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let account = find(&admin.core.store, id).await?;
    let site = site_routes::find(&admin.core.store, account.site_id).await?;
    let disabled: HashSet<String> = availability::disabled_models(&admin.core.store)
        .await?
        .into_iter()
        .filter(|row| row.site_id == site.id)
        .map(|row| row.model_name.to_lowercase())
        .collect();
    let rows = availability::of_account(&admin.core.store, id).await?;
    let shown: Vec<Value> = rows
        .iter()
        .filter(|row| row.available)
        .map(|row| {
            json!({
                "name": row.model_name,
                "latencyMs": row.latency_ms,
                "disabled": disabled.contains(&row.model_name.to_lowercase()),
                "isManual": row.is_manual,
            })
        })
        .collect();
    let disabled_count = shown.iter().filter(|model| model["disabled"] == true).count();
    let body = json!({
        "siteId": site.id,
        "siteName": site.name,
        "totalCount": shown.len(),
        "disabledCount": disabled_count,
        "models": shown,
    });
    Ok(http::json(StatusCode::OK, &body))
}

/// `POST /api/accounts/{id}/models/manual`: adds models that no discovery removes.
pub async fn add_manual(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let fields = Fields::of(&schema::MODELS, request.json_object().await?);
    let names = models(&fields)?;
    if names.is_empty() {
        return Err(Invalid::field("models", "non-empty array of strings").into());
    }
    find(&admin.core.store, id).await?;
    availability::add_manual(&admin.core.store, id, &names).await.map_err(|error| match error {
        store::Error::Dangling(_) => AdminError::not_found("Account"),
        other => other.into(),
    })?;
    admin.core.publish().await?;
    rebuild_best_effort(&admin.jobs, Scope::of_accounts([id])).await;
    prices::refresh_unread(&admin.jobs, id);
    Ok(http::json(StatusCode::OK, &json!({ "success": true })))
}
