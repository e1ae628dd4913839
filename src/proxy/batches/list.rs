//! Lists of batches, page by page, as the batches were last seen.

use serde_json::{Map, Value, json};

use crate::dialect::batch::BatchApi;
use crate::http::{Request, Response};
use crate::ids::BatchId;
use crate::proxy::Proxy;
use crate::proxy::auth::Caller;
use crate::store::batches::{self, BatchRow, Page};
use crate::store::owner::Owner;

use super::lookup::{find, shape};
use super::mapping;

/// The paging of an interface.
pub(super) struct Paging {
    pub(super) api: BatchApi,
    /// The number of batches on a page unless the client gives one, and its maximum.
    pub(super) default: i64,
    pub(super) max: i64,
    /// The parameter that names the batch before the page.
    pub(super) after: &'static str,
    /// The parameter that names the batch after the page, where there is one.
    pub(super) before: Option<&'static str>,
}

/// Builds the members of a page that both interfaces share.
pub(super) async fn page(
    proxy: &Proxy,
    request: &Request,
    caller: &Caller,
    paging: &Paging,
) -> Result<Map<String, Value>, Response> {
    let shape = shape(request, paging.api);
    let limit = request.query.limit(paging.max);
    let limit =
        limit.map_err(|message| shape.refuse(400, &message, None, Some("limit")))?.unwrap_or(paging.default);
    let bound = async |name: Option<&'static str>| match name {
        None => Ok(None),
        Some(name) => bound(proxy, request, caller, paging.api, name).await,
    };
    let (after, before) = (bound(Some(paging.after)).await?, bound(paging.before).await?);
    let asked = Page { api: paging.api.id(), after, before, limit: limit + 1 };
    let found = batches::list(&proxy.core.store, &Owner::of_key(caller.key_id()), &asked).await;
    let mut found = found.map_err(|error| shape.database_failed("Batches", &error))?;
    let has_more = found.len() > limit as usize;
    found.truncate(limit as usize);
    if before.is_some() && after.is_none() {
        found.reverse();
    }
    let id = |batch: Option<&BatchRow>| json!(batch.map(|batch| &batch.place.public_id));
    let (first, last) = (id(found.first()), id(found.last()));
    let members = [("data", objects(proxy, request, &found)), ("first_id", first), ("last_id", last)];
    let members = members.into_iter().chain([("has_more", json!(has_more))]);
    Ok(members.map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Finds the batch that a parameter names.
async fn bound(
    proxy: &Proxy,
    request: &Request,
    caller: &Caller,
    api: BatchApi,
    name: &'static str,
) -> Result<Option<BatchId>, Response> {
    let Some(id) = request.query.get(name) else { return Ok(None) };
    let shape = shape(request, api);
    match find(&proxy.core.store, caller, api, &id).await {
        Ok(Some(batch)) => Ok(Some(batch.id)),
        Ok(None) => {
            Err(shape.refuse(400, &format!("{name} is not the id of an existing batch"), None, Some(name)))
        }
        Err(error) => Err(shape.database_failed("Batches", &error)),
    }
}

/// Builds the objects of batches as the client sees them.
fn objects(proxy: &Proxy, request: &Request, batches: &[BatchRow]) -> Value {
    let base = mapping::base(&proxy.core, &request.headers);
    let shown = |batch: &BatchRow| mapping::public_object(&proxy.core, &batch.place, &batch.object, &base);
    batches.iter().map(|batch| serde_json::from_str::<Value>(&shown(batch)).unwrap_or_default()).collect()
}
