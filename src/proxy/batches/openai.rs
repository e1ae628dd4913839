//! `/v1/batches`, and the files that batches make.

use std::sync::Arc;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::dialect::batch::{BatchApi, BatchRequests, object_with, text_of};
use crate::http::{self, Request, Response};
use crate::proxy::Proxy;
use crate::proxy::admit::{admit_model, forbidden_model};
use crate::proxy::auth::Caller;
use crate::proxy::call::Head;
use crate::proxy::files::{self, NamedFile};
use crate::proxy::operation::{CallKind, Operation};
use crate::proxy::pipeline;
use crate::proxy::reply::response_of;
use crate::proxy::resource_upstream::ResourceAnswer;
use crate::routing::encode_component;
use crate::store::batches::BatchRow;

use super::booking;
use super::creation::NewBatch;
use super::list::{self, Paging};
use super::lookup::{find, shape};
use super::mapping::{ResultFileId, SURFACE};
use super::object::{self, BatchAction};
use super::results;
use super::upstream::{self, BatchRequest};

const API: BatchApi = BatchApi::OpenAi;
/// The endpoints that requests of a batch may go to.
const ENDPOINTS: [&str; 7] = [
    "/v1/responses",
    "/v1/chat/completions",
    "/v1/embeddings",
    "/v1/completions",
    "/v1/moderations",
    "/v1/images/generations",
    "/v1/images/edits",
];
/// The maximum length of an input file, in bytes: it is held whole, and twice where the upstream's model name differs.
const MAX_INPUT: usize = 100 << 20;
const PAGING: Paging = Paging { api: API, default: 20, max: 100, after: "after", before: None };

/// Serves `POST /v1/batches`.
pub(in crate::proxy) async fn create(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(begin(proxy, request, caller).await)
}

async fn begin(proxy: Arc<Proxy>, mut request: Request, caller: Caller) -> Result<Response, Response> {
    let shape = shape(&request, API);
    let object = request.bytes().await.map_err(|error| shape.body_error(&error))?;
    let refuse = |message: &str, field: &str| shape.refuse(400, message, None, Some(field));
    let text = std::str::from_utf8(&object).ok().filter(|text| text.trim_start().starts_with('{'));
    let fields: Value = text
        .and_then(|text| serde_json::from_str(text).ok())
        .ok_or_else(|| shape.refuse(400, "The body must be a JSON object", None, None))?;
    let member = |name: &str| fields[name].as_str().filter(|text| !text.is_empty());
    let missing = |name: &str| refuse(&format!("{name} is required"), name);
    let input = member("input_file_id").ok_or_else(|| missing("input_file_id"))?;
    let endpoint = member("endpoint").ok_or_else(|| missing("endpoint"))?;
    member("completion_window").ok_or_else(|| missing("completion_window"))?;
    if !ENDPOINTS.contains(&endpoint) {
        return Err(refuse(&format!("endpoint must be one of {}", ENDPOINTS.join(", ")), "endpoint"));
    }
    let named = NamedFile { id: input, purpose: "batch", param: "input_file_id", max_size: MAX_INPUT };
    let file = files::whole(&proxy.core, &caller, named, shape).await?;
    let is_restricted = caller.policy().restricts_models();
    let read = || BatchRequests::of_lines(&file.content, endpoint, is_restricted);
    let requests = proxy.conversions.read_through(file.content.len(), read).await;
    let requests = requests.map_err(|flaw| refuse(&flaw.message, flaw.field))?;
    if let Some(message) = forbidden_model(&proxy.core, &caller, requests.models_of_tools()) {
        return Err(shape.refuse(403, &message, None, Some("model")));
    }
    // The object is short; the file is what takes memory.
    request.memory = Some(file.memory);
    let head = Head::of(CallKind::of_body(SURFACE, Operation::CreateBatch), &mut request, caller);
    let call = Arc::from(admit_model(&proxy, head, &requests.model, shape).await?);
    let input_file_id = Some(input.to_owned());
    let text = file.content;
    let batch = NewBatch { call, api: API, requests, text, object, input_file_id };
    Ok(pipeline::create_batch(&proxy, &Arc::new(batch)).await)
}

