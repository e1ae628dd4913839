//! Operations on earlier responses: reading, cancelling one that is made in the background, deleting.
//!
//! | who keeps it | reading | cancelling, deleting |
//! |---|---|---|
//! | its upstream | asked of the account that made it; bytes pass, streams too | asked there; a deleted one is forgotten here |
//! | this service ([`previous`](super::previous)) | from memory; as a stream it is replayed | it is complete; forgotten |
//!
//! Only the key that was given the id has access. Reading is not a model call: it counts only in the limit of
//! requests in general. Usage of a response in the background that is read here is booked
//! ([`background`]). Before a response is deleted it is asked for once more, and stopped if it is still being made: later
//! nobody could tell its usage.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use serde_json::json;

use crate::dialect::canonical::ReplyContext;
use crate::dialect::edit::edit;
use crate::dialect::responses::item_ids;
use crate::dialect::{Dialect, convert, json as scan};
use crate::http::{self, Request, Response, ResponseBody};
use crate::one_line::first_chars;
use crate::proxy::Proxy;
use crate::proxy::redaction;
use crate::routing::encode_component;
use crate::store::owner::Owner;
use crate::store::responses::{self, MAX_ID};
use crate::time::{now_ms, now_secs};

use super::background::{self, Outcome};
use super::background_watch;
use super::id_owners::StoredAt;
use super::input_items;
use super::name::ResponseName;
use super::owners;
use super::turns::StoredTurn;
use super::usage_watch::{UsageReader, UsageWatch};
use crate::proxy::auth::Caller;
use crate::proxy::download;
use crate::proxy::failure::Failure;
use crate::proxy::headers;
use crate::proxy::media_type::is_event_stream;
use crate::proxy::relay::kept_open::kept_open;
use crate::proxy::relay::renamed;
use crate::proxy::relay::rewritten::rewritten;
use crate::proxy::reply::{ErrorShape, response_of};
use crate::proxy::resource_upstream::{ResourceAnswer, ResourceRequest, ResourceUpstream, Unreachable};

/// The length up to which an answer is held, in bytes.
const MAX_HELD: usize = 2 << 20;

/// A request about a response, without its id.
struct ResponseRequest {
    method: Method,
    /// The path after the id.
    suffix: &'static str,
    label: &'static str,
}

const READ: ResponseRequest =
    ResponseRequest { method: Method::GET, suffix: "", label: "/v1/responses/{id}" };
const INPUT: ResponseRequest =
    ResponseRequest { method: Method::GET, suffix: "/input_items", label: "/v1/responses/{id}/input_items" };
const CANCEL: ResponseRequest =
    ResponseRequest { method: Method::POST, suffix: "/cancel", label: "/v1/responses/{id}/cancel" };
const DELETE: ResponseRequest =
    ResponseRequest { method: Method::DELETE, suffix: "", label: "/v1/responses/{id}" };

/// Where a response is kept.
enum ResponseLocation {
    Here(Arc<StoredTurn>),
    At(StoredAt),
}

/// Serves `GET /v1/responses/{id}`.
pub(in crate::proxy) async fn get(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    let is_streamed = request.query.is_on("stream");
    response_of(match find(&proxy, &request, &caller).await {
        Ok(ResponseLocation::Here(turn)) => {
            let model = std::str::from_utf8(&turn.request).ok().and_then(|text| scan::member(text, "model"));
            let model = model.and_then(scan::string).map(Arc::from);
            let response = if is_streamed {
                replayed(&turn, &request)
            } else {
                http::json_bytes(StatusCode::OK, Bytes::from(response_object(&turn)))
            };
            Ok(with_requested_model(&proxy, model, response))
        }
        Ok(ResponseLocation::At(at)) => current(&proxy, &request, &caller, at, READ).await,
        Err(refusal) => Err(refusal),
    })
}

/// Serves `GET /v1/responses/{id}/input_items`.
pub(in crate::proxy) async fn input_items(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(match find(&proxy, &request, &caller).await {
        Ok(ResponseLocation::Here(turn)) => Ok(input_items::page(&turn, &request, shape(&request))),
        Ok(ResponseLocation::At(at)) => passed(&proxy, &request, at, INPUT).await,
        Err(refusal) => Err(refusal),
    })
}

/// Serves `POST /v1/responses/{id}/cancel`.
pub(in crate::proxy) async fn cancel(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(match find(&proxy, &request, &caller).await {
        Ok(ResponseLocation::Here(_)) => {
            let message =
                "This response is complete: only a background response in progress can be cancelled";
            Err(shape(&request).refuse(400, message, None, None))
        }
        Ok(ResponseLocation::At(at)) => {
            let name = ResponseName::new(caller.key_id(), request.params.get("id"));
            proxy.background_responses.cancel(&name);
            current(&proxy, &request, &caller, at, CANCEL).await
        }
        Err(refusal) => Err(refusal),
    })
}

