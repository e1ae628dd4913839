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
use crate::dialect::observe::Phase;
use crate::dialect::responses::item_ids;
use crate::dialect::{Dialect, convert, json as scan};
use crate::http::body::Truncated;
use crate::http::{self, Request, Response, ResponseBody};
use crate::mask::Mask;
use crate::proxy::Proxy;
use crate::proxy::redaction;
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
use crate::proxy::auth::Caller;
use crate::proxy::download;
use crate::proxy::failure::Failure;
use crate::proxy::headers;
use crate::proxy::media_type::is_event_stream;
use crate::proxy::relay::passed::PassthroughTransit;
use crate::proxy::relay::renamed;
use crate::proxy::relay::rewritten::{Rewrite, rewritten};
use crate::proxy::relay::{InStreamError, Transit};
use crate::proxy::reply::{ErrorShape, response_of};
use crate::proxy::resource_upstream::{
    ResourceAnswer, ResourceRequest, ResourceUpstream, Unreachable, in_path,
};
use crate::proxy::tail::Tail;

/// The length up to which an answer is held, in bytes.
const MAX_HELD: usize = 2 << 20;

/// What is asked about a response.
struct Query {
    method: Method,
    /// The path after the id.
    suffix: &'static str,
    label: &'static str,
}

const READ: Query = Query { method: Method::GET, suffix: "", label: "/v1/responses/{id}" };
const INPUT: Query =
    Query { method: Method::GET, suffix: "/input_items", label: "/v1/responses/{id}/input_items" };
const CANCEL: Query = Query { method: Method::POST, suffix: "/cancel", label: "/v1/responses/{id}/cancel" };
const DELETE: Query = Query { method: Method::DELETE, suffix: "", label: "/v1/responses/{id}" };

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
            let told = if is_streamed {
                told_again(&turn, &request)
            } else {
                http::json_bytes(StatusCode::OK, Bytes::from(whole(&turn)))
            };
            Ok(under_its_name(&proxy, model, told))
        }
        Ok(ResponseLocation::At(at)) => told_by_upstream(&proxy, &request, &caller, at, READ).await,
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
        Ok(ResponseLocation::At(at)) => told_by_upstream(&proxy, &request, &caller, at, CANCEL).await,
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
    let is_unbooked = background::is_unbooked(proxy, &name).await;
    if is_unbooked {
        background_watch::stop(proxy, &name, &at).await;
    }
    let answer = ask(proxy, request, at, DELETE).await?;
    let shape = shape(request);
    let mut response = answered(&answer, shape);
    let ResourceAnswer { response: answer, slot: _slot, .. } = answer;
    let (_, body) = answer.read().await.map_err(|failure| failure.into_response(shape))?;
    if is_unbooked {
        background::settle(proxy, &name, Outcome::Untold).await;
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
    query: Query,
) -> Result<ResourceAnswer, Response> {
    let (id, shape) = (request.params.get("id"), shape(request));
    let upstream = ResourceUpstream::of(&proxy.core, at.account, at.token).await;
    let mut upstream = upstream.map_err(|unreachable| match unreachable {
        Unreachable::Gone(_) => unknown(shape, id),
        Unreachable::Misconfigured(why) => Failure::local(why).into_response(shape),
        Unreachable::Store(error) => shape.database_failed("Responses", &error),
    })?;
    let slot = upstream.slot(&proxy.core, shape).await?;
    let path = format!("/v1/responses/{}{}", in_path(id), query.suffix);
    let asked = ResourceRequest {
        method: query.method,
        dialect: Dialect::Responses,
        path,
        label: query.label,
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
    query: Query,
) -> Result<Response, Response> {
    let answer = ask(proxy, request, at, query).await?;
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
async fn told_by_upstream(
    proxy: &Arc<Proxy>,
    request: &Request,
    caller: &Caller,
    at: StoredAt,
    query: Query,
) -> Result<Response, Response> {
    let model = at.model.clone();
    let mut answer = ask(proxy, request, at.clone(), query).await?;
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
                background::settle(proxy, &name, outcome).await;
            }
            let object = redaction::of_error(held.freeze(), || answer.upstream.secrets());
            proxy.core.metrics.sent_bytes.add(object.len() as u64);
            *response.body_mut() = ResponseBody::full(object);
            return Ok(under_its_name(proxy, model, response));
        }
    }
    let told = if is_stream {
        UsageReader::Events(Box::new(PassthroughTransit::new(Dialect::Responses)))
    } else {
        UsageReader::Tail(Tail::default())
    };
    let watched = UsageWatch {
        told: Some(told),
        has_failed: false,
        name,
        at,
        secrets: answer.upstream.secrets(),
        proxy: proxy.clone(),
    };
    let download = download::body(proxy, held.freeze(), answer);
    *response.body_mut() = rewritten(download, watched);
    Ok(under_its_name(proxy, model, response))
}

/// Puts the requested model's name into the response, where the operator wants that and the name is known.
fn under_its_name(proxy: &Proxy, model: Option<Arc<str>>, response: Response) -> Response {
    match model {
        Some(model) if proxy.core.settings.load().echo_model => {
            renamed::named(Dialect::Responses, &model, response)
        }
        _ => response,
    }
}

