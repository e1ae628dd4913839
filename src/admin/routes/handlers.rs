//! `/api/routes`: the models that clients can request, and the channels that serve them.

use std::collections::HashSet;
use std::future::ready;
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::fill::{check_sources, fill, followers};
use super::input::RouteInput;
use super::schema;
use super::view::{ListedRoute, LiteRoute, RouteIndex, live};
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::Fields;
use crate::admin::require_id;
use crate::admin::tasks::queued;
use crate::http::{self, Request, Response};
use crate::ids::{ChannelId, RouteId, UnitId};
use crate::jobs::models::refresh;
use crate::jobs::rebuild;
use crate::jobs::run_status::RunStatus;
use crate::jobs::tasks::{Done, Outcome, Spec, Started, TaskEvents, TaskProgress};
use crate::store::route_edits::{self, Dependents};
use crate::store::route_units::{self, MemberRow};
use crate::store::routes::{self, ChannelRow};

/// The key by which only one run of this task exists at a time, whoever started it.
pub const REFRESH_KEY: &str = "refresh-models-and-rebuild-routes";

/// `GET /api/routes/lite`
pub async fn lite(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let rows = routes::list(&admin.core.store).await?;
    let listed: Vec<_> = rows.iter().map(LiteRoute::from).collect();
    Ok(http::json(StatusCode::OK, &listed))
}

/// `POST /api/routes`
pub async fn create(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let input = RouteInput::read(&Fields::of(&schema::CREATE, request.json_object().await?))?;
    let draft = input.create()?;
    let _turn = admin.core.route_edits.lock().await;
    let route_index = RouteIndex::read(&admin.core.store).await?;
    check_sources(&route_index, &draft)?;
    let refill = match draft.sources {
        Some(_) => None,
        None => Some(fill(&admin.core, &route_index, None, &draft.model_pattern).await?),
    };
    let dependents = Dependents { refill, followers: followers(&route_index, &draft, None) };
    let id = route_edits::create(&admin.core.store, &draft, dependents).await?;
    admin.core.publish().await?;
    answer(&admin, id).await
}

/// `PUT /api/routes/{id}`: fields that are not sent stay.
pub async fn update(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let fields = Fields::of(&schema::UPDATE, request.json_object().await?);
    let input = RouteInput::read(&fields)?;
    let _turn = admin.core.route_edits.lock().await;
    // Sources, followers and a new pattern concern other routes too.
    let is_alone = !["sourceRouteIds", "routingStrategy", "modelPattern"].iter().any(|name| fields.has(name));
    let route_index = if is_alone {
        RouteIndex::of(&admin.core.store, &[id], &[]).await?
    } else {
        RouteIndex::read(&admin.core.store).await?
    };
    let row = route_index.route(id).ok_or_else(|| AdminError::not_found("Route"))?;
    let draft = input.change(row)?;
    let mut dependents = Dependents::default();
    if fields.has("sourceRouteIds") {
        check_sources(&route_index, &draft)?;
    }
    if fields.has("sourceRouteIds") || fields.has("routingStrategy") {
        dependents.followers = followers(&route_index, &draft, Some(row));
    }
    if draft.sources.is_none() && draft.model_pattern != row.model_pattern.trim() {
        dependents.refill = Some(fill(&admin.core, &route_index, Some(id), &draft.model_pattern).await?);
    }
    route_edits::update(&admin.core.store, id, &draft, dependents).await?;
    admin.core.publish().await?;
    answer(&admin, id).await
}

/// `DELETE /api/routes/{id}`: deletes a route; also succeeds if there is none.
pub async fn delete(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let _turn = admin.core.route_edits.lock().await;
    route_edits::delete(&admin.core.store, &[id]).await?;
    admin.core.publish().await?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true })))
}

/// `POST /api/routes/batch`: changes all the given routes in one transaction; unknown ids are ignored.
pub async fn batch(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::BATCH, request.json_object().await?);
    let ids = fields.ids()?;
    let action = fields.text("action")?.unwrap_or_default();
    let _turn = admin.core.route_edits.lock().await;
    let updated = match action {
        "enable" => route_edits::set_enabled(&admin.core.store, &ids, true).await?,
        "disable" => route_edits::set_enabled(&admin.core.store, &ids, false).await?,
        "delete" => route_edits::delete(&admin.core.store, &ids).await?,
        _ => return Err(fields.unexpected("action").into()),
    };
    admin.core.publish().await?;
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "updatedCount": updated })))
}

/// Builds the response that shows the route as it is now.
async fn answer(admin: &Admin, id: RouteId) -> Result<Response> {
    let route_index = RouteIndex::of(&admin.core.store, &[id], &[]).await?;
    let route = route_index.route(id).ok_or_else(|| AdminError::not_found("Route"))?;
    Ok(http::json(StatusCode::OK, &ListedRoute::new(admin, &route_index, route)))
}

