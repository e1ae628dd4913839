//! `POST /api/oauth/import`: turns credentials that were exported elsewhere into connected accounts.
//!
//! A single credential in `data` fails the request if it is refused; for several in `items`, which may be bundles, the
//! response lists each result. All of them are stored before the routes are rebuilt, once.

use std::collections::HashMap;
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Map, Value, json};

use super::import_forms::{
    self, ENVELOPE, Import, Item, MAX_ITEMS, Unreadable, accounts_of, is_bundle, name_of,
};
use super::proxy_choice::ProxyChoice;
use super::schema;
use crate::admin::bucket;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid};
use crate::admin::{Admin, guard};
use crate::http::{self, Request, Response};
use crate::ids::{AccountId, SiteId};
use crate::jobs::Jobs;
use crate::jobs::concurrency::{Concurrency, run_concurrently};
use crate::jobs::oauth::activation::{
    ActivationError, Candidate, StoredAccount, begin_serving, store_candidate, undo,
};
use crate::jobs::rebuild::rebuild_in;
use crate::jobs::rebuild_scope::Scope;

/// The number of credentials that are tried at once; each is shown to its provider.
const CONCURRENCY: Concurrency = Concurrency { total: 4, per_site: 4 };

/// The credentials of one request.
struct Batch {
    items: Vec<Item>,
    proxy: ProxyChoice,
    /// Whether it is a single credential, whose failure is the response.
    is_single: bool,
}

/// The result for one credential.
struct Outcome {
    name: String,
    provider: Option<&'static str>,
    result: Result<AccountId, (StatusCode, String)>,
}

/// `POST /api/oauth/import`
pub async fn import(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::IMPORT, request.json_object().await?);
    guard(&admin, &request, &bucket::OAUTH_CONNECTIONS_CHANGE)?;
    guard(&admin, &request, &bucket::OAUTH_IMPORT)?;
    let batch = Batch::of(&fields)?;
    let is_single = batch.is_single;
    let (jobs, resets) = (admin.jobs.clone(), admin.core.resets());
    // The accounts that were stored get their routes even if the client stops waiting.
    let run = async move { run(&jobs, batch, resets).await };
    let outcomes = admin.core.background.run_to_completion("an import of connections", Box::pin(run)).await;
    let outcomes = outcomes.map_err(|error| AdminError::internal("importing connections", error))?;
    if let (true, [Outcome { result: Err((status, message)), .. }]) = (is_single, &outcomes[..]) {
        return Err(AdminError::new(*status, message.clone()));
    }
    let failed = outcomes.iter().filter(|outcome| outcome.result.is_err()).count();
    let body = json!({
        "success": failed == 0,
        "imported": outcomes.len() - failed,
        "skipped": 0,
        "failed": failed,
        "items": outcomes.iter().map(Outcome::view).collect::<Vec<_>>(),
    });
    Ok(http::json(StatusCode::OK, &body))
}

async fn run(jobs: &Arc<Jobs>, batch: Batch, resets: u64) -> Vec<Outcome> {
    let Batch { items, proxy, .. } = batch;
    let mut outcomes = Vec::with_capacity(items.len());
    let mut readable = Vec::new();
    for (place, item) in items.into_iter().enumerate() {
        let read = item.problem.map_or_else(|| import_forms::read(&item.object), Err);
        let claimed = read.as_ref().ok().and_then(|import| import.grant.identity.email.as_deref());
        let name = name_of(&item.object, claimed);
        let provider = read.as_ref().ok().map(|import| import.provider.id());
        let mut result = Err((StatusCode::INTERNAL_SERVER_ERROR, "the import was interrupted".to_owned()));
        match read {
            Ok(import) => {
                readable.push((SiteId::ZERO, (place, Import { proxy_url: item.proxy_url, ..import })))
            }
            Err(Unreadable(message)) => result = Err((StatusCode::BAD_REQUEST, message)),
        }
        outcomes.push(Outcome { name, provider, result });
    }
    let stored = run_concurrently(readable, CONCURRENCY, |(place, import)| {
        let (jobs, proxy) = (jobs.clone(), proxy.clone());
        async move { (place, store_candidate(&jobs, candidate(import, proxy, resets)).await) }
    });
    let mut kept: HashMap<usize, StoredAccount> = HashMap::new();
    for (place, outcome) in stored.await {
        match outcome {
            Ok(stored) => drop(kept.insert(place, stored)),
            Err(error) => outcomes[place].result = Err(refusal(error)),
        }
    }
    let ids: Vec<AccountId> = kept.values().map(|stored| stored.activated.account_id).collect();
    let rebuilt =
        if ids.is_empty() { Ok(()) } else { rebuild_in(jobs, Scope::of_accounts(ids)).await.map(drop) };
    let rebuilt = rebuilt
        .inspect_err(|error| log::error!("the routes of imported accounts could not be built: {error}"));
    for (place, stored) in kept {
        let id = stored.activated.account_id;
        outcomes[place].result = match &rebuilt {
            Ok(()) => {
                begin_serving(jobs, &stored).await;
                Ok(id)
            }
            Err(_) => {
                undo(jobs, stored).await;
                Err((StatusCode::INTERNAL_SERVER_ERROR, "the routes could not be rebuilt".to_owned()))
            }
        };
    }
    outcomes
}

