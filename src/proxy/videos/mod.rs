//! `/v1/videos`: asked for like an answer, and asked after where it is made (proxy.md 14.6).
//!
//! ```text
//! POST   ─ the pipeline, like any call ─ the upstream's id ─ kept under a name of ours ─ told   keep
//! GET    ─ our name ─ who makes it, and the way there ─ asked, told under our name             way
//! GET    ─ …/content, passed on as it comes                                                    content
//! DELETE ─ the same way, and forgotten here
//! ```
//!
//! Every look-up is by owner: a video of one key does not exist for another. Asking after a video is no
//! call: it is not routed, counted or logged, but it takes its slot at a site that has few.

mod content;
mod keep;
mod way;

use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::http::response::Parts;
use hyper::{Method, StatusCode};

use crate::app::App;
use crate::dialect::{Dialect, judge, video};
use crate::http::{Request, Response, ResponseBody};
use crate::limits::Lease;
use crate::store;
use crate::store::owner::Owner;
use crate::store::videos::{self, Snapshot, VideoRow};
use crate::time::{Millis, now_ms};

use super::auth::Caller;
use super::call::Operation;
use super::commit::judged;
use super::failure::Failure;
use super::forms;
use super::headers;
use super::renamed;
use super::reply::Face;

pub(super) use content::content;
pub(super) use keep::{Begun, keep};
use way::{NoWay, Question, Subject, Way};

/// The surface whose manners a video has: one JSON object there, one back.
pub(super) const SURFACE: Dialect = Dialect::Embeddings;
/// What every id of ours begins with.
const PREFIX: &str = "vid_";
/// A question that tells nothing new is noted this often.
const NOTE_EVERY: Millis = 60_000;

/// `POST /v1/videos`
pub(super) async fn create(app: Arc<App>, request: Request, caller: Caller) -> Response {
    forms::serve(app, SURFACE, Operation::CreateVideo, request, caller).await
}

/// `GET /v1/videos/{id}`
pub(super) async fn get(app: Arc<App>, request: Request, caller: Caller) -> Response {
    either(told(&app, &request, &caller).await)
}

/// `DELETE /v1/videos/{id}`
pub(super) async fn delete(app: Arc<App>, request: Request, caller: Caller) -> Response {
    either(deleted(&app, &request, &caller).await)
}

async fn told(app: &App, request: &Request, caller: &Caller) -> Result<Response, Response> {
    let face = face(request);
    let video = find(app, request, caller, face).await?;
    let way = Way::to(app, &video).await.map_err(|no_way| refused(face, &no_way))?;
    let _slot = slot(app, &way, face).await?;
    let (head, body) = match asked_after(app, &way, &video, request).await {
        Ok(told) => told,
        Err(failure) => {
            note(app, &video, Snapshot { upstream_status: failure.upstream_status(), status: None }).await;
            return Err(failure.into_response(face));
        }
    };
    let status = video::snapshot(&body);
    note(app, &video, Snapshot { upstream_status: Some(head.status.as_u16()), status }).await;
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = head.status;
    headers::downstream(&head.headers, response.headers_mut());
    headers::request_id(face.dialect, face.id, response.headers_mut());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let body = video::renamed(&body, &video.public_id);
    app.metrics.sent_bytes.add(body.len() as u64);
    *response.body_mut() = ResponseBody::full(body);
    Ok(match app.settings.load().echo_model {
        true => renamed::named(SURFACE, &video.requested_model, response),
        false => response,
    })
}