/// Serves `GET /v1/batches`: the batches as they were last seen.
pub(in crate::proxy) async fn list(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(page(&proxy, &request, &caller).await)
}

async fn page(proxy: &Proxy, request: &Request, caller: &Caller) -> Result<Response, Response> {
    let mut page = list::page(proxy, request, caller, &PAGING).await?;
    page.insert("object".to_owned(), json!("list"));
    Ok(http::json(StatusCode::OK, &Value::from(page)))
}

/// Serves `GET /v1/batches/{id}`.
pub(in crate::proxy) async fn get(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(object::answer(&proxy, &request, &caller, API, BatchAction::Read).await)
}

/// Serves `POST /v1/batches/{id}/cancel`.
pub(in crate::proxy) async fn cancel(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(object::answer(&proxy, &request, &caller, API, BatchAction::Cancel).await)
}

// === files ===

/// Serves `GET /v1/files/{id}`: a batch's file is asked of its account; any other is one of ours.
pub(in crate::proxy) async fn file(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    match ResultFileId::parse(request.params.get("id")) {
        None => files::get(proxy, request, caller).await,
        Some(file) => response_of(about_file(&proxy, &request, &caller, file, Method::GET).await),
    }
}

/// Serves `DELETE /v1/files/{id}`.
pub(in crate::proxy) async fn file_deletion(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    match ResultFileId::parse(request.params.get("id")) {
        None => files::delete(proxy, request, caller).await,
        Some(file) => response_of(about_file(&proxy, &request, &caller, file, Method::DELETE).await),
    }
}

/// Serves `GET /v1/files/{id}/content`.
pub(in crate::proxy) async fn file_content(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let Some(file) = ResultFileId::parse(request.params.get("id")) else {
        return files::content(proxy, request, caller).await;
    };
    response_of(
        async {
            let (batch, path) = of_file(&proxy, &request, &caller, file).await?;
            let batch_request = BatchRequest::bytes(format!("{path}/content"), "/v1/files/{id}/content");
            results::stream(&proxy, &request, &batch, batch_request).await
        }
        .await,
    )
}

/// Answers about a batch's file, under our id. Before a file is deleted, the usage of its batch is booked; while that is
/// not possible, the file stays.
async fn about_file(
    proxy: &Arc<Proxy>,
    request: &Request,
    caller: &Caller,
    file: ResultFileId,
    method: Method,
) -> Result<Response, Response> {
    let shape = shape(request, API);
    let (batch, path) = of_file(proxy, request, caller, file).await?;
    if method == Method::DELETE {
        booking::settle_before_deletion(proxy, &batch).await.map_err(|unbooked| unbooked.refuse(shape))?;
    }
    let batch_request = BatchRequest { method, path, label: "/v1/files/{id}", accept: "application/json" };
    let asked = upstream::ask(proxy, &batch, batch_request, Some(request)).await;
    let ResourceAnswer { response, slot: _slot, .. } =
        asked.map_err(|refused| refused.answer(proxy, shape))?;
    let (_, object) = response.read().await.map_err(|failure| failure.into_response(shape))?;
    let object = object_with(&String::from_utf8_lossy(&object), &[("id", request.params.get("id"))]);
    Ok(http::json_bytes(StatusCode::OK, Bytes::from(object)))
}

/// Finds the batch that made a file, and the path of the file at the upstream.
async fn of_file(
    proxy: &Arc<Proxy>,
    request: &Request,
    caller: &Caller,
    ResultFileId { file, batch_id }: ResultFileId,
) -> Result<(BatchRow, String), Response> {
    let (shape, id) = (shape(request, API), request.params.get("id"));
    let no_file = || shape.no_such("file", id);
    let found = find(&proxy.core.store, caller, API, &batch_id).await;
    let batch = found.map_err(|error| shape.database_failed("Batches", &error))?.ok_or_else(no_file)?;
    let upstream_id = text_of(&batch.object, file.member()).ok_or_else(no_file)?;
    Ok((batch, format!("/v1/files/{}", encode_component(&upstream_id))))
}