/// Observes a response on its way to the client for its usage. A stream passes a whole event at a time and ends with an
/// error event, which is written anew, because it may repeat secrets of the request.
struct UsageWatch {
    /// What has been observed; `None` once the usage was booked.
    told: Option<UsageReader>,
    /// Whether the stream ended with an error event: nothing after it passes.
    has_failed: bool,
    name: ResponseName,
    at: StoredAt,
    secrets: Mask,
    proxy: Arc<Proxy>,
}

enum UsageReader {
    Events(Box<PassthroughTransit>),
    /// The end of an object.
    Tail(Tail),
}

impl UsageReader {
    /// Returns the usage of the response, if it has ended.
    fn outcome(&self) -> Option<Outcome> {
        match self {
            Self::Tail(tail) => Outcome::of_tail(tail.bytes()),
            Self::Events(stream) => match (stream.progress().phase(), stream.progress().usage()) {
                (Phase::Ended | Phase::Failed(_), Some(usage)) => Some(Outcome::Used(usage)),
                (Phase::Ended, None) => Some(Outcome::Untold),
                (Phase::Failed(_), None) => Some(Outcome::Nothing),
                (Phase::Preamble | Phase::Output, _) => None,
            },
        }
    }
}

impl UsageWatch {
    /// Writes what a stream has taken, or the error in it without secrets.
    fn pass(&mut self, taken: Result<Bytes, Box<InStreamError>>, out: &mut Vec<u8>) {
        let has_free_text = match &mut self.told {
            Some(UsageReader::Events(stream)) => stream.take_free_text(),
            _ => false,
        };
        let shown =
            |bytes: Bytes| if has_free_text { redaction::of_free_text(&bytes, &self.secrets) } else { bytes };
        let told = match taken {
            Ok(events) => return out.extend_from_slice(&shown(events)),
            Err(told) => *told,
        };
        out.extend_from_slice(&shown(told.before));
        self.has_failed = true;
        if let Some(UsageReader::Events(stream)) = self.told.as_mut().filter(|_| !told.is_told) {
            let mut error = told.error;
            error.hide(|text| self.secrets.hide(text));
            let event = stream.error(&error, &self.name.id);
            out.extend_from_slice(self.secrets.hide_in(&String::from_utf8_lossy(&event)).as_bytes());
        }
    }

    fn settle(&mut self) {
        let told = self.told.take();
        if let Some(UsageReader::Events(stream)) = &told {
            let items = stream.progress().items().iter().map(String::as_str);
            owners::bind_items_of(&self.proxy, self.name.key_id, &self.at, items);
        }
        if let Some(outcome) = told.and_then(|told| told.outcome()) {
            let (settling, name) = (self.proxy.clone(), self.name.clone());
            self.proxy.core.background.spawn("the usage of a response in the background", async move {
                background::settle(&settling, &name, outcome).await;
            });
        }
    }
}

impl Rewrite for UsageWatch {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Truncated> {
        match &mut self.told {
            None if self.has_failed => {}
            None => out.extend_from_slice(bytes),
            Some(UsageReader::Tail(tail)) => {
                tail.push(bytes);
                out.extend_from_slice(bytes);
            }
            Some(UsageReader::Events(stream)) => {
                let taken = stream.take(Bytes::copy_from_slice(bytes));
                let is_finished = stream.progress().is_finished();
                self.pass(taken, out);
                if is_finished || self.has_failed {
                    self.settle();
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Truncated> {
        if let Some(UsageReader::Events(stream)) = &mut self.told {
            let rest = stream.finish();
            self.pass(rest, out);
        }
        if let Some(UsageReader::Events(stream)) = &mut self.told
            && !self.has_failed
        {
            out.extend_from_slice(&stream.conclude().unwrap_or_else(|before_error| before_error));
        }
        self.settle();
        Ok(())
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

// === what we keep ===

/// Builds the response object.
fn whole(turn: &StoredTurn) -> String {
    edit(&turn.rest, &[("output", &format!("[{}]", turn.items.join(",")))], &[]).into_owned()
}

/// Replays the response as a stream, from after the event that the client received last.
fn told_again(turn: &StoredTurn, request: &Request) -> Response {
    let shape = shape(request);
    let context = ReplyContext {
        now: now_secs(),
        fallback_id: shape.id.as_str().to_owned(),
        ..ReplyContext::default()
    };
    let told = convert::replayed(Dialect::Responses, Dialect::Responses, &whole(turn), &context);
    let told = match told {
        Ok(told) => told,
        Err(error) => return shape.upstream_failure(502, &error),
    };
    let after = request.query.get("starting_after").and_then(|number| number.parse::<u64>().ok());
    let text = String::from_utf8_lossy(&told.body);
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

// === what is said ===

fn shape(request: &Request) -> ErrorShape {
    ErrorShape::of(&request.headers, Some(Dialect::Responses), request.id)
}

fn unknown(shape: ErrorShape, id: &str) -> Response {
    let shown: String = id.chars().take(MAX_ID).collect();
    shape.refuse(404, &format!("Response with id '{shown}' not found."), None, Some("response_id"))
}
