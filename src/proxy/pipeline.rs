//! One model call, from the parsed head to the answer (design §3):
//!
//! ```text
//! read body ─ envelope ─ look up the route ─┬─ select channel ─ session slot ─ site slot ─ attempt ─┬─ answer
//!                                           └─────────────────── next channel ◀────────────────────┘
//! ```

use std::cell::Cell;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::HeaderValue;

use crate::core::Core;
use crate::dialect::canonical::ConversionError;
use crate::dialect::tree::Node;
use crate::dialect::{Dialect, messages, responses, stored_files};
use crate::http::{Request, Response};
use crate::jobs::models::refresh;
use crate::keys::KeyRejection;
use crate::limits::{Lease, SlotRefused as NoLease};
use crate::proxy::Proxy;
use crate::routing::eligibility::{Obstacle, RouteRequest};
use crate::routing::{
    Channel, ReservePick, Selection, SelectionQuery, SelectionReason, Trial, select, select_bound,
};
use crate::time::now_ms;
use crate::upstream::Repeat;

use super::addresses;
use super::alerts;
use super::attempt::{Attempt, Choice, Slots};
use super::auth::{Caller, Refused};
use super::call::{Call, CallKind, Head, Operation};
use super::client::Family;
use super::commit::Answered;
use super::failure::Failure;
use super::files;
use super::formats::{MemoryKey, is_native, is_served};
use super::headers;
use super::quota::{self, QuotaError};
use super::renamed;
use super::reply::Face;
use super::response_owners;
use super::response_store;
use super::trace::Trace;

/// How often a request that sees a free slot and finds it taken looks again, before it queues.
const FREE_SLOT_TRIES: usize = 16;

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
            return Face::of(&request.headers, Some(kind.dialect), request.id).body_error(&error);
        }
    };
    let room = proxy.conversions.reading(body.len()).await;
    match room.convert(|| read_call(&proxy, kind, request, body, caller)) {
        Ok(call) => answer(&proxy, call).await,
        Err(refusal) => *refusal,
    }
}

