//! `/api/sites/{id}/probe-now` and `…/probe-stream`: probes models of a site with the first active account that has
//! one of them and a usable key, and disables there the models that are not served.
//!
//! ```text
//! event: start     scope, modelsCount, modelsToProbe      what will be probed
//! event: model     one model and its result
//! event: action    a model that is disabled
//! event: complete  what `probe-now` answers               event: error  a message, and no more
//! ```

use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::schema;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid};
use crate::admin::require_id;
use crate::admin::routes::rebuild::rebuild_best_effort;
use crate::http::{self, Request, Response, event_stream};
use crate::ids::SiteId;
use crate::jobs::Jobs;
use crate::jobs::probe::after_refresh::{self, ProbeScope, ProbeStep};
use crate::jobs::probe::result::PostProbe;
use crate::jobs::rebuild_scope::Scope;
use crate::store::Store;
use crate::store::accounts::{self, AccountRow, AccountStatus};
use crate::store::availability;
use crate::store::sites::{self, ProbedModels, SiteRow, SiteStatus};

/// Maximum number of events that wait for a slow reader.
const MAX_WAITING_EVENTS: usize = 32;

/// `POST /api/sites/{id}/probe-now`
pub async fn now(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let scope = scope(&Fields::of(&schema::PROBE, request.json_object().await?))?;
    let subject = Subject::of(&admin.core.store, id, &scope).await?;
    let probed = subject.probe(&admin.jobs, &scope, |_| {}).await?;
    Ok(http::json(StatusCode::OK, &view(&probed)))
}

/// `GET /api/sites/{id}/probe-stream`: probes the models and streams each step. A client that disconnects stops the
/// probe.
pub async fn stream(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let id = require_id(&request)?;
    let scope = scope(&of_query(&request)?)?;
    let jobs = admin.jobs.clone();
    let probe = |events| async move { stream_steps(&jobs, id, &scope, &events).await };
    Ok(event_stream::of_work(&admin.core.background, "the probe of a site", MAX_WAITING_EVENTS, probe))
}

async fn stream_steps(jobs: &Arc<Jobs>, id: SiteId, scope: &ProbeScope, events: &mpsc::Sender<Bytes>) {
    let subject = match Subject::of(&jobs.core.store, id, scope).await {
        Ok(subject) => subject,
        Err(refusal) => return send(events, "error", &json!({ "message": refusal.message() })).await,
    };
    let (steps, mut seen) = mpsc::unbounded_channel();
    let probing = async {
        // The sender is dropped with the probe, which ends the loop below.
        let steps = steps;
        subject.probe(jobs, scope, |step| drop(steps.send(event_of(scope, &step)))).await
    };
    let telling = async {
        while let Some((name, data)) = seen.recv().await {
            send(events, name, &data).await;
        }
    };
    let (probed, ()) = tokio::join!(probing, telling);
    match probed {
        Ok(probed) => send(events, "complete", &view(&probed)).await,
        Err(refusal) => send(events, "error", &json!({ "message": refusal.message() })).await,
    }
}

fn event_of(scope: &ProbeScope, step: &ProbeStep<'_>) -> (&'static str, Value) {
    match step {
        ProbeStep::Begins { known, chosen } => {
            ("start", json!({ "scope": scope.models, "modelsCount": known, "modelsToProbe": chosen }))
        }
        ProbeStep::Tried(detail) => ("model", json!(detail)),
        ProbeStep::SwitchedOff(model) => ("action", json!({ "modelName": model, "action": "disabled" })),
    }
}

async fn send(events: &mpsc::Sender<Bytes>, name: &str, data: &Value) {
    // If sending fails, the client is gone and the probe is about to be dropped.
    let _ = events.send(event_stream::event(name, data)).await;
}

fn view(probed: &PostProbe) -> Value {
    let mut view = json!(probed);
    view["success"] = true.into();
    view
}

fn scope(fields: &Fields) -> Result<ProbeScope> {
    Ok(ProbeScope {
        models: fields.one_of("scope", ProbedModels::parse)?.unwrap_or(ProbedModels::Single),
        model: fields.text("modelName")?.unwrap_or_default().trim().to_owned(),
        threshold_ms: fields.integer("latencyThresholdMs")?.unwrap_or(0),
    })
}

fn of_query(request: &Request) -> Result<Fields> {
    let mut fields = Map::new();
    for name in ["scope", "modelName"] {
        if let Some(text) = request.query.get(name) {
            fields.insert(name.to_owned(), text.into());
        }
    }
    if let Some(text) = request.query.get("latencyThresholdMs") {
        let refused = |_| Invalid::field("latencyThresholdMs", "non-negative integer");
        fields.insert("latencyThresholdMs".to_owned(), text.trim().parse::<i64>().map_err(refused)?.into());
    }
    Ok(Fields::of(&schema::PROBE, fields))
}

/// The site, account and models to probe.
struct Subject {
    site: SiteRow,
    account: AccountRow,
    models: Vec<String>,
}

impl Subject {
    async fn of(store: &Store, id: SiteId, scope: &ProbeScope) -> Result<Self> {
        let missing =
            |what: &str| AdminError::new(StatusCode::UNPROCESSABLE_ENTITY, format!("{what} not found"));
        let site = sites::get(store, id).await?;
        let site =
            site.filter(|site| site.status == SiteStatus::Active).ok_or_else(|| missing("Active site"))?;
        // A misspelt name must not probe another model, which might then be disabled.
        let is_wanted = |model: &String| {
            scope.models == ProbedModels::All
                || scope.model.is_empty()
                || model.eq_ignore_ascii_case(&scope.model)
        };
        let mut active = accounts::of_site(store, id).await?;
        active.retain(|account| account.status == AccountStatus::Active);
        let mut lacking =
            if active.is_empty() { "Active account" } else { "Active account with a usable key" };
        for account in active {
            if after_refresh::credential_of(store, &account).await?.is_none() {
                continue;
            }
            let rows = availability::of_account(store, account.id).await?;
            let models: Vec<String> = rows.into_iter().map(|row| row.model_name).collect();
            if models.iter().any(is_wanted) {
                return Ok(Self { site, account, models });
            }
            lacking = "Model";
        }
        Err(missing(lacking))
    }

    /// Probes the models; rebuilds the routes if some of them were disabled.
    async fn probe(
        &self,
        jobs: &Arc<Jobs>,
        scope: &ProbeScope,
        seen: impl FnMut(ProbeStep<'_>),
    ) -> Result<PostProbe> {
        let Self { site, account, models } = self;
        let probed = after_refresh::run_seen(&jobs.core, site, account, models, scope, seen).await?;
        if probed.unsupported > 0 {
            rebuild_best_effort(jobs, Scope::of_sites(&jobs.core.store, &[site.id]).await?).await;
        }
        Ok(probed)
    }
}
