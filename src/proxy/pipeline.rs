//! One model call, from the parsed head to the answer: the [steps](super) in their order, and the next channel where one
//! fails.

use std::mem;
use std::sync::Arc;

use bytes::Bytes;

use crate::core::Core;
use crate::dialect::canonical::ConversionError;
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, responses};
use crate::http::{Request, Response};
use crate::jobs::models::refresh;
use crate::proxy::Proxy;
use crate::routing::eligibility::{Obstacle, RouteRequest};
use crate::routing::{Channel, SelectionQuery};
use crate::time::now_ms;
use crate::upstream::{RetryScope, WorkKind};

use super::addresses;
use super::admit::admit;
use super::alerts;
use super::attempt::{Attempt, Slots};
use super::auth::Caller;
use super::batches::NewBatch;
use super::call::{Call, Head};
use super::client::Family;
use super::client_answer::ClientAnswer;
use super::failure::Failure;
use super::operation::{CallKind, Operation};
use super::pick::{Picked, pick};
use super::realtime::Opening;
use super::relay::blank_heartbeats;
use super::relay::heartbeats::BeforeAnswer;
use super::relay::{own_usage, renamed};
use super::reply::{ErrorShape, forbid_retry};
use super::responses::{owners, previous};
use super::retry::dialect_order::is_served;
use super::token_count;
use super::trace::choice::trace_of;

/// Reads the body of a call and serves it.
pub(super) async fn serve(
    proxy: Arc<Proxy>,
    kind: CallKind,
    mut request: Request,
    caller: Caller,
) -> Response {
    let body = match request.bytes().await {
        Ok(body) => body,
        Err(error) => {
            return ErrorShape::of(&request.headers, Some(kind.dialect), request.id).body_error(&error);
        }
    };
    serve_body(proxy, kind, request, body, caller).await
}

/// Serves a call with the given body, which may differ from the request's own.
pub(super) async fn serve_body(
    proxy: Arc<Proxy>,
    kind: CallKind,
    request: Request,
    body: Bytes,
    caller: Caller,
) -> Response {
    let timer = request.first_output_timer.clone();
    // An answer as one JSON array is made of its events later, and has no comments to replace.
    let has_blank_heartbeats = blank_heartbeats::are_needed(kind.dialect, &request.headers)
        && request.query.get("alt").as_deref() == Some("sse");
    let (length, read) = (body.len(), || read_call(&proxy, kind, request, body, caller));
    let call = match proxy.conversions.read_through(length, read).await {
        // Boxed, because few calls go on from an answer stored here.
        Ok(call) if call.shape.dialect == Dialect::Responses => Box::pin(completed(&proxy, call)).await,
        read => read,
    };
    let call = match call {
        Ok(call) => call,
        Err(refusal) => return *refusal,
    };
    let response = match BeforeAnswer::of(&call, timer) {
        None => answer(&proxy, call).await,
        Some(heartbeats) => {
            let answering = Arc::clone(&proxy);
            heartbeats.wait(proxy, async move { answer(&answering, call).await }).await
        }
    };
    if has_blank_heartbeats { blank_heartbeats::in_place_of_comments(response) } else { response }
}

/// Completes a responses call with the answer that it goes on from. A long body is checked away from the threads that
/// serve connections.
async fn completed(proxy: &Proxy, call: Box<Call>) -> Result<Box<Call>, Box<Response>> {
    let call = previous::complete(proxy, call).await?;
    match proxy.conversions.read_through(call.body.len(), || orphaned_output(&call)).await {
        Some(refusal) => Err(Box::new(refusal)),
        None => Ok(call),
    }
}

fn read_call(
    proxy: &Proxy,
    kind: CallKind,
    mut request: Request,
    body: Bytes,
    caller: Caller,
) -> Result<Box<Call>, Box<Response>> {
    proxy.core.metrics.received_bytes.add(body.len() as u64);
    let head = Head::of(kind, &mut request, caller);
    let refuse = |shape: ErrorShape, message: &str, field| Box::new(shape.refuse(400, message, None, field));
    let call =
        Call::read(proxy, head, body).map_err(|(shape, error)| refuse(shape, &error.message, error.field))?;
    if call.operation == Operation::Compact && call.envelope.stream {
        return Err(refuse(call.shape, "A compaction cannot be streamed", Some("stream")));
    }
    Ok(call)
}

