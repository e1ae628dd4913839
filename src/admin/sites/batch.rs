//! `POST /api/sites/batch`.

use std::sync::Arc;

use super::handlers::{find, status_event};
use super::schema;
use crate::admin::Admin;
use crate::admin::batch::BatchResult;
use crate::admin::errors::Result;
use crate::admin::input::Fields;
use crate::admin::routes::rebuild::rebuild_best_effort;
use crate::http::{Request, Response};
use crate::ids::SiteId;
use crate::jobs::models::coverage::{Enabled, cover_undiscovered};
use crate::jobs::rebuild_scope::Scope;
use crate::store::Store;
use crate::store::events;
use crate::store::sites::{self, SitePatch, SiteStatus};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Action {
    SetStatus(SiteStatus),
    Delete,
    SetSystemProxy(bool),
}

/// `POST /api/sites/batch`: applies one action to sites, one after the other, each in its own transaction.
pub async fn batch(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::BATCH, request.json_object().await?);
    let ids = fields.ids()?;
    let action = match fields.text("action")? {
        Some("enable") => Action::SetStatus(SiteStatus::Active),
        Some("disable") => Action::SetStatus(SiteStatus::Disabled),
        Some("delete") => Action::Delete,
        Some("enableSystemProxy") => Action::SetSystemProxy(true),
        Some("disableSystemProxy") => Action::SetSystemProxy(false),
        _ => return Err(fields.unexpected("action").into()),
    };
    let scope = Scope::of_sites(&admin.core.store, &ids).await?;
    let (mut result, mut enabled) = (BatchResult::default(), Vec::new());
    for id in ids {
        let applied = apply(&admin.core.store, id, action).await;
        enabled.extend(matches!(applied, Ok(Some(SiteStatus::Active))).then_some(id));
        result.add(id, applied.map(drop));
    }
    admin.core.publish().await?;
    if !matches!(action, Action::SetSystemProxy(_)) {
        rebuild_best_effort(&admin.jobs, scope).await;
    }
    if !enabled.is_empty() {
        cover_undiscovered(&admin.jobs, Enabled::Sites(enabled));
    }
    Ok(result.into_response())
}

/// Returns the status that the site changed to; `None` if its status did not change.
async fn apply(store: &Store, id: SiteId, action: Action) -> Result<Option<SiteStatus>> {
    let site = find(store, id).await?;
    let patch = match action {
        Action::Delete => {
            sites::delete(store, id).await?;
            return Ok(None);
        }
        Action::SetStatus(status) => SitePatch { status: Some(status), ..SitePatch::default() },
        Action::SetSystemProxy(on) => SitePatch { use_system_proxy: Some(on), ..SitePatch::default() },
    };
    let moved = sites::update(store, id, patch).await?;
    if let Some(status) = moved {
        events::insert(store, status_event(&site, status)).await?;
    }
    Ok(moved)
}
