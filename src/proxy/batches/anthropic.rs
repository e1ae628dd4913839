//! `/v1/messages/batches`

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::dialect::Dialect;
use crate::dialect::batch::{BatchApi, BatchRequests};
use crate::http::{self, Request, Response};
use crate::proxy::Proxy;
use crate::proxy::admit::{admit_model, forbidden_model};
use crate::proxy::auth::Caller;
use crate::proxy::call::Head;
use crate::proxy::operation::{CallKind, Operation};
use crate::proxy::pipeline;
use crate::proxy::reply::response_of;
use crate::proxy::resource_upstream::ResourceAnswer;
use crate::store;
use crate::store::batches;

use super::booking;
use super::creation::NewBatch;
use super::list::{self, Paging};
use super::lookup::{of_path, shape};
use super::object::{self, BatchAction};
use super::results as result_lines;
use super::upstream::{BatchRequest, BatchUnavailable, ask, refreshed};

const API: BatchApi = BatchApi::Anthropic;
const PAGING: Paging =
    Paging { api: API, default: 20, max: 1000, after: "after_id", before: Some("before_id") };

/// Serves `POST /v1/messages/batches`.
pub(in crate::proxy) async fn create(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(begin(proxy, request, caller).await)
}

async fn begin(proxy: Arc<Proxy>, mut request: Request, caller: Caller) -> Result<Response, Response> {
    let shape = shape(&request, API);
    let text = request.bytes().await.map_err(|error| shape.body_error(&error))?;
    let refuse = |message: &str, field| shape.refuse(400, message, None, Some(field));
    let is_restricted = caller.policy().restricts_models();
    let read = || BatchRequests::of_array(&text, is_restricted);
    let requests = proxy.conversions.read_through(text.len(), read).await;
    let requests = requests.map_err(|flaw| refuse(&flaw.message, flaw.field))?;
    if let Some(message) = forbidden_model(&proxy.core, &caller, requests.models_of_tools()) {
        return Err(shape.refuse(403, &message, None, Some("model")));
    }
    let kind = CallKind::of_body(Dialect::Messages, Operation::CreateBatch);
    let head = Head::of(kind, &mut request, caller);
    let call = Arc::from(admit_model(&proxy, head, &requests.model, shape).await?);
    let object = Bytes::new();
    let batch = NewBatch { call, api: API, requests, text, object, input_file_id: None };
    Ok(pipeline::create_batch(&proxy, &Arc::new(batch)).await)
}

/// Serves `GET /v1/messages/batches`: the batches as they were last seen.
pub(in crate::proxy) async fn list(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let page = list::page(&proxy, &request, &caller, &PAGING).await;
    response_of(page.map(|page| http::json(StatusCode::OK, &Value::from(page))))
}

/// Serves `GET /v1/messages/batches/{id}`.
pub(in crate::proxy) async fn get(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(object::answer(&proxy, &request, &caller, API, BatchAction::Read).await)
}

/// Serves `POST /v1/messages/batches/{id}/cancel`.
pub(in crate::proxy) async fn cancel(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(object::answer(&proxy, &request, &caller, API, BatchAction::Cancel).await)
}

/// Serves `GET /v1/messages/batches/{id}/results`.
pub(in crate::proxy) async fn results(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(stream(&proxy, &request, &caller).await)
}

async fn stream(proxy: &Arc<Proxy>, request: &Request, caller: &Caller) -> Result<Response, Response> {
    let batch = of_path(proxy, request, caller, API).await?;
    result_lines::stream(proxy, request, &batch, BatchRequest::results(&batch)).await
}

/// Serves `DELETE /v1/messages/batches/{id}`: the usage is booked first, because later nobody could tell it; while that is
/// not possible, the batch stays. If the upstream does not know the batch, cannot delete it, or cannot be reached any more,
/// only the mapping is deleted.
pub(in crate::proxy) async fn delete(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(remove(&proxy, &request, &caller).await)
}

async fn remove(proxy: &Arc<Proxy>, request: &Request, caller: &Caller) -> Result<Response, Response> {
    let shape = shape(request, API);
    let batch = of_path(proxy, request, caller, API).await?;
    let batch = refreshed(proxy, batch).await;
    booking::settle_before_deletion(proxy, &batch).await.map_err(|unbooked| unbooked.refuse(shape))?;
    match ask(proxy, &batch, BatchRequest::of(Method::DELETE, &batch, ""), Some(request)).await {
        // Read to its end, so that the connection can be reused.
        Ok(ResourceAnswer { response, slot: _slot, .. }) => drop(response.read().await),
        Err(refused) if refused.is_for_good() => {}
        Err(BatchUnavailable::Failed(failure))
            if matches!(failure.upstream_status(), Some(404 | 405 | 410 | 501)) => {}
        Err(refused) => return Err(refused.answer(proxy, shape)),
    }
    match batches::delete(&proxy.core.store, batch.id).await {
        Ok(()) => {}
        // A concurrent request was faster.
        Err(store::Error::NotFound) => return Err(shape.no_such("batch", &batch.place.public_id)),
        Err(error) => return Err(shape.database_failed("Batches", &error)),
    }
    let deleted = json!({ "id": batch.place.public_id, "type": "message_batch_deleted" });
    Ok(http::json(StatusCode::OK, &deleted))
}