/// Answers a call that has been read.
pub(super) async fn answer(proxy: &Arc<Proxy>, mut call: Box<Call>) -> Response {
    if let Err(refusal) = admit(proxy, &mut call).await {
        return refusal;
    }
    call.trace = trace_of(&proxy.core, &call);
    let mut response = previous::remember(proxy, &call, route(proxy, &call, CallPurpose::Answer).await);
    if call.settings.echo_model {
        response = renamed::of(&call, response);
    }
    if call.asks_for_usage {
        response = own_usage::left_out(response);
    }
    if call.operation == Operation::CountTokens && !response.status().is_success() {
        let estimate = || token_count::estimated(call.shape, &call.body);
        response = proxy.conversions.read_through(call.body.len(), estimate).await;
    }
    mem::take(&mut call.trace).response_sent(response)
}

/// Returns a refusal for a responses request with a tool output that names no call. Codex is let through: it sends what
/// its own API takes.
fn orphaned_output(call: &Call) -> Option<Response> {
    let has_outputs = call.shape.dialect == Dialect::Responses && call.envelope.marks.outputs;
    if !has_outputs || call.operation == Operation::AlphaSearch || call.client.family == Family::Codex {
        return None;
    }
    let body = Node::parse(std::str::from_utf8(&call.body).ok()?).ok()?;
    match responses::validate(&body) {
        Err(ConversionError::Invalid { field, message }) => {
            Some(call.shape.refuse(400, &message, None, Some(&field)))
        }
        _ => None,
    }
}

/// Opens a socket for a client at the first channel that has one; returns a refusal if none has.
pub(super) async fn open_socket(proxy: &Arc<Proxy>, opening: &Opening) -> Response {
    route(proxy, &opening.call, CallPurpose::Socket(opening)).await.response
}

/// Creates a batch at the first channel that takes it; returns a refusal if none does.
pub(super) async fn create_batch(proxy: &Arc<Proxy>, batch: &Arc<NewBatch>) -> Response {
    route(proxy, &batch.call, CallPurpose::Batch(batch)).await.response
}