/// Serves a call with this body, which may be another than the request's own. It is read at once: the future
/// has no room for the request.
pub(super) fn serve_body(
    proxy: Arc<Proxy>,
    kind: CallKind,
    request: Request,
    body: Bytes,
    caller: Caller,
) -> impl Future<Output = Response> + Send {
    let call = read_call(&proxy, kind, request, body, caller);
    async move {
        match call {
            Ok(call) => answer(&proxy, call).await,
            Err(refusal) => *refusal,
        }
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
    let headers = mem::take(&mut request.headers);
    let head = Head {
        kind,
        id: request.id,
        caller,
        path: request.uri.path(),
        headers,
        query: request.query.raw(),
        timer: request.timer.clone(),
        session: None,
    };
    let refuse = |face: Face, message: &str, field| Box::new(face.refuse(400, message, None, field));
    let mut call =
        Call::read(proxy, head, body).map_err(|(face, error)| refuse(face, &error.message, error.field))?;
    if call.operation == Operation::Compact && call.envelope.stream {
        return Err(refuse(call.face, "A compaction cannot be streamed", Some("stream")));
    }
    response_store::resume(&proxy.stored_responses, &mut call);
    response_store::resolve_references(proxy, &mut call)?;
    match orphaned_output(&call) {
        Some(refusal) => Err(Box::new(refusal)),
        None => Ok(call),
    }
}

/// Answers a call that has been read.
pub(super) async fn answer(proxy: &Arc<Proxy>, mut call: Box<Call>) -> Response {
    if let Err(refusal) = admit(proxy, &mut call).await {
        return refusal;
    }
    call.trace = Trace::of(&proxy.core, &call);
    let mut response = response_store::remember(&proxy.stored_responses, &call, route(proxy, &call).await);
    if call.settings.echo_model {
        response = renamed::of(&call, response);
    }
    if call.operation == Operation::CountTokens && !response.status().is_success() {
        let member = if call.face.dialect == Dialect::Gemini { "totalTokens" } else { "input_tokens" };
        response = estimated_count(call.face, member, &call.body);
    }
    mem::take(&mut call.trace).response_sent(response)
}

/// A tool's output in a responses request must name its call (proxy.md 5.3). Codex is let through: it
/// sends what its own API takes.
fn orphaned_output(call: &Call) -> Option<Response> {
    let has_outputs = call.face.dialect == Dialect::Responses && call.envelope.marks.outputs;
    if !has_outputs || call.client.family == Family::Codex {
        return None;
    }
    let body = Node::parse(std::str::from_utf8(&call.body).ok()?).ok()?;
    match responses::validate(&body) {
        Err(ConversionError::Invalid { field, message }) => {
            Some(call.face.refuse(400, &message, None, Some(&field)))
        }
        _ => None,
    }
}

/// Coding clients count all the time and expect a number: where no upstream counts, an estimate
/// does, and says so (proxy.md 14.3). `member` is what the surface calls it.
fn estimated_count(face: Face, member: &str, body: &Bytes) -> Response {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let tokens = Node::parse(text).map_or(0, |body| messages::estimate_tokens(&body));
    let body = Bytes::from(format!("{{\"{member}\":{tokens}}}"));
    let mut response = crate::http::json_bytes(StatusCode::OK, body);
    response.headers_mut().insert("x-switchyard-estimated", HeaderValue::from_static("1"));
    headers::request_id(face.dialect, face.id, response.headers_mut());
    response
}

/// May this caller ask for this model, are the files there that it names, and may it ask once more at
/// all (routing.md 13)? If so the call counts.
async fn admit(proxy: &Arc<Proxy>, call: &mut Call) -> Result<(), Response> {
    if let Some(refusal) = forbidden(&proxy.core, call) {
        return Err(refusal);
    }
    if call.envelope.has_previous || call.envelope.has_conversation {
        Box::pin(response_owners::check(proxy, call)).await?;
    }
    if stored_files::may_be_resolved(call.face.dialect, call.envelope.marks) {
        Box::pin(files::resolve(&proxy.core.store, call)).await?;
    }
    let Some(key) = &call.caller.key else { return Ok(()) };
    quota::count(&proxy.core, key).await.map_err(|not_counted| match not_counted {
        QuotaError::OverLimit => call.face.reject_caller(&Refused::Rejected(KeyRejection::OverRequests)),
        QuotaError::Unavailable => call.face.refuse(503, "The request could not be counted", None, None),
    })
}

/// The refusal of a model that this caller may not ask for.
pub(super) fn forbidden(core: &Core, call: &Call) -> Option<Response> {
    let key = call.caller.key.as_ref()?;
    if core.snapshot.load().permits(&call.model, &key.policy) {
        return None;
    }
    let message = format!("Model {} is not allowed for this key", call.model);
    Some(call.face.refuse(403, &message, None, Some("model")))
}

/// Tries channels until one answers, none is left, or the attempts are used up (routing.md 10.1).
async fn route(proxy: &Arc<Proxy>, call: &Call) -> Answered {
    let mut tried = Vec::new();
    let mut last: Option<Box<Failure>> = None;
    let attempts = match call.caller.forced_channel {
        Some(_) => 1,
        None => proxy.core.config.proxy.max_channel_attempts,
    };
    for number in 0..attempts {
        let mut picked = pick(proxy, call, &tried).await;
        if number == 0 && matches!(picked, Picked::Nothing(_)) && is_unknown_model(&proxy.core, call) {
            // A model nobody has heard of may be new upstream: look once, bounded and shared.
            // Boxed, because it is rare and large.
            Box::pin(refresh::refresh_for_unknown_model(&proxy.jobs)).await;
            picked = pick(proxy, call, &tried).await;
        }
        let (choice, slots) = match picked {
            Picked::Channel(choice, slots) => (choice, slots),
            Picked::Busy(choice) => {
                let failure = Failure::busy(call.settings.session_leases.lease.retry_after_secs());
                Attempt::begin(proxy, call, &choice, number, Slots::default()).fail(&failure);
                tried.push(choice.channel.id);
                last = Some(Box::new(failure));
                continue;
            }
            Picked::Nothing(earliest_cooldown) => {
                return unserved(&proxy.core, call, last, earliest_cooldown).into();
            }
            Picked::Saturated => {
                return call.face.site_saturated(proxy.core.leases.rules().retry_after_secs()).into();
            }
        };
        tried.push(choice.channel.id);
        let answered = addresses::attempt(proxy, call, &choice, number, slots).await;
        match answered.inspect_err(|failure| call.trace.channel_failed(failure)) {
            Ok(answered) => return answered,
            Err(failure) if failure.may_retry(call.work()) || lacks_surface(call, &failure) => {
                last = Some(Box::new(failure));
            }
            Err(failure) => return refused_for_good(call, failure).into(),
        }
    }
    unserved(&proxy.core, call, last, None).into()
}

/// The answer to a request that goes to nobody else. What may have been made all the same must not be asked for again by
/// the client's SDK either: those of OpenAI and Anthropic heed this header.
fn refused_for_good(call: &Call, failure: Failure) -> Response {
    let may_be_made = failure.may_repeat(call.work()) == Repeat::Nowhere;
    let mut response = failure.into_response(call.face);
    if may_be_made {
        response.headers_mut().insert("x-should-retry", HeaderValue::from_static("false"));
    }
    response
}

fn is_unknown_model(core: &Core, call: &Call) -> bool {
    core.snapshot.load().lookup(&call.envelope.model, call.caller.policy()).is_none()
}

/// Whether the upstream lacks a surface that nothing can be converted to: another site may have it.
fn lacks_surface(call: &Call, failure: &Failure) -> bool {
    !call.face.dialect.is_convertible() && failure.lacks_path()
}

/// The answer of a request that no channel served.
fn unserved(
    core: &Core,
    call: &Call,
    last: Option<Box<Failure>>,
    earliest_cooldown: Option<i64>,
) -> Response {
    if let (Some(channel), None) = (call.caller.forced_channel, &last) {
        let message = format!("Channel {channel} is not available for this model");
        return call.face.refuse(503, &message, None, None);
    }
    if last.is_none() && earliest_cooldown.is_none() && is_offered_by_none(core, call) {
        let (model, what) = (&call.model, call.operation.name(call.face.dialect));
        let message = format!("Model {model} has no {what} here: no site that serves it offers that call");
        return call.face.refuse(404, &message, None, Some("model"));
    }
    alerts::unserved(core, call, last.as_deref());
    match last {
        Some(failure) => failure.into_response(call.face),
        None => call.face.no_channels(earliest_cooldown.map(seconds_until)),
    }
}

/// Whether the model is served, but by no site of whose platform this call could be asked: trying again does not help.
fn is_offered_by_none(core: &Core, call: &Call) -> bool {
    let snapshot = core.snapshot.load();
    let (model, policy) = (&call.envelope.model, call.caller.policy());
    let Some(found) = snapshot.lookup(model, policy) else { return false };
    let offers =
        |channel: &Channel| is_served(channel.account.site.platform, call.face.dialect, call.operation);
    let query = SelectionQuery::new(model, policy, now_ms());
    let request = RouteRequest::new(found.route, found.by_display_name, &query);
    let has_model = |channel: &Channel| {
        let mut obstacles = request.obstacles(channel);
        obstacles.all(|obstacle| !matches!(obstacle, Obstacle::Disabled | Obstacle::SourceModel))
    };
    let mut serving = found.route.channels.iter().filter(|channel| has_model(channel)).peekable();
    serving.peek().is_some() && serving.all(|channel| !offers(channel))
}

/// What a search for a channel gave.
enum Picked {
    /// With the slots it takes.
    Channel(Choice, Slots),
    /// As many sessions as it takes are at work there, and none ended in time.
    Busy(Choice),
    /// With the time at which the first cooling channel recovers, when cooling is all that stands
    /// in the way.
    Nothing(Option<i64>),
    /// Every eligible site is full, and the queue is too or did not move in time.
    Saturated,
}

/// Picks a channel and takes its slots: the one of its session first. Sites with a free slot come first;
/// only when every eligible site is full does the request queue, at the picked one (design §5). A first
/// attempt prefers the channel that served the conversation last.
async fn pick(proxy: &Arc<Proxy>, call: &Call, tried: &[i64]) -> Picked {
    let bound =
        call.session.as_ref().filter(|_| tried.is_empty()).and_then(|session| session.channel(&proxy.core));
    match pick_free(proxy, call, tried, bound).await {
        Some(picked) => picked,
        // Boxed, as all that is rarely waited for: a call's future is kept in one small allocation.
        None => Box::pin(pick_in_queue(proxy, call, tried, bound)).await,
    }
}

/// Picks among the channels whose site has a free slot; `None` when all that could serve are full.
async fn pick_free(proxy: &Arc<Proxy>, call: &Call, tried: &[i64], bound: Option<i64>) -> Option<Picked> {
    for _ in 0..FREE_SLOT_TRIES {
        let (chosen, some_are_full) = choose_free(proxy, call, tried, bound);
        let mut choice = match chosen {
            Chosen::Channel(choice) => choice,
            // Who is full can serve; what rests is for when nobody can.
            Chosen::Nothing { .. } if some_are_full => return None,
            Chosen::Nothing { reserve: Some(choice), .. } => choice,
            Chosen::Nothing { earliest_cooldown, reserve: None } => {
                return Some(Picked::Nothing(earliest_cooldown));
            }
        };
        let mut session = Lease::default();
        if takes_session_lease(call, &choice.channel) {
            match session_lease(proxy, call, &choice.channel).await {
                Ok(lease) => session = lease,
                Err(_) => return Some(Picked::Busy(choice)),
            }
            let Some(offered) = still_offered(proxy, call, tried, choice) else { continue };
            choice = offered;
        }
        // Without these, somebody else took the slot or the trial in between: choose again.
        if let Some(site) = try_lease(&proxy.core, &choice.channel)
            && let Some(trial) = begin_trial(call, &choice)
        {
            return Some(Picked::Channel(choice, Slots { site, _session: session, _trial: trial }));
        }
    }
    None
}

/// Waits for a slot of the site that is picked although it is full. Only once: when the channel is not to
/// be had any more by then, another one is picked that needs no waiting.
async fn pick_in_queue(proxy: &Arc<Proxy>, call: &Call, tried: &[i64], bound: Option<i64>) -> Picked {
    let choice = match choose(proxy, call, tried, bound, &|_| true) {
        Chosen::Channel(choice) => choice,
        Chosen::Nothing { reserve: Some(choice), .. } => choice,
        Chosen::Nothing { earliest_cooldown, reserve: None } => return Picked::Nothing(earliest_cooldown),
    };
    let mut session = Lease::default();
    if takes_session_lease(call, &choice.channel) {
        match session_lease(proxy, call, &choice.channel).await {
            Ok(lease) => session = lease,
            Err(_) => return Picked::Busy(choice),
        }
    }
    match proxy.core.leases.lease(choice.channel.account.site.id).await {
        Ok(site) => {
            if let Some(choice) = still_offered(proxy, call, tried, choice)
                && let Some(trial) = begin_trial(call, &choice)
            {
                return Picked::Channel(choice, Slots { site, _session: session, _trial: trial });
            }
        }
        Err(refused) => {
            log::debug!("site {} is full: {refused:?}", choice.channel.account.site.name);
            return Picked::Saturated;
        }
    }
    drop(session);
    pick_free(proxy, call, tried, bound).await.unwrap_or(Picked::Saturated)
}

/// The choice as it holds after a wait: meanwhile its channel may have been deleted or disabled, or have
/// failed somebody else.
fn still_offered(proxy: &Proxy, call: &Call, tried: &[i64], choice: Choice) -> Option<Choice> {
    let id = choice.channel.id;
    match choose(proxy, call, tried, None, &|channel| channel.id == id) {
        Chosen::Channel(offered) => Some(Choice { reason: choice.reason, ..offered }),
        // It rests: as it did before the wait, or since.
        Chosen::Nothing { reserve, .. } => reserve.filter(|_| choice.reason.is_trial()),
    }
}

/// The trial that a request for a resting channel is. `None` when another one is at work there or was just now;
/// the inner one where the channel does not rest.
fn begin_trial(call: &Call, choice: &Choice) -> Option<Option<Trial>> {
    let (live, now) = (&choice.channel.live, now_ms());
    match choice.reason {
        SelectionReason::Trial => live.begin_trial(now, |live| live.is_due_for_trial(now)).map(Some),
        SelectionReason::HalfOpen => live.begin_trial(now, |live| live.is_half_open(now)).map(Some),
        SelectionReason::LastResort => {
            let pause = call.settings.last_resort?;
            live.begin_trial(now, |live| live.may_be_last_resort(now, pause)).map(Some)
        }
        _ => Some(None),
    }
}

/// Whether the site has no `maxConcurrency`. Most have none, and cost a request neither a look-up nor a lock.
fn is_unlimited(channel: &Channel) -> bool {
    channel.account.site.max_concurrency.is_none()
}

fn try_lease(core: &Core, channel: &Channel) -> Option<Lease> {
    if is_unlimited(channel) {
        Some(Lease::default())
    } else {
        core.leases.try_lease(channel.account.site.id)
    }
}

/// Whether this call belongs to a session, and the channel's credential is one person's login
/// (routing.md 7).
fn takes_session_lease(call: &Call, channel: &Channel) -> bool {
    call.session.is_some() && channel.account.session_scoped
}

/// The slot that a session takes of such a channel.
async fn session_lease(proxy: &Proxy, call: &Call, channel: &Channel) -> Result<Lease, NoLease> {
    let rules = &call.settings.session_leases;
    // Boxed, as all that is rarely waited for.
    Box::pin(proxy.session_leases.lease(channel.id, rules)).await
}

enum Chosen {
    Channel(Choice),
    Nothing {
        earliest_cooldown: Option<i64>,
        /// A channel that rests, and may be tried by one request at a time.
        reserve: Option<Choice>,
    },
}

/// Selects among the channels whose site has a free slot; tells whether that passed any over.
fn choose_free(proxy: &Proxy, call: &Call, tried: &[i64], bound: Option<i64>) -> (Chosen, bool) {
    let some_are_full = Cell::new(false);
    let has_free_slot = |channel: &Channel| {
        let free = is_unlimited(channel) || proxy.core.leases.has_free_slot(channel.account.site.id);
        some_are_full.set(some_are_full.get() || !free);
        free
    };
    (choose(proxy, call, tried, bound, &has_free_slot), some_are_full.get())
}

/// Selects among the eligible channels that `may_take` it: the `bound` one if it is among them.
fn choose(
    proxy: &Proxy,
    call: &Call,
    tried: &[i64],
    bound: Option<i64>,
    may_take: &dyn Fn(&Channel) -> bool,
) -> Chosen {
    let snapshot = proxy.core.snapshot.load();
    let Some(matched) = snapshot.lookup(&call.envelope.model, call.caller.policy()) else {
        return Chosen::Nothing { earliest_cooldown: None, reserve: None };
    };
    let dialect = call.face.dialect;
    let forced = call.caller.forced_channel;
    let offers = |channel: &Channel| {
        forced.is_none_or(|only| only == channel.id)
            && is_served(channel.account.site.platform, dialect, call.operation)
            && may_take(channel)
    };
    let query = SelectionQuery {
        model: &call.envelope.model,
        policy: call.caller.policy(),
        tried,
        now: now_ms(),
        surface: &offers,
        load: &|channel| proxy.load_of(channel),
        max_avoidance: call.settings.cooldown.max_ms,
        last_resort: call.settings.last_resort,
        rotations: Some(&proxy.core.live.rotations),
    };
    let preferred = bound.and_then(|channel| select_bound(&matched, &query, channel));
    // Completions are bridged where nobody has them, not beside somebody who does.
    let has_completions = |channel: &Channel| {
        let (site, now) = (&channel.account.site, query.now);
        let key = MemoryKey { site: site.id, client: dialect, model: &call.model };
        offers(channel) && is_native(&proxy.formats, site.platform, key, now)
    };
    let first = SelectionQuery { surface: &has_completions, ..query };
    let native = (dialect == Dialect::Completions).then(|| select(&matched, &first, &mut random));
    let native = native.filter(|found| matches!(found, Selection::Channel { .. }));
    let choice = |channel: &Arc<Channel>, upstream_model: &str, reason| {
        // Mostly the model has one name: then it is one text, too.
        let own = upstream_model == &*call.model;
        let model = if own { call.model.clone() } else { Arc::from(upstream_model) };
        Choice { channel: channel.clone(), model, reason }
    };
    match preferred.or(native).unwrap_or_else(|| select(&matched, &query, &mut random)) {
        Selection::Channel { channel, upstream_model, reason } => {
            Chosen::Channel(choice(channel, upstream_model, reason))
        }
        Selection::NoneEligible { earliest_cooldown, reserve } => {
            let reserve = reserve.map(|ReservePick { channel, upstream_model, reason }| {
                choice(channel, upstream_model, reason)
            });
            Chosen::Nothing { earliest_cooldown, reserve }
        }
    }
}

fn seconds_until(at: i64) -> i64 {
    (at - now_ms() + 999).div_euclid(1000).max(1)
}

/// A number in [0, 1) for the weighted choice: xorshift64*, seeded per thread by the process's own
/// hash keys. It decides nothing that anyone could profit from guessing.
fn random() -> f64 {
    use std::hash::{BuildHasher, Hasher};
    thread_local! {
        static STATE: Cell<u64> =
            Cell::new(std::collections::hash_map::RandomState::new().build_hasher().finish() | 1);
    }
    STATE.with(|state| {
        let mut x = state.get();
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        state.set(x);
        (x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
    })
}
