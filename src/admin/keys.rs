//! `/api/downstream-keys`: list, create, update, delete, reset, reveal, batch.
//!
//! A change holds the key's turn: nothing is reserved against a limit while it changes, and what was
//! reserved under the old one is given back first.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::batch::BatchResult;
use super::errors::{AdminError, Result};
use super::input::{Fields, Invalid};
use super::key_input::{self, Metadata};
use super::key_view::KeyItem;
use super::{require_id, secrets};
use crate::app::App;
use crate::http::{self, Request, Response};
use crate::keys::KeyLive;
use crate::store::keys::{self, KeyRow, KeySettings};
use crate::store::{self, Secret, quota};

/// The most keys that one batch touches; more are ignored.
const MAX_BATCH: usize = 500;

/// `GET /api/downstream-keys`
pub async fn list(app: Arc<App>, _request: Request) -> Result<Response> {
    let rows = keys::list(&app.store).await?;
    let items: Vec<_> = rows.iter().map(|row| KeyItem::new(&app, row)).collect();
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "items": items })))
}

/// `POST /api/downstream-keys`: the one answer besides the reveal that shows the whole key.
pub async fn create(app: Arc<App>, mut request: Request) -> Result<Response> {
    let fields = Fields::from(request.json_object().await?);
    let (key, settings) = key_input::for_create(&fields)?;
    key_input::check_references(&keys::referable(&app.store).await?, &KeySettings::default(), &settings)?;
    let id = keys::insert(&app.store, &key, &settings).await.map_err(conflict)?;
    app.publish_keys().await?;
    let row = find(&app, id).await?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "item": KeyItem::revealed(&app, &row) })))
}

/// `PUT /api/downstream-keys/{id}`
pub async fn update(app: Arc<App>, mut request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let fields = Fields::from(request.json_object().await?);
    changed(&app, id, |row| {
        // A client that sends back what it was shown changes nothing.
        let echo = |sent: &str| secrets::is_echo(sent, row.key.as_ref().map(Secret::expose));
        let key = match fields.text("key")? {
            Some(text) if !echo(text) => Some(key_input::key(text)?),
            _ => None,
        };
        Ok((key, key_input::apply(&fields, row.settings.clone())?))
    })
    .await?;
    item(&app, id).await
}

/// `DELETE /api/downstream-keys/{id}`
pub async fn delete(app: Arc<App>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    keys::delete(&app.store, id).await.map_err(missing)?;
    app.publish_keys().await?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true })))
}

/// `POST /api/downstream-keys/{id}/reset-usage`
pub async fn reset_usage(app: Arc<App>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    reset(&app, id).await?;
    item(&app, id).await
}

/// `GET /api/downstream-keys/{id}/value`: the key in full, to be copied.
pub async fn value(app: Arc<App>, request: Request) -> Result<Response> {
    let row = find(&app, require_id(&request)?).await?;
    let key = row.key.as_ref().ok_or_else(|| AdminError::conflict("The stored key cannot be opened"))?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "id": row.id, "key": key.expose() })))
}

/// What a batch does with each key.
enum Action {
    Enable(bool),
    Delete,
    ResetUsage,
    Metadata(Metadata),
}

/// `POST /api/downstream-keys/batch`
pub async fn batch(app: Arc<App>, mut request: Request) -> Result<Response> {
    let fields = Fields::from(request.json_object().await?);
    let ids = fields.ids()?;
    let action = match fields.text("action")? {
        Some("enable") => Action::Enable(true),
        Some("disable") => Action::Enable(false),
        Some("delete") => Action::Delete,
        Some("resetUsage") => Action::ResetUsage,
        Some("updateMetadata") => Action::Metadata(Metadata::read(&fields)?),
        _ => {
            let known = "enable, disable, delete, resetUsage or updateMetadata";
            return Err(Invalid::field("action", known).into());
        }
    };
    let mut result = BatchResult::default();
    for id in ids.into_iter().take(MAX_BATCH) {
        result.add(id, apply(&app, id, &action).await);
    }
    app.publish_keys().await?;
    Ok(result.into_response())
}

async fn apply(app: &App, id: i64, action: &Action) -> Result<()> {
    match action {
        Action::Delete => keys::delete(&app.store, id).await.map_err(missing),
        Action::ResetUsage => reset(app, id).await,
        Action::Enable(enabled) => {
            changed(app, id, |row| Ok((None, KeySettings { enabled: *enabled, ..row.settings.clone() })))
                .await
        }
        Action::Metadata(metadata) => {
            changed(app, id, |row| Ok((None, metadata.applied(row.settings.clone())))).await
        }
    }
}

/// Changes one key within its turn, and publishes.
async fn changed(
    app: &App,
    id: i64,
    change: impl FnOnce(&KeyRow) -> Result<(Option<Secret>, KeySettings)>,
) -> Result<()> {
    let live = app.keys.load().get(id).map(|key| key.live.clone());
    let _turn = match &live {
        Some(live) => Some(live.turn.lock().await),
        None => None,
    };
    let row = find(app, id).await?;
    let (key, settings) = change(&row)?;
    key_input::check_references(&keys::referable(&app.store).await?, &row.settings, &settings)?;
    if let Some(live) = &live {
        quota::give_back(&app.store, live).await?;
        // A limit set now is compared with what the database counts.
        app.store.flush().await;
    }
    keys::update(&app.store, id, key.as_ref(), &settings).await.map_err(conflict)?;
    Ok(app.publish_keys().await?)
}

async fn reset(app: &App, id: i64) -> Result<()> {
    let known = app.keys.load().get(id).map(|key| key.live.clone());
    // A key that does not open any more has a row, and nobody who could use it.
    let live = known.unwrap_or_else(|| KeyLive::new(id, 0, 0.0, None).into());
    quota::reset(&app.store, &live).await.map_err(missing)
}

async fn item(app: &App, id: i64) -> Result<Response> {
    let item = KeyItem::new(app, &find(app, id).await?);
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "item": item })))
}

/// The row of a key, or 404.
pub async fn find(app: &App, id: i64) -> Result<KeyRow> {
    keys::get(&app.store, id).await?.ok_or_else(not_found)
}

fn not_found() -> AdminError {
    AdminError::not_found("Downstream key")
}

fn missing(error: store::Error) -> AdminError {
    if error == store::Error::NotFound { not_found() } else { error.into() }
}

fn conflict(error: store::Error) -> AdminError {
    match error {
        store::Error::Conflict(_) => AdminError::conflict("A downstream key with this value already exists"),
        other => missing(other),
    }
}