/// Serves `DELETE /v1/responses/{id}`.
pub(in crate::proxy) async fn delete(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(remove(&proxy, &request, &caller).await)
}

async fn remove(proxy: &Arc<Proxy>, request: &Request, caller: &Caller) -> Result<Response, Response> {
    let id = request.params.get("id");
    let at = match find(proxy, request, caller).await? {
        ResponseLocation::Here(_) => {
            proxy.stored_responses.remove(&ResponseName::new(caller.key_id(), id));
            let deleted = json!({ "id": id, "object": "response", "deleted": true });
            return Ok(http::json(StatusCode::OK, &deleted));
        }
        ResponseLocation::At(at) => at,
    };
    let name = ResponseName::new(caller.key_id(), id);
    let mut is_unbooked = background::is_unbooked(proxy, &name).await;
    if is_unbooked {
        is_unbooked = !background_watch::stop(proxy, &name, &at).await;
    }
    let answer = ask(proxy, request, at, DELETE).await?;
    let shape = shape(request);
    let mut response = answered(&answer, shape);
    let ResourceAnswer { response: answer, slot: _slot, .. } = answer;
    let (_, body) = answer.read().await.map_err(|failure| failure.into_response(shape))?;
    if is_unbooked {
        background::book_for_client(proxy, &name, Outcome::Unknown).await;
    }
    proxy.response_owners.forget(id);
    if let Err(error) = responses::delete(&proxy.core.store, &Owner::of_key(caller.key_id()), id).await {
        // The upstream has deleted it, which is what counts.
        log::warn!("the record of a deleted response could not be deleted: {error}");
    }
    *response.body_mut() = ResponseBody::full(body);
    Ok(response)
}

/// Finds the response that the path names, if it is the caller's.
async fn find(proxy: &Proxy, request: &Request, caller: &Caller) -> Result<ResponseLocation, Response> {
    let (id, shape) = (request.params.get("id"), shape(request));
    let key_id = caller.key_id();
    if let Some(turn) = proxy.stored_responses.find(&ResponseName::new(key_id, id), now_ms()) {
        return Ok(ResponseLocation::Here(turn));
    }
    if let Some(at) = proxy.response_owners.place(id, key_id) {
        return Ok(ResponseLocation::At(at));
    }
    if id.len() > MAX_ID {
        return Err(unknown(shape, id));
    }
    let (store, owner) = (&proxy.core.store, Owner::of_key(key_id));
    let unreadable = |error| shape.database_failed("Responses", &error);
    // An upstream that gives one id to several keys leaves it to none of them.
    let owners = responses::owners(store, id).await.map_err(unreadable)?;
    if owners.iter().any(|other| *other != owner) {
        return Err(unknown(shape, id));
    }
    let found = responses::find(store, &owner, id).await.map_err(unreadable)?;
    found.map(|found| ResponseLocation::At(found.into())).ok_or_else(|| unknown(shape, id))
}

/// Asks the account that has the response.
async fn ask(
    proxy: &Arc<Proxy>,
    request: &Request,
    at: StoredAt,
    about: ResponseRequest,
) -> Result<ResourceAnswer, Response> {
    let (id, shape) = (request.params.get("id"), shape(request));
    let upstream = ResourceUpstream::of(&proxy.core, at.account, at.token).await;
    let mut upstream = upstream.map_err(|unreachable| match unreachable {
        Unreachable::Gone(_) => unknown(shape, id),
        Unreachable::Misconfigured(why) => Failure::local(why).into_response(shape),
        Unreachable::Store(error) => shape.database_failed("Responses", &error),
    })?;
    let slot = upstream.slot(&proxy.core, shape).await?;
    let path = format!("/v1/responses/{}{}", encode_component(id), about.suffix);
    let asked = ResourceRequest {
        method: about.method,
        dialect: Dialect::Responses,
        path,
        label: about.label,
        accept: if request.query.is_on("stream") { "text/event-stream" } else { "application/json" },
        forwarded: &[],
        client: Some(request),
    };
    let response = upstream.send(proxy, &asked).await.map_err(|failure| failure.into_response(shape))?;
    Ok(ResourceAnswer { upstream, response, slot })
}

/// Passes the upstream's answer on as it comes.
async fn passed(
    proxy: &Arc<Proxy>,
    request: &Request,
    at: StoredAt,
    about: ResponseRequest,
) -> Result<Response, Response> {
    let answer = ask(proxy, request, at, about).await?;
    let shape = shape(request);
    if let Some(refusal) = answer.response.page(shape) {
        return Err(refusal);
    }
    let mut response = answered(&answer, shape);
    *response.body_mut() = download::body(proxy, Bytes::new(), answer);
    Ok(response)
}