/// What is not there any more is as good as deleted, and so is what nobody can reach.
async fn deleted(app: &App, request: &Request, caller: &Caller) -> Result<Response, Response> {
    let face = face(request);
    let video = find(app, request, caller, face).await?;
    match Way::to(app, &video).await {
        Err(NoWay::Lost(_)) => {}
        Err(no_way) => return Err(refused(face, &no_way)),
        Ok(way) => {
            let _slot = slot(app, &way, face).await?;
            let question = Question { method: Method::DELETE, subject: Subject::Video, request };
            match way.ask(app, &video, &question).await {
                // Read to its end, so that the connection serves the next one.
                Ok(answer) => drop(answer.whole().await),
                Err(failure) if matches!(failure.upstream_status(), Some(404 | 405 | 410 | 501)) => {}
                Err(failure) => return Err(failure.into_response(face)),
            }
        }
    }
    match videos::delete(&app.store, video.id).await {
        Ok(()) => {}
        // Somebody else was faster.
        Err(store::Error::NotFound) => return Err(unknown(face, &video.public_id)),
        Err(error) => return Err(unreadable(face, &error)),
    }
    let mut response = Response::new(ResponseBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    headers::request_id(face.dialect, face.id, response.headers_mut());
    Ok(response)
}

/// The video that the path names, if it is the caller's.
async fn find(app: &App, request: &Request, caller: &Caller, face: Face) -> Result<VideoRow, Response> {
    let id = request.params.get("id");
    if !id.starts_with(PREFIX) {
        return Err(unknown(face, id));
    }
    let owner = Owner::of_key(caller.key_id());
    let found = videos::find(&app.store, &owner, id).await;
    found.map_err(|error| unreadable(face, &error))?.ok_or_else(|| unknown(face, id))
}

/// A slot at the site that is asked.
async fn slot(app: &App, way: &Way, face: Face) -> Result<Lease, Response> {
    let lease = app.leases.lease(way.site_id).await;
    lease.map_err(|_| face.site_saturated(app.leases.rules().retry_after_secs()))
}

/// What the upstream says of a video. A good status may come with anything: only an object that is no
/// error speaks of one.
async fn asked_after(
    app: &App,
    way: &Way,
    video: &VideoRow,
    request: &Request,
) -> Result<(Parts, Bytes), Failure> {
    let question = Question { method: Method::GET, subject: Subject::Video, request };
    let (head, body) = way.ask(app, video, &question).await?.whole().await?;
    // A video that failed says why, and is told as it is.
    match judge::object(SURFACE, &body) {
        Err(fault) if video::id(&body).is_none() => Err(judged(fault)),
        _ => Ok((head, body)),
    }
}

/// Keeps what is new; that it could not be kept takes nothing from the answer.
async fn note(app: &App, video: &VideoRow, now_known: Snapshot) {
    let now = now_ms();
    let known = &video.snapshot;
    let is_new = known.upstream_status != now_known.upstream_status
        || now_known.status.is_some() && known.status != now_known.status;
    let is_due = video.last_polled_at.is_none_or(|last| now - last >= NOTE_EVERY);
    if (is_new || is_due)
        && let Err(error) = videos::note(&app.store, video.id, &now_known, now).await
    {
        log::warn!("how far video {} is could not be kept: {error}", video.public_id);
    }
}

fn face(request: &Request) -> Face {
    Face::of(&request.headers, None, request.id)
}

fn unknown(face: Face, id: &str) -> Response {
    let shown: String = id.chars().take(100).collect();
    face.refuse(404, &format!("No such video: {shown}"), None, Some("video_id"))
}

fn unreadable(face: Face, error: &store::Error) -> Response {
    log::error!("a request for a video failed in the store: {error}");
    face.refuse(503, "Videos cannot be looked up at the moment", None, None)
}

fn refused(face: Face, no_way: &NoWay) -> Response {
    match no_way {
        NoWay::Lost(why) => face.refuse(410, why, Some("video_unreachable"), Some("video_id")),
        NoWay::Misconfigured(why) => Failure::local(why.clone()).into_response(face),
        NoWay::Unreadable(error) => unreadable(face, error),
    }
}

fn either(answer: Result<Response, Response>) -> Response {
    answer.unwrap_or_else(|refusal| refusal)
}
