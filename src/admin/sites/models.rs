//! The models of a site: those that its accounts offer, and those that an operator disabled.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::handlers::find;
use super::schema;
use crate::admin::Admin;
use crate::admin::accounts::input::models;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::Fields;
use crate::admin::require_id;
use crate::admin::routes::rebuild::rebuild_best_effort;
use crate::http::{self, Request, Response};
use crate::ids::SiteId;
use crate::jobs::rebuild_scope::Scope;
use crate::store::{self, availability};

/// `GET /api/sites/{id}/disabled-models`
pub async fn disabled_models(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    find(&admin.core.store, id).await?;
    let rows = availability::disabled_models(&admin.core.store).await?;
    let models = rows.into_iter().filter(|row| row.site_id == id).map(|row| row.model_name).collect();
    Ok(site_models(id, models))
}

/// `PUT /api/sites/{id}/disabled-models`: replaces the whole list.
pub async fn set_disabled_models(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let fields = Fields::of(&schema::MODELS, request.json_object().await?);
    let names = models(&fields)?;
    find(&admin.core.store, id).await?;
    availability::set_disabled_models(&admin.core.store, id, &names).await.map_err(|error| match error {
        store::Error::Dangling(_) => AdminError::not_found("Site"),
        other => other.into(),
    })?;
    admin.core.publish().await?;
    rebuild_best_effort(&admin.jobs, Scope::of_sites(&admin.core.store, &[id]).await?).await;
    Ok(site_models(id, names))
}

/// `GET /api/sites/{id}/available-models`
pub async fn available_models(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    find(&admin.core.store, id).await?;
    Ok(site_models(id, availability::of_site(&admin.core.store, id).await?))
}

fn site_models(id: SiteId, models: Vec<String>) -> Response {
    http::json(StatusCode::OK, &json!({"siteId": id, "models": models}))
}
