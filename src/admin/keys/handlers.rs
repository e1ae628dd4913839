//! `/api/downstream-keys`: list, create, update, delete, reset, reveal, batch.
//!
//! A change holds the key's turn: nothing is reserved against a limit while it changes, and reservations under the old
//! limit are released first.

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::input;
use super::input::Metadata;
use super::schema;
use super::view::KeyItem;
use crate::admin::Admin;
use crate::admin::batch::BatchResult;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::Fields;
use crate::admin::{require_id, secrets};
use crate::core::Core;
use crate::http::{self, Request, Response};
use crate::ids::KeyId;
use crate::keys::KeyLive;
use crate::money::Usd;
use crate::store::Store;
use crate::store::keys::{self, KeyRow, KeySettings};
use crate::store::{self, Secret, quota};

/// Maximum number of keys that one batch changes; more are ignored.
const MAX_BATCH: usize = 500;

/// `GET /api/downstream-keys`
pub async fn list(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let rows = keys::list(&admin.core.store).await?;
    let items: Vec<_> = rows.iter().map(|row| KeyItem::new(&admin.core, row)).collect();
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "items": items })))
}

/// `POST /api/downstream-keys`: creates a key; apart from the reveal, the only response that shows the whole key.
pub async fn create(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::CREATE, request.json_object().await?);
    let (key, settings) = input::for_create(&fields)?;
    input::check_references(&keys::referable(&admin.core.store).await?, &KeySettings::default(), &settings)?;
    let id = keys::insert(&admin.core.store, &key, &settings).await.map_err(conflict)?;
    admin.core.publish_keys().await?;
    let row = find(&admin.core.store, id).await?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "item": KeyItem::revealed(&admin.core, &row) })))
}

/// `PUT /api/downstream-keys/{id}`
pub async fn update(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let fields = Fields::of(&schema::UPDATE, request.json_object().await?);
    change(&admin.core, id, Extent::Everything, |row| {
        // A client that sends the mask back changes nothing.
        let echo = |sent: &str| secrets::is_echo(sent, row.key.as_ref().map(Secret::expose));
        let key = match fields.text("key")? {
            Some(text) if !echo(text) => Some(input::key(text)?),
            _ => None,
        };
        Ok((key, input::apply(&fields, row.settings.clone())?))
    })
    .await?;
    admin.core.publish_keys().await?;
    item(&admin.core, id).await
}

/// `DELETE /api/downstream-keys/{id}`
pub async fn delete(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    keys::delete(&admin.core.store, id).await.map_err(missing)?;
    admin.core.publish_keys().await?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true })))
}

/// `POST /api/downstream-keys/{id}/reset-usage`
pub async fn reset_usage(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    reset(&admin.core, id).await?;
    item(&admin.core, id).await
}

/// `GET /api/downstream-keys/{id}/value`: shows the key in full, to be copied.
pub async fn value(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let row = find(&admin.core.store, require_id(&request)?).await?;
    let key = row.key.as_ref().ok_or_else(|| {
        AdminError::conflict("The stored key cannot be decrypted with the current secret: create a new key")
    })?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "id": row.id, "key": key.expose() })))
}

/// The action that a batch applies to each key.
enum Action {
    Enable(bool),
    Delete,
    ResetUsage,
    Metadata(Metadata),
}

/// `POST /api/downstream-keys/batch`
pub async fn batch(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::BATCH, request.json_object().await?);
    let ids = fields.ids()?;
    let action = match fields.text("action")? {
        Some("enable") => Action::Enable(true),
        Some("disable") => Action::Enable(false),
        Some("delete") => Action::Delete,
        Some("resetUsage") => Action::ResetUsage,
        Some("updateMetadata") => Action::Metadata(Metadata::read(&fields)?),
        _ => return Err(fields.unexpected("action").into()),
    };
    let mut result = BatchResult::default();
    for id in ids.into_iter().take(MAX_BATCH) {
        result.add(id, apply(&admin.core, id, &action).await);
    }
    admin.core.publish_keys().await?;
    Ok(result.into_response())
}

async fn apply(core: &Core, id: KeyId, action: &Action) -> Result<()> {
    match action {
        Action::Delete => keys::delete(&core.store, id).await.map_err(missing),
        Action::ResetUsage => reset(core, id).await,
        Action::Enable(enabled) => {
            change(core, id, Extent::Description, |row| {
                Ok((None, KeySettings { enabled: *enabled, ..row.settings.clone() }))
            })
            .await
        }
        Action::Metadata(metadata) => {
            change(core, id, Extent::Description, |row| Ok((None, metadata.applied(row.settings.clone()))))
                .await
        }
    }
}

/// What a change of a key may concern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Everything,
    /// Neither limits nor references.
    Description,
}

/// Changes one key while holding its turn. The change holds when the keys are published.
async fn change(
    core: &Core,
    id: KeyId,
    extent: Extent,
    changed: impl FnOnce(&KeyRow) -> Result<(Option<Secret>, KeySettings)>,
) -> Result<()> {
    let live = core.keys.load().get(id).map(|key| key.live.clone());
    let _turn = match &live {
        Some(live) => Some(live.turn.lock().await),
        None => None,
    };
    let row = find(&core.store, id).await?;
    let (key, settings) = changed(&row)?;
    if extent == Extent::Everything {
        input::check_references(&keys::referable(&core.store).await?, &row.settings, &settings)?;
        if let Some(live) = &live {
            quota::give_back(&core.store, live).await?;
            // The new limit is compared with the usage that the database has.
            core.store.flush().await;
        }
    }
    keys::update(&core.store, id, key.as_ref(), &settings).await.map_err(conflict)
}

async fn reset(core: &Core, id: KeyId) -> Result<()> {
    let known = core.keys.load().get(id).map(|key| key.live.clone());
    // A key whose secret cannot be opened has a row, but nobody can use it.
    let live = known.unwrap_or_else(|| KeyLive::new(id, 0, Usd::ZERO, None).into());
    quota::reset(&core.store, &live).await.map_err(missing)
}

async fn item(core: &Core, id: KeyId) -> Result<Response> {
    let item = KeyItem::new(core, &find(&core.store, id).await?);
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "item": item })))
}

/// Returns the row of a key; fails with 404 if there is none.
pub async fn find(store: &Store, id: KeyId) -> Result<KeyRow> {
    keys::get(store, id).await?.ok_or_else(not_found)
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