/// Passes the upstream's current response on, with the requested model's name where the operator wants that. Books the
/// usage that it contains.
async fn current(
    proxy: &Arc<Proxy>,
    request: &Request,
    caller: &Caller,
    at: StoredAt,
    about: ResponseRequest,
) -> Result<Response, Response> {
    let model = at.model.clone();
    let mut answer = ask(proxy, request, at.clone(), about).await?;
    let shape = shape(request);
    if let Some(refusal) = answer.response.page(shape) {
        return Err(refusal);
    }
    let name = ResponseName::new(caller.key_id(), request.params.get("id"));
    let mut response = answered(&answer, shape);
    let is_stream = http::is_event_stream(response.headers());
    let mut held = BytesMut::new();
    if !is_stream {
        let is_whole = answer.response.hold(&mut held, MAX_HELD).await;
        if is_whole.map_err(|failure| failure.into_response(shape))? {
            let items = item_ids(&String::from_utf8_lossy(&held));
            owners::bind_items_of(proxy, name.key_id, &at, items.iter().map(String::as_str));
            if let Some(outcome) = Outcome::of_object(&held) {
                background::book_for_client(proxy, &name, outcome).await;
            }
            let object = redaction::of_error(held.freeze(), || answer.upstream.secrets());
            proxy.core.metrics.sent_bytes.add(object.len() as u64);
            *response.body_mut() = ResponseBody::full(object);
            return Ok(with_requested_model(proxy, model, response));
        }
    }
    let reader = if is_stream { UsageReader::events() } else { UsageReader::tail() };
    let watch = UsageWatch::new(proxy, reader, name, at, answer.upstream.secrets());
    let download = download::body(proxy, held.freeze(), answer);
    let body = rewritten(download, watch);
    let heartbeats = proxy.core.settings.load().heartbeats;
    *response.body_mut() = if is_stream { kept_open(Dialect::Responses, heartbeats, body) } else { body };
    Ok(with_requested_model(proxy, model, response))
}

/// Puts the requested model's name into the response, where the operator wants that and the name is known.
fn with_requested_model(proxy: &Proxy, model: Option<Arc<str>>, response: Response) -> Response {
    match model {
        Some(model) if proxy.core.settings.load().echo_model => {
            renamed::named(Dialect::Responses, &model, response)
        }
        _ => response,
    }
}

/// Builds the head of the client's response to an upstream's answer.
fn answered(answer: &ResourceAnswer, shape: ErrorShape) -> Response {
    let head = &answer.response.head;
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = head.status;
    answer.put_headers(shape, response.headers_mut());
    if head.headers.get(&CONTENT_TYPE).is_some_and(is_event_stream) {
        headers::event_stream(response.headers_mut());
    } else {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    response
}

// === responses stored here ===

/// Builds the response object.
fn response_object(turn: &StoredTurn) -> String {
    edit(&turn.rest, &[("output", &format!("[{}]", turn.items.join(",")))], &[]).into_owned()
}

/// Replays the response as a stream, from after the event that the client received last.
fn replayed(turn: &StoredTurn, request: &Request) -> Response {
    let shape = shape(request);
    let context = ReplyContext {
        now: now_secs(),
        fallback_id: shape.id.as_str().to_owned(),
        ..ReplyContext::default()
    };
    let object = response_object(turn);
    let replay = match convert::replayed(Dialect::Responses, Dialect::Responses, &object, &context) {
        Ok(replay) => replay,
        Err(error) => return shape.upstream_failure(502, &error),
    };
    let after = request.query.get("starting_after").and_then(|number| number.parse::<u64>().ok());
    let text = String::from_utf8_lossy(&replay.body);
    let is_new = |event: &&str| {
        let data = event.lines().find_map(|line| line.strip_prefix("data:")).unwrap_or_default();
        let number =
            scan::member(data.trim(), "sequence_number").and_then(|number| number.parse::<u64>().ok());
        after.is_none_or(|after| number.is_none_or(|number| number > after))
    };
    let events: String = text.split_inclusive("\n\n").filter(is_new).collect();
    let mut response = Response::new(ResponseBody::full(Bytes::from(events)));
    headers::event_stream(response.headers_mut());
    headers::request_id(shape.dialect, shape.id, response.headers_mut());
    response
}

fn shape(request: &Request) -> ErrorShape {
    ErrorShape::of(&request.headers, Some(Dialect::Responses), request.id)
}

fn unknown(shape: ErrorShape, id: &str) -> Response {
    let id = first_chars(id, MAX_ID);
    shape.refuse(404, &format!("Response with id '{id}' not found."), None, Some("response_id"))
}
