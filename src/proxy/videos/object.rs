//! The video object: created by the pipeline, read and deleted at the upstream that keeps it.

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};

use crate::dialect::{Dialect, judge, video};
use crate::http::{Request, Response, ResponseBody};
use crate::proxy::Proxy;
use crate::proxy::auth::Caller;
use crate::proxy::commit::judged;
use crate::proxy::failure::Failure;
use crate::proxy::forms;
use crate::proxy::headers;
use crate::proxy::operation::{CallKind, Operation};
use crate::proxy::redaction;
use crate::proxy::relay::renamed;
use crate::proxy::reply::response_of;
use crate::proxy::resource_upstream::{ResourceUpstream, Unreachable};
use crate::store::videos::{self, VideoRow, VideoStatus};
use crate::store::{self, Store};
use crate::time::{MINUTE, Millis, now_ms};
use crate::upstream::AnswerHead;

use super::lookup::{find, refused, shape};
use super::upstream::{self, Resource};

/// The surface whose headers and errors videos share: JSON in, JSON out, nothing converted.
pub(in crate::proxy) const SURFACE: Dialect = Dialect::Embeddings;
/// How often a poll without news is recorded, in milliseconds.
const RECORD_INTERVAL: Millis = MINUTE;

/// Serves `POST /v1/videos`.
pub(in crate::proxy) async fn create(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    forms::serve(proxy, CallKind::of_body(SURFACE, Operation::CreateVideo), request, caller).await
}

/// Serves `GET /v1/videos/{id}`.
pub(in crate::proxy) async fn get(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(retrieve(&proxy, &request, &caller).await)
}

/// Serves `DELETE /v1/videos/{id}`.
pub(in crate::proxy) async fn delete(proxy: Arc<Proxy>, request: Request, caller: Caller) -> Response {
    response_of(remove(&proxy, &request, &caller).await)
}

async fn retrieve(proxy: &Proxy, request: &Request, caller: &Caller) -> Result<Response, Response> {
    let shape = shape(request);
    let video = find(&proxy.core.store, request, caller, shape).await?;
    let mut upstream =
        upstream::of(&proxy.core, &video).await.map_err(|unreachable| refused(shape, &unreachable))?;
    let _slot = upstream.slot(&proxy.core, shape).await?;
    let (head, body) = match fetch(proxy, &mut upstream, &video, request).await {
        Ok(fetched) => fetched,
        Err(failure) => {
            let upstream_status = failure.upstream_status();
            record(&proxy.core.store, &video, VideoStatus { upstream_status, snapshot: None }).await;
            return Err(failure.into_response(shape));
        }
    };
    let secrets = upstream.secrets();
    let body = redaction::of_object(body, &secrets);
    let upstream_status = Some(head.status.as_u16());
    record(&proxy.core.store, &video, VideoStatus { upstream_status, snapshot: video::snapshot(&body) })
        .await;
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = head.status;
    headers::downstream(&head.headers, |value| secrets.is_in(value), response.headers_mut());
    headers::request_id(shape.dialect, shape.id, response.headers_mut());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = video::with_id(&body, &video.public_id);
    proxy.core.metrics.sent_bytes.add(body.len() as u64);
    *response.body_mut() = ResponseBody::full(body);
    Ok(if proxy.core.settings.load().echo_model {
        renamed::named(SURFACE, &video.requested_model, response)
    } else {
        response
    })
}

/// Deletes a video. If its upstream does not know it, cannot delete it, or cannot be reached any more, only the mapping is
/// deleted.
async fn remove(proxy: &Proxy, request: &Request, caller: &Caller) -> Result<Response, Response> {
    let shape = shape(request);
    let video = find(&proxy.core.store, request, caller, shape).await?;
    match upstream::of(&proxy.core, &video).await {
        Err(Unreachable::Gone(_)) => {}
        Err(unreachable) => return Err(refused(shape, &unreachable)),
        Ok(mut upstream) => {
            let _slot = upstream.slot(&proxy.core, shape).await?;
            let call = upstream::request(Method::DELETE, Resource::Video, &video, request);
            match upstream.send(proxy, &call).await {
                // Read to its end, so that the connection can be reused.
                Ok(answer) => drop(answer.read().await),
                Err(failure) if matches!(failure.upstream_status(), Some(404 | 405 | 410 | 501)) => {}
                Err(failure) => return Err(failure.into_response(shape)),
            }
        }
    }
    match videos::delete(&proxy.core.store, video.id).await {
        Ok(()) => {}
        // A concurrent request was faster.
        Err(store::Error::NotFound) => return Err(shape.no_such("video", &video.public_id)),
        Err(error) => return Err(shape.database_failed("Videos", &error)),
    }
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    headers::request_id(shape.dialect, shape.id, response.headers_mut());
    Ok(response)
}

/// Fetches the video object from its upstream. A 2xx answer that is an error, a page or no object fails.
async fn fetch(
    proxy: &Proxy,
    upstream: &mut ResourceUpstream,
    video: &VideoRow,
    request: &Request,
) -> Result<(AnswerHead, Bytes), Failure> {
    let call = upstream::request(Method::GET, Resource::Video, video, request);
    let (head, body) = upstream.send(proxy, &call).await?.read().await?;
    // The object of a failed video contains an error too: with an id it is a video.
    match judge::object(SURFACE, &body) {
        Err(fault) if video::id(&body).is_none() => Err(judged(fault)),
        _ => Ok((head, body)),
    }
}

/// Records the result of a poll, if it is new or the last record is old. A failure to do so is only logged.
async fn record(store: &Store, video: &VideoRow, current: VideoStatus) {
    let now = now_ms();
    let known = &video.status;
    let is_new = known.upstream_status != current.upstream_status
        || current.snapshot.is_some() && known.snapshot != current.snapshot;
    let is_due = video.last_polled_at.is_none_or(|last| now - last >= RECORD_INTERVAL);
    if (is_new || is_due)
        && let Err(error) = videos::record_status(store, video.id, &current, now).await
    {
        log::warn!("the status of video {} could not be stored: {error}", video.public_id);
    }
}