/// Builds the candidate of an import. The request's proxy choice takes precedence over the bundle's.
fn candidate(import: Import, asked: ProxyChoice, resets: u64) -> Candidate {
    let proxy = match (&asked, import.proxy_url) {
        (ProxyChoice { proxy_url: None, use_system_proxy: None }, Some(url)) => {
            ProxyChoice { proxy_url: Some(Some(url)), use_system_proxy: None }
        }
        _ => asked,
    };
    let Import { provider, grant, is_disabled, .. } = import;
    Candidate { provider, grant, rebind: None, proxy, is_disabled, resets }
}

/// Returns the status and the message for a credential that was not activated.
fn refusal(error: ActivationError) -> (StatusCode, String) {
    match error {
        ActivationError::Failed(message) => (StatusCode::INTERNAL_SERVER_ERROR, message),
        ActivationError::NoSuchAccount => (StatusCode::NOT_FOUND, "oauth account not found".to_owned()),
        ActivationError::Store(error) => {
            let error = AdminError::from(error);
            (error.status(), error.message().to_owned())
        }
    }
}

// === impl Batch ===

impl Batch {
    fn of(fields: &Fields) -> Result<Self> {
        let proxy = ProxyChoice::of(fields, None)?;
        let refused = |Unreadable(message)| AdminError::from(Invalid::request(message));
        let expected = || AdminError::from(Invalid::field("items", "object array"));
        let objects: Vec<Map<String, Value>> = match fields.get("items") {
            None | Some(Value::Null) => Vec::new(),
            Some(Value::Array(items)) if items.len() > MAX_ITEMS => {
                return Err(refused(import_forms::too_many()));
            }
            Some(Value::Array(items)) => {
                let objects = items.iter().map(|item| item.as_object().cloned());
                objects.collect::<Option<_>>().ok_or_else(expected)?
            }
            Some(_) => return Err(expected()),
        };
        let (objects, is_single) = match (objects.is_empty(), fields.get("data")) {
            (false, _) => (objects, false),
            (true, Some(Value::Object(data))) if is_bundle(data) => return Err(refused(ENVELOPE.into())),
            (true, Some(Value::Object(data))) => (vec![data.clone()], true),
            (true, _) => return Err(AdminError::bad_request("data must be a native oauth json object")),
        };
        let mut items = Vec::new();
        for object in objects {
            if !is_bundle(&object) {
                items.push(Item::of(object));
                continue;
            }
            match accounts_of(&object) {
                Ok(accounts) => items.extend(accounts),
                Err(problem) => items.push(Item { problem: Some(problem), ..Item::of(object) }),
            }
        }
        if items.len() > MAX_ITEMS {
            return Err(refused(import_forms::too_many()));
        }
        Ok(Self { items, proxy, is_single })
    }
}

// === impl Outcome ===

impl Outcome {
    fn view(&self) -> Value {
        let mut view = json!({"name": self.name});
        if let Some(provider) = self.provider {
            view["provider"] = provider.into();
        }
        match &self.result {
            Ok(id) => {
                view["status"] = "imported".into();
                view["accountId"] = (*id).into();
            }
            Err((_, message)) => {
                view["status"] = "failed".into();
                view["message"] = message.as_str().into();
            }
        }
        view
    }
}
