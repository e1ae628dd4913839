//! `/api/routes/decision`: explains which channel a request would be sent to, and why.
//!
//! The answer comes from memory by the selection's own steps; nothing is sent and no cooldown changes. On request an
//! answer is cached with its route until something changes that decides about the route: a cached answer carries a
//! fingerprint of the route, and is no longer shown once that has changed. So code that changes routes need not
//! invalidate anything, and groups follow the changes of their sources.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::cache::SharedDecision;
use super::schema;
use super::view::Decision;
use crate::admin::Admin;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid, exact_id};
use crate::admin::tasks::queued;
use crate::http::{self, Request, Response};
use crate::ids::{AccountId, RouteId, SiteId};
use crate::jobs::prices;
use crate::jobs::tasks::{Done, Outcome, Spec, TaskEvents, TaskProgress};
use crate::routing::{Match, Policy, Route, SelectionQuery, Snapshot, serving};
use crate::time::{Millis, now_ms};

/// Maximum number of items in one request; more are ignored.
const MAX_ITEMS: usize = 500;

/// The number of explanations after which the thread is yielded to others.
const YIELD_EVERY: usize = 20;

/// `GET /api/routes/decision?model=`
pub async fn get(admin: Arc<Admin>, request: Request) -> Result<Response> {
    let model = request.query.get("model").unwrap_or_default();
    let model = model.trim();
    if model.is_empty() {
        return Err(Invalid::field("model", "non-empty string").into());
    }
    let decision = Explainer::new(&admin).by_model(model);
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "decision": decision })))
}

/// `POST /api/routes/decision/batch`
pub async fn batch(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::MODELS, request.json_object().await?);
    let models = items(&fields, "models", "non-empty array of strings", name)?;
    refresh_prices(&admin, &fields, |explainer| {
        accounts_behind(models.iter().map(|model| explainer.find(model)))
    })
    .await;
    let persist = flag(&fields, "persistSnapshots");
    let mut decisions = BTreeMap::new();
    for (number, model) in models.into_iter().enumerate() {
        pause(number).await;
        let explainer = Explainer::new(&admin);
        let decision = Arc::new(explainer.by_model(&model));
        if persist {
            let exact = |route: &&Arc<Route>| route.is_exact() && route.pattern.as_str() == model;
            for route in explainer.snapshot.routes().iter().filter(exact) {
                admin.decisions().store(&explainer.snapshot, route, decision.clone(), explainer.now);
            }
        }
        decisions.insert(model, SharedDecision(decision));
    }
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "decisions": decisions })))
}

/// `POST /api/routes/decision/by-route/batch`: explains the choice among the given route's own channels.
pub async fn by_route(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::BY_ROUTE, request.json_object().await?);
    let items = items(&fields, "items", "non-empty array of {routeId, model}", |item| {
        Some((exact_id(item.get("routeId")?)?, name(item.get("model")?)?))
    })?;
    refresh_prices(&admin, &fields, |explainer| {
        accounts_behind(items.iter().map(|(id, model)| explainer.snapshot.lookup_on(*id, model)))
    })
    .await;
    let persist = flag(&fields, "persistSnapshots");
    let mut decisions: BTreeMap<RouteId, BTreeMap<String, SharedDecision>> = BTreeMap::new();
    for (number, (route_id, model)) in items.into_iter().enumerate() {
        pause(number).await;
        let explainer = Explainer::new(&admin);
        let decision = explainer.on_route(route_id, &model);
        if persist {
            explainer.store(route_id, &decision);
        }
        decisions.entry(route_id).or_default().insert(model, SharedDecision(decision));
    }
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "decisions": decisions })))
}

/// `POST /api/routes/decision/route-wide/batch`: explains routes with all their channels, each with its own model.
pub async fn route_wide(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::ROUTES, request.json_object().await?);
    let ids = items(&fields, "routeIds", "non-empty array of positive integers", exact_id)?;
    refresh_prices(&admin, &fields, |explainer| {
        accounts_behind(ids.iter().map(|id| explainer.snapshot.whole_route(*id)))
    })
    .await;
    let persist = flag(&fields, "persistSnapshots");
    let mut decisions = BTreeMap::new();
    for (number, route_id) in ids.into_iter().enumerate() {
        pause(number).await;
        let explainer = Explainer::new(&admin);
        let decision = explainer.whole_route(route_id);
        if persist {
            explainer.store(route_id, &decision);
        }
        decisions.insert(route_id, SharedDecision(decision));
    }
    Ok(http::json(StatusCode::OK, &json!({ "success": true, "decisions": decisions })))
}

/// `POST /api/routes/decision/refresh`: starts a task that explains every enabled route and caches the answers.
pub async fn refresh(admin: Arc<Admin>, _request: Request) -> Result<Response> {
    let spec = Spec {
        kind: "route-decision.refresh",
        title: "Refresh route decisions".to_owned(),
        dedupe_key: Some("refresh-route-decision-snapshots".to_owned()),
        events: TaskEvents::Sent,
    };
    let work = admin.clone();
    Ok(queued(&admin.jobs.tasks.start(spec, |progress| async move { refresh_task(&work, &progress).await })))
}

