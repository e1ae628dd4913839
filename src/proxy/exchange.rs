//! One attempt: build the upstream request, try the site's addresses, judge what comes back, and
//! hold it until it is known to be good (design §3, the commit point).

use std::future::poll_fn;
use std::mem;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::Method;
use hyper::header::{self, HeaderMap, HeaderValue};
use tokio::time::{Instant, timeout, timeout_at};

use crate::app::App;
use crate::dialect::envelope::splice_model;
use crate::dialect::judge::{self, Fault};
use crate::dialect::observe::{Phase, StreamObserver};
use crate::http::{Response, ResponseBody};
use crate::limits::Lease;
use crate::routing::{Channel, Endpoint, Why, pool};
use crate::time::now_ms;
use crate::upstream::{ErrorKind, RequestBody, UpstreamBody};

use super::attempt::Attempt;
use super::call::Call;
use super::failure::Failure;
use super::headers;
use super::relay::{LongReply, Relay};

/// The most of a stream's preamble that is held back before it is sent on all the same.
const MAX_HELD: usize = 1 << 20;
/// And for how long, counted from its first byte: then the client gets what there is, and the comments
/// that keep its connection open.
const MAX_HOLD: Duration = Duration::from_secs(10);
/// A complete answer up to this size is held and judged; a longer one passes through.
const MAX_JUDGED: usize = 2 << 20;
/// How much of an upstream's error body is read (proxy.md 17), and for how long.
const MAX_ERROR_BODY: usize = 64 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest wait for the head of an answer: a long completion sends nothing until it is done.
const HEAD_TIMEOUT: Duration = Duration::from_secs(900);

/// An upstream's answer of which the status has been found good.
struct Accepted {
    head: hyper::http::response::Parts,
    body: UpstreamBody,
}

/// Waits bounded by the first-byte deadline when there is one, and by an idle limit always.
struct Patience {
    first_byte: Option<(Instant, Duration)>,
    idle: Duration,
}

impl Patience {
    /// Waits for `what`. A timer is only made when it is not there yet: chunks mostly are.
    async fn wait<T>(&self, limit: Duration, what: impl Future<Output = T>) -> Result<T, Failure> {
        let mut what = pin!(what);
        let ready = poll_fn(|context| match what.as_mut().poll(context) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => Poll::Ready(None),
        });
        if let Some(value) = ready.await {
            return Ok(value);
        }
        match self.first_byte {
            Some((deadline, total)) => {
                timeout_at(deadline, what).await.map_err(|_| Failure::first_byte_timeout(total))
            }
            None => timeout(limit, what).await.map_err(|_| {
                let silence = format!("the upstream sent nothing for {} s", limit.as_secs());
                Failure::network(ErrorKind::Timeout, &silence)
            }),
        }
    }
}

/// Tries one channel. The attempt is settled when this gives a failure; with an answer it travels
/// in the answer's body.
pub(super) async fn attempt(
    app: &Arc<App>,
    call: &Call,
    channel: &Arc<Channel>,
    model: &Arc<str>,
    why: Why,
    number: u32,
    lease: Lease,
) -> Result<Response, Failure> {
    let attempt = Attempt::begin(app, call, channel, model, why, number, lease);
    match answer(app, call, channel, model).await {
        Ok(accepted) => commit(app, call, accepted, attempt).await,
        Err(failure) => Err(give_up(attempt, failure)),
    }
}

/// Sends to one address after the other until one gives a good status (routing.md 10.4).
async fn answer(
    app: &Arc<App>,
    call: &Call,
    channel: &Arc<Channel>,
    model: &str,
) -> Result<(Accepted, Patience), Failure> {
    let site = &channel.account.site;
    if let Some(reason) = &site.misconfigured {
        return Err(Failure::local(format!("site {} cannot be used: {reason}", site.name)));
    }
    let Some((credential, values)) =
        channel.credential.as_ref().and_then(|credential| Some((credential, credential.headers()?)))
    else {
        return Err(Failure::local("the channel has no credential that can stand in a header".to_owned()));
    };
    let mut headers = headers::upstream(call.face.dialect, call.envelope.stream, site, values, &call.headers);
    let first_byte = app.settings.load().first_byte_timeout;
    let patience = Patience {
        first_byte: (!first_byte.is_zero()).then(|| (Instant::now() + first_byte, first_byte)),
        idle: app.config.proxy.stream_idle_timeout,
    };
    let pieces = splice_model(&call.body, &call.envelope, model);
    let mut last = None;
    let mut order = pool::order(&site.endpoints, now_ms()).peekable();
    while let Some(endpoint) = order.next() {
        // Most sites have one address, and its request needs no copy of the headers.
        let headers = if order.peek().is_some() { headers.clone() } else { mem::take(&mut headers) };
        let live = &endpoint.live;
        let note = |dirty: bool| {
            if dirty {
                app.store.telemetry().dirty_endpoint(live.clone());
            }
        };
        note(live.record_selection(now_ms()));
        let tried = exchange(app, call, endpoint, headers, pieces.clone(), &patience).await;
        match tried.map_err(|failure| failure.without(Some(credential.secret()))) {
            Ok(accepted) => {
                note(live.record_success());
                return Ok((accepted, patience));
            }
            Err(failure) if failure.rotates_address() => {
                let now = now_ms();
                note(live.record_failure(now, now + pool::COOLDOWN_MS, &failure.text));
                last = Some(failure);
            }
            Err(failure) => {
                note(live.record_other_failure(now_ms(), &failure.text));
                return Err(failure);
            }
        }
    }
    Err(last.unwrap_or_else(|| Failure::local(format!("site {} has no address", site.name))))
}

