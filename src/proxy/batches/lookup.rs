//! Looks up the batch that a request names, if it is the caller's.

use crate::dialect::Dialect;
use crate::dialect::batch::BatchApi;
use crate::http::{Request, Response};
use crate::proxy::Proxy;
use crate::proxy::auth::Caller;
use crate::proxy::reply::ErrorShape;
use crate::store::batches::{self, BatchRow};
use crate::store::owner::Owner;
use crate::store::{self, Store};

use super::mapping::{self, SURFACE};

pub(super) fn api(batch: &BatchRow) -> BatchApi {
    BatchApi::of_id(&batch.place.api)
}

/// Whether the upstream has worked off the batch, or given it up.
pub(super) fn has_ended(batch: &BatchRow) -> bool {
    api(batch).has_ended(&batch.object)
}

pub(super) fn dialect(api: BatchApi) -> Dialect {
    match api {
        BatchApi::OpenAi => SURFACE,
        BatchApi::Anthropic => Dialect::Messages,
    }
}

pub(super) fn shape(request: &Request, api: BatchApi) -> ErrorShape {
    ErrorShape::of(&request.headers, Some(dialect(api)), request.id)
}

/// Finds the batch with this id, if it is the caller's and of this interface.
pub(super) async fn find(
    store: &Store,
    caller: &Caller,
    api: BatchApi,
    id: &str,
) -> store::Result<Option<BatchRow>> {
    if !id.starts_with(mapping::prefix(api)) || id.len() > 100 {
        return Ok(None);
    }
    batches::find(store, &Owner::of_key(caller.key_id()), id).await
}

/// Finds the batch that the path names.
pub(super) async fn of_path(
    proxy: &Proxy,
    request: &Request,
    caller: &Caller,
    api: BatchApi,
) -> Result<BatchRow, Response> {
    let (id, shape) = (request.params.get("id"), shape(request, api));
    let found = find(&proxy.core.store, caller, api, id)
        .await
        .map_err(|error| shape.database_failed("Batches", &error))?;
    found.ok_or_else(|| shape.no_such("batch", id))
}