async fn refresh_task(admin: &Admin, progress: &TaskProgress) -> Outcome {
    let snapshot = admin.core.snapshot.load_full();
    let enabled = || snapshot.routes().iter().filter(|route| route.enabled);
    let named: Vec<_> = enabled().filter(|route| route.is_exact()).collect();
    let groups: Vec<_> = enabled().filter(|route| route.is_group()).collect();
    let patterns: Vec<_> = enabled().filter(|route| !route.is_exact() && !route.is_group()).collect();
    progress.log(format!("Explaining {} exact model(s)", named.len()));
    for (number, route) in named.iter().enumerate() {
        pause(number).await;
        let explainer = Explainer::new(admin);
        explainer.store(route.id, &explainer.on_route(route.id, route.pattern.as_str()));
    }
    progress.log(format!("Explaining {} group(s)", groups.len()));
    for (number, route) in groups.iter().enumerate() {
        pause(number).await;
        let explainer = Explainer::new(admin);
        explainer.store(route.id, &explainer.on_route(route.id, route.public_name()));
    }
    progress.log(format!("Explaining {} wildcard route(s)", patterns.len()));
    for (number, route) in patterns.iter().enumerate() {
        pause(number).await;
        let explainer = Explainer::new(admin);
        explainer.store(route.id, &explainer.whole_route(route.id));
    }
    let message = format!(
        "{} exact model(s), {} group(s) and {} wildcard route(s) explained",
        named.len(),
        groups.len(),
        patterns.len()
    );
    let result = json!({
        "exactModelCount": named.len(),
        "groupCount": groups.len(),
        "wildcardRouteCount": patterns.len(),
    });
    Ok(Done { message, result })
}

/// Reads the price lists of the accounts concerned first if the request wants that, each once.
async fn refresh_prices(
    admin: &Admin,
    fields: &Fields,
    concerned: impl FnOnce(&Explainer<'_>) -> Vec<(SiteId, AccountId)>,
) {
    if flag(fields, "refreshPricingCatalog") {
        let accounts = concerned(&Explainer::new(admin));
        prices::refresh_now(&admin.jobs, accounts).await;
    }
}

/// Yields the thread to others between explanations.
async fn pause(number: usize) {
    if number % YIELD_EVERY == YIELD_EVERY - 1 {
        tokio::task::yield_now().await;
    }
}

/// Explains decisions as of one moment, for a key without restrictions.
struct Explainer<'a> {
    admin: &'a Admin,
    snapshot: Arc<Snapshot>,
    policy: Policy,
    now: Millis,
}

// === impl Explainer ===

impl<'a> Explainer<'a> {
    fn new(admin: &'a Admin) -> Self {
        Self { admin, snapshot: admin.core.snapshot.load_full(), policy: Policy::default(), now: now_ms() }
    }

    fn by_model(&self, model: &str) -> Decision {
        self.explain(self.find(model), model)
    }

    fn find(&self, model: &str) -> Option<Match<'_>> {
        self.snapshot.lookup(model, &self.policy)
    }

    fn on_route(&self, route_id: RouteId, model: &str) -> Arc<Decision> {
        Arc::new(self.explain(self.snapshot.lookup_on(route_id, model), model))
    }

    fn whole_route(&self, route_id: RouteId) -> Arc<Decision> {
        let found = self.snapshot.whole_route(route_id);
        let model = found.map_or("", |found| found.route.pattern.as_str());
        Arc::new(self.explain(found, model))
    }

    fn explain(&self, found: Option<Match<'_>>, model: &str) -> Decision {
        let Some(found) = found else { return Decision::unmatched(model) };
        let query = SelectionQuery {
            load: &|channel| self.admin.proxy.load_of(channel),
            max_avoidance: self.admin.core.settings.load().cooldown.max_ms,
            last_resort: self.admin.core.settings.load().last_resort,
            limit_avoid: self.admin.core.settings.load().limit_avoid,
            rotations: Some(&self.admin.core.live.rotations),
            ..SelectionQuery::new(model, &self.policy, self.now)
        };
        Decision::of(&found, &query)
    }

    /// Stores the decision, which the lists of routes then show.
    fn store(&self, route_id: RouteId, decision: &Arc<Decision>) {
        if let Some(route) = self.snapshot.route(route_id) {
            self.admin.decisions().store(&self.snapshot, route, decision.clone(), self.now);
        }
    }
}

/// Returns the accounts behind these routes, without duplicates.
fn accounts_behind<'m>(found: impl Iterator<Item = Option<Match<'m>>>) -> Vec<(SiteId, AccountId)> {
    let channels = found.flatten().flat_map(|found| &found.route.channels).flat_map(serving);
    let accounts: BTreeSet<(SiteId, AccountId)> =
        channels.map(|channel| (channel.account.site.id, channel.account.id)).collect();
    accounts.into_iter().collect()
}

/// Reads the usable items of a list, without duplicates.
fn items<T: Clone + Eq + Hash>(
    fields: &Fields,
    name: &str,
    expected: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<T>> {
    let invalid = || AdminError::from(Invalid::field(name, expected));
    let list = fields.get(name).and_then(Value::as_array).ok_or_else(invalid)?;
    let mut seen = HashSet::new();
    let usable = list.iter().filter_map(read).filter(|item| seen.insert(item.clone()));
    let usable: Vec<T> = usable.take(MAX_ITEMS).collect();
    if usable.is_empty() { Err(invalid()) } else { Ok(usable) }
}

fn name(item: &Value) -> Option<String> {
    item.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Reads a flag; anything but `true` counts as false.
fn flag(fields: &Fields, name: &str) -> bool {
    fields.get(name) == Some(&Value::Bool(true))
}