/// One request to one address. A status outside 2xx is a failure that has been read.
async fn exchange(
    app: &Arc<App>,
    call: &Call,
    endpoint: &Endpoint,
    headers: HeaderMap,
    pieces: [Bytes; 3],
    patience: &Patience,
) -> Result<Accepted, Failure> {
    let mut request = hyper::Request::new(RequestBody::from(pieces));
    *request.method_mut() = Method::POST;
    *request.headers_mut() = headers;
    request.headers_mut().insert(header::HOST, endpoint.base.authority.clone());
    let target = match call.query.as_str() {
        "" => endpoint.base.join(call.face.dialect.path()),
        query => endpoint.base.join(&format!("{}{query}", call.face.dialect.path())),
    };
    *request.uri_mut() = hyper::Uri::from(target);
    let response = patience
        .wait(HEAD_TIMEOUT, app.client.send(&endpoint.base.origin, request))
        .await?
        .map_err(|error| Failure::network(error.kind(), error.message()))?;
    let (head, body) = response.into_parts();
    if head.status.is_success() {
        return Ok(Accepted { head, body });
    }
    let status = head.status.as_u16();
    let (body, complete) = Box::pin(read_some(body, MAX_ERROR_BODY, ERROR_BODY_TIMEOUT)).await;
    let retry_after = head.headers.get(header::RETRY_AFTER).cloned();
    Err(Failure::status(status, call.face.dialect.path(), retry_after, body, complete, now_ms()))
}

/// Holds the answer until it is known to be good, then makes it the client's.
async fn commit(
    app: &Arc<App>,
    call: &Call,
    (accepted, patience): (Accepted, Patience),
    mut attempt: Attempt,
) -> Result<Response, Failure> {
    let Accepted { head, mut body } = accepted;
    if call.envelope.stream {
        attempt.keep_lease();
    }
    let first = match next(&mut body, &patience).await {
        Ok(first) => first.unwrap_or_default(),
        Err(failure) => return Err(give_up(attempt, failure)),
    };
    attempt.first_byte();
    let patience = Patience { first_byte: None, ..patience };
    if call.envelope.stream && (is_event_stream(&head.headers) || looks_like_events(&first)) {
        stream(call, head, body, first, patience, attempt).await
    } else {
        whole(app, call, head, body, first, patience, attempt).await
    }
}

/// A stream: held while it has shown nothing that a client would miss.
async fn stream(
    call: &Call,
    head: hyper::http::response::Parts,
    mut body: UpstreamBody,
    first: Bytes,
    patience: Patience,
    attempt: Attempt,
) -> Result<Response, Failure> {
    let dialect = call.face.dialect;
    let mut observer = StreamObserver::new(dialect);
    let mut held = first;
    observer.feed(&held);
    let hold_until = Instant::now() + MAX_HOLD;
    while withheld(&observer, &attempt) && held.len() < MAX_HELD {
        let Ok(more) = tokio::time::timeout_at(hold_until, next(&mut body, &patience)).await else { break };
        let more = match more {
            Ok(more) => more,
            Err(failure) => return Err(give_up(attempt, failure)),
        };
        let Some(more) = more else {
            if matches!(observer.close(), Phase::Preamble | Phase::Output) {
                let failure = Failure::judged("the upstream closed the stream before any output".to_owned());
                return Err(give_up(attempt, failure));
            }
            break;
        };
        observer.feed(&more);
        let mut joined = BytesMut::from(held);
        joined.extend_from_slice(&more);
        held = joined.freeze();
    }
    // Whatever output came with it: the client has seen nothing yet.
    if let Phase::Failed(error) = observer.phase() {
        let failure = Failure::said(error.clone(), "stream error");
        return Err(give_up(attempt, failure));
    }
    if ended_empty(&observer, &attempt) {
        return Err(give_up(attempt, Failure::judged(Fault::Empty.message())));
    }
    let relay = Relay::new(dialect, body, held, observer, attempt, patience.idle);
    let mut response = Response::new(ResponseBody::stream(relay));
    headers::downstream(&head.headers, response.headers_mut());
    headers::event_stream(response.headers_mut());
    headers::request_id(dialect, call.face.id, response.headers_mut());
    Ok(response)
}

/// Whether the client would miss nothing yet. Where an empty answer counts as a failure, an end
/// without output waits for the usage that may follow it.
fn withheld(observer: &StreamObserver, attempt: &Attempt) -> bool {
    match observer.phase() {
        Phase::Preamble => true,
        Phase::Ended => !observer.is_finished() && ended_empty(observer, attempt),
        Phase::Output | Phase::Failed(_) => false,
    }
}

