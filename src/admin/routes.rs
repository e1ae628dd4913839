//! `/api/routes`: which models clients can ask for, and the channels that serve them
//! (admin-ops-2.md 12 and 15).

use std::sync::Arc;

use hyper::StatusCode;
use serde_json::json;

use super::errors::{AdminError, Result};
use super::input::Fields;
use super::route_view::{ListedRoute, LiteRoute, RouteBook, RouteSummary, live};
use super::tasks::queued;
use super::{guard, require_id};
use crate::app::App;
use crate::http::{self, Request, Response};
use crate::jobs::tasks::{Done, Outcome, Progress, Spec};
use crate::jobs::{model_refresh, rebuild};
use crate::limits::bucket;
use crate::store::routes;

/// One run at a time, whatever asked for it.
pub const REFRESH_KEY: &str = "refresh-models-and-rebuild-routes";

/// `GET /api/routes`
pub async fn list(app: Arc<App>, request: Request) -> Result<Response> {
    guard(&app, &request, &bucket::ROUTES_READ)?;
    let book = RouteBook::read(&app).await?;
    let listed: Vec<_> = book.routes().map(|route| ListedRoute::new(&app, &book, route)).collect();
    Ok(http::json(StatusCode::OK, &listed))
}

/// `GET /api/routes/summary`
pub async fn summary(app: Arc<App>, request: Request) -> Result<Response> {
    guard(&app, &request, &bucket::ROUTES_SUMMARY_READ)?;
    let book = RouteBook::read(&app).await?;
    let listed: Vec<_> = book.routes().map(|route| RouteSummary::new(&book, route)).collect();
    Ok(http::json(StatusCode::OK, &listed))
}

/// `GET /api/routes/lite`
pub async fn lite(app: Arc<App>, _request: Request) -> Result<Response> {
    let rows = routes::list(&app.store).await?;
    let listed: Vec<_> = rows.iter().map(LiteRoute::from).collect();
    Ok(http::json(StatusCode::OK, &listed))
}

/// `POST /api/routes/{id}/cooldown/clear`: the channels of the route are as if they had never failed.
pub async fn clear_cooldown(app: Arc<App>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let book = RouteBook::read(&app).await?;
    let route = book.route(id).ok_or_else(|| AdminError::not_found("Route"))?;
    let channels: Vec<_> = book.channels(route).collect();
    let ids: Vec<i64> = channels.iter().map(|channel| channel.id).collect();
    // Failures on their way to the store must not arrive there after the clearing.
    app.store.flush().await;
    routes::clear_failures(&app.store, &ids).await?;
    for channel in channels {
        live(&app, channel).clear_cooldown();
    }
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "clearedChannels": ids.len() })))
}

/// `POST /api/routes/rebuild`
pub async fn rebuild(app: Arc<App>, mut request: Request) -> Result<Response> {
    let fields = Fields::from(request.json_object().await?);
    let refresh_models = fields.bool("refreshModels")?;
    let wait = fields.bool("wait")?.unwrap_or(false);
    if refresh_models == Some(false) {
        let counts = rebuild::rebuild(&app).await?;
        return Ok(http::json(StatusCode::OK, &json!({ "success": true, "rebuild": counts })));
    }
    if wait {
        let (refresh, counts) = model_refresh::refresh_all_and_rebuild(&app)
            .await
            .map_err(|error| AdminError::internal("refreshing all models", error))?;
        let answer = json!({ "success": true, "refresh": refresh, "rebuild": counts });
        return Ok(http::json(StatusCode::OK, &answer));
    }
    let spec = Spec {
        kind: "route",
        title: "Refresh models and rebuild routes".to_owned(),
        dedupe_key: Some(REFRESH_KEY.to_owned()),
    };
    let work = app.clone();
    Ok(queued(&app.tasks.start(spec, |progress| async move { refresh_task(&work, &progress).await })))
}

async fn refresh_task(app: &Arc<App>, progress: &Progress) -> Outcome {
    progress.log("Asking all active accounts for their models");
    let (refresh, counts) = model_refresh::refresh_all_and_rebuild(app).await?;
    let message = format!("{} account(s) refreshed, {} model(s) routed", refresh.len(), counts.models);
    Ok(Done { message, result: json!({ "success": true, "refresh": refresh, "rebuild": counts }) })
}
