//! Usage limits as providers report them, refreshed by hand.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use hyper::StatusCode;
use serde_json::{Value, json};

use super::connections::{account_id, find};
use super::schema;
use crate::admin::bucket;
use crate::admin::errors::{AdminError, Result};
use crate::admin::input::{Fields, Invalid, exact_id};
use crate::admin::{Admin, guard};
use crate::http::{self, Request, Response};
use crate::ids::{AccountId, SiteId};
use crate::jobs::concurrency::{Concurrency, run_concurrently};
use crate::jobs::oauth::quota;

const MAX_IDS: usize = 100;
const CONCURRENCY: Concurrency = Concurrency { total: 4, per_site: 4 };

/// `POST /api/oauth/connections/{id}/quota/refresh`: a provider's failure to report is shown in the snapshot.
pub async fn refresh(admin: Arc<Admin>, request: Request) -> Result<Response> {
    guard(&admin, &request, &bucket::OAUTH_CONNECTIONS_CHANGE)?;
    let quota = read(&admin, account_id(&request)?).await?;
    Ok(http::json(StatusCode::OK, &json!({"success": true, "quota": quota})))
}

/// `POST /api/oauth/connections/quota/refresh-batch`
pub async fn refresh_batch(admin: Arc<Admin>, mut request: Request) -> Result<Response> {
    let fields = Fields::of(&schema::QUOTA_BATCH, request.json_object().await?);
    guard(&admin, &request, &bucket::OAUTH_CONNECTIONS_CHANGE)?;
    guard(&admin, &request, &bucket::OAUTH_QUOTA_BATCH)?;
    let ids = ids(&fields)?;
    let items = ids.iter().map(|id| (SiteId::ZERO, *id)).collect();
    let read = run_concurrently(items, CONCURRENCY, |id| {
        let admin = admin.clone();
        async move { (id, read(&admin, id).await) }
    });
    let mut read: HashMap<AccountId, Result<Value>> = read.await.into_iter().collect();
    let items: Vec<Value> = ids
        .iter()
        .map(|id| match read.remove(id) {
            Some(Ok(quota)) if quota["status"] == "error" => {
                json!({"accountId": id, "success": false, "quota": quota, "error": quota["lastError"]})
            }
            Some(Ok(quota)) => json!({"accountId": id, "success": true, "quota": quota}),
            Some(Err(error)) => json!({"accountId": id, "success": false, "error": error.message()}),
            None => json!({"accountId": id, "success": false, "error": "Internal error"}),
        })
        .collect();
    let failed = items.iter().filter(|item| item["success"] == false).count();
    let refreshed = items.len() - failed;
    let body = json!({"success": failed == 0, "refreshed": refreshed, "failed": failed, "items": items});
    Ok(http::json(StatusCode::OK, &body))
}

async fn read(admin: &Admin, id: AccountId) -> Result<Value> {
    find(&admin.core.store, id).await?;
    let missing = || AdminError::new(StatusCode::NOT_FOUND, "oauth account not found");
    quota::refresh(&admin.jobs, id).await?.ok_or_else(missing)
}

/// Reads the account ids of a request, without duplicates.
fn ids(fields: &Fields) -> Result<Vec<AccountId>> {
    let refused = |message: &str| AdminError::from(Invalid::request(message));
    let numbers = match fields.get("accountIds") {
        None | Some(Value::Null) => return Err(refused("accountIds is required")),
        Some(Value::Array(numbers)) if numbers.is_empty() => return Err(refused("accountIds is required")),
        Some(Value::Array(numbers)) => numbers,
        Some(_) => return Err(refused("Invalid accountIds. Expected positive number array.")),
    };
    if numbers.len() > MAX_IDS {
        return Err(refused("accountIds must contain at most 100 items"));
    }
    let ids: Option<Vec<AccountId>> = numbers.iter().map(exact_id).collect();
    let ids = ids.ok_or_else(|| refused("Invalid accountIds. Expected positive number array."))?;
    let mut known = HashSet::new();
    Ok(ids.into_iter().filter(|id| known.insert(*id)).collect())
}