/// Whether the stream ended and the operator's rules call it empty (proxy.md 10.4).
fn ended_empty(observer: &StreamObserver, attempt: &Attempt) -> bool {
    matches!(observer.phase(), Phase::Ended)
        && !observer.output_seen()
        && attempt.app().settings.load().judge.fails_empty(false, observer.usage())
}

/// A complete answer: read, judged, handed on as it came.
async fn whole(
    app: &Arc<App>,
    call: &Call,
    head: hyper::http::response::Parts,
    mut body: UpstreamBody,
    first: Bytes,
    patience: Patience,
    mut attempt: Attempt,
) -> Result<Response, Failure> {
    let dialect = call.face.dialect;
    let length = http_body::Body::size_hint(&body).exact().map(|rest| rest + first.len() as u64);
    let mut reply = Response::new(ResponseBody::empty());
    *reply.status_mut() = head.status;
    headers::downstream(&head.headers, reply.headers_mut());
    headers::request_id(dialect, call.face.id, reply.headers_mut());
    let json = HeaderValue::from_static("application/json");
    let content_type = head.headers.get(header::CONTENT_TYPE).filter(|value| is_json(value)).cloned();
    let content_type = content_type.unwrap_or(json);
    reply.headers_mut().insert(header::CONTENT_TYPE, content_type);

    let (held, complete) = match hold(&mut body, first, length, &patience).await {
        Ok(held) => held,
        Err(failure) => return Err(give_up(attempt, failure)),
    };
    if !complete {
        if let Err(fault) = judge::beginning(&held) {
            return Err(give_up(attempt, Failure::judged(fault.message())));
        }
        let long = LongReply::new(dialect, body, held, length, attempt, patience.idle);
        *reply.body_mut() = ResponseBody::stream(long);
        return Ok(reply);
    }
    match judge::reply(dialect, &held, &app.settings.load().judge) {
        Ok(usage) => {
            app.metrics.sent_bytes.add(held.len() as u64);
            attempt.succeed(usage);
            *reply.body_mut() = ResponseBody::full(held);
            Ok(reply)
        }
        Err(judge::Fault::Error(error)) => {
            Err(give_up(attempt, Failure::said(error, "an error as an answer")))
        }
        Err(fault) => Err(give_up(attempt, Failure::judged(fault.message()))),
    }
}

/// What of an answer is to be judged, and whether that is all of it. One chunk is the usual case,
/// and needs no buffer.
async fn hold(
    body: &mut UpstreamBody,
    first: Bytes,
    length: Option<u64>,
    patience: &Patience,
) -> Result<(Bytes, bool), Failure> {
    if length.is_some_and(|length| length > MAX_JUDGED as u64) {
        return Ok((first, false));
    }
    let Some(second) = next(body, patience).await? else { return Ok((first, true)) };
    let begun = first.len() + second.len();
    let mut buffer = BytesMut::with_capacity(length.map_or(2 * begun, |length| length as usize));
    buffer.extend_from_slice(&first);
    buffer.extend_from_slice(&second);
    while buffer.len() <= MAX_JUDGED {
        match next(body, patience).await? {
            Some(more) => buffer.extend_from_slice(&more),
            None => return Ok((buffer.freeze(), true)),
        }
    }
    Ok((buffer.freeze(), false))
}

/// Settles a failed attempt.
fn give_up(mut attempt: Attempt, failure: Failure) -> Failure {
    let failure = failure.without(attempt.credential());
    attempt.fail(&failure);
    failure
}

async fn next(body: &mut UpstreamBody, patience: &Patience) -> Result<Option<Bytes>, Failure> {
    match patience.wait(patience.idle, body.data()).await? {
        None => Ok(None),
        Some(Ok(bytes)) => Ok(Some(bytes)),
        Some(Err(error)) => Err(Failure::network(error.kind(), error.message())),
    }
}

/// At most `limit` bytes of a body, and whether that was all of it.
async fn read_some(mut body: UpstreamBody, limit: usize, within: Duration) -> (Bytes, bool) {
    let mut read = BytesMut::new();
    let all = async {
        while let Some(data) = body.data().await {
            let Ok(data) = data else { return false };
            let room = limit - read.len();
            read.extend_from_slice(&data[..data.len().min(room)]);
            if data.len() > room {
                return false;
            }
        }
        true
    };
    let complete = timeout(within, all).await.unwrap_or(false);
    (read.freeze(), complete)
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|value| value.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
}

/// Any media type of JSON. What is handed on is JSON under whatever name it came; SDKs go by the name.
fn is_json(content_type: &HeaderValue) -> bool {
    let text = content_type.to_str().unwrap_or_default();
    text.split(';').next().is_some_and(|essence| essence.trim().to_ascii_lowercase().ends_with("json"))
}

/// Some upstreams stream under another content type (proxy.md 10.4).
fn looks_like_events(first: &[u8]) -> bool {
    let text = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first).trim_ascii_start();
    [b"data:".as_slice(), b"event:", b":"].iter().any(|prefix| text.starts_with(prefix))
}