/// `POST /api/routes/{id}/cooldown/clear`: clears the failures and cooldowns of the route's channels, and the health of
/// their sites and models.
pub async fn clear_cooldown(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let route_index = RouteIndex::of(&admin.core.store, &[id], &[]).await?;
    let route = route_index.route(id).ok_or_else(|| AdminError::not_found("Route"))?;
    let channels: Vec<&ChannelRow> = route_index.channels(route).collect();
    let unit_ids: HashSet<UnitId> =
        channels.iter().filter_map(|channel| channel.oauth_route_unit_id).collect();
    let mut units =
        if unit_ids.is_empty() { Vec::new() } else { route_units::list(&admin.core.store).await? };
    units.retain(|unit| unit_ids.contains(&unit.id));
    let members = units.into_iter().flat_map(|unit| unit.members).collect();
    clear_cooldowns(&admin, &route_index, channels, members).await
}

/// `POST /api/accounts/{id}/clear-cooldown`: does the same as [`clear_cooldown`] for all channels of an account,
/// including those that it shares with the other members of a route unit.
pub async fn clear_cooldown_of_account(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let route_index = RouteIndex::read(&admin.core.store).await?;
    route_index.account(id).ok_or_else(|| AdminError::not_found("Account"))?;
    let store = &admin.core.store;
    let unit = match route_units::of_accounts(store, &[id]).await?.get(&id) {
        Some(unit) => route_units::get(store, *unit).await?,
        None => None,
    };
    let shared = unit.iter().flat_map(|unit| route_index.channels_of_unit(unit.id));
    let own = route_index.channels_of_account(id).filter(|channel| channel.oauth_route_unit_id.is_none());
    let channels = own.chain(shared).collect();
    let members = unit.into_iter().flat_map(|unit| unit.members);
    clear_cooldowns(
        &admin,
        &route_index,
        channels,
        members.filter(|member| member.account_id == id).collect(),
    )
    .await
}

async fn clear_cooldowns(
    admin: &Admin,
    route_index: &RouteIndex,
    channels: Vec<&ChannelRow>,
    members: Vec<MemberRow>,
) -> Result<Response> {
    let ids: Vec<ChannelId> = channels.iter().map(|channel| channel.id).collect();
    // Failures that are still queued must not reach the store after the clearing.
    admin.core.store.flush().await;
    routes::clear_failures(&admin.core.store, &ids).await?;
    let member_ids: Vec<_> = members.iter().map(|member| member.id).collect();
    route_units::clear_failures(&admin.core.store, &member_ids).await?;
    for member in &members {
        admin.core.live.member(member.id, || member.stats.totals()).clear_cooldown();
    }
    for channel in channels {
        live(&admin.core, channel).clear_cooldown();
        if let Some(account) = route_index.account(channel.account_id) {
            admin.core.live.site(account.site_id).forget(route_index.source_model(channel));
        }
    }
    admin.jobs.health_saver.nudge();
    admin.decisions().forget_channels(&admin.core.snapshot.load(), &ids);
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "clearedChannels": ids.len() })))
}

/// `POST /api/routes/rebuild`
pub async fn rebuild(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::REBUILD, request.json_object().await?);
    let refresh_models = fields.bool("refreshModels")?;
    let wait = fields.bool("wait")?.unwrap_or(false);
    if refresh_models == Some(false) {
        let counts = rebuild::rebuild(&admin.jobs).await?;
        return Ok(http::json(StatusCode::OK, &json!({ "success": true, "rebuild": counts })));
    }
    if wait {
        let (refresh, counts) = refresh::refresh_all_and_rebuild(&admin.jobs)
            .await
            .map_err(|error| AdminError::internal("refreshing all models", error))?;
        let answer = json!({ "success": true, "refresh": refresh, "rebuild": counts });
        return Ok(http::json(StatusCode::OK, &answer));
    }
    Ok(queued(&start_refresh(&admin, "route")))
}

/// Starts a task of this kind that reads the models of all accounts and rebuilds the routes.
pub fn start_refresh(admin: &Arc<Admin>, kind: &'static str) -> Started {
    start_refresh_after(admin, kind, ready(()))
}

/// Starts the task of [`start_refresh`], whose work begins after `before`.
pub fn start_refresh_after(
    admin: &Arc<Admin>,
    kind: &'static str,
    before: impl Future<Output = ()> + Send + 'static,
) -> Started {
    let spec = Spec {
        kind,
        title: "Refresh models and rebuild routes".to_owned(),
        dedupe_key: Some(REFRESH_KEY.to_owned()),
        events: TaskEvents::Sent,
    };
    let work = admin.clone();
    admin.jobs.tasks.start(spec, |progress| async move {
        before.await;
        refresh_task(&work, &progress).await
    })
}

async fn refresh_task(admin: &Arc<Admin>, progress: &TaskProgress) -> Outcome {
    progress.log("Asking all active accounts for their models");
    let (refresh, counts) = refresh::refresh_all_and_rebuild(&admin.jobs).await?;
    admin.marketplace.clear();
    let failed = refresh.iter().filter(|outcome| outcome.status == RunStatus::Failed).count();
    let refreshed = refresh.len() - failed;
    let failures = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    let message = format!("{refreshed} account(s) refreshed{failures}, {} model(s) routed", counts.models);
    Ok(Done { message, result: json!({ "success": true, "refresh": refresh, "rebuild": counts }) })
}