/// The kind of request that a channel is asked for.
#[derive(Clone, Copy)]
enum CallPurpose<'a> {
    Answer,
    Socket(&'a Opening),
    Batch(&'a Arc<NewBatch>),
}

/// Tries channels until one answers, none is left, or the attempts are used up.
async fn route(proxy: &Arc<Proxy>, call: &Call, purpose: CallPurpose<'_>) -> ClientAnswer {
    let mut tried = Vec::new();
    let mut last: Option<Box<Failure>> = None;
    let attempts = match call.caller.forced_channel {
        Some(_) => 1,
        None => proxy.core.config.proxy.max_channel_attempts,
    };
    for number in 0..attempts {
        let mut picked = pick(proxy, call, &tried).await;
        if number == 0 && matches!(picked, Picked::Nothing(_)) && has_no_channel(&proxy.core, call) {
            // The model may be new upstream, or the list that has it could not be read last time. Asking again is bounded and
            // shared by all calls. Boxed, because it is rare and large.
            Box::pin(refresh::refresh_for_unknown_model(&proxy.jobs)).await;
            picked = pick(proxy, call, &tried).await;
        }
        let (choice, slots) = match picked {
            Picked::Channel(choice, slots) => (choice, slots),
            Picked::Busy(choice) => {
                let failure = Failure::busy(call.settings.session_leases.lease.retry_after_secs());
                Attempt::begin(proxy, call, &choice, number, Slots::default()).fail(&failure);
                tried.push(choice.channel.key());
                last = Some(Box::new(failure));
                continue;
            }
            Picked::Nothing(earliest_cooldown) => {
                return unserved(&proxy.core, call, last, earliest_cooldown).into();
            }
            Picked::Saturated => {
                return call.shape.site_saturated(proxy.core.leases.rules().retry_after_secs()).into();
            }
        };
        tried.push(choice.channel.key());
        // Boxed, because all but the first are rare.
        let answered = match purpose {
            CallPurpose::Answer if call.work() != WorkKind::Creation => {
                addresses::attempt(proxy, call, &choice, number, slots).await
            }
            CallPurpose::Answer => {
                let attempt = Box::pin(addresses::attempt(proxy, call, &choice, number, slots));
                creation_until_cut(proxy, call, attempt).await
            }
            CallPurpose::Socket(opening) => Box::pin(opening.attempt(proxy, &choice, number, slots)).await,
            CallPurpose::Batch(batch) => {
                let attempt = Box::pin(batch.attempt(proxy, &choice, number, slots));
                creation_until_cut(proxy, call, attempt).await
            }
        };
        match answered.inspect_err(|failure| call.trace.channel_failed(&failure.text)) {
            Ok(answered) => return answered,
            Err(failure) if failure.may_retry(call.work()) || failure.lacks_surface() => {
                if failure.refuses_credential() {
                    let snapshot = proxy.core.snapshot.load();
                    tried.extend(snapshot.sharing_credential(&choice.channel).map(|other| other.key()));
                }
                // A site without the surface says nothing of the sites that have it.
                if last.is_none() || !failure.lacks_surface() {
                    last = Some(Box::new(failure));
                }
            }
            Err(failure) => return refused_for_good(call, failure).into(),
        }
    }
    unserved(&proxy.core, call, last, None).into()
}

/// Waits for an attempt to create something, at the longest until the grace period of a stop is over: what was asked for
/// may be made all the same, so the client's SDK must not send the request again.
async fn creation_until_cut(
    proxy: &Proxy,
    call: &Call,
    attempt: impl Future<Output = Result<ClientAnswer, Failure>>,
) -> Result<ClientAnswer, Failure> {
    if let Some(outcome) = proxy.core.until_cut(attempt).await {
        return outcome;
    }
    let message = "The service stopped before it had an answer: check what was made before you send it again";
    Ok(forbid_retry(call.shape.refuse(503, message, None, None)).into())
}

/// Answers a request that goes to no other channel. If the upstream may have made the thing all the same, the answer also
/// tells the client's SDK not to retry.
fn refused_for_good(call: &Call, failure: Failure) -> Response {
    let may_be_made = failure.retry_scope(call.work()) == RetryScope::Nowhere;
    let response = failure.into_response(call.shape);
    if may_be_made { forbid_retry(response) } else { response }
}

/// Whether nobody offers the model, as far as is known here.
fn has_no_channel(core: &Core, call: &Call) -> bool {
    let snapshot = core.snapshot.load();
    let found = snapshot.lookup(&call.envelope.model, call.caller.policy());
    found.is_none_or(|found| found.route.channels.is_empty())
}

/// Builds the answer to a request that no channel served.
fn unserved(
    core: &Core,
    call: &Call,
    last: Option<Box<Failure>>,
    earliest_cooldown: Option<i64>,
) -> Response {
    if let (Some(channel), None) = (call.caller.forced_channel, &last) {
        let message = format!("Channel {channel} is not available for this model");
        return call.shape.refuse(503, &message, None, None);
    }
    if last.is_none() && earliest_cooldown.is_none() && is_offered_by_none(core, call) {
        let (model, what) = (&call.model, call.operation.name(call.shape.dialect));
        let message =
            format!("Model {model} has no {what} here: none of the sites that serve it offers that call");
        return call.shape.refuse(404, &message, None, Some("model"));
    }
    if let (None, None, Some(kept)) = (&last, earliest_cooldown, &call.kept_at) {
        return owners::not_found(call.shape, kept.member, &kept.id);
    }
    alerts::unserved(core, call, last.as_deref());
    match last {
        Some(failure) => failure.into_response(call.shape),
        None => call.shape.no_channels(earliest_cooldown.map(seconds_until)),
    }
}

/// Whether the model is served to this key, but only by sites whose platform does not offer this call: trying again does
/// not help.
fn is_offered_by_none(core: &Core, call: &Call) -> bool {
    let snapshot = core.snapshot.load();
    let (model, policy) = (&call.envelope.model, call.caller.policy());
    let Some(found) = snapshot.lookup(model, policy) else { return false };
    let offers =
        |channel: &Channel| is_served(channel.account.site.platform, call.shape.dialect, call.operation);
    let query = SelectionQuery::new(model, policy, now_ms());
    let request = RouteRequest::new(found.route, found.by_display_name, &query);
    let has_model = |channel: &Channel| {
        let mut obstacles = request.obstacles(channel);
        use Obstacle::{CredentialExcluded, Disabled, SiteExcluded, SourceModel};
        obstacles
            .all(|obstacle| !matches!(obstacle, Disabled | SourceModel | SiteExcluded | CredentialExcluded))
    };
    let mut serving = found.route.channels.iter().filter(|channel| has_model(channel)).peekable();
    serving.peek().is_some() && serving.all(|channel| !offers(channel))
}

/// Returns the whole seconds until a time, at least one.
fn seconds_until(at: i64) -> i64 {
    (at - now_ms() + 999).div_euclid(1000).max(1)
}
